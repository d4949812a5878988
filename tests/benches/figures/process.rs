//! Programs under measurement: built, started, and read from `/proc`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Builds the release programs, so that what is measured is what stands here.
pub(crate) fn build() -> Result<(), Box<dyn Error>> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "-p", "wattscribe", "-p", "wattscribe-exporter"])
        .status()?;
    if status.success() { Ok(()) } else { Err("cargo build failed".into()) }
}

/// The path of a release program: benchmarks run from `target/release/deps`.
pub(crate) fn program(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let mut path = std::env::current_exe()?;
    path.pop();
    path.set_file_name(name);
    Ok(path)
}

/// A running program, killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a command with its output thrown away.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Box<dyn Error>> {
        Ok(Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    /// CPU time on all threads that still live.
    pub(crate) fn cpu(&self) -> Result<Duration, Box<dyn Error>> {
        let mut ran_ns = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            ran_ns += text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(ran_ns))
    }

    /// A size in `/proc/PID/status` (`VmRSS`, `VmHWM`), in KiB.
    pub(crate) fn memory_kib(&self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Result<Ran, Box<dyn Error>> {
        let start = Instant::now();
        let (mut most_kib, mut cpu) = (0, Duration::ZERO);
        loop {
            most_kib = self.memory_kib("VmHWM").unwrap_or(0).max(most_kib);
            cpu = self.cpu_of_all().unwrap_or_default().max(cpu);
            if let Some(status) = self.0.try_wait()? {
                if !status.success() {
                    return Err(format!("ended with {status}").into());
                }
                return Ok(Ran { took: start.elapsed(), cpu, most_kib });
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// CPU time of all threads, also of those that have ended, to a hundredth of a second (proc_pid_stat(5)).
    fn cpu_of_all(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        // The name before them may hold anything, and ends with the last bracket.
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks =
            fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().ok());
        Some(Duration::from_millis(ticks.sum::<Option<u64>>()? * 10))
    }
}

/// What a program took.
pub(crate) struct Ran {
    /// From its start to its end.
    pub(crate) took: Duration,
    /// CPU time of all its threads.
    pub(crate) cpu: Duration,
    /// The greatest memory seen, in KiB.
    pub(crate) most_kib: u64,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The Python of the test environment, when `scripts/test` has made it.
pub(crate) fn python() -> Option<PathBuf> {
    let named = std::env::var_os("WATTSCRIBE_PYTHON").map(PathBuf::from);
    let path = named.unwrap_or_else(|| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python"))
    });
    path.exists().then_some(path)
}
