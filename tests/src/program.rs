//! The programs under test: built from the sources as they are now, started, read, signalled, and ended.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::wait::eventually;
use crate::workspace;

/// `wattscribe`, to be given arguments.
pub fn wattscribe() -> Command {
    Command::new(&programs().wattscribe)
}

/// `cpu-power-exporter`, to be given arguments.
pub fn exporter() -> Command {
    Command::new(&programs().exporter)
}

struct Programs {
    wattscribe: PathBuf,
    exporter: PathBuf,
}

/// Builds both once per process, so that no test runs a stale one. Cargo says where it put them.
fn programs() -> &'static Programs {
    static BUILT: OnceLock<Programs> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.current_dir(workspace()).args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
            "--package=wattscribe",
            "--package=wattscribe-exporter",
        ]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let output = cargo.stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "cargo build failed");
        let messages = String::from_utf8(output.stdout).unwrap();
        let built: Vec<PathBuf> = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .collect();
        let named = |name: &str| built.iter().find(|path| path.ends_with(name)).unwrap().clone();
        Programs { wattscribe: named("wattscribe"), exporter: named("cpu-power-exporter") }
    })
}

/// Where the exporter was built.
pub fn exporter_path() -> &'static Path {
    &programs().exporter
}

/// A program that runs, and is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    said: [Arc<Mutex<Vec<u8>>>; 2],
    readers: Vec<JoinHandle<()>>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code, or 128 and the signal that ended it, as a shell has it.
    pub code: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Running {
    /// Starts a program. What it writes is kept.
    pub fn start(command: &mut Command) -> Self {
        let piped =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = piped.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = [Arc::default(), Arc::default()];
        let readers = vec![
            keep(child.stdout.take().unwrap(), &said[0]),
            keep(child.stderr.take().unwrap(), &said[1]),
        ];
        Self { child, said, readers }
    }

    /// What it has written so far, standard output first.
    pub fn said(&self) -> String {
        self.said.iter().map(|kept| text(kept)).collect()
    }

    /// What `look` finds in what it says, as soon as it finds something.
    pub fn says<T>(&mut self, what: &str, look: impl Fn(&str) -> Option<T>) -> T {
        eventually(what, || {
            let found = look(&self.said());
            let has_ended = self.child.try_wait().unwrap().is_some();
            assert!(found.is_some() || !has_ended, "ended before {what}: {}", self.said());
            found
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let child = &mut self.child;
        let status = eventually("the end of a program", || child.try_wait().unwrap());
        self.ended(status)
    }

    /// `kill -9`, and its end.
    pub fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        self.ended(status)
    }

    fn ended(&mut self, status: ExitStatus) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        Ended { code, stdout: text(&self.said[0]), stderr: text(&self.said[1]) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended, and then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> Ended {
    Running::start(command).wait()
}

impl Ended {
    /// Itself, if the exit code is 0.
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }
}

fn keep(mut stream: impl Read + Send + 'static, kept: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let kept = Arc::clone(kept);
    thread::spawn(move || {
        let mut block = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut block) {
            kept.lock().unwrap().extend_from_slice(&block[..length]);
        }
    })
}

fn text(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&kept.lock().unwrap()).into_owned()
}
