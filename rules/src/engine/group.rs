//! The groups of a rule and their members.

use std::sync::Arc;

use crate::engine::ordered::{Keyed, Ordered};
use crate::engine::outcome::Given;
use crate::engine::stream::Stream;

/// The members of equal labels `by`.
#[derive(Debug)]
pub(crate) struct Group {
    /// The node, of groups of a rule of nodes where several nodes are looked at.
    pub(crate) node: Option<Arc<str>>,
    pub(crate) labels: Arc<str>,
    /// By input.
    pub(crate) inputs: Vec<Ordered<Member>>,
    /// The instant of its first result.
    pub(crate) first_us: i64,
    /// Its results of the instant that is worked out: one, or one for each window that is due.
    pub(crate) results: Vec<Option<Given>>,
}

impl Group {
    pub(crate) fn new(node: Option<Arc<str>>, labels: &str, inputs: usize) -> Group {
        let inputs = std::iter::repeat_with(Ordered::default).take(inputs).collect();
        Group { node, labels: labels.into(), inputs, first_us: i64::MAX, results: Vec::new() }
    }
}

impl Keyed for Group {
    fn key(&self) -> (&str, &str) {
        (self.node.as_deref().unwrap_or_default(), &self.labels)
    }
}

/// One member: several series where a sensor changed its other labels.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) node: Option<Arc<str>>,
    pub(crate) labels: Arc<str>,
    /// In the order of the labels of the series, which `texts` are.
    pub(crate) sources: Vec<Source>,
    texts: Vec<Arc<str>>,
    /// Of a rule that makes windows of readings.
    pub(crate) stream: Option<Stream>,
}

impl Member {
    pub(crate) fn new(node: Option<Arc<str>>, labels: &str, stream: Option<Stream>) -> Member {
        let (sources, texts) = (Vec::new(), Vec::new());
        Member { node, labels: labels.into(), sources, texts, stream }
    }

    /// Adds a series, or the results of a group, of these labels.
    pub(crate) fn add(&mut self, source: Source, text: &str) {
        let at = self.texts.partition_point(|of| **of < *text);
        self.sources.insert(at, source);
        self.texts.insert(at, text.into());
    }
}

impl Keyed for Member {
    fn key(&self) -> (&str, &str) {
        (self.node.as_deref().unwrap_or_default(), &self.labels)
    }
}

/// Where a member's readings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A series of the node.
    Series(usize),
    /// The results of a rule above for one group.
    Results {
        /// The rule.
        rule: usize,
        /// The place of its group.
        group: usize,
    },
}
