//! Random recordings: scrapes that come early, late, twice or never, of pages on which readings come and go.
//!
//! Times are mostly quarters of a second, so that every edge of `docs/rules.md` is met exactly and often.

use proptest::collection::vec;
use proptest::prelude::*;
use wattscribe_rules::rule::From;
use wattscribe_rules::{State, Window};

use crate::history::{History, Labels, Reading, Target, Told};

/// What a series is and the numbers that it takes.
struct Series {
    metric: &'static str,
    labels: &'static [(&'static str, &'static str)],
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Power,
    Counter,
}

const fn power(metric: &'static str, labels: &'static [(&'static str, &'static str)]) -> Series {
    Series { metric, labels, kind: Kind::Power }
}

const fn counter(metric: &'static str, labels: &'static [(&'static str, &'static str)]) -> Series {
    Series { metric, labels, kind: Kind::Counter }
}

/// Everything that a page of a test can hold. Two GPUs, one of which changes its index, one its socket.
const SERIES: [Series; 17] = [
    power("gpu_module_power_watts", &[("uuid", "a"), ("gpu", "0"), ("socket", "0")]),
    power("gpu_module_power_watts", &[("uuid", "a"), ("gpu", "1"), ("socket", "0")]),
    power("gpu_module_power_watts", &[("uuid", "b"), ("gpu", "1"), ("socket", "0")]),
    power("gpu_module_power_watts", &[("uuid", "b"), ("gpu", "1"), ("socket", "1")]),
    power("gpu_module_power_watts", &[("uuid", "c"), ("gpu", "2"), ("socket", "")]),
    power("accelerator_power_watts", &[("uuid", "a"), ("scope", "gpu"), ("socket", "0")]),
    power("accelerator_power_watts", &[("uuid", "b"), ("scope", "gpu"), ("socket", "0")]),
    power("accelerator_power_watts", &[("uuid", "c"), ("scope", "gpu"), ("socket", "1")]),
    power("cpu_power_acpi_watts", &[("type", "total"), ("socket", "0"), ("source", "acpi")]),
    power("cpu_power_acpi_watts", &[("type", "total"), ("socket", "1"), ("source", "acpi")]),
    power("cpu_power_acpi_watts", &[("type", "cpu_rail"), ("socket", "0"), ("source", "acpi")]),
    power("cpu_power_rapl_watts", &[("type", "package"), ("socket", "0"), ("source", "rapl")]),
    power("cpu_power_rapl_watts", &[("type", "package"), ("socket", "1"), ("source", "rapl")]),
    counter("cpu_energy_joules_total", &[("type", "package"), ("socket", "0"), ("source", "rapl")]),
    counter("cpu_energy_joules_total", &[("type", "package"), ("socket", "1"), ("source", "rapl")]),
    power("ipmi_dcmi_power_consumption_watts", &[]),
    power("tokens_per_second", &[]),
];

/// One draw for one series at one scrape.
type Draw = (u8, u8, i32);

/// One draw for one scrape: what becomes of it, how long after the one before it begins, and its page.
type Drawn = (u8, u8, Vec<Draw>);

/// Recordings of one to four targets.
pub(crate) fn histories() -> impl Strategy<Value = History> {
    let draw = (any::<u8>(), any::<u8>(), -5..5);
    let scrape = (any::<u8>(), any::<u8>(), vec(draw, SERIES.len()));
    let target = (any::<u32>(), vec(scrape, 1..40));
    (any::<bool>(), vec(target, 1..5)).prop_map(|(of_today, targets)| {
        let since = if of_today { 1_700_000_000.0 } else { 0.0 };
        let targets = targets.into_iter().enumerate();
        let targets = targets.map(|(place, (kept, drawn))| target_of(place, since, kept, &drawn));
        let window = |from: f64, to: f64| Window::new(since + from, since + to).unwrap();
        let named =
            [("run", window(1.25, 6.0)), ("run", window(4.0, 9.5)), ("none", window(-9.0, -3.0))];
        let named = named.into_iter().map(|(name, window)| (name.to_owned(), window));
        History { targets: targets.collect(), named: named.collect() }
    })
}

/// `kept` says by its bits which series the target has at all.
fn target_of(place: usize, since: f64, kept: u32, drawn: &[Drawn]) -> Target {
    let mut start_s = since + f64::from(kept % 7) * 0.25;
    let (mut seq, mut newest) = (0_u64, 0_u64);
    let mut scrapes: Vec<Told> = Vec::new();
    for (index, (fate, pause, page)) in drawn.iter().enumerate() {
        start_s += match pause % 32 {
            0 => 0.0,
            1 => 7.25,
            2 => 3.0,
            3 => 0.000_001,
            4 => -0.5,
            5 => 0.123_457,
            pause => f64::from(pause % 5) * 0.25 + 0.25,
        };
        start_s = (start_s * 1e6).round() / 1e6;
        seq = match fate % 32 {
            1 => seq,
            17 => seq.saturating_sub(1),
            _ => seq.max(newest) + 1,
        };
        newest = seq.max(newest);
        // What a hundred watts come to.
        let counted = 1_000.0 + (start_s - since) * 100.0;
        let told = page.iter().zip(&SERIES).enumerate().filter(|(bit, _)| kept >> bit & 1 == 1);
        let told = told.filter_map(|(_, (draw, series))| read(series, *draw, start_s, counted));
        scrapes.push(Told {
            seq,
            start_s,
            begins_session: index == 0 || fate % 16 == 2,
            page: (fate % 8 != 3).then(|| told.collect()),
        });
    }
    Target { node: format!("n{place}"), scrapes, ended: false }
}

fn read(series: &Series, (fate, time, step): Draw, start_s: f64, counted: f64) -> Option<Reading> {
    let value = match (fate % 32, series.kind) {
        (0..4, _) => return None,
        (4, _) => Err(State::Stale),
        (5, _) => Err(State::Denied),
        (6, _) => Ok(f64::NAN),
        (7, _) => Ok(0.0),
        (8, Kind::Power) => Ok(-3.5),
        (_, Kind::Power) => Ok(100.0 + f64::from(step) * 0.7),
        (9, Kind::Counter) => Ok(counted / 2.0),
        (_, Kind::Counter) => Ok(counted + f64::from(step)),
    };
    let at_s = match time % 16 {
        0..8 => start_s,
        8 => start_s - 1.25,
        9 => start_s + 0.5,
        10 => start_s - 0.000_001,
        11 => start_s - 4.0,
        _ => start_s - 0.25,
    };
    let is_socket = series.metric.starts_with("cpu_");
    let label = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Some(Reading {
        from: if is_socket { From::Sockets } else { From::Page },
        metric: series.metric.to_owned(),
        labels: series.labels.iter().map(label).collect::<Labels>(),
        at_s: (at_s * 1e6).round() / 1e6,
        value,
        since_s: (series.kind == Kind::Counter && fate % 3 > 0).then_some(f64::from(fate / 128)),
    })
}
