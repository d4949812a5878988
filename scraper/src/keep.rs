//! Samples that are recorded as they are, in long form: those of `--keep REGEX`, and those that a rule takes.

use std::collections::HashSet;
use std::fmt::Write;

use regex::Regex;
use wattscribe_parser::{Labels, Sample};

/// Which metrics are kept.
#[derive(Debug, Clone, Default)]
pub struct Keep {
    pattern: Option<Regex>,
    metrics: HashSet<String>,
}

impl Keep {
    /// Nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Metrics whose name the pattern matches anywhere.
    pub fn matching(pattern: &str) -> Result<Self, regex::Error> {
        let pattern = Some(Regex::new(pattern)?);
        Ok(Self { pattern, ..Self::default() })
    }

    /// These metrics as well.
    #[must_use]
    pub fn and_metrics<'a>(mut self, metrics: impl IntoIterator<Item = &'a str>) -> Self {
        self.metrics.extend(metrics.into_iter().map(str::to_owned));
        self
    }

    /// Whether a sample is kept.
    pub fn wants(&self, sample: &Sample<'_>) -> bool {
        if self.metrics.is_empty() && self.pattern.is_none() {
            return false;
        }
        let name = sample.name.unescape();
        self.metrics.contains(name.as_ref())
            || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(&name))
    }
}

/// Labels in one canonical text: sorted by name, escaped as in the exposition format. Two samples are
/// of one series exactly when their metric and this text are equal.
pub fn canonical_labels(labels: Labels<'_>) -> String {
    let mut pairs: Vec<_> =
        labels.iter().map(|(name, value)| (name.unescape(), value.unescape())).collect();
    pairs.sort_unstable();
    let mut text = String::with_capacity(labels.raw().len());
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{name}=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_one_text_whatever_their_order() {
        let cases = [
            ("m 1\n", ""),
            ("m{} 1\n", ""),
            ("m{b=\"2\",a=\"1\"} 1\n", "a=\"1\",b=\"2\""),
            ("m{a=\"x,y\"} 1\n", "a=\"x,y\""),
            ("m{a=\"q\\\"\\\\\\n\"} 1\n", "a=\"q\\\"\\\\\\n\""),
        ];
        for (body, expected) in cases {
            let samples = wattscribe_parser::samples(body.as_bytes()).unwrap();
            assert_eq!(canonical_labels(samples[0].labels), expected, "{body}");
        }
    }

    #[test]
    fn a_pattern_matches_anywhere_in_the_name() {
        let keep = Keep::matching("node_load|node_memory").unwrap();
        let body = b"node_load1 1\nnode_memory_MemFree_bytes 2\nnode_cpu 3\n";
        let samples = wattscribe_parser::samples(body).unwrap();
        let kept: Vec<bool> = samples.iter().map(|sample| keep.wants(sample)).collect();
        assert_eq!(kept, [true, true, false]);
        assert!(!Keep::nothing().wants(&samples[0]));
        let keep = keep.and_metrics(["node_cpu", "node"]);
        assert!(samples.iter().all(|sample| keep.wants(sample)));
        let keep = Keep::nothing().and_metrics(["node_load1"]);
        let kept: Vec<bool> = samples.iter().map(|sample| keep.wants(sample)).collect();
        assert_eq!(kept, [true, false, false], "a name is compared whole");
    }
}
