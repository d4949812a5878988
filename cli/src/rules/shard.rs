//! A thread's share of the targets of a recording: their rules, piece by piece.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use wattscribe_rules::engine::{Derived, Explanation, NamedWindow, Progress};
use wattscribe_rules::rule::RuleSet;
use wattscribe_table::{DerivedRows, Piece, Settled, TargetRules};

use super::evaluation::{Evaluation, Question};
use super::source::Source;

/// The targets of one thread.
pub(crate) struct Shard<'a> {
    /// The names of its targets.
    share: HashSet<&'a str>,
    rules: &'a Arc<RuleSet>,
    named: &'a [NamedWindow],
    question: Option<&'a Question>,
    source: &'a Source,
    rows: DerivedRows,
    targets: HashMap<Arc<str>, TargetRules>,
}

/// What a shard made of one piece, beside the results of its nodes.
#[derive(Debug, Default)]
pub(crate) struct Yield {
    /// What the fleet takes of each target.
    pub targets: Vec<TargetYield>,
    /// What was asked for.
    pub explanations: Vec<Explanation>,
}

/// What the fleet takes of a target.
#[derive(Debug)]
pub(crate) struct TargetYield {
    /// The target.
    pub target: Arc<str>,
    /// Its results that rules of the fleet take.
    pub results: Vec<Derived>,
    /// How far it is with these.
    pub progress: Progress,
    /// Since when it is simulated, in Unix microseconds.
    pub simulated_since_us: Option<i64>,
}

impl<'a> Shard<'a> {
    /// The share `number` of an evaluation.
    pub(crate) fn new(evaluation: &'a Evaluation<'_>, number: usize) -> Shard<'a> {
        let Evaluation { source, rules, named, question, threads } = evaluation;
        let wanted = question.as_ref().and_then(|question| question.node.as_deref());
        let share = source.targets().skip(number).step_by(*threads);
        Shard {
            share: share.filter(|target| wanted.is_none_or(|wanted| wanted == *target)).collect(),
            rules,
            named,
            question: question.as_ref(),
            source,
            rows: DerivedRows::of(Arc::clone(rules)),
            targets: HashMap::new(),
        }
    }

    /// Evaluates the piece at a place, and adds the results of nodes.
    pub(crate) fn take(
        &mut self,
        place: usize,
        piece: &Piece,
        results: &mut Vec<Settled>,
    ) -> Yield {
        let mut given = Yield::default();
        for of in &piece.targets {
            if !self.share.contains(&*of.target) {
                continue;
            }
            let Shard { rules, named, question, source, rows, targets, .. } = self;
            let target = targets.entry(Arc::clone(&of.target)).or_insert_with(|| {
                let mut target = TargetRules::new(Arc::clone(rules), &of.target, named);
                if source.is_simulated() {
                    target.simulated();
                }
                if let Some(question) = question {
                    target.explain(question.rule, question.at_us);
                }
                target
            });
            target.take(of, i64::MIN);
            if source.ends_at(place, &of.target) {
                target.finish();
            }
            given.add(target, rows, results);
        }
        given
    }

    /// Ends the recording of all targets.
    pub(crate) fn finish(&mut self, results: &mut Vec<Settled>) -> Yield {
        let mut given = Yield::default();
        let mut targets: Vec<&mut TargetRules> = self.targets.values_mut().collect();
        targets.sort_by(|a, b| a.target().cmp(b.target()));
        for target in targets {
            target.finish();
            given.add(target, &self.rows, results);
        }
        given
    }
}

impl Yield {
    fn add(&mut self, target: &mut TargetRules, rows: &DerivedRows, settled: &mut Vec<Settled>) {
        let mut results = Vec::new();
        rows.settled(target, settled, &mut results);
        // Nobody is asked for the series that were met: the files have them.
        target.members().for_each(drop);
        self.explanations.extend(target.explanations());
        self.targets.push(TargetYield {
            target: Arc::clone(target.target()),
            results,
            progress: target.progress(),
            simulated_since_us: target.simulated_since_us(),
        });
    }
}
