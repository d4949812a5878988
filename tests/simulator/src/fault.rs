//! What can be wrong with a sensor, as its reader meets it.

/// A fault of one sensor's reading. It lasts until the sensor is healed; the truth is not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The file holds this text: `N/A`, nothing at all, `4294967295000`.
    Text(String),
    /// The file is not there.
    Missing,
    /// The file has no permissions. A reader with `CAP_DAC_READ_SEARCH`, such as root, reads it all the
    /// same, and sees the last value before the fault.
    Denied,
    /// Opening succeeds and reading fails with `EIO`.
    ReadError,
    /// The value stays as it is while the power goes on.
    Frozen,
    /// Opening the file blocks until the sensor is healed or the simulation ends; the reader then finds
    /// it empty. The file is a FIFO, so a reader that asks for regular files sees none.
    Hung,
}
