//! Fleets step by step, by hand; and by chance, beside a model that keeps every answer for ever.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fleet::{FleetLimits, Found, Joules, Reading};

const LIMITS: FleetLimits = FleetLimits { stale_after_s: 15.0, forget_after_s: 600.0 };

fn found(addresses: &[&str]) -> Vec<Found> {
    addresses.iter().map(|address| Found { address: (*address).to_owned(), node: None }).collect()
}

fn device(node: &str, pci: &str, reading: Reading) -> FleetDevice {
    FleetDevice {
        node: Some(node.to_owned()),
        pci: pci.to_owned(),
        scope: "gpu".to_owned(),
        reading,
        ..FleetDevice::default()
    }
}

fn watts(node: &str, pci: &str, watts: f64) -> FleetDevice {
    device(node, pci, Reading::Watts(watts))
}

/// Devices and how they stand, the total, and agents up of all.
fn told(fleet: &Fleet, at_s: f64) -> (Vec<(String, Standing)>, f64, (usize, usize)) {
    let snapshot = fleet.snapshot(at_s);
    let devices = snapshot.devices.iter();
    let devices =
        devices.map(|of| (format!("{}/{}", of.node, of.device.pci), of.standing)).collect();
    (devices, snapshot.total_watts, (snapshot.agents_up, snapshot.agents_total))
}

#[test]
fn what_is_listed_as_measured_is_the_total() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.found(&found(&["a"]));
    assert_eq!(told(&fleet, 0.0), (vec![], 0.0, (0, 1)));
    let devices = vec![
        watts("n", "1", 20.072),
        device("n", "2", Reading::Suspended),
        device("n", "3", Reading::None("not_supported".to_owned())),
        watts("n", "4", -5.0),
        watts("n", "5", 1e9),
        watts("n", "6", f64::NAN),
        watts("n", "1", 9_999.0), // the same once more
        watts("n", "", 50.0),     // nobody can say which one
    ];
    fleet.answered("a", 100.0, devices);
    let unmeasured = |pci: &str| (format!("n/{pci}"), Standing::Unmeasured);
    let expected = vec![
        ("n/1".to_owned(), Standing::Measured(20.072)),
        ("n/2".to_owned(), Standing::Suspended),
        unmeasured("3"),
        unmeasured("4"),
        unmeasured("5"),
        unmeasured("6"),
    ];
    assert_eq!(told(&fleet, 101.0), (expected, 20.072, (1, 1)));
    let reasons: Vec<Option<String>> =
        fleet.snapshot(101.0).devices.iter().map(|of| of.reason().map(str::to_owned)).collect();
    let expected = [
        None,
        Some("asleep"),
        Some("not_supported"),
        Some("rejected"),
        Some("rejected"),
        Some("rejected"),
    ];
    assert_eq!(reasons, expected.map(|reason| reason.map(str::to_owned)));
}

#[test]
fn what_leaves_is_stale_and_then_forgotten() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.found(&found(&["a", "b"]));
    fleet.answered("a", 0.0, vec![watts("n", "1", 40.0)]);
    fleet.failed("a");
    let one = |standing| vec![("n/1".to_owned(), standing)];
    assert_eq!(told(&fleet, 15.0), (one(Standing::Measured(40.0)), 40.0, (0, 2)));
    assert_eq!(told(&fleet, 15.1), (one(Standing::Stale(Some(40.0))), 0.0, (0, 2)));
    // Gone from discovery altogether.
    fleet.found(&found(&["b"]));
    assert_eq!(told(&fleet, 600.0), (one(Standing::Stale(Some(40.0))), 0.0, (0, 1)));
    assert_eq!(told(&fleet, 600.1), (vec![], 0.0, (0, 1)));
    // Its page says no more of a device: so does nobody, while it is well itself.
    fleet.answered("b", 700.0, vec![watts("m", "1", 10.0), watts("m", "2", 20.0)]);
    fleet.answered("b", 720.0, vec![watts("m", "1", 10.0)]);
    let expected = vec![
        ("m/1".to_owned(), Standing::Measured(10.0)),
        ("m/2".to_owned(), Standing::Stale(Some(20.0))),
    ];
    assert_eq!(told(&fleet, 720.0), (expected, 10.0, (1, 1)));
}

/// A page that is fresh may tell of a sensor that is not.
#[test]
fn a_reading_is_as_old_as_its_sensor_was_read() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.found(&found(&["a"]));
    fleet.answered("a", 100.0, vec![FleetDevice { age_s: 14.0, ..watts("n", "1", 40.0) }]);
    let at = |second: f64| fleet.snapshot(second).devices[0].clone();
    assert_eq!((at(101.0).standing, at(101.0).age_s), (Standing::Measured(40.0), 15.0));
    assert_eq!((at(101.5).standing, at(101.5).read_s), (Standing::Stale(Some(40.0)), 86.0));
}

#[test]
fn a_node_is_told_of_by_one_agent() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.found(&found(&["old", "rogue"]));
    fleet.answered("old", 0.0, vec![watts("n", "1", 50.0)]);
    fleet.answered("rogue", 1.0, vec![watts("n", "1", 9_999.0), watts("n", "2", 9_999.0)]);
    let one = |watts| vec![("n/1".to_owned(), Standing::Measured(watts))];
    assert_eq!(told(&fleet, 1.0), (one(50.0), 50.0, (2, 2)));
    assert_eq!(fleet.snapshot(1.0).refused, [("rogue".to_owned(), "n".to_owned())]);
    // The pod is another one now: the old address is gone.
    fleet.found(&found(&["new"]));
    fleet.answered("new", 2.0, vec![watts("n", "1", 60.0)]);
    assert_eq!(told(&fleet, 2.0), (one(60.0), 60.0, (1, 1)));
    // Or still in discovery, and silent.
    fleet.found(&found(&["new", "newer"]));
    fleet.answered("newer", 17.0, vec![watts("n", "1", 70.0)]);
    assert_eq!(told(&fleet, 17.0).1, 60.0, "15 s are not yet over");
    fleet.answered("newer", 17.1, vec![watts("n", "1", 70.0)]);
    assert_eq!(told(&fleet, 17.1), (one(70.0), 70.0, (2, 2)));
    // What the operator says counts, and not the page.
    let mut named = Fleet::new(LIMITS);
    named.found(&[Found { address: "x".to_owned(), node: Some("rack1".to_owned()) }]);
    named.answered("x", 0.0, vec![watts("n", "1", 50.0)]);
    assert_eq!(told(&named, 0.0).0[0].0, "rack1/1");
    // Nobody says anything.
    let mut nameless = Fleet::new(LIMITS);
    nameless.found(&found(&["10.0.0.1:9405"]));
    nameless.answered(
        "10.0.0.1:9405",
        0.0,
        vec![FleetDevice { node: None, ..watts("", "1", 5.0) }],
    );
    assert_eq!(told(&nameless, 0.0).0[0].0, "10.0.0.1:9405/1");
}

#[test]
fn totals_are_by_scope_too() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.found(&found(&["a"]));
    let apu = FleetDevice { scope: "socket".to_owned(), ..watts("n", "2", 25.0) };
    let energy = Some(Joules { joules: 5.0, since_s: 0.0, counter: "hardware".to_owned() });
    fleet.answered("a", 0.0, vec![watts("n", "1", 100.0), FleetDevice { energy, ..apu }]);
    let by_scope = fleet.snapshot(0.0).watts_by_scope;
    assert_eq!(by_scope, BTreeMap::from([("gpu".to_owned(), 100.0), ("socket".to_owned(), 25.0)]));
}

/// What happens to one of four agents, one of which is of the same node as another.
#[derive(Clone, Debug)]
enum Event {
    Answers(usize, Vec<(u8, f64)>),
    Fails(usize),
    Found(u8),
    Passes(f64),
}

fn event() -> impl Strategy<Value = Event> {
    let readings = vec((0..4_u8, prop_oneof![0.0..700.0_f64, Just(-1.0), Just(f64::NAN)]), 0..5);
    prop_oneof![
        5 => (0..4_usize, readings).prop_map(|(agent, readings)| Event::Answers(agent, readings)),
        1 => (0..4_usize).prop_map(Event::Fails),
        1 => (0..16_u8).prop_map(Event::Found),
        3 => (0.1..20.0_f64).prop_map(Event::Passes),
    ]
}

proptest! {
    /// The model: every answer that was ever given, looked through from the last to the first.
    #[test]
    fn a_fleet_is_what_was_told_last(events in vec(event(), 1..80)) {
        let addresses = ["a", "b", "c", "d"];
        let nodes = ["n0", "n1", "n2", "n2"];
        let mut fleet = Fleet::new(LIMITS);
        let (mut now_s, mut present) = (1_000.0, 0_u8);
        type Answer = (usize, f64, Vec<(u8, f64)>);
        let mut answers: Vec<Answer> = Vec::new();
        let mut owner: Option<usize> = None;
        for event in events {
            match event {
                Event::Passes(seconds) => now_s += seconds,
                Event::Fails(agent) => fleet.failed(addresses[agent]),
                Event::Found(mask) => {
                    present = mask;
                    let now: Vec<&str> =
                        (0..4).filter(|n| mask & (1 << n) != 0).map(|n| addresses[n]).collect();
                    fleet.found(&found(&now));
                }
                Event::Answers(agent, readings) => {
                    let devices = readings.iter().map(|(pci, w)| watts(nodes[agent], &pci.to_string(), *w));
                    fleet.answered(addresses[agent], now_s, devices.collect());
                    if present & (1 << agent) == 0 {
                        continue;
                    }
                    // The agents of n2: who owns it is asked only when somebody tells of a device there.
                    if nodes[agent] == "n2" && !readings.is_empty() {
                        let is_silent = |owner: usize| {
                            let last = answers.iter().rev().find(|(of, ..)| *of == owner);
                            present & (1 << owner) == 0
                                || owner != agent && last.is_none_or(|(_, at_s, _)| now_s - at_s > 15.0)
                        };
                        if owner.is_none_or(is_silent) {
                            owner = Some(agent);
                        }
                    }
                    let counts = nodes[agent] != "n2" || owner == Some(agent);
                    answers.push((agent, now_s, if counts { readings } else { Vec::new() }));
                }
            }
            let snapshot = fleet.snapshot(now_s);
            let sum: f64 = snapshot.devices.iter().filter_map(Listed::measured_watts).sum();
            prop_assert!((snapshot.total_watts - sum).abs() < 1e-9);
            for (place, node) in ["n0", "n1", "n2"].into_iter().enumerate() {
                for pci in 0..4_u8 {
                    let told = answers.iter().rev().find_map(|(agent, at_s, readings)| {
                        let first = readings.iter().find(|(of, _)| *of == pci);
                        (nodes[*agent] == nodes[place]).then_some(())?;
                        Some((*at_s, first?.1))
                    });
                    let told = told.filter(|(at_s, _)| now_s - at_s <= 600.0);
                    let listed = snapshot.devices.iter()
                        .find(|of| of.node == node && of.device.pci == pci.to_string());
                    let expected = told.map(|(at_s, w)| {
                        let watts = (0.0..=10_000.0).contains(&w).then_some(w);
                        match watts {
                            watts if now_s - at_s > 15.0 => Standing::Stale(watts),
                            Some(watts) => Standing::Measured(watts),
                            None => Standing::Unmeasured,
                        }
                    });
                    prop_assert_eq!(listed.map(|of| of.standing), expected, "{}/{}", node, pci);
                }
            }
        }
    }
}
