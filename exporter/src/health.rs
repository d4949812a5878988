//! The exporter's own health: how many reads failed and why, and how long reads take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::failure::Failure;
use crate::sensor::Source;

/// Upper bounds of the read durations, in seconds: a cached attribute takes microseconds, a firmware
/// call about 150 ms, a slow bus seconds.
pub const DURATION_BOUNDS_S: [f64; 9] = [0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

/// Counters of one process.
#[derive(Debug, Default)]
pub struct Health {
    sources: [SourceHealth; Source::ALL.len()],
}

#[derive(Debug, Default)]
struct SourceHealth {
    errors: [AtomicU64; Failure::ALL.len()],
    durations: [AtomicU64; DURATION_BOUNDS_S.len() + 1],
    duration_sum_ns: AtomicU64,
}

/// The read durations of a source as a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    /// How many reads took no longer than each bound, and all of them last.
    pub cumulative: [u64; DURATION_BOUNDS_S.len() + 1],
    /// Seconds in all.
    pub sum_s: f64,
}

impl Health {
    /// Counts a read that is back.
    pub fn record(&self, source: Source, took: Duration, outcome: Result<(), Failure>) {
        let health = self.of(source);
        let took_s = took.as_secs_f64();
        let bucket = DURATION_BOUNDS_S.iter().take_while(|bound| took_s > **bound).count();
        health.durations[bucket].fetch_add(1, Ordering::Relaxed);
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        health.duration_sum_ns.fetch_add(took_ns, Ordering::Relaxed);
        if let Err(failure) = outcome {
            self.count(source, failure);
        }
    }

    /// Counts a failure.
    pub fn count(&self, source: Source, failure: Failure) {
        if failure.is_error() {
            self.of(source).errors[failure.index()].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often reads of a source failed this way.
    pub fn errors(&self, source: Source, failure: Failure) -> u64 {
        self.of(source).errors[failure.index()].load(Ordering::Relaxed)
    }

    /// How long reads of a source took.
    pub fn durations(&self, source: Source) -> Durations {
        let health = self.of(source);
        let mut total = 0;
        let cumulative = std::array::from_fn(|bucket| {
            total += health.durations[bucket].load(Ordering::Relaxed);
            total
        });
        Durations { cumulative, sum_s: health.duration_sum_ns.load(Ordering::Relaxed) as f64 / 1e9 }
    }

    fn of(&self, source: Source) -> &SourceHealth {
        &self.sources[source as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_counted_up_to_and_with_its_bound() {
        let cases = [
            // (seconds, the first bucket that counts it)
            (0.0, 0),
            (0.0001, 0),
            (0.000_101, 1),
            (0.15, 5),
            (5.0, 8),
            (5.001, 9),
            (3600.0, 9),
        ];
        for (seconds, first) in cases {
            let health = Health::default();
            health.record(Source::Acpi, Duration::from_secs_f64(seconds), Ok(()));
            let durations = health.durations(Source::Acpi);
            let expected: [u64; 10] = std::array::from_fn(|bucket| u64::from(bucket >= first));
            assert_eq!(durations, Durations { cumulative: expected, sum_s: seconds });
            assert_eq!(health.durations(Source::Rapl).cumulative, [0; 10], "of another source");
        }
    }

    #[test]
    fn errors_are_counted_by_reason_and_beginnings_are_none() {
        let health = Health::default();
        for failure in Failure::ALL {
            health.record(Source::Rapl, Duration::ZERO, Err(failure));
            let expected = u64::from(failure.is_error());
            assert_eq!(health.errors(Source::Rapl, failure), expected, "{failure:?}");
            assert_eq!(health.errors(Source::Acpi, failure), 0, "{failure:?}");
        }
        assert_eq!(health.durations(Source::Rapl).cumulative[9], Failure::ALL.len() as u64);
    }
}
