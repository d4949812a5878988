//! From rows to stated windows: reads a recording once and holds no readings.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

use wattscribe_rules::{
    CounterSample, Energy, FleetEnergy, Ledger, NodeKey, Observation, Reasons, SeriesKey, Statement,
};
use wattscribe_table::{CpuPower, EnergyWindow, RunReader, ScrapeOutcome, open_any};

use super::select::{Selection, manifest};

/// The windows of a recording: sockets, nodes, totals.
pub(crate) fn state_energy(
    run: &Path,
    selection: &Selection,
) -> Result<Vec<EnergyWindow>, Box<dyn Error>> {
    let mut ledger = Ledger::new(selection.windows.clone(), selection.limits);
    let targets = targets(run)?;
    for (target, _) in targets.iter().filter(|(_, has_answered)| !**has_answered) {
        ledger.expect_node(target);
    }
    // Rows of a run say whether they are simulated. A CSV cannot; the manifest beside it can.
    let mut simulated = Simulated {
        anywhere: RunReader::open(run).is_err()
            && manifest(run)
                .and_then(|manifest| manifest.wattscribe.simulated)
                .is_some_and(|word| word != "false"),
        nodes: BTreeSet::new(),
    };
    let mut rows = open_any::<CpuPower>(run)?;
    for row in &mut rows {
        let row = row?;
        if row.simulated && !simulated.nodes.contains(&row.hostname) {
            simulated.nodes.insert(row.hostname.clone());
        }
        ledger.push(&row.source, &row.hostname, row.socket_id, observation(&row));
    }
    rows.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let statement = ledger.finish();
    if statement.refused > 0 {
        tracing::warn!(
            readings = statement.refused,
            "left out: they contradict an earlier reading of their series"
        );
    }
    for node in &statement.silent {
        tracing::warn!(node, "never gave a page: the totals lack it");
    }
    let powerless = |target: &&String| {
        targets[*target] && !statement.nodes.iter().any(|(key, _, _)| key.node == **target)
    };
    for target in targets.keys().filter(powerless) {
        tracing::warn!(
            target,
            "answered without the power of any socket: no total counts it as a node"
        );
    }
    if statement.sockets.is_empty() {
        return Err(format!("{}: no row of any socket", run.display()).into());
    }
    Ok(stated(&statement, selection, &simulated))
}

/// The targets of a run, and whether each ever answered. One that never did may be a node with power: a
/// total without it must not look whole. One that answered without power is no member, and is named.
fn targets(run: &Path) -> Result<BTreeMap<String, bool>, Box<dyn Error>> {
    let Ok(reader) = RunReader::open(run) else { return Ok(BTreeMap::new()) };
    let mut answered = BTreeMap::<String, bool>::new();
    for scrape in reader.rows::<ScrapeOutcome>()? {
        let scrape = scrape?;
        let is_ok = scrape.outcome == "ok";
        match answered.get_mut(&scrape.target) {
            Some(has_answered) => *has_answered |= is_ok,
            None => {
                answered.insert(scrape.target, is_ok);
            }
        }
    }
    Ok(answered)
}

fn observation(row: &CpuPower) -> Observation {
    let counter = row.energy_counter_time.zip(row.energy_counter_j);
    let counter = counter.map(|(at_s, joules)| CounterSample {
        at_s,
        joules,
        since_s: row.energy_counter_since,
    });
    Observation::of_socket(row.timestamp_unix, row.published_w(), row.state, counter)
}

/// Which nodes of a recording are simulated.
#[derive(Debug, Default)]
struct Simulated {
    /// All of them, or any: a CSV cannot say which.
    anywhere: bool,
    nodes: BTreeSet<String>,
}

impl Simulated {
    /// Whether a window of this node, or of all nodes together, holds anything simulated.
    fn covers(&self, node: Option<&str>) -> bool {
        self.anywhere || node.map_or(!self.nodes.is_empty(), |node| self.nodes.contains(node))
    }
}

fn stated(
    statement: &Statement,
    selection: &Selection,
    simulated: &Simulated,
) -> Vec<EnergyWindow> {
    let base = |number: usize, start_s: f64, node: Option<&str>| {
        (selection.name(number, start_s), simulated.covers(node))
    };
    let sockets = statement.sockets.iter().map(|(key, number, energy)| {
        (*number, socket_window(base(*number, energy.start_s, Some(&key.node)), key, energy))
    });
    let nodes = statement.nodes.iter().map(|(key, number, energy)| {
        (*number, node_window(base(*number, energy.start_s, Some(&key.node)), key, energy))
    });
    let totals = statement.totals.iter().map(|(source, number, energy)| {
        let base = base(*number, energy.start_s, None);
        (*number, EnergyWindow { boundary: "total".to_owned(), ..sum_window(base, source, energy) })
    });
    let mut windows: Vec<(usize, EnergyWindow)> = sockets.chain(nodes).chain(totals).collect();
    // Window by window; within one, sockets, nodes and totals in their own order.
    windows.sort_by_key(|(number, _)| *number);
    windows.into_iter().map(|(_, window)| window).collect()
}

fn socket_window(
    (name, simulated): (String, bool),
    key: &SeriesKey,
    energy: &Energy,
) -> EnergyWindow {
    EnergyWindow {
        name,
        boundary: "socket".to_owned(),
        hostname: Some(key.node.clone()),
        socket_id: Some(key.socket),
        source: Some(key.source.clone()),
        start_unix: energy.start_s,
        end_unix: energy.end_s,
        energy_j: energy.energy_j,
        covered_s: energy.covered_s,
        coverage: energy.coverage,
        avg_w: energy.avg_w,
        samples: energy.samples,
        largest_gap_s: Some(energy.largest_gap_s),
        min_w: energy.min_w,
        max_w: energy.max_w,
        p5_w: energy.p5_w,
        p50_w: energy.p50_w,
        p95_w: energy.p95_w,
        p99_w: energy.p99_w,
        percentiles_exact: energy.percentiles_exact,
        energy_low_j: energy.energy_low_j,
        energy_high_j: energy.energy_high_j,
        counter_energy_j: energy.counter_energy_j,
        counter_disagreement: energy.counter_disagreement,
        members_expected: 1,
        members_reporting: u64::from(energy.energy_j.is_some()),
        verdict: energy.verdict.as_str().to_owned(),
        reasons: joined(&energy.reasons),
        simulated,
    }
}

fn node_window(base: (String, bool), key: &NodeKey, energy: &FleetEnergy) -> EnergyWindow {
    EnergyWindow {
        boundary: "node".to_owned(),
        hostname: Some(key.node.clone()),
        ..sum_window(base, &key.source, energy)
    }
}

/// A sum. What only a single series has (percentiles, a counter) stays empty, and so does the average
/// of members that cover different times.
fn sum_window(
    (name, simulated): (String, bool),
    source: &str,
    energy: &FleetEnergy,
) -> EnergyWindow {
    let duration_s = energy.end_s - energy.start_s;
    EnergyWindow {
        name,
        boundary: String::new(),
        hostname: None,
        socket_id: None,
        source: Some(source.to_owned()),
        start_unix: energy.start_s,
        end_unix: energy.end_s,
        energy_j: energy.energy_j,
        covered_s: energy.coverage * duration_s,
        coverage: energy.coverage,
        avg_w: energy.avg_w(),
        samples: 0,
        largest_gap_s: None,
        min_w: None,
        max_w: None,
        p5_w: None,
        p50_w: None,
        p95_w: None,
        p99_w: None,
        percentiles_exact: true,
        energy_low_j: energy.energy_low_j,
        energy_high_j: energy.energy_high_j,
        counter_energy_j: None,
        counter_disagreement: None,
        members_expected: energy.members_expected as u64,
        members_reporting: energy.members_reporting as u64,
        verdict: energy.verdict.as_str().to_owned(),
        reasons: joined(&energy.reasons),
        simulated,
    }
}

fn joined(reasons: &Reasons) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}
