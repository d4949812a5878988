//! Superchip modules through the whole pipeline: what is recorded of each GPU gives offline what was published live.
//!
//! A node with stand-ins for NVIDIA's library and for the meters of its CPUs is recorded beside a page of GPU power as
//! NVIDIA's DCGM exporter has it. From the recorded readings alone the same rules then take the mean of each module, and
//! what it draws beside its CPU and its GPUs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;
use wattscribe_rules::{ModuleMean, NoResidual, module_mean, residual};
use wattscribe_simulator::{Machine, Tree, Waveform};
use wattscribe_standins::{Device, NvmlScript, Stage};
use wattscribe_table::{CpuSample, LongReading, RunReader};
use wattscribe_tests::http;
use wattscribe_tests::nodes::{INTERVAL, listening, record, standing_in};
use wattscribe_tests::program::{Running, exporter, run};
use wattscribe_tests::wait::eventually;

/// One module under one load, in watts.
struct Load {
    what: &'static str,
    /// The module as each of its GPUs reports it.
    reports_w: [f64; 2],
    cpu_w: f64,
    gpus_w: [f64; 2],
    /// What is left, or nothing where the reports are too far apart for a mean.
    rest_w: Option<f64>,
}

const fn load(
    what: &'static str,
    reports_w: [f64; 2],
    cpu_w: f64,
    gpus_w: [f64; 2],
    rest_w: Option<f64>,
) -> Load {
    Load { what, reports_w, cpu_w, gpus_w, rest_w }
}

/// Module by module of one node: three loads of a GB200 as they were measured with driver 580.126.20 and published to
/// the watt, where 38 W to 42 W were left under every load; then where a mean ends.
const LOADS: [Load; 6] = [
    load("idle", [539.0, 534.0], 96.0, [204.0, 198.0], Some(38.5)),
    load("one GPU loaded", [731.0, 725.0], 98.0, [390.0, 202.0], Some(38.0)),
    load("both loaded", [938.0, 933.0], 101.0, [397.0, 400.0], Some(37.5)),
    load("no whole watts", [498.721, 499.998], 98.029, [180.333, 181.0], Some(39.9975)),
    load("5 % apart", [487.5, 512.5], 98.0, [181.0, 181.0], Some(40.0)),
    load("5.1 % apart", [487.25, 512.75], 98.0, [181.0, 181.0], None),
];

const KEPT: &str = "^(gpu_module_power_watts|gpu_module_spread_ratio|cpu_power_nvml_watts|power_withheld|DCGM_FI_DEV_POWER_USAGE)$";

#[test]
fn means_and_residuals_of_a_recording_are_those_of_the_live_page() {
    let folder = TempDir::new().unwrap();
    let node = Node::start(folder.path());
    let dcgm = standing_in(&gpu_page());
    let out = folder.path().join("run");
    let mut command = record([("node", node.address), ("gpus", dcgm.address)], "200ms", &out);
    run(command.args(["--keep", KEPT, "--duration", "2s"])).succeeded();

    let recorded = Recorded::read(&out);
    assert!(recorded.scrapes.len() >= 8, "{} scrapes in 2 s", recorded.scrapes.len());
    for scrape in recorded.scrapes.values() {
        for (socket, load) in (0..).zip(&LOADS) {
            check(&recorded, scrape, socket, load);
        }
    }
}

/// Offline and live agree on one module of one scrape, and both with what is true.
fn check(recorded: &Recorded, scrape: &[LongReading], socket: u32, load: &Load) {
    let what = load.what;
    let of_socket = |metric| values(scrape, metric, "socket", &socket.to_string());
    let mean = module_mean(&of_socket("gpu_module_power_watts"));
    let published = of_socket("cpu_power_nvml_watts");
    let id = format!("socket{socket}");
    let withheld = values(scrape, "power_withheld", "sensor", &id);

    let gpus_w = [0, 1].map(|gpu| recorded.gpus_w.get(&uuid(socket, gpu)).copied());
    let rest_w = residual(mean, &[recorded.cpus_w.get(&socket).copied()], &gpus_w);
    let spread_w = (load.reports_w[0] - load.reports_w[1]).abs();
    match (mean, load.rest_w) {
        (ModuleMean::Mean { watts, members: 2, .. }, Some(expected_w)) => {
            // To the bit of what was published, which has six decimals.
            let published: Vec<String> = published.iter().flatten().map(six).collect();
            assert_eq!(published, [six(&watts)], "{what}");
            assert_eq!(withheld, [], "{what}");
            assert_eq!(recorded.modules_w.get(&socket).map(six), Some(six(&watts)), "{what}");
            let rest_w = rest_w.unwrap();
            assert_eq!(six(&rest_w), six(&expected_w), "{what}");
            // What was measured is known to the watt.
            assert!((38.0..=42.0).contains(&rest_w.round()), "{what}: {rest_w} W");
        }
        (ModuleMean::Disagree { mean_w, members: 2, .. }, None) => {
            assert_eq!((published, withheld), (vec![], vec![Some(1.0)]), "{what}");
            assert_eq!(recorded.modules_w.get(&socket), None, "{what}");
            assert_eq!(rest_w, Err(NoResidual::ModuleDisagrees { mean_w, spread_w }), "{what}");
        }
        (mean, _) => panic!("{what}: {mean:?}"),
    }
    let spread = spread_w / ((load.reports_w[0] + load.reports_w[1]) / 2.0);
    let seen: Vec<String> =
        of_socket("gpu_module_spread_ratio").iter().flatten().map(six).collect();
    assert_eq!(seen, [six(&spread)], "{what}: the spread is there whether it is withheld or not");
}

/// A value as a page has it.
fn six(value: &f64) -> String {
    format!("{value:.6}")
}

fn uuid(socket: u32, gpu: u32) -> String {
    format!("GPU-{socket:08}-000{gpu}-0000-0000-000000000000")
}

/// An exporter over a node that has a module for each load.
struct Node {
    address: SocketAddr,
    _exporter: Running,
    _tree: Tree,
    _nvml: Stage<NvmlScript>,
}

impl Node {
    /// Once all modules are read.
    fn start(folder: &Path) -> Self {
        let root = folder.join("sys");
        let totals = LOADS.each_ref().map(|load| Waveform::Constant { watts: load.cpu_w });
        let tree = Tree::build(&Machine::grace("node", &totals), &root, 0.0).unwrap();
        let nvml = Stage::new(folder, NvmlScript::new(devices(&root))).unwrap();
        let mut command = exporter();
        command.args(["--bind", "127.0.0.1", "--port", "0", "--interval", INTERVAL]);
        command.arg("--nvml-library").arg(nvml.library()).arg("--sysfs-root").arg(&root);
        let (exporter, address) = listening(&mut command);
        eventually("all GPUs are read", || {
            let page = http::get(address, "/metrics").text();
            (page.matches("\ngpu_module_power_watts{").count() == 2 * LOADS.len()).then_some(())
        });
        Self { address, _exporter: exporter, _tree: tree, _nvml: nvml }
    }
}

/// The GPUs of all modules, whose PCI devices are put into the node's tree.
fn devices(root: &Path) -> Vec<Device> {
    let mut devices = Vec::new();
    for (socket, load) in (0..).zip(&LOADS) {
        for (gpu, report_w) in (0..).zip(load.reports_w) {
            let pci = format!("{:04x}:01:00.0", 8 + 16 * socket + gpu);
            let device = root.join("bus/pci/devices").join(&pci);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("numa_node"), format!("{socket}\n")).unwrap();
            devices.push(Device::new(&uuid(socket, gpu), &pci).module_mw(report_w * 1e3));
        }
    }
    devices
}

/// The page of an exporter that measures GPUs alone.
fn gpu_page() -> String {
    let mut page = "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n".to_owned();
    for (socket, load) in (0..).zip(&LOADS) {
        for (gpu, watts) in (0..).zip(load.gpus_w) {
            let (index, uuid) = (2 * socket + gpu, uuid(socket, gpu));
            let labels = format!("gpu=\"{index}\",UUID=\"{uuid}\",device=\"nvidia{index}\"");
            writeln!(page, "DCGM_FI_DEV_POWER_USAGE{{{labels}}} {watts}").unwrap();
        }
    }
    page
}

/// What a run holds.
struct Recorded {
    /// Kept readings of the node, by scrape.
    scrapes: BTreeMap<u64, Vec<LongReading>>,
    /// Power of each GPU by its UUID, as the other exporter has it.
    gpus_w: BTreeMap<String, f64>,
    /// Power of each CPU, and of each module, by its socket.
    cpus_w: BTreeMap<u32, f64>,
    modules_w: BTreeMap<u32, f64>,
}

impl Recorded {
    fn read(run: &Path) -> Self {
        let run = RunReader::open(run).unwrap();
        let mut recorded = Self {
            scrapes: BTreeMap::new(),
            gpus_w: BTreeMap::new(),
            cpus_w: BTreeMap::new(),
            modules_w: BTreeMap::new(),
        };
        for reading in run.rows::<LongReading>().unwrap().map(Result::unwrap) {
            if reading.target == "gpus" {
                recorded.gpus_w.insert(label(&reading, "UUID").unwrap(), reading.value);
            } else {
                recorded.scrapes.entry(reading.scrape_seq).or_default().push(reading);
            }
        }
        for row in run.rows::<CpuSample>().unwrap().map(Result::unwrap) {
            recorded.cpus_w.insert(row.socket_id, row.power_w.unwrap());
            if let Some(module_w) = row.module_w {
                recorded.modules_w.insert(row.socket_id, module_w);
            }
        }
        recorded
    }
}

/// The values of a metric in one scrape whose label is this.
fn values(scrape: &[LongReading], metric: &str, name: &str, value: &str) -> Vec<Option<f64>> {
    let of_metric = scrape.iter().filter(|reading| reading.metric == metric);
    let fitting = of_metric.filter(|reading| label(reading, name).as_deref() == Some(value));
    fitting.map(|reading| Some(reading.value)).collect()
}

/// A label of a reading. None of those that are kept here has a quote in it.
fn label(reading: &LongReading, name: &str) -> Option<String> {
    let labels = format!(",{}", reading.labels);
    let (_, rest) = labels.split_once(&format!(",{name}=\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}
