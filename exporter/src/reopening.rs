//! When a library that serves is opened anew, because something that it lost may come back that way. Pure.
//!
//! Opening takes seconds, and nothing is read meanwhile: what is not back after a few attempts is not worth them.

use std::time::{Duration, Instant};

/// Attempts for one loss: with the pauses between them somewhat over a minute.
const ATTEMPTS_MAX: u32 = 5;

/// The pause after the first attempt; each later one is twice as long as the one before.
const PAUSE: Duration = Duration::from_secs(5);

/// After a time without a loss the next one has all its attempts again. One that comes sooner goes on counting, or a
/// device that comes and goes would have the library opened for ever.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// The attempts so far.
#[derive(Debug, Default)]
pub(crate) struct Reopening {
    attempts: u32,
    last_at: Option<Instant>,
}

impl Reopening {
    /// Whether it is to be opened anew now; that is an attempt. `is_missing`: something that may come back is not there.
    pub(crate) fn is_due(&mut self, is_missing: bool, now: Instant) -> bool {
        let since = self.last_at.map(|at| now.saturating_duration_since(at));
        if !is_missing {
            if since.is_some_and(|since| since >= FORGIVEN_AFTER) {
                *self = Self::default();
            }
            return false;
        }
        let pause = PAUSE * (1 << self.attempts.saturating_sub(1).min(ATTEMPTS_MAX));
        if self.attempts >= ATTEMPTS_MAX || since.is_some_and(|since| since < pause) {
            return false;
        }
        self.attempts += 1;
        self.last_at = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_has_a_few_attempts_and_no_more() {
        // Spells of (seconds, whether something is missing), and the seconds of the attempts.
        type Spell = (u64, bool);
        let cases: [(&[Spell], &[u64]); 5] = [
            (&[(10_000, true)], &[0, 5, 15, 35, 75]),
            (&[(10_000, false)], &[]),
            (&[(3, true), (597, false), (600, true)], &[0, 600, 610, 630, 670]),
            (&[(3, true), (599, false), (10_000, true)], &[0, 602, 607, 617, 637, 677]),
            (&[(10, true), (10, false), (10, true)], &[0, 5, 20]),
        ];
        let origin = Instant::now();
        for (spells, expected) in cases {
            let mut reopening = Reopening::default();
            let seconds = spells.iter().flat_map(|(seconds, is)| (0..*seconds).map(move |_| *is));
            let found: Vec<u64> = (0..)
                .zip(seconds)
                .filter(|(second, is_missing)| {
                    reopening.is_due(*is_missing, origin + Duration::from_secs(*second))
                })
                .map(|(second, _)| second)
                .collect();
            assert_eq!(found, expected, "{spells:?}");
        }
    }
}
