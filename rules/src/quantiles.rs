//! Percentiles of the readings of a window in bounded memory.
//!
//! Up to [`EXACT_READINGS_MAX`] readings are kept and give the exact answer, equal to numpy's default linear method.
//! Beyond that the readings are counted in buckets whose relative width is fixed, and every answer is within
//! [`RELATIVE_ERROR_MAX`] of the exact one. Either way it does not depend on the order in which readings arrive, nor on
//! the platform: buckets are cut from the bits of the number, not from a logarithm.

use std::collections::BTreeMap;

/// How many readings are kept before they are counted in buckets: over an hour at one per second, in 32 KiB.
pub const EXACT_READINGS_MAX: usize = 4096;

/// The largest relative error of a percentile that is not exact.
pub const RELATIVE_ERROR_MAX: f64 = 0.001;

/// A bucket spans this many low bits of a double, so each octave has 512 buckets of one width. Half the width of one is
/// at most 1/1024 of its lower end, which is within [`RELATIVE_ERROR_MAX`].
const BUCKET_BITS: u32 = 52 - 9;

/// The readings of one window.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    readings: Readings,
    count: u64,
    range: Option<(f64, f64)>,
}

#[derive(Clone, Debug)]
enum Readings {
    Kept(Vec<f64>),
    /// How many readings share a bucket. A device that stays between 1 W and 4 kW fills at most 6144 of them, and there
    /// are no more than two million in all.
    Counted(BTreeMap<i64, u64>),
}

impl Default for Readings {
    fn default() -> Readings {
        Readings::Kept(Vec::new())
    }
}

impl Quantiles {
    /// An empty set of readings.
    pub fn new() -> Quantiles {
        Quantiles::default()
    }

    /// Takes one reading. A value that is not finite is left out, and `false` says so.
    pub fn push(&mut self, value: f64) -> bool {
        if !value.is_finite() {
            return false;
        }
        self.count += 1;
        self.range = Some(match self.range {
            Some((min, max)) => (value.min(min), value.max(max)),
            None => (value, value),
        });
        match &mut self.readings {
            Readings::Kept(kept) if kept.len() < EXACT_READINGS_MAX => kept.push(value),
            Readings::Kept(kept) => {
                let mut buckets = BTreeMap::new();
                for value in kept.drain(..).chain([value]) {
                    *buckets.entry(bucket(value)).or_default() += 1;
                }
                self.readings = Readings::Counted(buckets);
            }
            Readings::Counted(buckets) => *buckets.entry(bucket(value)).or_default() += 1,
        }
        true
    }

    /// How many readings were taken.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether the answers are exact.
    pub const fn is_exact(&self) -> bool {
        matches!(self.readings, Readings::Kept(_))
    }

    /// The least reading, always exact.
    pub fn min(&self) -> Option<f64> {
        self.range.map(|(min, _)| min)
    }

    /// The greatest reading, always exact.
    pub fn max(&self) -> Option<f64> {
        self.range.map(|(_, max)| max)
    }

    /// The value below which the fraction `q` (0 to 1) of the readings lies, interpolated between two neighbours.
    ///
    /// `None` without readings, and for a `q` outside 0 to 1. It sorts on demand, hence `&mut`.
    pub fn quantile(&mut self, q: f64) -> Option<f64> {
        let (min, max) = self.range?;
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let position = q * (self.count - 1) as f64;
        let below = position.floor();
        let fraction = position - below;
        let lower = self.ranked(below as u64)?;
        let upper = self.ranked(position.ceil() as u64)?;
        // numpy interpolates from the nearer end; doing the same makes exact answers equal to the bit.
        let value = if fraction < 0.5 {
            lower + (upper - lower) * fraction
        } else {
            upper - (upper - lower) * (1.0 - fraction)
        };
        // The middle of a bucket may lie beyond every reading in it.
        Some(value.clamp(min, max))
    }

    /// The reading of this rank, 0 being the least; for counted readings the middle of its bucket.
    fn ranked(&mut self, rank: u64) -> Option<f64> {
        match &mut self.readings {
            Readings::Kept(kept) => {
                // Sorting what is sorted already is one pass.
                kept.sort_unstable_by(f64::total_cmp);
                kept.get(rank as usize).copied()
            }
            Readings::Counted(buckets) => {
                let mut seen = 0;
                buckets.iter().find_map(|(&key, &count)| {
                    seen += count;
                    (seen > rank).then(|| middle(key))
                })
            }
        }
    }
}

/// The number of the bucket of a value: buckets rise with it, those of numbers below zero mirror those above.
fn bucket(value: f64) -> i64 {
    if value == 0.0 {
        return 0;
    }
    // One is added so that exact zero keeps a bucket to itself, apart from the smallest numbers. Without the sign the
    // high bits fit.
    let magnitude = (value.abs().to_bits() >> BUCKET_BITS) as i64 + 1;
    if value < 0.0 { -magnitude } else { magnitude }
}

fn middle(bucket: i64) -> f64 {
    let middle = match bucket.unsigned_abs().checked_sub(1) {
        None => 0.0,
        Some(high_bits) => f64::from_bits((high_bits << BUCKET_BITS) | (1 << (BUCKET_BITS - 1))),
    };
    if bucket < 0 { -middle } else { middle }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Quantiles {
        let mut quantiles = Quantiles::new();
        for value in values {
            assert!(quantiles.push(value));
        }
        quantiles
    }

    /// The expected values are numpy.percentile's with its default method.
    #[test]
    fn exact_quantiles() {
        let cases: &[(&[f64], f64, f64)] = &[
            (&[7.0], 0.99, 7.0),
            (&[10.0, 20.0], 0.5, 15.0),
            (&[20.0, 10.0], 0.05, 10.5),
            (&[1.0, 2.0, 3.0, 4.0], 0.25, 1.75),
            (&[1.0, 2.0, 3.0, 4.0], 0.95, 3.8499999999999996),
            (&[10.0, 10.0, 10.0, 100.0], 0.95, 86.49999999999997),
            (&[0.1, 0.2, 0.7], 0.99, 0.69),
            (&[0.0, 0.0, 5.0], 0.0, 0.0),
            (&[0.0, 0.0, 5.0], 1.0, 5.0),
            (&[-5.0, 3.0, -1.0], 0.5, -1.0),
            (&[-5.0, 3.0, -1.0], 0.25, -3.0),
        ];
        for &(values, q, expected) in cases {
            let mut quantiles = of(values.iter().copied());
            assert_eq!(quantiles.quantile(q), Some(expected), "{values:?} at {q}");
            assert!(quantiles.is_exact());
        }
    }

    #[test]
    fn what_has_no_quantile() {
        let mut none = Quantiles::new();
        for refused in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!none.push(refused));
        }
        assert_eq!(
            (none.count(), none.quantile(0.5), none.min(), none.max()),
            (0, None, None, None)
        );
        for q in [-0.1, 1.1, f64::NAN] {
            assert_eq!(of([1.0]).quantile(q), None);
        }
    }

    #[test]
    fn exactness_ends_at_its_limit() {
        let mut quantiles = of((0..EXACT_READINGS_MAX).map(|n| n as f64));
        assert!(quantiles.is_exact());
        assert_eq!(quantiles.quantile(0.5), Some(2047.5));
        quantiles.push(-0.0);
        assert!(!quantiles.is_exact());
        assert_eq!(quantiles.quantile(0.0), Some(0.0));
        assert_eq!((quantiles.min(), quantiles.max()), (Some(0.0), Some(4095.0)));
    }

    #[test]
    fn counted_quantiles_are_within_the_stated_error() {
        // Five decades, in an order that is neither rising nor falling.
        let values: Vec<f64> =
            (0..20_000_u32).map(|n| 0.01 * 1.0006_f64.powi((n * 7919 % 20_000) as i32)).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut forward = of(values.iter().copied());
        let mut backward = of(values.iter().rev().copied());
        assert!(!forward.is_exact());
        for percent in 0..=100 {
            let q = f64::from(percent) / 100.0;
            let found = forward.quantile(q);
            assert_eq!(found, backward.quantile(q), "the order of arrival shows at {q}");
            let position = q * 19_999.0;
            let (below, above) = (sorted[position as usize], sorted[position.ceil() as usize]);
            let exact = below + (above - below) * position.fract();
            let error = (found.unwrap() - exact).abs() / exact;
            assert!(error <= RELATIVE_ERROR_MAX, "{error} at {q}");
        }
    }

    #[test]
    fn numbers_below_zero_are_counted_like_those_above() {
        let mut mirrored = of((0..10_000).flat_map(|n| [f64::from(n), -f64::from(n)]));
        assert!(!mirrored.is_exact());
        assert_eq!(mirrored.quantile(0.5), Some(0.0));
        for q in [0.0, 0.1, 0.3] {
            let (low, high) = (mirrored.quantile(q).unwrap(), mirrored.quantile(1.0 - q).unwrap());
            assert!(
                (low + high).abs() <= high * 2.0 * RELATIVE_ERROR_MAX,
                "{low} and {high} at {q}"
            );
        }
        assert!(bucket(-f64::from_bits(1)) < bucket(0.0));
    }

    #[test]
    fn a_steady_reading_is_its_own_percentile() {
        let mut quantiles = of(std::iter::repeat_n(250.1, EXACT_READINGS_MAX + 1));
        assert!(!quantiles.is_exact());
        for q in [0.0, 0.05, 0.5, 1.0] {
            assert_eq!(quantiles.quantile(q), Some(250.1));
        }
    }

    #[test]
    fn every_bucket_is_narrow_and_they_rise() {
        for exponent in [-300, -3, 0, 1, 11, 300] {
            let mut value = 2_f64.powi(exponent);
            for _ in 0..2_000 {
                let middle = middle(bucket(value));
                assert!((middle - value).abs() <= value * RELATIVE_ERROR_MAX, "{value}");
                let next = value * 1.0004;
                assert!(bucket(next) >= bucket(value));
                value = next;
            }
        }
        assert!(bucket(f64::from_bits(1)) > bucket(0.0));
    }
}
