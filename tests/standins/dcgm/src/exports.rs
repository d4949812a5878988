//! The C symbols of libdcgm, as `dcgm_agent.h` declares them.
//!
//! A pointer to one thing is declared as the reference or nothing that it is, so that only arrays and texts are left to
//! follow by hand. Every function goes through the [`wattscribe_standins::Player`], which logs it and has it misbehave. Nothing panics here:
//! a panic may not cross into C.

#![allow(unsafe_code, reason = "C symbols are exported, and pointers from C are followed")]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_ushort};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use wattscribe_standins::{Code, DcgmReturn, DcgmScript, Loaded, Scene};

use crate::abi::{ENTITY_GROUP_CPU, EntityPair, FIELD_VALUE_VERSION, FieldValue};
use crate::client::Client;
use crate::session::{Latest, Session};

static LOADED: Loaded<DcgmScript> = Loaded::new();
static CLIENT: Mutex<Client> = Mutex::new(Client::new());

/// Runs when the library is unloaded, and at the end of a process that has it then.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = unload;

extern "C" fn unload() {
    LOADED.unload();
    *client() = Client::new();
}

fn client() -> MutexGuard<'static, Client> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn call(
    symbol: &'static str,
    args: Value,
    answer: impl FnOnce(&Scene<DcgmScript>) -> Result<Value, DcgmReturn>,
) -> c_int {
    LOADED.player(dcgmInit as *const () as usize).call(symbol, None, args, answer).number()
}

/// A call that is about what a connection has. The next id for a group comes with it.
fn call_session(
    symbol: &'static str,
    args: Value,
    handle: usize,
    answer: impl FnOnce(&Scene<DcgmScript>, &mut Session, &mut usize) -> Result<Value, DcgmReturn>,
) -> c_int {
    call(symbol, args, |scene| {
        let mut client = client();
        let (session, ids) = client.session(&scene.script, handle)?;
        answer(scene, session, ids)
    })
}

/// A place of the caller's for something that is handed out. A null pointer is none.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Automatic and manual (`dcgmOperationMode_t`).
const OPERATION_MODES: [c_int; 2] = [1, 2];

/// Text of the caller's, none for a null pointer.
///
/// # Safety
/// `from` is null or text with a terminator, which stays as it is for `'a`.
unsafe fn text<'a>(from: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: not null, and text by the caller's word.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_string_lossy())
}

/// An array of the caller's, empty for a null pointer.
///
/// # Safety
/// `from` is null or an array of `count`, which stays as it is for `'a`.
unsafe fn array<'a, T>(from: *const T, count: usize) -> &'a [T] {
    // SAFETY: not null, and an array by the caller's word.
    if from.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(from, count) } }
}

/// An array of the caller's to be written to, empty for a null pointer.
///
/// # Safety
/// `to` is null or an array of `count` that are initialised, which is nobody else's for `'a`.
unsafe fn array_mut<'a, T>(to: *mut T, count: usize) -> &'a mut [T] {
    // SAFETY: not null, and an array by the caller's word.
    if to.is_null() { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(to, count) } }
}

fn length(count: impl TryInto<usize>) -> usize {
    count.try_into().unwrap_or_default()
}

/// Initialises; counted, so that each has its shutdown.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmInit() -> c_int {
    call("dcgmInit", json!({}), |_| {
        client().init();
        Ok(json!({}))
    })
}

/// Ends one initialisation.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmShutdown() -> c_int {
    call("dcgmShutdown", json!({}), |_| {
        client().shutdown()?;
        Ok(json!({}))
    })
}

/// The name of a return code.
#[unsafe(no_mangle)]
pub extern "C" fn errorString(result: c_int) -> *const c_char {
    DcgmReturn::of(result).map_or(c"not a return code", Code::text).as_ptr()
}

/// Connects to the engine of the system.
///
/// # Safety
/// `address` is null or text with a terminator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dcgmConnect(address: *const c_char, handle: Out<'_, usize>) -> c_int {
    // SAFETY: the caller's word.
    let address = unsafe { text(address) };
    call("dcgmConnect", json!({ "address": address }), |scene| {
        let (Some(address), Some(place)) = (&address, handle) else {
            return Err(DcgmReturn::BadParam);
        };
        let connected = client().connect(&scene.script, address)?;
        place.write(connected);
        Ok(json!({ "handle": connected }))
    })
}

/// Ends a connection.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmDisconnect(handle: usize) -> c_int {
    call("dcgmDisconnect", json!({ "handle": handle }), |_| {
        client().disconnect(handle)?;
        Ok(json!({}))
    })
}

/// Starts the engine inside the process.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmStartEmbedded(mode: c_int, handle: Out<'_, usize>) -> c_int {
    call("dcgmStartEmbedded", json!({ "mode": mode }), |scene| {
        let place = handle.filter(|_| OPERATION_MODES.contains(&mode));
        let place = place.ok_or(DcgmReturn::BadParam)?;
        let started = client().start_embedded(&scene.script)?;
        place.write(started);
        Ok(json!({ "handle": started }))
    })
}

/// Stops the engine inside the process.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmStopEmbedded(handle: usize) -> c_int {
    call("dcgmStopEmbedded", json!({ "handle": handle }), |_| {
        client().stop_embedded(handle)?;
        Ok(json!({}))
    })
}

/// The entities of a group of them. Only CPUs are known.
///
/// # Safety
/// `entities` is null or an array of as many as `count` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dcgmGetEntityGroupEntities(
    handle: usize,
    entity_group: c_uint,
    entities: *mut MaybeUninit<c_uint>,
    count: Option<&mut c_int>,
    flags: c_uint,
) -> c_int {
    let capacity = count.as_deref().copied();
    let args = json!({
        "handle": handle, "entity_group": entity_group, "capacity": capacity, "flags": flags,
    });
    call_session("dcgmGetEntityGroupEntities", args, handle, |scene, _, _| {
        let count = count.ok_or(DcgmReturn::BadParam)?;
        // SAFETY: the caller's word. Places need not be initialised.
        let places = unsafe { array_mut(entities, length(*count)) };
        let is_cpu = entity_group == ENTITY_GROUP_CPU;
        let known = scene.script.entities.iter().filter(|_| is_cpu).map(|entity| entity.id);
        let known: Vec<c_uint> = known.collect();
        *count = c_int::try_from(known.len()).unwrap_or(c_int::MAX);
        let places = places.get_mut(..known.len()).ok_or(DcgmReturn::InsufficientSize)?;
        for (place, id) in places.iter_mut().zip(&known) {
            place.write(*id);
        }
        Ok(json!({ "entities": known }))
    })
}

/// Makes a group of entities.
///
/// # Safety
/// `name` is null or text with a terminator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dcgmGroupCreate(
    handle: usize,
    kind: c_int,
    name: *const c_char,
    group: Out<'_, usize>,
) -> c_int {
    // SAFETY: the caller's word.
    let name = unsafe { text(name) };
    let args = json!({ "handle": handle, "type": kind, "name": name });
    call_session("dcgmGroupCreate", args, handle, |_, session, ids| {
        // Both are looked at before anything is made, here and below: what is refused leaves nothing behind.
        let (Some(_), Some(place)) = (&name, group) else { return Err(DcgmReturn::BadParam) };
        let created = session.create_group(ids);
        place.write(created);
        Ok(json!({ "group": created }))
    })
}

/// Puts an entity into a group.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmGroupAddEntity(
    handle: usize,
    group: usize,
    entity_group: c_uint,
    entity: c_uint,
) -> c_int {
    let args = json!({
        "handle": handle, "group": group, "entity_group": entity_group, "entity": entity,
    });
    call_session("dcgmGroupAddEntity", args, handle, |scene, session, _| {
        session.add(&scene.script, group, EntityPair { group: entity_group, entity })?;
        Ok(json!({}))
    })
}

/// Ends a group.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmGroupDestroy(handle: usize, group: usize) -> c_int {
    let args = json!({ "handle": handle, "group": group });
    call_session("dcgmGroupDestroy", args, handle, |_, session, _| {
        session.destroy_group(group)?;
        Ok(json!({}))
    })
}

/// Makes a group of fields.
///
/// # Safety
/// `name` is null or text with a terminator, `fields` null or an array of `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dcgmFieldGroupCreate(
    handle: usize,
    count: c_int,
    fields: *const c_ushort,
    name: *const c_char,
    group: Out<'_, usize>,
) -> c_int {
    // SAFETY: the caller's word.
    let (name, fields) = unsafe { (text(name), array(fields, length(count))) };
    let args = json!({ "handle": handle, "fields": fields, "name": name });
    call_session("dcgmFieldGroupCreate", args, handle, |_, session, ids| {
        let (Some(name), Some(place)) = (&name, group) else { return Err(DcgmReturn::BadParam) };
        let created = session.create_field_group(ids, name, fields.to_vec())?;
        place.write(created);
        Ok(json!({ "field_group": created }))
    })
}

/// Ends a group of fields.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmFieldGroupDestroy(handle: usize, field_group: usize) -> c_int {
    let args = json!({ "handle": handle, "field_group": field_group });
    call_session("dcgmFieldGroupDestroy", args, handle, |_, session, _| {
        session.destroy_field_group(field_group)?;
        Ok(json!({}))
    })
}

/// Has an engine sample fields of entities: the period in microseconds, samples kept for seconds and in number.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmWatchFields(
    handle: usize,
    group: usize,
    field_group: usize,
    period_us: c_longlong,
    keep_s: f64,
    keep_samples: c_int,
) -> c_int {
    let args = json!({
        "handle": handle, "group": group, "field_group": field_group,
        "period_us": period_us, "keep_s": keep_s, "keep_samples": keep_samples,
    });
    call_session("dcgmWatchFields", args, handle, |scene, session, _| {
        session.watch(scene, group, field_group, period_us)?;
        Ok(json!({}))
    })
}

/// Ends a watch.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmUnwatchFields(handle: usize, group: usize, field_group: usize) -> c_int {
    let args = json!({ "handle": handle, "group": group, "field_group": field_group });
    call_session("dcgmUnwatchFields", args, handle, |_, session, _| {
        session.unwatch(group, field_group)?;
        Ok(json!({}))
    })
}

/// Has an engine sample now. Whether the caller waits for it or not, it is done when the call comes back.
#[unsafe(no_mangle)]
pub extern "C" fn dcgmUpdateAllFields(handle: usize, wait: c_int) -> c_int {
    let args = json!({ "handle": handle, "wait": wait });
    call_session("dcgmUpdateAllFields", args, handle, |scene, session, _| {
        session.update(scene);
        Ok(json!({}))
    })
}

/// The last samples, entity by entity. The caller has set the version of each value.
///
/// # Safety
/// `entities` and `fields` are null or arrays of as many as is said, `values` null or an array with a value for each
/// field of each entity.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dcgmEntitiesGetLatestValues(
    handle: usize,
    entities: *const EntityPair,
    entity_count: c_uint,
    fields: *const c_ushort,
    field_count: c_uint,
    flags: c_uint,
    values: *mut FieldValue,
) -> c_int {
    // SAFETY: the caller's word.
    let pairs = unsafe { array(entities, length(entity_count)) };
    // SAFETY: the caller's word.
    let fields = unsafe { array(fields, length(field_count)) };
    let asked: Vec<[u32; 2]> = pairs.iter().map(|pair| [pair.group, pair.entity]).collect();
    let args = json!({ "handle": handle, "entities": asked, "fields": fields, "flags": flags });
    call_session("dcgmEntitiesGetLatestValues", args, handle, |scene, session, _| {
        // SAFETY: the caller's word. Every bit pattern is a value, and the version has been set.
        let values = unsafe { array_mut(values, pairs.len() * fields.len()) };
        if values.is_empty() {
            return Err(DcgmReturn::BadParam);
        }
        if values.iter().any(|value| value.version != FIELD_VALUE_VERSION) {
            return Err(DcgmReturn::VerMismatch);
        }
        let latest = session.latest(scene, pairs, fields, flags);
        let stamped = pairs.iter().flat_map(|pair| fields.iter().map(|field| (pair.group, *field)));
        for ((value, latest), (group, field)) in values.iter_mut().zip(&latest).zip(stamped) {
            fill(value, latest, group, field);
        }
        let statuses: Vec<i32> = latest.iter().map(|latest| latest.status.number()).collect();
        Ok(json!({ "statuses": statuses }))
    })
}

fn fill(value: &mut FieldValue, latest: &Latest, entity_group: u32, field: u16) {
    value.entity_group = entity_group;
    value.entity = latest.entity;
    value.field = field;
    value.field_type = latest.payload.field_type();
    value.status = latest.status.number();
    value.ts_us = latest.ts_us;
    latest.payload.write(&mut value.value);
}
