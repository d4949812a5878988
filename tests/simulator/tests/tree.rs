//! A tree reads like a kernel's: places, links and texts, with and without faults, never torn.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::Path;
use std::thread;

use tempfile::TempDir;
use wattscribe_simulator::{
    Fault, GraceSocket, HwmonLayout, Kind, MARKER, Machine, RaplPackage, SimulatorError, Tree,
    Waveform,
};

const RAMP: Waveform = Waveform::Ramp { from_w: 100.0, to_w: 200.0, duration_s: 10.0 };

fn grace(layout: HwmonLayout) -> Machine {
    let capped = GraceSocket { cap_max_w: Some(500.0), ..GraceSocket::new(0, RAMP) };
    let sockets = vec![capped, GraceSocket::new(1, Waveform::Constant { watts: 94.29 })];
    Machine { name: "node".into(), kind: Kind::Grace { layout, averaging_ms: 50, sockets } }
}

fn rapl() -> Machine {
    let package = RaplPackage::new(0, Waveform::Constant { watts: 100.0 }).wrapping_at(2.0);
    Machine { name: "node".into(), kind: Kind::Rapl { packages: vec![package] } }
}

fn build(machine: &Machine, t_s: f64) -> (TempDir, Tree) {
    let folder = TempDir::new().unwrap();
    let tree = Tree::build(machine, folder.path(), t_s).unwrap();
    (folder, tree)
}

/// Each path below the root holds the text, or `-` when it must not be there.
fn check(machine: &Machine, t_s: f64, expected: &[(&str, &str)]) {
    let (folder, _tree) = build(machine, t_s);
    for (path, text) in expected {
        let found = fs::read_to_string(folder.path().join(path)).unwrap_or_else(|_| "-".into());
        assert_eq!(found, *text, "{path}");
    }
}

#[test]
fn present_kernels_have_the_attributes_in_the_class_node() {
    check(
        &grace(HwmonLayout::New),
        5.025,
        &[
            ("class/hwmon/hwmon0/name", "power_meter\n"),
            ("class/hwmon/hwmon0/power1_oem_info", "Grace Power Socket 0\n"),
            ("class/hwmon/hwmon0/power1_average", "150000000\n"), // the mean of 5.000 to 5.050 less 25 ms
            ("class/hwmon/hwmon0/power1_average_interval", "50\n"),
            ("class/hwmon/hwmon0/power1_cap_max", "500000000\n"),
            ("class/hwmon/hwmon1/power1_oem_info", "CPU Power Socket 0\n"),
            ("class/hwmon/hwmon1/power1_average", "73500000\n"),
            ("class/hwmon/hwmon1/power1_cap_max", "-"),
            ("class/hwmon/hwmon2/power1_oem_info", "SysIO Power Socket 0\n"),
            ("class/hwmon/hwmon3/power1_oem_info", "Grace Power Socket 1\n"),
            ("class/hwmon/hwmon3/power1_average", "94290000\n"),
            ("class/hwmon/hwmon0/device/power1_average", "-"),
            ("class/hwmon/hwmon0/device/name", "-"),
        ],
    );
}

#[test]
fn older_kernels_have_them_in_the_device() {
    check(
        &grace(HwmonLayout::Old),
        5.025,
        &[
            ("class/hwmon/hwmon0/device/name", "power_meter\n"),
            ("class/hwmon/hwmon0/device/power1_oem_info", "Grace Power Socket 0\n"),
            ("class/hwmon/hwmon0/device/power1_average", "150000000\n"),
            ("class/hwmon/hwmon5/device/power1_oem_info", "SysIO Power Socket 1\n"),
            ("class/hwmon/hwmon0/name", "-"),
            ("class/hwmon/hwmon0/power1_average", "-"),
        ],
    );
}

#[test]
fn powercap_zones_nest_and_are_listed_flat() {
    let text = "262143328850\n";
    check(
        &rapl(),
        2.5,
        &[
            ("class/powercap/intel-rapl:0/name", "package-0\n"),
            ("class/powercap/intel-rapl:0/energy_uj", "50000000\n"), // wrapped half a second ago
            ("class/powercap/intel-rapl:0/max_energy_range_uj", text),
            ("class/powercap/intel-rapl:0/intel-rapl:0:0/name", "core\n"),
            ("class/powercap/intel-rapl:0:0/energy_uj", "175000000\n"),
            ("class/powercap/intel-rapl:0:1/name", "dram\n"),
            ("class/powercap/intel-rapl:0:1/energy_uj", "25000000\n"),
            ("class/powercap/intel-rapl:0:1/max_energy_range_uj", "65532610987\n"),
            ("class/powercap/intel-rapl/enabled", "1\n"),
        ],
    );
}

#[test]
fn every_root_says_that_it_is_simulated() {
    for machine in [grace(HwmonLayout::New), rapl()] {
        let (folder, _tree) = build(&machine, 0.0);
        assert!(fs::read_to_string(folder.path().join(MARKER)).unwrap().contains("simulator"));
    }
}

#[test]
fn renumbering_moves_the_nodes_and_leaves_the_devices() {
    for layout in [HwmonLayout::New, HwmonLayout::Old] {
        let (folder, mut tree) = build(&grace(layout), 0.0);
        tree.fail("ACPI000D:05/power1", Fault::Text("N/A\n".into()), 0.0).unwrap();
        let devices = || [0, 1, 5].map(|number| device_of(folder.path(), number));
        assert_eq!(devices(), ["ACPI000D:00", "ACPI000D:01", "ACPI000D:05"]);
        tree.renumber_hwmon().unwrap();
        assert_eq!(devices(), ["ACPI000D:05", "ACPI000D:00", "ACPI000D:04"]);
        tree.refresh(20.0).unwrap();
        let read = |sensor| fs::read_to_string(tree.reading_file(sensor).unwrap()).unwrap();
        assert_eq!(read("ACPI000D:05/power1"), "N/A\n", "a fault moves with its meter");
        assert_eq!(read("ACPI000D:00/power1"), "200000000\n");
    }
}

fn device_of(root: &Path, hwmon: u32) -> String {
    let device = fs::canonicalize(root.join(format!("class/hwmon/hwmon{hwmon}/device"))).unwrap();
    device.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_fault_lasts_until_it_is_healed() {
    let sensor = "ACPI000D:00/power1";
    let (_folder, mut tree) = build(&grace(HwmonLayout::New), 0.0);
    let file = tree.reading_file(sensor).unwrap();
    let read = || fs::read_to_string(&file).map_err(|error| error.raw_os_error());
    let (enoent, eio) = (Some(2), Some(5));
    let cases = [
        (Fault::Text("N/A\n".into()), Ok("N/A\n".to_owned())),
        (Fault::Text(String::new()), Ok(String::new())),
        (Fault::Missing, Err(enoent)),
        (Fault::ReadError, Err(eio)),
        (Fault::Frozen, Ok("100000000\n".to_owned())),
    ];
    for (fault, expected) in cases {
        tree.fail(sensor, fault.clone(), 0.0).unwrap();
        assert_eq!(read(), expected, "{fault:?} at once");
        tree.refresh(20.0).unwrap();
        assert_eq!(read(), expected, "{fault:?} later");
        tree.heal(sensor, 20.0).unwrap();
        assert_eq!(read(), Ok("200000000\n".to_owned()), "{fault:?} healed");
    }
}

#[test]
fn a_denied_file_has_no_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let sensor = "intel-rapl:0";
    let (_folder, mut tree) = build(&rapl(), 0.0);
    let file = tree.reading_file(sensor).unwrap();
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    tree.fail(sensor, Fault::Denied, 0.0).unwrap();
    assert_eq!(mode(), 0);
    tree.heal(sensor, 0.0).unwrap();
    assert_ne!(mode() & 0o400, 0);
}

#[test]
fn a_reader_that_hangs_is_let_go_by_healing_and_by_dropping() {
    let sensor = "ACPI000D:00/power1";
    for healed in [true, false] {
        let (_folder, mut tree) = build(&grace(HwmonLayout::New), 0.0);
        let file = tree.reading_file(sensor).unwrap();
        tree.fail(sensor, Fault::Hung, 0.0).unwrap();
        assert!(!fs::metadata(&file).unwrap().is_file());
        let reader = thread::Builder::new().name(READER.into());
        let reader = reader.spawn(move || fs::read_to_string(file)).unwrap();
        while !reader_sleeps() {
            assert!(!reader.is_finished(), "it did not hang");
            thread::yield_now();
        }
        if healed {
            tree.heal(sensor, 0.0).unwrap();
        } else {
            drop(tree);
        }
        assert_eq!(reader.join().unwrap().unwrap(), "", "healed: {healed}");
    }
}

const READER: &str = "hung-reader";

/// Whether the reader's thread sleeps in the kernel. It does nothing but open the file, so that is where.
fn reader_sleeps() -> bool {
    let sleeps = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.contains(&format!("({READER}) S"))
    };
    fs::read_dir("/proc/self/task").unwrap().flatten().any(sleeps)
}

#[test]
fn a_counter_starts_again_and_other_sensors_have_none() {
    let (_folder, mut tree) = build(&rapl(), 1.0);
    let file = tree.reading_file("intel-rapl:0").unwrap();
    tree.reset_counter("intel-rapl:0", 1.0).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "0\n");
    tree.refresh(1.5).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "50000000\n");

    let (_folder, mut tree) = build(&grace(HwmonLayout::New), 1.0);
    let error = tree.reset_counter("ACPI000D:00/power1", 1.0).unwrap_err();
    assert_eq!(error.to_string(), r#"machine "node" has no counter "ACPI000D:00/power1""#);
}

#[test]
fn attributes_can_be_replaced_and_unknown_sensors_are_named() {
    let (_folder, tree) = build(&grace(HwmonLayout::New), 0.0);
    tree.set_attribute("ACPI000D:00/power1", "power1_average_interval", "unknown\n").unwrap();
    let interval =
        tree.reading_file("ACPI000D:00/power1").unwrap().with_file_name("power1_average_interval");
    assert_eq!(fs::read_to_string(interval).unwrap(), "unknown\n");
    let error = tree.reading_file("hwmon0/power1").unwrap_err();
    assert_eq!(error.to_string(), r#"machine "node" has no sensor "hwmon0/power1""#);
}

#[test]
fn a_root_that_holds_a_tree_is_refused() {
    let (folder, _tree) = build(&rapl(), 0.0);
    let error = Tree::build(&rapl(), folder.path(), 0.0).unwrap_err();
    assert!(matches!(error, SimulatorError::Change { .. }), "{error:?}");
}

/// The counter grows by one step a refresh while it is read. A torn or empty text does not parse; a
/// mixture of two values is out of order or between two steps.
#[test]
fn a_reader_never_sees_a_torn_value() {
    const READS: u32 = 10_000;
    const STEP_UJ: u64 = 125_000; // 128 W for 1/1024 s: both exact in binary, so is every sum of them
    let watts = Waveform::Constant { watts: 128.0 };
    let package = RaplPackage { at_epoch_uj: 0, ..RaplPackage::new(0, watts) };
    let machine = Machine { name: "node".into(), kind: Kind::Rapl { packages: vec![package] } };
    let (_folder, mut tree) = build(&machine, 0.0);
    let file = tree.reading_file("intel-rapl:0").unwrap();
    let read_all = || {
        let (mut reads, mut changes, mut highest_uj) = (0, 0, 0);
        // Until there were enough reads, and changes between them: without changes nothing is tested.
        while reads < READS || changes < 100 {
            let text = fs::read_to_string(&file).unwrap();
            let counted_uj: u64 = text.strip_suffix('\n').unwrap().parse().unwrap();
            assert!(counted_uj >= highest_uj, "{counted_uj} after {highest_uj}");
            assert_eq!(counted_uj % STEP_UJ, 0, "{counted_uj} was never written");
            reads += 1;
            changes += u32::from(counted_uj > highest_uj);
            highest_uj = counted_uj;
        }
    };
    thread::scope(|scope| {
        let reader = scope.spawn(read_all);
        let ticks = (1_u32..).take_while(|_| !reader.is_finished());
        ticks.for_each(|tick| tree.refresh(f64::from(tick) / 1024.0).unwrap());
    });
}
