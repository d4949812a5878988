//! The mean of several readings of one module, withheld when they differ too much.
//!
//! Each accelerator of a superchip module reports the power of the whole module, so their readings should be one number
//! read twice. When they are not, no single number can be defended.

/// The largest difference between the readings of one module, as a fraction of their mean, that is still published.
pub const MODULE_SPREAD_MAX: f64 = 0.05;

/// What rounding may add to a spread that is exactly at the limit: far below the resolution of any sensor, far above
/// that of a double.
const ROUNDING: f64 = 1e-12;

/// What the readings of one module are together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModuleMean {
    /// They agree.
    Mean {
        /// Their mean in watts.
        watts: f64,
        /// How many there are.
        members: usize,
        /// The greatest less the least, in watts.
        spread_w: f64,
    },
    /// They differ by more than [`MODULE_SPREAD_MAX`] of their mean.
    Disagree {
        /// The mean that is not published, in watts.
        mean_w: f64,
        /// The greatest less the least, in watts.
        spread_w: f64,
        /// How many there are.
        members: usize,
    },
    /// There is none. A module that draws nothing reports nothing, so a zero is no reading, nor is a value that is
    /// negative or not finite.
    NoReading,
}

/// Takes the mean of a module's readings in watts, leaving out those that are missing.
pub fn module_mean(readings: &[Option<f64>]) -> ModuleMean {
    let readings = readings.iter().flatten().copied().filter(|w| w.is_finite() && *w > 0.0);
    match Spread::of(readings) {
        None => ModuleMean::NoReading,
        Some(spread) if spread.exceeds(MODULE_SPREAD_MAX) => ModuleMean::Disagree {
            mean_w: spread.mean,
            spread_w: spread.width,
            members: spread.members,
        },
        Some(spread) => {
            ModuleMean::Mean { watts: spread.mean, members: spread.members, spread_w: spread.width }
        }
    }
}

/// How far apart some numbers are, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Their plain mean, in the order in which they came.
    pub mean: f64,
    /// The greatest less the least.
    pub width: f64,
    /// How many there are.
    pub members: usize,
}

impl Spread {
    /// That of these numbers; `None` when there are none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let (mut members, mut sum) = (0, 0.0);
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers {
            members += 1;
            sum += number;
            least = number.min(least);
            greatest = number.max(greatest);
        }
        (members > 0).then(|| Spread {
            mean: sum / members as f64,
            width: greatest - least,
            members,
        })
    }

    /// Whether the width is more than this fraction of the mean. Exactly at it, it is not.
    pub fn exceeds(&self, fraction: f64) -> bool {
        self.width > fraction * self.mean * (1.0 + ROUNDING)
    }

    /// The width as a fraction of the mean, where that is above zero.
    pub fn relative(&self) -> Option<f64> {
        (self.mean > 0.0).then(|| self.width / self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_means() {
        let mean = |watts, members, spread_w| ModuleMean::Mean { watts, members, spread_w };
        let differ = |mean_w, members, spread_w| ModuleMean::Disagree { mean_w, spread_w, members };
        let cases: &[(&[Option<f64>], ModuleMean)] = &[
            (&[], ModuleMean::NoReading),
            (&[None, None], ModuleMean::NoReading),
            (&[Some(0.0), Some(f64::NAN), Some(-5.0), Some(f64::INFINITY)], ModuleMean::NoReading),
            (&[Some(500.0)], mean(500.0, 1, 0.0)),
            (&[Some(500.0), None], mean(500.0, 1, 0.0)),
            (&[Some(500.0), Some(0.0)], mean(500.0, 1, 0.0)),
            (&[Some(500.0), Some(498.0)], mean(499.0, 2, 2.0)),
            (&[Some(500.0), Some(525.0)], mean(512.5, 2, 25.0)),
            (&[Some(500.0), Some(526.0)], differ(513.0, 2, 26.0)),
            // Exactly at the limit, and a milliwatt beyond it.
            (&[Some(487.5), Some(512.5)], mean(500.0, 2, 25.0)),
            (&[Some(512.501), Some(487.5)], differ(500.0005, 2, 25.000999999999976)),
            (&[Some(600.0), Some(620.0), Some(610.0), Some(590.0)], mean(605.0, 4, 30.0)),
        ];
        for (readings, expected) in cases {
            assert_eq!(module_mean(readings), *expected, "{readings:?}");
        }
    }

    #[test]
    fn spreads() {
        type Case<'a> = (&'a [f64], Option<(f64, f64)>, Option<f64>);
        let cases: &[Case<'_>] = &[
            (&[], None, None),
            (&[5.0], Some((5.0, 0.0)), Some(0.0)),
            (&[3.0, 5.0, 4.0], Some((4.0, 2.0)), Some(0.5)),
            (&[-3.0, -5.0], Some((-4.0, 2.0)), None),
            (&[-1.0, 1.0], Some((0.0, 2.0)), None),
        ];
        for (numbers, expected, relative) in cases {
            let found = Spread::of(numbers.iter().copied());
            assert_eq!(found.map(|spread| (spread.mean, spread.width)), *expected, "{numbers:?}");
            assert_eq!(found.and_then(|spread| spread.relative()), *relative, "{numbers:?}");
            // Around a mean that is not above zero nothing is near.
            let is_apart = found.is_some_and(|spread| spread.exceeds(0.5));
            assert_eq!(is_apart, numbers.len() == 2, "{numbers:?}");
        }
    }

    /// 97.5 and 102.5 hundredths of any mean are 5 % of it apart, whatever a double makes of them.
    #[test]
    fn the_limit_itself_passes_for_any_mean_in_milliwatts() {
        for milliwatts in (1_000..3_000_000).step_by(1_000).map(f64::from) {
            let pair = [0.975, 1.025].map(|part| Some(milliwatts * part / 1_000.0));
            assert!(matches!(module_mean(&pair), ModuleMean::Mean { .. }), "{pair:?}");
        }
    }
}
