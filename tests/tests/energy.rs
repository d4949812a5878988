//! `wattscribe energy` over a recording whose energy can be computed by hand: every format, and every refusal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use wattscribe_table::{
    CpuManifest, CpuSample, NodeSummary, Options, RunSummary, RunWriter, SamplesCsv, Scrape,
};
use wattscribe_tests::program::{Ended, run, wattscribe};
use wattscribe_tests::python::Script;

/// 2026-09-02T00:49:00Z.
const START_S: f64 = 1_788_310_140.0;

const HEADER: &str = "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,total_power_w";

/// What the waveforms of the two sockets give each second for ten seconds: 100 W, and 2 W a second from 40 W.
fn lines() -> String {
    let line = |second: u32| {
        let (time, rising) = (START_S + f64::from(second), 40 + 2 * second);
        let total = 100 + rising;
        let row = |socket: u32, watts: u32| {
            let sensor = format!("CPU{socket}:cpuSidePowerUsageW");
            format!("2,{time},node-a,acpi,{sensor},{socket},{watts},,,,{total}\n")
        };
        row(0, 100) + &row(1, rising)
    };
    (0..=10).map(line).collect()
}

/// A run with these rows, two a scrape.
fn recording(folder: &Path) -> PathBuf {
    let csv = format!("{HEADER}\n{}", lines());
    let rows: Vec<CpuSample> = SamplesCsv::new(Cursor::new(csv)).collect();
    let out = folder.join("run");
    let (mut run, _) = RunWriter::open(&out, Options::default()).unwrap();
    for (second, rows) in (0..).zip(rows.chunks(2)) {
        run.append(scrape(second), rows.to_vec(), Vec::new()).unwrap();
    }
    let node = NodeSummary { resolved_mode: "acpi".into(), scrape_count: 11, error_count: 0 };
    let manifest = CpuManifest {
        schema_version: CpuManifest::SCHEMA_VERSION,
        producer: CpuManifest::PRODUCER.into(),
        producer_git_commit: None,
        started_at_unix: Some(START_S),
        stopped_at_unix: START_S + 10.0,
        nodes: BTreeMap::from([("node-a".into(), node)]),
        wattscribe: RunSummary { interval_s: 1.0, ..RunSummary::default() },
    };
    run.close(&manifest).unwrap();
    out
}

fn scrape(second: u32) -> Scrape {
    Scrape {
        timestamp_us: (START_S as i64 + i64::from(second)) * 1_000_000,
        target: "node-a".into(),
        url: "http://node-a:9405/metrics".into(),
        seq: u64::from(second),
        mono_ns: 0,
        duration_us: 1000,
        status: Some(200),
        outcome: "ok".into(),
        detail: None,
        bytes: None,
        samples: 2,
        rows: 2,
        missed_ticks: 0,
        clock_offset_us: None,
        clock_error_us: None,
        wall_step_us: 0,
    }
}

fn energy(input: &Path, args: &[&str]) -> Ended {
    run(wattscribe().arg("energy").arg(input).args(args))
}

#[test]
fn the_table_to_the_letter() {
    let folder = TempDir::new().unwrap();
    let out = recording(folder.path());
    let expected = "\
recording: 2026-09-02T00:49:00.000Z to 2026-09-02T00:49:10.000Z (10.000 s)
                             energy J                    between J   average W  coverage  verdict  remarks
  node-a/socket0 acpi        1000.000         1000.000 .. 1000.000     100.000    100.0%     full
  node-a/socket1 acpi         500.000           490.000 .. 510.000      50.000    100.0%     full
  node-a acpi                1500.000         1490.000 .. 1510.000     150.000    100.0%     full  2 of 2 sockets
  total acpi                 1500.000         1490.000 .. 1510.000     150.000    100.0%     full  1 of 1 nodes
";
    assert_eq!(energy(&out, &[]).succeeded().stdout, expected);
    let written = folder.path().join("report.txt");
    let ended = energy(&out, &["--output", written.to_str().unwrap()]).succeeded();
    assert_eq!(
        (ended.stdout.as_str(), std::fs::read_to_string(written).unwrap().as_str()),
        ("", expected)
    );
}

#[test]
fn json_csv_and_parquet_state_the_same() {
    let folder = TempDir::new().unwrap();
    let out = recording(folder.path());
    // Aligned windows of 4 s: from the second at 140 (a multiple) on.
    let every = |format: &'static str| {
        energy(&out, &["--every", "4s", "--format", format]).succeeded().stdout
    };
    let json: Vec<Value> = serde_json::from_str(&every("json")).unwrap();
    let starts: Vec<f64> =
        json.iter().map(|window| window["start_unix"].as_f64().unwrap()).collect();
    assert_eq!(starts, [[START_S; 4], [START_S + 4.0; 4]].concat());
    let joules: Vec<&Value> = json.iter().map(|window| &window["energy_j"]).collect();
    assert_eq!(joules, [400.0, 176.0, 576.0, 576.0, 400.0, 208.0, 608.0, 608.0]);
    let exact = json.iter().filter(|window| window["boundary"] == "socket");
    assert!(exact.into_iter().all(|window| window["samples"] == 5), "{json:#?}");

    let csv = every("csv");
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let joules_at = header.iter().position(|column| *column == "energy_j").unwrap();
    let in_csv: Vec<f64> =
        lines.map(|line| line.split(',').nth(joules_at).unwrap().parse().unwrap()).collect();
    assert_eq!(json!(in_csv), json!(joules));

    let part = PathBuf::from(every("parquet").trim());
    assert_eq!(part, out.join("energy_windows/part-000001.parquet"));
    // A second report takes the place of the first: side by side they would count the energy twice.
    assert_eq!(PathBuf::from(every("parquet").trim()), part);
    let files = std::fs::read_dir(part.parent().unwrap()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    let parts = names.iter().filter(|name| name.to_string_lossy().ends_with(".parquet"));
    assert_eq!(parts.count(), 1, "{names:?}");
    let Some(script) = Script::named("windows") else { return };
    let mut by_pandas = script.arg(part.parent().unwrap()).answer();
    let by_time = by_pandas.as_array_mut().unwrap();
    by_time.sort_by(|a, b| {
        a["start_unix"].as_f64().unwrap().total_cmp(&b["start_unix"].as_f64().unwrap())
    });
    assert_eq!(by_time.len(), json.len());
    for window in &json {
        assert!(by_time.contains(window), "{window} in {by_time:#?}");
    }
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let out = recording(folder.path());
    std::fs::create_dir(path("nothing")).unwrap();
    drop(RunWriter::open(&path("unused"), Options::default()).unwrap());
    std::fs::write(path("bad.csv"), "name,start_unix,end_unix\na,1,2\nb,tomorrow,3\n").unwrap();
    let bad_windows = path("bad.csv");
    let bad_windows = ["--windows", bad_windows.to_str().unwrap()];
    let reversed = ["--from", "1788310145", "--to", "1788310142"];
    let cases: [(&Path, &[&str], &str); 7] = [
        (&path("missing"), &[], "missing: found nothing, expected a recording"),
        (
            &path("nothing"),
            &[],
            "nothing: found a directory of 0 other files, expected a recording",
        ),
        (&path("unused"), &[], "unused: no reading in state ok"),
        (&out, &reversed, "expected an end after the start"),
        (&out, &bad_windows, "bad.csv: line 3: \"tomorrow\" is no time"),
        (&out, &["--every", "1h"], "no whole window"),
        (
            &out.join("cpu/samples.csv"),
            &["--format", "parquet"],
            "--format parquet needs --output FILE",
        ),
    ];
    for (input, args, expected) in cases {
        let ended = energy(input, args);
        assert_eq!(ended.code, 1, "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    let usage: [&[&str]; 4] = [
        &["--from", "yesterday"],
        &["--format", "xml"],
        &["--every", "-1s"],
        &["--windows", "w", "--from", "1"],
    ];
    for args in usage {
        let ended = energy(&out, args);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stderr);
    }
}
