//! The exporter's pages as others read them: promtool's linter, and the Python parser of the collectors that came before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs::File;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use wattscribe_simulator::{Fault, Machine, Waveform};
use wattscribe_tests::nodes::Nodes;
use wattscribe_tests::peer::Peer;
use wattscribe_tests::python::Script;
use wattscribe_tests::wait::eventually;

const TOTALS: [Waveform; 2] =
    [Waveform::Constant { watts: 94.29 }, Waveform::Constant { watts: 100.5 }];

/// The pages that a fleet shows: all is well, by ACPI and by RAPL; one sensor withheld; no sensor fresh.
fn pages() -> Vec<(&'static str, String)> {
    let machines = [
        Machine::grace("grace", &TOTALS),
        Machine::rapl("rapl", &TOTALS),
        Machine::grace("withheld", &TOTALS),
        Machine::grace("nothing", &TOTALS),
    ];
    let nodes = Nodes::start(&machines);
    let broken = |text: &str| Fault::Text(text.to_owned());
    nodes.simulation.fail("withheld", "ACPI000D:03/power1", broken("N/A\n")).unwrap();
    for sensor in machines[3].sensors() {
        nodes.simulation.fail("nothing", &sensor.id, broken("0\n")).unwrap();
    }
    let withheld = |name: &str| {
        let page = nodes.page(name);
        page.lines().filter(|line| line.starts_with("power_withheld{")).count()
    };
    eventually("one sensor and all sensors are withheld", || {
        (withheld("withheld") == 1 && withheld("nothing") == 6).then_some(())
    });
    // RAPL has no power before the second read of its counters.
    eventually("RAPL has power", || nodes.page("rapl").contains("watts{").then_some(()));
    ["grace", "rapl", "withheld", "nothing"].map(|name| (name, nodes.page(name))).to_vec()
}

#[test]
fn promtool_finds_nothing_to_say_about_any_page() {
    let Some(promtool) = Peer::Promtool.find() else { return };
    let folder = TempDir::new().unwrap();
    for (name, page) in pages() {
        let file = folder.path().join(name);
        std::fs::write(&file, &page).unwrap();
        let page_in = Stdio::from(File::open(&file).unwrap());
        let checked =
            Command::new(&promtool).args(["check", "metrics"]).stdin(page_in).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && said.is_empty(), "{name}: {said}{page}");
    }
}

#[test]
fn a_python_collector_finds_its_sockets() {
    let folder = TempDir::new().unwrap();
    let socket = |total: f64, cpu_rail: f64, soc: f64| json!({"total": total, "cpu_rail": cpu_rail, "soc": soc});
    let (first, second) = (socket(94.29, 46.202, 5.657), socket(100.5, 49.245, 6.03));
    let rail_only = json!({"mode": "acpi", "sockets": {"0": first}, "total_w": 94.29});
    let both =
        json!({"mode": "acpi", "sockets": {"0": first, "1": second}, "total_w": 94.29 + 100.5});
    let nothing = json!({"mode": "unknown", "sockets": {}, "total_w": null});
    for (name, page) in pages() {
        let file = folder.path().join(name);
        std::fs::write(&file, &page).unwrap();
        let Some(script) = Script::named("page") else { return };
        let found = script.arg(&file).answer();
        let expected = match name {
            "grace" => &both,
            "withheld" => &rail_only,
            // RAPL is a family that those collectors do not know.
            _ => &nothing,
        };
        assert_eq!(&found["collected"], expected, "{name}");
        check_samples(name, &found, &page);
    }
}

/// Every sample line of the page is one sample of the parser, and the labels of the contract stand in their order.
fn check_samples(name: &str, found: &Value, page: &str) {
    let lines = page.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(found["samples"].as_array().unwrap().len(), lines, "{name}");
    let simulated = json!(["power_simulated", {}, "1.0"]);
    assert!(found["samples"].as_array().unwrap().contains(&simulated), "{name}");
    for line in page.lines().filter(|line| line.starts_with("cpu_power_acpi_watts{")) {
        let labels = line.split_once('{').unwrap().1;
        let names: Vec<&str> =
            labels.split("\",").map(|label| label.split_once('=').unwrap().0).collect();
        assert_eq!(names, ["sensor", "type", "socket", "oem_info", "source"], "{line}");
    }
}
