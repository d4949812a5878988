//! Results of rules on their way to the run, behind the scrapes that they follow from.
//!
//! Scrapes come first: what rules cannot keep up with waits, and when too much waits they give up, because files
//! give their results anew and nothing gives a scrape anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wattscribe_rules::rule::Timing;
use wattscribe_table::{
    DerivedRow, RECORD_BYTES_MAX, RuleMember, RuleRecord, RunWriter, ScrapeRecord,
};

use crate::live_rules::LiveRules;
use crate::newest::Newest;
use crate::write::Disk;

/// Results that wait for one record of the journal.
const RESULTS_PER_RECORD: usize = 16 * 1024;

/// What one record takes: a quarter of what it may, as sizes are estimates.
const BYTES_PER_RECORD: usize = (RECORD_BYTES_MAX / 4) as usize;

/// What results may take that wait while the disk takes none.
const BYTES_WAITING_MAX: usize = 512 * 1024 * 1024;

/// Rows of scrapes that may wait for rules: some hundred megabytes.
const ROWS_WAITING_MAX: usize = 1 << 21;

/// How long the end of a recording waits for its rules.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// What a result or a member takes beside its texts: numbers, and the lengths of the texts.
const FIXED_BYTES: usize = 160;

/// The rules of a recording, where it has any.
pub(crate) struct Results {
    rules: Option<(LiveRules, Arc<Newest>)>,
    /// Scrapes that are recorded and not evaluated.
    waiting: VecDeque<ScrapeRecord>,
    rows_waiting: usize,
    disk: Disk,
}

impl Results {
    pub(crate) fn new(rules: Option<(LiveRules, Arc<Newest>)>) -> Self {
        let disk = Disk::new("cannot record results of rules: tried again");
        Self { rules, waiting: VecDeque::new(), rows_waiting: 0, disk }
    }

    /// Takes a scrape that is recorded. It waits for [`Results::catch_up`].
    pub(crate) fn take(&mut self, record: ScrapeRecord) {
        if self.rules.is_none() {
            return;
        }
        self.rows_waiting += rows_of(&record);
        self.waiting.push_back(record);
        if self.rows_waiting > ROWS_WAITING_MAX {
            self.give_up();
        }
    }

    /// Whether scrapes wait, or the recording that is continued is not taken in yet.
    pub(crate) fn are_behind(&self) -> bool {
        let tail_is_open = self.rules.as_ref().is_some_and(|(rules, _)| rules.is_behind());
        tail_is_open || !self.waiting.is_empty()
    }

    /// Takes in one piece of the recording that is continued, or one scrape.
    pub(crate) fn catch_up(&mut self) {
        let Some((rules, _)) = &mut self.rules else { return };
        if rules.is_behind() {
            if let Err(error) = rules.catch_up() {
                tracing::warn!(%error, "rules go on without what cannot be read");
            }
        } else if let Some(record) = self.waiting.pop_front() {
            self.rows_waiting -= rows_of(&record);
            rules.take(record);
        }
    }

    /// Writes, when there is enough for a record.
    pub(crate) fn write_many(&mut self, run: &mut RunWriter) -> bool {
        let rules = self.rules.as_mut();
        let are_many =
            rules.is_some_and(|(rules, _)| rules.out().derived.len() >= RESULTS_PER_RECORD);
        are_many && self.write(run)
    }

    /// Writes what there is. Returns whether that was anything.
    pub(crate) fn write(&mut self, run: &mut RunWriter) -> bool {
        let Some((rules, newest)) = &mut self.rules else { return false };
        let timing = rules.timing();
        let mut has_written = false;
        while !rules.out().is_empty() {
            rules.note_progress();
            let record = first_of(rules.out(), timing);
            let bytes = record.derived.iter().map(bytes_of).sum::<usize>();
            if bytes as u64 > RECORD_BYTES_MAX / 2 {
                // One instant that no record holds would hold up all that come after it.
                tracing::error!(
                    bytes,
                    "the results of one instant are dropped: no record holds so much"
                );
                continue;
            }
            if self.disk.took(run.append_rules(&record)).is_none() {
                put_back(rules.out(), record);
                break;
            }
            newest.take(record.derived);
            has_written = true;
        }
        let waiting = rules.out().derived.iter().map(bytes_of).sum::<usize>();
        if waiting > BYTES_WAITING_MAX {
            tracing::error!(
                "results of rules are dropped: `wattscribe rules eval` makes them anew"
            );
            *rules.out() = RuleRecord::default();
        }
        has_written
    }

    /// Writes how far the rules came, where no result said so.
    pub(crate) fn write_progress(&mut self, run: &mut RunWriter) {
        self.write(run);
        let Some((rules, _)) = &mut self.rules else { return };
        if rules.out().is_empty() {
            rules.note_progress();
            let record = std::mem::take(rules.out());
            // It is worth nothing but time when a recording goes on.
            let _ = self.disk.took(run.append_rules(&record));
        }
    }

    /// Takes in what is left, and writes what the last scrapes settle by being the last.
    pub(crate) fn finish(&mut self, run: &mut RunWriter) {
        let begun = Instant::now();
        while self.are_behind() {
            if begun.elapsed() > FINISH_MAX {
                self.give_up();
                return;
            }
            self.catch_up();
            self.write_many(run);
        }
        if let Some((rules, _)) = &mut self.rules {
            rules.finish();
        }
        self.write_progress(run);
    }

    /// Leaves the rest of the recording to files.
    fn give_up(&mut self) {
        tracing::error!(
            "rules cannot keep up with the scrapes and stop: `wattscribe rules eval` makes their results"
        );
        self.rules = None;
        self.waiting = VecDeque::new();
        self.rows_waiting = 0;
    }
}

fn rows_of(record: &ScrapeRecord) -> usize {
    1 + record.cpu.len() + record.readings.len()
}

/// Takes out what fits into one record. Results of one node and instant are never parted: a recorder that goes on
/// takes an instant of which it finds one result for done.
fn first_of(out: &mut RuleRecord, timing: Timing) -> RuleRecord {
    let mut bytes = 0;
    let members = out.members.iter().take_while(|member| {
        let is_first = bytes == 0;
        bytes += bytes_of_member(member);
        is_first || bytes <= BYTES_PER_RECORD
    });
    let members = members.count();
    let later_members = out.members.split_off(members);
    let fits = if later_members.is_empty() { fitting(&out.derived, timing, bytes) } else { 0 };
    let later = out.derived.split_off(fits);
    RuleRecord {
        // Only the last says how far the rules came.
        until_us: out.until_us.take().filter(|_| later.is_empty() && later_members.is_empty()),
        derived: std::mem::replace(&mut out.derived, later),
        members: std::mem::replace(&mut out.members, later_members),
    }
}

/// How many of these results go into a record that holds so many bytes: whole instants, and one at least.
fn fitting(results: &[DerivedRow], timing: Timing, mut bytes: usize) -> usize {
    let instant = |row: &DerivedRow| timing.settled_us(row.timestamp_us, row.start_us.is_some());
    let mut whole = 0;
    for (place, row) in results.iter().enumerate() {
        let begins = place > 0 && {
            let before = &results[place - 1];
            before.node != row.node || instant(before) != instant(row)
        };
        if begins {
            whole = place;
        }
        bytes += bytes_of(row);
        if whole > 0 && (place >= RESULTS_PER_RECORD || bytes > BYTES_PER_RECORD) {
            return whole;
        }
    }
    results.len()
}

fn bytes_of(row: &DerivedRow) -> usize {
    let texts = [Some(&row.rule), row.node.as_ref(), Some(&row.labels), row.reason.as_ref()];
    FIXED_BYTES + texts.into_iter().flatten().map(String::len).sum::<usize>()
}

fn bytes_of_member(member: &RuleMember) -> usize {
    FIXED_BYTES + member.target.len() + member.metric.len() + member.labels.len()
}

fn put_back(out: &mut RuleRecord, mut first: RuleRecord) {
    first.derived.append(&mut out.derived);
    first.members.append(&mut out.members);
    *out = first;
}

#[cfg(test)]
mod tests {
    use wattscribe_rules::State;

    use super::*;

    fn row(node: &str, at_s: i64, labels: usize) -> DerivedRow {
        DerivedRow {
            timestamp_us: at_s * 1_000_000,
            start_us: None,
            window: None,
            rule: "node:a:sum".to_owned(),
            node: Some(node.to_owned()),
            labels: "x".repeat(labels),
            value: Some(1.0),
            unit: "W".to_owned(),
            boundary: "node".to_owned(),
            state: State::Ok,
            reason: None,
            low: None,
            high: None,
            counter: None,
            spread: None,
            coverage: 1.0,
            members_expected: 1,
            members_reporting: 1,
            rule_hash: "0".repeat(16),
            simulated: false,
        }
    }

    /// Cuts these results into records, and compares how many go into each.
    fn check(results: Vec<DerivedRow>, expected: &[usize]) {
        let mut out = RuleRecord { derived: results, members: Vec::new(), until_us: None };
        let mut found = Vec::new();
        while !out.is_empty() {
            out.until_us = Some(1);
            let record = first_of(&mut out, Timing::default());
            assert_eq!(record.until_us.is_some(), out.is_empty(), "only the last says how far");
            found.push(record.derived.len());
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn an_instant_of_a_node_is_in_one_record() {
        let of = |node: &str, at_s, rows: usize| vec![row(node, at_s, 0); rows];
        check(of("a", 1, 3), &[3]);
        // More than a record usually has, of one instant.
        check(of("a", 1, 40_000), &[40_000]);
        check([of("a", 1, 10_000), of("a", 2, 10_000)].concat(), &[10_000, 10_000]);
        check([of("a", 1, 10_000), of("b", 1, 10_000)].concat(), &[10_000, 10_000]);
        let small = (0..20_000).map(|at_s| row("a", at_s, 0)).collect();
        check(small, &[16_384, 3_616]);
    }

    #[test]
    fn long_labels_take_records_of_their_own() {
        let wide = (0..100).map(|at_s| row("a", at_s, 250_000)).collect();
        check(wide, &[67, 33]);
    }

    #[test]
    fn members_come_before_results_and_are_cut_as_well() {
        let member = RuleMember {
            timestamp_us: 0,
            target: "a".to_owned(),
            metric: "m".to_owned(),
            labels: "x".repeat(250_000),
            simulated: false,
        };
        let (derived, members) = (vec![row("a", 1, 0)], vec![member; 100]);
        let mut out = RuleRecord { derived, members, until_us: None };
        let first = first_of(&mut out, Timing::default());
        assert_eq!((first.members.len(), first.derived.len()), (67, 0));
        let second = first_of(&mut out, Timing::default());
        assert_eq!((second.members.len(), second.derived.len()), (33, 1));
        assert!(out.is_empty());
    }
}
