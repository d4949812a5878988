//! Machines whose power is known exactly: a sysfs tree on disk, driven by waveforms with a closed form.
//!
//! The demo runs the real exporter over such a tree, and the tests compare what the whole pipeline
//! measured with what was true. So a simulated machine has to look like a kernel to a reader (same
//! files, same links, same text) and like a formula to a test (`joules` is an antiderivative, never a
//! sum of samples).
//!
//! - [`Waveform`]: power as a function of time, and its exact integral.
//! - [`Machine`]: what a node is made of; [`Sensor`]: one power channel of it.
//! - [`Tree`]: a machine as files under a sysfs root, refreshed to a given time. No clock, no thread.
//! - [`Simulation`]: trees refreshed by a thread on the real clock, with faults injected while it runs.
//!
//! Every sysfs root it makes holds the file [`MARKER`], so that nobody takes its numbers for a measurement.

mod disk;
mod error;
mod fault;
mod hwmon;
mod machine;
mod powercap;

mod sensor;
mod simulation;
mod tree;
mod waveform;

pub use error::SimulatorError;
pub use fault::Fault;
pub use machine::{GraceSocket, HwmonLayout, Kind, Machine, RaplPackage};
pub use sensor::{Rail, Sensor};
pub use simulation::{Simulation, UPDATE_PERIOD};
pub use tree::{MARKER, Tree};
pub use waveform::Waveform;
