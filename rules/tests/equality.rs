//! Random rules over random recordings: the engine's rows are those of the reference, to the bit, however it is fed.
#![allow(clippy::unwrap_used, reason = "the helpers of a test fail it by panicking")]

mod family;
mod history;
mod reference;
mod stream;

use proptest::prelude::*;
use wattscribe_rules::engine::Derived;
use wattscribe_rules::rule::read;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// What every row of the reference keeps, whatever the rule: it is the yardstick, so it is measured first.
    #[test]
    fn rows_are_sound(file in family::files(), history in stream::histories()) {
        let rules = read(&file).unwrap_or_else(|errors| panic!("{file}\n{errors:#?}"));
        for row in reference::evaluate(&rules, &history) {
            prop_assert_eq!(sound(&row), None, "{:?}", row);
        }
    }
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
