//! The table `cpu_samples`: one row per socket and scrape, whether its power was published or withheld.
//!
//! The first twelve columns are those of samples.csv; the rest is what CSV cannot carry.

use wattscribe_rules::State;

use crate::table::{Table, table};

table! {
    /// One socket at one scrape. In CSV it appears only when [`CpuSample::is_published`].
    pub struct CpuSample: "cpu_samples" sorted by [hostname, socket_id, source, sensor, timestamp_unix, scrape_seq] {
        /// When the sensors of the node were read, less half of what each value is a mean over, in Unix seconds of the
        /// recorder's clock, to the microsecond; where a page does not say that, the middle of its scrape.
        timestamp_unix: f64 as Time("timestamp"),
        /// Name of the node as the recorder was told it.
        hostname: String,
        /// Where the power comes from: `acpi`, `dcgm` or `rapl`.
        source: String,
        /// The primary sensor, as `CPU0:cpuSidePowerUsageW`.
        sensor: String,
        /// Number of the socket.
        socket_id: u32,
        /// Power of the socket by its primary sensor. `None` unless the state is ok.
        power_w: Option<f64> ["W"],
        /// Power of the rail of the cores, a part of the socket.
        cpu_rail_w: Option<f64> ["W"],
        /// Power of the rest of the die, a part of the socket.
        soc_w: Option<f64> ["W"],
        /// Power of the socket's memory, a part of the socket.
        dram_w: Option<f64> ["W"],
        /// Power of the module that holds the socket and its accelerators; contains the socket.
        module_w: Option<f64> ["W"],
        /// Sum over all sockets of the node, present only when every one of them reported.
        total_power_w: Option<f64> ["W"],
        /// Number of the scrape, counted per target.
        scrape_seq: u64,
        /// When the sensor was read, in Unix microseconds of the node's own clock, as published.
        sensor_time_us: Option<i64> as Time("sensor_time"),
        /// How the value stands in time: `instant`, `mean`, `difference` or `unknown`.
        averaging: String,
        /// Length of the window of a mean.
        averaging_s: Option<f64> ["s"],
        /// Reading of the socket's energy counter, corrected for wraps.
        energy_counter_j: Option<f64> ["J"],
        /// When the counter was read, in Unix seconds of the recorder's clock.
        energy_counter_time: Option<f64> ["s"],
        /// Since when the counter counts, in Unix seconds of the node's clock, as published. Readings that differ in it
        /// are of two counts.
        energy_counter_since: Option<f64> ["s"],
        /// Whether the power is published and, if not, why not.
        #[serde(with = "crate::state_text")]
        state: State,
        /// Whether a simulated machine made the value.
        simulated: bool,
    }
}

impl Table for CpuSample {}

impl CpuSample {
    /// The power, when it was published: the state is ok and the number is finite.
    pub fn published_w(&self) -> Option<f64> {
        published_w(self.state, self.power_w)
    }

    /// Whether the row belongs in CSV, which has no way to say that a value is withheld.
    pub fn is_published(&self) -> bool {
        self.published_w().is_some()
    }
}

/// Only a reading in state ok is a number, and only a finite one.
fn published_w(state: State, power_w: Option<f64>) -> Option<f64> {
    power_w.filter(|power_w| state.is_ok() && power_w.is_finite())
}

table! {
    /// The few columns of `cpu_samples` that energy windows need, so that the others stay on the disk.
    pub struct CpuPower: "cpu_samples" sorted by [hostname, socket_id, source, timestamp_unix] {
        /// See [`CpuSample::timestamp_unix`].
        timestamp_unix: f64 as Time("timestamp"),
        /// See [`CpuSample::hostname`].
        hostname: String,
        /// See [`CpuSample::source`].
        source: String,
        /// See [`CpuSample::socket_id`].
        socket_id: u32,
        /// See [`CpuSample::power_w`].
        power_w: Option<f64> ["W"],
        /// See [`CpuSample::energy_counter_j`].
        energy_counter_j: Option<f64> ["J"],
        /// See [`CpuSample::energy_counter_time`].
        energy_counter_time: Option<f64> ["s"],
        /// See [`CpuSample::energy_counter_since`].
        energy_counter_since: Option<f64> ["s"],
        /// See [`CpuSample::state`].
        #[serde(with = "crate::state_text")]
        state: State,
        /// See [`CpuSample::simulated`].
        simulated: bool,
    }
}

table! {
    /// The columns of `cpu_samples` from which a resumed recorder learns which sockets there are and what of them is
    /// recorded already.
    pub struct SocketRead: "cpu_samples" sorted by [hostname, socket_id, timestamp_unix] {
        /// See [`CpuSample::hostname`].
        hostname: String,
        /// See [`CpuSample::socket_id`].
        socket_id: u32,
        /// See [`CpuSample::timestamp_unix`].
        timestamp_unix: f64 as Time("timestamp"),
        /// See [`CpuSample::sensor_time_us`].
        sensor_time_us: Option<i64> as Time("sensor_time"),
    }
}

impl CpuPower {
    /// See [`CpuSample::published_w`].
    pub fn published_w(&self) -> Option<f64> {
        published_w(self.state, self.power_w)
    }
}

impl From<CpuSample> for CpuPower {
    fn from(sample: CpuSample) -> CpuPower {
        CpuPower {
            timestamp_unix: sample.timestamp_unix,
            hostname: sample.hostname,
            source: sample.source,
            socket_id: sample.socket_id,
            power_w: sample.power_w,
            energy_counter_j: sample.energy_counter_j,
            energy_counter_time: sample.energy_counter_time,
            energy_counter_since: sample.energy_counter_since,
            state: sample.state,
            simulated: sample.simulated,
        }
    }
}
