//! The journal: scrapes are durable here before any Parquet exists.
//!
//! A segment is a header of twelve bytes (magic, version) and then records: length, CRC-32, payload; integers little
//! endian. One record is one scrape and one write. Reading stops at the first record that is not whole: at the end of
//! a segment that is a torn write, which is expected after a crash; with more behind it, it is damage, and the segment
//! is to be kept.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk::{self, DiskError, GrowingFile};
use crate::{CpuPower, CpuSample, LongReading, Row, Scrape, ScrapeNumber, ScrapeOutcome};

const MAGIC: [u8; 8] = *b"wattscrb";

/// Version of the payload. The payload has no field names, so any change of a row type is a new version.
const VERSION: u32 = 1;

const HEADER_BYTES: u64 = 12;
const FRAME_BYTES: u64 = 8;

/// Largest payload. Sixteen mebibytes of exposition text become about forty of readings; a length beyond this is damage.
pub const RECORD_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn header_bytes() -> [u8; HEADER_BYTES as usize] {
    let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
    let [v0, v1, v2, v3] = VERSION.to_le_bytes();
    [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, v2, v3]
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

/// A row type that a record of the journal holds.
pub trait Journaled: Row {
    /// Its rows of a record.
    fn of(record: ScrapeRecord) -> Vec<Self>;
}

impl Journaled for CpuSample {
    fn of(record: ScrapeRecord) -> Vec<Self> {
        record.cpu
    }
}

impl Journaled for CpuPower {
    fn of(record: ScrapeRecord) -> Vec<Self> {
        record.cpu.into_iter().map(CpuPower::from).collect()
    }
}

impl Journaled for Scrape {
    fn of(record: ScrapeRecord) -> Vec<Self> {
        vec![record.scrape]
    }
}

impl Journaled for ScrapeNumber {
    fn of(record: ScrapeRecord) -> Vec<Self> {
        vec![ScrapeNumber { target: record.scrape.target, seq: record.scrape.seq }]
    }
}

impl Journaled for ScrapeOutcome {
    fn of(record: ScrapeRecord) -> Vec<Self> {
        vec![ScrapeOutcome { target: record.scrape.target, outcome: record.scrape.outcome }]
    }
}

impl Journaled for LongReading {
    fn of(record: ScrapeRecord) -> Vec<Self> {
        record.readings
    }
}

/// A segment that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A scrape with too many rows. Nothing was written.
    #[error("scrape {seq} of {target} takes {found} bytes, expected at most {RECORD_BYTES_MAX}")]
    TooLarge {
        /// The target.
        target: String,
        /// The scrape's number.
        seq: u64,
        /// Size of its record.
        found: u64,
    },
    /// A record that cannot be encoded, or is whole and cannot be decoded.
    #[error("{}: record at byte {offset}: {source}", path.display())]
    Payload {
        /// The segment.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// What the codec says.
        source: postcard::Error,
    },
    /// The segment was written by another version of this program, which should read it.
    #[error("{}: found journal version {found}, expected {VERSION}", path.display())]
    OtherVersion {
        /// The segment.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// A segment that is being written.
#[derive(Debug)]
pub(crate) struct Segment {
    file: GrowingFile,
    records: u64,
}

impl Segment {
    /// Begins a segment whose name is free.
    pub(crate) fn create(path: &Path) -> Result<Segment, JournalError> {
        let mut file = GrowingFile::open(path)?;
        if file.len() > HEADER_BYTES {
            let taken =
                io::Error::new(io::ErrorKind::AlreadyExists, "found a segment with records");
            return Err(disk::at("begin", path)(taken).into());
        }
        // An earlier attempt may have written the header and failed to sync it.
        file.cut(0)?;
        file.append(&header_bytes())?;
        file.sync()?;
        Ok(Segment { file, records: 0 })
    }

    /// Appends one record in one write. After an error nothing of it stays.
    pub(crate) fn append(&mut self, record: &ScrapeRecord) -> Result<(), JournalError> {
        let frame = postcard::to_extend(record, vec![0; FRAME_BYTES as usize]);
        let mut frame = frame.map_err(|source| JournalError::Payload {
            path: self.file.path().to_owned(),
            offset: self.file.len(),
            source,
        })?;
        let (head, payload) = frame.split_at_mut(FRAME_BYTES as usize);
        let length = u32::try_from(payload.len())
            .ok()
            .filter(|length| u64::from(*length) <= RECORD_BYTES_MAX);
        let Some(length) = length else {
            return Err(JournalError::TooLarge {
                target: record.scrape.target.clone(),
                seq: record.scrape.seq,
                found: payload.len() as u64,
            });
        };
        head[..4].copy_from_slice(&length.to_le_bytes());
        head[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        self.file.append(&frame)?;
        self.records += 1;
        Ok(())
    }

    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.file.len()
    }
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// After a whole record.
    Clean,
    /// In the middle of the last write.
    Torn {
        /// Bytes after the last whole record.
        bytes: u64,
    },
    /// A bad record with more behind it, or a header that is not ours.
    Damaged {
        /// Bytes that could not be read.
        bytes: u64,
    },
}

/// Reads the whole records of a segment, which may be being written.
#[derive(Debug)]
pub struct SegmentReader {
    path: PathBuf,
    input: BufReader<File>,
    /// Length when it was opened.
    len: u64,
    /// End of the last whole record.
    offset: u64,
    tail: Option<Tail>,
}

impl SegmentReader {
    /// Opens a segment.
    ///
    /// # Errors
    /// When the file cannot be read, or another version wrote it.
    pub fn open(path: &Path) -> Result<SegmentReader, JournalError> {
        let file = disk::open(path)?;
        let len = file.metadata().map_err(disk::at("read", path))?.len();
        let mut reader = SegmentReader {
            path: path.to_owned(),
            input: BufReader::with_capacity(1 << 16, file),
            len,
            offset: 0,
            tail: None,
        };
        let mut header = [0; HEADER_BYTES as usize];
        if len < HEADER_BYTES {
            reader.tail = Some(if len == 0 { Tail::Clean } else { Tail::Torn { bytes: len } });
            return Ok(reader);
        }
        reader.fill(&mut header)?;
        let ours = header_bytes();
        let same = header.iter().zip(&ours).take_while(|(found, ours)| found == ours).count();
        if same == ours.len() {
            reader.offset = HEADER_BYTES;
        } else if header[same..].iter().all(|byte| *byte == 0) && reader.rest_is_blank()? {
            reader.tail = Some(Tail::Torn { bytes: len });
        } else if same < MAGIC.len() {
            reader.tail = Some(Tail::Damaged { bytes: len });
        } else {
            let [.., v0, v1, v2, v3] = header;
            let found = u32::from_le_bytes([v0, v1, v2, v3]);
            return Err(JournalError::OtherVersion { path: path.to_owned(), found });
        }
        Ok(reader)
    }

    /// How the segment ends; `None` until the iterator has.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.input.read_exact(bytes).map_err(disk::at("read", &self.path))
    }

    /// Whether only zeros follow, as a file system leaves them when power was lost before the data was written.
    fn rest_is_blank(&mut self) -> Result<bool, DiskError> {
        let mut rest = self.input.by_ref().bytes();
        let blank = rest.try_fold(true, |blank, byte| Ok::<_, io::Error>(blank && byte? == 0));
        blank.map_err(disk::at("read", &self.path))
    }

    /// The payload of the next record, or how the segment ends.
    fn payload(&mut self) -> Result<Result<Vec<u8>, Tail>, DiskError> {
        let bytes = self.len - self.offset;
        if bytes == 0 {
            return Ok(Err(Tail::Clean));
        }
        if bytes < FRAME_BYTES {
            return Ok(Err(Tail::Torn { bytes }));
        }
        let mut frame = [0; FRAME_BYTES as usize];
        self.fill(&mut frame)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = frame;
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        if length == 0 || length > RECORD_BYTES_MAX {
            let blank = frame == [0; 8] && self.rest_is_blank()?;
            return Ok(Err(if blank { Tail::Torn { bytes } } else { Tail::Damaged { bytes } }));
        }
        if FRAME_BYTES + length > bytes {
            return Ok(Err(Tail::Torn { bytes }));
        }
        let mut payload = vec![0; length as usize];
        self.fill(&mut payload)?;
        if crc32fast::hash(&payload) != u32::from_le_bytes([c0, c1, c2, c3]) {
            let last = FRAME_BYTES + length == bytes || self.rest_is_blank()?;
            return Ok(Err(if last { Tail::Torn { bytes } } else { Tail::Damaged { bytes } }));
        }
        Ok(Ok(payload))
    }
}

impl Iterator for SegmentReader {
    type Item = Result<ScrapeRecord, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.tail.is_some() {
            return None;
        }
        match self.payload() {
            Ok(Ok(payload)) => {
                let offset = self.offset;
                self.offset += FRAME_BYTES + payload.len() as u64;
                Some(postcard::from_bytes(&payload).map_err(|source| JournalError::Payload {
                    path: self.path.clone(),
                    offset,
                    source,
                }))
            }
            Ok(Err(tail)) => {
                self.tail = Some(tail);
                None
            }
            Err(error) => {
                self.tail = Some(Tail::Damaged { bytes: self.len - self.offset });
                Some(Err(error.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
