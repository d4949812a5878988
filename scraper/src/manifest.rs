//! The manifest of a recording, from how its targets went. Pure.

use std::collections::BTreeMap;

use wattscribe_table::{CpuManifest, NodeSummary, Recovery, RunSummary, TargetSummary};

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
            simulated: simulated(&targets),
            interval_s: plan.interval.as_secs_f64(),
            resumed: recovery.resumed,
            command: plan.command.clone(),
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

/// `true`, `false`, or `mixed` when some nodes are simulated and some are not.
fn simulated(targets: &BTreeMap<String, TargetStatus>) -> Option<String> {
    let mut with_rows = targets.values().filter(|target| target.source.is_some());
    let first = with_rows.next()?.is_simulated;
    let word = if with_rows.any(|target| target.is_simulated != first) {
        "mixed"
    } else if first {
        "true"
    } else {
        "false"
    };
    Some(word.to_owned())
}
