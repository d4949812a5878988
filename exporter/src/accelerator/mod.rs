//! Accelerators: what sysfs shows of them, and the thread that reads each.
//!
//! [`device`] says which there are; [`hwmon`] and [`gpu_metrics`] where their drivers show power; a [`reader`] asks
//! whether its device is awake, and only then reads it. GPUs of NVIDIA are read through their library, see
//! `sources::nvml`; here they are only known.

pub mod counters;
pub mod device;
pub mod energy_check;
pub mod gpu_metrics;
pub mod hwmon;
pub mod live;
pub mod quantity;
pub mod reader;
pub mod scope;
pub mod watched;
