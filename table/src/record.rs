//! What one record of the journal holds, and which rows of which table are in it.

use serde::{Deserialize, Serialize};

use crate::{
    CpuPower, CpuSample, DerivedRow, DerivedTime, LongReading, Row, RuleMember, Scrape,
    ScrapeNumber, ScrapeOutcome,
};

/// What one record holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A scrape.
    Scrape(Box<ScrapeRecord>),
    /// What rules made of the scrapes before it.
    Rules(RuleRecord),
}

/// A record that is to be written: what [`Record`] reads back.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) enum RecordRef<'a> {
    Scrape(&'a ScrapeRecord),
    Rules(&'a RuleRecord),
}

/// One scrape with all its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrapeRecord {
    /// The scrape.
    pub scrape: Scrape,
    /// The sockets, published and withheld.
    pub cpu: Vec<CpuSample>,
    /// Other samples that were asked for.
    pub readings: Vec<LongReading>,
    /// Where the lines of `cpu` begin in samples.csv, in bytes: how recovery knows whether they got there.
    pub csv_offset: u64,
}

/// What rules made of scrapes. It follows from them, so one that is lost can be made anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleRecord {
    /// Results.
    pub derived: Vec<DerivedRow>,
    /// Members that were met for the first time.
    pub members: Vec<RuleMember>,
    /// With these, everything is recorded that follows from scrapes which began at or before this time, in Unix
    /// microseconds. `None` where something may be missing.
    pub until_us: Option<i64>,
}

impl RuleRecord {
    /// Whether it holds no row.
    pub fn is_empty(&self) -> bool {
        self.derived.is_empty() && self.members.is_empty()
    }
}

/// What a record begins with: enough to tell it from bytes that merely look like one.
#[derive(Deserialize)]
#[allow(dead_code, reason = "only whether it can be decoded matters")]
pub(crate) enum RecordHead {
    Scrape(Scrape),
    Rules(RuleRecord),
}

/// A row type that a record of the journal holds.
pub trait Journaled: Row {
    /// Its rows of a record.
    fn of(record: Record) -> Vec<Self>;
}

/// The rows of one kind of record; the other has none.
macro_rules! journaled {
    ($row:ty, $kind:ident, $rows:expr) => {
        impl Journaled for $row {
            fn of(record: Record) -> Vec<Self> {
                match record {
                    Record::$kind(record) => $rows(record),
                    _ => Vec::new(),
                }
            }
        }
    };
}

journaled!(CpuSample, Scrape, |record: Box<ScrapeRecord>| record.cpu);
journaled!(CpuPower, Scrape, |record: Box<ScrapeRecord>| {
    record.cpu.into_iter().map(CpuPower::from).collect()
});
journaled!(LongReading, Scrape, |record: Box<ScrapeRecord>| record.readings);
journaled!(Scrape, Scrape, |record: Box<ScrapeRecord>| vec![record.scrape]);
journaled!(ScrapeNumber, Scrape, |record: Box<ScrapeRecord>| {
    vec![ScrapeNumber { target: record.scrape.target, seq: record.scrape.seq }]
});
journaled!(ScrapeOutcome, Scrape, |record: Box<ScrapeRecord>| {
    vec![ScrapeOutcome { target: record.scrape.target, outcome: record.scrape.outcome }]
});
journaled!(DerivedRow, Rules, |record: RuleRecord| record.derived);
journaled!(DerivedTime, Rules, |record: RuleRecord| {
    record.derived.into_iter().map(DerivedTime::from).collect()
});
journaled!(RuleMember, Rules, |record: RuleRecord| record.members);
