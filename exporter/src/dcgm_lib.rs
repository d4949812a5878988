//! The binding of libdcgm: one of the two modules that may use `unsafe`.
//!
//! The few functions of dcgm_agent.h (NVIDIA DCGM 3 and 4, API reference) that reading CPU fields needs, loaded
//! at run time, because most nodes have no DCGM. What one of them takes, dropping gives back, in the reverse
//! order: a set-up that fails half-way leaves nothing behind in an engine that outlives us.

#![allow(unsafe_code, reason = "DCGM has a C interface alone")]

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_longlong, c_uint, c_ushort};
use std::path::PathBuf;
use std::rc::Rc;

use libloading::Library;

use crate::dcgm_error::DcgmError;

/// A connection, or an engine inside this process.
type Handle = usize;

/// `DCGM_FE_CPU`: an entity of this group is a CPU socket.
const GROUP_CPU: c_uint = 7;

/// `DCGM_GEGE_FLAG_ONLY_SUPPORTED`.
const ONLY_SUPPORTED: c_uint = 1;

/// `DCGM_MAX_NUM_CPUS` and more: the most entities that one question is answered with.
const ENTITIES_MAX: usize = 64;

/// `DCGM_GROUP_EMPTY`: a group to which entities are added.
const EMPTY_GROUP: c_uint = 1;

/// `DCGM_OPERATION_MODE_AUTO`: the embedded engine samples by itself.
const MODE_AUTO: c_uint = 1;

/// What the union of a value holds at most.
const VALUE_BYTES: usize = 4096;

/// `dcgmFieldValue_version2`: the size of the structure, and above it its version.
const VALUE_VERSION: c_uint = size_of::<FieldValue>() as c_uint | 2 << 24;

/// One field of one entity, as the library writes it: `dcgmFieldValue_v2`.
#[repr(C, align(8))]
#[derive(Clone)]
pub(crate) struct FieldValue {
    version: c_uint,
    entity_group: c_uint,
    /// The entity that the value is stamped with.
    pub(crate) entity: u32,
    /// The field that it is stamped with.
    pub(crate) field: u16,
    /// `DCGM_FT_*`: the letter of its type.
    pub(crate) kind: u16,
    /// `dcgmReturn_t` of this value.
    pub(crate) status: i32,
    unused: c_uint,
    /// When the engine sampled it, in microseconds since 1970.
    pub(crate) ts_us: i64,
    /// The union's bytes.
    pub(crate) bytes: [u8; VALUE_BYTES],
}

impl FieldValue {
    /// Room for a value, of the version that the library is asked for.
    fn empty() -> Self {
        let (version, bytes) = (VALUE_VERSION, [0; VALUE_BYTES]);
        Self {
            version,
            entity_group: 0,
            entity: 0,
            field: 0,
            kind: 0,
            status: 0,
            unused: 0,
            ts_us: 0,
            bytes,
        }
    }
}

/// `dcgmGroupEntityPair_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct EntityPair {
    group: c_uint,
    entity: c_uint,
}

// What the library writes into: sizes as the headers have them.
const _: () = assert!(size_of::<FieldValue>() == 4128 && align_of::<FieldValue>() == 8);
const _: () = assert!(size_of::<EntityPair>() == 8);

/// Declares the functions once: their names, their C types, and how they are found.
macro_rules! functions {
    ($($name:ident: $symbol:literal ($($argument:ty),*);)+) => {
        /// The functions of a loaded library.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)+
        }

        impl Functions {
            fn find(library: &Library, path: &str) -> Result<Self, DcgmError> {
                // SAFETY: the symbols are functions of these types in dcgm_agent.h, and `Dcgm` keeps the
                // library loaded for as long as it keeps them.
                unsafe {
                    Ok(Self { $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| {
                        DcgmError::Symbol { library: path.to_owned(), symbol: $symbol }
                    })?,)+ })
                }
            }
        }
    };
}

functions! {
    init: "dcgmInit" ();
    shutdown: "dcgmShutdown" ();
    connect: "dcgmConnect" (*const c_char, *mut Handle);
    disconnect: "dcgmDisconnect" (Handle);
    start_embedded: "dcgmStartEmbedded" (c_uint, *mut Handle);
    stop_embedded: "dcgmStopEmbedded" (Handle);
    entities: "dcgmGetEntityGroupEntities" (Handle, c_uint, *mut c_uint, *mut c_int, c_uint);
    group_create: "dcgmGroupCreate" (Handle, c_uint, *const c_char, *mut usize);
    group_add: "dcgmGroupAddEntity" (Handle, usize, c_uint, c_uint);
    group_destroy: "dcgmGroupDestroy" (Handle, usize);
    fields_create: "dcgmFieldGroupCreate" (Handle, c_int, *const c_ushort, *const c_char, *mut usize);
    fields_destroy: "dcgmFieldGroupDestroy" (Handle, usize);
    watch: "dcgmWatchFields" (Handle, usize, usize, c_longlong, c_double, c_int);
    unwatch: "dcgmUnwatchFields" (Handle, usize, usize);
    update: "dcgmUpdateAllFields" (Handle, c_int);
    latest: "dcgmEntitiesGetLatestValues"
        (Handle, *const EntityPair, c_uint, *const c_ushort, c_uint, c_uint, *mut FieldValue);
}

fn check(call: &'static str, code: c_int) -> Result<(), DcgmError> {
    if code == 0 { Ok(()) } else { Err(DcgmError::Call { call, code }) }
}

/// DCGM, initialised.
pub(crate) struct Dcgm {
    functions: Functions,
    /// Last, because the functions are its own.
    _library: Library,
}

impl Dcgm {
    /// Loads the first of these that can be loaded, and initialises it.
    pub(crate) fn load(names: &[PathBuf]) -> Result<Rc<Self>, DcgmError> {
        let mut tried = Vec::new();
        for name in names {
            let path = name.display().to_string();
            // SAFETY: loading runs the library's constructors; it is the operator's or the system's libdcgm.
            let library = match unsafe { Library::new(name) } {
                Ok(library) => library,
                Err(error) => {
                    // The linker's words are for somebody who named a file.
                    tried.push(if names.len() == 1 { error.to_string() } else { path });
                    continue;
                }
            };
            let functions = Functions::find(&library, &path)?;
            // SAFETY: takes nothing; it comes before all other calls.
            check("dcgmInit", unsafe { (functions.init)() })?;
            return Ok(Rc::new(Self { functions, _library: library }));
        }
        Err(DcgmError::Absent(tried.join(", ")))
    }
}

impl Drop for Dcgm {
    fn drop(&mut self) {
        // SAFETY: initialised, and nothing of it is left: whatever is holds this by an Rc.
        unsafe { (self.functions.shutdown)() };
    }
}

/// A connection to an engine of the system, or an engine inside this process.
pub(crate) struct Engine {
    dcgm: Rc<Dcgm>,
    handle: Handle,
    is_embedded: bool,
}

impl Engine {
    /// Connects to the engine at an address, with or without a port.
    pub(crate) fn connect(dcgm: &Rc<Dcgm>, address: &str) -> Result<Rc<Self>, DcgmError> {
        let text = CString::new(address).map_err(|_| DcgmError::Address(address.to_owned()))?;
        let mut handle = 0;
        // SAFETY: the text ends in a NUL and outlives the call, which writes one handle.
        let code = unsafe { (dcgm.functions.connect)(text.as_ptr(), &raw mut handle) };
        check("dcgmConnect", code)?;
        Ok(Rc::new(Self { dcgm: Rc::clone(dcgm), handle, is_embedded: false }))
    }

    /// Starts an engine inside this process. It needs root.
    pub(crate) fn embed(dcgm: &Rc<Dcgm>) -> Result<Rc<Self>, DcgmError> {
        let mut handle = 0;
        // SAFETY: the call writes one handle.
        let code = unsafe { (dcgm.functions.start_embedded)(MODE_AUTO, &raw mut handle) };
        check("dcgmStartEmbedded", code)?;
        Ok(Rc::new(Self { dcgm: Rc::clone(dcgm), handle, is_embedded: true }))
    }

    /// The CPU sockets that the engine knows.
    pub(crate) fn cpus(&self) -> Result<Vec<u32>, DcgmError> {
        let mut entities = vec![0; ENTITIES_MAX];
        let mut count = ENTITIES_MAX as c_int;
        // SAFETY: there is room for as many entities as the count says.
        let code = unsafe {
            (self.functions().entities)(
                self.handle,
                GROUP_CPU,
                entities.as_mut_ptr(),
                &raw mut count,
                ONLY_SUPPORTED,
            )
        };
        check("dcgmGetEntityGroupEntities", code)?;
        entities.truncate(usize::try_from(count).unwrap_or(0));
        Ok(entities)
    }

    fn functions(&self) -> &Functions {
        &self.dcgm.functions
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let end = if self.is_embedded {
            self.functions().stop_embedded
        } else {
            self.functions().disconnect
        };
        // SAFETY: the handle is that of this engine, and nothing uses it any more.
        unsafe { end(self.handle) };
    }
}

/// A group of CPUs in an engine.
pub(crate) struct Group {
    engine: Rc<Engine>,
    id: usize,
    cpus: Vec<u32>,
}

impl Group {
    /// Makes a group of these CPUs under a name that nobody else uses.
    pub(crate) fn of(
        engine: &Rc<Engine>,
        cpus: Vec<u32>,
        name: &CStr,
    ) -> Result<Rc<Self>, DcgmError> {
        let mut id = 0;
        let (functions, handle) = (engine.functions(), engine.handle);
        // SAFETY: the name ends in a NUL and outlives the call, which writes one id.
        let code =
            unsafe { (functions.group_create)(handle, EMPTY_GROUP, name.as_ptr(), &raw mut id) };
        check("dcgmGroupCreate", code)?;
        let group = Self { engine: Rc::clone(engine), id, cpus };
        for cpu in &group.cpus {
            // SAFETY: takes numbers only.
            let code = unsafe { (functions.group_add)(handle, id, GROUP_CPU, *cpu) };
            check("dcgmGroupAddEntity", code)?;
        }
        Ok(Rc::new(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group is of this engine, which outlives it.
        unsafe { (self.engine.functions().group_destroy)(self.engine.handle, self.id) };
    }
}

/// How an engine samples what is watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampling {
    /// The time between two samples, in microseconds.
    pub(crate) every_us: i64,
    /// For how long a sample is kept, in seconds.
    pub(crate) keep_s: f64,
    /// How many samples are kept.
    pub(crate) keep: i32,
}

/// Some fields in an engine, under one name.
struct FieldGroup {
    engine: Rc<Engine>,
    id: usize,
}

impl FieldGroup {
    fn of(engine: &Rc<Engine>, fields: &[u16], name: &CStr) -> Result<Self, DcgmError> {
        let mut id = 0;
        // No set of fields is anywhere near what a c_int holds.
        let count = c_int::try_from(fields.len()).unwrap_or(c_int::MAX);
        // SAFETY: there are as many fields as the count says; the call writes one id.
        let code = unsafe {
            (engine.functions().fields_create)(
                engine.handle,
                count,
                fields.as_ptr(),
                name.as_ptr(),
                &raw mut id,
            )
        };
        check("dcgmFieldGroupCreate", code)?;
        Ok(Self { engine: Rc::clone(engine), id })
    }
}

impl Drop for FieldGroup {
    fn drop(&mut self) {
        // SAFETY: the field group is of this engine, which outlives it.
        unsafe { (self.engine.functions().fields_destroy)(self.engine.handle, self.id) };
    }
}

/// Fields of a group of CPUs that an engine samples for us.
pub(crate) struct Watch {
    /// Before the group, so that it is given back first.
    field_group: FieldGroup,
    group: Rc<Group>,
    fields: Vec<u16>,
    /// Where values are written, so that reading allocates nothing.
    values: Vec<FieldValue>,
}

impl Watch {
    /// Has these fields sampled.
    pub(crate) fn start(
        group: &Rc<Group>,
        fields: &[u16],
        name: &CStr,
        sampling: Sampling,
    ) -> Result<Self, DcgmError> {
        let engine = &group.engine;
        let field_group = FieldGroup::of(engine, fields, name)?;
        let Sampling { every_us, keep_s, keep } = sampling;
        // SAFETY: takes numbers only.
        let code = unsafe {
            (engine.functions().watch)(
                engine.handle,
                group.id,
                field_group.id,
                every_us,
                keep_s,
                keep,
            )
        };
        check("dcgmWatchFields", code)?;
        let values = vec![FieldValue::empty(); group.cpus.len() * fields.len()];
        Ok(Self { field_group, group: Rc::clone(group), fields: fields.to_owned(), values })
    }

    /// Has the engine sample now, and waits for it; then the latest value of every field of every CPU.
    pub(crate) fn read(&mut self) -> Result<&[FieldValue], DcgmError> {
        let engine = &self.group.engine;
        let pair = |cpu: &u32| EntityPair { group: GROUP_CPU, entity: *cpu };
        let pairs: Vec<EntityPair> = self.group.cpus.iter().map(pair).collect();
        // The library reads the version of each slot, and may have written over it.
        self.values.iter_mut().for_each(|slot| slot.version = VALUE_VERSION);
        // SAFETY: takes numbers only.
        check("dcgmUpdateAllFields", unsafe { (engine.functions().update)(engine.handle, 1) })?;
        // SAFETY: both counts are those of their lists, and there is a slot for each CPU and field.
        let code = unsafe {
            (engine.functions().latest)(
                engine.handle,
                pairs.as_ptr(),
                pairs.len() as c_uint,
                self.fields.as_ptr(),
                self.fields.len() as c_uint,
                0,
                self.values.as_mut_ptr(),
            )
        };
        check("dcgmEntitiesGetLatestValues", code)?;
        Ok(&self.values)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let engine = &self.group.engine;
        // SAFETY: both groups are of this engine, and are destroyed only after this.
        unsafe { (engine.functions().unwatch)(engine.handle, self.group.id, self.field_group.id) };
    }
}
