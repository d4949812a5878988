//! The power of superchip modules as their GPUs report it, through NVML.
//!
//! Each GPU of a module (GH200, GB200) reports the mean power of the whole module over the last second: CPU,
//! GPUs, memories, regulators. Which socket it stands by is the NUMA node of its PCI device
//! (kernel: Documentation/ABI/testing/sysfs-bus-pci). A GPU is known by its UUID and never by its index,
//! which another one may have tomorrow. One that sleeps is left asleep: sysfs tells, without waking it.

use std::path::PathBuf;

use nvml_wrapper::error::NvmlError;
use tracing::warn;
use wattscribe_rules::Averaging;

use crate::clock::Now;
use crate::failure::Failure;
use crate::library::{Library, OpenError, Reading, Session};
use crate::nvml_lib::{Described, FieldValue, LoadError, NvmlLib};
use crate::plausible::power;
use crate::sensor::{Gpu, Kind, Meter, Sensor, Source};
use crate::sysfs::Sysfs;

/// The names that the driver installs its library under.
pub const LIBRARY_NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// What the field averages over, in seconds (NVIDIA: nvml.h, NVML_FI_DEV_POWER_AVERAGE).
const WINDOW_S: f64 = 1.0;

/// NVML of this node.
#[derive(Debug)]
pub struct Nvml {
    names: Vec<PathBuf>,
    sysfs: Sysfs,
    /// Whether it was said that persistence mode is off.
    has_warned: bool,
}

impl Nvml {
    /// The first of these libraries that can be loaded.
    pub fn new(names: Vec<PathBuf>, sysfs: Sysfs) -> Self {
        Self { names, sysfs, has_warned: false }
    }

    /// Says once where measuring changes what is measured: a driver without persistence mode lets a GPU go when its
    /// last user leaves, and we never leave (NVIDIA: Driver Persistence). What nobody tells is not worth a word.
    fn warn_of_persistence(&mut self, nvml: &NvmlLib) {
        let off: Vec<String> =
            nvml.without_persistence().iter().map(|bus_id| pci_address(bus_id)).collect();
        if !off.is_empty() && !std::mem::replace(&mut self.has_warned, true) {
            warn!(
                source = "nvml",
                "persistence mode of the GPUs at {} is off: they stay initialised for as long as they are read here, which costs power while they are idle",
                off.join(", ")
            );
        }
    }
}

impl Library for Nvml {
    fn open(&mut self) -> Result<Box<dyn Session>, OpenError> {
        // Initialising NVML wakes every GPU. Where GPUs can sleep there is no superchip to measure.
        if let Some(pci) = sleeping_gpu(&self.sysfs) {
            return Err(OpenError::Failed(format!("the GPU at {pci} is asleep, and is not woken")));
        }
        let nvml = NvmlLib::load(&self.names).map_err(|error| match error {
            LoadError::Absent(_) => OpenError::Absent(error.to_string()),
            LoadError::Init(_) => OpenError::Failed(error.to_string()),
        })?;
        self.warn_of_persistence(&nvml);
        Ok(Box::new(NvmlSession { nvml, sysfs: self.sysfs.clone(), ids: Vec::new() }))
    }
}

struct NvmlSession {
    nvml: NvmlLib,
    sysfs: Sysfs,
    /// The ids of the GPUs in the order in which NVML described them.
    ids: Vec<String>,
}

impl Session for NvmlSession {
    fn discover(&mut self) -> Result<Vec<Sensor>, String> {
        let described = self.nvml.describe().map_err(|error| in_words(&error))?;
        let sensors: Vec<Sensor> =
            described.into_iter().map(|gpu| sensor(gpu, &self.sysfs)).collect();
        self.ids = sensors.iter().map(|sensor| sensor.id.clone()).collect();
        Ok(sensors)
    }

    fn read(&mut self, sensors: &[&Sensor]) -> Result<Vec<Reading>, String> {
        sensors.iter().map(|sensor| self.read_one(sensor)).collect()
    }
}

impl NvmlSession {
    fn read_one(&self, sensor: &Sensor) -> Result<Reading, String> {
        let started = Now::read();
        let place = self.ids.iter().position(|id| *id == sensor.id);
        let watts = match place {
            _ if is_asleep(&self.sysfs, &sensor.channel) => Err(Failure::Busy),
            None => Err(Failure::Gone),
            Some(place) => match self.value(place, sensor) {
                Ok(Some(value)) => watts(value),
                Ok(None) => Err(Failure::Gone),
                Err(error) if ends_session(&error) => return Err(in_words(&error)),
                Err(error) => Err(failure(&error)),
            },
        };
        let ended = Now::read();
        Ok(Reading { watts, at: started.midpoint(&ended), took: ended.since(&started) })
    }
}

impl NvmlSession {
    /// A GPU's value, or nothing where the handle stands for another GPU by now.
    fn value(&self, place: usize, sensor: &Sensor) -> Result<Option<FieldValue>, NvmlError> {
        let value = self.nvml.module_average(place)?;
        let is_same = sensor.id == sensor.channel || self.nvml.uuid(place)? == sensor.id;
        Ok(is_same.then_some(value))
    }
}

fn sensor(described: Described, sysfs: &Sysfs) -> Sensor {
    let Described { index, uuid, bus_id, name } = described;
    let pci = pci_address(&bus_id);
    let numa_node = sysfs.text_if_any(&sysfs.pci_device(&pci).join("numa_node"));
    Sensor {
        source: Source::Nvml,
        id: uuid.clone().unwrap_or_else(|| pci.clone()),
        channel: pci.clone(),
        kind: Kind::Module,
        // -1 where the firmware says nothing.
        socket: numa_node.and_then(|node| node.parse().ok()),
        label: name,
        averaging: Averaging::Mean { window_s: WINDOW_S },
        meter: Meter::Gpu(Gpu { index, uuid: uuid.unwrap_or_default(), pci }),
    }
}

/// `00000008:01:00.0`, as NVML writes it, as sysfs does: `0008:01:00.0`.
fn pci_address(bus_id: &str) -> String {
    let address = bus_id.to_ascii_lowercase();
    let Some((domain, rest)) = address.split_once(':') else { return address };
    format!("{:0>4}:{rest}", domain.trim_start_matches('0'))
}

/// A GPU of NVIDIA that runtime power management holds asleep.
fn sleeping_gpu(sysfs: &Sysfs) -> Option<String> {
    let is_gpu = |pci: &String| {
        let text = |name| sysfs.text_if_any(&sysfs.pci_device(pci).join(name));
        // Vendor 10de is NVIDIA; classes 0300 and 0302 are displays and 3D controllers.
        text("vendor").is_some_and(|vendor| vendor == "0x10de")
            && text("class").is_some_and(|class| class.starts_with("0x03"))
    };
    let devices = sysfs.list(&sysfs.pci_devices()).unwrap_or_default();
    devices.into_iter().filter(is_gpu).find(|pci| is_asleep(sysfs, pci))
}

/// Whether a PCI device sleeps. What nobody tells is awake.
fn is_asleep(sysfs: &Sysfs, pci: &str) -> bool {
    let device = sysfs.pci_device(pci);
    let says = |name, word| sysfs.text_if_any(&device.join(name)).is_some_and(|text| text == word);
    says("power/runtime_status", "suspended") || says("power_state", "D3cold")
}

/// What NVML's milliwatts are in watts. A module that is read draws something.
fn watts(value: FieldValue) -> Result<f64, Failure> {
    let [a, b, c, d, ..] = value.bytes;
    // nvmlValueType_t (NVIDIA: nvml.h). The other types are signed or short, and hold no power.
    let milliwatts = match value.kind {
        0 => f64::from_ne_bytes(value.bytes),
        1 => f64::from(u32::from_ne_bytes([a, b, c, d])),
        2 | 3 => u64::from_ne_bytes(value.bytes) as f64,
        _ => return Err(Failure::Malformed),
    };
    power(milliwatts / 1e3, false)
}

/// Whether an error is about the driver and not about one GPU: NVML has to be initialised anew.
fn ends_session(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::Uninitialized
            | NvmlError::DriverNotLoaded
            | NvmlError::LibraryNotFound
            | NvmlError::LibRmVersionMismatch
    )
}

/// An error in words. Those of the wrapper for a session that the driver has ended blame the caller.
fn in_words(error: &NvmlError) -> String {
    match error {
        NvmlError::Uninitialized => "the driver was loaded anew".to_owned(),
        error => error.to_string(),
    }
}

/// What an error means for one GPU.
fn failure(error: &NvmlError) -> Failure {
    match error {
        // A driver that knows no scopes refuses the argument.
        NvmlError::NotSupported
        | NvmlError::InvalidArg
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_) => Failure::NotSupported,
        NvmlError::NoPermission => Failure::NotPermitted,
        NvmlError::NotFound => Failure::NotFound,
        NvmlError::GpuLost => Failure::Gone,
        NvmlError::Timeout => Failure::Timeout,
        NvmlError::NoData => Failure::NoData,
        _ => Failure::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_sysfs_does() {
        let cases = [
            ("00000008:01:00.0", "0008:01:00.0"),
            ("0008:01:00.0", "0008:01:00.0"),
            ("0000000A:C1:00.0", "000a:c1:00.0"),
            ("00010000:01:00.0", "10000:01:00.0"), // a domain of its own, as VMD makes
            ("00000000:01:00.0", "0000:01:00.0"),
        ];
        for (bus_id, expected) in cases {
            assert_eq!(pci_address(bus_id), expected);
        }
    }

    #[test]
    fn milliwatts_of_every_type_become_watts_or_a_reason() {
        let wide = |value: u64| value.to_ne_bytes();
        let double = |value: f64| value.to_ne_bytes();
        let narrow = |value: u32| {
            let [a, b, c, d] = value.to_ne_bytes();
            [a, b, c, d, 0, 0, 0, 0]
        };
        let cases = [
            (0, double(498_720.0), Ok(498.72)),
            (1, narrow(500_000), Ok(500.0)),
            (2, wide(500_000), Ok(500.0)),
            (3, wide(1), Ok(0.001)),
            (4, wide(500_000), Err(Failure::Malformed)),
            (5, wide(500_000), Err(Failure::Malformed)),
            (99, wide(500_000), Err(Failure::Malformed)),
            (0, double(f64::NAN), Err(Failure::Malformed)),
            (0, double(f64::INFINITY), Err(Failure::Malformed)),
            (0, double(-1.0), Err(Failure::Negative)),
            (0, double(0.0), Err(Failure::Zero)),
            (1, narrow(0), Err(Failure::Zero)),
            (0, double(0.000_1), Err(Failure::Zero)),
            (1, narrow(20_000_001), Err(Failure::OverLimit)),
            (1, narrow(i32::MAX as u32), Err(Failure::OverLimit)),
            (1, narrow(u32::MAX - 1), Err(Failure::SensorUnknown)),
            (1, narrow(u32::MAX), Err(Failure::SensorUnknown)),
            (3, wide(u64::MAX), Err(Failure::SensorUnknown)),
        ];
        for (kind, bytes, expected) in cases {
            assert_eq!(watts(FieldValue { kind, bytes }), expected, "type {kind}, {bytes:?}");
        }
    }

    #[test]
    fn an_error_is_about_one_gpu_or_about_the_driver() {
        let cases = [
            (1, None), // uninitialised
            (2, Some(Failure::NotSupported)),
            (3, Some(Failure::NotSupported)),
            (4, Some(Failure::NotPermitted)),
            (6, Some(Failure::NotFound)),
            (9, None), // driver not loaded
            (10, Some(Failure::Timeout)),
            (11, Some(Failure::Io)),
            (12, None), // library not found
            (13, Some(Failure::NotSupported)),
            (15, Some(Failure::Gone)),
            (16, Some(Failure::Io)),
            (18, None), // driver and library of two versions
            (999, Some(Failure::Io)),
            (12_345, Some(Failure::Io)),
        ];
        for (code, expected) in cases {
            let error = nvml_wrapper::error::nvml_try(code).unwrap_err();
            let found = (!ends_session(&error)).then(|| failure(&error));
            assert_eq!(found, expected, "code {code}: {error}");
        }
    }
}
