//! Time and memory to integrate ten million rows, from CSV and from Parquet, beside pandas and DuckDB.

use std::error::Error;
use std::f64::consts::TAU;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use wattscribe_rules::State;
use wattscribe_table::{CpuSample, CsvVersion, PartWriter, Simulated, csv_header, csv_rows};

use crate::process::{Process, Ran, program, python};

const NODES: u32 = 50;
const SOCKETS: u32 = 2;
const SCRAPES: u32 = 100_000;
const START_S: f64 = 1_788_310_000.0;

/// The published formula for samples.csv, and the same by SQL over Parquet.
const PANDAS: &str = "
import sys, numpy as np, pandas as pd
df = pd.read_csv(sys.argv[1], usecols=['hostname', 'timestamp_unix', 'total_power_w'])
df = df.dropna().drop_duplicates(['hostname', 'timestamp_unix']).sort_values(['hostname', 'timestamp_unix'])
print(sum(np.trapezoid(g.total_power_w, x=g.timestamp_unix) for _, g in df.groupby('hostname')))
";
const DUCKDB: &str = "
import sys, duckdb
print(duckdb.sql(f\"\"\"SELECT sum(j) FROM (SELECT (power_w + lag(power_w) OVER w) / 2
  * (epoch(timestamp) - lag(epoch(timestamp)) OVER w) j FROM read_parquet('{sys.argv[1]}')
  WINDOW w AS (PARTITION BY hostname, socket_id ORDER BY timestamp))\"\"\").fetchall()[0][0])
";

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (csv, parquet) = (dir.path().join("samples.csv"), dir.path().join("part-000001.parquet"));
    write(&csv, &parquet)?;
    let rows = NODES * SOCKETS * SCRAPES;
    println!("{rows} rows: {NODES} nodes, {SOCKETS} sockets, {SCRAPES} seconds");
    let end_s = (START_S + f64::from(SCRAPES - 1)).to_string();
    let span = ["--from", &START_S.to_string(), "--to", &end_s].map(str::to_owned);
    let mut ours = Vec::new();
    for (name, file, every) in [
        ("Parquet, one window", &parquet, None),
        ("Parquet, each minute", &parquet, Some("1m")),
        ("CSV, one window", &csv, None),
    ] {
        let mut command = Command::new(program("wattscribe")?);
        command.arg("energy").arg(file).args(&span).args(["--format", "json"]);
        command.args(every.iter().flat_map(|every| ["--every", every]));
        ours.push(time(name, &mut command)?);
    }
    let Some(python) = python() else {
        println!("  pandas, DuckDB: skipped (no Python environment; scripts/test makes it)");
        return Ok(());
    };
    let peer = |script: &str, file: &Path| {
        let mut command = Command::new(&python);
        command.args(["-c", script]).arg(file);
        command
    };
    let pandas = time("pandas over the CSV", &mut peer(PANDAS, &csv))?;
    let duckdb = time("DuckDB over the Parquet", &mut peer(DUCKDB, &parquet))?;
    println!("  ours by pandas, CSV: time {:.2}", ours[2] / pandas);
    println!("  ours by DuckDB (both cores), Parquet: time {:.2}", ours[0] / duckdb);
    Ok(())
}

/// Runs to the end; prints and returns the seconds.
fn time(name: &str, command: &mut Command) -> Result<f64, Box<dyn Error>> {
    let Ran { took, most_kib, .. } = Process::start(command)?.finish()?;
    println!("  {name:<28} {:>7.2} s, at most {} MiB", took.as_secs_f64(), most_kib / 1024);
    Ok(took.as_secs_f64())
}

fn write(csv: &Path, parquet: &Path) -> Result<(), Box<dyn Error>> {
    let mut part = PartWriter::<CpuSample>::create(parquet)?;
    let mut text = std::io::BufWriter::new(File::create(csv)?);
    text.write_all(&csv_header(CsvVersion::V3))?;
    for node in 0..NODES {
        for socket in 0..SOCKETS {
            let rows: Vec<CpuSample> =
                (0..SCRAPES).map(|scrape| sample(node, socket, scrape)).collect();
            part.write(&rows)?;
            text.write_all(&csv_rows(CsvVersion::V3, &rows))?;
        }
    }
    part.finish(Some(Simulated::True))?;
    text.flush()?;
    Ok(())
}

fn sample(node: u32, socket: u32, scrape: u32) -> CpuSample {
    // Half a watt up and down with the scrape's number, as a sensor's noise.
    let watts = |socket: u32| {
        let phase = f64::from(scrape % 300) / 300.0 * TAU + f64::from(node);
        let noise = f64::from(scrape.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 - 0.5;
        ((120.0 + f64::from(socket) + 40.0 * phase.sin() + noise) * 1e3).round() / 1e3
    };
    CpuSample {
        timestamp_unix: START_S + f64::from(scrape),
        hostname: format!("node{node:03}"),
        source: "acpi".to_owned(),
        sensor: format!("CPU{socket}:cpuSidePowerUsageW"),
        socket_id: socket,
        power_w: Some(watts(socket)),
        cpu_rail_w: None,
        soc_w: None,
        dram_w: None,
        module_w: None,
        total_power_w: Some((0..SOCKETS).map(watts).sum()),
        scrape_seq: u64::from(scrape),
        sensor_time_us: None,
        averaging: "mean".to_owned(),
        averaging_s: Some(0.05),
        energy_counter_j: None,
        energy_counter_time: None,
        energy_counter_since: None,
        state: State::Ok,
        simulated: true,
    }
}
