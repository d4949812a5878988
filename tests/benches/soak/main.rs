//! A soak of the exporter: `cargo bench -p wattscribe-tests --bench soak [-- DURATION [RUNNER…]]`, a minute unless
//! said otherwise.
//!
//! The real program runs over a GB200 node that does not exist, is scraped twenty times a second by good clients and
//! by bad ones, and meets every fault of [`faults::ROUND`], round after round. What it holds is written to a CSV and
//! judged at the end: exit code 1 where memory, threads or descriptors grew, a scrape failed, or a fault was not seen.
//!
//! A runner is a program with arguments that runs the exporter, such as valgrind; then growth, which would be the
//! runner's, is not judged. Copied to one folder with the exporter and the two stand-ins, the soak runs from there.

#![allow(clippy::print_stdout, reason = "a report is what this program is for")]

mod clients;
mod faults;

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;
use wattscribe_tests::growth::{Look, judge};
use wattscribe_tests::program::Running;

use crate::clients::{Nuisances, Scraper, Wish};
use crate::faults::{ROUND, ROUND_S, Stand};

/// The most that memory may grow by, in KiB an hour. The exporter reads ten times as often here as on a node, so it is
/// what would be 430 MiB after a node's year.
const BOUND_KIB_H: f64 = 512.0;

/// The time between two scrapes.
const TURN: Duration = Duration::from_millis(50);

/// How often a client that is a nuisance joins, in turns.
const NUISANCE_EVERY: u64 = 20;

/// The longest time between two looks at the process, in seconds; a short soak looks sixty times.
const LOOK_EVERY_S_MAX: f64 = 10.0;

/// How often the exporter reads: ten times as often as it usually does, so that an hour is like ten.
const INTERVAL: &str = "100ms";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // cargo passes --bench to every benchmark.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let duration_s = args.next().map_or(Ok(60.0), |text| seconds(&text))?;
    let runner: Vec<String> = args.collect();
    let out = std::env::temp_dir().join(format!("wattscribe-soak-{}", std::process::id()));
    fs::create_dir_all(&out)?;
    let mut soak = Soak::start(&runner, &out)?;
    while soak.now_s() < duration_s {
        soak.turn(duration_s)?;
    }
    let faults = soak.finish(&out, runner.is_empty())?;
    for fault in &faults {
        println!("FAILED: {fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `90s`, `5m`, `1h` in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("found {text:?}, expected a duration such as 60s, 5m or 1h");
    let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
    let unit_s = match unit {
        's' => 1.0,
        'm' => 60.0,
        'h' => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..at].parse().map_err(|_| wrong())?;
    if number.is_finite() && number > 0.0 { Ok(number * unit_s) } else { Err(wrong()) }
}

/// The exporter beside this program, where both were copied to; else built from what stands here.
fn exporter() -> Result<PathBuf, Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let beside = this.with_file_name("cpu-power-exporter");
    if beside.is_file() {
        return Ok(beside);
    }
    // Benchmarks run from `deps`, below the folder of the programs, which the target folder holds.
    let folder = this.parent().and_then(Path::parent).ok_or("this program is in no folder")?;
    let target = folder.parent().ok_or("the programs are in no target folder")?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", "wattscribe-exporter", "--target-dir"]).arg(target);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    if !cargo.status()?.success() {
        return Err("cargo build failed".into());
    }
    Ok(folder.join("cpu-power-exporter"))
}

/// A soak that goes on.
struct Soak {
    began: Instant,
    turns: u64,
    exporter: Running,
    scrapers: [Scraper; 3],
    nuisances: Nuisances,
    round: Round,
    looks: Vec<Look>,
    csv: File,
    /// The rung of the last page.
    rung: String,
    /// What went wrong with scrapes and faults.
    errors: Vec<String>,
    /// Last, so that nothing of it is in use any more.
    _folder: TempDir,
}

/// The faults of the round that goes on.
struct Round {
    stand: Stand,
    /// Of each step, whether its sign was seen; nothing while it is not going on.
    going_on: [Option<bool>; ROUND.len()],
    begun: u32,
}

impl Soak {
    fn start(runner: &[String], out: &Path) -> Result<Self, Box<dyn Error>> {
        let folder = TempDir::new()?;
        // A copy, because cargo may build another one within the hour.
        let program = folder.path().join("cpu-power-exporter");
        fs::copy(exporter()?, &program)?;
        let stand = Stand::new(folder.path())?;
        let mut command = match runner {
            [] => Command::new(&program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program);
                command
            }
        };
        command.args(["--bind", "127.0.0.1", "--port", "0", "--interval", INTERVAL]);
        command.arg("--sysfs-root").arg(stand.tree.root());
        command.arg("--nvml-library").arg(stand.nvml.library());
        command.arg("--dcgm-library").arg(stand.dcgm.library());
        let mut exporter = Running::start(command.env_remove("RUST_LOG"));
        let address: SocketAddr = exporter.says("listening", |log| {
            let (_, after) = log.split_once("listening addr=")?;
            after.split_once('\n')?.0.trim().parse().ok()
        });
        let mut scrapers =
            [Wish::Text, Wish::OpenMetrics, Wish::Gzip].map(|wish| Scraper::new(address, wish));
        let first = scrapers[0].scrape()?;
        let rung = rung(&String::from_utf8_lossy(&first)).unwrap_or("none").to_owned();
        if rung != "acpi" {
            // The faults of the meters would be seen by nobody.
            return Err(format!("found rung {rung} at the start, expected acpi: is this machine too busy for the runner?").into());
        }
        let csv_path = out.join("looks.csv");
        println!("the exporter is process {}; looks go to {}", exporter.id(), csv_path.display());
        let mut csv = File::create(csv_path)?;
        writeln!(csv, "at_s,rung,rss_kib,anon_kib,threads,fds")?;
        Ok(Self {
            began: Instant::now(),
            turns: 0,
            exporter,
            scrapers,
            nuisances: Nuisances::new(address),
            round: Round { stand, going_on: [None; ROUND.len()], begun: 0 },
            looks: Vec::new(),
            csv,
            rung,
            errors: Vec::new(),
            _folder: folder,
        })
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A scrape, the faults that are due, and a look if it is time for one.
    fn turn(&mut self, duration_s: f64) -> Result<(), Box<dyn Error>> {
        let now_s = self.now_s();
        self.errors.extend(self.round.turn(now_s % ROUND_S)?);
        let scraper = (self.turns % self.scrapers.len() as u64) as usize;
        match self.scrapers[scraper].scrape() {
            Ok(page) if scraper == 0 => {
                let page = String::from_utf8_lossy(&page);
                self.round.look_for_signs(&page);
                if let Some(rung) = rung(&page) {
                    self.rung = rung.to_owned();
                }
            }
            Ok(_) => {}
            Err(error) => self.errors.push(format!("a scrape after {now_s:.1} s: {error}")),
        }
        if self.turns.is_multiple_of(NUISANCE_EVERY) {
            self.nuisances.join()?;
        }
        self.nuisances.take_turn();
        let every_s = LOOK_EVERY_S_MAX.min(duration_s / 60.0);
        if now_s >= self.looks.len() as f64 * every_s {
            let look = Look::at(self.exporter.id(), now_s, &self.rung)?;
            let Look { at_s, phase, rss_kib, anon_kib, threads, fds } = &look;
            writeln!(self.csv, "{at_s:.1},{phase},{rss_kib},{anon_kib},{threads},{fds}")?;
            self.looks.push(look);
        }
        self.turns += 1;
        // Turns that were missed are not made up for.
        let next_s = TURN.as_secs_f64() * self.turns as f64;
        let pause_s = (next_s - self.now_s()).clamp(0.0, TURN.as_secs_f64());
        thread::sleep(Duration::from_secs_f64(pause_s));
        Ok(())
    }

    /// Ends everything, prints the report, and gives back what was wrong.
    fn finish(mut self, out: &Path, judged: bool) -> Result<Vec<String>, Box<dyn Error>> {
        self.round.end()?;
        drop(self.scrapers);
        let nuisances = self.nuisances.count;
        drop(self.nuisances);
        self.exporter.signal(Signal::TERM);
        let ended = self.exporter.wait();
        fs::write(out.join("exporter.log"), &ended.stdout)?;
        fs::write(out.join("exporter.err"), &ended.stderr)?;
        println!(
            "{:.0} s: {} scrapes, {nuisances} bad clients, {} faults, {} errors; ended with code {}",
            self.began.elapsed().as_secs_f64(),
            self.turns,
            self.round.begun,
            self.errors.len(),
            ended.code
        );
        let mut faults = self.errors;
        if ended.code != 0 {
            faults.push(format!("the end: found exit code {}, expected 0", ended.code));
        }
        if judged {
            // In a quarter without a whole round, memory follows the faults that happen to be in it.
            let is_long = self.began.elapsed().as_secs_f64() >= 4.0 * ROUND_S;
            let growth = judge(&self.looks, if is_long { BOUND_KIB_H } else { f64::INFINITY });
            if !is_long {
                println!("memory is not judged in less than {:.0} s", 4.0 * ROUND_S);
            }
            println!(
                "memory: {:.0} KiB in the second quarter (nine of ten looks up to {:.0}), {:.0} in the last; {:+.0} KiB an hour, expected {BOUND_KIB_H:.0} at most",
                growth.second_kib, growth.swing_kib, growth.last_kib, growth.slope_kib_h
            );
            faults.extend(growth.faults);
        } else {
            print!("{}", ended.stderr);
        }
        Ok(faults)
    }
}

impl Round {
    /// Begins and ends what is due, and says of what has ended whether it was never seen.
    fn turn(&mut self, at_s: f64) -> Result<Vec<String>, Box<dyn Error>> {
        let mut unseen = Vec::new();
        for (step, going_on) in ROUND.iter().zip(&mut self.going_on) {
            let is_due = (step.from_s..step.until_s).contains(&at_s);
            match *going_on {
                None if is_due => {
                    step.begin(&mut self.stand)?;
                    *going_on = Some(false);
                    self.begun += 1;
                }
                Some(is_seen) if !is_due => {
                    step.end(&mut self.stand)?;
                    *going_on = None;
                    if !is_seen {
                        unseen.push(format!("{}: no page said {}", step.what, step.sign));
                    }
                }
                _ => {}
            }
        }
        Ok(unseen)
    }

    fn look_for_signs(&mut self, page: &str) {
        for (step, going_on) in ROUND.iter().zip(&mut self.going_on) {
            if let Some(is_seen) = going_on {
                *is_seen |= page.contains(step.sign);
            }
        }
    }

    /// Heals what is going on.
    fn end(&mut self) -> Result<(), Box<dyn Error>> {
        for (step, going_on) in ROUND.iter().zip(&mut self.going_on) {
            if going_on.take().is_some() {
                step.end(&mut self.stand)?;
            }
        }
        Ok(())
    }
}

/// The rung that a page says was chosen.
fn rung(page: &str) -> Option<&str> {
    let (_, after) = page.split_once("rung=\"")?;
    after.split('"').next()
}
