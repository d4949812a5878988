//! The table `readings`: any sample of any target that was asked for, in long form.

use crate::table::{Table, table};

table! {
    /// One sample of one metric.
    pub struct LongReading: "readings" sorted by [metric, target, labels, timestamp_us, scrape_seq] {
        /// When the scrape began, in Unix microseconds of the recorder's clock.
        timestamp_us: i64 as Time("timestamp"),
        /// Name of the target.
        target: String,
        /// Number of the scrape, counted per target.
        scrape_seq: u64,
        /// Name of the metric.
        metric: String,
        /// Labels sorted by name, escaped as in the exposition format: `a="b",c="d"`. Empty when there are none.
        labels: String,
        /// The value, which may be any double: NaN and infinities are values of this format.
        value: f64,
        /// Time that the target gave the sample.
        sample_timestamp_ms: Option<i64> ["ms"],
        /// When the value stands, in Unix microseconds of the recorder's clock: when its sensor was read, less half of
        /// what it is a mean over. `None` where the page does not say that.
        read_at_us: Option<i64> as Time("read_at"),
    }
}

impl Table for LongReading {}
