//! The stand-in for libdcgm as a program meets it: loaded, called through C, and changed while it is open.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod loaded;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use wattscribe_standins::DcgmReturn::{
    BadParam, ConnectionNotValid, InsufficientSize, NoData, NotSupported, NotWatched, RequiresRoot,
    VerMismatch,
};
use wattscribe_standins::{
    Behaviour, Blank, BlankKind, Block, DcgmReturn, DcgmScript, Entity, Script, Stage, Stamp,
    Value, unbalanced,
};

use crate::loaded::{Dcgm, FieldValue};

/// A period that no test lives to see the end of: a sample is taken only when an update is demanded.
const NEVER_US: i64 = 3_600_000_000;

/// The CPUs of a GB200 node, one of which does not measure SysIO.
fn cpus() -> [Entity; 2] {
    [Entity::new(0).watts(1130, 50.149).watts(1132, 6.125), Entity::new(1).watts(1130, 46.765)]
}

/// A script on a stage of its own, and the library loaded from it and initialised.
fn staged(script: DcgmScript) -> (TempDir, Stage<DcgmScript>, Dcgm) {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), script).unwrap();
    let dcgm = Dcgm::load(stage.library());
    dcgm.init().unwrap();
    (folder, stage, dcgm)
}

/// What [`watch`] has set up.
struct Watched {
    handle: usize,
    group: usize,
    fields: usize,
}

/// Watches fields of the CPUs `ids`.
fn watch(dcgm: &Dcgm, handle: usize, ids: &[u32], fields: &[u16]) -> Result<Watched, DcgmReturn> {
    let group = dcgm.group(handle, "cpus")?;
    ids.iter().try_for_each(|id| dcgm.add_cpu(handle, group, *id))?;
    let fields = dcgm.field_group(handle, fields, "power")?;
    dcgm.watch(handle, group, fields, NEVER_US)?;
    Ok(Watched { handle, group, fields })
}

fn ids(value: &FieldValue) -> (u32, u32, u16) {
    (value.group, value.entity, value.field)
}

#[test]
fn every_symbol_is_exported() {
    let (_folder, _stage, dcgm) = staged(DcgmScript::default());
    for symbol in DcgmScript::SYMBOLS.iter().chain(&["errorString"]) {
        assert!(dcgm.has(symbol), "{symbol}");
    }
    assert!(!dcgm.has("dcgmConnect_v9"), "a symbol that is not there must not be found");
    assert_eq!(dcgm.error_string(-21), "CONNECTION_NOT_VALID");
    assert_eq!(dcgm.error_string(1), "not a return code");
}

#[test]
fn power_is_watched_read_and_given_back() {
    let (_folder, stage, dcgm) = staged(DcgmScript::new(cpus()));
    let handle = dcgm.connect("127.0.0.1").unwrap();
    assert_eq!(dcgm.cpus(handle, 64).unwrap(), [0, 1]);
    assert_eq!(dcgm.cpus(handle, 1), Err((InsufficientSize, 2)));
    let watched = watch(&dcgm, handle, &[0, 1], &[1130, 1132]).unwrap();
    let early = dcgm.latest(handle, &[0], &[1130]).unwrap();
    assert_eq!((early[0].status(), early[0].ts), (NoData, 0));

    dcgm.update(handle).unwrap();
    let values = dcgm.latest(handle, &[0, 1], &[1130, 1132, 1133]).unwrap();
    let found: Vec<_> = values.iter().map(ids).collect();
    let expected = [(0, 1130), (0, 1132), (0, 1133), (1, 1130), (1, 1132), (1, 1133)];
    assert_eq!(found, expected.map(|(entity, field)| (7, entity, field)));
    let statuses: Vec<_> = values.iter().map(FieldValue::status).collect();
    let ok = DcgmReturn::Ok;
    assert_eq!(statuses, [ok, ok, NotWatched, ok, ok, NotWatched]);
    let blank = 140_737_488_355_328.0;
    let numbers: Vec<_> = values.iter().map(FieldValue::double).collect();
    assert_eq!(numbers, [50.149, 6.125, blank, 46.765, blank + 2.0, blank]);
    assert!(values.iter().all(|value| value.field_type == u16::from(b'd')));

    dcgm.unwatch(handle, watched.group, watched.fields).unwrap();
    let unwatched = dcgm.latest(handle, &[0], &[1130]).unwrap();
    assert_eq!(unwatched[0].status(), NotWatched);
    dcgm.destroy(handle, watched.group, watched.fields).unwrap();
    dcgm.disconnect(handle).unwrap();
    dcgm.shutdown().unwrap();
    let calls = stage.calls().unwrap();
    assert_eq!(unbalanced(&calls), Vec::<String>::new());
    let watch = calls.iter().find(|call| call.symbol == "dcgmWatchFields").unwrap();
    assert_eq!(
        watch.args,
        json!({
            "handle": handle, "group": watched.group, "field_group": watched.fields,
            "period_us": NEVER_US, "keep_s": 60.0, "keep_samples": 600,
        })
    );
}

#[test]
fn a_value_needs_its_version() {
    let (_folder, _stage, dcgm) = staged(DcgmScript::new(cpus()));
    let handle = dcgm.connect("127.0.0.1").unwrap();
    watch(&dcgm, handle, &[0], &[1130]).unwrap();
    for version in [0, 0x0100_1018, 0x0200_1028] {
        let refused = dcgm.latest_versioned(handle, &[0], &[1130], version);
        assert_eq!(refused.err(), Some(VerMismatch), "{version:x}");
    }
    assert_eq!(dcgm.latest(handle, &[], &[1130]).err(), Some(BadParam));
}

#[test]
fn time_stamps_are_the_engines() {
    let (_folder, mut stage, dcgm) = staged(DcgmScript::new(cpus()));
    let handle = dcgm.connect("127.0.0.1").unwrap();
    watch(&dcgm, handle, &[0, 1], &[1130]).unwrap();
    let stamps = || {
        dcgm.update(handle).unwrap();
        let values = dcgm.latest(handle, &[0, 1], &[1130]).unwrap();
        [values[0].ts, values[1].ts]
    };
    let first = stamps();
    assert!(first[0] > 1_600_000_000_000_000, "microseconds since 1970");
    stage.change(|script| script.field_mut(0, 1130).unwrap().stamp = Stamp::Still).unwrap();
    let second = stamps();
    assert_eq!(second[0], first[0]);
    assert!(second[1] > first[1]);
    stage.change(|script| script.field_mut(0, 1130).unwrap().stamp = Stamp::AtUs(5)).unwrap();
    assert_eq!(stamps()[0], 5);
}

#[test]
fn values_are_what_the_script_says() {
    let blank = |kind, blank| Value::Blank { kind, blank };
    let values = [
        Value::Double(f64::NAN.into()),
        Value::Double(0.0.into()),
        Value::Int64(53),
        Value::Text("53 W".into()),
        blank(BlankKind::NotPermitted, Blank::Double),
        blank(BlankKind::NotFound, Blank::Int64),
        blank(BlankKind::Blank, Blank::Int32),
        blank(BlankKind::NotSupported, Blank::Text),
    ];
    let fields: Vec<u16> = (2000..).take(values.len()).collect();
    let with = |entity: Entity, (field, value): (&u16, Value)| entity.with(*field, value);
    let mut entity = fields.iter().zip(values).fold(Entity::new(3), with);
    entity.fields[1].status = DcgmReturn::StaleData;
    entity.fields[2].stamped_entity = Some(9);
    let (_folder, _stage, dcgm) = staged(DcgmScript::new([entity]));
    let handle = dcgm.connect("127.0.0.1").unwrap();
    watch(&dcgm, handle, &[3], &fields).unwrap();
    dcgm.update(handle).unwrap();
    let found = dcgm.latest(handle, &[3], &fields).unwrap();
    let types: Vec<u8> = found.iter().map(|value| value.field_type.to_le_bytes()[0]).collect();
    assert_eq!(types, b"ddisdiis");
    assert!(found[0].double().is_nan());
    assert_eq!((found[1].double(), found[1].status()), (0.0, DcgmReturn::StaleData));
    assert_eq!((found[2].int64(), found[2].entity), (53, 9));
    assert_eq!(found[3].text(), "53 W");
    assert_eq!(found[4].double(), 140_737_488_355_331.0);
    assert_eq!(found[5].int64(), 0x7fff_ffff_ffff_fff1);
    assert_eq!(found[6].int64(), 0x7fff_fff0);
    assert_eq!(found[7].text(), "<<<NOT_SUPPORTED>>>");
}

#[test]
fn without_an_engine_of_the_system_there_is_one_inside() {
    let (_folder, mut stage, dcgm) = staged(DcgmScript::new(cpus()).without_engine());
    assert_eq!(dcgm.connect("127.0.0.1"), Err(ConnectionNotValid));
    stage.change(|script| script.embedded_error = Some(RequiresRoot)).unwrap();
    assert_eq!(dcgm.start_embedded(), Err(RequiresRoot));
    stage.change(|script| script.embedded_error = None).unwrap();
    let handle = dcgm.start_embedded().unwrap();
    watch(&dcgm, handle, &[1], &[1130]).unwrap();
    dcgm.update(handle).unwrap();
    assert_eq!(dcgm.latest(handle, &[1], &[1130]).unwrap()[0].double(), 46.765);
    dcgm.stop_embedded(handle).unwrap();
    let left = unbalanced(&stage.calls().unwrap());
    assert_eq!(left.len(), 4, "two groups, a watch and an initialisation: {left:?}");
}

#[test]
fn a_field_that_is_refused_is_not_watched() {
    let mut script = DcgmScript::new(cpus());
    script.watch_refused.insert(1132, NotSupported);
    let (_folder, _stage, dcgm) = staged(script);
    let handle = dcgm.connect("127.0.0.1").unwrap();
    assert_eq!(watch(&dcgm, handle, &[0], &[1130, 1132]).err(), Some(NotSupported));
    let group = dcgm.group(handle, "cpus").unwrap();
    dcgm.add_cpu(handle, group, 0).unwrap();
    assert_eq!(dcgm.field_group(handle, &[1130], "power"), Err(DcgmReturn::DuplicateKey));
    let fields = dcgm.field_group(handle, &[1130], "rail").unwrap();
    assert_eq!(dcgm.watch(handle, group, fields, NEVER_US), Ok(()));
}

#[test]
fn an_engine_that_restarts_wants_a_new_connection() {
    let (_folder, mut stage, dcgm) = staged(DcgmScript::new(cpus()));
    let old = dcgm.connect("127.0.0.1").unwrap();
    let watched = watch(&dcgm, old, &[0], &[1130]).unwrap();
    stage.change(|script| script.engine.running = false).unwrap();
    assert_eq!(dcgm.update(old), Err(ConnectionNotValid));
    assert_eq!(dcgm.connect("127.0.0.1"), Err(ConnectionNotValid));
    stage.change(DcgmScript::restart).unwrap();
    assert_eq!(dcgm.latest(old, &[0], &[1130]).err(), Some(ConnectionNotValid));
    let gone = dcgm.unwatch(watched.handle, watched.group, watched.fields);
    assert_eq!(gone, Err(ConnectionNotValid));
    dcgm.disconnect(old).unwrap();

    let new = dcgm.connect("127.0.0.1").unwrap();
    watch(&dcgm, new, &[0], &[1130]).unwrap();
    dcgm.update(new).unwrap();
    assert_eq!(dcgm.latest(new, &[0], &[1130]).unwrap()[0].double(), 50.149);
    let left = unbalanced(&stage.calls().unwrap());
    let of_old = left.iter().any(|fault| fault.ends_with(&format!("connection {old}")));
    assert!(!of_old && left.len() == 5, "only what the new one has: {left:?}");
}

#[test]
fn a_call_that_blocks_does_not_hold_up_another() {
    let blocks = Behaviour::blocks(Block::UntilChanged);
    let (_folder, mut stage, dcgm) =
        staged(DcgmScript::new(cpus()).call("dcgmUpdateAllFields", blocks));
    let dcgm = Arc::new(dcgm);
    let handle = dcgm.connect("127.0.0.1").unwrap();
    watch(&dcgm, handle, &[0], &[1130]).unwrap();
    let blocked = thread::spawn({
        let dcgm = Arc::clone(&dcgm);
        move || dcgm.update(handle)
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    let has_begun = |stage: &Stage<DcgmScript>| {
        let calls = stage.calls().unwrap();
        calls.iter().any(|call| call.symbol == "dcgmUpdateAllFields")
    };
    while !has_begun(&stage) {
        assert!(Instant::now() < deadline, "the call has not begun");
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(dcgm.latest(handle, &[0], &[1130]).unwrap()[0].status(), NoData);
    assert!(!blocked.is_finished());
    let fails = Behaviour::fails(DcgmReturn::Timeout);
    stage.change(|script| script.set_call("dcgmUpdateAllFields", fails)).unwrap();
    assert_eq!(blocked.join().unwrap(), Err(DcgmReturn::Timeout));
}
