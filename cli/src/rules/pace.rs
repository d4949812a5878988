//! How the settings of rules go with the interval of a recording.
//!
//! A `gap` or a `look_back` that holds no three scrapes makes rules useless without a word: nothing is covered, and every
//! reading is stale. The built-in rules follow the interval; whoever has rules of their own is told what to set.

use std::time::Duration;

use wattscribe_rules::rule::{BUILTIN, Timing};

/// The longest setting that a rule file may have.
const SETTING_MAX: Duration = Duration::from_secs(3600);

/// The settings for an interval, not below the defaults: two scrapes may be missing in a row, and a reading may be two
/// seconds old when it is scraped.
pub(crate) fn fitting(interval: Duration) -> Timing {
    let default = Timing::default();
    let whole_ms = |time: Duration| {
        let ms = time.as_micros().div_ceil(1000).min(SETTING_MAX.as_millis());
        Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
    };
    let three = interval.saturating_mul(3);
    Timing {
        gap: whole_ms(three.max(default.gap)),
        look_back: whole_ms(three.saturating_add(Duration::from_secs(2)).max(default.look_back)),
        ..default
    }
}

/// The text of the built-in rules with the settings for an interval: that of the built-in ones up to one second.
pub(crate) fn builtin_text(interval: Duration) -> String {
    let (default, fitting) = (Timing::default(), fitting(interval));
    let set = |text: String, key: &str, from: Duration, to: Duration| {
        let line = |value| format!("\n{key}: {}", spelled(value));
        text.replacen(&line(from), &line(to), 1)
    };
    let text = set(BUILTIN.to_owned(), "look_back", default.look_back, fitting.look_back);
    set(text, "gap", default.gap, fitting.gap)
}

/// What a user is told whose rules are too tight for an interval.
pub(crate) fn too_tight(timing: Timing, interval: Duration) -> Option<String> {
    let Timing { gap, look_back, .. } = timing;
    if interval * 3 <= gap && interval * 2 <= look_back {
        return None;
    }
    let found = format!(
        "gap {} and look_back {} of the rules do not hold three and two scrapes of an interval of {}",
        spelled(gap),
        spelled(look_back),
        spelled(interval)
    );
    let right = fitting(interval);
    let remedy = if interval * 3 <= SETTING_MAX {
        let [gap, look_back] = [right.gap.max(gap), right.look_back.max(look_back)].map(spelled);
        format!("set `gap: {gap}` and `look_back: {look_back}`")
    } else {
        "no setting is longer than 1h: take an --interval of 20m at most".to_owned()
    };
    Some(format!("{found}, so results are withheld or not there: {remedy}"))
}

/// As a rule file has durations: in whole seconds, else in milliseconds.
fn spelled(time: Duration) -> String {
    match time.as_millis() {
        ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use wattscribe_rules::rule;

    use super::*;

    #[test]
    fn what_is_built_in_follows_the_interval() {
        // Interval, gap and look_back, in milliseconds.
        let cases = [
            (10, 3_000, 5_000),
            (1_000, 3_000, 5_000),
            (1_500, 4_500, 6_500),
            (5_000, 15_000, 17_000),
            (10_000, 30_000, 32_000),
            (3_600_000, 3_600_000, 3_600_000),
        ];
        for (interval_ms, gap_ms, look_back_ms) in cases {
            let interval = Duration::from_millis(interval_ms);
            let expected = Timing {
                gap: Duration::from_millis(gap_ms),
                look_back: Duration::from_millis(look_back_ms),
                ..Timing::default()
            };
            let set = rule::read(&builtin_text(interval)).unwrap();
            assert_eq!(set.timing, expected, "{interval:?}");
            assert_eq!(set.rules.len(), rule::builtin().rules.len(), "{interval:?}");
        }
        assert_eq!(builtin_text(Duration::from_secs(1)), BUILTIN);
    }

    #[test]
    fn what_is_too_tight_is_said_with_what_to_set() {
        let cases = [
            (1_000, 3, 5, None),
            (1_000, 2, 5, Some("`gap: 3s` and `look_back: 5s`")),
            (1_100, 3, 5, Some("`gap: 3300ms` and `look_back: 5300ms`")),
            (5_000, 3, 5, Some("`gap: 15s` and `look_back: 17s`")),
            (5_000, 60, 5, Some("`gap: 60s` and `look_back: 17s`")),
            (5_000, 15, 10, None),
            (3_600_000, 3600, 3600, Some("--interval of 20m at most")),
        ];
        for (interval_ms, gap_s, look_back_s, expected) in cases {
            let [gap, look_back] = [gap_s, look_back_s].map(Duration::from_secs);
            let timing = Timing { gap, look_back, ..Timing::default() };
            let said = too_tight(timing, Duration::from_millis(interval_ms));
            match (&said, expected) {
                (None, None) => {}
                (Some(said), Some(remedy)) => assert!(said.contains(remedy), "{said}"),
                _ => panic!("{interval_ms} ms: {said:?}, expected {expected:?}"),
            }
        }
    }
}
