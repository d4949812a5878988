//! Whole pages against the files in `tests/golden`. What changes from run to run is masked by name.
//!
//! `BLESS=1 cargo test -p wattscribe-exporter golden` writes the files anew; review them like code.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_exporter::page;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_parser::Format;
use wattscribe_simulator::{Machine, Tree, Waveform};

use crate::accelerators::alone;
use crate::fixture::{self, Served, board, eventually, samples};
use crate::process::exporter;
use crate::superchip::{Engines, Superchip};
use crate::{machine, nvidia_gpus};

/// Families whose values depend on the clock.
const MASKED: [&str; 5] = [
    "power_reading_timestamp_seconds",
    "power_read_duration_seconds_bucket",
    "power_read_duration_seconds_sum",
    "power_read_duration_seconds_count",
    "power_exposition_timestamp_seconds",
];

/// The same for a machine whose power is a difference over a time. A read that comes before the next
/// refresh of the files sees the counter stand still, which is an error of a package.
const MASKED_RAPL: [&str; 6] = [
    "power_parts_ratio",
    "cpu_power_rapl_watts",
    "cpu_energy_joules_total",
    "cpu_energy_since_timestamp_seconds",
    "power_reading_window_seconds",
    "power_read_errors_total",
];

fn masked(page: &str, names: &[&str]) -> String {
    let line = |line: &str| {
        if line.starts_with("power_exporter_instance_info{") {
            return "power_exporter_instance_info{instance_id=\"INSTANCE\"} 1\n".to_owned();
        }
        let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
        let name = series.split('{').next().unwrap_or_default();
        if names.contains(&name) {
            return format!("{series} *\n");
        }
        format!("{}\n", line.replace(env!("CARGO_PKG_VERSION"), "VERSION"))
    };
    page.lines().map(line).collect()
}

/// The lines that differ, as a patch would show them.
fn difference(expected: &str, found: &str) -> String {
    let only_in = |sign: &str, these: &str, those: &str| -> String {
        let missing = these.lines().filter(|line| !those.lines().any(|other| other == *line));
        missing.map(|line| format!("{sign} {line}\n")).collect()
    };
    only_in("-", expected, found) + &only_in("+", found, expected)
}

fn check(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, found).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        expected == found,
        "{name} differs (BLESS=1 accepts it):\n{}",
        difference(&expected, found)
    );
}

#[test]
fn a_grace_node() {
    let folder = TempDir::new().unwrap();
    let totals = [98.029, 103.5].map(|watts| Waveform::Constant { watts });
    let _tree = Tree::build(&Machine::grace("node", &totals), folder.path(), 1.0).unwrap();
    let board = board(Sysfs::new(folder.path(), None), Source::Acpi);
    eventually("every sensor is read", || board.cells().iter().all(|cell| cell.has_been_read()));
    let page = page::render(&board, Now::read(), Format::Text);
    check("grace.txt", &masked(&page, &MASKED));
}

#[test]
fn a_rapl_node() {
    let folder = TempDir::new().unwrap();
    let packages = [150.0, 90.0].map(|watts| Waveform::Constant { watts });
    let mut tree = Tree::build(&Machine::rapl("node", &packages), folder.path(), 0.0).unwrap();
    let board = board(Sysfs::new(folder.path(), None), Source::Rapl);
    let mut page = String::new();
    let mut second = 0.0;
    eventually("every zone has a mean power", || {
        second += 0.05;
        tree.refresh(second).unwrap();
        page = page::render(&board, Now::read(), Format::Text);
        !page.lines().any(|line| line.starts_with("power_withheld{"))
    });
    check("rapl.txt", &masked(&page, &[&MASKED[..], &MASKED_RAPL[..]].concat()));
}

/// Energy and its time depend on the clock; so does whether the counter of a machine that stands still is believed yet.
const MASKED_ACCELERATORS: [&str; 3] = [
    "accelerator_energy_joules_total",
    "accelerator_energy_since_timestamp_seconds",
    "power_reading_window_seconds",
];

fn check_accelerators(name: &str, tree: &fixture::Tree) {
    let board = alone(tree);
    let page = page::render(&board, Now::read(), Format::Text);
    check(name, &masked(&page, &[&MASKED[..], &MASKED_ACCELERATORS[..]].concat()));
}

#[test]
fn nodes_with_accelerators_that_files_tell() {
    check_accelerators("strix_halo.txt", &machine::strix_halo());
    check_accelerators("mi300x.txt", &machine::mi300x());
    check_accelerators("mi250.txt", &machine::mi250());
    check_accelerators("two_cards.txt", &machine::two_cards());
    check_accelerators("lunar_lake.txt", &machine::lunar_lake());
}

/// The energy of GPUs that a library reads is not believed yet, or begins when it is.
fn check_gpus(name: &str, page: &str) {
    check(name, &masked(page, &[&MASKED[..], &MASKED_ACCELERATORS[..]].concat()));
}

#[test]
fn eight_gpus_of_which_one_is_partitioned() {
    let mut gpus = nvidia_gpus::eight();
    // MIG instances are no devices of NVML's enumeration: the GPU that they are parts of has all the power (N04).
    gpus.nvml.change(|script| script.devices[3].mig = Some(true)).unwrap();
    check_gpus("eight_gpus.txt", &gpus.served(8).page());
}

#[test]
fn a_laptop_whose_gpu_sleeps() {
    let gpus = nvidia_gpus::laptop();
    let served = Served::start(&gpus.config());
    check_gpus("laptop.txt", &served.page());
    assert!(gpus.nvml.calls().unwrap().is_empty(), "it was touched");
}

/// The program on a machine that has nothing: what an operator reads before it ends.
#[test]
fn a_machine_without_any_source() {
    let nothing = crate::fixture::Tree::new::<&str>(&[]);
    let root = nothing.root().to_str().unwrap();
    let output = exporter(&["--source", "auto", "--sysfs-root", root]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "the log is on standard output");
    let log = String::from_utf8(output.stdout).unwrap();
    let untimed = |line: &str| format!("TIME {}\n", line.split_once(' ').unwrap().1.trim_start());
    check("nothing.txt", &log.replace(root, "ROOT").lines().map(untimed).collect::<String>());
}

/// A node with GPUs, once everything on it is read.
fn check_superchip(name: &str, node: &Superchip, gpus: usize) {
    let served = node.served(gpus);
    let page = served.page();
    assert!(samples(&page, "power_withheld").is_empty(), "{page}");
    check(name, &masked(&page, &MASKED));
}

#[test]
fn a_gb200_node() {
    let node = Superchip::gb200([539_000.0, 534_000.0, 731_000.0, 725_000.0]);
    check_superchip("gb200.txt", &node, 4);
}

#[test]
fn a_gh200_node() {
    let node = Superchip::new(&["98029000"], &[(0, 539_000.0)]);
    check_superchip("gh200.txt", &node, 1);
}

#[test]
fn a_node_that_only_dcgm_measures() {
    let engines = Engines::of(&[(50.149, 6.125), (46.765, 5.882)]);
    let nothing = crate::fixture::Tree::new::<&str>(&[]);
    let served = Served::start(&engines.config(&nothing, SourceChoice::Auto));
    check("dcgm.txt", &masked(&served.page(), &MASKED));
}
