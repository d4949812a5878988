//! The whole pipeline, as its users run it: the two programs as processes, over simulated machines, against real
//! peers (Prometheus, node_exporter, pandas and others).
//!
//! Here is what the test files share. [`program`] builds the programs and runs them; [`nodes`] are exporters over
//! simulated machines; [`http`] asks, answers and stands between; [`peer`] finds a peer or says that it is missing;
//! [`python`] runs the scripts in `peers/`; [`prometheus`] is a server of our own; [`wait`] waits for what is said to
//! happen; [`growth`] judges whether a process grows. Every process ends with the test that started it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

pub mod growth;
pub mod http;
pub mod nodes;
pub mod peer;
pub mod program;
pub mod prometheus;
pub mod python;
pub mod wait;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A file of the workspace.
pub fn file(path: &str) -> PathBuf {
    workspace().join(path)
}
