//! The engine as a whole, where scripts cannot look: what it holds, what it explains, how a recorder goes on with it.

use std::sync::Arc;

use super::*;
use crate::rule::{self, From, RuleSet};
use crate::state::State;

const SECOND_US: i64 = 1_000_000;

fn rules(rules: &str) -> Arc<RuleSet> {
    let inputs = "inputs:\n  - {metric: p, boundary: accelerator, unit: W, averaging: instant, member: [id]}\n";
    Arc::new(rule::read(&format!("wattscribe_rules: 1\n{inputs}rules:\n{rules}")).unwrap())
}

const NODE_SUM: &str =
    "  - {name: node:p:sum, function: sum, of: p, by: [node], boundary: accelerator, unit: W}\n";
const FLEET_SUM: &str = "  - {name: fleet:p:sum, function: sum, of: 'node:p:sum', by: [], \
                         boundary: accelerator, unit: W}\n";
const NODE_ENERGY: &str = "  - {name: node:p:energy, function: integrate, of: 'node:p:sum', by: [node], \
                           over: {every: 10s, length: 20s}, boundary: accelerator, unit: J}\n";

/// Pushes a scrape of the series `id="0"`, `id="1"` and so on; without values it failed.
fn scrape(engine: &mut Engine, node: &str, seq: u64, start_s: f64, values: Option<&[Option<f64>]>) {
    let of = engine.node(node);
    let mut observed = Vec::new();
    for (id, value) in values.unwrap_or_default().iter().enumerate() {
        let series = of.series(From::Page, "p", &format!("id=\"{id}\"")).unwrap();
        let value =
            value.map(|value| Observed { series, at_s: start_s, value: Ok(value), since_s: None });
        observed.extend(value);
    }
    let answer = match values {
        Some(_) => Answer::Page { sockets: &[], samples: &observed },
        None => Answer::Failed,
    };
    engine.push(node, &Scrape { seq, start_s, begins_session: seq == 0, answer });
}

#[test]
fn it_may_be_sent_to_a_thread() {
    fn check<T: Send + 'static>() {}
    check::<Engine>();
    check::<NodeEngine>();
    check::<FleetEngine>();
    check::<Derived>();
}

#[test]
fn a_result_is_explained() {
    let set = rules(&format!("{NODE_SUM}{FLEET_SUM}"));
    let mut engine = Engine::new(set, Vec::new());
    engine.explain(0, 12 * SECOND_US);
    for (seq, second) in (10..20_u64).enumerate() {
        let values = match second {
            11 => [Some(5.0), None, Some(1.0), None],
            _ => [Some(5.0), Some(2.0), None, (second > 12).then_some(3.0)],
        };
        scrape(&mut engine, "a", seq as u64, second as f64, Some(&values));
    }
    let explanations: Vec<Explanation> = engine.explanations().collect();
    let [explanation] = &explanations[..] else { panic!("{explanations:?}") };
    let found: Vec<Found> = explanation.parts.iter().map(|part| part.found).collect();
    let reading = |at_s: i64, scrape, value, left_out| Found::Reading {
        at_us: at_s * SECOND_US,
        scrape,
        value: Ok(value),
        left_out,
    };
    let expected = [
        reading(12, 2, 5.0, None),
        reading(12, 2, 2.0, None),
        reading(11, 1, 1.0, Some(LeftOut::NotOnPage)),
        Found::NotYet,
    ];
    assert_eq!(found, expected);
    assert_eq!(&*explanation.parts[2].labels, "id=\"2\"");
    assert_eq!(explanation.result.state, State::Unavailable);
}

#[test]
fn a_fleet_names_the_target_that_may_be_anything() {
    let mut engine = Engine::new(rules(&format!("{NODE_SUM}{FLEET_SUM}")), Vec::new());
    engine.explain(1, 3 * SECOND_US);
    for second in 0..9_u64 {
        scrape(&mut engine, "a", second, second as f64, Some(&[Some(5.0)]));
        scrape(&mut engine, "b", second, second as f64, None);
    }
    let parts = engine.explanations().next().unwrap().parts;
    let parts: Vec<_> = parts.iter().map(|part| (part.node.as_deref(), part.found)).collect();
    assert_eq!(parts, [(Some("b"), Found::Unknown), (Some("a"), Found::Result(Ok(5.0)))]);
}

/// A recorder is off from 70 s to 75 s. One that knows nothing but the tail and the members gives what one that never
/// stopped gives, and nothing twice.
#[test]
fn a_recorder_goes_on_with_the_tail() {
    let set = rules(&format!("{NODE_SUM}{FLEET_SUM}{NODE_ENERGY}"));
    let push = |engine: &mut Engine, second: u64| {
        let watts = 100.0 + (second * 7 % 13) as f64;
        for node in ["a", "b"] {
            // The second series was last read long before the tail.
            let values = [Some(watts), (second < 5).then_some(9.0)];
            let page = (!second.is_multiple_of(17)).then_some(&values[..]);
            scrape(engine, node, second, second as f64 + 0.25, page);
        }
    };
    let mut whole = Engine::new(Arc::clone(&set), Vec::new());
    let mut rows = Vec::new();
    for second in (0..70).chain(75..150) {
        push(&mut whole, second);
        rows.extend(whole.derived());
    }

    let settled_us = |row: &Derived| set.timing.settled_us(row.at_us, row.start_us.is_some());
    for known in [40, 66, 69] {
        let mut first = Engine::new(Arc::clone(&set), Vec::new());
        (0..=known).for_each(|second| push(&mut first, second));
        let given: Vec<Derived> = first.derived().collect();
        let given_until_us = given.iter().map(settled_us).max().unwrap();

        let mut later = Engine::new(Arc::clone(&set), Vec::new());
        for node in ["a", "b"] {
            for id in 0..2 {
                let series = later.node(node).series(From::Page, "p", &format!("id=\"{id}\""));
                later.remember(node, series.unwrap());
            }
            later.node(node).given_until(given_until_us);
        }
        later.fleet().given_until(given_until_us);
        // 20 s of a window, 3 s until it is settled, and as much as an instant looks back.
        for second in (known - 34..70).chain(75..150) {
            push(&mut later, second);
        }
        let all: Vec<Derived> = given.into_iter().chain(later.derived()).collect();
        let sorted = |rows: &[Derived]| {
            let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        assert_eq!(sorted(&all), sorted(&rows), "from {known} s on");
    }
}

#[test]
fn a_target_that_has_ended_holds_nothing_up() {
    let mut engine = Engine::new(rules(&format!("{NODE_SUM}{FLEET_SUM}")), Vec::new());
    let fleet = |engine: &mut Engine| engine.derived().filter(|row| row.node.is_none()).count();
    engine.expect_target("b");
    for second in 0..10_u64 {
        scrape(&mut engine, "a", second, second as f64, Some(&[Some(5.0)]));
    }
    assert_eq!(fleet(&mut engine), 0);
    engine.end_target("b");
    // 9 s is too late for 6 s.
    assert_eq!(fleet(&mut engine), 7);
}

#[test]
fn rows_of_sockets() {
    const SOURCES: [(&str, &str, &[&str]); 3] = [
        ("acpi", "cpu_power_acpi_watts", &["type=\"dram\"", "type=\"total\""]),
        ("dcgm", "cpu_power_dcgm_watts", &["field_id=\"1130\"", "field_id=\"1132\""]),
        ("rapl", "cpu_power_rapl_watts", &["type=\"dram\"", "type=\"package\""]),
    ];
    for (source, metric, columns) in SOURCES {
        let rule = |number: usize, column: &str| {
            let boundary = match (source, column) {
                ("acpi", "type=\"total\"") => "socket_total",
                ("rapl", "type=\"package\"") => "package",
                ("dcgm", "field_id=\"1130\"") => "cpu_rail",
                ("dcgm", _) => "soc",
                _ => "dram",
            };
            format!(
                "  - {{name: 'n:p{number}:max', function: max, of: '{metric}{{{column}}}', \
                 by: [node, socket], boundary: {boundary}, unit: W}}\n"
            )
        };
        let text: String = columns.iter().enumerate().map(|(n, column)| rule(n, column)).collect();
        let mut node = NodeEngine::new(rules(&text), "a", &[]);
        let mut sockets = SocketSeries::new();
        let row = |state, power_w, part_w| SocketRow {
            at_s: 1.0,
            source,
            socket: 3,
            state,
            power_w,
            cpu_rail_w: Some(1.0),
            soc_w: part_w,
            dram_w: part_w,
            module_w: Some(2.0),
            counter_j: None,
            counter_at_s: None,
            counter_since_s: None,
        };
        let mut values = |row: SocketRow<'_>| {
            let mut observed = Vec::new();
            sockets.observe(&mut node, &row, &mut observed);
            observed.into_iter().map(|observed| observed.value).collect::<Vec<_>>()
        };
        // A part is a reading from its first number on, the whole from the first row on.
        let (missing, denied) = (Err(State::Unavailable), Err(State::Denied));
        assert_eq!(values(row(State::Denied, None, None)), [denied], "{source}");
        assert_eq!(values(row(State::Ok, Some(9.0), None)), [Ok(9.0)], "{source}");
        assert_eq!(values(row(State::Ok, Some(9.0), Some(4.0))), [Ok(9.0), Ok(4.0)], "{source}");
        assert_eq!(values(row(State::Ok, Some(9.0), None)), [Ok(9.0), missing], "{source}");
        assert_eq!(values(row(State::Denied, None, None)), [denied, denied], "{source}");
    }
}
