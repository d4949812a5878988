//! The table `scrapes`: one row per scrape, so that a missing sample has a recorded cause.

use crate::table::{Table, table};

table! {
    /// One scrape of one target.
    pub struct Scrape: "scrapes" sorted by [target, timestamp_us, seq] {
        /// When the request began, in Unix microseconds of the recorder's clock.
        timestamp_us: i64 as Time("timestamp"),
        /// Name of the target.
        target: String,
        /// What was asked.
        url: String,
        /// Number of the scrape, counted per target; it goes on over restarts.
        seq: u64,
        /// When the request began on the recorder's monotonic clock. Only differences within one process mean anything.
        mono_ns: i64 ["ns"],
        /// From the start of the request to the end of the answer.
        duration_us: u64 ["us"],
        /// HTTP status, when there was an answer.
        status: Option<u16>,
        /// `ok` or the class of the error.
        outcome: String,
        /// What the error said.
        detail: Option<String>,
        /// Size of the answer after decompression.
        bytes: Option<u64> ["bytes"],
        /// Samples in the answer.
        samples: u64,
        /// Rows that the samples became.
        rows: u64,
        /// Scheduled scrapes that were left out since the one before.
        missed_ticks: u64,
        /// Clock of the node minus clock of the recorder.
        clock_offset_us: Option<i64> ["us"],
        /// The offset is within plus and minus this.
        clock_error_us: Option<i64> ["us"],
        /// How far the recorder's wall clock stepped against its monotonic clock since the scrape before.
        wall_step_us: i64 ["us"],
    }
}

impl Table for Scrape {}

impl Scrape {
    /// The outcome of one that gave a page.
    pub const OK: &str = "ok";
}

table! {
    /// The columns of `scrapes` from which a resumed recorder learns where each target's numbering stopped.
    pub struct ScrapeNumber: "scrapes" sorted by [target, seq] {
        /// See [`Scrape::target`].
        target: String,
        /// See [`Scrape::seq`].
        seq: u64,
    }
}

table! {
    /// The columns of `scrapes` that tell whether a target ever answered.
    pub struct ScrapeOutcome: "scrapes" sorted by [target] {
        /// See [`Scrape::target`].
        target: String,
        /// See [`Scrape::outcome`].
        outcome: String,
    }
}
