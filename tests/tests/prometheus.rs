//! A real Prometheus scrapes the exporters: what it stored is what was published, and the dashboard finds its data.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use wattscribe_simulator::{Fault, Machine, Tree, Waveform};
use wattscribe_standins::{DcgmScript, Device, Entity, NvmlScript, Stage};
use wattscribe_tests::file;
use wattscribe_tests::http::Between;
use wattscribe_tests::nodes::{INTERVAL, Nodes, listening};
use wattscribe_tests::program::{Running, exporter};
use wattscribe_tests::prometheus::Prometheus;
use wattscribe_tests::python::Script;
use wattscribe_tests::wait::eventually;

const TOTALS: [Waveform; 2] =
    [Waveform::Constant { watts: 94.29 }, Waveform::Constant { watts: 100.5 }];
const SINE: Waveform =
    Waveform::Sine { mean_w: 120.0, amplitude_w: 40.0, period_s: 5.0, phase_rad: 0.0 };

/// Scrapes that must have passed, one a second.
const SCRAPES: usize = 8;

#[test]
fn prometheus_stores_exactly_what_was_published() {
    let nodes =
        Nodes::start(&[Machine::grace("grace", &TOTALS), Machine::rapl("rapl", &[SINE, SINE])]);
    let between = ["grace", "rapl"].map(|name| (name, Between::start(nodes.address(name))));
    let targets = between.each_ref().map(|(name, between)| (*name, between.address()));
    let Some(prometheus) = Prometheus::start(&targets) else { return };
    let passed = |count: usize| between.iter().all(|(_, b)| b.passed().len() >= count);
    eventually("half of the scrapes", || passed(SCRAPES / 2).then_some(()));
    // From here on a series is missing, and another one is there.
    let broken = Fault::Text("N/A\n".to_owned());
    nodes.simulation.fail("grace", "ACPI000D:03/power1", broken).unwrap();
    eventually("all scrapes", || passed(SCRAPES).then_some(()));

    let folder = TempDir::new().unwrap();
    for (name, between) in &between {
        let all = prometheus.query(&format!("{{instance={name:?}}}[10m]"));
        let pages: Vec<Value> = between
            .passed()
            .iter()
            .map(|p| json!({"content_type": p.answer.content_type, "body": p.answer.text()}))
            .collect();
        let Some(script) = Script::named("stored") else { return };
        let script = script.json(folder.path(), "pages", &json!(pages));
        let compared = script.json(folder.path(), "matrix", &json!(all)).answer();
        assert_eq!(compared["differences"], json!([]), "{name}");
        assert!(compared["scrapes"].as_u64().unwrap() >= SCRAPES as u64 - 1, "{name}: {compared}");
    }
    check_constant(&prometheus, "up", "1");
    check_constant(&prometheus, r#"cpu_power_acpi_watts{type="total",socket="0"}"#, "94.29");
    check_log(&prometheus.log());
}

/// Every stored value of every series of a selector.
fn check_constant(prometheus: &Prometheus, selector: &str, expected: &str) {
    let series = prometheus.query(&format!("{selector}[10m]"));
    assert!(!series.is_empty(), "{selector}");
    for row in series {
        for value in row["values"].as_array().unwrap() {
            assert_eq!(value[1], expected, "{selector}: {row}");
        }
    }
}

/// Nothing was refused on its way into the store, and no rule failed.
fn check_log(log: &str) {
    let bad = ["ingesting", "Append failed", "commit failed", "Scrape failed", "rule failed"];
    let is_bad =
        |line: &&str| bad.iter().any(|text| line.contains(text)) || line.contains("level=error");
    let lines: Vec<&str> = log.lines().filter(is_bad).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

#[test]
fn every_panel_of_the_dashboard_finds_data() {
    let machines = [
        Machine::grace("whole", &TOTALS),
        Machine::grace("withheld", &TOTALS),
        Machine::rapl("rapl", &TOTALS),
    ];
    let nodes = Nodes::start(&machines);
    let (superchip, cpus) = (Standing::superchip(), Standing::dcgm());
    let mut targets =
        ["whole", "withheld", "rapl"].map(|name| (name, nodes.address(name))).to_vec();
    targets.extend([("superchip", superchip.address), ("dcgm", cpus.address)]);
    let Some(prometheus) = Prometheus::start(&targets) else { return };
    let broken = Fault::Text("N/A\n".to_owned());
    nodes.simulation.fail("withheld", "ACPI000D:03/power1", broken).unwrap();
    let node = |panel: &str| {
        let on = |(name, _): &(&str, SocketAddr)| panel.replace("$instance", name);
        targets.iter().map(on).collect::<Vec<_>>()
    };
    let panels = expressions();
    assert!(panels.len() >= 10, "{panels:?}");
    for (title, expression) in &panels {
        eventually(&format!("data of {title}: {expression}"), || {
            node(expression).iter().any(|e| !prometheus.query(e).is_empty()).then_some(())
        });
    }
    // The node's power is whole or it is not there.
    let sum = |rule: &str, name: &str| prometheus.query(&format!("{rule}{{instance={name:?}}}"));
    let acpi = "instance:cpu_power_acpi_watts:sum";
    assert_eq!(sum(acpi, "whole")[0]["value"][1], "194.79000000000002");
    assert!(sum(acpi, "withheld").is_empty(), "{:?}", sum(acpi, "withheld"));
    for (rule, name, expected) in [
        ("instance:cpu_power_nvml_watts:sum", "superchip", "1264.5"),
        ("instance:cpu_power_dcgm_watts:sum", "dcgm", "100"),
        ("instance:cpu_power_dcgm_sysio_watts:sum", "dcgm", "12"),
    ] {
        assert_eq!(sum(rule, name)[0]["value"][1], expected, "{rule}");
    }
    check_log(&prometheus.log());
}

/// An exporter over a stand-in for one of NVIDIA's libraries.
struct Standing {
    address: SocketAddr,
    _exporter: Running,
    _folder: TempDir,
}

impl Standing {
    /// Two modules of two GPUs each, and the meters of their CPUs.
    fn superchip() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("sys");
        Tree::build(&Machine::grace("superchip", &TOTALS), &root, 0.0).unwrap();
        let reports_w = [[539.0, 534.0], [731.0, 725.0]];
        let gpu = |socket: usize, gpu: usize| {
            let pci = format!("00{socket}{gpu}:01:00.0");
            let device = root.join("bus/pci/devices").join(&pci);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("numa_node"), format!("{socket}\n")).unwrap();
            Device::new(&format!("GPU-{socket}{gpu}"), &pci).module_mw(reports_w[socket][gpu] * 1e3)
        };
        let gpus = [gpu(0, 0), gpu(0, 1), gpu(1, 0), gpu(1, 1)];
        let nvml = Stage::new(folder.path(), NvmlScript::new(gpus)).unwrap();
        Self::start("--nvml-library", nvml.library(), &root, folder)
    }

    /// Two CPUs that read one number, so that they are twins.
    fn dcgm() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("sys");
        fs::create_dir(&root).unwrap();
        let cpus = [0, 1].map(|cpu| Entity::new(cpu).watts(1130, 50.0).watts(1132, 6.0));
        let dcgm = Stage::new(folder.path(), DcgmScript::new(cpus)).unwrap();
        Self::start("--dcgm-library", dcgm.library(), &root, folder)
    }

    fn start(flag: &str, library: &Path, root: &Path, folder: TempDir) -> Self {
        let mut command = exporter();
        command.args(["--bind", "127.0.0.1", "--port", "0", "--interval", INTERVAL]);
        command.arg(flag).arg(library).arg("--sysfs-root").arg(root);
        let (exporter, address) = listening(&mut command);
        Self { address, _exporter: exporter, _folder: folder }
    }
}

/// Every expression of the dashboard with the title of its panel, its variables but the node replaced as Grafana would.
fn expressions() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file("dashboards/node.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut found = Vec::new();
    collect(&dashboard, &mut found);
    found
}

fn collect(panel: &Value, found: &mut Vec<(String, String)>) {
    let list = |key: &str| panel[key].as_array().cloned().unwrap_or_default();
    for expression in list("targets").iter().filter_map(|target| target["expr"].as_str()) {
        let plain = expression.replace("$__range", "10s").replace("$__rate_interval", "10s");
        assert!(!plain.replace("$instance", "").contains('$'), "unknown variable: {expression}");
        found.push((panel["title"].as_str().unwrap().to_owned(), plain));
    }
    list("panels").iter().for_each(|inner| collect(inner, found));
}
