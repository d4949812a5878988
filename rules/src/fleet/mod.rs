//! The accelerators of a fleet at one instant, from what their agents told and when.
//!
//! Pure: addresses that were found, answers and failures go in, each with its time; a [`Snapshot`] comes out for any later
//! instant. What is not fresh, sleeps or was refused is listed as such and in no total.

mod device;
mod roll;
mod snapshot;

pub use device::{FleetDevice, Joules, Reading, WATTS_MAX};
pub use roll::{Fleet, FleetLimits, Found};
pub use snapshot::{Listed, Snapshot, Standing};
