//! Hands a history to the engine in each of the ways that it can be handed over.

use std::sync::Arc;

use wattscribe_rules::engine::{
    Answer, Derived, Engine, FleetEngine, NamedWindow, NodeEngine, Observed, Scrape, SeriesId,
};
use wattscribe_rules::rule::{From, RuleSet};

use crate::history::{History, Reading, Target, Told, text};

/// One engine for all targets, which takes the next scrape of the target that `turns` names, then what is left target by
/// target. Rows are taken out after every scrape for which `turns` is odd, and at the end.
pub(crate) fn whole(rules: &Arc<RuleSet>, history: &History, turns: &[usize]) -> Vec<Derived> {
    let mut engine = Engine::new(Arc::clone(rules), named(history));
    for target in &history.targets {
        engine.expect_target(&target.node);
    }
    let mut next = vec![0; history.targets.len()];
    let mut rows = Vec::new();
    let rest = (0..history.targets.len()).flat_map(|target| vec![target; 1_000]);
    for turn in turns.iter().copied().chain(rest) {
        let place = turn % history.targets.len();
        let target = &history.targets[place];
        let Some(told) = target.scrapes.get(next[place]) else { continue };
        next[place] += 1;
        let node = engine.node(&target.node);
        let (sockets, samples) = observed(told, |reading| id(node, reading));
        engine.push(&target.node, &scrape(told, &sockets, &samples));
        if target.ended && next[place] == target.scrapes.len() {
            engine.end_target(&target.node);
        }
        if turn % 2 == 1 {
            rows.extend(engine.derived());
        }
    }
    engine.finish();
    rows.extend(engine.derived());
    rows
}

/// One engine for each target on a thread of its own, then one for the fleet over what they gave, the last node first.
pub(crate) fn apart(rules: &Arc<RuleSet>, history: &History) -> Vec<Derived> {
    let named = named(history);
    let of_node = |target: &Target| {
        let mut node = NodeEngine::new(Arc::clone(rules), &target.node, &named);
        for told in &target.scrapes {
            let (sockets, samples) = observed(told, |reading| id(&mut node, reading));
            node.push(&scrape(told, &sockets, &samples));
        }
        node.finish();
        (node.derived().collect::<Vec<_>>(), node.progress())
    };
    let nodes: Vec<_> = std::thread::scope(|scope| {
        let threads = history.targets.iter().map(|target| scope.spawn(|| of_node(target)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut fleet = FleetEngine::new(Arc::clone(rules), &named);
    let targets: Vec<_> = history.targets.iter().map(|target| fleet.target(&target.node)).collect();
    for (((rows, progress), id), target) in nodes.iter().zip(targets).zip(&history.targets).rev() {
        rows.iter().for_each(|row| fleet.take(row));
        fleet.progress(id, *progress);
        if target.ended {
            fleet.end_target(id);
        }
    }
    fleet.finish();
    let of_nodes = nodes.into_iter().flat_map(|(rows, _)| rows);
    of_nodes.chain(fleet.derived()).collect()
}

fn named(history: &History) -> Vec<NamedWindow> {
    let named = history.named.iter();
    named
        .map(|(name, window)| NamedWindow { name: name.as_str().into(), window: *window })
        .collect()
}

pub(crate) fn id(node: &mut NodeEngine, reading: &Reading) -> Option<SeriesId> {
    node.series(reading.from, &reading.metric, &text(&reading.labels))
}

/// The readings of sockets, and those of the page.
pub(crate) fn observed(
    told: &Told,
    mut id: impl FnMut(&Reading) -> Option<SeriesId>,
) -> (Vec<Observed>, Vec<Observed>) {
    let mut observed = |from: From| -> Vec<Observed> {
        let of = told.page.iter().flatten().filter(|reading| reading.from == from);
        let taken = of.filter_map(|reading| {
            let Reading { at_s, value, since_s, .. } = *reading;
            id(reading).map(|series| Observed { series, at_s, value, since_s })
        });
        taken.collect()
    };
    (observed(From::Sockets), observed(From::Page))
}

pub(crate) fn scrape<'a>(
    told: &Told,
    sockets: &'a [Observed],
    samples: &'a [Observed],
) -> Scrape<'a> {
    let answer = match told.page {
        None => Answer::Failed,
        Some(_) => Answer::Page { sockets, samples },
    };
    Scrape { seq: told.seq, start_s: told.start_s, begins_session: told.begins_session, answer }
}
