//! The binding of libnvidia-ml: one of the two modules that may use `unsafe`.
//!
//! nvml-wrapper loads, initialises, enumerates and shuts down. It cannot ask for a field in a scope, so that
//! one call goes to the same loaded library through the raw bindings. Device handles are valid only while
//! NVML is initialised: they never leave [`NvmlLib`], which shuts NVML down when it is dropped.

#![allow(unsafe_code, reason = "field values with a scope exist in the C interface alone")]

use std::path::PathBuf;

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlFieldValue_t, nvmlValue_t};

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// None of the names can be loaded.
    #[error("no NVML library: {0}")]
    Absent(String),
    /// It is loaded and does not initialise.
    #[error(transparent)]
    Init(NvmlError),
}

/// A GPU as NVML describes it.
#[derive(Debug)]
pub(crate) struct Described {
    /// Its number today.
    pub(crate) index: u32,
    /// What it says of itself, or why it has no handle.
    pub(crate) details: Result<Details, NvmlError>,
}

/// What a GPU says of itself.
#[derive(Debug)]
pub(crate) struct Details {
    /// Its UUID.
    pub(crate) uuid: Result<String, NvmlError>,
    /// Its PCI address as NVML writes it.
    pub(crate) bus_id: Result<String, NvmlError>,
    /// Its product name, where it tells one.
    pub(crate) name: Option<String>,
    /// Whether it is partitioned (MIG), where it can be.
    pub(crate) mig: Option<bool>,
}

/// A field's value as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldValue {
    /// `nvmlValueType_t`: which member of the union is filled.
    pub(crate) kind: u32,
    /// The union's bytes.
    pub(crate) bytes: [u8; 8],
}

impl From<u32> for FieldValue {
    fn from(number: u32) -> Self {
        Self::from(u64::from(number))
    }
}

impl From<u64> for FieldValue {
    /// As a field of `unsigned long long`.
    fn from(number: u64) -> Self {
        Self { kind: 3, bytes: number.to_ne_bytes() }
    }
}

/// NVML, initialised.
#[derive(Debug)]
pub(crate) struct NvmlLib {
    nvml: Nvml,
    /// The handles of the GPUs that were described last, in their order; none where it was refused.
    handles: Vec<Option<nvmlDevice_t>>,
}

impl NvmlLib {
    /// Loads the first of these that can be loaded, and initialises it.
    pub(crate) fn load(names: &[PathBuf]) -> Result<Self, LoadError> {
        let mut tried = Vec::new();
        for name in names {
            match Nvml::builder().lib_path(name.as_os_str()).init() {
                Ok(nvml) => return Ok(Self { nvml, handles: Vec::new() }),
                // The linker's words are for somebody who named a file; of the usual names, none is usual.
                Err(NvmlError::LibloadingError(error)) if names.len() == 1 => {
                    tried.push(error.to_string());
                }
                Err(NvmlError::LibloadingError(_)) => tried.push(name.display().to_string()),
                Err(error) => return Err(LoadError::Init(error)),
            }
        }
        Err(LoadError::Absent(format!("tried {}", tried.join(", "))))
    }

    /// All GPUs that are counted now.
    pub(crate) fn describe(&mut self) -> Result<Vec<Described>, NvmlError> {
        let mut described = Vec::new();
        self.handles.clear();
        for index in 0..self.nvml.device_count()? {
            let device = self.nvml.device_by_index(index);
            // SAFETY: the handle is used only by the methods below, while `self.nvml` is initialised.
            self.handles.push(device.as_ref().ok().map(|device| unsafe { device.handle() }));
            let details = device.map(|device| Details {
                uuid: device.uuid(),
                bus_id: device.pci_info().map(|pci| pci.bus_id),
                name: device.name().ok(),
                mig: device.mig_mode().ok().map(|mode| mode.current != 0),
            });
            described.push(Described { index, details });
        }
        Ok(described)
    }

    /// The PCI addresses, as NVML writes them, of the GPUs that say that their persistence mode is off.
    pub(crate) fn without_persistence(&self) -> Vec<String> {
        let gpus = 0..self.nvml.device_count().unwrap_or(0);
        let gpus = gpus.filter_map(|index| self.nvml.device_by_index(index).ok());
        let off = gpus.filter(|gpu| matches!(gpu.is_in_persistent_mode(), Ok(false)));
        off.filter_map(|gpu| Some(gpu.pci_info().ok()?.bus_id)).collect()
    }

    /// The UUID of the GPU that the handle at this place of what was described last stands for now.
    pub(crate) fn uuid(&self, place: usize) -> Result<String, NvmlError> {
        let handle = self.handle(place)?;
        // SAFETY: the handle is of this initialised library.
        unsafe { Device::new(handle, &self.nvml) }.uuid()
    }

    fn handle(&self, place: usize) -> Result<nvmlDevice_t, NvmlError> {
        self.handles.get(place).copied().flatten().ok_or(NvmlError::NotFound)
    }

    /// The power of the GPU at that place in milliwatts.
    pub(crate) fn power_usage(&self, place: usize) -> Result<u32, NvmlError> {
        let handle = self.handle(place)?;
        // SAFETY: the handle is of this initialised library.
        unsafe { Device::new(handle, &self.nvml) }.power_usage()
    }

    /// The energy of the GPU at that place in millijoules.
    pub(crate) fn total_energy(&self, place: usize) -> Result<u64, NvmlError> {
        let handle = self.handle(place)?;
        // SAFETY: the handle is of this initialised library.
        unsafe { Device::new(handle, &self.nvml) }.total_energy_consumption()
    }

    /// A field of the GPU at that place in a scope.
    pub(crate) fn field(
        &self,
        place: usize,
        field: u32,
        scope: u32,
    ) -> Result<FieldValue, NvmlError> {
        let handle = self.handle(place)?;
        let get_field_values = nvml_sym(self.nvml.lib().nvmlDeviceGetFieldValues.as_ref())?;
        let mut value = nvmlFieldValue_t {
            fieldId: field,
            scopeId: scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        };
        // SAFETY: the handle is of this initialised library, and the count is that of the values.
        nvml_try(unsafe { get_field_values(handle, 1, &raw mut value) })?;
        nvml_try(value.nvmlReturn)?;
        // SAFETY: all eight bytes were set above, whatever the library has written over them since.
        let bytes = unsafe { value.value.ullVal }.to_ne_bytes();
        Ok(FieldValue { kind: value.valueType, bytes })
    }
}
