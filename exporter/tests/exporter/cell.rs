//! What a cell lets be published, on clocks of the test's own making: age, hangs, and energy counted exactly.

use std::time::Duration;

use wattscribe_exporter::cell::{Cell, Limits, Overdue};
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure::{
    self, CounterReset, FirstRead, HostSuspended, ImplausibleStep, Zero,
};
use wattscribe_exporter::sensor::{Kind, Measure, Meter, Sensor, Source, Zone};
use wattscribe_rules::{Averaging, State};

const LIMITS: Limits =
    Limits { stale_after: Duration::from_secs(3), read_deadline: Duration::from_secs(1) };

/// The two ranges that zones commonly have, in microjoules.
const WIDE: u64 = 262_143_328_850;
const NARROW: u64 = 65_532_610_987;

pub(crate) fn at(awake_s: f64) -> Now {
    at_after_sleep(awake_s, 0.0)
}

/// The clocks of a host that has slept since it booted.
pub(crate) fn at_after_sleep(awake_s: f64, slept_s: f64) -> Now {
    let monotonic = Duration::from_secs_f64(awake_s);
    let boot = Duration::from_secs_f64(awake_s + slept_s);
    Now { wall_s: 1e9 + awake_s + slept_s, monotonic, boot }
}

fn zone(zone: Zone, range_uj: Option<u64>) -> Cell {
    Cell::new(Sensor {
        source: Source::Rapl,
        id: "intel-rapl:0".into(),
        channel: "intel-rapl:0".into(),
        kind: Kind::Zone(zone),
        socket: Some(0),
        label: "package-0".into(),
        averaging: Averaging::Difference,
        meter: Meter::Energy { value: "energy_uj".into(), range_uj, plates: Vec::new() },
    })
}

fn watts(cell: &Cell, now: Now) -> Option<f64> {
    cell.judge(now, LIMITS).watts
}

#[test]
fn a_reading_is_published_until_it_is_old() {
    let cell = zone(Zone::Core, None);
    let judge = |now: f64| {
        let verdict = cell.judge(at(now), LIMITS);
        (verdict.state, verdict.reason, verdict.watts)
    };
    assert_eq!(judge(0.0), (State::Unavailable, Some("first_read"), None));
    cell.begin(at(0.0));
    assert_eq!(judge(1.0), (State::Unavailable, Some("first_read"), None));
    assert_eq!(judge(1.1), (State::Stale, Some("timeout"), None), "the first read hangs");
    cell.finish(Ok(Measure::Watts(5.0)), at(2.0)).unwrap();
    assert_eq!(judge(2.0), (State::Ok, None, Some(5.0)));
    assert_eq!(judge(5.0), (State::Ok, None, Some(5.0)));
    assert_eq!(judge(5.1), (State::Stale, Some("stale"), None));
    cell.begin(at(3.0));
    assert_eq!(judge(4.5), (State::Ok, None, Some(5.0)), "a hung read does not spoil the last one");
    assert_eq!(judge(5.1), (State::Stale, Some("timeout"), None));
    cell.finish(Err(Failure::Io), at(6.0)).unwrap_err();
    assert_eq!(judge(6.0), (State::Transient, Some("io"), None));
    cell.finish(Ok(Measure::Watts(7.0)), at(7.0)).unwrap();
    assert_eq!(watts(&cell, at_after_sleep(7.0, 3600.0)), None, "age counts while the host sleeps");
    cell.lose(at(7.0));
    assert_eq!(judge(7.0), (State::Lost, Some("gone"), None));
    cell.lose(at(9.0));
    assert!(cell.is_lost_for(at(8.5), Duration::from_secs(1)), "since it was lost first");
}

#[test]
fn a_reading_from_before_the_boot_is_as_old_as_it_says() {
    let cell = zone(Zone::Core, None);
    for (before_boot_s, is_fresh) in [(0.0, true), (0.5, true), (1.5, false), (1e9, false)] {
        let before_boot = Duration::from_secs_f64(before_boot_s);
        cell.finish_dated(Ok(Measure::Watts(5.0)), at(0.0), before_boot).unwrap();
        // The host has been up for two seconds.
        assert_eq!(watts(&cell, at(2.0)).is_some(), is_fresh, "{before_boot_s} s before");
    }
    cell.finish_dated(Ok(Measure::Watts(5.0)), at(0.0), Duration::MAX).unwrap();
    assert_eq!(watts(&cell, at(2.0)), None);
}

#[test]
fn a_hang_is_counted_once_for_each_read_and_news_once_in_a_row() {
    let cell = zone(Zone::Core, None);
    // Reads that begin at a time and end at another, or never.
    let reads = [
        (0.0, 0.5, None),
        (10.0, 12.0, Some(Overdue::First)),
        (20.0, 22.0, Some(Overdue::Again)),
        (30.0, 30.1, None),
        (40.0, 42.0, Some(Overdue::First)),
    ];
    for (begin_s, end_s, expected) in reads {
        cell.begin(at(begin_s));
        assert_eq!(cell.becomes_overdue(at(end_s), LIMITS), expected, "read at {begin_s}");
        assert_eq!(cell.becomes_overdue(at(end_s), LIMITS), None, "told once");
        cell.finish(Ok(Measure::Watts(1.0)), at(end_s)).unwrap();
    }
}

/// What one read of a counter gives: watts, and joules on the page.
pub(crate) type Given = Result<(f64, f64), Failure>;

/// Reads the counter at these times and compares what each read gives.
pub(crate) fn check(what: &str, cell: &Cell, reads: &[(Now, u64, Given)]) {
    for (now, value, expected) in reads {
        let outcome = cell.finish(Ok(Measure::MicroJoules(*value)), *now);
        let verdict = cell.judge(*now, LIMITS);
        let found = outcome.map(|()| (verdict.watts.unwrap(), verdict.joules.unwrap()));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        let fits = match (&found, expected) {
            (Ok(found), Ok(expected)) => close(found.0, expected.0) && close(found.1, expected.1),
            (found, expected) => found == expected,
        };
        assert!(fits, "{what}, {value} uJ: {found:?}, expected {expected:?}");
        assert_eq!(verdict.joules.is_some(), outcome.is_ok(), "{what}: no state, no number");
    }
}

pub(crate) fn package(range_uj: impl Into<Option<u64>>) -> Cell {
    zone(Zone::Package, range_uj.into())
}

#[test]
fn energy_is_counted_to_the_microjoule() {
    check(
        "growth; power is over the time that passed",
        &package(WIDE),
        &[
            (at(0.0), 7_000_000, Err(FirstRead)),
            (at(1.0), 107_000_000, Ok((100.0, 100.0))),
            (at(1.5), 107_000_001, Ok((0.000_002, 100.000_001))),
            (at(3.5), 507_000_001, Ok((200.0, 500.000_001))),
        ],
    );
    for range_uj in [WIDE, NARROW] {
        check(
            "a wrap at the zone's own range",
            &package(range_uj),
            &[
                (at(0.0), range_uj - 60_000_000, Err(FirstRead)),
                (at(1.0), 40_000_000, Ok((100.0, 100.0))),
                (at(2.0), 140_000_000, Ok((100.0, 200.0))),
            ],
        );
    }
}

#[test]
fn what_a_counter_cannot_have_delivered_is_not_counted() {
    for range_uj in [Some(WIDE), None] {
        check(
            "a fall that is no wrap at this range starts the count anew",
            &package(range_uj),
            &[
                (at(0.0), NARROW - 60_000_000, Err(FirstRead)),
                (at(1.0), NARROW, Ok((60.0, 60.0))),
                (at(2.0), 40_000_000, Err(CounterReset)),
                (at(3.0), 140_000_000, Ok((100.0, 100.0))),
                (at(4.0), 240_000_000, Ok((100.0, 200.0))),
            ],
        );
    }
    check(
        "a small step back takes nothing away and is not counted twice",
        &package(WIDE),
        &[
            (at(0.0), 5_000_000_000, Err(FirstRead)),
            (at(1.0), 5_100_000_000, Ok((100.0, 100.0))),
            (at(2.0), 5_099_000_000, Err(ImplausibleStep)),
            (at(3.0), 5_300_000_000, Ok((100.0, 300.0))),
        ],
    );
    check(
        "one wild value is passed over",
        &package(WIDE),
        &[
            (at(0.0), 5_000_000_000, Err(FirstRead)),
            (at(1.0), 200_000_000_000, Err(ImplausibleStep)),
            (at(2.0), 5_200_000_000, Ok((100.0, 200.0))),
        ],
    );
    check(
        "a counter that really is elsewhere adds nothing for the way there",
        &package(WIDE),
        &[
            (at(0.0), 5_000_000_000, Err(FirstRead)),
            (at(1.0), 5_100_000_000, Ok((100.0, 100.0))),
            (at(2.0), 200_000_000_000, Err(ImplausibleStep)),
            (at(3.0), 200_100_000_000, Err(ImplausibleStep)),
            (at(4.0), 200_200_000_000, Ok((100.0, 100.0))),
        ],
    );
}

#[test]
fn what_one_step_alone_does_not_tell() {
    check(
        "a package that stands still is no power of zero",
        &package(WIDE),
        &[(at(0.0), 5, Err(FirstRead)), (at(1.0), 5, Err(Zero)), (at(2.0), 6, Ok((1e-6, 1e-6)))],
    );
    check(
        "cores that stand still are idle",
        &zone(Zone::Core, Some(WIDE)),
        &[(at(0.0), 5, Err(FirstRead)), (at(1.0), 5, Ok((0.0, 0.0)))],
    );
    check(
        "more than the range, or a gap that could hide a wrap",
        &package(NARROW),
        &[
            (at(0.0), 5_000_000, Err(FirstRead)),
            (at(1.0), NARROW + 1, Err(ImplausibleStep)),
            (at(2.0), 205_000_000, Ok((100.0, 200.0))),
            (at(60.0), 305_000_000, Err(CounterReset)),
            (at(61.0), 405_000_000, Ok((100.0, 100.0))),
        ],
    );
}

#[test]
fn nothing_is_known_across_a_sleep() {
    check(
        "the published count never jumps to where the counter stands",
        &package(WIDE),
        &[
            (at(0.0), WIDE - 50_000_000, Err(FirstRead)),
            (at(1.0), 50_000_000, Ok((100.0, 100.0))),
            (at_after_sleep(2.0, 3600.0), 90_000_000, Err(HostSuspended)),
            (at_after_sleep(3.0, 3600.0), 190_000_000, Ok((100.0, 100.0))),
        ],
    );
}

#[test]
fn a_failed_read_costs_no_energy() {
    let cell = package(WIDE);
    check("before", &cell, &[(at(0.0), 0, Err(FirstRead))]);
    for failure in [Failure::Io, Failure::Gone, Failure::Denied] {
        cell.finish(Err(failure), at(1.0)).unwrap_err();
        assert_eq!(watts(&cell, at(1.0)), None);
    }
    check("after", &cell, &[(at(2.0), 200_000_000, Ok((100.0, 200.0)))]);
    let moved = cell.moved_to(cell.sensor.clone());
    assert_eq!(watts(&moved, at(2.0)), None, "where it stands now it has not been read");
    check("moved", &moved, &[(at(3.0), 300_000_000, Ok((100.0, 300.0)))]);
}

#[test]
fn a_read_that_comes_too_soon_leaves_the_last_one_standing() {
    let cell = package(WIDE);
    let before = [(at(0.0), 0, Err(FirstRead)), (at(1.0), 100_000_000, Ok((100.0, 100.0)))];
    check("before", &cell, &before);
    // The counter's own refresh, about a millisecond, would be a good part of this step.
    cell.finish(Ok(Measure::MicroJoules(101_000_000)), at(1.005)).unwrap();
    let verdict = cell.judge(at(1.005), LIMITS);
    assert_eq!((verdict.watts, verdict.read_at), (Some(100.0), Some(at(1.0))));
    check("after", &cell, &[(at(2.0), 200_000_000, Ok((100.0, 200.0)))]);
}
