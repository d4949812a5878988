//! What is left of a row once its texts are gone.

use wattscribe_rules::State;

use crate::{CpuSample, LongReading, Scrape};

/// One scrape of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrapeMark {
    /// Its number; it rises.
    pub seq: u64,
    /// When it began, in Unix microseconds of the recorder's clock.
    pub start_us: i64,
    /// When its recorder was started, by the same clock: the same, to the microsecond or two, for all scrapes of one
    /// recording. `None` where nobody knows.
    pub recorder_us: Option<i64>,
    /// Whether it gave a page that was believed.
    pub is_ok: bool,
}

impl ScrapeMark {
    /// When the recorder was started whose clock said `timestamp_us` and had run for `mono_ns`.
    pub(super) fn recorder_us(timestamp_us: i64, mono_ns: i64) -> i64 {
        timestamp_us.saturating_sub(mono_ns / 1000)
    }

    /// Whether a scrape is of another recording than the one before.
    pub fn begins_session_after(&self, before: &ScrapeMark) -> bool {
        // Two roundings to a microsecond each, of times that a double resolves to a quarter of one.
        const ROUNDING_US: u64 = 8;
        match (self.recorder_us, before.recorder_us) {
            (Some(now_us), Some(before_us)) => now_us.abs_diff(before_us) > ROUNDING_US,
            _ => false,
        }
    }
}

impl From<&Scrape> for ScrapeMark {
    fn from(scrape: &Scrape) -> ScrapeMark {
        ScrapeMark {
            seq: scrape.seq,
            start_us: scrape.timestamp_us,
            recorder_us: Some(ScrapeMark::recorder_us(scrape.timestamp_us, scrape.mono_ns)),
            is_ok: scrape.outcome == Scrape::OK,
        }
    }
}

/// One sample of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleMark {
    /// Number of the scrape.
    pub seq: u64,
    /// The series, by its place in the piece.
    pub series: u32,
    /// When the value stands, in Unix microseconds of the recorder's clock.
    pub at_us: i64,
    /// The value.
    pub value: f64,
}

impl LongReading {
    /// When the value stands, as far as is known: else when its scrape began.
    pub fn at_us(&self) -> i64 {
        self.read_at_us.unwrap_or(self.timestamp_us)
    }
}

/// What one row of `cpu_samples` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketMark {
    /// Number of the scrape.
    pub seq: u64,
    /// Source and socket, by their place in the piece.
    pub series: u32,
    /// The row's time, in Unix seconds.
    pub at_s: f64,
    /// The state.
    pub state: State,
    /// See [`CpuSample::power_w`].
    pub power_w: Option<f64>,
    /// See [`CpuSample::cpu_rail_w`].
    pub cpu_rail_w: Option<f64>,
    /// See [`CpuSample::soc_w`].
    pub soc_w: Option<f64>,
    /// See [`CpuSample::dram_w`].
    pub dram_w: Option<f64>,
    /// See [`CpuSample::module_w`].
    pub module_w: Option<f64>,
    /// See [`CpuSample::energy_counter_j`].
    pub counter_j: Option<f64>,
    /// See [`CpuSample::energy_counter_time`].
    pub counter_at_s: Option<f64>,
    /// See [`CpuSample::energy_counter_since`].
    pub counter_since_s: Option<f64>,
    /// See [`CpuSample::simulated`].
    pub is_simulated: bool,
}

impl SocketMark {
    pub(super) fn of(row: &CpuSample, series: u32) -> SocketMark {
        SocketMark {
            seq: row.scrape_seq,
            series,
            at_s: row.timestamp_unix,
            state: row.state,
            power_w: row.power_w,
            cpu_rail_w: row.cpu_rail_w,
            soc_w: row.soc_w,
            dram_w: row.dram_w,
            module_w: row.module_w,
            counter_j: row.energy_counter_j,
            counter_at_s: row.energy_counter_time,
            counter_since_s: row.energy_counter_since,
            is_simulated: row.simulated,
        }
    }
}
