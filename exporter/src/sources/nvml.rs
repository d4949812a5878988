//! GPUs through NVML: their own power and energy, and the power of superchip modules as they report it.
//!
//! Each GPU of a module (GH200, GB200) reports the mean power of the whole module over the last second: CPU,
//! GPUs, memories, regulators. Which socket it stands by is the NUMA node of its PCI device
//! (kernel: Documentation/ABI/testing/sysfs-bus-pci). A GPU is known by its UUID and never by its index,
//! which another one may have tomorrow. One that sleeps is left asleep: sysfs tells, without waking it.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nvml_wrapper::error::NvmlError;
use tracing::warn;

use crate::accelerator::device::{driver, is_asleep};
use crate::clock::Now;
use crate::failure::Failure;
use crate::library::{Found, Library, Listener, OpenError, Reading, Session};
use crate::nvml_lib::{self, FieldValue, LoadError, NvmlLib};
use crate::sensor::{Gpu, Kind, Measure, Meter, Sensor, Source};
use crate::sources::gpu_names::{Described, Named, Names};
use crate::sources::nvml_query::{Query, Question, supported};
use crate::sysfs::Sysfs;

/// The names that the driver installs its library under.
pub const LIBRARY_NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// NVML of this node.
#[derive(Debug)]
pub struct Nvml {
    libraries: Vec<PathBuf>,
    sysfs: Sysfs,
    /// What the GPUs go by, for longer than one session: a driver that is loaded anew may stumble at first.
    names: Arc<Mutex<Names>>,
    /// Whether it was said that persistence mode is off.
    has_warned: bool,
    /// Whether GPUs that sleep are woken.
    allow_wake: bool,
}

impl Nvml {
    /// The first of these libraries that can be loaded. A single one is one that somebody named.
    pub fn new(libraries: Vec<PathBuf>, sysfs: Sysfs, allow_wake: bool) -> Self {
        Self { libraries, sysfs, names: Arc::default(), has_warned: false, allow_wake }
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
        // Initialising NVML wakes every GPU.
        if let Some(pci) = sleeping_gpu(&self.sysfs).filter(|_| !self.allow_wake) {
            return Err(OpenError::Failed(format!("the GPU at {pci} is asleep, and is not woken")));
        }
        let nvml = NvmlLib::load(&self.libraries).map_err(|error| match error {
            LoadError::Absent(_) if self.libraries.len() == 1 => {
                OpenError::Missing(error.to_string())
            }
            LoadError::Absent(_) => OpenError::Absent(error.to_string()),
            LoadError::Init(_) => OpenError::Failed(error.to_string()),
        })?;
        self.warn_of_persistence(&nvml);
        let (sysfs, names) = (self.sysfs.clone(), Arc::clone(&self.names));
        Ok(Box::new(NvmlSession {
            nvml,
            sysfs,
            names,
            places: HashMap::new(),
            questions: HashMap::new(),
            allow_wake: self.allow_wake,
        }))
    }

    /// NVML enumerates when it is initialised: one that came later is known to sysfs alone.
    fn devices(&self) -> BTreeSet<String> {
        gpus(&self.sysfs).collect()
    }
}

struct NvmlSession {
    nvml: NvmlLib,
    sysfs: Sysfs,
    names: Arc<Mutex<Names>>,
    /// Where the GPU of each sensor stood as NVML was asked last, or why it gave no handle there; and what to ask it.
    places: HashMap<String, (Result<usize, Failure>, Question)>,
    /// What each GPU was found to have answers to, by its id.
    questions: HashMap<String, Vec<Question>>,
    allow_wake: bool,
}

impl Session for NvmlSession {
    fn discover(&mut self) -> Result<Found, String> {
        let told = self.nvml.describe().and_then(|gpus| gpus.into_iter().map(described).collect());
        let told: Vec<Described> = told.map_err(|error: NvmlError| in_words(&error))?;
        // Every change under the lock is complete in itself.
        let naming = self.names.lock().unwrap_or_else(PoisonError::into_inner).name(&told);
        for uuid in &naming.doubles {
            let double = naming.named.iter().filter(|named| named.gpu.uuid == *uuid);
            let at: Vec<&str> = double.map(|named| named.gpu.pci.as_str()).collect();
            let at = at.join(", ");
            warn!(
                source = "nvml",
                "the GPUs at {at} have one UUID, {uuid}: they are told apart by their places"
            );
        }
        let mut sensors = Vec::new();
        self.places.clear();
        for named in naming.named {
            let place = place(&named, &told[named.place]);
            for question in self.questions_of(&named, place)? {
                let sensor = sensor(&named, question, &self.sysfs);
                self.places.insert(sensor.id.clone(), (place, question));
                sensors.push(sensor);
            }
        }
        Ok(Found { sensors, refused: naming.refused })
    }

    fn read(&mut self, sensors: &[&Sensor], listener: &mut dyn Listener) -> Result<(), String> {
        for (place, sensor) in sensors.iter().enumerate() {
            listener.begins(place);
            let started = Now::read();
            let measured = self.read_one(sensor)?;
            listener.ends(place, Reading::new(measured, started, Now::read()));
        }
        Ok(())
    }
}

impl NvmlSession {
    /// What is asked of a GPU: its module, and what it itself has answers to. One that sleeps is not asked which.
    fn questions_of(
        &mut self,
        named: &Named,
        place: Result<usize, Failure>,
    ) -> Result<Vec<Question>, String> {
        if let (Ok(place), false, false) =
            (place, self.questions.contains_key(&named.id), self.is_left_alone(&named.gpu))
        {
            let mut ended = None;
            let found = supported(|query| match self.ask(place, query) {
                Ok(_) => Ok(()),
                Err(error) if ends_session(&error) => {
                    ended = Some(in_words(&error));
                    Err(Failure::Disconnected)
                }
                Err(error) => Err(failure(&error)),
            });
            if let Some(reason) = ended {
                return Err(reason);
            }
            self.questions.insert(named.id.clone(), found);
        }
        let known = self.questions.get(&named.id).into_iter().flatten();
        Ok(std::iter::once(&Question::MODULE).chain(known).copied().collect())
    }

    fn ask(&self, place: usize, query: Query) -> Result<FieldValue, NvmlError> {
        match query {
            Query::Field { field, scope } => self.nvml.field(place, field, scope),
            Query::PowerUsage => self.nvml.power_usage(place).map(FieldValue::from),
            Query::TotalEnergy => self.nvml.total_energy(place).map(FieldValue::from),
        }
    }

    fn is_left_alone(&self, gpu: &Gpu) -> bool {
        !self.allow_wake && is_asleep(&self.sysfs, &gpu.pci)
    }

    fn read_one(&self, sensor: &Sensor) -> Result<Result<Measure, Failure>, String> {
        let Meter::Gpu(gpu) = &sensor.meter else { return Ok(Err(Failure::NotSupported)) };
        Ok(match self.places.get(&sensor.id) {
            _ if self.is_left_alone(gpu) => Err(Failure::Asleep),
            None => Err(Failure::Gone),
            Some((Err(failure), _)) => Err(*failure),
            Some((Ok(place), question)) => match self.value(*place, gpu, question.query) {
                Ok(Some(value)) => question.measure(value),
                Ok(None) => Err(Failure::Gone),
                Err(error) if ends_session(&error) => return Err(in_words(&error)),
                Err(error) => Err(failure(&error)),
            },
        })
    }

    /// A GPU's value, or nothing where the handle stands for another GPU by now.
    fn value(
        &self,
        place: usize,
        gpu: &Gpu,
        query: Query,
    ) -> Result<Option<FieldValue>, NvmlError> {
        let value = self.ask(place, query)?;
        let is_same = gpu.uuid.is_empty() || self.nvml.uuid(place)? == gpu.uuid;
        Ok(is_same.then_some(value))
    }
}

/// What NVML tells of one GPU, in our words; or an error that is about the driver.
fn described(gpu: nvml_lib::Described) -> Result<Described, NvmlError> {
    let told = |answer: Result<String, NvmlError>| match answer {
        Err(error) if ends_session(&error) => Err(error),
        answer => Ok(answer.map_err(|error| failure(&error))),
    };
    let index = gpu.index;
    let details = match gpu.details {
        Ok(details) => details,
        Err(error) if ends_session(&error) => return Err(error),
        Err(error) => {
            let (uuid, pci) = (Err(failure(&error)), Err(failure(&error)));
            return Ok(Described { index, uuid, pci, product: None, mig: None });
        }
    };
    // Not to know of UUIDs is to have none, as with an empty one.
    let uuid = match told(details.uuid)? {
        Err(Failure::NotSupported) => Ok(String::new()),
        uuid => uuid,
    };
    let pci = told(details.bus_id)?.map(|bus_id| pci_address(&bus_id));
    Ok(Described { index, uuid, pci, product: details.name, mig: details.mig })
}

/// Where a GPU can be read, or why nothing there would tell that it is this one.
fn place(named: &Named, told: &Described) -> Result<usize, Failure> {
    match (&told.uuid, &told.pci) {
        (Err(failure), Err(_)) => Err(*failure),
        (Ok(uuid), Err(failure)) if uuid.is_empty() => Err(*failure),
        _ => Ok(named.place),
    }
}

/// The sensor of a question. That of the module goes by the GPU's own name, the others by its place.
fn sensor(named: &Named, question: Question, sysfs: &Sysfs) -> Sensor {
    let Named { id, gpu, product, .. } = named;
    let id = match question.kind {
        Kind::Accelerator(quantity) if gpu.pci.is_empty() => quantity.id_of(id),
        Kind::Accelerator(quantity) => quantity.id_of(&gpu.pci),
        _ => id.clone(),
    };
    let numa_node = sysfs.text_if_any(&sysfs.pci_device(&gpu.pci).join("numa_node"));
    Sensor {
        source: Source::Nvml,
        id,
        channel: gpu.pci.clone(),
        kind: question.kind,
        // -1 where the firmware says nothing.
        socket: numa_node.and_then(|node| node.parse().ok()),
        label: product.clone(),
        averaging: question.averaging,
        meter: Meter::Gpu(gpu.clone()),
    }
}

/// `00000008:01:00.0`, as NVML writes it, as sysfs does: `0008:01:00.0`. Without a domain it is in the first.
fn pci_address(bus_id: &str) -> String {
    let address = bus_id.to_ascii_lowercase();
    let (domain, rest) = match address.split_once(':') {
        Some((domain, rest)) if rest.contains(':') => (domain, rest),
        _ => ("", address.as_str()),
    };
    format!("{:0>4}:{rest}", domain.trim_start_matches('0'))
}

/// The PCI addresses of NVIDIA's GPUs as sysfs shows them.
fn gpus(sysfs: &Sysfs) -> impl Iterator<Item = String> {
    let is_gpu = |pci: &String| {
        let text = |name| sysfs.text_if_any(&sysfs.pci_device(pci).join(name));
        // Vendor 10de is NVIDIA; classes 0300 and 0302 are displays and 3D controllers.
        text("vendor").is_some_and(|vendor| vendor == "0x10de")
            && text("class").is_some_and(|class| class.starts_with("0x03"))
            // One that is handed to a virtual machine is none of NVML's.
            && driver(sysfs, &sysfs.pci_device(pci)).is_none_or(|driver| driver == "nvidia")
    };
    sysfs.list(&sysfs.pci_devices()).unwrap_or_default().into_iter().filter(is_gpu)
}

/// A GPU of NVIDIA that runtime power management holds asleep.
fn sleeping_gpu(sysfs: &Sysfs) -> Option<String> {
    gpus(sysfs).find(|pci| is_asleep(sysfs, pci))
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
            ("01:00.0", "0000:01:00.0"),
        ];
        for (bus_id, expected) in cases {
            assert_eq!(pci_address(bus_id), expected);
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
