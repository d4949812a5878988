//! The settings of a rule file as a Prometheus can keep them that scrapes at its own interval.

use std::time::Duration;

use crate::rule::RuleSet;

/// The rules that the export expresses: instants no closer than scrapes, and `gap` and `look_back` not so short that every
/// pause between two scrapes were an outage. Where a setting does not hold two scrape intervals, it is three.
pub fn in_prometheus(set: &RuleSet, scrape_interval: Duration) -> RuleSet {
    let mut set = set.clone();
    let timing = &mut set.timing;
    let at_least = |setting: Duration| match setting < scrape_interval * 2 {
        true => scrape_interval * 3,
        false => setting,
    };
    timing.every = timing.every.max(scrape_interval);
    timing.gap = at_least(timing.gap);
    timing.look_back = at_least(timing.look_back);
    set
}
