//! What the power of an accelerator covers.

/// What a value covers, the widest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The package of an APU: its CPU, its GPU and its NPU.
    Socket,
    /// A whole card with its regulators and fans.
    Card,
    /// The GPU with its memory, as its maker draws the line.
    Gpu,
    /// The package of a GPU on a card.
    Package,
    /// Nobody tells: a chip of AMD whose table cannot be read may be an APU or a card.
    Unknown,
}

impl Scope {
    /// The `scope` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Card => "card",
            Self::Gpu => "gpu",
            Self::Package => "package",
            Self::Unknown => "unknown",
        }
    }
}
