//! What a recorder that continues a recording must know of it: the end of it, scrape by scrape, and of what is before
//! only names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use wattscribe_rules::rule::RuleSet;

use super::pieces::Pieces;
use super::recorded_until::RecordedUntil;
use super::sessions::Sessions;
use crate::{DerivedTime, ReadError, RuleMember, RunReader};

/// A reading is at most this long before its scrape, twice over: a page shows readings of a minute ago.
const READING_AGE_MAX: Duration = Duration::from_secs(120);

/// The most pieces that are taken in again: some minutes of work at the worst, which scrapes wait for in memory.
const PIECES_MAX: usize = 256;

/// The end of a recording, for rules that go on.
#[derive(Clone, Debug)]
pub struct RunTail {
    /// The pieces that hold it.
    pub pieces: Pieces,
    /// When it begins, in Unix microseconds: what began before is not taken.
    pub from_us: i64,
    /// Whether it had to be cut: results are missing before it.
    pub is_cut: bool,
    /// Only what is settled after this instant follows from the tail alone, in Unix microseconds.
    pub given_us: i64,
    /// The series that were met before it, and the groups that had results up to [`RunTail::given_us`].
    pub members: Vec<RuleMember>,
    /// Targets that gave a page before it, as far as no series says so.
    pub paged: BTreeSet<String>,
    /// Which recordings the pieces are of, with the one that now begins.
    pub sessions: Sessions,
    /// How far results are recorded: of each node, and of the fleet under `None`.
    recorded: BTreeMap<Option<String>, RecordedUntil>,
    /// The members that were met later and are recorded: target, metric and labels.
    pub known: HashSet<(String, String, String)>,
}

impl RunTail {
    /// Reads what these rules need of a run whose journal is in Parquet. `None` when nothing was recorded yet. These
    /// targets are polled from now on, every `interval`. `had_rules` says whether the run ever was recorded with rules.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(
        run: &RunReader,
        rules: &RuleSet,
        targets: &[&str],
        interval: Duration,
        had_rules: bool,
    ) -> Result<Option<RunTail>, ReadError> {
        let all = run.pieces()?.archived();
        let Some(last_us) = all.last_us()? else { return Ok(None) };
        // A recorder that was killed while it took in a tail, and killed again, left more to do than its own end.
        let until_us = match all.rules_until_us()? {
            Some(until_us) => until_us.min(last_us),
            None if had_rules => i64::MIN,
            None => last_us,
        };
        let span_us = whole_us(rules.reach() + READING_AGE_MAX + interval);
        let mut from_us = until_us.saturating_sub(span_us.saturating_mul(2));
        let mut pieces = all.clone().since(from_us)?;
        let is_cut = pieces.len() > PIECES_MAX;
        if is_cut {
            pieces = pieces.last(PIECES_MAX);
            from_us = pieces.first_us()?.unwrap_or(from_us);
        }
        let mut sessions = pieces.sessions()?;
        sessions.go_on_with(targets);
        let mut tail = RunTail {
            pieces,
            sessions,
            from_us,
            given_us: from_us.saturating_add(span_us),
            is_cut,
            members: Vec::new(),
            paged: BTreeSet::new(),
            recorded: BTreeMap::new(),
            known: HashSet::new(),
        };
        for member in run.rows::<RuleMember>()? {
            let member = member?;
            let is_result = rules.rules.iter().any(|rule| rule.name == member.metric);
            // What the tail shows once more is met there.
            if member.timestamp_us < from_us || is_result && member.timestamp_us <= tail.given_us {
                tail.members.push(member);
            } else {
                tail.known.insert((member.target, member.metric, member.labels));
            }
        }
        for row in run.rows_since::<DerivedTime>("timestamp", from_us)? {
            let DerivedTime { timestamp_us, start_us, node } = row?;
            let recorded = tail.recorded.entry(node).or_insert(RecordedUntil::NOTHING);
            recorded.note(timestamp_us, start_us.is_some());
        }
        tail.find_paged(&all, targets)?;
        Ok(Some(tail))
    }

    /// Looks for pages before the tail of targets of which no series is known, in the latest pieces first.
    fn find_paged(&mut self, all: &Pieces, targets: &[&str]) -> Result<(), ReadError> {
        let (asked, of_series): (Vec<_>, Vec<_>) =
            self.members.iter().partition(|member| member.is_target());
        let mut sought: BTreeSet<&str> = targets.iter().copied().collect();
        sought.extend(asked.iter().map(|member| member.target.as_str()));
        for member in of_series {
            sought.remove(member.target.as_str());
        }
        // The first piece of the tail may begin before the tail does.
        let mut place = all.len().min(all.len() - self.pieces.len() + 1);
        while place > 0 && !sought.is_empty() {
            place -= 1;
            for of in &all.scrapes(place)?.targets {
                let mut before = of.scrapes.iter().filter(|of| of.start_us < self.from_us);
                if before.any(|scrape| scrape.is_ok) && sought.remove(&*of.target) {
                    self.paged.insert((*of.target).to_owned());
                }
            }
        }
        Ok(())
    }

    /// How far results are recorded, of a node or of the fleet.
    pub fn recorded(&self, node: Option<&str>) -> RecordedUntil {
        let recorded = self.recorded.get(&node.map(str::to_owned)).copied();
        recorded.unwrap_or(RecordedUntil::NOTHING)
    }
}

fn whole_us(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
