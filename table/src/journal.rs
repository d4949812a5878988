//! The journal: scrapes are durable here before any Parquet exists.
//!
//! A segment is a header of twelve bytes (magic, version) and then records: length, CRC-32, payload; integers little
//! endian. One record is one write: a scrape with all its rows, or what rules made of those before it. Bytes that are no
//! whole record are, at the end of a segment, a torn write, which is expected after a crash; with more behind them they
//! are damage: reading goes on at the next whole record, and the segment is to be kept.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{self, DiskError, GrowingFile};
use crate::record::{Record, RecordHead, RecordRef};

const MAGIC: [u8; 8] = *b"wattscrb";

/// Version of the payload. The payload has no field names, so any change of a row type is a new version.
const VERSION: u32 = 2;

const HEADER_BYTES: usize = 12;
const FRAME_BYTES: usize = 8;

/// Largest payload. Sixteen mebibytes of exposition text become about forty of readings; a length beyond this is damage.
pub const RECORD_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn header_bytes() -> [u8; HEADER_BYTES] {
    let [m0, m1, m2, m3, m4, m5, m6, m7] = MAGIC;
    let [v0, v1, v2, v3] = VERSION.to_le_bytes();
    [m0, m1, m2, m3, m4, m5, m6, m7, v0, v1, v2, v3]
}

/// A segment that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Too many rows at once. Nothing was written.
    #[error("{what} takes {found} bytes, expected at most {RECORD_BYTES_MAX}")]
    TooLarge {
        /// The scrape, or the results.
        what: String,
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
        if file.len() > HEADER_BYTES as u64 {
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
    pub(crate) fn append(&mut self, record: RecordRef<'_>) -> Result<(), JournalError> {
        let frame = postcard::to_extend(&record, vec![0; FRAME_BYTES]);
        let mut frame = frame.map_err(|source| JournalError::Payload {
            path: self.file.path().to_owned(),
            offset: self.file.len(),
            source,
        })?;
        let (head, payload) = frame.split_at_mut(FRAME_BYTES);
        let length = u32::try_from(payload.len())
            .ok()
            .filter(|length| u64::from(*length) <= RECORD_BYTES_MAX);
        let Some(length) = length else {
            let what = match record {
                RecordRef::Scrape(record) => {
                    format!("scrape {} of {}", record.scrape.seq, record.scrape.target)
                }
                RecordRef::Rules(record) => format!("a record of {} results", record.derived.len()),
            };
            return Err(JournalError::TooLarge { what, found: payload.len() as u64 });
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
    /// Bytes in its middle that cannot be read, or a header that is not ours. The whole records around them were read.
    Damaged {
        /// Bytes that could not be read, those after the last whole record included.
        bytes: u64,
    },
}

/// Reads the whole records of a segment, which may be being written.
///
/// It is held in memory: its rows take several times as much, and behind damage every byte may be a beginning.
#[derive(Debug)]
pub struct SegmentReader {
    path: PathBuf,
    bytes: Vec<u8>,
    /// End of what has been read.
    offset: usize,
    /// Bytes before it that could not be read.
    skipped: usize,
    tail: Option<Tail>,
}

impl SegmentReader {
    /// Opens a segment.
    ///
    /// # Errors
    /// When the file cannot be read, or another version wrote it.
    pub fn open(path: &Path) -> Result<SegmentReader, JournalError> {
        let bytes = disk::read(path)?;
        let mut reader =
            SegmentReader { path: path.to_owned(), bytes, offset: 0, skipped: 0, tail: None };
        reader.header()?;
        Ok(reader)
    }

    fn header(&mut self) -> Result<(), JournalError> {
        let all = self.bytes.len() as u64;
        let Some((header, rest)) = self.bytes.split_first_chunk::<HEADER_BYTES>() else {
            self.tail = Some(if all == 0 { Tail::Clean } else { Tail::Torn { bytes: all } });
            return Ok(());
        };
        let ours = header_bytes();
        let same = header.iter().zip(&ours).take_while(|(found, ours)| found == ours).count();
        let same_version = header[MAGIC.len()..] == ours[MAGIC.len()..];
        if same == HEADER_BYTES {
            self.offset = HEADER_BYTES;
        } else if is_blank(&header[same..]) && is_blank(rest) {
            self.tail = Some(Tail::Torn { bytes: all });
        } else if same >= MAGIC.len() {
            let [.., v0, v1, v2, v3] = *header;
            let found = u32::from_le_bytes([v0, v1, v2, v3]);
            return Err(JournalError::OtherVersion { path: self.path.clone(), found });
        } else if !same_version {
            // Nobody knows how its records are to be read.
            self.tail = Some(Tail::Damaged { bytes: all });
        }
        // A magic that is damaged alone is skipped as any damage is.
        Ok(())
    }

    /// How the segment ends; `None` until the iterator has.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves to the next whole record, and gives the length of its payload. Where there is none, says how the segment
    /// ends.
    fn find(&mut self) -> Result<usize, Tail> {
        let rest = &self.bytes[self.offset..];
        if let Some(payload) = whole_record(rest) {
            return Ok(payload.len());
        }
        let (skipped, length) = next_record(rest).ok_or_else(|| self.end())?;
        self.offset += skipped;
        self.skipped += skipped;
        Ok(length)
    }

    /// How a segment ends that has no whole record any more.
    fn end(&self) -> Tail {
        let rest = &self.bytes[self.offset..];
        let bytes = (self.skipped + rest.len()) as u64;
        match bytes {
            0 => Tail::Clean,
            bytes if self.skipped == 0 && is_torn(rest) => Tail::Torn { bytes },
            bytes => Tail::Damaged { bytes },
        }
    }
}

/// As a file system leaves bytes when power was lost before the data was written.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The length and the checksum of the payload that a frame at the start of `bytes` announces.
fn frame(bytes: &[u8]) -> Option<(usize, u32)> {
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *bytes.first_chunk::<FRAME_BYTES>()?;
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    let plausible = length > 0 && u64::from(length) <= RECORD_BYTES_MAX;
    plausible.then_some((length as usize, u32::from_le_bytes([c0, c1, c2, c3])))
}

/// The payload of the record at the start of `bytes`, if it is whole.
fn whole_record(bytes: &[u8]) -> Option<&[u8]> {
    let (length, checksum) = frame(bytes)?;
    let payload = bytes[FRAME_BYTES..].get(..length)?;
    (crc32fast::hash(payload) == checksum).then_some(payload)
}

/// Where in `bytes` the next whole record begins, and the length of its payload.
///
/// One in 64 places of any bytes looks like a frame, of megabytes mostly, and hardly any has a record behind it. That
/// is tried first, so that a segment of nothing but damage takes seconds and not the checksums of terabytes.
fn next_record(bytes: &[u8]) -> Option<(usize, usize)> {
    (1..bytes.len()).find_map(|at| {
        let bytes = &bytes[at..];
        let (length, _) = frame(bytes)?;
        let payload = bytes[FRAME_BYTES..].get(..length)?;
        postcard::take_from_bytes::<RecordHead>(payload).ok()?;
        whole_record(bytes)?;
        Some((at, length))
    })
}

/// Whether bytes without any whole record are what is left of one write: part of a record, or all of it with some of
/// its bytes lost, and nothing behind it.
fn is_torn(bytes: &[u8]) -> bool {
    match frame(bytes) {
        Some((length, _)) => bytes.get(FRAME_BYTES + length..).is_none_or(is_blank),
        None => bytes.len() < FRAME_BYTES || is_blank(bytes),
    }
}

impl Iterator for SegmentReader {
    type Item = Result<Record, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.tail.is_some() {
            return None;
        }
        let length = match self.find() {
            Ok(length) => length,
            Err(tail) => {
                self.tail = Some(tail);
                return None;
            }
        };
        let offset = self.offset;
        let payload = offset + FRAME_BYTES..offset + FRAME_BYTES + length;
        self.offset = payload.end;
        let record = postcard::from_bytes(&self.bytes[payload]);
        Some(record.map_err(|source| JournalError::Payload {
            path: self.path.clone(),
            offset: offset as u64,
            source,
        }))
    }
}

#[cfg(test)]
mod tests;
