//! What is known about the energy of one window of one series.

use crate::reason::Reasons;

/// The largest difference between counter and integrated power, relative to the counter, that is not remarked on.
pub const COUNTER_DISAGREEMENT_MAX: f64 = 0.05;

/// The energy of a window, how much of the window it covers, and why not all of it.
///
/// Nothing in it is extrapolated or filled in: `energy_j` is the energy of `covered_s` seconds and of no others.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// The start of the window in Unix seconds.
    pub start_s: f64,
    /// The end of the window in Unix seconds.
    pub end_s: f64,
    /// Trapezoid of the power over the covered time, in joules. `None`, never zero, when nothing is covered.
    pub energy_j: Option<f64>,
    /// The seconds of the window that lie between two readings no further apart than the gap limit.
    pub covered_s: f64,
    /// `covered_s` as a fraction of the window, 0 to 1; exactly 1 when the verdict is full.
    pub coverage: f64,
    /// `energy_j` over `covered_s`, in watts.
    pub avg_w: Option<f64>,
    /// Readings in the window, its edges included, repeats of one reading counted once.
    pub samples: u64,
    /// The longest time that touches the window and has no reading in it, in seconds: between two neighbouring
    /// readings, or between an edge and the nearest reading in the window where none stands beyond the edge within the
    /// gap limit.
    pub largest_gap_s: f64,
    /// The least reading in the window, in watts.
    pub min_w: Option<f64>,
    /// The greatest reading in the window, in watts.
    pub max_w: Option<f64>,
    /// 5th percentile of the readings in the window, in watts. Readings weigh alike, however far apart they are.
    pub p5_w: Option<f64>,
    /// Median of the readings in the window, in watts.
    pub p50_w: Option<f64>,
    /// 95th percentile of the readings in the window, in watts.
    pub p95_w: Option<f64>,
    /// 99th percentile of the readings in the window, in watts.
    pub p99_w: Option<f64>,
    /// Whether the percentiles are exact; otherwise they are within
    /// [`RELATIVE_ERROR_MAX`](crate::quantiles::RELATIVE_ERROR_MAX).
    pub percentiles_exact: bool,
    /// The covered energy if each interval had stayed at the lower of its two readings, in joules.
    ///
    /// Together with `energy_high_j` it shows how much hangs on what happened between the readings. It bounds the
    /// energy only of a power that stays between neighbouring readings.
    pub energy_low_j: Option<f64>,
    /// The covered energy if each interval had stayed at the higher of its two readings, in joules.
    pub energy_high_j: Option<f64>,
    /// What the energy counter gained between the two edges, in joules. It covers gaps that the readings do not.
    pub counter_energy_j: Option<f64>,
    /// How far `energy_j` is from `counter_energy_j`, as a fraction of the latter. Only for a full window, as otherwise
    /// the two stand for different times; `None` also when the counter stood still, where the fraction has no meaning.
    pub counter_disagreement: Option<f64>,
    /// How much of the window is covered.
    pub verdict: Verdict,
    /// Why the window is not full, or not beyond doubt. Empty for a full window with nothing to remark.
    pub reasons: Reasons,
}

/// How much of a window is covered by measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// All of it, from edge to edge.
    Full,
    /// Some of it.
    Partial,
    /// None of it: there is no energy to state.
    None,
}

impl Verdict {
    /// The word used in reports and columns.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Full => "full",
            Verdict::Partial => "partial",
            Verdict::None => "none",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
