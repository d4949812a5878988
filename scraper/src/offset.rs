//! How far a node's clock stands from the head's, from nothing but scrapes.
//!
//! A page that says when it was made was made between the start and the end of its scrape. So one
//! scrape bounds the offset to half its duration, and the quickest of the last scrapes bounds it best
//! (the clock filter of NTP, RFC 5905 section 10, in its simplest form). With the offset, a reading's
//! own time on the node becomes a time on the head's clock, and windows given in head time hold for
//! nodes whose clocks are wrong.

use std::collections::VecDeque;

/// How many scrapes are looked back on. Crystals part by some 20 ppm: 1 ms in a minute of 1 s scrapes.
const SCRAPES_MAX: usize = 60;

/// Added to each bound for the drift over those scrapes, in seconds.
const DRIFT_MAX_S: f64 = 0.002;

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
    recent: VecDeque<Offset>,
}

impl OffsetFilter {
    /// Takes what a page said (`made_s`, node clock) and when it was asked for and had (head clock),
    /// all in Unix seconds; returns the best estimate now.
    pub fn observe(&mut self, made_s: f64, start_s: f64, end_s: f64) -> Offset {
        let seen = Offset {
            offset_s: made_s - (start_s + end_s) / 2.0,
            error_s: (end_s - start_s).abs() / 2.0,
        };
        let best = self.best();
        if best.is_some_and(|best| !agree(best, seen)) {
            // One of the clocks was set. What was seen before says nothing any more.
            self.recent.clear();
        }
        if self.recent.len() == SCRAPES_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(seen);
        self.best().unwrap_or(seen)
    }

    fn best(&self) -> Option<Offset> {
        self.recent.iter().copied().min_by(|a, b| a.error_s.total_cmp(&b.error_s))
    }
}

/// Whether two bounds can hold at once.
fn agree(a: Offset, b: Offset) -> bool {
    (a.offset_s - b.offset_s).abs() <= a.error_s + b.error_s + DRIFT_MAX_S
}

#[cfg(test)]
mod tests {
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
        assert_eq!(slow_again, quick, "a slow scrape does not spoil what a quick one knew");
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

    #[test]
    fn slow_drift_is_followed() {
        let mut filter = OffsetFilter::default();
        let mut last = 0.0;
        for t in 0..1000 {
            let offset = f64::from(t) * 20e-6;
            last = scrape(&mut filter, f64::from(t), 0.001, 0.001, offset).offset_s - offset;
        }
        assert!(last.abs() < 60.0 * 20e-6 + 1e-9, "{last}");
    }
}
