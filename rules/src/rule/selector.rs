//! Which series an input takes: a metric and matchers of its labels, as in PromQL.

use regex::Regex;

/// A metric, or the name of a rule, and what its labels must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// The name, compared whole.
    pub metric: String,
    /// All of them must hold.
    pub matchers: Vec<Matcher>,
}

/// What one label must be. A label that is not there is an empty text.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// Name of the label.
    pub label: String,
    /// How it is compared.
    pub condition: Condition,
}

/// How a label is compared.
#[derive(Clone, Debug)]
pub enum Condition {
    /// `=`
    Is(String),
    /// `!=`
    IsNot(String),
    /// `=~`, of the whole text.
    Matches(Regex),
    /// `!~`, of the whole text.
    MatchesNot(Regex),
}

impl Condition {
    /// Whether a text fulfils it.
    pub fn holds(&self, text: &str) -> bool {
        match self {
            Condition::Is(expected) => text == expected,
            Condition::IsNot(other) => text != other,
            Condition::Matches(pattern) => pattern.is_match(text),
            Condition::MatchesNot(pattern) => !pattern.is_match(text),
        }
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        use Condition::{Is, IsNot, Matches, MatchesNot};
        let same = match (&self.condition, &other.condition) {
            (Is(a), Is(b)) | (IsNot(a), IsNot(b)) => a == b,
            (Matches(a), Matches(b)) | (MatchesNot(a), MatchesNot(b)) => a.as_str() == b.as_str(),
            _ => false,
        };
        self.label == other.label && same
    }
}

impl Selector {
    /// Whether a series is taken, whose labels are told by `label`.
    pub fn takes<'a>(&self, metric: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.metric == metric
            && self.matchers.iter().all(|matcher| {
                matcher.condition.holds(label(&matcher.label).unwrap_or_default())
            })
    }
}
