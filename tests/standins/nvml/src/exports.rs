//! The C symbols of libnvidia-ml, as `nvml.h` declares them.
//!
//! A pointer to one thing is declared as the reference or nothing that it is, so that only arrays and texts are left to
//! follow by hand. Every function goes through the [`wattscribe_standins::Player`], which logs it and has it misbehave. Nothing panics here:
//! a panic may not cross into C.

#![allow(unsafe_code, reason = "C symbols are exported, and pointers from C are followed")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use wattscribe_standins::{Code, Device, Loaded, NvmlReturn, NvmlScript, Scene, field, scope};

use crate::abi::{FieldValue, PciInfo, union};
use crate::session::{Session, reading};

static LOADED: Loaded<NvmlScript> = Loaded::new();
static SESSION: Mutex<Session> = Mutex::new(Session::new());

/// Runs when the library is unloaded, and at the end of a process that has it then.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = unload;

extern "C" fn unload() {
    LOADED.unload();
    *session() = Session::new();
}

/// Plays a call about a subject, such as a device.
fn play(
    symbol: &'static str,
    subject: Option<&str>,
    args: Value,
    answer: impl FnOnce(&Scene<NvmlScript>) -> Result<Value, NvmlReturn>,
) -> c_uint {
    let player = LOADED.player(nvmlInit_v2 as *const () as usize);
    number(player.call(symbol, subject, args, answer))
}

fn session() -> MutexGuard<'static, Session> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(code: NvmlReturn) -> c_uint {
    code.number().unsigned_abs()
}

/// A call that is about no device.
fn call(
    symbol: &'static str,
    args: Value,
    answer: impl FnOnce(&Scene<NvmlScript>) -> Result<Value, NvmlReturn>,
) -> c_uint {
    play(symbol, None, args, answer)
}

/// A call that is about the device behind a handle.
fn call_device(
    symbol: &'static str,
    handle: usize,
    args: Value,
    answer: impl FnOnce(&Scene<NvmlScript>, &Device) -> Result<Value, NvmlReturn>,
) -> c_uint {
    let pci = session().pci(handle).map(str::to_owned);
    let mut all = json!({ "device": handle, "pci": pci });
    if let (Some(all), Value::Object(args)) = (all.as_object_mut(), args) {
        all.extend(args);
    }
    play(symbol, pci.as_deref(), all, |scene| {
        let device = session().device(&scene.script, handle)?.clone();
        answer(scene, &device)
    })
}

/// A place of the caller's for something that is handed out. A null pointer is none.
type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Writes what a call hands out, or refuses a null pointer.
fn put<T>(to: Out<'_, T>, value: T) -> Result<(), NvmlReturn> {
    to.ok_or(NvmlReturn::InvalidArgument)?.write(value);
    Ok(())
}

/// Writes text with its terminator into a buffer of `length` bytes.
///
/// # Safety
/// `to` is null or a buffer of the caller's with `length` bytes.
unsafe fn put_text(to: *mut c_char, length: c_uint, text: &str) -> Result<(), NvmlReturn> {
    let length = usize::try_from(length).unwrap_or_default();
    if to.is_null() {
        return Err(NvmlReturn::InvalidArgument);
    }
    if length <= text.len() {
        return Err(NvmlReturn::InsufficientSize);
    }
    // SAFETY: the buffer has more bytes than the text, so that the terminator fits too; no text of ours is in it.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// Text in an array of a structure, cut so that its terminator fits.
fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    array
}

/// Initialises; counted, so that each has its shutdown.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    call("nvmlInit_v2", json!({}), |scene| {
        session().init(&scene.script)?;
        Ok(json!({}))
    })
}

/// The same. Flags change nothing here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(flags: c_uint) -> c_uint {
    call("nvmlInitWithFlags", json!({ "flags": flags }), |scene| {
        session().init(&scene.script)?;
        Ok(json!({}))
    })
}

/// Ends one initialisation.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    call("nvmlShutdown", json!({}), |_| {
        session().shutdown()?;
        Ok(json!({}))
    })
}

/// The name of a return code.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(result: c_uint) -> *const c_char {
    let code = c_int::try_from(result).ok().and_then(NvmlReturn::of);
    code.map_or(c"not a return code", Code::text).as_ptr()
}

/// The driver's version.
///
/// # Safety
/// `version` is null or a buffer of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(
    version: *mut c_char,
    length: c_uint,
) -> c_uint {
    call("nvmlSystemGetDriverVersion", json!({ "length": length }), |scene| {
        session().check(&scene.script)?;
        let text = &scene.script.driver.version;
        // SAFETY: the caller's word for the buffer.
        unsafe { put_text(version, length, text) }?;
        Ok(json!({ "version": text }))
    })
}

/// How many devices there are.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: Out<'_, c_uint>) -> c_uint {
    call("nvmlDeviceGetCount_v2", json!({}), |scene| {
        let found = session().count(&scene.script)?;
        put(count, c_uint::try_from(found).unwrap_or(c_uint::MAX))?;
        Ok(json!({ "count": found }))
    })
}

/// The handle of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<'_, usize>) -> c_uint {
    call("nvmlDeviceGetHandleByIndex_v2", json!({ "index": index }), |scene| {
        let handle = session().handle(&scene.script, index)?;
        put(device, handle)?;
        Ok(json!({ "device": handle, "pci": session().pci(handle) }))
    })
}

/// The UUID of a device.
///
/// # Safety
/// `uuid` is null or a buffer of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: usize,
    uuid: *mut c_char,
    length: c_uint,
) -> c_uint {
    call_device("nvmlDeviceGetUUID", device, json!({ "length": length }), |_, device| {
        // SAFETY: the caller's word for the buffer.
        unsafe { put_text(uuid, length, &device.uuid) }?;
        Ok(json!({ "uuid": device.uuid }))
    })
}

/// The product name of a device.
///
/// # Safety
/// `name` is null or a buffer of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: usize,
    name: *mut c_char,
    length: c_uint,
) -> c_uint {
    call_device("nvmlDeviceGetName", device, json!({ "length": length }), |_, device| {
        // SAFETY: the caller's word for the buffer.
        unsafe { put_text(name, length, &device.name) }?;
        Ok(json!({ "name": device.name }))
    })
}

/// Whether the driver keeps a device initialised while nobody uses it: `nvmlEnableState_t`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPersistenceMode(device: usize, mode: Out<'_, c_uint>) -> c_uint {
    call_device("nvmlDeviceGetPersistenceMode", device, json!({}), |_, device| {
        put(mode, c_uint::from(device.persistence_mode))?;
        Ok(json!({ "mode": device.persistence_mode }))
    })
}

/// Whether a device is partitioned, now and after its next reset.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(
    device: usize,
    current: Out<'_, c_uint>,
    pending: Out<'_, c_uint>,
) -> c_uint {
    call_device("nvmlDeviceGetMigMode", device, json!({}), |_, device| {
        let mode = device.mig.ok_or(NvmlReturn::NotSupported)?;
        put(current, c_uint::from(mode))?;
        put(pending, c_uint::from(mode))?;
        Ok(json!({ "mode": mode }))
    })
}

/// The PCI address of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo_v3(device: usize, pci: Out<'_, PciInfo>) -> c_uint {
    call_device("nvmlDeviceGetPciInfo_v3", device, json!({}), |_, device| {
        // An address that cannot be read is a fault of the script, which its writer sees by this code.
        let [domain, bus, slot] = address(&device.pci).ok_or(NvmlReturn::OperatingSystem)?;
        let bus_id = format!("{domain:08X}:{bus:02X}:{slot:02X}.0");
        let bus_id_legacy = format!("{domain:04X}:{bus:02X}:{slot:02X}.0");
        put(
            pci,
            PciInfo {
                bus_id_legacy: array(&bus_id_legacy),
                domain,
                bus,
                device: slot,
                pci_device_id: 0x2941_10de,
                pci_subsystem_id: 0,
                bus_id: array(&bus_id),
            },
        )?;
        Ok(json!({ "bus_id": bus_id }))
    })
}

/// Domain, bus and device of an address such as `0008:01:00.0`.
fn address(pci: &str) -> Option<[c_uint; 3]> {
    let mut parts = pci.strip_suffix(".0")?.split(':');
    let mut next = || c_uint::from_str_radix(parts.next()?, 16).ok();
    let found = [next()?, next()?, next()?];
    parts.next().is_none().then_some(found)
}

/// Power of the GPU in milliwatts, the mean of the last second.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(device: usize, power: Out<'_, c_uint>) -> c_uint {
    call_device("nvmlDeviceGetPowerUsage", device, json!({}), |scene, device| {
        let (_, found) = reading(device, field::POWER_AVERAGE, scope::GPU, scene.seconds)?;
        #[expect(clippy::cast_possible_truncation, reason = "keeps within the range")]
        #[expect(clippy::cast_sign_loss, reason = "keeps within the range")]
        put(power, found as c_uint)?;
        Ok(json!({ "power": found }))
    })
}

/// Energy in millijoules since the driver was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEnergyConsumption(
    device: usize,
    energy: Out<'_, c_ulonglong>,
) -> c_uint {
    call_device("nvmlDeviceGetTotalEnergyConsumption", device, json!({}), |scene, device| {
        let (_, found) = reading(device, field::TOTAL_ENERGY, scope::GPU, scene.seconds)?;
        #[expect(clippy::cast_possible_truncation, reason = "keeps within the range")]
        #[expect(clippy::cast_sign_loss, reason = "keeps within the range")]
        put(energy, found as c_ulonglong)?;
        Ok(json!({ "energy": found }))
    })
}

/// Fields of a device, each with a return code of its own.
///
/// # Safety
/// `values` is null or an array of `count` values that are initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: usize,
    count: c_int,
    values: *mut FieldValue,
) -> c_uint {
    let length = usize::try_from(count).unwrap_or_default();
    let values: &mut [FieldValue] = if values.is_null() {
        &mut []
    } else {
        // SAFETY: not null, and an array by the caller's word; nobody else has it during the call.
        unsafe { std::slice::from_raw_parts_mut(values, length) }
    };
    let asked: Vec<[u32; 2]> = values.iter().map(|at| [at.field_id, at.scope_id]).collect();
    let args = json!({ "fields": asked });
    call_device("nvmlDeviceGetFieldValues", device, args, |scene, device| {
        if values.is_empty() {
            return Err(NvmlReturn::InvalidArgument);
        }
        let mut results = Vec::with_capacity(values.len());
        for value in values {
            let found = reading(device, value.field_id, value.scope_id, scene.seconds);
            value.timestamp_us = scene.unix_us;
            value.latency_us = 0;
            value.result = number(found.as_ref().err().copied().unwrap_or(NvmlReturn::OK));
            if let Ok((field, reading)) = found {
                value.value_type = field.value_type as u32;
                value.value = union(field.value_type, reading);
            }
            results.push(value.result);
        }
        Ok(json!({ "results": results }))
    })
}
