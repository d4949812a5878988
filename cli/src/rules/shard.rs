//! A thread's share of the targets of a recording: their rules, piece by piece.

use std::collections::HashMap;
use std::sync::Arc;

use wattscribe_rules::engine::{Derived, Explanation, NamedWindow, Progress};
use wattscribe_rules::rule::RuleSet;
use wattscribe_table::{DerivedRow, DerivedRows, Piece, TargetRules};

use super::evaluation::{Evaluation, Question};
use super::source::Source;

/// The targets of one thread.
pub(crate) struct Shard<'a> {
    number: usize,
    count: usize,
    rules: &'a Arc<RuleSet>,
    named: &'a [NamedWindow],
    question: Option<&'a Question>,
    source: &'a Source,
    rows: DerivedRows,
    targets: HashMap<Arc<str>, TargetRules>,
}

/// What a shard made of one piece.
#[derive(Debug, Default)]
pub(crate) struct Yield {
    /// Results of nodes.
    pub rows: Vec<DerivedRow>,
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
        Shard {
            number,
            count: *threads,
            rules,
            named,
            question: question.as_ref(),
            source,
            rows: DerivedRows::of(Arc::clone(rules)),
            targets: HashMap::new(),
        }
    }

    /// Whether a target is of this share.
    fn has(&self, target: &str) -> bool {
        let wanted = self.question.and_then(|question| question.node.as_deref());
        // FNV-1a: stable, and no target is far from its neighbours by it.
        let hash = target.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        wanted.is_none_or(|wanted| wanted == target)
            && (hash >> 32) as usize % self.count == self.number
    }

    /// Evaluates the piece at a place.
    pub(crate) fn take(&mut self, place: usize, piece: &Piece) -> Yield {
        let mut given = Yield::default();
        for of in &piece.targets {
            if !self.has(&of.target) {
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
            given.add(target, rows);
        }
        given
    }

    /// Ends the recording of all targets.
    pub(crate) fn finish(&mut self) -> Yield {
        let mut given = Yield::default();
        let mut targets: Vec<&mut TargetRules> = self.targets.values_mut().collect();
        targets.sort_by(|a, b| a.target().cmp(b.target()));
        for target in targets {
            target.finish();
            given.add(target, &self.rows);
        }
        given
    }
}

impl Yield {
    fn add(&mut self, target: &mut TargetRules, rows: &DerivedRows) {
        let mut results = Vec::new();
        rows.take(target, i64::MIN, &mut self.rows, &mut results);
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
