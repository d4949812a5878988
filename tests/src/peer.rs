//! Peers: programs that others wrote and ours must work with.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::file;

/// A peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The Prometheus server.
    Prometheus,
    /// Its tool for pages, rules and configurations.
    Promtool,
    /// The exporter of machine metrics.
    NodeExporter,
    /// Python with the packages of `tests/peers/requirements.txt`.
    Python,
    /// Checks unit files.
    SystemdAnalyze,
    /// The shell of Slurm scripts.
    Bash,
}

impl Peer {
    /// The program. When it is missing, that is said on standard output and the test is to return; with `CI` set in
    /// the environment it is a failure.
    pub fn find(self) -> Option<PathBuf> {
        let found = match self {
            Peer::Python => python(),
            _ => on_path(self.program()),
        };
        if found.is_none() {
            let missing = format!("{} is missing (sh scripts/test installs it)", self.program());
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            // Not with println, which libtest keeps to itself for a test that passes.
            stdout().write_all(format!("skipped: {missing}\n").as_bytes()).unwrap();
        }
        found
    }

    fn program(self) -> &'static str {
        match self {
            Peer::Prometheus => "prometheus",
            Peer::Promtool => "promtool",
            Peer::NodeExporter => "prometheus-node-exporter",
            Peer::Python => "python with tests/peers/requirements.txt",
            Peer::SystemdAnalyze => "systemd-analyze",
            Peer::Bash => "bash",
        }
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The interpreter that `WATTSCRIBE_PYTHON` names, or the one that `scripts/test` installed, if it has the packages.
fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("WATTSCRIBE_PYTHON").map(PathBuf::from);
        let python = named.unwrap_or_else(|| file(".venv/bin/python"));
        has_packages(&python).then_some(python)
    };
    FOUND.get_or_init(find).clone()
}

fn has_packages(python: &Path) -> bool {
    let check = "import importlib.util as u, sys; \
        sys.exit(not all(map(u.find_spec, ['pandas', 'pyarrow', 'polars', 'duckdb', 'prometheus_client'])))";
    Command::new(python).args(["-c", check]).status().is_ok_and(|status| status.success())
}
