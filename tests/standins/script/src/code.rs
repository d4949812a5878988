//! The return codes of both libraries, by the names that their headers give them (without `NVML_ERROR_` or
//! `DCGM_ST_`): `nvml.h` of the NVML API reference, `dcgm_structs.h` of NVIDIA DCGM 4.
//!
//! A script names a code; a name that does not exist is a fault of the script.

use std::ffi::CStr;
use std::fmt::Debug;

use serde::{Deserialize, Serialize};

/// A return code of a library.
pub trait Code: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// Success.
    const OK: Self;

    /// The number that goes over the C interface.
    fn number(self) -> i32;

    /// The name, as C text: what the library's own function for texts returns.
    fn text(self) -> &'static CStr;

    /// The code of a number, if it is one.
    fn of(number: i32) -> Option<Self>;
}

/// An enum of codes whose names in JSON and as C text are written once.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident, ok $ok:ident: $($variant:ident = $number:literal $word:literal,)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            $(#[doc = concat!("`", $word, "`")] #[serde(rename = $word)] $variant = $number,)+
        }

        impl Code for $name {
            const OK: Self = Self::$ok;

            fn number(self) -> i32 {
                self as i32
            }

            fn text(self) -> &'static CStr {
                let text = match self {
                    $(Self::$variant => concat!($word, "\0"),)+
                };
                CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default()
            }

            fn of(number: i32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// What a call of NVML returns.
    NvmlReturn, ok Success:
    Success = 0 "SUCCESS",
    Uninitialized = 1 "UNINITIALIZED",
    InvalidArgument = 2 "INVALID_ARGUMENT",
    NotSupported = 3 "NOT_SUPPORTED",
    NoPermission = 4 "NO_PERMISSION",
    AlreadyInitialized = 5 "ALREADY_INITIALIZED",
    NotFound = 6 "NOT_FOUND",
    InsufficientSize = 7 "INSUFFICIENT_SIZE",
    InsufficientPower = 8 "INSUFFICIENT_POWER",
    DriverNotLoaded = 9 "DRIVER_NOT_LOADED",
    Timeout = 10 "TIMEOUT",
    IrqIssue = 11 "IRQ_ISSUE",
    LibraryNotFound = 12 "LIBRARY_NOT_FOUND",
    FunctionNotFound = 13 "FUNCTION_NOT_FOUND",
    CorruptedInforom = 14 "CORRUPTED_INFOROM",
    GpuIsLost = 15 "GPU_IS_LOST",
    ResetRequired = 16 "RESET_REQUIRED",
    OperatingSystem = 17 "OPERATING_SYSTEM",
    LibRmVersionMismatch = 18 "LIB_RM_VERSION_MISMATCH",
    InUse = 19 "IN_USE",
    Memory = 20 "MEMORY",
    NoData = 21 "NO_DATA",
    VgpuEccNotSupported = 22 "VGPU_ECC_NOT_SUPPORTED",
    InsufficientResources = 23 "INSUFFICIENT_RESOURCES",
    FreqNotSupported = 24 "FREQ_NOT_SUPPORTED",
    ArgumentVersionMismatch = 25 "ARGUMENT_VERSION_MISMATCH",
    Deprecated = 26 "DEPRECATED",
    NotReady = 27 "NOT_READY",
    GpuNotFound = 28 "GPU_NOT_FOUND",
    InvalidState = 29 "INVALID_STATE",
    ResetTypeNotSupported = 30 "RESET_TYPE_NOT_SUPPORTED",
    Unknown = 999 "UNKNOWN",
}

codes! {
    /// What a call of DCGM returns, and the status of a value.
    DcgmReturn, ok Ok:
    Ok = 0 "OK",
    BadParam = -1 "BADPARAM",
    GenericError = -3 "GENERIC_ERROR",
    Memory = -4 "MEMORY",
    NotConfigured = -5 "NOT_CONFIGURED",
    NotSupported = -6 "NOT_SUPPORTED",
    InitError = -7 "INIT_ERROR",
    NvmlError = -8 "NVML_ERROR",
    Pending = -9 "PENDING",
    Uninitialized = -10 "UNINITIALIZED",
    Timeout = -11 "TIMEOUT",
    VerMismatch = -12 "VER_MISMATCH",
    UnknownField = -13 "UNKNOWN_FIELD",
    NoData = -14 "NO_DATA",
    StaleData = -15 "STALE_DATA",
    NotWatched = -16 "NOT_WATCHED",
    NoPermission = -17 "NO_PERMISSION",
    GpuIsLost = -18 "GPU_IS_LOST",
    ResetRequired = -19 "RESET_REQUIRED",
    FunctionNotFound = -20 "FUNCTION_NOT_FOUND",
    ConnectionNotValid = -21 "CONNECTION_NOT_VALID",
    GpuNotSupported = -22 "GPU_NOT_SUPPORTED",
    GroupIncompatible = -23 "GROUP_INCOMPATIBLE",
    MaxLimit = -24 "MAX_LIMIT",
    LibraryNotFound = -25 "LIBRARY_NOT_FOUND",
    DuplicateKey = -26 "DUPLICATE_KEY",
    RequiresRoot = -29 "REQUIRES_ROOT",
    InsufficientSize = -31 "INSUFFICIENT_SIZE",
    FieldUnsupportedByApi = -32 "FIELD_UNSUPPORTED_BY_API",
    ModuleNotLoaded = -33 "MODULE_NOT_LOADED",
    InUse = -34 "IN_USE",
    GroupIsEmpty = -35 "GROUP_IS_EMPTY",
    InsufficientResources = -49 "INSUFFICIENT_RESOURCES",
    Paused = -54 "PAUSED",
    NvmlNotLoaded = -56 "NVML_NOT_LOADED",
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<C: Code + Serialize + for<'de> Deserialize<'de>>(number: i32, word: &str) {
        let code = C::of(number).unwrap();
        assert_eq!(code.number(), number);
        assert_eq!(code.text().to_str().unwrap(), word);
        assert_eq!(serde_json::to_value(code).unwrap(), word);
        assert_eq!(serde_json::from_value::<C>(word.into()).unwrap(), code);
    }

    #[test]
    fn a_code_is_its_number_and_its_name() {
        check::<NvmlReturn>(0, "SUCCESS");
        check::<NvmlReturn>(15, "GPU_IS_LOST");
        check::<NvmlReturn>(999, "UNKNOWN");
        check::<DcgmReturn>(0, "OK");
        check::<DcgmReturn>(-21, "CONNECTION_NOT_VALID");
        assert_eq!(NvmlReturn::of(31), None);
        assert!(serde_json::from_str::<NvmlReturn>("\"LOST\"").is_err());
    }
}
