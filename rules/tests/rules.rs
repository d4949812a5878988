//! Runs the scripts in `tests/rules/`: each case's rows must come of its rules, from a reference that is written apart
//! from the engine, and from the engine in every way that it can be fed.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail it by panicking")]

mod feed;
mod history;
mod reference;
mod script;

use std::path::Path;
use std::sync::Arc;

use script::{Case, expect::written, parse};
use wattscribe_rules::engine::Derived;
use wattscribe_rules::rule::{RuleSet, read};

#[test]
fn scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let (mut ran, mut missed) = (0, Vec::new());
    for path in paths {
        for case in parse(&std::fs::read_to_string(&path).unwrap()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            missed.extend(check(&case).map(|found| format!("{name}: {}\n{found}", case.name)));
            ran += 1;
        }
    }
    assert!(missed.is_empty(), "{} of {ran} cases\n\n{}", missed.len(), missed.join("\n\n"));
    assert!(ran >= 150, "only {ran} cases were found");
}

/// What is wrong with a case.
fn check(case: &Case) -> Option<String> {
    assert!(!case.expected.is_empty(), "{}: nothing is expected", case.name);
    let rules = match read(&case.file()) {
        Ok(rules) => rules,
        Err(errors) => return Some(format!("{}\n{errors:#?}", case.file())),
    };
    let rules = Arc::new(rules);
    let turns: Vec<usize> = (0..200).map(|turn| turn * 7 / 3).collect();
    [
        ("reference", reference::evaluate(&rules, &case.history)),
        ("engine, target by target", feed::whole(&rules, &case.history, &[])),
        ("engine, as it comes", feed::whole(&rules, &case.history, &turns)),
        ("engines of each node", feed::apart(&rules, &case.history)),
    ]
    .into_iter()
    .find_map(|(way, rows)| Some(format!("{way}: {}", missed(case, &rules, &rows)?)))
}

fn missed(case: &Case, rules: &RuleSet, rows: &[Derived]) -> Option<String> {
    let mut wrong: Vec<String> =
        case.expected.iter().filter_map(|expected| expected.miss(rules, rows)).collect();
    if case.rows.is_some_and(|count| count != rows.len()) {
        wrong.push(format!("found {} rows", rows.len()));
    }
    if wrong.is_empty() {
        return None;
    }
    let all: Vec<String> = rows.iter().map(written).collect();
    Some(format!("{}\n  all rows:\n    {}", wrong.join("\n"), all.join("\n    ")))
}
