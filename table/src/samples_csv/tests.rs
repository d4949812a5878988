//! What samples.csv holds to the byte, and what a reader makes of good and of bad files.

use std::io::Cursor;

use proptest::prelude::*;
use wattscribe_rules::State;

use super::*;
use crate::CpuSample;
use crate::made_rows::{any_csv_row, cpu, withheld};

const V1: &str =
    "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,total_power_w";
const V2: &str = "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,total_power_w";
const V3: &str = "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,module_w,total_power_w";
const HOST_V4: &str = "schema_version,timestamp_unix,timestamp_local,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,total_power_w,cpu_util_total,cpu_util_user,cpu_util_nice,cpu_util_sys,cpu_util_irq";

fn file(version: CsvVersion, rows: &[CpuSample]) -> Vec<u8> {
    [csv_header(version), csv_rows(version, rows)].concat()
}

fn read(bytes: &[u8]) -> (Vec<CpuSample>, Vec<CsvIssue>) {
    let mut reader = SamplesCsv::new(Cursor::new(bytes));
    let rows = reader.by_ref().collect();
    (rows, reader.issues().to_vec())
}

#[test]
fn files_to_the_byte() {
    let rows = [
        cpu("node-a", 0, 0),
        withheld("node-a", 1, 0, State::Stale),
        CpuSample { power_w: Some(f64::NAN), ..cpu("node-b", 0, 0) },
        CpuSample {
            timestamp_unix: 1788310144.0,
            hostname: "a,\"b\"".into(),
            power_w: Some(100.0),
            cpu_rail_w: None,
            soc_w: Some(1e-5),
            module_w: Some(539.25),
            total_power_w: Some(f64::INFINITY),
            ..cpu("", 1, 0)
        },
    ];
    let lines = [
        V2,
        "2,1788310143.461,node-a,acpi,CPU0:cpuSidePowerUsageW,0,94.29,49.023,5.1,,189.002",
        "2,1788310144.0,\"a,\"\"b\"\"\",acpi,CPU1:cpuSidePowerUsageW,1,100.0,,1e-05,,",
        "",
    ];
    assert_eq!(String::from_utf8(file(CsvVersion::V2, &rows)).unwrap(), lines.join("\r\n"));
    let lines = [
        V3,
        "3,1788310143.461,node-a,acpi,CPU0:cpuSidePowerUsageW,0,94.29,49.023,5.1,,,189.002",
        "3,1788310144.0,\"a,\"\"b\"\"\",acpi,CPU1:cpuSidePowerUsageW,1,100.0,,1e-05,,539.25,",
        "",
    ];
    assert_eq!(String::from_utf8(file(CsvVersion::V3, &rows)).unwrap(), lines.join("\r\n"));
}

proptest! {
    #[test]
    fn rows_come_back(rows in prop::collection::vec(any_csv_row(), 0..20)) {
        prop_assert_eq!(read(&file(CsvVersion::V3, &rows)), (rows.clone(), vec![]));
        let without_module: Vec<_> =
            rows.iter().map(|row| CpuSample { module_w: None, ..row.clone() }).collect();
        prop_assert_eq!(read(&file(CsvVersion::V2, &rows)), (without_module, vec![]));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), valid_header: bool) {
        let header = if valid_header { csv_header(CsvVersion::V3) } else { Vec::new() };
        let (rows, _) = read(&[header, bytes].concat());
        prop_assert!(rows.len() < 200);
    }
}

#[test]
fn a_file_cut_at_any_byte_gives_its_whole_lines() {
    let rows: Vec<_> = (0..4).map(|seq| cpu("node-a", 0, seq)).collect();
    let bytes = file(CsvVersion::V3, &rows);
    let (rows, _) = read(&bytes);
    assert_eq!(rows.len(), 4);
    for cut in 0..=bytes.len() {
        let part = &bytes[..cut];
        let lines = part.iter().filter(|byte| **byte == b'\n').count();
        let (found, issues) = read(part);
        assert_eq!(found, rows[..lines.saturating_sub(1)], "cut at {cut}");
        let reasons: Vec<_> = issues.iter().map(|issue| issue.reason).collect();
        let torn = cut > 0 && part[cut - 1] != b'\n';
        let expected = [(torn, CsvReason::Torn), (lines == 0, CsvReason::HeaderMismatch)];
        let expected: Vec<_> =
            expected.into_iter().filter(|(met, _)| *met).map(|(_, why)| why).collect();
        assert_eq!(reasons, expected, "cut at {cut}");
    }
}

/// Reads a file of a header and lines; compares `socket:power` of its rows, and `line: what` of what was skipped.
fn check(header: &str, lines: &[&str], rows: &str, skipped: &[&str]) {
    let text: String = [&[header], lines].concat().iter().map(|line| format!("{line}\n")).collect();
    let (found, issues) = read(text.as_bytes());
    let found: Vec<_> = found
        .iter()
        .map(|row| format!("{}:{}", row.socket_id, row.power_w.unwrap_or(f64::NAN)))
        .collect();
    let places: Vec<_> = issues
        .iter()
        .flat_map(|issue| &issue.places)
        .map(|place| format!("{}: {}", place.line, place.what))
        .collect();
    assert_eq!(
        (found.join(" ").as_str(), places),
        (rows, skipped.iter().map(|line| (*line).to_owned()).collect())
    );
}

#[test]
fn bad_rows_are_skipped_and_named() {
    check(
        V3,
        &[
            "3,1.5,a,acpi,S,0,10.0,,,,,",
            "",
            "3,1.5,a,acpi,S,0,10.0,,,,",
            "3,1.5,a,acpi,S,0,10.0,,,,,,",
            "2,1.5,a,acpi,S,0,10.0,,,,,",
            "3,nan,a,acpi,S,0,10.0,,,,,",
            "3,x,a,acpi,S,0,10.0,,,,,",
            "3,1.5,,acpi,S,0,10.0,,,,,",
            "3,1.5,a,acpi,S,1,0.0,0,,,,",
        ],
        "0:10 1:0",
        &[
            "4: found 11 cells, expected 12",
            "5: found 13 cells, expected 12",
            "6: schema_version is 2, the header's is 3",
            "7: timestamp_unix is NaN, expected a finite number",
            "8: timestamp_unix is \"x\", expected a number",
            "9: hostname is empty",
        ],
    );
    check(
        V2,
        &[
            "2,1.5,a,ipmi,S,0,10.0,,,,",
            "2,1.5,a,acpi,,0,10.0,,,,",
            "2,1.5,a,acpi,S,-1,10.0,,,,",
            "2,1.5,a,acpi,S,0,,,,,",
            "2,1.5,a,acpi,S,0,inf,,,,",
            "2,1.5,a,acpi,S,0,10.0,-1.0,,,",
            "2,1.5,\"a,acpi,S,0,10.0,,,,",
            "2,1.5,\"a\",rapl,S,0,11.0,,,,",
        ],
        "0:11",
        &[
            "2: source is \"ipmi\", expected acpi, dcgm or rapl",
            "3: sensor is empty",
            "4: socket_id is \"-1\", expected a number",
            "5: power_w is empty",
            "6: power_w is inf, expected a finite number, not negative",
            "7: cpu_rail_w is -1, expected a finite number, not negative",
            "8: a quote does not close",
        ],
    );
    let mut torn = file(CsvVersion::V3, &[cpu("node-a", 0, 0)]);
    torn.extend(b"3,1.5,\xff,acpi,S,0,10.0,,,,,\n");
    let (rows, issues) = read(&torn);
    assert_eq!((rows.len(), issues.len(), issues[0].count), (1, 1, 1));
}

#[test]
fn a_hundred_bad_rows_are_one_issue() {
    let lines = vec!["x"; 100];
    let text = format!("{V3}\n{}\n", lines.join("\n"));
    let (_, issues) = read(text.as_bytes());
    assert_eq!((issues.len(), issues[0].count, issues[0].places.len()), (1, 100, 8));
}

#[test]
fn other_headers_give_no_row() {
    for header in
        ["", "schema_version", &format!("{V3},x"), &format!(" {V3}"), &format!("\u{feff}{V3}")]
    {
        let (rows, issues) = read(format!("{header}\n3,1.5,a,acpi,S,0,10.0,,,,,\n").as_bytes());
        assert!(rows.is_empty());
        assert_eq!(issues[0].reason, CsvReason::HeaderMismatch, "{header:?}");
    }
    let mut missing = SamplesCsv::open(std::path::Path::new("no/such/samples.csv"));
    assert_eq!(missing.next(), None);
    assert_eq!(missing.issues()[0].reason, CsvReason::Missing);
}

#[test]
fn the_hosts_own_file_is_read_by_its_columns() {
    let line = "4,1.5,2026-09-01T12:00:00.500000+02:00,a,acpi,CPU1:cpuSidePowerUsageW,1,94.5,49.5,5.5,,189.0,0.5,,,,";
    let (rows, issues) = read(format!("{HOST_V4}\n{line}\n").as_bytes());
    assert_eq!(issues, []);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        (
            row.timestamp_unix,
            row.socket_id,
            row.power_w,
            row.cpu_rail_w,
            row.soc_w,
            row.dram_w,
            row.total_power_w
        ),
        (1.5, 1, Some(94.5), Some(49.5), Some(5.5), None, Some(189.0))
    );
}

#[test]
fn version_1_keeps_one_sensor_per_socket_throughout() {
    // The total of socket 0 is missing at 2.0: nothing else may take its place there.
    check(
        V1,
        &[
            "1,1.0,a,acpi,CPU Power Socket 0,0,50.0,100.0",
            "1,1.0,a,acpi,Grace Power Socket 0,0,100.0,100.0",
            "1,1.0,a,acpi,DRAM Power Socket 1,1,7.0,100.0",
            "1,1.0,a,acpi,SysIO Power Socket 1,1,5.0,100.0",
            "1,2.0,a,acpi,CPU Power Socket 0,0,51.0,",
            "1,2.0,a,acpi,SysIO Power Socket 1,1,6.0,",
            "1,2.0,b,dcgm,CPU0:cpuPowerUsageW,0,44.0,44.0",
            "1,2.0,b,acpi,CPU Power Socket 0,0,43.0,44.0",
            "1,2.0,c,acpi,zeta,0,2.0,",
            "1,2.0,c,acpi,alpha,0,1.0,",
            "1,2.0,c,acpi",
        ],
        "0:100 1:5 1:6 0:44 0:1",
        &["12: found 4 cells, expected 8"],
    );
}
