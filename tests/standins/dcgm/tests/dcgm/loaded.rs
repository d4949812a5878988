//! The library through its C interface, declared here once more: a mistake in the stand-in's own declarations shows.

#![allow(unsafe_code, reason = "a C library is loaded and called")]

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_uint, c_ushort};
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::{Library, Symbol};
use wattscribe_standins::{Code, DcgmReturn};

/// The group of CPUs.
const CPU: c_uint = 7;

/// The loaded library. It is never unloaded: a thread may be inside for ever.
pub(crate) struct Dcgm(ManuallyDrop<Library>);

/// `dcgmFieldValue_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FieldValue {
    version: c_uint,
    pub(crate) group: c_uint,
    pub(crate) entity: c_uint,
    pub(crate) field: c_ushort,
    pub(crate) field_type: c_ushort,
    status: c_int,
    unused: c_uint,
    pub(crate) ts: i64,
    value: [u8; 4096],
}

type Result<T> = std::result::Result<T, DcgmReturn>;

fn done(code: c_int) -> Result<()> {
    match DcgmReturn::of(code).unwrap() {
        DcgmReturn::Ok => Ok(()),
        error => Err(error),
    }
}

impl Dcgm {
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
        done(self.get::<extern "C" fn() -> c_int>("dcgmInit")())
    }

    pub(crate) fn shutdown(&self) -> Result<()> {
        done(self.get::<extern "C" fn() -> c_int>("dcgmShutdown")())
    }

    pub(crate) fn error_string(&self, code: c_int) -> &str {
        let text = self.get::<extern "C" fn(c_int) -> *const c_char>("errorString")(code);
        // SAFETY: the library hands out text that is never freed.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap()
    }

    pub(crate) fn connect(&self, address: &str) -> Result<usize> {
        type Function = extern "C" fn(*const c_char, *mut usize) -> c_int;
        let (address, mut handle) = (CString::new(address).unwrap(), 0);
        let call = self.get::<Function>("dcgmConnect");
        done(call(address.as_ptr(), &raw mut handle)).map(|()| handle)
    }

    pub(crate) fn start_embedded(&self) -> Result<usize> {
        type Function = extern "C" fn(c_int, *mut usize) -> c_int;
        let mut handle = 0;
        done(self.get::<Function>("dcgmStartEmbedded")(1, &raw mut handle)).map(|()| handle)
    }

    pub(crate) fn disconnect(&self, handle: usize) -> Result<()> {
        done(self.get::<extern "C" fn(usize) -> c_int>("dcgmDisconnect")(handle))
    }

    pub(crate) fn stop_embedded(&self, handle: usize) -> Result<()> {
        done(self.get::<extern "C" fn(usize) -> c_int>("dcgmStopEmbedded")(handle))
    }

    /// The CPUs, or how many there are when there are more than `capacity`.
    pub(crate) fn cpus(
        &self,
        handle: usize,
        capacity: usize,
    ) -> std::result::Result<Vec<u32>, (DcgmReturn, c_int)> {
        type Function = extern "C" fn(usize, c_uint, *mut c_uint, *mut c_int, c_uint) -> c_int;
        let (mut ids, mut count) = (vec![0; capacity], c_int::try_from(capacity).unwrap());
        let call = self.get::<Function>("dcgmGetEntityGroupEntities");
        done(call(handle, CPU, ids.as_mut_ptr(), &raw mut count, 1))
            .map_err(|code| (code, count))?;
        ids.truncate(usize::try_from(count).unwrap());
        Ok(ids)
    }

    pub(crate) fn group(&self, handle: usize, name: &str) -> Result<usize> {
        type Function = extern "C" fn(usize, c_int, *const c_char, *mut usize) -> c_int;
        let (name, mut group) = (CString::new(name).unwrap(), 0);
        let call = self.get::<Function>("dcgmGroupCreate");
        done(call(handle, 1, name.as_ptr(), &raw mut group)).map(|()| group)
    }

    pub(crate) fn add_cpu(&self, handle: usize, group: usize, id: u32) -> Result<()> {
        type Function = extern "C" fn(usize, usize, c_uint, c_uint) -> c_int;
        done(self.get::<Function>("dcgmGroupAddEntity")(handle, group, CPU, id))
    }

    pub(crate) fn field_group(&self, handle: usize, fields: &[u16], name: &str) -> Result<usize> {
        type Function =
            extern "C" fn(usize, c_int, *const c_ushort, *const c_char, *mut usize) -> c_int;
        let (name, mut group) = (CString::new(name).unwrap(), 0);
        let count = c_int::try_from(fields.len()).unwrap();
        let call = self.get::<Function>("dcgmFieldGroupCreate");
        done(call(handle, count, fields.as_ptr(), name.as_ptr(), &raw mut group)).map(|()| group)
    }

    /// Watches in a period in microseconds.
    pub(crate) fn watch(&self, handle: usize, group: usize, fields: usize, us: i64) -> Result<()> {
        type Function = extern "C" fn(usize, usize, usize, c_longlong, f64, c_int) -> c_int;
        done(self.get::<Function>("dcgmWatchFields")(handle, group, fields, us, 60.0, 600))
    }

    pub(crate) fn unwatch(&self, handle: usize, group: usize, fields: usize) -> Result<()> {
        type Function = extern "C" fn(usize, usize, usize) -> c_int;
        done(self.get::<Function>("dcgmUnwatchFields")(handle, group, fields))
    }

    pub(crate) fn destroy(&self, handle: usize, group: usize, fields: usize) -> Result<()> {
        type Function = extern "C" fn(usize, usize) -> c_int;
        done(self.get::<Function>("dcgmFieldGroupDestroy")(handle, fields))?;
        done(self.get::<Function>("dcgmGroupDestroy")(handle, group))
    }

    pub(crate) fn update(&self, handle: usize) -> Result<()> {
        done(self.get::<extern "C" fn(usize, c_int) -> c_int>("dcgmUpdateAllFields")(handle, 1))
    }

    /// The last values of fields of CPUs.
    pub(crate) fn latest(
        &self,
        handle: usize,
        ids: &[u32],
        fields: &[u16],
    ) -> Result<Vec<FieldValue>> {
        self.latest_versioned(handle, ids, fields, 0x0200_1020)
    }

    pub(crate) fn latest_versioned(
        &self,
        handle: usize,
        ids: &[u32],
        fields: &[u16],
        version: u32,
    ) -> Result<Vec<FieldValue>> {
        type Function = extern "C" fn(
            usize,
            *const [c_uint; 2],
            c_uint,
            *const c_ushort,
            c_uint,
            c_uint,
            *mut FieldValue,
        ) -> c_int;
        let pairs: Vec<[c_uint; 2]> = ids.iter().map(|id| [CPU, *id]).collect();
        let length = |length| c_uint::try_from(length).unwrap();
        let mut values = vec![FieldValue::empty(version); ids.len() * fields.len()];
        let call = self.get::<Function>("dcgmEntitiesGetLatestValues");
        let (pair_count, field_count) = (length(pairs.len()), length(fields.len()));
        let (pairs, fields) = (pairs.as_ptr(), fields.as_ptr());
        done(call(handle, pairs, pair_count, fields, field_count, 0, values.as_mut_ptr()))?;
        Ok(values)
    }
}

impl FieldValue {
    fn empty(version: u32) -> Self {
        let (group, entity, field, field_type, status, unused, ts) = (0, 0, 0, 0, 0, 0, 0);
        let value = [0; 4096];
        Self { version, group, entity, field, field_type, status, unused, ts, value }
    }

    pub(crate) fn status(&self) -> DcgmReturn {
        DcgmReturn::of(self.status).unwrap()
    }

    fn eight(&self) -> [u8; 8] {
        std::array::from_fn(|at| self.value[at])
    }

    pub(crate) fn double(&self) -> f64 {
        f64::from_ne_bytes(self.eight())
    }

    pub(crate) fn int64(&self) -> i64 {
        i64::from_ne_bytes(self.eight())
    }

    pub(crate) fn text(&self) -> &str {
        CStr::from_bytes_until_nul(&self.value).unwrap().to_str().unwrap()
    }
}
