//! Runs the scripts in `tests/windows/`, where cases of windows are written as numbers rather than as Rust.
//!
//! A script is a list of cases. `case` names one, `gap` sets its limit in seconds (3 otherwise), and `read` lists what
//! arrives, in order: `time:watts`, with `/joules` for a counter read at that time or `/joules@time` at another;
//! `first..last:watts` for one such reading each second; `time!state` for a withheld reading. Then each `window` names
//! its edges and, on the indented lines below, fields of the result as `name value`; `reasons` lists all or `-`.
//! Expected numbers must match to the bit.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail it by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use wattscribe_rules::{
    CounterSample, Energy, Integrator, Limits, PushError, Sample, Window, Windows,
};

#[derive(Default)]
struct Case {
    name: String,
    gap_s: Option<f64>,
    arrivals: Vec<String>,
    windows: Vec<(Window, Vec<(String, String)>)>,
}

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/windows");
    let mut ran = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        for case in parse(&std::fs::read_to_string(&path).unwrap()) {
            check(&path, &case);
            ran += 1;
        }
    }
    assert!(ran >= 30, "only {ran} cases were found");
}

fn check(path: &Path, case: &Case) {
    let limits = case.gap_s.map_or(Limits::default(), |gap_s| Limits::new(gap_s).unwrap());
    let windows = Windows::list(case.windows.iter().map(|(window, _)| *window));
    let mut integrator = Integrator::new(windows, limits);
    for arrival in &case.arrivals {
        arrive(&mut integrator, arrival);
    }
    let results: BTreeMap<usize, Energy> = integrator.finish().collect();
    assert_eq!(results.len(), case.windows.len());
    for (index, (window, expected)) in case.windows.iter().enumerate() {
        assert!(!expected.is_empty(), "{}: nothing is expected", case.name);
        for (field, expected) in expected {
            let found = field_of(&results[&index], field);
            let place = format!("{}: {}", path.display(), case.name);
            let window = format!("window {} {}", window.start_s(), window.end_s());
            assert_eq!(&found, expected, "{place}, {window}: {field}");
        }
    }
}

fn arrive(integrator: &mut Integrator, arrival: &str) {
    if let Some((at, state)) = arrival.split_once('!') {
        return integrator.withhold(number(at), state.parse().unwrap()).unwrap();
    }
    let (times, values) = arrival.split_once(':').unwrap();
    let (watts, counter) = values.split_once('/').map_or((values, None), |(w, c)| (w, Some(c)));
    let (first, last) = times.split_once("..").unwrap_or((times, times));
    let mut at_s = number(first);
    while at_s <= number(last) {
        let counter = counter.map(|counter| {
            let (joules, counter_at) = counter.split_once('@').unwrap_or((counter, ""));
            let counter_at_s = if counter_at.is_empty() { at_s } else { number(counter_at) };
            CounterSample { at_s: counter_at_s, joules: number(joules), since_s: None }
        });
        // A reading that contradicts the others is part of some cases; the windows tell of it.
        match integrator.push(Sample { at_s, watts: number(watts), counter }) {
            Ok(()) => {}
            Err(PushError::OutOfOrder { .. } | PushError::CounterOutOfOrder { .. }) => {}
            Err(other) => panic!("{arrival}: {other}"),
        }
        at_s += 1.0;
    }
}

fn field_of(energy: &Energy, field: &str) -> String {
    let optional = |value: Option<f64>| value.map_or("none".to_owned(), |value| value.to_string());
    match field {
        "energy_j" => optional(energy.energy_j),
        "covered_s" => energy.covered_s.to_string(),
        "coverage" => energy.coverage.to_string(),
        "avg_w" => optional(energy.avg_w),
        "samples" => energy.samples.to_string(),
        "largest_gap_s" => energy.largest_gap_s.to_string(),
        "min_w" => optional(energy.min_w),
        "max_w" => optional(energy.max_w),
        "p50_w" => optional(energy.p50_w),
        "energy_low_j" => optional(energy.energy_low_j),
        "energy_high_j" => optional(energy.energy_high_j),
        "counter_energy_j" => optional(energy.counter_energy_j),
        "counter_disagreement" => optional(energy.counter_disagreement),
        "verdict" => energy.verdict.to_string(),
        "reasons" if energy.reasons.is_empty() => "-".to_owned(),
        "reasons" => energy.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        unknown => panic!("unknown field {unknown:?}"),
    }
}

fn parse(script: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (number_of_line, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap().trim_end();
        let Some((word, rest)) = line.trim_start().split_once(' ') else {
            assert!(line.is_empty(), "line {}: {line:?}", number_of_line + 1);
            continue;
        };
        let rest = rest.trim();
        if word == "case" {
            cases.push(Case { name: rest.to_owned(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a script begins with a case");
        match word {
            "gap" => case.gap_s = Some(number(rest)),
            "read" => case.arrivals.extend(rest.split_whitespace().map(str::to_owned)),
            "window" => {
                let (start, end) = rest.split_once(' ').unwrap();
                let window = Window::new(number(start), number(end)).unwrap();
                case.windows.push((window, Vec::new()));
            }
            field => {
                let (_, expected) = case.windows.last_mut().expect("a field follows a window");
                expected.push((field.to_owned(), rest.to_owned()));
            }
        }
    }
    cases
}

fn number(text: &str) -> f64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
