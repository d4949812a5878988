//! How a call of DCGM fails, in words.

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DcgmError {
    /// None of the names can be loaded.
    #[error("no DCGM library: tried {0}")]
    Absent(String),
    /// The library has no such function.
    #[error("{library} has no {symbol}")]
    Symbol {
        /// The library.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// A function returned an error.
    #[error("{call} returned {code}{}", meaning(*code))]
    Call {
        /// The function.
        call: &'static str,
        /// `dcgmReturn_t`.
        code: i32,
    },
    /// An address that no C string can hold.
    #[error("the address {0:?} contains a NUL")]
    Address(String),
}

impl DcgmError {
    /// Whether the connection to the engine has ended.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Call { code: -21, .. })
    }

    /// Whether the same call will never come to anything: not supported, no such field, no permission.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self, Self::Call { code: -6 | -13 | -17 | -29, .. })
    }
}

/// What the usual codes are called (`dcgm_structs.h`).
fn meaning(code: i32) -> &'static str {
    match code {
        -6 => " (not supported)",
        -7 => " (initialisation failed)",
        -10 => " (not initialised)",
        -11 => " (timeout)",
        -13 => " (unknown field)",
        -17 => " (no permission)",
        -21 => " (no connection to an engine)",
        -25 => " (a library was not found)",
        -29 => " (root is required)",
        -33 => " (a module is not loaded)",
        _ => "",
    }
}
