//! Rules live and over the same files, on recordings made up of hours: ended and killed recorders, targets that come and
//! go, failed and missing scrapes, readings that are late, withheld or gone. What a recorder derived, and what its files
//! give, are the same rows to the bit.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case fails")]

mod recorded;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use wattscribe_rules::engine::Derived;
use wattscribe_rules::rule::RuleSet;
use wattscribe_table::{
    DerivedRow, DerivedRows, FleetRules, RecordedUntil, RuleMember, RunReader, TargetRules,
};

use crate::recorded::Recorded;
use crate::session::{Session, What, plain, session, told};

/// What the files give, in one go.
fn evaluated(directory: &Path, rules: &Arc<RuleSet>) -> Vec<DerivedRow> {
    let pieces = RunReader::open(directory).unwrap().pieces().unwrap();
    let sessions = pieces.sessions().unwrap();
    let rows = DerivedRows::of(Arc::clone(rules));
    let mut fleet = FleetRules::new(Arc::clone(rules), &[]);
    let mut targets = BTreeMap::new();
    for name in sessions.targets() {
        let id = fleet.target(name);
        fleet.end_target(id);
        targets.insert(name, (id, TargetRules::new(Arc::clone(rules), name, &[])));
    }
    let mut out = Vec::new();
    for place in 0..pieces.len() {
        for name in sessions.beginning_at(place).into_iter().flatten() {
            fleet.begin_target(targets[name].0);
        }
        for of in &pieces.read(place, &|_| true).unwrap().targets {
            let (id, target) = targets.get_mut(&*of.target).unwrap();
            target.take(of, i64::MIN);
            let ends = sessions.ends_at(place, &of.target);
            if ends {
                target.finish();
            }
            give(
                &rows,
                target,
                |results, target| {
                    fleet.take(*id, results, target.progress(), target.simulated_since_us());
                },
                &mut out,
            );
            if ends {
                fleet.end_target(*id);
            }
            out.extend(fleet.derived(RecordedUntil::NOTHING));
        }
    }
    for (id, target) in targets.values_mut() {
        target.finish();
        give(
            &rows,
            target,
            |results, target| {
                fleet.take(*id, results, target.progress(), target.simulated_since_us());
            },
            &mut out,
        );
    }
    fleet.finish();
    out.extend(fleet.derived(RecordedUntil::NOTHING));
    out
}

fn give(
    rows: &DerivedRows,
    target: &mut TargetRules,
    mut fleet: impl FnMut(&[Derived], &TargetRules),
    out: &mut Vec<DerivedRow>,
) {
    let mut results = Vec::new();
    rows.take(target, RecordedUntil::NOTHING, out, &mut results);
    fleet(&results, target);
}

/// A result to the bit.
fn to_the_bit(row: &DerivedRow) -> String {
    let bits = |number: Option<f64>| number.map(f64::to_bits);
    let numbers = [row.value, row.low, row.high, row.counter, row.spread, Some(row.coverage)];
    format!("{row:?} {:?}", numbers.map(bits))
}

fn sorted(rows: impl IntoIterator<Item = DerivedRow>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| to_the_bit(&row)).collect();
    rows.sort_unstable();
    rows
}

fn check(sessions: &[Session]) -> Vec<DerivedRow> {
    let mut recorded = Recorded::new();
    sessions.iter().for_each(|session| recorded.record(session));
    let run = RunReader::open(recorded.directory.path()).unwrap();
    let live: Vec<DerivedRow> = run.rows().unwrap().map(Result::unwrap).collect();
    let expected = evaluated(recorded.directory.path(), &recorded.rules);
    let (found, expected_rows) = (sorted(live), sorted(expected.iter().cloned()));
    let missing: Vec<_> =
        expected_rows.iter().filter(|row| found.binary_search(row).is_err()).collect();
    let more: Vec<_> =
        found.iter().filter(|row| expected_rows.binary_search(row).is_err()).collect();
    assert!(
        missing.is_empty() && more.is_empty() && found.len() == expected_rows.len(),
        "files only: {missing:#?}\nlive only: {more:#?}\n{}",
        told(sessions)
    );
    let members: Vec<RuleMember> = run.rows().unwrap().map(Result::unwrap).collect();
    let mut once: Vec<_> = members.iter().map(|of| (&of.target, &of.metric, &of.labels)).collect();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), members.len(), "a series is met twice: {members:#?}");
    expected
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn live_and_files_give_the_same(sessions in vec(session(), 1..6)) {
        // The last one ends in order: what a killed recorder owes is paid when it goes on.
        let mut sessions = sessions;
        if let Some(last) = sessions.last_mut() {
            last.killed = false;
        }
        check(&sessions);
    }
}

/// It may be a node with anything, whether or not it is still polled, and however long ago it was asked.
#[test]
fn a_target_that_never_answered_is_missing_from_the_fleet() {
    let failed = |polled, pause_s, seconds| {
        let mut session = plain(polled, pause_s, seconds, false);
        session.seconds.iter_mut().flatten().for_each(|second| second.what = What::Failed);
        session
    };
    // A page without anything is an answer.
    let mut empty = failed(4, 1, 2);
    empty.seconds[1][2].what = What::Empty;
    check(&[empty, plain(1, 300, 4, false), plain(1, 1, 1, false)]);
    let cases: [&[Session]; 4] = [
        // Left out later, and before the tail.
        &[failed(2, 1, 1), plain(4, 600, 3, true), plain(5, 3000, 12, false)],
        // Polled again, also after a recording without it.
        &[failed(2, 1, 4), plain(4, 600, 3, false), plain(4, 600, 6, false), failed(6, 3000, 12)],
        &[failed(2, 1, 4), plain(4, 600, 3, false), plain(6, 3000, 12, false)],
        // Not known for long.
        &[failed(2, 1, 4), plain(4, 3, 3, true), plain(5, 5, 12, false)],
    ];
    for sessions in cases {
        let rows = check(sessions);
        let joules = rows.iter().filter(|row| row.rule == "fleet:joules:sum");
        assert!(joules.clone().next().is_some(), "{}", told(sessions));
    }
    let rows = check(cases[0]);
    let fleet = rows.iter().filter(|row| row.rule == "fleet:joules:sum");
    assert!(
        fleet.clone().all(|row| row.value.is_none()),
        "{fleet:?}",
        fleet = fleet.collect::<Vec<_>>()
    );
}

/// Files do not know that it was polled, so nothing waits for it.
#[test]
fn a_target_without_a_scrape_is_left_out_of_its_recording() {
    let mut silent = plain(7, 1, 3, false);
    silent.seconds.iter_mut().for_each(|nodes| nodes[2].what = What::Missing);
    let rows = check(&[plain(5, 1, 1, false), silent.clone(), plain(7, 2, 3, false)]);
    assert!(rows.iter().any(|row| row.node.is_none()));
    check(&[plain(5, 1, 1, false), silent.clone()]);
    check(&[silent.clone()]);
    // Nor do they know of a recording that has none at all.
    let mut first = plain(3, 1, 2, false);
    first.seconds[1][1].what = What::Missing;
    silent.seconds.iter_mut().flatten().for_each(|second| second.what = What::Missing);
    check(&[first.clone(), Session { polled: 6, ..silent.clone() }]);
    check(&[first, Session { polled: 6, ..silent }, plain(7, 2, 3, false)]);
}

#[test]
fn a_node_that_was_there_long_ago_is_missing_from_the_fleet() {
    // Its only result over a window follows from its end, which a killed recorder did not see.
    let sessions = [plain(1, 1, 9, true), plain(4, 663, 21, true), plain(6, 2, 5, false)];
    let rows = check(&sessions);
    let fleet = rows.iter().filter(|row| row.rule == "fleet:joules:sum");
    assert!(fleet.clone().count() > 3);
    let last = fleet.max_by_key(|row| row.timestamp_us).unwrap();
    assert_eq!((last.members_expected, last.value), (2, None), "{last:?}");
    // Killed twice before anything was written.
    check(&[
        plain(1, 1, 9, true),
        plain(4, 663, 1, true),
        plain(4, 9000, 1, true),
        plain(6, 2, 20, false),
    ]);
}

/// Results that the first rules gave stay, and the others follow from the second: none is lost, none is there twice.
#[test]
fn a_rule_file_that_changes_between_two_recordings_loses_no_result() {
    let instant =
        |row: &DerivedRow| (row.rule.clone(), row.labels.clone(), row.start_us, row.timestamp_us);
    for (first, second) in [("3s", "30s"), ("30s", "3s")] {
        for (pause_s, killed) in [(1, false), (1, true), (7, false), (7, true), (40, true)] {
            let mut recorded = Recorded::new();
            recorded.set_gap(first);
            recorded.record(&plain(3, 1, 24, killed));
            recorded.set_gap(second);
            recorded.record(&plain(3, pause_s, 50, false));
            let run = RunReader::open(recorded.directory.path()).unwrap();
            let live: Vec<DerivedRow> = run.rows().unwrap().map(Result::unwrap).collect();
            let of_sockets = live.iter().filter(|row| row.rule == "node:watts:sum");
            let hashes: BTreeSet<&str> = of_sockets.map(|row| &*row.rule_hash).collect();
            let sorted = |rows: &[DerivedRow]| {
                let mut instants: Vec<_> = rows.iter().map(instant).collect();
                instants.sort_unstable();
                instants
            };
            let expected = evaluated(recorded.directory.path(), &recorded.rules);
            let case = format!("{first} to {second}, pause {pause_s} s, killed {killed}");
            assert_eq!(sorted(&live), sorted(&expected), "{case}");
            assert_eq!(hashes.len(), 2, "{case}: {hashes:?}");
        }
    }
}
