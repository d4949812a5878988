//! docs/metrics.md against the list of families and against pages that simulated nodes really give.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use wattscribe_exporter::args::Config;
use wattscribe_exporter::board::Board;
use wattscribe_exporter::cell::Limits;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::families;
use wattscribe_exporter::ladder::{Chosen, Ground, Rung, SourceChoice};
use wattscribe_exporter::library::LibraryThread;
use wattscribe_exporter::page::render;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sources::dcgm::{Access, Dcgm};
use wattscribe_exporter::sources::discover;
use wattscribe_exporter::sources::nvml::Nvml;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_parser::{Entry, Exposition, Format};
use wattscribe_simulator::{Fault, Machine, Simulation, Waveform};
use wattscribe_standins::{Answer, DcgmScript, Device, Entity, NvmlScript, Stage, field, scope};

use crate::markdown::{code, table};
use crate::repository::text;

/// Labels in their order, by family.
type Labels = BTreeMap<String, Vec<String>>;

#[test]
fn every_family_is_documented_with_its_kind() {
    let documented = table(&text("docs/metrics.md"), "Families");
    let documented: BTreeMap<String, String> =
        documented.iter().map(|row| (code(&row[0]).concat(), row[1].clone())).collect();
    let published = families::ALL
        .iter()
        .map(|family| (family.name.to_owned(), family.kind.as_str().to_owned()));
    assert_eq!(documented, published.collect());
}

#[test]
fn labels_and_order_are_documented_as_pages_have_them() {
    let documented: Vec<(String, Vec<String>)> = table(&text("docs/metrics.md"), "Families")
        .iter()
        .map(|row| (code(&row[0]).concat(), code(&row[2])))
        .collect();
    let mut labels = Labels::new();
    for page in pages() {
        add_labels(&mut labels, &page);
        let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let found: Vec<&str> = types.collect();
        let names = documented.iter().map(|(name, _)| name.as_str());
        assert_eq!(names.filter(|name| found.contains(name)).collect::<Vec<_>>(), found);
    }
    assert_eq!(labels, documented.into_iter().collect());
}

/// How nodes are read here: quickly, and with patience.
fn ground(sysfs: Sysfs) -> Ground {
    let config = Config::of_files(([127, 0, 0, 1], 0).into(), SourceChoice::Auto, sysfs);
    Ground::of(&Config { interval: Duration::from_millis(20), ..config })
}

const LIMITS: Limits =
    Limits { stale_after: Duration::from_secs(60), read_deadline: Duration::from_secs(5) };

/// Pages of a Grace node with GPUs, of a RAPL node and of one that DCGM measures; the first two with a sensor
/// that is withheld.
fn pages() -> Vec<String> {
    let steady = [Waveform::Constant { watts: 100.0 }];
    let machines = [Machine::grace("grace", &steady), Machine::rapl("rapl", &steady)];
    let root = tempfile::tempdir().unwrap();
    let simulation = Simulation::start(root.path(), &machines, SystemTime::now()).unwrap();
    simulation.fail("grace", "ACPI000D:01/power1", Fault::Text("N/A\n".into())).unwrap();
    simulation.fail("rapl", "intel-rapl:0:1", Fault::Text("N/A\n".into())).unwrap();
    let mut pages = Vec::new();
    for (node, source, rung, parts) in [
        ("grace", Source::Acpi, Rung::Acpi, ["cpu_power_acpi_watts{", "cpu_power_nvml_watts{"]),
        ("rapl", Source::Rapl, Rung::Rapl, ["cpu_power_rapl_watts{", "power_parts_ratio{"]),
    ] {
        let sysfs = Sysfs::new(simulation.sysfs_root(node).unwrap(), None);
        let chosen = Chosen::Files { rung, sensors: discover(source, &sysfs).unwrap() };
        let ground = ground(sysfs);
        let (gpus, nvml) = nvml(&ground);
        let nvml = (source == Source::Acpi).then_some(nvml);
        let board = Board::start(Some(chosen), ground, nvml, LIMITS).unwrap();
        let of_gpus: &[&str] = if source == Source::Acpi { &ACCELERATOR_PARTS } else { &[] };
        pages.push(page_with(&board, &[&parts[..], &["power_withheld{"], of_gpus].concat()));
        drop((board, gpus));
    }
    pages.push(dcgm_page(ground(Sysfs::new(root.path(), None))));
    pages
}

/// What a page of accelerators has last.
const ACCELERATOR_PARTS: [&str; 2] =
    ["accelerator_component_power_watts{", "accelerator_energy_joules_total{"];

/// Two GPUs of one module, whose PCI devices are put into the node's tree.
fn nvml(ground: &Ground) -> (tempfile::TempDir, LibraryThread) {
    let folder = tempfile::tempdir().unwrap();
    let gpus = ["0008:01:00.0", "0009:01:00.0"].map(|pci| {
        let device = ground.sysfs.pci_device(pci);
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("numa_node"), "0\n").unwrap();
        let watts = |watts: f64| Answer::Number((watts * 1e3).into());
        Device::new(&format!("GPU-{pci}"), pci)
            .module_mw(500_000.0)
            .gpu_mw(200_000.0)
            .with(field::POWER_INSTANT, scope::GPU, watts(210.0))
            .with(field::POWER_AVERAGE, scope::MEMORY, watts(40.0))
    });
    let stage = Stage::new(folder.path(), NvmlScript::new(gpus)).unwrap();
    let nvml = Nvml::new(vec![stage.library().to_owned()], ground.sysfs.clone(), false);
    let health = Arc::clone(&ground.health);
    let thread = LibraryThread::start(Source::Nvml, nvml, health, ground.schedule).unwrap();
    (folder, thread)
}

fn dcgm_page(ground: Ground) -> String {
    let folder = tempfile::tempdir().unwrap();
    // Two CPUs that read one number.
    let cpus = [0, 1].map(|cpu| Entity::new(cpu).watts(1130, 50.0).watts(1132, 6.0));
    let script = DcgmScript::new(cpus);
    let stage = Stage::new(folder.path(), script).unwrap();
    let access = Access::new(vec![stage.library().to_owned()], "127.0.0.1".to_owned());
    let dcgm = Dcgm::take(&access, ground.schedule.interval).unwrap();
    let health = Arc::clone(&ground.health);
    let thread = LibraryThread::start(Source::Dcgm, dcgm, health, ground.schedule).unwrap();
    let chosen = Chosen::Library { rung: Rung::Dcgm, thread };
    let board = Board::start(Some(chosen), ground, None, LIMITS).unwrap();
    page_with(&board, &["cpu_power_dcgm_watts{", "power_sensor_twin{"])
}

/// The page, once all of these stand on it.
fn page_with(board: &Arc<Board>, parts: &[&str]) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        board.watch(Now::read());
        let page = render(board, Now::read(), Format::Text);
        if parts.iter().all(|part| page.contains(part)) {
            return page;
        }
        assert!(Instant::now() < until, "never all of {parts:?} on the page:\n{page}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn add_labels(labels: &mut Labels, page: &str) {
    for entry in Exposition::new(page.as_bytes()).unwrap() {
        let Entry::Sample(sample) = entry.unwrap() else { continue };
        let name = sample.name.unescape();
        let names = sample.labels.iter().map(|(name, _)| name.unescape().into_owned()).collect();
        let family =
            ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        // A histogram's sum and count have the labels of its buckets but for the bound.
        match family {
            Some(family) if name.ends_with("_bucket") => labels.insert(family.to_owned(), names),
            Some(_) => None,
            None => labels.insert(name.into_owned(), names),
        };
    }
}
