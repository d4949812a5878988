//! How a recording stands: for the line on the terminal, and for the manifest at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::digest::Batch;

/// One target so far.
#[derive(Debug, Clone, Default)]
pub struct TargetStatus {
    /// Scrapes that came to an end, failed ones included.
    pub scrapes: u64,
    /// Scrapes whose page had no power of any socket, failed ones included.
    pub without_power: u64,
    /// Scrapes that failed, by class.
    pub failures: BTreeMap<String, u64>,
    /// Scrapes that were due and left out.
    pub missed_ticks: u64,
    /// Scrapes that were dropped because the writer was behind.
    pub dropped: u64,
    /// The last failure, in words.
    pub last_failure: Option<String>,
    /// Whether the last scrape succeeded.
    pub is_up: bool,
    /// The last source of power.
    pub source: Option<String>,
    /// Whether any page said that its sensors are simulated.
    pub is_simulated: bool,
    /// Power of the node at its last complete scrape, in watts.
    pub watts: Option<f64>,
    /// Time of the last row, in Unix seconds.
    pub last_row_s: Option<f64>,
    /// The node's clock minus the recorder's, in microseconds.
    pub clock_offset_us: Option<i64>,
    /// The offset is within plus and minus this, in microseconds.
    pub clock_error_us: Option<i64>,
    /// How late the last scrape began.
    pub lag: Duration,
}

/// All targets, by name.
#[derive(Debug, Default)]
pub struct Status {
    targets: Mutex<BTreeMap<String, TargetStatus>>,
    rows: Mutex<u64>,
}

impl Status {
    /// Targets that have not been scraped yet.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let targets = names.map(|name| (name.to_owned(), TargetStatus::default())).collect();
        Self { targets: Mutex::new(targets), rows: Mutex::new(0) }
    }

    /// Takes in a scrape.
    pub fn take(&self, batch: &Batch, lag: Duration) {
        let mut targets = lock(&self.targets);
        let target = targets.entry(batch.scrape.target.clone()).or_default();
        target.scrapes += 1;
        target.missed_ticks += batch.scrape.missed_ticks;
        target.without_power += u64::from(!batch.has_power);
        target.is_up = batch.scrape.outcome == "ok";
        target.lag = lag;
        if batch.scrape.clock_offset_us.is_some() {
            target.clock_offset_us = batch.scrape.clock_offset_us;
            target.clock_error_us = batch.scrape.clock_error_us;
        }
        if !target.is_up {
            *target.failures.entry(batch.scrape.outcome.clone()).or_default() += 1;
            let detail = batch.scrape.detail.as_deref().unwrap_or_default();
            target.last_failure = Some(format!("{}: {detail}", batch.scrape.outcome));
            target.watts = None;
        }
        let Some(row) = batch.cpu.first() else { return };
        target.source = Some(row.source.clone());
        target.is_simulated |= row.simulated;
        target.watts = batch.cpu.iter().find_map(|row| row.total_power_w);
        target.last_row_s = Some(row.timestamp_unix);
    }

    /// A scrape was dropped because the writer was behind.
    pub fn take_dropped(&self, target: &str) {
        lock(&self.targets).entry(target.to_owned()).or_default().dropped += 1;
    }

    /// Rows were written.
    pub fn take_rows(&self, rows: u64) {
        *lock(&self.rows) += rows;
    }

    /// Each target as it stands.
    pub fn targets(&self) -> BTreeMap<String, TargetStatus> {
        lock(&self.targets).clone()
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        *lock(&self.rows)
    }

    /// Whether every target has been scraped, with whatever outcome.
    pub fn all_tried(&self) -> bool {
        lock(&self.targets).values().all(|target| target.scrapes > 0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Counters are whole after every statement, poisoned or not.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many troubled targets the line names; the rest are in the manifest.
const NAMED_MAX: usize = 3;

impl fmt::Display for Status {
    /// One line: targets up, rows, watts, lag, and who is in trouble.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets = self.targets();
        if targets.values().any(|target| target.is_simulated) {
            write!(f, "SIMULATED HARDWARE  ")?;
        }
        let up = targets.values().filter(|target| target.is_up).count();
        write!(f, "targets {up}/{} up  rows {}", targets.len(), self.rows())?;
        let watts: Vec<f64> = targets.values().filter_map(|target| target.watts).collect();
        let with_power = targets.values().filter(|target| target.source.is_some()).count();
        match watts.len() {
            0 => write!(f, "  watts -")?,
            // A sum says of how many nodes it is when it is not of all.
            count if count < with_power => {
                write!(
                    f,
                    "  watts {:.1} ({count} of {with_power} nodes)",
                    watts.iter().sum::<f64>()
                )?;
            }
            _ => write!(f, "  watts {:.1}", watts.iter().sum::<f64>())?,
        }
        let lag = targets.values().map(|target| target.lag).max().unwrap_or_default();
        write!(f, "  lag {} ms", lag.as_millis())?;
        let troubled = targets.iter().filter(|(_, target)| target.scrapes > 0 && !target.is_up);
        for (name, target) in troubled.clone().take(NAMED_MAX) {
            let failure = target.last_failure.as_deref().unwrap_or_default();
            let class = failure.split(':').next().unwrap_or_default();
            write!(f, "  {name}: {class}")?;
        }
        let unnamed = troubled.count().saturating_sub(NAMED_MAX);
        if unnamed > 0 {
            write!(f, "  and {unnamed} more")?;
        }
        Ok(())
    }
}
