//! The table `energy_windows`: results, one row per window and member or sum.

use crate::table::{Table, table};

table! {
    /// The energy of one socket, node or fleet over one window. What each number means is said in `wattscribe_rules`.
    pub struct EnergyWindow: "energy_windows" sorted by [name, boundary, hostname, socket_id, source, start_unix] {
        /// Name of the window, as a run's.
        name: String,
        /// What the energy covers: `socket`, `node` or `total`.
        boundary: String,
        /// The node, unless the row is a total.
        hostname: Option<String>,
        /// The socket, when the row is of one.
        socket_id: Option<u32>,
        /// Source of the power.
        source: Option<String>,
        /// Start in Unix seconds; a double, as a time column would round it.
        start_unix: f64 ["s"],
        /// End in Unix seconds.
        end_unix: f64 ["s"],
        /// Energy over the covered time. `None` when nothing was covered or a member is missing.
        energy_j: Option<f64> ["J"],
        /// Time that readings cover.
        covered_s: f64 ["s"],
        /// Covered time by the length of the window, 0 to 1.
        coverage: f64,
        /// Energy by covered time.
        avg_w: Option<f64> ["W"],
        /// Readings in the window.
        samples: u64,
        /// Longest time without a reading.
        largest_gap_s: Option<f64> ["s"],
        /// Lowest reading.
        min_w: Option<f64> ["W"],
        /// Highest reading.
        max_w: Option<f64> ["W"],
        /// 5th percentile of the readings.
        p5_w: Option<f64> ["W"],
        /// Median of the readings.
        p50_w: Option<f64> ["W"],
        /// 95th percentile of the readings.
        p95_w: Option<f64> ["W"],
        /// 99th percentile of the readings.
        p99_w: Option<f64> ["W"],
        /// Whether the percentiles are exact rather than sketched.
        percentiles_exact: bool,
        /// Energy with every interval at the lower of its ends.
        energy_low_j: Option<f64> ["J"],
        /// Energy with every interval at the higher of its ends.
        energy_high_j: Option<f64> ["J"],
        /// Energy by the device's own counter.
        counter_energy_j: Option<f64> ["J"],
        /// Distance of counter and integral, by the counter.
        counter_disagreement: Option<f64>,
        /// Members that the sum should hold; 1 for a socket.
        members_expected: u64,
        /// Members that reported.
        members_reporting: u64,
        /// `full`, `partial` or `none`.
        verdict: String,
        /// Reason codes joined by `;`, empty when there are none.
        reasons: String,
        /// Whether any reading was simulated.
        simulated: bool,
    }
}

impl Table for EnergyWindow {}
