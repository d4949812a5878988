//! What one scrape becomes: a row of `scrapes`, rows of `cpu_samples`, and the readings that are kept.
//!
//! Pure but for the state that it carries from one scrape of a target to the next.

use std::sync::Arc;
use std::time::Duration;

use wattscribe_table::{CpuSample, LongReading, RECORD_BYTES_MAX, Recovery, Scrape};

use crate::cpu_rows::{self, ScrapeTime};
use crate::failure::{Failure, FailureClass};
use crate::history::History;
use crate::instances::{Instances, Refusal};
use crate::keep::{Keep, canonical_labels};
use crate::offset::OffsetFilter;
use crate::power_page::PowerPage;
use crate::target::Target;

/// One exchange with a target, on the recorder's clock.
#[derive(Debug)]
pub struct Exchange {
    /// When it began, since the recorder's start.
    pub start: Duration,
    /// When it began, in Unix seconds.
    pub start_s: f64,
    /// When it ended, in Unix seconds.
    pub end_s: f64,
    /// How far the wall clock stands ahead of the recorder's carried time, in microseconds.
    pub wall_ahead_us: i64,
    /// Scrapes that were due since the one before and are left out.
    pub missed: u64,
    /// The body, or why there is none.
    pub outcome: Result<Vec<u8>, Failure>,
}

/// All rows of one scrape. They are written together or not at all.
#[derive(Debug)]
pub struct Batch {
    /// The scrape itself.
    pub scrape: Scrape,
    /// One row per socket.
    pub cpu: Vec<CpuSample>,
    /// Samples that were asked for.
    pub readings: Vec<LongReading>,
    /// Whether the page had power of any socket, fresh or not.
    pub has_power: bool,
}

/// What is carried from scrape to scrape of one target.
#[derive(Debug)]
pub struct Digest {
    target: Target,
    seq: u64,
    history: History,
    offset: OffsetFilter,
    wall_ahead_us: i64,
    /// When the last scrape began whose page could be read, in Unix seconds.
    read_s: Option<f64>,
    instances: Arc<Instances>,
}

/// The kept samples of one scrape take at most this many bytes: a scrape is one record of the journal, and
/// its rows of sockets need room there too.
const KEPT_BYTES_MAX: u64 = RECORD_BYTES_MAX / 4 * 3;

/// What a kept sample takes beside its texts: times, number, value and the lengths of the texts.
const KEPT_FIXED_BYTES: usize = 60;

impl Digest {
    /// A target, as far as an earlier recording knew it.
    pub fn new(target: Target, before: &Recovery) -> Self {
        let seq = before.last_seq.get(&target.name).map_or(0, |last| last + 1);
        let of_node = before.sockets.iter().filter(|((node, _), _)| *node == target.name);
        let history = History::resumed(of_node.map(|((_, socket), read)| (*socket, *read)));
        Self {
            target,
            seq,
            history,
            offset: OffsetFilter::default(),
            wall_ahead_us: 0,
            read_s: None,
            instances: Arc::default(),
        }
    }

    /// The same among other targets, of which none may be the same exporter.
    #[must_use]
    pub fn among(self, instances: Arc<Instances>) -> Self {
        Self { instances, ..self }
    }

    /// The time up to which the target has been recorded, in Unix seconds: every socket whose power is not
    /// withheld has a row at or after it. A target without such a socket is as far as its last scrape.
    pub fn recorded_until_s(&self) -> Option<f64> {
        self.history.rows_until_s().or(self.read_s)
    }

    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The rows of an exchange.
    pub fn digest(&mut self, exchange: Exchange, keep: &Keep) -> Batch {
        let seq = self.seq;
        self.seq += 1;
        let mut batch = Batch {
            scrape: self.scrape_row(&exchange, seq),
            cpu: Vec::new(),
            readings: Vec::new(),
            has_power: false,
        };
        let read = match &exchange.outcome {
            Ok(body) => self.read(body, &exchange, seq, keep, &mut batch),
            Err(failure) => Err(failure.clone()),
        };
        let scrape = &mut batch.scrape;
        match read {
            Ok(()) => {
                scrape.status = Some(200);
                scrape.outcome = "ok".to_owned();
                scrape.rows = batch.cpu.len() as u64;
            }
            Err(failure) => {
                scrape.status = failure.status;
                scrape.outcome = failure.class.as_str().to_owned();
                scrape.detail = Some(failure.detail);
                // A page is believed whole or not at all.
                scrape.samples = 0;
                batch.cpu.clear();
                batch.readings.clear();
            }
        }
        batch
    }

    fn read(
        &mut self,
        body: &[u8],
        exchange: &Exchange,
        seq: u64,
        keep: &Keep,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        batch.scrape.bytes = Some(body.len() as u64);
        let (timestamp_us, target) = (batch.scrape.timestamp_us, &self.target.name);
        let (readings, mut kept_labels) = (&mut batch.readings, Vec::new());
        let mut kept_bytes = 0;
        let page = PowerPage::read(body, |sample| {
            if kept_bytes > KEPT_BYTES_MAX || !keep.wants(sample) {
                return;
            }
            let reading = LongReading {
                timestamp_us,
                target: target.clone(),
                scrape_seq: seq,
                metric: sample.name.unescape().into_owned(),
                labels: canonical_labels(sample.labels),
                value: sample.value,
                sample_timestamp_ms: sample.timestamp_ms,
                // The page may say so further down.
                read_at_us: None,
            };
            let texts = reading.target.len() + reading.metric.len() + reading.labels.len();
            kept_bytes += (texts + KEPT_FIXED_BYTES) as u64;
            readings.push(reading);
            kept_labels.push(sample.labels);
        });
        let page = page.map_err(|fault| Failure {
            class: FailureClass::Parse,
            detail: fault.to_string(),
            status: Some(200),
        })?;
        if let Some(instance) = &page.instance {
            self.instances.claim(&self.target.name, instance).map_err(refused)?;
        }
        if kept_bytes > KEPT_BYTES_MAX {
            let detail = format!("expected at most {KEPT_BYTES_MAX} bytes of kept samples");
            return Err(Failure {
                status: Some(200),
                ..Failure::new(FailureClass::TooLarge, detail)
            });
        }
        self.read_s = Some(exchange.start_s);
        let offset =
            page.made_s.map(|made_s| self.offset.observe(made_s, exchange.start_s, exchange.end_s));
        for (reading, labels) in batch.readings.iter_mut().zip(kept_labels) {
            let times = &page.times;
            reading.read_at_us = times.stands_at_us(&reading.metric, labels, page.made_s, offset);
        }
        let middle_s = (exchange.start_s + exchange.end_s) / 2.0;
        let time = ScrapeTime { seq, middle_s, offset };
        let cpu = cpu_rows::rows(&page, &self.target.name, &mut self.history, time);
        (batch.cpu, batch.has_power) = (cpu.rows, cpu.has_power);
        let scrape = &mut batch.scrape;
        scrape.samples = page.samples;
        scrape.clock_offset_us = offset.map(|offset| (offset.offset_s * 1e6).round() as i64);
        scrape.clock_error_us = offset.map(|offset| (offset.error_s * 1e6).round() as i64);
        Ok(())
    }

    fn scrape_row(&mut self, exchange: &Exchange, seq: u64) -> Scrape {
        let wall_step_us = exchange.wall_ahead_us - self.wall_ahead_us;
        self.wall_ahead_us = exchange.wall_ahead_us;
        Scrape {
            timestamp_us: (exchange.start_s * 1e6).round() as i64,
            target: self.target.name.clone(),
            url: self.target.shown_url().to_string(),
            seq,
            mono_ns: i64::try_from(exchange.start.as_nanos()).unwrap_or(i64::MAX),
            duration_us: ((exchange.end_s - exchange.start_s) * 1e6).round() as u64,
            status: None,
            outcome: String::new(),
            detail: None,
            bytes: None,
            samples: 0,
            rows: 0,
            missed_ticks: exchange.missed,
            clock_offset_us: None,
            clock_error_us: None,
            wall_step_us,
        }
    }
}

fn refused(refusal: Refusal) -> Failure {
    let (class, detail) = match refusal {
        Refusal::SameAs(owner) => {
            (FailureClass::Duplicate, format!("the target {owner} is the same exporter"))
        }
        Refusal::Several => (
            FailureClass::Several,
            "the address leads to more than one exporter, expected the address of one".to_owned(),
        ),
    };
    Failure { status: Some(200), ..Failure::new(class, detail) }
}
