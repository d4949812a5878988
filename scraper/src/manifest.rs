//! The manifest of a recording, from how its targets went. Pure.

use std::collections::BTreeMap;

use wattscribe_table::{CpuManifest, NodeSummary, Recovery, RunSummary, Simulated, TargetSummary};

use crate::record::Plan;
use crate::status::{Status, TargetStatus};

/// The manifest. A resumed recording goes on counting where the one before ended in order.
pub fn manifest(
    plan: &Plan,
    recovery: &Recovery,
    status: &Status,
    started_s: f64,
    stopped_s: f64,
) -> CpuManifest {
    let targets = status.targets();
    let before = recovery.manifest.as_ref();
    let nodes = targets
        .iter()
        .map(|(name, target)| (name.clone(), node(target, before.and_then(|m| m.nodes.get(name)))));
    let summaries = plan.targets.iter().filter_map(|target| {
        let status = targets.get(&target.name)?;
        Some((target.name.clone(), summary(target.shown_url().as_str(), status)))
    });
    let mut nodes: BTreeMap<String, NodeSummary> = nodes.collect();
    if let Some(before) = before {
        for (name, node) in &before.nodes {
            nodes.entry(name.clone()).or_insert_with(|| node.clone());
        }
    }
    CpuManifest {
        schema_version: CpuManifest::SCHEMA_VERSION,
        producer: CpuManifest::PRODUCER.to_owned(),
        producer_git_commit: option_env!("WATTSCRIBE_GIT_COMMIT").map(str::to_owned),
        started_at_unix: before.and_then(|before| before.started_at_unix).or(Some(started_s)),
        stopped_at_unix: stopped_s,
        nodes,
        wattscribe: RunSummary {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            simulated: simulated(&targets, recovery.simulated),
            // The shortest of all recordings: the gap limit follows it, and must not bridge an outage of an earlier one.
            interval_s: before
                .map_or(f64::INFINITY, |before| before.wattscribe.interval_s)
                .min(plan.interval.as_secs_f64()),
            resumed: recovery.resumed,
            command: plan.command.clone(),
            rules: plan.rules.as_ref().map(|planned| planned.name.clone()),
            targets: summaries.collect(),
        },
    }
}

fn node(target: &TargetStatus, before: Option<&NodeSummary>) -> NodeSummary {
    let (scrapes, errors) = before.map_or((0, 0), |node| (node.scrape_count, node.error_count));
    let mode_before = before.map(|node| node.resolved_mode.clone());
    NodeSummary {
        resolved_mode: target
            .source
            .clone()
            .or(mode_before)
            .unwrap_or_else(|| "unknown".to_owned()),
        scrape_count: scrapes + target.scrapes,
        error_count: errors + target.without_power,
    }
}

fn summary(url: &str, target: &TargetStatus) -> TargetSummary {
    let mut errors_by_class = target.failures.clone();
    if target.dropped > 0 {
        errors_by_class.insert("dropped".to_owned(), target.dropped);
    }
    TargetSummary {
        url: url.to_owned(),
        scrapes: target.scrapes,
        errors_by_class,
        missed_ticks: target.missed_ticks,
        last_error: target.last_failure.clone(),
        clock_offset_us: target.clock_offset_us,
        clock_error_us: target.clock_error_us,
    }
}

/// Whether the rows of the whole run, those recorded before included, are of simulated machines: `true`,
/// `false` or `mixed`.
fn simulated(
    targets: &BTreeMap<String, TargetStatus>,
    before: Option<Simulated>,
) -> Option<String> {
    let with_rows = targets.values().filter(|target| target.source.is_some());
    let now = Simulated::of(with_rows.map(|target| target.is_simulated));
    let all = before.into_iter().chain(now).reduce(Simulated::and)?;
    Some(all.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_simulated_as_a_whole_or_says_mixed() {
        use Simulated::{False, Mixed, True};
        let target = |is_simulated, source: Option<&str>| TargetStatus {
            is_simulated,
            source: source.map(str::to_owned),
            ..TargetStatus::default()
        };
        let (real, made) = (target(false, Some("acpi")), target(true, Some("rapl")));
        let cases = [
            (vec![], None, None),
            (vec![target(false, None)], None, None),
            (vec![real.clone()], None, Some("false")),
            (vec![made.clone()], None, Some("true")),
            (vec![made.clone(), real.clone()], None, Some("mixed")),
            (vec![made.clone()], Some(True), Some("true")),
            (vec![real.clone()], Some(True), Some("mixed")),
            (vec![made.clone()], Some(False), Some("mixed")),
            (vec![real.clone()], Some(Mixed), Some("mixed")),
            (vec![], Some(True), Some("true")),
        ];
        for (targets, before, expected) in cases {
            let targets = (0..).map(|n: u32| n.to_string()).zip(targets).collect();
            let word = simulated(&targets, before);
            assert_eq!(word.as_deref(), expected, "{targets:?} after {before:?}");
        }
    }
}
