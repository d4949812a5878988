//! Which rung the ladder stops at, and what it says of the ones that did not hold.

use std::time::{Duration, Instant};

use wattscribe_exporter::ladder::{Chosen, Ground, Rung, SourceChoice, climb};
use wattscribe_exporter::sysfs::Sysfs;

use crate::fixture::{Tree, config, feed};

const DEADLINE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(30);

fn ground(sysfs: &Sysfs, choice: SourceChoice) -> Ground {
    let ground = Ground::of(&config(sysfs.clone(), choice));
    Ground { deadline: DEADLINE, retry_pause: PAUSE, ..ground }
}

fn rung(sysfs: &Sysfs, choice: SourceChoice) -> Result<(Rung, usize), String> {
    match climb(&ground(sysfs, choice), None) {
        Ok(Chosen::Files { rung, sensors }) => Ok((rung, sensors.len())),
        Ok(Chosen::Library { .. }) => unreachable!("no library is given here"),
        Err(reasons) => Err(reasons.to_string()),
    }
}

/// The ladder stops at this rung with so many sensors.
fn check(tree: &Tree, choice: SourceChoice, expected: (Rung, usize)) {
    assert_eq!(rung(&tree.sysfs(), choice), Ok(expected), "{choice:?}");
}

/// No rung holds, and these are the reasons: rung by rung, in their order.
fn check_none(tree: &Tree, choice: SourceChoice, reasons: &[&str]) {
    let found = rung(&tree.sysfs(), choice).unwrap_err();
    let told = found.strip_prefix("no usable power source: ").unwrap();
    let told: Vec<&str> = told.split("; ").collect();
    assert_eq!(told.len(), reasons.len(), "{found}");
    for (told, reason) in told.iter().zip(reasons) {
        assert!(told.starts_with(reason), "{told:?} does not begin with {reason:?}");
    }
}

/// A package zone whose counter grows with every read.
fn moving_zone(tree: &Tree) {
    tree.write("class/powercap/intel-rapl:0/name", "package-0\n");
    let fifo = tree.hang("class/powercap/intel-rapl:0/energy_uj");
    feed(fifo, Duration::ZERO, (1_000..).step_by(1_000).map(|uj| format!("{uj}\n")));
}

const NO_DCGM: &str = "dcgm: no library of it is to be used";

#[test]
fn one_live_total_is_enough() {
    let cases: [&[(&str, &str)]; 3] = [
        &[("Grace Power Socket 0", "98029000"), ("CPU Power Socket 0", "0")],
        &[("Grace Power Socket 0", "98029000"), ("Grace Power Socket 1", "0")],
        &[("Grace Power Socket 0", "N/A"), ("Grace Power Socket 1", "1")],
    ];
    for meters in cases {
        for choice in [SourceChoice::Auto, SourceChoice::Acpi] {
            check(&Tree::meters(meters), choice, (Rung::Acpi, 2));
        }
    }
}

#[test]
fn a_dead_source_is_not_taken() {
    let dead = "acpi: no socket total reads above zero, asked twice: hwmon0/power1";
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("Grace Power Socket 0", "0"), ("CPU Power Socket 0", "0")], "zero"),
        (&[("Grace Power Socket 0", "0"), ("CPU Power Socket 0", "50000000")], "zero"),
        (&[("Grace Power Socket 0", "-1")], "negative"),
        (&[("Grace Power Socket 0", "4294967295000")], "sensor_unknown"),
        (&[("Grace Power Socket 0", "")], "malformed"),
    ];
    for (meters, reason) in cases {
        let tree = Tree::meters(meters);
        let acpi = format!("{dead} {reason}");
        check_none(&tree, SourceChoice::Acpi, &[&acpi]);
        check_none(&tree, SourceChoice::Auto, &[&acpi, NO_DCGM, "rapl: cannot list"]);
        moving_zone(&tree);
        check(&tree, SourceChoice::Auto, (Rung::Rapl, 1));
        check_none(&tree, SourceChoice::Acpi, &[&acpi]);
    }
}

#[test]
fn a_total_that_wakes_up_within_the_retry_is_alive() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "0"), ("CPU Power Socket 0", "0")]);
    let fifo = tree.hang("devices/ACPI000D:00/hwmon/hwmon0/power1_average");
    feed(fifo, Duration::ZERO, ["0\n", "98029000\n"].into_iter().map(str::to_owned));
    check(&tree, SourceChoice::Acpi, (Rung::Acpi, 2));
}

#[test]
fn rails_alone_are_refused_without_a_probe() {
    let tree = Tree::meters(&[("SysIO Power Socket 0", "1"), ("CPU Power Socket 0", "1")]);
    tree.hang("devices/ACPI000D:00/hwmon/hwmon0/power1_average"); // a probe would wait for it
    let started = Instant::now();
    let hour = Duration::from_secs(3600);
    let ground = ground(&tree.sysfs(), SourceChoice::Acpi);
    let ground = Ground { deadline: hour, retry_pause: hour, ..ground };
    let found = climb(&ground, None).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(60));
    assert!(
        found.ends_with(
            "acpi: no socket total among the channels CPU Power Socket 0, SysIO Power Socket 0"
        ),
        "{found}"
    );
}

#[test]
fn every_reason_is_told() {
    let nothing = Tree::new::<&str>(&[]);
    let file = Tree::new(&[("class/hwmon", ""), ("class/powercap", "")]);
    let empty = Tree::new(&[("class/hwmon/nothing", ""), ("class/powercap/nothing", "")]);
    let cases = [
        (&nothing, "acpi: cannot list", "rapl: cannot list"),
        (&file, "acpi: cannot list", "rapl: cannot list"),
        (&empty, "acpi: no power_meter channel under", "rapl: no RAPL zone under"),
    ];
    for (tree, acpi, rapl) in cases {
        check_none(tree, SourceChoice::Auto, &[acpi, NO_DCGM, rapl]);
        check_none(tree, SourceChoice::Acpi, &[acpi]);
        check_none(tree, SourceChoice::Dcgm, &[NO_DCGM]);
        check_none(tree, SourceChoice::Rapl, &[rapl]);
    }
}

#[test]
fn other_rungs_are_not_touched() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    moving_zone(&tree);
    check_none(&tree, SourceChoice::Dcgm, &[NO_DCGM]);
    check(&tree, SourceChoice::Rapl, (Rung::Rapl, 1));
    check(&tree, SourceChoice::Auto, (Rung::Acpi, 1));
}

#[test]
fn packages_have_to_move() {
    let zone = |files: &[(&str, &str)]| Tree::new(files);
    let still = zone(&[
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj", "1000"),
    ]);
    check_none(&still, SourceChoice::Rapl, &["rapl: no package counter moved within 30ms"]);
    still.write("class/powercap/intel-rapl:1/name", "package-1");
    let fifo = still.hang("class/powercap/intel-rapl:1/energy_uj");
    feed(fifo, Duration::ZERO, ["1\n", "2\n"].into_iter().map(str::to_owned));
    check(&still, SourceChoice::Rapl, (Rung::Rapl, 2));

    let no_package = zone(&[
        ("class/powercap/intel-rapl:0/name", "psys"),
        ("class/powercap/intel-rapl:0/energy_uj", "1"),
    ]);
    check_none(&no_package, SourceChoice::Rapl, &["rapl: no package zone among the RAPL zones"]);

    let broken = zone(&[
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj/is-a-directory", ""),
    ]);
    check_none(&broken, SourceChoice::Rapl, &["rapl: no package counter reads: intel-rapl:0 io"]);
}

#[test]
fn denied_zones_come_with_their_remedy() {
    let tree = Tree::new(&[
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj", "1"),
    ]);
    if tree.deny("class/powercap/intel-rapl:0/energy_uj") {
        check_none(&tree, SourceChoice::Rapl, &["rapl: energy_uj is readable by root only"]);
    }
}

#[test]
fn a_hung_file_never_holds_up_the_start() {
    let label = "devices/ACPI000D:00/hwmon/hwmon0/power1_oem_info";
    let reading = "devices/ACPI000D:00/hwmon/hwmon0/power1_average";
    let cases = [
        (label, "acpi: discovery has not come back within 500ms"),
        (reading, "acpi: no socket total reads above zero, asked twice: hwmon0/power1 timeout"),
    ];
    for (file, reason) in cases {
        let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
        tree.hang(file);
        let started = Instant::now();
        check_none(&tree, SourceChoice::Acpi, &[reason]);
        assert!(started.elapsed() < 10 * DEADLINE, "{file} took {:?}", started.elapsed());
    }
}
