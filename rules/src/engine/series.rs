//! The readings of one series that an instant may still see: few, however long the recording.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::clock::FAR_US;
use crate::state::State;

/// A reading as it waits for its instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Waiting {
    /// The first microsecond at or after the time of the reading.
    pub(crate) at_us: i64,
    /// Its scrape, counted from 1.
    pub(crate) scrape: u64,
    pub(crate) value: Result<f64, State>,
}

/// Why a reading is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It is older than the look-back.
    Stale,
    /// A later scrape failed.
    ScrapeFailed,
    /// A later page lacks the series.
    NotOnPage,
    /// Its scrape has a reading of another series of the same member.
    Twice,
    /// It came without a number, in this state.
    Withheld(State),
    /// Its number is not finite, or is zero or below where that is no reading.
    NoNumber,
    /// A later scrape has a reading of another series of the same member.
    Superseded,
}

impl LeftOut {
    /// The state of a member whose reading is left out for this.
    pub const fn state(self) -> State {
        match self {
            LeftOut::Stale => State::Stale,
            LeftOut::ScrapeFailed | LeftOut::NotOnPage | LeftOut::NoNumber => State::Unavailable,
            LeftOut::Twice => State::Disagree,
            LeftOut::Withheld(state) => state,
            LeftOut::Superseded => State::Unavailable,
        }
    }
}

/// The number of a reading where it has one: finite, and above zero where a zero is no reading.
pub(crate) fn number(value: Result<f64, State>, zero_is_missing: bool) -> Result<f64, LeftOut> {
    match value {
        Err(state) => Err(LeftOut::Withheld(state)),
        Ok(number) if !number.is_finite() || (zero_is_missing && number <= 0.0) => {
            Err(LeftOut::NoNumber)
        }
        Ok(number) => Ok(number),
    }
}

/// What an instant sees of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) at_us: i64,
    pub(crate) scrape: u64,
    pub(crate) value: Result<f64, State>,
    /// Why the reading is not seen, before it is asked whether it has a number.
    pub(crate) left_out: Option<LeftOut>,
}

/// A stretch of pages that lack the series.
#[derive(Clone, Copy, Debug)]
struct Lack {
    /// The first of them.
    scrape: u64,
    /// When the earliest of them was asked for.
    begun_us: i64,
}

/// A member of one rule that gathers the series' readings over windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feed {
    pub(crate) rule: usize,
    pub(crate) group: usize,
    pub(crate) input: usize,
    pub(crate) member: usize,
}

/// One series of one node.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) metric: Arc<str>,
    pub(crate) labels: Arc<str>,
    /// Whether a page that does not have it says that it is gone.
    pub(crate) is_of_page: bool,
    pub(crate) feeds: Vec<Feed>,
    /// Whether an instant sees it.
    pub(crate) is_seen: bool,
    /// The time of its earliest reading.
    pub(crate) first_us: i64,
    /// What the instant that is worked out sees of it.
    pub(crate) seen: Option<Seen>,
    waiting: VecDeque<Waiting>,
    lacks: VecDeque<Lack>,
    is_lacking: bool,
    /// The latest scrape whose page had it, and the latest known to lack it.
    present: u64,
    lacked: u64,
}

impl Series {
    pub(crate) fn new(metric: &str, labels: &str, is_of_page: bool) -> Series {
        Series {
            metric: metric.into(),
            labels: labels.into(),
            is_of_page,
            feeds: Vec::new(),
            is_seen: false,
            first_us: i64::MAX,
            seen: None,
            waiting: VecDeque::new(),
            lacks: VecDeque::new(),
            is_lacking: false,
            present: 0,
            lacked: 0,
        }
    }

    /// Has it read long ago, before every reading that comes.
    pub(crate) fn remember(&mut self) {
        self.first_us = -FAR_US;
        let value = Err(State::Stale);
        self.waiting.push_front(Waiting { at_us: -FAR_US, scrape: 0, value });
    }

    /// Takes a reading of the latest scrape; a second one of it takes the number away. `next_us` is the next instant.
    pub(crate) fn push(
        &mut self,
        scrape: u64,
        at_us: i64,
        value: Result<f64, State>,
        next_us: i64,
    ) {
        self.first_us = self.first_us.min(at_us);
        self.present = scrape;
        self.is_lacking = false;
        if !self.is_seen {
            return;
        }
        if let Some(last) = self.waiting.back_mut().filter(|last| last.scrape == scrape) {
            last.value = Err(State::Disagree);
            return;
        }
        // What is past already is seen by no instant that this one does not hide it from.
        while self.waiting.back().is_some_and(|last| last.at_us.max(at_us) <= next_us) {
            self.waiting.pop_back();
        }
        self.waiting.push_back(Waiting { at_us, scrape, value });
    }

    /// Notes a page without it that was asked for at `begun_us`, unless it was on it.
    pub(crate) fn note_page(&mut self, scrape: u64, begun_us: i64) {
        if !self.is_of_page || !self.is_seen || self.present == scrape {
            return;
        }
        match self.lacks.back_mut().filter(|_| self.is_lacking) {
            Some(lack) => lack.begun_us = lack.begun_us.min(begun_us),
            // The pages that follow the first say no more: there is no reading between them.
            None if self.is_lacking => {}
            None => self.lacks.push_back(Lack { scrape, begun_us }),
        }
        self.is_lacking = true;
    }

    /// Chooses what an instant sees. `failed` is the latest failed scrape that began at or before it.
    pub(crate) fn see(&mut self, instant_us: i64, look_back_us: i64, failed: u64) {
        self.lacks.retain(|lack| {
            let is_past = lack.begun_us <= instant_us;
            if is_past {
                self.lacked = self.lacked.max(lack.scrape);
            }
            !is_past
        });
        let Some(latest) = self.waiting.iter().rposition(|reading| reading.at_us <= instant_us)
        else {
            self.seen = None;
            return;
        };
        self.waiting.drain(..latest);
        let Waiting { at_us, scrape, value } = self.waiting[0];
        let left_out = if at_us <= instant_us - look_back_us {
            Some(LeftOut::Stale)
        } else if scrape < failed {
            Some(LeftOut::ScrapeFailed)
        } else {
            (scrape < self.lacked).then_some(LeftOut::NotOnPage)
        };
        self.seen = Some(Seen { at_us, scrape, value, left_out });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        Series { is_seen: true, ..Series::new("m", "", true) }
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let mut series = series();
        // A clock that was set back: scrapes come, and no instant is settled.
        for scrape in 1..1_000 {
            series.push(scrape, scrape as i64, Ok(1.0), 1_000_000);
        }
        assert_eq!(series.waiting.len(), 1);
        // Pages with it and without it in turn.
        for scrape in 1_000..2_000 {
            series.note_page(scrape, scrape as i64);
            if scrape % 2 == 0 {
                series.see(scrape as i64, 10, 0);
            }
        }
        assert!(series.lacks.len() <= 1, "{:?}", series.lacks);
        assert_eq!(series.seen.and_then(|seen| seen.left_out), Some(LeftOut::Stale));
    }

    #[test]
    fn why_a_reading_is_not_seen() {
        type Setting = fn(&mut Series);
        let cases: &[(Setting, u64, Option<LeftOut>)] = &[
            (|_| {}, 0, None),
            (|_| {}, 1, None),
            (|_| {}, 2, Some(LeftOut::ScrapeFailed)),
            (|series| series.note_page(2, 100), 0, Some(LeftOut::NotOnPage)),
            // A page that is asked for later does not tell of now, and one that has it does not tell that it is gone.
            (|series| series.note_page(2, 101), 0, None),
            (|series| series.note_page(1, 100), 0, None),
            (|series| series.push(2, 101, Ok(7.0), 50), 0, None),
        ];
        for (number, (set, failed, expected)) in cases.iter().enumerate() {
            let mut series = series();
            series.push(1, 95, Ok(5.0), 50);
            set(&mut series);
            series.see(100, 10, *failed);
            let seen = series.seen.unwrap();
            assert_eq!((seen.value, seen.left_out), (Ok(5.0), *expected), "case {number}");
            series.see(105, 10, 0);
            let stale =
                series.seen.filter(|seen| seen.value == Ok(5.0)).and_then(|seen| seen.left_out);
            assert_eq!(stale.is_some(), series.present == 1, "case {number}");
        }
    }

    #[test]
    fn two_on_one_page_are_none() {
        let mut series = series();
        series.push(1, 95, Ok(5.0), 50);
        series.push(1, 96, Ok(5.0), 50);
        series.see(100, 10, 0);
        assert_eq!(series.seen.map(|seen| seen.value), Some(Err(State::Disagree)));
    }
}
