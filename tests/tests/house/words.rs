//! The closed sets of words, and that each table of them is complete and has no other.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::Value;
use wattscribe_exporter::failure::Failure;
use wattscribe_rules::{Reason, State, Verdict};

use crate::markdown::{code, table};
use crate::repository::text;

/// The words that a source file gives the variants of its enums: those of every `as_str`.
pub(crate) fn words_of(path: &str) -> BTreeSet<String> {
    let source = text(path);
    let bodies = source.split("fn as_str").skip(1);
    let arms = bodies.flat_map(|body| body.split("\n    }").next().unwrap_or_default().lines());
    let words: BTreeSet<String> = arms
        .filter_map(|line| Some(line.split_once("=> \"")?.1.split_once('"')?.0.to_owned()))
        .collect();
    assert!(!words.is_empty(), "{path}: no word in any as_str");
    words
}

/// The words in the first column of a table.
pub(crate) fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let rows = table(&text(page), heading);
    let words: Vec<String> = rows.iter().flat_map(|row| code(&row[0])).collect();
    let set: BTreeSet<String> = words.iter().cloned().collect();
    assert_eq!(set.len(), words.len(), "{page}, {heading}: a word stands there twice");
    set
}

fn set<T: Display>(words: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    words.into_iter().map(|word| word.to_string()).collect()
}

/// States that are no failed read, and their own reason.
const BARE_STATES: [State; 2] = [State::Stale, State::Disagree];

#[test]
fn every_closed_set_is_documented_and_no_other_word() {
    let withheld =
        set(Failure::ALL.map(Failure::as_str).into_iter().chain(BARE_STATES.map(State::as_str)));
    let outcomes = words_of("scraper/src/failure.rs");
    let csv_reasons = words_of("table/src/samples_csv/issue.rs");
    let verdicts = set([Verdict::Full, Verdict::Partial, Verdict::None]);
    let cases = [
        ("docs/metrics.md", "States", set(State::ALL)),
        ("docs/metrics.md", "Reasons", withheld),
        ("docs/files.md", "Outcomes", outcomes),
        ("docs/files.md", "samples.csv", csv_reasons),
        ("docs/energy.md", "Reasons", set(Reason::all())),
        ("docs/energy.md", "Verdicts", verdicts),
    ];
    for (page, heading, expected) in cases {
        assert_eq!(documented(page, heading), expected, "{page}, {heading}");
    }
}

#[test]
fn a_reason_is_documented_with_its_state() {
    for row in table(&text("docs/metrics.md"), "Reasons") {
        let (reason, state) = (code(&row[0]).concat(), code(&row[1]).concat());
        let failure = Failure::ALL.into_iter().find(|failure| failure.as_str() == reason);
        let expected = failure.map_or(reason.as_str(), |failure| failure.state().as_str());
        assert_eq!(state, expected, "{reason}");
    }
}

/// The schema of rule files is held to their reader where it is written.
#[test]
fn keys_of_rule_files_are_documented() {
    let schema: Value = serde_json::from_str(&text("docs/rules.schema.json")).unwrap();
    for (heading, map) in [("The file", "rule"), ("Inputs", "input")] {
        let keys = schema["$defs"][map]["properties"].as_object().unwrap();
        let expected = keys.keys().cloned().collect();
        assert_eq!(documented("docs/rules.md", heading), expected, "{heading}");
    }
}

#[test]
fn words_are_read_from_source() {
    let words = words_of("scraper/src/failure.rs");
    assert!(words.contains("timeout") && words.contains("too_large"), "{words:?}");
}
