//! `kill -9` of the recorder at random moments, also while it recovers from the one before: nothing that was
//! acknowledged a second earlier is lost, nothing is there twice, and the next recording goes on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tempfile::TempDir;
use wattscribe_simulator::{Machine, Waveform};
use wattscribe_table::{CpuSample, RunReader, SamplesCsv, Scrape};
use wattscribe_tests::http::{Between, Passed};
use wattscribe_tests::nodes::{Nodes, record};
use wattscribe_tests::program::{Running, run};
use wattscribe_tests::python::Script;

/// Runs that are killed at the same time as others, and how often each is killed after a while. Each of these is
/// followed by a kill so soon that it comes during the recovery.
const RUNS: u64 = 5;
const KILLS: u64 = 4;

/// A reading that the recorder was given so long ago must be there, whatever happened since.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);

/// The sensors of the two sockets, as the page names them.
const SENSORS: [&str; 2] = ["ACPI000D:00/power1", "ACPI000D:03/power1"];

#[test]
fn a_killed_recorder_loses_nothing_and_doubles_nothing() {
    let ramp = Waveform::Ramp { from_w: 60.0, to_w: 180.0, duration_s: 60.0 };
    let sine = Waveform::Sine { mean_w: 120.0, amplitude_w: 40.0, period_s: 5.0, phase_rad: 0.0 };
    let nodes = Nodes::start(&[Machine::grace("node", &[ramp, sine])]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("WATTSCRIBE_SEED").map_or(now, |text| text.parse().unwrap());
    std::io::stdout().write_all(format!("WATTSCRIBE_SEED={seed}\n").as_bytes()).unwrap();
    let folder = TempDir::new().unwrap();
    thread::scope(|scope| {
        for number in 0..RUNS {
            let (nodes, out) = (&nodes, folder.path().join(number.to_string()));
            scope.spawn(move || Killed::new(nodes, out, seed ^ number).test());
        }
    });
}

/// A run whose recorder is killed again and again.
struct Killed {
    out: PathBuf,
    between: Between,
    random: u64,
    /// Read times of the readings that must be there, by socket, in microseconds.
    acknowledged: [BTreeSet<i64>; 2],
}

impl Killed {
    fn new(nodes: &Nodes, out: PathBuf, random: u64) -> Self {
        let between = Between::start(nodes.address("node"));
        Self { out, between, random, acknowledged: Default::default() }
    }

    fn test(mut self) {
        for _ in 0..KILLS {
            self.kill_after(0.2, 4.0);
            self.kill_after(0.0, 0.15);
        }
        let begun = Instant::now();
        let ended = run(self.record().args(["--duration", "1s"])).succeeded();
        assert!(ended.stderr.contains("continuing the recording"), "{}", ended.stderr);
        self.acknowledge(begun, Instant::now());
        self.check_rows();
        check_same(&self.out);
    }

    fn record(&self) -> std::process::Command {
        record([("node", self.between.address())], "100ms", &self.out)
    }

    /// Starts a recorder, kills it within these seconds, and checks what is left.
    fn kill_after(&mut self, from_s: f64, to_s: f64) {
        let after = Duration::from_secs_f64(from_s + (to_s - from_s) * self.next());
        let begun = Instant::now();
        let recorder = Running::start(&mut self.record());
        thread::sleep(after);
        let killed = Instant::now();
        recorder.kill();
        self.acknowledge(begun, killed.checked_sub(ACKNOWLEDGED).unwrap());
        self.check_files(after);
        self.check_rows();
    }

    /// Every reading on the pages that a recorder was given between these times must be there from now on.
    fn acknowledge(&mut self, begun: Instant, until: Instant) {
        let is_due = |passed: &&Passed| begun <= passed.at && passed.at <= until;
        for passed in self.between.passed().iter().filter(is_due) {
            let page = passed.answer.text();
            for (sensor, acknowledged) in SENSORS.iter().zip(&mut self.acknowledged) {
                let series = format!(
                    "\npower_reading_timestamp_seconds{{source=\"acpi\",sensor=\"{sensor}\"}} "
                );
                let (_, after) = page.split_once(&series).unwrap();
                let read_at_s: f64 = after.lines().next().unwrap().parse().unwrap();
                acknowledged.insert((read_at_s * 1e6).round() as i64);
            }
        }
    }

    /// Others can read every file.
    fn check_files(&self, after: Duration) {
        let Some(script) = Script::named("survivors") else { return };
        let found = script.arg(&self.out).answer();
        assert_eq!(found["bad"], json!([]), "killed after {after:?}: {found}");
    }

    /// Scrapes are numbered without a hole, and each acknowledged reading is there exactly once.
    fn check_rows(&self) {
        // A recorder that was killed at once has made no directory yet.
        let Ok(run) = RunReader::open(&self.out) else {
            return assert!(self.acknowledged[0].is_empty());
        };
        let scrapes: Vec<Scrape> = run.rows().unwrap().map(Result::unwrap).collect();
        let mut numbers: Vec<u64> = scrapes.iter().map(|scrape| scrape.seq).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
        assert!(scrapes.iter().all(|scrape| scrape.outcome == "ok"), "{scrapes:#?}");

        let rows: Vec<CpuSample> = run.rows().unwrap().map(Result::unwrap).collect();
        let mut times = [BTreeMap::<i64, u64>::new(), BTreeMap::new()];
        for row in &rows {
            let of_socket = &mut times[row.socket_id as usize];
            *of_socket.entry(row.sensor_time_us.unwrap()).or_default() += 1;
        }
        for (socket, (times, acknowledged)) in times.iter().zip(&self.acknowledged).enumerate() {
            for read_at_us in acknowledged {
                let count = times.get(read_at_us).copied().unwrap_or_default();
                assert_eq!(count, 1, "socket {socket} at {read_at_us} in {}", self.out.display());
            }
        }
    }

    /// The next number of SplitMix64, as a fraction.
    fn next(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What CSV can say of a row, to the bit.
fn in_csv(row: &CpuSample) -> String {
    let bits = |watts: Option<f64>| watts.map(f64::to_bits);
    let parts =
        [row.power_w, row.cpu_rail_w, row.soc_w, row.dram_w, row.module_w, row.total_power_w];
    let (time, parts) = (row.timestamp_unix.to_bits(), parts.map(bits));
    format!("{time} {} {} {} {} {parts:?}", row.hostname, row.socket_id, row.source, row.sensor)
}

/// After a recording that ended in order, samples.csv and Parquet hold the same rows.
fn check_same(out: &Path) {
    let run = RunReader::open(out).unwrap();
    let rows = run.rows::<CpuSample>().unwrap().map(Result::unwrap);
    let mut in_run: Vec<String> =
        rows.filter(CpuSample::is_published).map(|row| in_csv(&row)).collect();
    let path = out.join("cpu/samples.csv");
    let mut csv = SamplesCsv::open(&path);
    let mut csv_rows: Vec<String> = csv.by_ref().map(|row| in_csv(&row)).collect();
    assert!(csv.issues().is_empty(), "{:?}", csv.issues());
    in_run.sort_unstable();
    csv_rows.sort_unstable();
    assert_eq!(csv_rows, in_run);
    let left = std::fs::read_dir(out.join("journal")).unwrap().count();
    assert_eq!(left, 0, "segments that were not sealed");
    assert!(std::fs::read(&path).unwrap().ends_with(b"\r\n"));
}
