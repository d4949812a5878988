//! The sources of readings. A new one is a file here and, where its sensors are files, a line in [`discover`].

pub mod acpi;
pub mod dcgm;
pub mod nvml;
mod nvml_query;
pub mod rapl;

mod dcgm_value;
mod gpu_names;

use crate::sensor::{Sensor, Source};
use crate::sysfs::Sysfs;

/// The sensors of one source that are files, or why there are none: a sentence for the log.
pub fn discover(source: Source, sysfs: &Sysfs) -> Result<Vec<Sensor>, String> {
    match source {
        Source::Acpi => acpi::discover(sysfs),
        Source::Rapl => rapl::discover(sysfs),
        // The thread that owns the library finds them.
        _ => Err("its sensors are no files".to_owned()),
    }
}
