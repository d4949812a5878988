//! A recorder that is stopped, and goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use wattscribe_rules::engine::{Derived, Engine};
use wattscribe_rules::rule::RuleSet;

use crate::feed::{id, observed, scrape, whole};
use crate::history::{History, Target, Told};

/// The history of a recorder that is started anew for every scrape that begins after this.
pub(crate) fn interrupted(mut history: History, stop_s: f64) -> History {
    for target in &mut history.targets {
        // A new recording goes on with the numbers of the one before.
        let before = target.scrapes.iter().take_while(|told| told.start_s <= stop_s);
        let (count, latest) =
            before.fold((0, 0), |(count, seq), told| (count + 1, seq.max(told.seq)));
        let first = target.scrapes.iter_mut().skip(count).find(|told| told.seq > latest);
        first.into_iter().for_each(|told| told.begins_session = true);
    }
    history
}

/// The rows of both recorders: of one that is stopped, and of one that takes in the tail and the names of all members.
pub(crate) fn rows(rules: &Arc<RuleSet>, history: &History, stop_s: f64) -> Vec<Derived> {
    let stopped = |target: &Target| {
        let before = target.scrapes.iter().take_while(|told| told.start_s <= stop_s);
        before.cloned().collect::<Vec<Told>>()
    };
    let mut first = history.clone();
    first.targets.iter_mut().for_each(|target| target.scrapes = stopped(target));
    let mut rows = whole(rules, &first, &[]);

    let mut engine = Engine::new(Arc::clone(rules), Vec::new());
    let ends: BTreeMap<&str, f64> =
        first.targets.iter().map(|target| (&*target.node, latest_s(&target.scrapes))).collect();
    let given_s = ends.values().copied().fold(f64::INFINITY, f64::min);
    // A reading is at most half a second ahead of its scrape here.
    let tail_s = given_s - rules.reach().as_secs_f64() - 1.0;
    engine.fleet().given_until(micros(given_s));
    history.targets.iter().for_each(|target| engine.expect_target(&target.node));
    for target in &history.targets {
        engine.expect_target(&target.node);
        let old = target.scrapes.iter().take_while(|told| told.start_s < tail_s);
        for page in old.filter_map(|told| told.page.as_ref()) {
            engine.node(&target.node).remember_page();
            for reading in page {
                if let Some(series) = id(engine.node(&target.node), reading) {
                    engine.remember(&target.node, series);
                }
            }
        }
    }
    for target in &history.targets {
        for told in target.scrapes.iter().skip_while(|told| told.start_s < tail_s) {
            let node = engine.node(&target.node);
            let (sockets, samples) = observed(told, |reading| id(node, reading));
            engine.push(&target.node, &scrape(told, &sockets, &samples));
        }
    }
    engine.finish();
    let is_new = |row: &Derived| {
        let end_s = row.node.as_ref().map_or(given_s, |node| ends[&**node]);
        rules.timing.settled_us(row.at_us, row.start_us.is_some()) > micros(end_s)
    };
    rows.extend(engine.derived().filter(is_new));
    rows
}

/// The latest beginning of a scrape, of those whose number is not there before.
fn latest_s(scrapes: &[Told]) -> f64 {
    let is_new = |place: &usize| scrapes[..*place].iter().all(|old| old.seq < scrapes[*place].seq);
    let starts = (0..scrapes.len()).filter(is_new).map(|place| scrapes[place].start_s);
    starts.fold(f64::NEG_INFINITY, f64::max)
}

/// Of a time that is not there, one that nothing is before.
fn micros(at_s: f64) -> i64 {
    (at_s * 1e6) as i64
}
