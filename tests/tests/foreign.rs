//! A page that is not ours: node_exporter's, kept in long form, equals what Python reads from the same page.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use wattscribe_tests::http::{self, TEXT, try_get};
use wattscribe_tests::nodes::{record, standing_in};
use wattscribe_tests::peer::Peer;
use wattscribe_tests::program::{Running, run};
use wattscribe_tests::python::Script;
use wattscribe_tests::wait::eventually;

const PATTERN: &str = "node_load|node_memory";

#[test]
fn what_is_kept_of_node_exporter_is_what_python_reads() {
    let Some(body) = node_exporter_page() else { return };
    let folder = TempDir::new().unwrap();
    let (run_dir, page) = (folder.path().join("run"), folder.path().join("page"));
    std::fs::write(&page, &body).unwrap();
    let server = standing_in(&body);
    let mut command = record([("node", server.address)], "200ms", &run_dir);
    let ended = run(command.args(["--keep", PATTERN, "--duration", "2s"])).succeeded();
    // It has no power of any socket, which is no failure of the recording.
    assert!(ended.stderr.contains("recorded to"), "{}", ended.stderr);

    let Some(script) = Script::named("kept") else { return };
    let found = script.arg(&page).arg(&run_dir).arg(PATTERN).answer();
    assert_eq!(found["differences"], json!([]));
    assert!(found["wanted"].as_u64().unwrap() > 10, "{found}");
    assert!(found["scrapes"].as_u64().unwrap() >= 5, "{found}");
}

/// One page of a real node_exporter, which is asked once: its values change from scrape to scrape.
fn node_exporter_page() -> Option<String> {
    let program = Peer::NodeExporter.find()?;
    let address = http::nobody();
    let mut command = Command::new(program);
    let _exporter = Running::start(command.arg(format!("--web.listen-address={address}")));
    let answer = eventually("a page of node_exporter", || try_get(address, "/metrics", TEXT).ok());
    assert_eq!(answer.status, 200);
    Some(answer.text())
}
