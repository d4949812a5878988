//! What is told of an accelerator: its power, its parts, its energy.

/// What is told of an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Its power, in the one form that it is measured best in.
    Power,
    /// Its power at the moment, beside an average.
    Instant,
    /// Its own count of energy, beside its power.
    Energy,
    /// The power of a part of it.
    Component(Component),
}

/// A part of an accelerator that is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The package of an APU, by its own table.
    Socket,
    /// Its graphics part.
    Gfx,
    /// Its CPU cores.
    CpuCores,
    /// Its NPU.
    Npu,
    /// The memory of a GPU.
    Memory,
}

impl Component {
    /// The `component` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Gfx => "gfx",
            Self::CpuCores => "cpu_cores",
            Self::Npu => "npu",
            Self::Memory => "memory",
        }
    }
}

impl Quantity {
    /// What its sensor is called behind the address of the device.
    pub fn id_of(self, pci: &str) -> String {
        match self {
            Self::Power => format!("{pci}/power"),
            Self::Instant => format!("{pci}/instant"),
            Self::Energy => format!("{pci}/energy"),
            Self::Component(component) => format!("{pci}/component/{}", component.as_str()),
        }
    }

    /// The `type` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Instant => "instant",
            Self::Energy => "energy",
            Self::Component(component) => component.as_str(),
        }
    }
}
