//! A sensor that hangs or is slow holds up nothing but itself.

use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_simulator::{Fault, Machine, Simulation, Waveform};

use crate::fixture::{Served, Tree, board, config, eventually, feed, samples, value};

const HUNG: &str = "ACPI000D:03/power1";
const TIMEOUTS: (&str, &[&str]) = ("power_read_errors_total", &["reason=\"timeout\""]);

fn grace() -> (TempDir, Simulation) {
    let folder = TempDir::new().unwrap();
    let totals = [Waveform::Constant { watts: 98.0 }, Waveform::Constant { watts: 103.0 }];
    let machine = Machine::grace("node", &totals);
    let simulation = Simulation::start(folder.path(), &[machine], SystemTime::now()).unwrap();
    (folder, simulation)
}

fn is_withheld(page: &str, reason: &str) -> bool {
    let reason = format!("reason=\"{reason}\"");
    value(page, "power_withheld", &[HUNG, &reason]).is_some()
}

#[test]
fn a_hung_sensor_is_withheld_and_the_others_go_on() {
    let (_folder, simulation) = grace();
    simulation.fail("node", HUNG, Fault::Hung).unwrap();
    let sysfs = Sysfs::new(simulation.sysfs_root("node").unwrap(), None);
    let started = Instant::now();
    let served = Served::start(&config(sysfs, SourceChoice::Acpi));
    // Two waits for the read deadline of 0.3 s: one in the ladder, one for the first readings.
    assert!(started.elapsed() < Duration::from_secs(5), "start took {:?}", started.elapsed());
    eventually("the hung read is overdue", || is_withheld(&served.page(), "timeout"));

    let mut took: Vec<Duration> = (0..200).map(|_| timed_scrape(&served)).collect();
    took.sort_unstable();
    assert!(took[100] < Duration::from_millis(100), "the median scrape took {:?}", took[100]);
    let page = served.page();
    assert!(value(&page, "power_sensor_state", &[HUNG, "state=\"stale\""]).is_some(), "{page}");
    eventually("the watch has seen it", || {
        value(&served.page(), TIMEOUTS.0, TIMEOUTS.1) == Some(1.0)
    });

    simulation.heal("node", HUNG).unwrap();
    eventually("the freed sensor is back", || {
        samples(&served.page(), "cpu_power_acpi_watts").len() == 6
    });
    let page = served.page();
    assert!(value(&page, "power_sensor_state", &[HUNG, "state=\"ok\""]).is_some(), "{page}");
    assert_eq!(value(&page, TIMEOUTS.0, TIMEOUTS.1), Some(1.0), "one hang is one error: {page}");
}

/// One scrape while a sensor hangs: the other five are there, it is not.
fn timed_scrape(served: &Served) -> Duration {
    let started = Instant::now();
    let page = served.page();
    let took = started.elapsed();
    let watts = samples(&page, "cpu_power_acpi_watts");
    assert_eq!(watts.len(), 5, "{page}");
    assert!(!watts.iter().any(|line| line.contains("hwmon3/")), "{page}");
    took
}

#[test]
fn a_sensor_that_hangs_later_is_stale_and_not_held_over() {
    let (_folder, simulation) = grace();
    let sysfs = Sysfs::new(simulation.sysfs_root("node").unwrap(), None);
    let served = Served::start(&config(sysfs, SourceChoice::Acpi));
    assert_eq!(samples(&served.page(), "cpu_power_acpi_watts").len(), 6);
    simulation.fail("node", HUNG, Fault::Hung).unwrap();
    eventually("its last reading is too old", || is_withheld(&served.page(), "timeout"));
    assert_eq!(samples(&served.page(), "cpu_power_acpi_watts").len(), 5);
    assert_eq!(served.get("/readyz").status, 200, "one socket is still measured");

    simulation.fail("node", "ACPI000D:00/power1", Fault::Hung).unwrap();
    eventually("no socket is measured", || served.get("/readyz").status == 503);
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn slow_sensors_do_not_add_up() {
    const READ: Duration = Duration::from_millis(150);
    /// Six reads one after the other would take 0.9 s.
    const CADENCE_MAX_S: f64 = 0.6;
    let labels: Vec<String> = (0..6).map(|n| format!("Grace Power Socket {n}")).collect();
    let meters: Vec<(&str, &str)> = labels.iter().map(|label| (label.as_str(), "")).collect();
    let tree = Tree::meters(&meters);
    for number in 0..6 {
        let fifo =
            tree.hang(&format!("devices/ACPI000D:{number:02X}/hwmon/hwmon{number}/power1_average"));
        feed(fifo, READ, std::iter::repeat("98029000\n".to_owned()));
    }
    let served = Served::board(board(tree.sysfs(), Source::Acpi));
    let read_at = || -> Vec<f64> {
        let page = served.page();
        let lines = samples(&page, "power_reading_timestamp_seconds");
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    };
    let mut refreshes = Vec::new();
    eventually("each of six sensors is refreshed six times", || {
        let now = read_at();
        if now.len() == 6 && refreshes.last().is_none_or(|last: &Vec<f64>| differ(last, &now)) {
            refreshes.push(now);
        }
        refreshes.len() == 6
    });
    for (first_s, last_s) in refreshes[0].iter().zip(&refreshes[5]) {
        let cadence_s = (last_s - first_s) / 5.0;
        assert!(cadence_s < CADENCE_MAX_S, "a sensor is read every {cadence_s} s");
    }
}

/// Whether every sensor has been read again.
fn differ(before: &[f64], after: &[f64]) -> bool {
    before.iter().zip(after).all(|(before, after)| before < after)
}

#[test]
fn a_driver_that_hangs_on_its_averaging_interval_hangs_alone() {
    let tree =
        Tree::meters(&[("Grace Power Socket 0", "98029000"), ("Grace Power Socket 1", "95000000")]);
    tree.hang("devices/ACPI000D:01/hwmon/hwmon1/power1_average_interval");
    let served = Served::start(&config(tree.sysfs(), SourceChoice::Acpi));
    eventually("the hung driver is overdue", || {
        value(&served.page(), TIMEOUTS.0, TIMEOUTS.1) == Some(1.0)
    });
    let page = served.page();
    assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 1, "{page}");
    assert!(value(&page, "power_withheld", &["hwmon1", "reason=\"timeout\""]).is_none());
    assert!(value(&page, "power_withheld", &["ACPI000D:01", "reason=\"timeout\""]).is_some());
}
