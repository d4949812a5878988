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
    let readings = || readings.iter().flatten().copied().filter(|w| w.is_finite() && *w > 0.0);
    let members = readings().count();
    if members == 0 {
        return ModuleMean::NoReading;
    }
    let mean_w = readings().sum::<f64>() / members as f64;
    let spread_w = readings().fold(0.0, f64::max) - readings().fold(f64::INFINITY, f64::min);
    if spread_w > MODULE_SPREAD_MAX * mean_w * (1.0 + ROUNDING) {
        ModuleMean::Disagree { mean_w, spread_w, members }
    } else {
        ModuleMean::Mean { watts: mean_w, members, spread_w }
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

    /// 97.5 and 102.5 hundredths of any mean are 5 % of it apart, whatever a double makes of them.
    #[test]
    fn the_limit_itself_passes_for_any_mean_in_milliwatts() {
        for milliwatts in (1_000..3_000_000).step_by(1_000).map(f64::from) {
            let pair = [0.975, 1.025].map(|part| Some(milliwatts * part / 1_000.0));
            assert!(matches!(module_mean(&pair), ModuleMean::Mean { .. }), "{pair:?}");
        }
    }
}
