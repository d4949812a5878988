//! Five targets, one of them good: the others cost it nothing, and each failure is told with its reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use wattscribe_simulator::{Machine, Waveform};
use wattscribe_table::{CpuManifest, CpuSample, RunReader, Scrape};
use wattscribe_tests::http::{Answer, Reply, Server, TEXT, nobody, try_get};
use wattscribe_tests::nodes::{Nodes, record};
use wattscribe_tests::program::run;

/// Name and the class of its failure.
const FAILING: [(&str, &str); 4] =
    [("absent", "connect"), ("error", "status"), ("garbage", "parse"), ("hangs", "timeout")];

#[test]
fn a_good_target_is_recorded_whole_beside_four_bad_ones() {
    let totals = [Waveform::Constant { watts: 94.29 }, Waveform::Constant { watts: 100.5 }];
    let nodes = Nodes::start(&[Machine::grace("good", &totals)]);
    let hangs = Server::start(|_| Reply::Hang);
    let garbage = Server::fixed(Answer::page("cpu_power_acpi_watts{sensor=\n"));
    let error = Server::fixed(Answer { status: 500, ..Answer::page("no\n") });
    let targets = [
        ("absent", nobody()),
        ("error", error.address),
        ("garbage", garbage.address),
        ("good", nodes.address("good")),
        ("hangs", hangs.address),
    ];
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let mut command = record(targets, "500ms", &out);
    command.args(["--timeout", "1s", "--duration", "6s"]);
    let log = run(&mut command).succeeded().stderr;
    for (target, class) in FAILING {
        let line = log.lines().find(|line| line.contains(&format!("target=\"{target}\""))).unwrap();
        assert!(line.contains("scrapes failed") && line.contains(&format!("{class}: ")), "{line}");
    }
    assert!(!log.contains("target=\"good\""), "{log}");
    check_tables(&out);
    check_manifest(&out);
}

/// A name and a number, each of which leads to the node: what it draws is drawn once.
#[test]
fn an_exporter_with_two_addresses_is_counted_once() {
    let totals = [Waveform::Constant { watts: 94.29 }];
    let nodes = Nodes::start(&[Machine::grace("node", &totals)]);
    let address = nodes.address("node");
    let by_name = format!("by-name=http://localhost:{}/metrics", address.port());
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let mut command = record([("by-number", address)], "200ms", &out);
    command.args(["--target", &by_name, "--duration", "2s"]);
    let log = run(&mut command).succeeded().stderr;
    let run = RunReader::open(&out).unwrap();
    let rows: Vec<CpuSample> = run.rows().unwrap().map(Result::unwrap).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.hostname.as_str()).collect();
    assert!(rows.len() >= 5 && names.len() == 1, "{names:?}: {} rows", rows.len());
    let owner = rows[0].hostname.clone();
    let refused = ["by-name", "by-number"].into_iter().find(|name| *name != owner).unwrap();
    let scrapes: Vec<Scrape> = run.rows().unwrap().map(Result::unwrap).collect();
    for scrape in &scrapes {
        let outcome = if scrape.target == refused { "duplicate" } else { "ok" };
        assert_eq!(scrape.outcome, outcome, "{scrape:?}");
    }
    assert!(scrapes.iter().any(|scrape| scrape.target == refused));
    let said = format!("duplicate: the target {owner} is the same exporter");
    assert!(log.contains(&said), "{log}");
}

/// An address behind which requests go to one node after the other: their mean would look like one whole node.
#[test]
fn an_address_of_several_exporters_has_no_power() {
    let totals = |watts| [Waveform::Constant { watts }];
    let nodes = Nodes::start(&[
        Machine::grace("low", &totals(100.0)),
        Machine::grace("high", &totals(300.0)),
    ]);
    let behind = [nodes.address("low"), nodes.address("high")];
    let requests = AtomicUsize::new(0);
    let balancer = Server::start(move |_| {
        let turn = requests.fetch_add(1, Ordering::Relaxed);
        Reply::Answer(try_get(behind[turn % behind.len()], "/metrics", TEXT).unwrap())
    });
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let mut command = record([("balanced", balancer.address)], "100ms", &out);
    let log = run(command.args(["--duration", "3s"])).succeeded().stderr;
    assert!(log.contains("several: the address leads to more than one exporter"), "{log}");
    let run = RunReader::open(&out).unwrap();
    let outcomes: Vec<String> =
        run.rows::<Scrape>().unwrap().map(|scrape| scrape.unwrap().outcome).collect();
    assert!(outcomes.len() >= 10, "{outcomes:?}");
    for (scrape, outcome) in outcomes.iter().enumerate() {
        // The third page is of the first one's exporter.
        assert_eq!(outcome, if scrape < 2 { "ok" } else { "several" }, "scrape {scrape}");
    }
}

fn check_tables(out: &Path) {
    let run = RunReader::open(out).unwrap();
    let mut scrapes = BTreeMap::<String, Vec<Scrape>>::new();
    for scrape in run.rows::<Scrape>().unwrap().map(Result::unwrap) {
        scrapes.entry(scrape.target.clone()).or_default().push(scrape);
    }
    let good = &scrapes["good"];
    // On time: twelve are due within 6 s, one more or less by its place in the interval, and none was left out.
    assert!((11..=13).contains(&good.len()), "{good:#?}");
    assert!(good.iter().all(|scrape| scrape.outcome == "ok" && scrape.rows == 2), "{good:#?}");
    assert!(good.iter().all(|scrape| scrape.missed_ticks == 0), "{good:#?}");
    let rows: Vec<CpuSample> = run.rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2 * good.len());
    assert!(
        rows.iter().all(|row| row.hostname == "good" && row.total_power_w == Some(94.29 + 100.5))
    );
    for (target, class) in FAILING {
        let failed = &scrapes[target];
        assert!(
            failed.iter().all(|scrape| scrape.outcome == class && scrape.rows == 0),
            "{failed:#?}"
        );
        assert!(
            failed.iter().all(|scrape| !scrape.detail.as_deref().unwrap_or_default().is_empty())
        );
    }
}

fn check_manifest(out: &Path) {
    let json = std::fs::read(out.join("cpu/cpu_manifest.json")).unwrap();
    let manifest = CpuManifest::from_json(&json).unwrap();
    assert!(manifest.wattscribe.targets["good"].errors_by_class.is_empty(), "{manifest:#?}");
    for (target, class) in FAILING {
        let summary = &manifest.wattscribe.targets[target];
        assert_eq!(summary.errors_by_class, BTreeMap::from([(class.to_owned(), summary.scrapes)]));
        assert_eq!(manifest.nodes[target].resolved_mode, "unknown");
        assert_eq!(manifest.nodes[target].error_count, summary.scrapes);
    }
}
