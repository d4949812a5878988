//! The library through its C interface, declared here once more: a mistake in the stand-in's own declarations shows.

#![allow(unsafe_code, reason = "a C library is loaded and called")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::{Library, Symbol};
use wattscribe_standins::{Code, NvmlReturn};

/// The loaded library. It is never unloaded: a thread may be inside for ever.
pub(crate) struct Nvml(ManuallyDrop<Library>);

/// `nvmlFieldValue_t`, with the union as its bits.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FieldValue {
    field: c_uint,
    scope: c_uint,
    pub(crate) timestamp: i64,
    latency: i64,
    value_type: c_uint,
    result: c_uint,
    bits: u64,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
pub(crate) struct Pci {
    legacy: [c_char; 16],
    pub(crate) domain: c_uint,
    pub(crate) bus: c_uint,
    pub(crate) device: c_uint,
    ids: [c_uint; 2],
    id: [c_char; 32],
}

type Result<T> = std::result::Result<T, NvmlReturn>;

fn done(code: c_uint) -> Result<()> {
    match NvmlReturn::of(code.cast_signed()).unwrap() {
        NvmlReturn::Success => Ok(()),
        error => Err(error),
    }
}

impl Nvml {
    pub(crate) fn load(path: &Path) -> Self {
        // SAFETY: the stand-in runs nothing when it is loaded.
        Self(ManuallyDrop::new(unsafe { Library::new(path) }.unwrap()))
    }

    pub(crate) fn has(&self, symbol: &str) -> bool {
        // SAFETY: the symbol is looked for and not called.
        unsafe { self.0.get::<fn()>(symbol.as_bytes()) }.is_ok()
    }

    /// A symbol of a type that the header gives it.
    fn get<T>(&self, symbol: &str) -> Symbol<'_, T> {
        // SAFETY: all types below are those of the header.
        unsafe { self.0.get(symbol.as_bytes()) }.unwrap()
    }

    pub(crate) fn init(&self) -> Result<()> {
        done(self.get::<extern "C" fn() -> c_uint>("nvmlInit_v2")())
    }

    pub(crate) fn shutdown(&self) -> Result<()> {
        done(self.get::<extern "C" fn() -> c_uint>("nvmlShutdown")())
    }

    pub(crate) fn error_string(&self, code: c_uint) -> &str {
        let text = self.get::<extern "C" fn(c_uint) -> *const c_char>("nvmlErrorString")(code);
        // SAFETY: the library hands out text that is never freed.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    }

    pub(crate) fn count(&self) -> Result<c_uint> {
        let mut count = 0;
        let call = self.get::<extern "C" fn(*mut c_uint) -> c_uint>("nvmlDeviceGetCount_v2");
        done(call(&raw mut count)).map(|()| count)
    }

    pub(crate) fn handle(&self, index: c_uint) -> Result<usize> {
        type Function = extern "C" fn(c_uint, *mut usize) -> c_uint;
        let mut device = 0;
        let call = self.get::<Function>("nvmlDeviceGetHandleByIndex_v2");
        done(call(index, &raw mut device)).map(|()| device)
    }

    pub(crate) fn driver_version(&self, length: usize) -> Result<String> {
        type Function = extern "C" fn(*mut c_char, c_uint) -> c_uint;
        let call = self.get::<Function>("nvmlSystemGetDriverVersion");
        written(length, |buffer, length| call(buffer, length))
    }

    pub(crate) fn uuid(&self, device: usize, length: usize) -> Result<String> {
        self.device_text("nvmlDeviceGetUUID", device, length)
    }

    pub(crate) fn name(&self, device: usize, length: usize) -> Result<String> {
        self.device_text("nvmlDeviceGetName", device, length)
    }

    fn device_text(&self, symbol: &str, device: usize, length: usize) -> Result<String> {
        type Function = extern "C" fn(usize, *mut c_char, c_uint) -> c_uint;
        let call = self.get::<Function>(symbol);
        written(length, |buffer, length| call(device, buffer, length))
    }

    pub(crate) fn pci(&self, device: usize) -> Result<Pci> {
        let call = self.get::<extern "C" fn(usize, *mut Pci) -> c_uint>("nvmlDeviceGetPciInfo_v3");
        let (legacy, id) = ([0; 16], [0; 32]);
        let mut pci = Pci { legacy, domain: 0, bus: 0, device: 0, ids: [0; 2], id };
        done(call(device, &raw mut pci)).map(|()| pci)
    }

    pub(crate) fn power_usage(&self, device: usize) -> Result<c_uint> {
        type Function = extern "C" fn(usize, *mut c_uint) -> c_uint;
        let mut power = 0;
        let call = self.get::<Function>("nvmlDeviceGetPowerUsage");
        done(call(device, &raw mut power)).map(|()| power)
    }

    pub(crate) fn total_energy(&self, device: usize) -> Result<c_ulonglong> {
        type Function = extern "C" fn(usize, *mut c_ulonglong) -> c_uint;
        let mut energy = 0;
        let call = self.get::<Function>("nvmlDeviceGetTotalEnergyConsumption");
        done(call(device, &raw mut energy)).map(|()| energy)
    }

    /// Fields by id and scope.
    pub(crate) fn fields(&self, device: usize, asked: &[(u32, u32)]) -> Result<Vec<FieldValue>> {
        type Function = extern "C" fn(usize, c_int, *mut FieldValue) -> c_uint;
        let value = |(field, scope): &(u32, u32)| FieldValue {
            field: *field,
            scope: *scope,
            ..FieldValue::default()
        };
        let mut values: Vec<FieldValue> = asked.iter().map(value).collect();
        let count = c_int::try_from(values.len()).unwrap();
        let call = self.get::<Function>("nvmlDeviceGetFieldValues");
        done(call(device, count, values.as_mut_ptr())).map(|()| values)
    }
}

impl FieldValue {
    /// Type and bits of the value.
    pub(crate) fn reading(&self) -> Result<(c_uint, u64)> {
        done(self.result).map(|()| (self.value_type, self.bits))
    }
}

impl Pci {
    /// The address in its short and in its long form.
    pub(crate) fn texts(&self) -> [String; 2] {
        [text(&self.legacy), text(&self.id)]
    }
}

/// What a call writes into a buffer of a length.
fn written(length: usize, call: impl FnOnce(*mut c_char, c_uint) -> c_uint) -> Result<String> {
    let mut buffer = vec![0; length];
    let length = c_uint::try_from(length).unwrap();
    done(call(buffer.as_mut_ptr(), length)).map(|()| text(&buffer))
}

fn text(buffer: &[c_char]) -> String {
    let bytes = buffer.iter().map(|letter| letter.to_ne_bytes()[0]).take_while(|byte| *byte != 0);
    String::from_utf8(bytes.collect()).unwrap()
}
