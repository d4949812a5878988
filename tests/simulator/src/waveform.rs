//! Power as a function of time, with its exact integral.
//!
//! `t` is in seconds since the simulation's epoch and may be negative: a sensor that averages over the
//! last 50 ms looks back past the epoch. Every shape is defined for every finite `t`.
//! Nothing is checked when a shape is made; parameters that no machine could follow are refused when a
//! machine is built from it.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

/// Power over time, in watts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Waveform {
    /// The same power for ever.
    Constant {
        /// The power.
        watts: f64,
    },
    /// `from_w` until the epoch, a straight line for `duration_s`, `to_w` from then on.
    Ramp {
        /// Power before the line.
        from_w: f64,
        /// Power after it.
        to_w: f64,
        /// How long the line takes; 0 is a step at the epoch.
        duration_s: f64,
    },
    /// `high_w` for the first `duty` of each period, `low_w` for the rest; a period starts at the epoch.
    Square {
        /// Power in the second part of a period.
        low_w: f64,
        /// Power in the first part of a period.
        high_w: f64,
        /// Length of a period.
        period_s: f64,
        /// Fraction of the period spent at `high_w`, 0 to 1.
        duty: f64,
    },
    /// `mean_w + amplitude_w * sin(2 pi t / period_s + phase_rad)`.
    Sine {
        /// Mean power over a whole period.
        mean_w: f64,
        /// Largest departure from the mean.
        amplitude_w: f64,
        /// Length of a period.
        period_s: f64,
        /// Angle at the epoch.
        phase_rad: f64,
    },
    /// `before_w` until `at_s`, `after_w` from then on.
    Step {
        /// Power before the step.
        before_w: f64,
        /// Power from the step on.
        after_w: f64,
        /// When the step happens.
        at_s: f64,
    },
}

impl Waveform {
    /// Power at `t_s`, in watts.
    pub fn watts(&self, t_s: f64) -> f64 {
        match *self {
            Waveform::Constant { watts } => watts,
            Waveform::Ramp { from_w, to_w, duration_s } => {
                if t_s <= 0.0 {
                    from_w
                } else if t_s >= duration_s {
                    to_w
                } else {
                    from_w + (to_w - from_w) * t_s / duration_s
                }
            }
            Waveform::Square { low_w, high_w, period_s, duty } => {
                let into_period_s = t_s - (t_s / period_s).floor() * period_s;
                if into_period_s < duty * period_s { high_w } else { low_w }
            }
            Waveform::Sine { mean_w, amplitude_w, period_s, phase_rad } => {
                mean_w + amplitude_w * (TAU * t_s / period_s + phase_rad).sin()
            }
            Waveform::Step { before_w, after_w, at_s } => {
                if t_s < at_s {
                    before_w
                } else {
                    after_w
                }
            }
        }
    }

    /// Energy from `start_s` to `end_s`, in joules: exact but for rounding. Negative when they are swapped.
    pub fn joules(&self, start_s: f64, end_s: f64) -> f64 {
        self.antiderivative(end_s) - self.antiderivative(start_s)
    }

    /// The same shape with every power multiplied by `factor`: a rail that carries a fixed part of a total.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Waveform {
        let mut scaled = *self;
        match &mut scaled {
            Waveform::Constant { watts } => *watts *= factor,
            Waveform::Ramp { from_w: a, to_w: b, .. }
            | Waveform::Square { low_w: a, high_w: b, .. }
            | Waveform::Sine { mean_w: a, amplitude_w: b, .. }
            | Waveform::Step { before_w: a, after_w: b, .. } => {
                *a *= factor;
                *b *= factor;
            }
        }
        scaled
    }

    /// The first parameter that no machine could follow: its name, its value, what was expected.
    ///
    /// Power must be finite and never negative at any time, or a counter would run backwards.
    pub(crate) fn fault(&self) -> Option<(&'static str, f64, &'static str)> {
        const POWER: &str = "a finite power of 0 W or more";
        const PERIOD: &str = "a finite length above 0 s";
        const FINITE: &str = "a finite number";
        let power = |value: f64| value.is_finite() && value >= 0.0;
        let period = |value: f64| value.is_finite() && value > 0.0;
        let checks = match *self {
            Waveform::Constant { watts } => vec![("watts", watts, power(watts), POWER)],
            Waveform::Ramp { from_w, to_w, duration_s } => vec![
                ("from_w", from_w, power(from_w), POWER),
                ("to_w", to_w, power(to_w), POWER),
                ("duration_s", duration_s, power(duration_s), "a finite length of 0 s or more"),
            ],
            Waveform::Square { low_w, high_w, period_s, duty } => vec![
                ("low_w", low_w, power(low_w), POWER),
                ("high_w", high_w, power(high_w), POWER),
                ("period_s", period_s, period(period_s), PERIOD),
                ("duty", duty, (0.0..=1.0).contains(&duty), "a fraction from 0 to 1"),
            ],
            Waveform::Sine { mean_w, amplitude_w, period_s, phase_rad } => vec![
                ("mean_w", mean_w, power(mean_w), POWER),
                ("amplitude_w", amplitude_w, amplitude_w.abs() <= mean_w, "at most mean_w"),
                ("period_s", period_s, period(period_s), PERIOD),
                ("phase_rad", phase_rad, phase_rad.is_finite(), FINITE),
            ],
            Waveform::Step { before_w, after_w, at_s } => vec![
                ("before_w", before_w, power(before_w), POWER),
                ("after_w", after_w, power(after_w), POWER),
                ("at_s", at_s, at_s.is_finite(), FINITE),
            ],
        };
        checks
            .into_iter()
            .find(|check| !check.2)
            .map(|(name, value, _, wanted)| (name, value, wanted))
    }

    /// A function whose derivative is `watts`. Its zero is wherever the formula is shortest; only
    /// differences of it mean anything.
    fn antiderivative(&self, t_s: f64) -> f64 {
        match *self {
            Waveform::Constant { watts } => watts * t_s,
            Waveform::Ramp { from_w, to_w, duration_s } => {
                if t_s <= 0.0 {
                    from_w * t_s
                } else if t_s >= duration_s {
                    0.5 * (from_w + to_w) * duration_s + to_w * (t_s - duration_s)
                } else {
                    from_w * t_s + 0.5 * (to_w - from_w) * t_s * t_s / duration_s
                }
            }
            Waveform::Square { low_w, high_w, period_s, duty } => {
                let whole_periods = (t_s / period_s).floor();
                let into_period_s = t_s - whole_periods * period_s;
                let high_s = into_period_s.min(duty * period_s);
                let period_j = (duty * high_w + (1.0 - duty) * low_w) * period_s;
                whole_periods * period_j + high_w * high_s + low_w * (into_period_s - high_s)
            }
            Waveform::Sine { mean_w, amplitude_w, period_s, phase_rad } => {
                let angular = TAU / period_s;
                mean_w * t_s - amplitude_w / angular * (angular * t_s + phase_rad).cos()
            }
            Waveform::Step { before_w, after_w, at_s } => {
                before_w * t_s.min(at_s) + after_w * (t_s - at_s).max(0.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Waveform::{self, Constant, Ramp, Sine, Square, Step};

    const SHAPES: [Waveform; 8] = [
        Constant { watts: 97.25 },
        Ramp { from_w: 90.0, to_w: 310.0, duration_s: 4.0 },
        Ramp { from_w: 310.0, to_w: 90.0, duration_s: 0.0 },
        Square { low_w: 80.0, high_w: 280.0, period_s: 1.25, duty: 0.4 },
        Square { low_w: 80.0, high_w: 280.0, period_s: 3.0, duty: 0.0 },
        Square { low_w: 80.0, high_w: 280.0, period_s: 3.0, duty: 1.0 },
        Sine { mean_w: 150.0, amplitude_w: 60.0, period_s: 2.5, phase_rad: 0.7 },
        Step { before_w: 95.0, after_w: 240.0, at_s: 1.5 },
    ];

    /// Windows that start before the epoch, straddle every corner of the shapes, and end long after.
    const WINDOWS: [(f64, f64); 6] =
        [(0.0, 10.0), (-3.3, 2.1), (-5.0, -1.0), (1.4999, 1.5001), (3.9, 4.2), (9_999.0, 10_003.0)];

    /// Midpoint rule; 200 000 cells keep a jump of 220 W within 220 W * one cell.
    fn integrate(wave: &Waveform, start_s: f64, end_s: f64) -> (f64, f64) {
        const CELLS: u32 = 200_000;
        let cell_s = (end_s - start_s) / f64::from(CELLS);
        let middle = |cell: u32| start_s + (f64::from(cell) + 0.5) * cell_s;
        let joules = (0..CELLS).map(|cell| wave.watts(middle(cell))).sum::<f64>() * cell_s;
        let jumps_in_window = 20.0; // the square wave jumps twice a period, 16 times in 10 s
        (joules, 220.0 * cell_s * jumps_in_window + 1e-6)
    }

    #[test]
    fn energy_is_the_integral_of_power() {
        for wave in SHAPES {
            for (start_s, end_s) in WINDOWS {
                let (expected, within) = integrate(&wave, start_s, end_s);
                let found = wave.joules(start_s, end_s);
                assert!(
                    (found - expected).abs() <= within,
                    "{wave:?} over {start_s}..{end_s}: {found} J, integrated {expected} J"
                );
            }
        }
    }

    #[test]
    fn energy_is_additive_and_antisymmetric() {
        for wave in SHAPES {
            for (start_s, end_s) in WINDOWS {
                let middle_s = start_s + 0.37 * (end_s - start_s);
                let whole = wave.joules(start_s, end_s);
                let parts = wave.joules(start_s, middle_s) + wave.joules(middle_s, end_s);
                assert!((whole - parts).abs() < 1e-6, "{wave:?}: {whole} J against {parts} J");
                assert_eq!(whole, -wave.joules(end_s, start_s), "{wave:?}");
            }
        }
    }

    #[test]
    fn energies_known_by_hand() {
        let cases = [
            (Constant { watts: 100.0 }, 2.0, 5.0, 300.0),
            (Ramp { from_w: 100.0, to_w: 200.0, duration_s: 10.0 }, 0.0, 10.0, 1500.0),
            (
                Ramp { from_w: 100.0, to_w: 200.0, duration_s: 10.0 },
                -1.0,
                12.0,
                100.0 + 1500.0 + 400.0,
            ),
            (Square { low_w: 50.0, high_w: 150.0, period_s: 2.0, duty: 0.25 }, 0.0, 4.0, 300.0),
            (Square { low_w: 50.0, high_w: 150.0, period_s: 2.0, duty: 0.25 }, 0.25, 1.0, 62.5),
            (
                Sine { mean_w: 80.0, amplitude_w: 30.0, period_s: 4.0, phase_rad: 1.0 },
                0.0,
                8.0,
                640.0,
            ),
            (Step { before_w: 10.0, after_w: 20.0, at_s: 3.0 }, 0.0, 5.0, 70.0),
        ];
        for (wave, start_s, end_s, expected) in cases {
            let found = wave.joules(start_s, end_s);
            assert!((found - expected).abs() < 1e-9, "{wave:?}: {found} J, expected {expected} J");
        }
    }

    #[test]
    fn a_scaled_shape_carries_the_same_part_everywhere() {
        for wave in SHAPES {
            for t_s in [-2.0, 0.0, 0.49, 1.5, 3.99, 77.7] {
                let (whole, part) = (wave.watts(t_s), wave.scaled(0.49).watts(t_s));
                assert!((part - 0.49 * whole).abs() < 1e-9, "{wave:?} at {t_s}: {part} of {whole}");
            }
        }
    }

    #[test]
    fn impossible_parameters_are_named() {
        let cases = [
            (Constant { watts: -1.0 }, Some("watts")),
            (Constant { watts: f64::NAN }, Some("watts")),
            (Ramp { from_w: 1.0, to_w: 2.0, duration_s: -1.0 }, Some("duration_s")),
            (Square { low_w: 1.0, high_w: 2.0, period_s: 0.0, duty: 0.5 }, Some("period_s")),
            (Square { low_w: 1.0, high_w: 2.0, period_s: 1.0, duty: 1.5 }, Some("duty")),
            (
                Sine { mean_w: 10.0, amplitude_w: 11.0, period_s: 1.0, phase_rad: 0.0 },
                Some("amplitude_w"),
            ),
            (Step { before_w: 1.0, after_w: 2.0, at_s: f64::INFINITY }, Some("at_s")),
        ];
        for (wave, expected) in cases {
            assert_eq!(wave.fault().map(|(name, ..)| name), expected, "{wave:?}");
        }
        for wave in SHAPES {
            assert_eq!(wave.fault(), None, "{wave:?}");
        }
    }

    #[test]
    fn a_stored_shape_reads_back_the_same() {
        for wave in SHAPES {
            let text = serde_json::to_string(&wave).unwrap();
            assert_eq!(serde_json::from_str::<Waveform>(&text).unwrap(), wave, "{text}");
        }
        let misspelt = serde_json::from_str::<Waveform>(r#"{"constant":{"watts":1,"wats":2}}"#);
        assert!(misspelt.unwrap_err().to_string().contains("wats"));
    }
}
