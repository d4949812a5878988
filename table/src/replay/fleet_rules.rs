//! The rules of the fleet over the results of targets, and both as rows.

use std::sync::Arc;

use wattscribe_rules::engine::{
    Derived, Explanation, FleetEngine, NamedWindow, Progress, TargetId,
};
use wattscribe_rules::rule::{From, Rule, RuleSet};

use super::target_rules::TargetRules;
use crate::DerivedRow;

/// Makes rows of results.
#[derive(Clone, Debug)]
pub struct DerivedRows {
    rules: Arc<RuleSet>,
    /// Whether a rule of the fleet takes the results of each.
    is_taken: Vec<bool>,
}

impl DerivedRows {
    /// Of the results of these rules.
    pub fn of(rules: Arc<RuleSet>) -> DerivedRows {
        let mut is_taken = vec![false; rules.rules.len()];
        for rule in rules.rules.iter().filter(|rule| !rule.is_of_node()) {
            for input in rule.inputs() {
                if let From::Rule(above) = input.from {
                    is_taken[above] = true;
                }
            }
        }
        DerivedRows { rules, is_taken }
    }

    /// Takes out the results of a target: as rows those that were settled after an instant, in Unix microseconds, and as
    /// they are all that rules of the fleet take.
    pub fn take(
        &self,
        target: &mut TargetRules,
        after_us: i64,
        rows: &mut Vec<DerivedRow>,
        for_fleet: &mut Vec<Derived>,
    ) {
        let since_us = target.simulated_since_us();
        let results: Vec<Derived> = target.derived().collect();
        for result in results {
            let settled_us = self.settled_us(&result);
            if settled_us > after_us {
                rows.push(self.row(&result, since_us));
            }
            if self.is_taken[result.rule] {
                target.note_result(&self.rules.rules[result.rule].name, &result, settled_us);
                for_fleet.push(result);
            }
        }
    }

    fn settled_us(&self, result: &Derived) -> i64 {
        self.rules.timing.settled_us(result.at_us, result.start_us.is_some())
    }

    /// A result as a row. It counts as simulated when what went in may have been, at the instant that settled it.
    pub fn row(&self, result: &Derived, simulated_since_us: Option<i64>) -> DerivedRow {
        let rule: &Rule = &self.rules.rules[result.rule];
        let settled_us = self.settled_us(result);
        DerivedRow {
            timestamp_us: result.at_us,
            start_us: result.start_us,
            window: result.window.as_deref().map(str::to_owned),
            rule: rule.name.clone(),
            node: result.node.as_deref().map(str::to_owned),
            labels: (*result.labels).to_owned(),
            value: result.value,
            unit: rule.unit.clone(),
            boundary: rule.boundary.as_str().to_owned(),
            state: result.state,
            reason: result.withheld.map(|withheld| withheld.as_str().to_owned()),
            low: result.low,
            high: result.high,
            counter: result.counter,
            spread: result.spread,
            coverage: result.coverage,
            members_expected: result.members_expected,
            members_reporting: result.members_reporting,
            rule_hash: rule.hash.clone(),
            simulated: simulated_since_us.is_some_and(|since_us| since_us <= settled_us),
        }
    }
}

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

    /// Takes over what a target remembers: its groups, and that it is simulated.
    pub fn remember(&mut self, target: &TargetRules) {
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

    /// Takes out the results, as rows those that were settled after an instant, in Unix microseconds.
    pub fn derived(&mut self, after_us: i64) -> impl Iterator<Item = DerivedRow> + '_ {
        let FleetRules { fleet, rows, simulated_since_us } = self;
        let rows = &*rows;
        let new = fleet.derived().filter(move |result| rows.settled_us(result) > after_us);
        new.map(|result| rows.row(&result, *simulated_since_us))
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
