//! Instants of rules around a command: results bracket its window only where one is before it and one behind.

use std::time::Duration;

use tokio::time::sleep;
use wattscribe_scraper::record::Recording;

/// The longest that a command is kept waiting for an instant of the rules.
const INSTANT_WAIT_MAX: Duration = Duration::from_secs(10);

/// The first instant of rules at or after a time, both in Unix seconds, where it is near enough to be waited for; else the
/// time itself.
pub(super) fn instant_s(at_s: f64, every: Duration) -> f64 {
    let every_s = every.as_secs_f64();
    let instant_s = (at_s / every_s).ceil() * every_s;
    if instant_s - at_s <= INSTANT_WAIT_MAX.as_secs_f64() { instant_s } else { at_s }
}

/// Waits until a time in the Unix seconds of the rows, or the recording has failed.
pub(super) async fn until(recording: &Recording, at_s: f64) {
    while recording.now_s() < at_s && !recording.has_failed() {
        let rest_s = (at_s - recording.now_s()).clamp(0.001, 0.1);
        sleep(Duration::from_secs_f64(rest_s)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_instant_is_waited_for_when_it_is_near() {
        let cases = [
            (100.0, 1_000, 100.0),
            (100.25, 1_000, 101.0),
            (100.25, 500, 100.5),
            (100.25, 15_000, 105.0),
            (100.25, 60_000, 100.25),
        ];
        for (at_s, every_ms, expected_s) in cases {
            let found_s = instant_s(at_s, Duration::from_millis(every_ms));
            assert_eq!(found_s, expected_s, "{at_s} every {every_ms} ms");
        }
    }
}
