//! The sources of readings. A new one is a file here and a line in [`discover`].

pub mod acpi;
pub mod rapl;

use crate::sensor::{Sensor, Source};
use crate::sysfs::Sysfs;

/// The sensors of one source, or why there are none: a sentence for the log.
pub fn discover(source: Source, sysfs: &Sysfs) -> Result<Vec<Sensor>, String> {
    match source {
        Source::Acpi => acpi::discover(sysfs),
        Source::Rapl => rapl::discover(sysfs),
    }
}
