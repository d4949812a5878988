//! When a source that gives no socket's power is given up for another.
//!
//! Pure: a timer looks, and this counts. What counts is time in which reads were possible. A process that was
//! stopped and a host that slept have read nothing, and that is not the source's fault. Before a source is given
//! up it is asked once more, because one that failed for long is asked at long intervals only.

use std::time::Duration;

use crate::clock::Now;

/// Looks come every second. After one that came later than this, nobody knows what could be read meanwhile.
const LATE: Duration = Duration::from_secs(5);

/// How long a source may be dead.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long it may give nothing before it is asked once more.
    pub dead_after: Duration,
    /// How long it may take to answer.
    pub answer: Duration,
    /// How long it may take while it is seen to try.
    pub trying: Duration,
}

/// How the source stands at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A socket's power is fresh.
    Alive,
    /// There is none.
    Silent,
    /// There is none, and somebody is busy with getting it: a library is being opened.
    Trying,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Wait,
    /// It is to be asked at once, whatever pause it has.
    AskOnceMore,
    /// Another source is to be looked for.
    Leave,
}

/// How the source of the CPUs goes down.
#[derive(Debug)]
pub struct Decline {
    looked_at: Now,
    dead_for: Duration,
    is_asked: bool,
}

impl Decline {
    /// A source that is alive.
    pub fn new(now: Now) -> Self {
        Self { looked_at: now, dead_for: Duration::ZERO, is_asked: false }
    }

    /// Looks once. After [`Step::Leave`] the count begins anew, for whichever source there is then.
    pub fn look(&mut self, sign: Sign, now: Now, patience: Patience) -> Step {
        let since = now.since(&self.looked_at);
        self.looked_at = now;
        if sign == Sign::Alive || since > LATE {
            *self = Self::new(now);
            return Step::Wait;
        }
        self.dead_for += since;
        if self.dead_for < patience.dead_after {
            return Step::Wait;
        }
        if !std::mem::replace(&mut self.is_asked, true) {
            return Step::AskOnceMore;
        }
        let answer = if sign == Sign::Trying { patience.trying } else { patience.answer };
        if self.dead_for < patience.dead_after + answer {
            return Step::Wait;
        }
        *self = Self::new(now);
        Step::Leave
    }
}

#[cfg(test)]
mod tests {
    use super::Sign::{Alive, Silent, Trying};
    use super::*;

    const PATIENCE: Patience = Patience {
        dead_after: Duration::from_secs(60),
        answer: Duration::from_secs(3),
        trying: Duration::from_secs(10),
    };

    /// Looks every second through spells of (seconds, what is seen); a spell that begins with a gap is one in which
    /// nobody looked. Tells at which second the source was asked, and left.
    fn check(what: &str, spells: &[(u64, u64, Sign)], expected: &[(u64, Step)]) {
        let at = |second: u64| {
            let since = Duration::from_secs(second);
            Now { wall_s: second as f64, monotonic: since, boot: since }
        };
        let mut decline = Decline::new(at(0));
        let (mut second, mut found) = (0, Vec::new());
        for (gap, looks, sign) in spells {
            second += gap;
            for _ in 0..*looks {
                second += 1;
                match decline.look(*sign, at(second), PATIENCE) {
                    Step::Wait => {}
                    step => found.push((second, step)),
                }
            }
        }
        assert_eq!(found, expected, "{what}");
    }

    #[test]
    fn a_source_is_left_only_after_a_minute_of_possible_reads() {
        use Step::{AskOnceMore, Leave};
        check("it is dead", &[(0, 70, Silent)], &[(60, AskOnceMore), (63, Leave)]);
        check(
            "it is tried again and again",
            &[(0, 130, Silent)],
            &[(60, AskOnceMore), (63, Leave), (123, AskOnceMore), (126, Leave)],
        );
        check("an outage of less", &[(0, 59, Silent), (0, 1, Alive), (0, 59, Silent)], &[]);
        check(
            "it answers when asked",
            &[(0, 62, Silent), (0, 1, Alive), (0, 30, Silent)],
            &[(60, AskOnceMore)],
        );
        check("it is slow to come", &[(0, 72, Trying)], &[(60, AskOnceMore), (70, Leave)]);
        check("the process was stopped", &[(62, 5, Silent), (0, 1, Alive)], &[]);
        check("stopped again and again", &[(62, 30, Silent), (62, 30, Silent)], &[]);
        check("stopped, and dead", &[(62, 66, Silent)], &[(123, AskOnceMore), (126, Leave)]);
        check(
            "stopped as it was to be left",
            &[(0, 61, Silent), (62, 59, Silent)],
            &[(60, AskOnceMore)],
        );
    }

    #[test]
    fn a_host_that_slept_is_no_dead_source() {
        let at = |awake: u64, slept: u64| {
            let monotonic = Duration::from_secs(awake);
            Now { wall_s: 0.0, monotonic, boot: monotonic + Duration::from_secs(slept) }
        };
        let mut decline = Decline::new(at(0, 0));
        assert_eq!(decline.look(Silent, at(1, 3600), PATIENCE), Step::Wait);
        for second in 2..60 {
            assert_eq!(decline.look(Silent, at(second, 3600), PATIENCE), Step::Wait);
        }
    }
}
