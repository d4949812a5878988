//! What users of other exporters met with RAPL and powercap, row by row: what goes in, and what our page
//! says. A row that cannot arise here says why.

use std::fs;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::process::Signal;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure::{
    self, CounterReset, FirstRead, HostSuspended, ImplausibleStep,
};
use wattscribe_exporter::sensor::{Measure, Source};
use wattscribe_exporter::sources::rapl::DENIED_FIX;
use wattscribe_parser::{Entry, Exposition};

use crate::cell::{Given, at, at_after_sleep, check, package};
use crate::fixture::{Served, Tree, ask, board, eventually, feed, samples, value};
use crate::hwmon_rows::check_rows;
use crate::process::Running;

const WIDE: u64 = 262_143_328_850;
const NARROW: u64 = 65_532_610_987;

/// A host whose wall clock has been set while it ran.
fn with_wall_step(awake_s: f64, step_s: f64) -> Now {
    let now = at(awake_s);
    Now { wall_s: now.wall_s + step_s, ..now }
}

/// A row, the counter's range, and reads of it: when, its value, the watts and joules that it gives.
type OfCounter<'a> = (&'a str, Option<u64>, &'a [(Now, u64, Given)]);

#[test]
fn energy_is_what_the_counter_moved_and_nothing_else() {
    let rows: [OfCounter<'_>; 8] = [
        (
            "R01",
            Some(WIDE),
            &[
                (at(0.0), 262_143_328_000, Err(FirstRead)),
                (at(1.0), 1_000, Ok((0.001_85, 0.001_85))),
                (at(2.0), 100_001_000, Ok((100.0, 100.001_85))),
            ],
        ),
        (
            "R02",
            Some(NARROW),
            &[(at(0.0), 65_532_610_000, Err(FirstRead)), (at(1.0), 999_013, Ok((1.0, 1.0)))],
        ),
        // The same values at the range of another zone, or of none that is known, are no wrap.
        (
            "R02",
            Some(WIDE),
            &[(at(0.0), 65_532_610_000, Err(FirstRead)), (at(1.0), 999_013, Err(CounterReset))],
        ),
        (
            "R04",
            Some(WIDE),
            &[
                (at(0.0), 5_000_000_000, Err(FirstRead)),
                (at(1.0), 250_000_000_000, Err(ImplausibleStep)),
                (at(2.0), 5_200_000_000, Ok((100.0, 200.0))),
            ],
        ),
        // The wall clock is set back and forth: power is over the time that passed.
        (
            "R05",
            Some(WIDE),
            &[
                (at(0.0), 0, Err(FirstRead)),
                (with_wall_step(1.0, -3600.0), 100_000_000, Ok((100.0, 100.0))),
                (with_wall_step(2.0, 7200.0), 200_000_000, Ok((100.0, 200.0))),
            ],
        ),
        (
            "R16",
            Some(WIDE),
            &[
                (at(0.0), 150_000_000_000, Err(FirstRead)),
                (at(1.0), 150_100_000_000, Ok((100.0, 100.0))),
                (at(2.0), 40_000_000, Err(CounterReset)),
                (at(3.0), 140_000_000, Ok((100.0, 100.0))),
            ],
        ),
        (
            "R18",
            Some(WIDE),
            &[
                (at(0.0), 0, Err(FirstRead)),
                (at(1.0), 100_000_000, Ok((100.0, 100.0))),
                (at_after_sleep(2.0, 3600.0), 200_000_000, Err(HostSuspended)),
                (at_after_sleep(3.0, 3600.0), 300_000_000, Ok((100.0, 100.0))),
            ],
        ),
        // The clocks are never read in one instant: a hair between them is no sleep.
        (
            "R18",
            Some(WIDE),
            &[
                (at(0.0), 0, Err(FirstRead)),
                (at_after_sleep(1.0, 0.05), 100_000_000, Ok((100.0, 100.0))),
            ],
        ),
    ];
    for (id, range_uj, reads) in rows {
        check(id, &package(range_uj), reads);
    }
}

#[test]
fn two_reads_at_once_are_no_power() {
    let cell = package(WIDE);
    check(
        "R05",
        &cell,
        &[(at(0.0), 0, Err(FirstRead)), (at(1.0), 100_000_000, Ok((100.0, 100.0)))],
    );
    // 27 W of counter between reads half a millisecond apart are 54 kW of nothing.
    assert_eq!(cell.finish(Ok(Measure::MicroJoules(127_000_000)), at(1.0005)), Ok(()));
    check("R05", &cell, &[(at(2.0), 200_000_000, Ok((100.0, 200.0)))]);
}

#[test]
fn a_read_that_the_host_slept_through_is_of_no_time() {
    // (asleep while it was read, what it is)
    let rows =
        [(0.0, Ok(())), (0.05, Ok(())), (0.2, Err(HostSuspended)), (3600.0, Err(HostSuspended))];
    for (slept_s, expected) in rows {
        let cell = package(WIDE);
        let read =
            cell.finish_read(Ok(Measure::Watts(98.0)), at(1.0), at_after_sleep(1.15, slept_s));
        assert_eq!(read, expected, "R18: {slept_s} s");
    }
}

/// A package and its memory: the package is broken in turn, and the memory is there all the time.
fn zones() -> Tree {
    Tree::new(&[
        ("class/powercap/intel-rapl:0/name", "package-0".to_owned()),
        (PACKAGE, "0".to_owned()),
        ("class/powercap/intel-rapl:0/max_energy_range_uj", WIDE.to_string()),
        ("class/powercap/intel-rapl:0/intel-rapl:0:0/name", "dram".to_owned()),
        (DRAM, "1000000".to_owned()),
        ("class/powercap/intel-rapl:0/intel-rapl:0:0/max_energy_range_uj", NARROW.to_string()),
    ])
}

const PACKAGE: &str = "class/powercap/intel-rapl:0/energy_uj";
const DRAM: &str = "class/powercap/intel-rapl:0/intel-rapl:0:0/energy_uj";
const DRAM_LABELS: &[&str] = &[r#"zone="intel-rapl:0:0""#];

#[test]
fn one_zone_that_fails_is_one_zone() {
    let tree = zones();
    let served = Served::board(board(tree.sysfs(), Source::Rapl));
    let check = |id: &str, reason: Failure| {
        let reason = format!(r#"sensor="intel-rapl:0",reason="{}""#, reason.as_str());
        eventually(&format!("{id}: {reason}"), || {
            let page = served.page();
            value(&page, "power_withheld", &[&reason]).is_some()
                && value(&page, "cpu_power_rapl_watts", DRAM_LABELS) == Some(0.0)
        });
    };
    tree.write(PACKAGE, "");
    check("R09", Failure::Malformed);
    tree.remove(PACKAGE);
    let socket = UnixListener::bind(tree.path(PACKAGE)).unwrap();
    check("R08", Failure::Gone);
    drop(socket);
    // The speed of the loopback interface is EINVAL to whoever reads it.
    let invalid = "/sys/class/net/lo/speed";
    if fs::read(invalid).is_err_and(|error| error.raw_os_error() == Some(22)) {
        tree.replace_by_link(PACKAGE, invalid);
        check("R09", Failure::Io);
    }
    tree.remove(PACKAGE);
    tree.write(PACKAGE, "0");
    if tree.deny(PACKAGE) {
        check("R06", Failure::Denied);
    }
}

#[test]
fn what_is_denied_is_told_once_with_its_remedy() {
    let tree = Tree::new(&[
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:1/name", "package-1"),
        ("class/powercap/intel-rapl:1/energy_uj", "0"),
    ]);
    let fifo = tree.hang("class/powercap/intel-rapl:0/energy_uj");
    feed(fifo, Duration::ZERO, (1_000..).step_by(1_000).map(|uj| format!("{uj}\n")));
    if !tree.deny("class/powercap/intel-rapl:1/energy_uj") {
        return;
    }
    let running = Running::start(&tree, &["--source", "rapl", "--interval", "20ms"]);
    let errors = || {
        let page = ask(running.address, "GET", "/metrics", &[]).text();
        value(&page, "power_read_errors_total", &[r#"reason="denied""#]).unwrap()
    };
    eventually("R06: it is asked again", || errors() > 3.0);
    running.signal(Signal::TERM);
    let (code, log) = running.end();
    assert_eq!((code, log.matches(DENIED_FIX).count()), (Some(0), 1), "R06: {log}");
}

#[test]
fn a_zone_is_a_label_whatever_its_name() {
    // The name, the type that it is given, and the socket.
    let rows = [
        ("R10", "package-15", "package", "15"),
        ("R10", "package-0-die-1", "package", "0"),
        ("R10", "psys", "psys", ""),
        ("R10", "psys-1", "psys", ""),
        ("R10", "mmio", "other", ""),
        ("R10", "weird name!", "other", ""),
        ("R10", "a \"quoted\" \\ one", "other", ""),
    ];
    for (id, name, kind, socket) in rows {
        let tree = Tree::new(&[
            ("class/powercap/intel-rapl:0/name", name),
            ("class/powercap/intel-rapl:0/energy_uj", "1"),
        ]);
        let page = Served::board(board(tree.sysfs(), Source::Rapl)).page();
        let mut labels = Vec::new();
        for entry in Exposition::new(page.as_bytes()).unwrap() {
            let Entry::Sample(sample) = entry.unwrap() else { continue };
            if sample.name.unescape() == "power_sensor_info" {
                let of = |name| sample.labels.get(name).unwrap_or_default().into_owned();
                labels.push([of("label"), of("type"), of("socket")]);
            }
        }
        assert_eq!(labels, [[name, kind, socket]], "{id}: {page}");
    }
}

#[test]
fn what_contains_what_is_told_and_nothing_is_added() {
    let rows = [
        ("intel-rapl-mmio:0", "package-0", "package_mmio"),
        ("intel-rapl-mmio:0/intel-rapl-mmio:0:0", "dram", "other"),
        ("intel-rapl:0", "package-0", "package"),
        ("intel-rapl:0/intel-rapl:0:0", "core", "core"),
        ("intel-rapl:0/intel-rapl:0:1", "uncore", "uncore"),
        ("intel-rapl:0/intel-rapl:0:2", "dram", "dram"),
        ("intel-rapl:1", "psys", "psys"),
    ];
    let tree = Tree::new::<&str>(&[]);
    for (path, name, _) in rows {
        tree.write(&format!("class/powercap/{path}/name"), name);
        tree.write(&format!("class/powercap/{path}/energy_uj"), "1");
    }
    let page = Served::board(board(tree.sysfs(), Source::Rapl)).page();
    assert_eq!(samples(&page, "power_sensor_info").len(), rows.len(), "R11: {page}");
    for (path, _, kind) in rows {
        let zone = path.rsplit('/').next().unwrap();
        let labels = format!(r#"channel="{zone}",type="{kind}""#);
        assert_eq!(value(&page, "power_sensor_info", &[&labels]), Some(1.0), "R11: {page}");
    }
}

#[test]
fn a_wrap_is_counted_on_the_page() {
    let tree = zones();
    tree.write(DRAM, (NARROW - 1_000_000).to_string());
    let served = Served::board(board(tree.sysfs(), Source::Rapl));
    let of_dram = |family| value(&served.page(), family, DRAM_LABELS);
    eventually("R01: two reads", || of_dram("cpu_energy_joules_total") == Some(0.0));
    assert_eq!(of_dram("cpu_energy_wraps_total"), Some(0.0));
    tree.write(DRAM, "1000000");
    // Microjoules in, joules out: 2,000,000 uJ are 2 J (R12).
    eventually("R01", || of_dram("cpu_energy_joules_total") == Some(2.0));
    assert_eq!(of_dram("cpu_energy_wraps_total"), Some(1.0));
}

/// Every row, and where it is held: a test of this program, or why it cannot arise. The numbers are those of
/// our list of what users of other exporters met; between them there are none of this source.
const ROWS: [(&str, &str); 14] = [
    ("R01", "energy_is_what_the_counter_moved_and_nothing_else"),
    ("R02", "energy_is_what_the_counter_moved_and_nothing_else"),
    ("R04", "energy_is_what_the_counter_moved_and_nothing_else"),
    ("R05", "two_reads_at_once_are_no_power"),
    ("R06", "what_is_denied_is_told_once_with_its_remedy"),
    ("R08", "one_zone_that_fails_is_one_zone"),
    ("R09", "one_zone_that_fails_is_one_zone"),
    ("R10", "a_zone_is_a_label_whatever_its_name"),
    ("R11", "what_contains_what_is_told_and_nothing_is_added"),
    ("R12", "a_wrap_is_counted_on_the_page"),
    ("R13", "never: power is that of devices, and no process is given a share"),
    // As H04: the program ends with code 1 and every reason on one line; orchestration decides by that code.
    ("R14", "a_machine_without_any_source"),
    ("R16", "energy_is_what_the_counter_moved_and_nothing_else"),
    ("R18", "a_read_that_the_host_slept_through_is_of_no_time"),
];

#[test]
fn every_row_of_a_zone_is_held_or_cannot_arise() {
    check_rows('R', &ROWS, 18, &[3, 7, 15, 17]);
}
