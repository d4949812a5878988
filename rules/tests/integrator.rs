//! What must hold for the energy of any windows over any readings.
//!
//! The readings stand at whole milliseconds of a Unix time, so that the reference below can decide in integers what the
//! integrator decides in doubles.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail it by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use wattscribe_rules::{
    CounterSample, Energy, Integrator, Limits, PushError, Sample, State, Verdict, Window, Windows,
};

const GAP_MS: i64 = 3_000;
const EPOCH_MS: i64 = 1_788_310_143_461;
const TOLERANCE: f64 = 1e-12;

#[derive(Clone, Copy, Debug)]
struct Reading {
    at_ms: i64,
    watts: f64,
    counter_j: f64,
}

fn seconds(at_ms: i64) -> f64 {
    (EPOCH_MS + at_ms) as f64 / 1_000.0
}

fn window((start_ms, end_ms): (i64, i64)) -> Window {
    Window::new(seconds(start_ms), seconds(end_ms)).unwrap()
}

/// Readings about a second apart, some a gap away, some exactly at the limit; the counter restarts now and then.
fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let step_ms = prop_oneof![6 => 1_i64..2_000, 1 => Just(GAP_MS), 1 => 2_000_i64..9_000];
    let watts = prop_oneof![1 => Just(0.0), 9 => 0.0..1_500.0_f64];
    let gain = prop_oneof![30 => (0.0..3_000.0_f64).prop_map(Some), 1 => Just(None)];
    proptest::collection::vec((step_ms, watts, gain), 0..120).prop_map(|steps| {
        let (mut at_ms, mut counter_j) = (0, 1e6);
        let reading = |(step_ms, watts, gain): (i64, f64, Option<f64>)| {
            at_ms += step_ms;
            counter_j = gain.map_or(0.0, |gain| counter_j + gain);
            Reading { at_ms, watts, counter_j }
        };
        steps.into_iter().map(reading).collect()
    })
}

fn windows() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let edges = (-5_000_i64..200_000, 1_i64..60_000);
    proptest::collection::vec(edges.prop_map(|(start, length)| (start, start + length)), 1..12)
}

/// Integrates, collecting after each reading, as a recorder does.
fn integrate(readings: &[Reading], windows: &[(i64, i64)]) -> Vec<Energy> {
    let mut integrator =
        Integrator::new(Windows::list(windows.iter().copied().map(window)), Limits::default());
    let mut results = BTreeMap::new();
    for reading in readings {
        let at_s = seconds(reading.at_ms);
        let counter = Some(CounterSample { at_s, joules: reading.counter_j, since_s: None });
        integrator.push(Sample { at_s, watts: reading.watts, counter }).unwrap();
        results.extend(integrator.completed());
    }
    results.extend(integrator.finish());
    assert_eq!(results.len(), windows.len());
    results.into_values().collect()
}

/// The same by looking at all readings for each window, with plain sums.
struct Reference {
    energy_j: f64,
    low_j: f64,
    high_j: f64,
    covered_ms: i64,
    samples: u64,
    largest_gap_ms: i64,
    counter_j: Option<f64>,
}

fn reference(readings: &[Reading], (start, end): (i64, i64)) -> Reference {
    let mut found = Reference {
        energy_j: 0.0,
        low_j: 0.0,
        high_j: 0.0,
        covered_ms: 0,
        samples: readings.iter().filter(|r| (start..=end).contains(&r.at_ms)).count() as u64,
        largest_gap_ms: 0,
        counter_j: None,
    };
    for pair in readings.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let (from, to) = (a.at_ms.max(start), b.at_ms.min(end));
        if from >= to || b.at_ms - a.at_ms > GAP_MS {
            continue;
        }
        let slope = (b.watts - a.watts) / (b.at_ms - a.at_ms) as f64;
        let middle_ms = (from + to) as f64 / 2.0 - a.at_ms as f64;
        let span_s = (to - from) as f64 / 1_000.0;
        found.energy_j += (a.watts + slope * middle_ms) * span_s;
        found.low_j += a.watts.min(b.watts) * span_s;
        found.high_j += a.watts.max(b.watts) * span_s;
        found.covered_ms += to - from;
    }
    // Only readings near enough to bracket an edge stand outside the window; the edges stand where there are none.
    let mut times: Vec<i64> = readings.iter().map(|r| r.at_ms).collect();
    times.retain(|at| (start - GAP_MS..=end + GAP_MS).contains(at));
    if times.iter().all(|at| *at > start) {
        times.push(start);
    }
    if times.iter().all(|at| *at < end) {
        times.push(end);
    }
    times.sort_unstable();
    let touching = times.windows(2).filter(|pair| pair[0] < end && pair[1] > start);
    found.largest_gap_ms = touching.map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    found.counter_j = counter(readings, start, end);
    found
}

fn counter(readings: &[Reading], start: i64, end: i64) -> Option<f64> {
    let at = |edge: i64| {
        if let Some(on_edge) = readings.iter().find(|r| r.at_ms == edge) {
            return Some(on_edge.counter_j);
        }
        let after = readings.iter().position(|r| r.at_ms > edge)?;
        let (a, b) = (readings[after.checked_sub(1)?], readings[after]);
        let fraction = (edge - a.at_ms) as f64 / (b.at_ms - a.at_ms) as f64;
        let value_j = a.counter_j * (1.0 - fraction) + b.counter_j * fraction;
        (b.at_ms - a.at_ms <= GAP_MS).then_some(value_j)
    };
    let fell = readings.windows(2).any(|pair| {
        pair[0].at_ms < end && pair[1].at_ms > start && pair[1].counter_j < pair[0].counter_j
    });
    let (from_j, to_j) = (at(start)?, at(end)?);
    (!fell).then_some(to_j - from_j)
}

/// Whether two numbers are equal to rounding; `scale` is the size of the numbers that they were made of.
fn close(found: f64, expected: f64, scale: f64) -> bool {
    (found - expected).abs() <= TOLERANCE * scale.abs().max(1e-3)
}

proptest! {
    #[test]
    fn equals_the_reference(readings in readings(), windows in windows()) {
        for (&edges, found) in windows.iter().zip(integrate(&readings, &windows)) {
            let expected = reference(&readings, edges);
            let length_ms = edges.1 - edges.0;
            let covered_s = expected.covered_ms as f64 / 1_000.0;
            let verdict = match expected.covered_ms {
                0 => Verdict::None,
                covered if covered == length_ms => Verdict::Full,
                _ => Verdict::Partial,
            };
            prop_assert_eq!(found.verdict, verdict);
            prop_assert_eq!(found.verdict == Verdict::Full, found.coverage == 1.0);
            prop_assert_eq!(found.samples, expected.samples);
            // Times are rounded to a quarter microsecond before anything else happens to them.
            prop_assert!((found.covered_s - covered_s).abs() < 1e-6);
            prop_assert!((found.largest_gap_s - expected.largest_gap_ms as f64 / 1e3).abs() < 1e-6);
            prop_assert_eq!(found.energy_j.is_some(), verdict != Verdict::None);
            if let (Some(energy_j), Some(low_j), Some(high_j)) =
                (found.energy_j, found.energy_low_j, found.energy_high_j)
            {
                let rounded_j = 1e-6 * 1_500.0 * (expected.samples + 2) as f64;
                prop_assert!((energy_j - expected.energy_j).abs() < rounded_j);
                prop_assert!((low_j - expected.low_j).abs() < rounded_j);
                prop_assert!((high_j - expected.high_j).abs() < rounded_j);
                prop_assert!(low_j <= energy_j && energy_j <= high_j);
            }
            prop_assert_eq!(found.counter_energy_j.is_some(), expected.counter_j.is_some());
            if let (Some(found_j), Some(expected_j)) = (found.counter_energy_j, expected.counter_j) {
                prop_assert!((found_j - expected_j).abs() < 0.1, "{found_j} {expected_j}");
            }
        }
    }

    #[test]
    fn windows_are_additive(
        readings in readings(),
        (start, end) in (-5_000_i64..100_000, 100_000_i64..200_000),
        mut cuts in proptest::collection::vec(-5_000_i64..200_000, 1..6),
    ) {
        cuts.retain(|cut| (start + 1..end).contains(cut));
        cuts.extend([start, end]);
        cuts.sort_unstable();
        cuts.dedup();
        let mut windows: Vec<_> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
        windows.push((start, end));
        let mut results = integrate(&readings, &windows);
        let whole = results.pop().unwrap();
        let sum = |of: fn(&Energy) -> f64| results.iter().map(of).sum::<f64>();
        let high_j = whole.energy_high_j.unwrap_or(0.0);
        prop_assert!(close(sum(|e| e.energy_j.unwrap_or(0.0)), whole.energy_j.unwrap_or(0.0), high_j));
        prop_assert!(close(sum(|e| e.energy_low_j.unwrap_or(0.0)), whole.energy_low_j.unwrap_or(0.0), high_j));
        prop_assert!(close(sum(|e| e.energy_high_j.unwrap_or(0.0)), high_j, high_j));
        prop_assert!(close(sum(|e| e.covered_s), whole.covered_s, 200.0));
        if let (Some(whole_j), true) =
            (whole.counter_energy_j, results.iter().all(|e| e.counter_energy_j.is_some()))
        {
            prop_assert!(close(sum(|e| e.counter_energy_j.unwrap_or(0.0)), whole_j, 2e6));
        }
    }

    #[test]
    fn the_order_of_windows_and_withheld_readings_change_no_number(
        readings in readings(),
        windows in windows(),
        withheld in proptest::collection::vec(0_i64..200_000, 0..20),
    ) {
        let expected = integrate(&readings, &windows);
        let reversed: Vec<_> = windows.iter().rev().copied().collect();
        let mut found = integrate(&readings, &reversed);
        found.reverse();
        prop_assert_eq!(&found, &expected);

        let list = Windows::list(windows.iter().copied().map(window));
        let mut integrator = Integrator::new(list, Limits::default());
        let mut arrivals: Vec<(i64, Option<Reading>)> =
            readings.iter().map(|reading| (reading.at_ms, Some(*reading))).collect();
        arrivals.extend(withheld.iter().map(|at_ms| (*at_ms, None)));
        arrivals.sort_by_key(|(at_ms, _)| *at_ms);
        for (at_ms, reading) in arrivals {
            let at_s = seconds(at_ms);
            match reading {
                Some(reading) => {
                    let counter = Some(CounterSample { at_s, joules: reading.counter_j, since_s: None });
                    integrator.push(Sample { at_s, watts: reading.watts, counter }).unwrap();
                }
                None => integrator.withhold(at_s, State::Stale).unwrap(),
            }
        }
        let found: BTreeMap<usize, Energy> = integrator.finish().collect();
        for (found, expected) in found.into_values().zip(expected) {
            prop_assert_eq!(Energy { reasons: expected.reasons.clone(), ..found }, expected);
        }
    }

    /// `numpy.trapezoid(watts, at_s)`, the formula that is published for such files, on windows edged by readings.
    #[test]
    fn equals_the_published_trapezoid(watts in proptest::collection::vec(1.0..1_500.0_f64, 2..2_000)) {
        let at_s: Vec<f64> = (0..watts.len()).map(|n| seconds(n as i64 * 997)).collect();
        let published: f64 =
            (1..watts.len()).map(|n| (at_s[n] - at_s[n - 1]) * (watts[n] + watts[n - 1]) / 2.0).sum();
        let window = Window::new(at_s[0], at_s[watts.len() - 1]).unwrap();
        let mut integrator = Integrator::new(Windows::list([window]), Limits::default());
        for (&at_s, &watts) in at_s.iter().zip(&watts) {
            integrator.push(Sample::power(at_s, watts)).unwrap();
        }
        let (_, found) = integrator.completed().next().unwrap();
        prop_assert!(close(found.energy_j.unwrap(), published, published));
        prop_assert_eq!(found.verdict, Verdict::Full);
    }
}

/// A day at ten readings a second, in windows of a minute that are collected as they complete.
#[test]
fn memory_does_not_grow_with_the_run() {
    let day = Windows::aligned(60.0, 1_788_300_000.0, 1_788_386_400.0).unwrap();
    let mut integrator = Integrator::new(day, Limits::default());
    let (mut count, mut sum_j) = (0, 0.0);
    for tick in 0..=864_000_u32 {
        integrator.push(Sample::power(1_788_300_000.0 + f64::from(tick) / 10.0, 250.0)).unwrap();
        let mut waiting = 0;
        for (index, energy) in integrator.completed() {
            assert_eq!((index, energy.verdict, energy.samples), (count, Verdict::Full, 601));
            sum_j += energy.energy_j.unwrap();
            count += 1;
            waiting += 1;
        }
        assert!(waiting <= 1, "results wait longer than a reading");
    }
    assert_eq!((count, sum_j), (1_440, 250.0 * 86_400.0));
    assert_eq!(integrator.finish().count(), 0);
}

/// What arrives after a reading on each second to 9 s, and whether the window to 10 s is complete then.
#[test]
fn a_window_is_complete_as_soon_as_nothing_can_change_it() {
    let counter = |at_s, joules| Some(CounterSample { at_s, joules, since_s: None });
    let cases = [
        ("nothing", None, None, false, false),
        ("a reading on the edge", Some(Sample::power(10.0, 5.0)), None, false, true),
        ("a reading beyond it", Some(Sample::power(99.0, 5.0)), None, false, true),
        ("withheld, in reach", None, Some(13.0), false, false),
        ("withheld, out of reach", None, Some(13.001), false, true),
        ("a counter that lags", Some(Sample::power(10.0, 5.0)), None, true, false),
        (
            "a counter on the edge",
            Some(Sample { at_s: 10.0, watts: 5.0, counter: counter(10.0, 50.0) }),
            None,
            true,
            true,
        ),
        ("a counter that never comes", Some(Sample::power(13.001, 5.0)), None, true, true),
    ];
    for (name, reading, withheld_s, counted, expected) in cases {
        let window = Window::new(0.0, 10.0).unwrap();
        let mut integrator = Integrator::new(Windows::list([window]), Limits::default());
        for second in 0..10 {
            let at_s = f64::from(second);
            let counter = counter(at_s, 5.0 * at_s).filter(|_| counted);
            integrator.push(Sample { at_s, watts: 5.0, counter }).unwrap();
        }
        reading.map_or(Ok(()), |reading| integrator.push(reading)).unwrap();
        withheld_s.map_or(Ok(()), |at_s| integrator.withhold(at_s, State::Stale)).unwrap();
        assert_eq!(integrator.completed().count(), usize::from(expected), "{name}");
    }
}

#[test]
fn what_is_refused() {
    let window = Window::new(0.0, 10.0).unwrap();
    let mut integrator = Integrator::new(Windows::list([window]), Limits::default());
    let counter = |at_s, joules| Some(CounterSample { at_s, joules, since_s: None });
    integrator.push(Sample { at_s: 1.0, watts: 5.0, counter: counter(1.0, 7.0) }).unwrap();
    let cases = [
        (Sample::power(2.0, -1.0), PushError::Power { at_s: 2.0, watts: -1.0 }),
        (Sample::power(2.0, f64::INFINITY), PushError::Power { at_s: 2.0, watts: f64::INFINITY }),
        (Sample::power(f64::INFINITY, 1.0), PushError::Time { at_s: f64::INFINITY }),
        (Sample::power(0.5, 5.0), PushError::OutOfOrder { at_s: 0.5, latest_s: 1.0 }),
        (Sample::power(1.0, 6.0), PushError::OutOfOrder { at_s: 1.0, latest_s: 1.0 }),
        (
            Sample { at_s: 2.0, watts: 5.0, counter: counter(2.0, -1.0) },
            PushError::Counter { at_s: 2.0, joules: -1.0 },
        ),
        (
            Sample { at_s: 2.0, watts: 5.0, counter: counter(0.5, 9.0) },
            PushError::CounterOutOfOrder { at_s: 0.5, latest_s: 1.0 },
        ),
    ];
    for (sample, expected) in cases {
        assert_eq!(integrator.push(sample), Err(expected));
    }
    assert!(matches!(integrator.push(Sample::power(3.0, f64::NAN)), Err(PushError::Power { .. })));
    assert_eq!(
        integrator.withhold(3.0, State::Ok),
        Err(PushError::NotWithheld { at_s: 3.0, state: State::Ok })
    );
    assert!(matches!(integrator.withhold(f64::NAN, State::Lost), Err(PushError::Time { .. })));
    assert_eq!(integrator.out_of_order(), 3);
    // Of all these, the last but its counter is a reading.
    let (_, energy) = integrator.finish().next().unwrap();
    assert_eq!((energy.samples, energy.energy_j), (2, Some(5.0)));
}

#[test]
fn a_counter_that_restarted_and_climbed_past_its_old_value_is_no_gain() {
    let window = Window::new(1.0, 4.0).unwrap();
    let energy_of = |since: [Option<f64>; 6]| {
        let mut integrator = Integrator::new(Windows::list([window]), Limits::default());
        for (second, since_s) in (0_u32..).zip(since) {
            let at_s = f64::from(second);
            let counter = Some(CounterSample { at_s, joules: 100.0 * at_s, since_s });
            integrator.push(Sample { at_s, watts: 100.0, counter }).unwrap();
        }
        integrator.finish().next().unwrap().1
    };
    let cases = [
        // (counts since, counter energy, is the restart named)
        ([Some(-9.0); 6], Some(300.0), false),
        ([None; 6], Some(300.0), false),
        ([Some(-9.0), Some(-9.0), Some(2.5), Some(2.5), Some(2.5), Some(2.5)], None, true),
        // Before and after the window it is none of its business.
        ([Some(-9.0), Some(0.5), Some(0.5), Some(0.5), Some(0.5), Some(4.5)], Some(300.0), false),
    ];
    for (since, counter_energy_j, is_named) in cases {
        let energy = energy_of(since);
        assert_eq!(energy.counter_energy_j, counter_energy_j, "{since:?}");
        assert_eq!(
            energy.reasons.contains(&wattscribe_rules::Reason::CounterReset),
            is_named,
            "{since:?}"
        );
        assert_eq!(energy.energy_j, Some(300.0), "the power is not the counter's: {since:?}");
    }
}
