//! What an engine samples, and when; what it keeps for a connection.

use std::sync::Arc;

use wattscribe_standins::{Entity, Series};

use super::*;

const CPU_0: EntityPair = EntityPair { group: ENTITY_GROUP_CPU, entity: 0 };
const START_US: i64 = 1_000_000_000;

/// The script at a time in microseconds since [`START_US`], which is second 0 of its series.
fn scene(script: &DcgmScript, at_us: i64) -> Scene<DcgmScript> {
    let seconds = f64::from(i32::try_from(at_us).unwrap()) / 1e6;
    Scene { script: Arc::new(script.clone()), seconds, unix_us: START_US + at_us }
}

fn script() -> DcgmScript {
    let steps = Series::steps([(0.0, 50.0), (0.25, 60.0)]);
    DcgmScript::new([Entity::new(0).watts(1130, steps).watts(1132, 6.125)])
}

/// CPU 0 watched every 100 ms from 0 on.
fn watched(script: &DcgmScript, fields: &[u16]) -> Session {
    let (mut session, mut ids) = (Session::default(), 0);
    let group = session.create_group(&mut ids);
    session.add(script, group, CPU_0).unwrap();
    let fields = session.create_field_group(&mut ids, "fields", fields.to_vec()).unwrap();
    session.watch(&scene(script, 0), group, fields, 100_000).unwrap();
    session
}

fn check(session: &mut Session, script: &DcgmScript, at_us: i64, field: u16, expected: &Latest) {
    let found = session.latest(&scene(script, at_us), &[CPU_0], &[field], 0);
    assert_eq!(found, std::slice::from_ref(expected), "{field} at {at_us} us");
}

fn double(watts: f64, at_us: i64) -> Latest {
    let payload = Payload::Double(watts);
    Latest { entity: 0, status: DcgmReturn::Ok, ts_us: START_US + at_us, payload }
}

fn nothing(status: DcgmReturn) -> Latest {
    let payload = Payload::blank(Blank::Double, BlankKind::Blank);
    Latest { entity: 0, status, ts_us: 0, payload }
}

#[test]
fn a_watched_field_is_sampled_in_its_period() {
    let script = script();
    let mut session = watched(&script, &[1130]);
    check(&mut session, &script, 99_999, 1130, &nothing(DcgmReturn::NoData));
    check(&mut session, &script, 199_999, 1130, &double(50.0, 100_000));
    check(&mut session, &script, 299_999, 1130, &double(50.0, 200_000));
    check(&mut session, &script, 300_000, 1130, &double(60.0, 300_000));
    check(&mut session, &script, 300_000, 1132, &nothing(DcgmReturn::NotWatched));
}

#[test]
fn an_update_that_is_demanded_samples_at_once() {
    let script = script();
    let mut session = watched(&script, &[1130]);
    session.update(&scene(&script, 40_000));
    check(&mut session, &script, 50_000, 1130, &double(50.0, 40_000));
    check(&mut session, &script, 100_000, 1130, &double(50.0, 100_000));
}

#[test]
fn a_stamp_that_stands_still_holds_its_value_too() {
    let mut script = script();
    let mut session = watched(&script, &[1130]);
    check(&mut session, &script, 200_000, 1130, &double(50.0, 200_000));
    script.field_mut(0, 1130).unwrap().stamp = Stamp::Still;
    check(&mut session, &script, 9_000_000, 1130, &double(50.0, 200_000));
    script.field_mut(0, 1130).unwrap().stamp = Stamp::AtUs(START_US - 7);
    check(&mut session, &script, 9_000_000, 1130, &double(60.0, -7));
    script.field_mut(0, 1130).unwrap().stamp = Stamp::Advancing;
    check(&mut session, &script, 9_000_000, 1130, &double(60.0, 9_000_000));
}

#[test]
fn what_is_not_measured_is_a_placeholder_with_success() {
    let script = script();
    let mut session = watched(&script, &[1130, 1131]);
    let scene = scene(&script, 100_000);
    let blank =
        |kind| Latest { payload: Payload::blank(Blank::Double, kind), ..double(0.0, 100_000) };
    let found = session.latest(&scene, &[CPU_0], &[1131], 0);
    assert_eq!(found, [blank(BlankKind::NotSupported)]);
    let found = session.latest(&scene, &[CPU_0], &[1130], FLAG_LIVE_DATA);
    assert_eq!(found, [blank(BlankKind::Blank)], "live data of a watched field");
}

#[test]
fn a_value_is_stamped_as_the_script_says() {
    let mut script = script();
    let field = script.field_mut(0, 1130).unwrap();
    field.stamped_entity = Some(9);
    field.status = DcgmReturn::StaleData;
    let mut session = watched(&script, &[1130]);
    let expected = Latest { entity: 9, status: DcgmReturn::StaleData, ..double(50.0, 100_000) };
    check(&mut session, &script, 100_000, 1130, &expected);
    script.entities.clear();
    check(&mut session, &script, 200_000, 1130, &nothing(DcgmReturn::NoData));
}

#[test]
fn groups_are_what_was_put_into_them() {
    let mut script = script();
    let (mut session, mut ids) = (Session::default(), 0);
    let group = session.create_group(&mut ids);
    let mut add = |group, pair| session.add(&script, group, pair);
    assert_eq!(add(group + 1, CPU_0), Err(DcgmReturn::NotConfigured));
    assert_eq!(add(group, EntityPair { group: 0, ..CPU_0 }), Err(DcgmReturn::BadParam));
    assert_eq!(add(group, EntityPair { entity: 5, ..CPU_0 }), Err(DcgmReturn::BadParam));
    let fields = session.create_field_group(&mut ids, "a", vec![1130, 1132]).unwrap();
    let mut create = |name: &str, fields| session.create_field_group(&mut ids, name, fields);
    assert_eq!(create("a", vec![1130]), Err(DcgmReturn::DuplicateKey));
    assert_eq!(create("b", vec![]), Err(DcgmReturn::BadParam));

    let empty = session.watch(&scene(&script, 0), group, fields, 100_000);
    assert_eq!(empty, Err(DcgmReturn::GroupIsEmpty));
    session.add(&script, group, CPU_0).unwrap();
    assert_eq!(session.add(&script, group, CPU_0), Err(DcgmReturn::BadParam));
    assert_eq!(session.watch(&scene(&script, 0), group, fields, 0), Err(DcgmReturn::BadParam));
    script.watch_refused.insert(1132, DcgmReturn::NotSupported);
    let refused = session.watch(&scene(&script, 0), group, fields, 100_000);
    assert_eq!(refused, Err(DcgmReturn::NotSupported));
    assert_eq!(session.unwatch(group, fields), Err(DcgmReturn::BadParam), "it was refused");
    script.watch_refused.clear();
    session.watch(&scene(&script, 0), group, fields, 100_000).unwrap();
    assert_eq!(session.unwatch(group, fields), Ok(()));
    assert_eq!(session.destroy_field_group(fields), Ok(()));
    assert_eq!(session.destroy_field_group(fields), Err(DcgmReturn::NoData));
    assert_eq!(session.destroy_group(group), Ok(()));
    assert_eq!(session.destroy_group(group), Err(DcgmReturn::NotConfigured));
}
