//! Which series an input takes: a metric and matchers of its labels, as in PromQL.

use std::fmt;

use super::pattern::Pattern;

/// A metric, or the name of a rule, and what its labels must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The name, compared whole.
    pub metric: String,
    /// All of them must hold.
    pub matchers: Vec<Matcher>,
}

/// What one label must be. A label that is not there is an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    /// Name of the label.
    pub label: String,
    /// How it is compared.
    pub condition: Condition,
}

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `=`
    Is(String),
    /// `!=`
    IsNot(String),
    /// `=~`, of the whole text.
    Matches(Pattern),
    /// `!~`, of the whole text.
    MatchesNot(Pattern),
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

impl Selector {
    /// Whether a series is taken, whose labels are told by `label`.
    pub fn takes<'a>(&self, metric: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let value = |name: &str| label(name).unwrap_or_default();
        self.metric == metric && self.matchers.iter().all(|m| m.condition.holds(value(&m.label)))
    }
}

impl fmt::Display for Selector {
    /// As PromQL has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        for (at, Matcher { label, condition }) in self.matchers.iter().enumerate() {
            let (sign, text) = match condition {
                Condition::Is(text) => ("=", text.as_str()),
                Condition::IsNot(text) => ("!=", text.as_str()),
                Condition::Matches(pattern) => ("=~", pattern.as_str()),
                Condition::MatchesNot(pattern) => ("!~", pattern.as_str()),
            };
            let text = text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            write!(f, "{}{label}{sign}\"{text}\"", if at == 0 { "{" } else { "," })?;
        }
        f.write_str(if self.matchers.is_empty() { "" } else { "}" })
    }
}
