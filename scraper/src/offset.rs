//! How far a node's clock stands from the head's, from nothing but scrapes.
//!
//! A page that says when it was made was made between the start and the end of its scrape. So one
//! scrape bounds the offset to half its duration, and the quickest of the last scrapes bounds it best
//! (the clock filter of NTP, RFC 5905 section 10, in its simplest form). With the offset, a reading's
//! own time on the node becomes a time on the head's clock, and windows given in head time hold for
//! nodes whose clocks are wrong.

use std::collections::VecDeque;

/// How many scrapes are looked back on. What is older says less than a new scrape, as it ages.
const SCRAPES_MAX: usize = 60;

/// How much less a scrape says with every second that it ages: two clocks part by no more while one of
/// them is slewed at the kernel's limit (adjtimex(2): 500 ppm). Crystals alone part by some 20 ppm.
const DRIFT_MAX: f64 = 500e-6;

/// Pages print microseconds, and a double of Unix time resolves a quarter of one.
const GRAIN_S: f64 = 2e-6;

/// Clock of the node minus clock of the head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// Seconds.
    pub offset_s: f64,
    /// The offset lies within plus and minus this many seconds.
    pub error_s: f64,
}

/// The filter of one target.
#[derive(Debug, Clone, Default)]
pub struct OffsetFilter {
    recent: VecDeque<Seen>,
}

/// What one scrape showed.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The scrape's middle, in Unix seconds of the head's clock.
    at_s: f64,
    offset: Offset,
}

impl Seen {
    /// What it still says at a later time.
    fn aged(self, now_s: f64) -> Offset {
        let aged_s = (now_s - self.at_s).max(0.0) * DRIFT_MAX;
        Offset { error_s: self.offset.error_s + aged_s, ..self.offset }
    }
}

impl OffsetFilter {
    /// Takes what a page said (`made_s`, node clock) and when it was asked for and had (head clock),
    /// all in Unix seconds; returns the best estimate now.
    pub fn observe(&mut self, made_s: f64, start_s: f64, end_s: f64) -> Offset {
        let at_s = (start_s + end_s) / 2.0;
        let offset = Offset { offset_s: made_s - at_s, error_s: (end_s - start_s).abs() / 2.0 };
        if self.best(at_s).is_some_and(|best| !agree(best, offset)) {
            // One of the clocks was set. What was seen before says nothing any more.
            self.recent.clear();
        }
        if self.recent.len() == SCRAPES_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Seen { at_s, offset });
        self.best(at_s).unwrap_or(offset)
    }

    fn best(&self, now_s: f64) -> Option<Offset> {
        let aged = self.recent.iter().map(|seen| seen.aged(now_s));
        aged.min_by(|a, b| a.error_s.total_cmp(&b.error_s))
    }
}

/// Whether two bounds can hold at once.
fn agree(a: Offset, b: Offset) -> bool {
    (a.offset_s - b.offset_s).abs() <= a.error_s + b.error_s + GRAIN_S
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A scrape at head time `t` whose page is made `out` seconds after the start and arrives `back`
    /// seconds later, from a node whose clock is ahead by `offset`.
    fn scrape(filter: &mut OffsetFilter, t: f64, out: f64, back: f64, offset: f64) -> Offset {
        filter.observe(t + out + offset, t, t + out + back)
    }

    #[test]
    fn the_quickest_scrape_bounds_the_offset() {
        let mut filter = OffsetFilter::default();
        let slow = scrape(&mut filter, 0.0, 0.9, 0.1, 7.0);
        assert!((slow.offset_s - 7.0).abs() <= slow.error_s);
        assert_eq!(slow.error_s, 0.5);
        let quick = scrape(&mut filter, 1.0, 0.001, 0.001, 7.0);
        assert!((quick.offset_s - 7.0).abs() < 1e-9, "{quick:?}");
        let slow_again = scrape(&mut filter, 2.0, 0.8, 0.2, 7.0);
        assert_eq!(
            slow_again.offset_s, quick.offset_s,
            "a slow scrape does not spoil what is known"
        );
        assert!((0.001..0.003).contains(&slow_again.error_s), "which grows old: {slow_again:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_noticed_at_once() {
        let mut filter = OffsetFilter::default();
        for t in 0..10 {
            scrape(&mut filter, f64::from(t), 0.001, 0.001, 0.0);
        }
        let after = scrape(&mut filter, 10.0, 0.002, 0.002, -3.0);
        assert!((after.offset_s + 3.0).abs() <= after.error_s + 1e-9, "{after:?}");
    }

    proptest! {
        /// Whatever the scrapes' ways and the clocks' drift, the truth is within the bound.
        #[test]
        fn the_bound_holds_the_truth(
            scrapes in vec((0.0..0.4, 0.0..0.4, 0.1..30.0), 1..200),
            drift in -450e-6..450e-6,
            offset_s in -1e5..1e5,
        ) {
            let mut filter = OffsetFilter::default();
            let mut t = 1_788_310_000.0;
            for (out, back, pause) in scrapes {
                let offset_s = offset_s + (t - 1_788_310_000.0) * drift;
                let found = scrape(&mut filter, t, out, back, offset_s);
                let off_s = (found.offset_s - offset_s).abs();
                prop_assert!(off_s <= found.error_s + GRAIN_S, "{off_s} {found:?}");
                t += out + back + pause;
            }
        }
    }
}
