//! The script of the stand-in for libnvidia-ml: a driver, its devices, and what their fields hold.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Behaviour, Calls, NvmlReturn, Script, Series};

/// Field ids of `nvmlDeviceGetFieldValues` (`NVML_FI_DEV_*`) that power has to do with.
pub mod field {
    /// Total energy in millijoules since the driver was loaded.
    pub const TOTAL_ENERGY: u32 = 83;
    /// Power in milliwatts, the mean of the last second.
    pub const POWER_AVERAGE: u32 = 185;
    /// Power in milliwatts, now.
    pub const POWER_INSTANT: u32 = 186;
}

/// Scopes of a power field (`NVML_POWER_SCOPE_*`).
pub mod scope {
    /// The GPU with its memory.
    pub const GPU: u32 = 0;
    /// The whole module, CPU included.
    pub const MODULE: u32 = 1;
    /// The GPU's memory.
    pub const MEMORY: u32 = 2;
}

/// What the library knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NvmlScript {
    /// Where calls are logged. Nothing is logged without it.
    pub log: Option<PathBuf>,
    /// The kernel's side.
    pub driver: Driver,
    /// The devices in the order in which they are enumerated.
    pub devices: Vec<Device>,
    /// Symbols that misbehave, whatever the device.
    pub calls: Calls<NvmlReturn>,
}

/// The kernel driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Driver {
    /// Its version.
    pub version: String,
    /// What every call returns, initialisation included, for as long as this stands: `DRIVER_NOT_LOADED` while there
    /// is none, `LIB_RM_VERSION_MISMATCH` when it was replaced under the library.
    pub error: Option<NvmlReturn>,
    /// Which load of the driver this is. A process that initialised under another one gets `UNINITIALIZED` from every
    /// call until it has shut down as often as it initialised, and initialised again.
    pub load: u64,
}

impl Default for Driver {
    fn default() -> Self {
        Self { version: "580.126.20".into(), error: None, load: 1 }
    }
}

/// A GPU. A handle belongs to the PCI address: when another UUID stands there, the handle answers for that one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Such as `GPU-00000000-0000-0000-0000-000000000000`.
    pub uuid: String,
    /// Domain, bus and device in hexadecimal, such as `0008:01:00.0`.
    pub pci: String,
    /// The product.
    #[serde(default = "product")]
    pub name: String,
    /// Whether the driver keeps it initialised while nobody uses it.
    #[serde(default = "yes")]
    pub persistence_mode: bool,
    /// Whether it is partitioned (MIG). A GPU without that mode is `NOT_SUPPORTED`.
    #[serde(default)]
    pub mig: Option<bool>,
    /// It fell off the bus: its calls return `GPU_IS_LOST`, and it is neither counted nor enumerated.
    #[serde(default)]
    pub lost: bool,
    /// What it measures. A field that is not here is `NOT_SUPPORTED`.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// Symbols that misbehave when they are asked of this device; they come before those of the script.
    #[serde(default)]
    pub calls: Calls<NvmlReturn>,
}

fn product() -> String {
    "NVIDIA GB200".into()
}

fn yes() -> bool {
    true
}

/// A field of a device in one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its id, see [`field`](mod@field).
    pub field: u32,
    /// Its scope, see [`scope`].
    #[serde(default)]
    pub scope: u32,
    /// What it holds.
    pub answer: Answer,
    /// The C type it comes as.
    #[serde(default, rename = "as")]
    pub value_type: ValueType,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A number in the unit of the field: milliwatts, or millijoules. Where the series has none: `NO_DATA`.
    Number(Series),
    /// The field's own return code. The call as a whole succeeds.
    Error(NvmlReturn),
}

/// The C type of a value (`nvmlValueType_t`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueType {
    /// `double`
    Double = 0,
    /// `unsigned int`
    #[default]
    Uint32 = 1,
    /// `unsigned long`
    UnsignedLong = 2,
    /// `unsigned long long`
    Uint64 = 3,
    /// `long long`
    Int64 = 4,
    /// `int`
    Int32 = 5,
    /// `unsigned short`
    Uint16 = 6,
    /// A type of a library newer than all programs.
    Unheard = 77,
}

impl NvmlScript {
    /// A driver with these devices, all of which behave.
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Self {
        Self { devices: devices.into_iter().collect(), ..Self::default() }
    }

    /// The device at a PCI address.
    pub fn device_mut(&mut self, pci: &str) -> Option<&mut Device> {
        self.devices.iter_mut().find(|device| device.pci == pci)
    }

    /// Makes a symbol misbehave.
    #[must_use]
    pub fn call(mut self, symbol: &str, behaviour: Behaviour<NvmlReturn>) -> Self {
        self.set_call(symbol, behaviour);
        self
    }

    /// Makes a symbol misbehave from now on, in this way and no other.
    pub fn set_call(&mut self, symbol: &str, behaviour: Behaviour<NvmlReturn>) {
        self.calls.insert(symbol.into(), behaviour);
    }
}

impl Device {
    /// A GPU that measures nothing yet.
    pub fn new(uuid: &str, pci: &str) -> Self {
        Self {
            uuid: uuid.into(),
            pci: pci.into(),
            name: product(),
            persistence_mode: true,
            mig: None,
            lost: false,
            fields: Vec::new(),
            calls: Calls::new(),
        }
    }

    /// With a field, in the place of what it held before.
    #[must_use]
    pub fn with(mut self, field: u32, scope: u32, answer: Answer) -> Self {
        self.set(field, scope, answer);
        self
    }

    /// With average power of the module, in milliwatts.
    #[must_use]
    pub fn module_mw(self, milliwatts: impl Into<Series>) -> Self {
        self.with(field::POWER_AVERAGE, scope::MODULE, Answer::Number(milliwatts.into()))
    }

    /// With average power of the GPU alone, in milliwatts.
    #[must_use]
    pub fn gpu_mw(self, milliwatts: impl Into<Series>) -> Self {
        self.with(field::POWER_AVERAGE, scope::GPU, Answer::Number(milliwatts.into()))
    }

    /// Changes what a field holds, and leaves its type.
    pub fn set(&mut self, field: u32, scope: u32, answer: Answer) {
        let here = self.fields.iter_mut().find(|at| (at.field, at.scope) == (field, scope));
        match here {
            Some(here) => here.answer = answer,
            None => {
                self.fields.push(Field { field, scope, answer, value_type: ValueType::default() });
            }
        }
    }
}

impl Script for NvmlScript {
    type Code = NvmlReturn;
    const VARIABLE: &'static str = "WATTSCRIBE_NVML_SCRIPT";
    const LIBRARY: &'static str = "libnvidia_ml_standin.so";
    const BROKEN: NvmlReturn = NvmlReturn::Unknown;
    const SYMBOLS: &'static [&'static str] = &[
        "nvmlInit_v2",
        "nvmlInitWithFlags",
        "nvmlShutdown",
        "nvmlSystemGetDriverVersion",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPersistenceMode",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetFieldValues",
    ];

    fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    fn set_log(&mut self, path: PathBuf) {
        self.log = Some(path);
    }

    fn calls(&self) -> Vec<&Calls<NvmlReturn>> {
        let devices = self.devices.iter().map(|device| &device.calls);
        devices.chain([&self.calls]).collect()
    }

    fn behaviour(&self, symbol: &str, subject: Option<&str>) -> Option<Behaviour<NvmlReturn>> {
        let device = self.devices.iter().find(|device| Some(device.pci.as_str()) == subject);
        let of_device = device.and_then(|device| device.calls.get(symbol));
        of_device.or_else(|| self.calls.get(symbol)).copied()
    }
}
