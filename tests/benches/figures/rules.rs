//! The rules that are built in over a fleet of a thousand nodes: live, and over files beside the same by hand in SQL.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use wattscribe_rules::engine::{Answer, Engine, Observed, Scrape, SeriesId};
use wattscribe_rules::rule::{self, From};

use crate::fleet::{GPUS, NODES, SECONDS, SOCKETS, START_S, node_name, watts, write};
use crate::process::{Process, Ran, program, python};

/// Samples of a page that rules take: of each socket one, of each GPU its own power and that of its module.
const SAMPLES: u32 = SOCKETS + 2 * GPUS;

/// The same by hand: a reading counts for the next whole second, a minute has the areas that end in it.
const DUCKDB: &str = include_str!("rules.py");

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    live()?;
    offline()
}

/// The engine as a recorder has it, fed from memory.
fn live() -> Result<(), Box<dyn Error>> {
    let mut engine = Engine::new(Arc::new(rule::builtin()), Vec::new());
    let names: Vec<String> = (0..NODES).map(node_name).collect();
    let mut series = Vec::new();
    for name in &names {
        engine.expect_target(name);
        series.push(series_of(&mut engine, name).ok_or("a sample that no rule takes")?);
    }
    let before_kib = resident_kib()?;
    let (mut took, mut results) = (Duration::ZERO, 0_u64);
    let mut after_minute_kib = 0;
    for second in 0..SECONDS {
        let pages: Vec<(f64, Vec<Observed>)> =
            (0..).zip(&series).map(|(number, series)| page(number, series, second)).collect();
        let begun = cpu_of_this_thread()?;
        for (name, (start_s, observed)) in names.iter().zip(&pages) {
            let (sockets, samples) = observed.split_at(SOCKETS as usize);
            let answer = Answer::Page { sockets, samples };
            let (seq, begins_session) = (u64::from(second), second == 0);
            engine.push(name, &Scrape { seq, start_s: *start_s, begins_session, answer });
            results += engine.derived().map(black_box).count() as u64;
        }
        took += cpu_of_this_thread()? - begun;
        if second == 60 {
            after_minute_kib = resident_kib()?;
        }
    }
    let after_kib = resident_kib()?;
    let scrapes = f64::from(NODES) * f64::from(SECONDS);
    let per_scrape_us = took.as_secs_f64() * 1e6 / scrapes;
    println!(
        "live: {NODES} nodes, {GPUS} GPUs and {SOCKETS} sockets each, {SECONDS} seconds: {per_scrape_us:.1} us a scrape, \
         {:.0} ns for each of its {SAMPLES} samples, {:.1} % of a core; {results} results",
        per_scrape_us * 1e3 / f64::from(SAMPLES),
        took.as_secs_f64() / f64::from(SECONDS) * 1e2,
    );
    println!(
        "  resident: {} MiB more than before, {} of them in the first minute",
        (after_kib - before_kib) / 1024,
        (after_minute_kib - before_kib) / 1024
    );
    Ok(())
}

/// When a target is scraped in a second, one after the other, and what it says.
fn page(number: u32, series: &[SeriesId], second: u32) -> (f64, Vec<Observed>) {
    let start_s = START_S + f64::from(second) + f64::from(number) / f64::from(NODES);
    let observed = (0..).zip(series).map(|(place, series)| Observed {
        series: *series,
        at_s: start_s,
        value: Ok(watts(number, place, second)),
        since_s: None,
    });
    (start_s, observed.collect())
}

/// So that what else the machine does is not counted (proc_pid_schedstat).
fn cpu_of_this_thread() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let ran_ns = text.split(' ').next().ok_or("no time in schedstat")?.parse()?;
    Ok(Duration::from_nanos(ran_ns))
}

/// Sockets first, then what stands on the page.
fn series_of(engine: &mut Engine, name: &str) -> Option<Vec<SeriesId>> {
    let node = engine.node(name);
    let mut series = Vec::new();
    for socket in 0..SOCKETS {
        let labels = format!("socket=\"{socket}\",source=\"acpi\",type=\"total\"");
        series.push(node.series(From::Sockets, "cpu_power_acpi_watts", &labels)?);
    }
    for metric in ["accelerator_power_watts", "gpu_module_power_watts"] {
        for gpu in 0..GPUS {
            series.push(node.series(
                From::Page,
                metric,
                &crate::fleet::gpu_labels(metric, name, gpu),
            )?);
        }
    }
    Some(series)
}

/// `wattscribe rules eval` over Parquet, and DuckDB over the same files.
fn offline() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let run = dir.path().join("run");
    let rows = write(&run)?;
    println!("offline: the same fleet, {SECONDS} seconds, {rows} rows of Parquet");
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    let eval = || -> Result<Command, Box<dyn Error>> {
        let mut command = Command::new(program("wattscribe")?);
        command.args(["rules", "eval"]).arg(&run);
        Ok(command)
    };
    time("eval, a summary alone", rows, &mut eval()?)?;
    let ours = time("eval, into Parquet", rows, eval()?.arg("--out").arg(&ours))?;
    let Some(python) = python() else {
        println!("  DuckDB: skipped (no Python environment; scripts/test makes it)");
        return Ok(());
    };
    let mut command = Command::new(&python);
    command.args(["-c", DUCKDB]).arg(&run).arg(&theirs);
    let theirs = time("DuckDB, into Parquet", rows, &mut command)?;
    let ratio = |of: fn(&Ran) -> f64| of(&ours) / of(&theirs);
    println!(
        "  ours by DuckDB: time {:.2}, CPU {:.2}, memory {:.2}",
        ratio(|ran| ran.took.as_secs_f64()),
        ratio(|ran| ran.cpu.as_secs_f64()),
        ratio(|ran| ran.most_kib as f64)
    );
    Ok(())
}

/// Runs to the end, and prints what it took.
fn time(name: &str, rows: u64, command: &mut Command) -> Result<Ran, Box<dyn Error>> {
    let ran = Process::start(command)?.finish()?;
    println!(
        "  {name:<22} {:>7.2} s, {:>7.2} s of CPU, {:.2} million rows a second, at most {} MiB",
        ran.took.as_secs_f64(),
        ran.cpu.as_secs_f64(),
        rows as f64 / ran.took.as_secs_f64() / 1e6,
        ran.most_kib / 1024
    );
    Ok(ran)
}

fn resident_kib() -> Result<i64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?.parse()?)
}
