//! Powercap zones in, rows out: which zones are parts of a socket, and dies that count only together.

mod fixture;

use fixture::{cpu_rows, shown_rows};
use wattscribe_scraper::history::History;

/// A zone with its power, if any, as our exporter describes it.
fn zone(zone: &str, kind: &str, socket: u32, watts: Option<&str>) -> String {
    let labels = format!(
        "source=\"rapl\",sensor=\"{zone}\",channel=\"{zone}\",type=\"{kind}\",socket=\"{socket}\""
    );
    let info = format!("power_sensor_info{{{labels},label=\"\",averaging=\"difference\"}} 1\n");
    let state = if watts.is_some() { "ok" } else { "denied" };
    let state =
        format!("power_sensor_state{{source=\"rapl\",sensor=\"{zone}\",state=\"{state}\"}} 1\n");
    info + &state + &watts.map(|watts| power(zone, kind, socket, watts)).unwrap_or_default()
}

fn power(zone: &str, kind: &str, socket: u32, watts: &str) -> String {
    let labels = format!("type=\"{kind}\",zone=\"{zone}\",socket=\"{socket}\",source=\"rapl\"");
    format!("cpu_power_rapl_watts{{{labels}}} {watts}\n")
}

fn joules(zone: &str, joules: &str) -> String {
    let labels = format!("type=\"package\",zone=\"{zone}\",socket=\"0\",source=\"rapl\"");
    format!("cpu_energy_joules_total{{{labels}}} {joules}\n")
}

#[track_caller]
fn check(zones: &[String], expected: &str) {
    assert_eq!(shown_rows(&[&zones.concat()]), [expected], "{}", zones.concat());
}

#[test]
fn zones_have_their_columns() {
    let page = [
        zone("intel-rapl:0", "package", 0, Some("120.5")),
        zone("intel-rapl:0:0", "core", 0, Some("80")),
        zone("intel-rapl:0:1", "uncore", 0, Some("0")),
        zone("intel-rapl:0:2", "dram", 0, Some("0")),
        zone("intel-rapl:1", "psys", 0, Some("300")),
        zone("intel-rapl-mmio:0", "package_mmio", 0, Some("120")),
        zone("intel-rapl:2", "other", 0, Some("5")),
    ];
    check(&page, "0 rapl 120.5 cpu 80 soc 0 dram 0 total 120.5");
    check(&[zone("a", "psys", 0, Some("300")), zone("b", "package_mmio", 0, Some("120"))], "");
    check(&[zone("a", "package", 0, Some("0"))], "0 rapl unavailable");
    check(
        &[zone("a", "package", 0, Some("9")), zone("b", "dram", 0, Some("-1"))],
        "0 rapl 9 total 9",
    );
}

#[test]
fn dies_count_together_or_not_at_all() {
    let dies =
        |kind, first, second| [zone("a", kind, 0, first), zone("b", kind, 0, second)].concat();
    let (one, two, none) = (Some("60"), Some("61.5"), None);
    check(&[dies("package", one, two)], "0 rapl 121.5 total 121.5");
    check(&[dies("package", one, none)], "0 rapl denied");
    check(&[dies("package", none, two)], "0 rapl denied");
    check(&[dies("package", one, Some("NaN"))], "0 rapl unavailable");

    let other = zone("c", "package", 1, Some("70"));
    check(&[dies("package", one, none), other.clone()], "0 rapl denied | 1 rapl 70");
    check(&[dies("package", one, two), other], "0 rapl 121.5 total 191.5 | 1 rapl 70 total 191.5");

    let package = zone("p", "package", 0, Some("200"));
    check(&[package.clone(), dies("core", one, two)], "0 rapl 200 cpu 121.5 total 200");
    check(&[package, dies("core", one, none)], "0 rapl 200 total 200");
}

#[test]
fn a_die_that_is_no_longer_named_is_still_missed() {
    let both = zone("a", "package", 0, Some("60")) + &zone("b", "package", 0, Some("61.5"));
    let one = zone("a", "package", 0, Some("60"));
    let whole = "0 rapl 121.5 total 121.5";
    assert_eq!(shown_rows(&[&both, &one, &both]), [whole, "0 rapl unavailable", whole]);
}

#[test]
fn a_zone_that_is_given_twice_counts_once() {
    let twice = [zone("a", "package", 0, Some("60")), power("a", "package", 0, "61")];
    check(&twice, "0 rapl 60 total 60");
    let described_twice = [zone("a", "package", 0, Some("60")), zone("a", "package", 0, None)];
    check(&described_twice, "0 rapl 60 total 60");
}

#[test]
fn counters_of_all_dies_or_none_and_never_without_a_time() {
    let dies = zone("a", "package", 0, Some("60")) + &zone("b", "package", 0, Some("61"));
    let counters = joules("a", "1000.5") + &joules("b", "2000");
    // Without the times of the reads, nobody can say when the counters stood there.
    let row = &cpu_rows(&(dies + &counters), &mut History::default()).rows[0];
    assert_eq!((row.energy_counter_j, row.energy_counter_time), (None, None));
    assert_eq!(row.averaging, "difference");
}
