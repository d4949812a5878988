//! Labels and selectors as PromQL has them: `node` is whatever label holds the target.

use std::collections::BTreeSet;

use crate::rule::selector::Matcher;
use crate::rule::{Rule, Selector};

/// Writes labels.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    node: String,
}

impl Labels {
    pub(super) fn new(node: &str) -> Labels {
        Labels { node: node.to_owned() }
    }

    /// The name of a label in Prometheus.
    pub(super) fn name<'a>(&'a self, label: &'a str) -> &'a str {
        if label == Rule::NODE { &self.node } else { label }
    }

    /// `by (a, b)`.
    pub(super) fn by<'a>(&self, labels: impl IntoIterator<Item = &'a String>) -> String {
        format!("by ({})", self.list(labels))
    }

    /// `on (a, b)`.
    pub(super) fn on<'a>(&self, labels: impl IntoIterator<Item = &'a String>) -> String {
        format!("on ({})", self.list(labels))
    }

    fn list<'a>(&self, labels: impl IntoIterator<Item = &'a String>) -> String {
        let names: BTreeSet<&String> = labels.into_iter().collect();
        let names: Vec<&str> = names.into_iter().map(|label| self.name(label)).collect();
        names.join(", ")
    }

    /// A selector of another metric with the same matchers.
    pub(super) fn selector(&self, metric: &str, matchers: &[Matcher]) -> String {
        let matchers = matchers.iter().map(|matcher| Matcher {
            label: self.name(&matcher.label).to_owned(),
            condition: matcher.condition.clone(),
        });
        Selector { metric: metric.to_owned(), matchers: matchers.collect() }.to_string()
    }
}

/// A text as PromQL has it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n"))
}

/// Whether a text is the name of a label, and of none that Prometheus keeps for itself.
pub(super) fn is_name(text: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    let is_next = |letter: char| is_first(letter) || letter.is_ascii_digit();
    text.starts_with(is_first) && text.chars().all(is_next) && !text.starts_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::selector::Condition;

    #[test]
    fn the_node_has_its_label() {
        let labels = Labels::new("host");
        let names = ["socket", "node"].map(str::to_owned);
        assert_eq!(labels.by(&names), "by (host, socket)");
        assert_eq!(labels.on(&[]), "on ()");
        let is = |label: &str, value: &str| Matcher {
            label: label.to_owned(),
            condition: Condition::Is(value.to_owned()),
        };
        let matchers = [is("node", "a\"b"), is("type", "total")];
        assert_eq!(labels.selector("x", &matchers), r#"x{host="a\"b",type="total"}"#);
        assert_eq!(labels.selector("x", &[]), "x");
    }

    #[test]
    fn names_of_labels() {
        let cases = [
            ("instance", true),
            ("_a1", true),
            ("", false),
            ("1a", false),
            ("a-b", false),
            ("__name__", false),
        ];
        for (text, expected) in cases {
            assert_eq!(is_name(text), expected, "{text:?}");
        }
    }
}
