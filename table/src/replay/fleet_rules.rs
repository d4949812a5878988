//! The rules of the fleet over the results of targets.

use std::sync::Arc;

use wattscribe_rules::engine::{
    Derived, Explanation, FleetEngine, NamedWindow, Progress, TargetId,
};
use wattscribe_rules::rule::RuleSet;

use super::derived_rows::{DerivedRows, Settled};
use super::recorded_until::RecordedUntil;
use super::target_rules::TargetRules;
use crate::DerivedRow;

/// The rules of the fleet.
#[derive(Debug)]
pub struct FleetRules {
    fleet: FleetEngine,
    rows: DerivedRows,
    simulated_since_us: Option<i64>,
}

impl FleetRules {
    /// Rules of a fleet without targets.
    pub fn new(rules: Arc<RuleSet>, named: &[NamedWindow]) -> FleetRules {
        let fleet = FleetEngine::new(Arc::clone(&rules), named);
        FleetRules { fleet, rows: DerivedRows::of(rules), simulated_since_us: None }
    }

    /// See [`FleetEngine::target`].
    pub fn target(&mut self, name: &str) -> TargetId {
        self.fleet.target(name)
    }

    /// Takes what a target gave, and how far it is with that.
    pub fn take(
        &mut self,
        target: TargetId,
        results: &[Derived],
        progress: Progress,
        simulated_since_us: Option<i64>,
    ) {
        self.note_simulated(simulated_since_us);
        results.iter().for_each(|result| self.fleet.take(result));
        self.fleet.progress(target, progress);
    }

    /// See [`FleetEngine::begin_target`].
    pub fn begin_target(&mut self, target: TargetId) {
        self.fleet.begin_target(target);
    }

    /// See [`FleetEngine::end_target`].
    pub fn end_target(&mut self, target: TargetId) {
        self.fleet.end_target(target);
    }

    /// Takes over what a target remembers: its groups, that it was scraped and gave a page, and that it is simulated.
    pub fn remember(&mut self, target: &TargetRules) {
        let id = self.fleet.target(target.target());
        self.fleet.progress(id, target.progress());
        self.note_simulated(target.simulated_since_us());
        for (rule, labels) in target.groups() {
            self.fleet.remember(rule, target.target(), labels);
        }
    }

    fn note_simulated(&mut self, since_us: Option<i64>) {
        self.simulated_since_us = self.simulated_since_us.into_iter().chain(since_us).min();
    }

    /// See [`FleetEngine::given_until`].
    pub fn given_until(&mut self, instant_us: i64) {
        self.fleet.given_until(instant_us);
    }

    /// Ends the recording.
    pub fn finish(&mut self) {
        self.fleet.finish();
    }

    /// Takes out the results, as rows those that are not recorded.
    pub fn derived(&mut self, recorded: RecordedUntil) -> impl Iterator<Item = DerivedRow> + '_ {
        let FleetRules { fleet, rows, simulated_since_us } = self;
        let rows = &*rows;
        let new = fleet.derived().filter(move |result| !recorded.has(result));
        new.map(|result| rows.row(&rows.settle(result, *simulated_since_us)))
    }

    /// Takes out the results as they are.
    pub fn settled(&mut self) -> impl Iterator<Item = Settled> + '_ {
        let FleetRules { fleet, rows, simulated_since_us } = self;
        fleet.derived().map(|result| rows.settle(result, *simulated_since_us))
    }

    /// See [`FleetEngine::explain`].
    pub fn explain(&mut self, rule: usize, at_us: i64) {
        self.fleet.explain(rule, at_us);
    }

    /// See [`FleetEngine::explanations`].
    pub fn explanations(&mut self) -> impl Iterator<Item = Explanation> + '_ {
        self.fleet.explanations()
    }
}
