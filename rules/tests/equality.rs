//! Random rules over random recordings: the engine's rows are those of the reference, to the bit, however it is fed.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail it by panicking")]

mod family;
mod feed;
mod history;
mod reference;
mod restart;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use history::History;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wattscribe_rules::engine::{Derived, Withheld};
use wattscribe_rules::rule::read;

/// Each case is a whole recording, so there are half as many as usual; `PROPTEST_CASES` asks for more. A failure is worth
/// some seconds of shrinking, not minutes, and is printed rather than kept in a file.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases / 2,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..usual
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_engine_is_the_reference(
        file in family::files(),
        history in stream::histories(),
        turns in vec(any::<usize>(), 0..120),
    ) {
        let rules = Arc::new(read(&file).unwrap());
        let expected = reference::evaluate(&rules, &history);
        for (way, found) in [
            ("target by target", feed::whole(&rules, &history, &[])),
            ("as it comes", feed::whole(&rules, &history, &turns)),
            ("each node apart", feed::apart(&rules, &history)),
        ] {
            let difference = difference(&expected, &found);
            prop_assert!(difference.is_none(), "{way}\n{file}\n{}", difference.unwrap());
        }
    }

    #[test]
    fn a_restart_changes_nothing(
        file in family::files(),
        history in stream::histories(),
        stop in 0.0..30.0,
    ) {
        let rules = Arc::new(read(&file).unwrap());
        let stop_s = history.targets[0].scrapes[0].start_s + stop;
        let history = History { named: Vec::new(), ..restart::interrupted(history, stop_s) };
        let expected = reference::evaluate(&rules, &history);
        let difference = difference(&expected, &restart::rows(&rules, &history, stop_s));
        prop_assert!(difference.is_none(), "stop at {stop_s}\n{file}\n{}", difference.unwrap());
    }

    /// What every row of the reference keeps, whatever the rule: it is the yardstick, so it is measured first.
    #[test]
    fn rows_are_sound(file in family::files(), history in stream::histories()) {
        let rules = read(&file).unwrap_or_else(|errors| panic!("{file}\n{errors:#?}"));
        for row in reference::evaluate(&rules, &history) {
            prop_assert_eq!(sound(&row), None, "{:?}", row);
        }
    }
}

/// Results with a value, by their functions.
const REACHED: [&str; 17] = [
    "mean",
    "sum",
    "max",
    "min",
    "residual",
    "ratio",
    "sum of a window",
    "max of a window",
    "min of a window",
    "quantile of a window",
    "integrate of a window",
    "increase of a window",
    "check of a window",
    "fleet sum",
    "fleet mean",
    "fleet ratio",
    "fleet sum of a window",
];

/// Random recordings are worth what they reach: every function with a value, and every reason.
#[test]
fn everything_is_reached() {
    let mut runner = TestRunner::deterministic();
    let mut reached = BTreeSet::new();
    for _ in 0..150 {
        let (file, history) =
            (family::files(), stream::histories()).new_tree(&mut runner).unwrap().current();
        let rules = read(&file).unwrap();
        for row in reference::evaluate(&rules, &history) {
            let function = rules.rules[row.rule].function.as_str();
            let fleet = if row.node.is_none() { "fleet " } else { "" };
            let window = if row.start_us.is_some() { " of a window" } else { "" };
            reached.insert(match row.withheld {
                None => format!("{fleet}{function}{window}"),
                Some(reason) => format!("{reason}"),
            });
        }
    }
    for expected in REACHED.into_iter().chain(Withheld::ALL.map(Withheld::as_str)) {
        assert!(reached.contains(expected), "{expected} is not among {reached:?}");
    }
}

/// Rows that are not the same to the bit, in any order: a double is written so that it reads back as itself.
fn difference(expected: &[Derived], found: &[Derived]) -> Option<String> {
    let lines = |rows: &[Derived]| -> BTreeSet<String> {
        rows.iter().map(|row| format!("{row:?}")).collect()
    };
    let (expected_lines, found_lines) = (lines(expected), lines(found));
    let missing: Vec<_> = expected_lines.difference(&found_lines).take(4).collect();
    let wrong: Vec<_> = found_lines.difference(&expected_lines).take(4).collect();
    let counts = (expected.len(), found.len());
    let is_same = missing.is_empty() && wrong.is_empty() && counts.0 == counts.1;
    (!is_same).then(|| format!("{counts:?} rows, expected {missing:#?}\nfound {wrong:#?}"))
}

/// What is wrong with a row on its own.
fn sound(row: &Derived) -> Option<&'static str> {
    let ordered = |low: Option<f64>, high: Option<f64>| low.zip(high).is_none_or(|(l, h)| l <= h);
    let wrong = [
        (row.value.is_some() != row.state.is_ok(), "a value goes with ok"),
        (row.value.is_some() == row.withheld.is_some(), "a value or a reason"),
        (row.value.is_some_and(|value| !value.is_finite()), "a value is finite"),
        (!ordered(row.low, row.value), "not below the least"),
        (!ordered(row.value, row.high), "not above the most"),
        (!(0.0..=1.0).contains(&row.coverage), "a share"),
        (row.members_reporting > row.members_expected, "of those expected"),
        (row.members_expected == 0, "of somebody"),
        (row.start_us.is_some_and(|start_us| start_us >= row.at_us), "a window has a length"),
    ];
    wrong.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, what)| what)
}
