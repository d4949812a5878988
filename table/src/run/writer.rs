//! Writes a run: journal first, then CSV, then, segment by segment, Parquet.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use super::csv_file::{CsvFile, Restored};
use super::error::RunError;
use super::paths::RunPaths;
use super::seal::{Sealed, seal};
use crate::disk;
use crate::journal::Segment;
use crate::part::noted;
use crate::record::RecordRef;
use crate::{
    CpuManifest, CpuSample, CsvVersion, LongReading, PartError, PartReader, Record, RuleRecord,
    Scrape, ScrapeNumber, ScrapeRecord, SegmentReader, Simulated, SocketRead,
};

/// How a run is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Version of samples.csv.
    pub csv_version: CsvVersion,
    /// Size from which [`RunWriter::wants_rotation`] says yes. Sealing holds a segment's rows in memory, which takes
    /// several times this.
    pub segment_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { csv_version: CsvVersion::default(), segment_bytes: 64 * 1024 * 1024 }
    }
}

/// What opening a run found and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// Whether the run had been recorded to before.
    pub resumed: bool,
    /// What was replayed from the journal into Parquet.
    pub sealed: Sealed,
    /// Bytes of a torn last line that were cut from samples.csv. Its row is in the journal, so it is among those added.
    pub csv_bytes_cut: u64,
    /// Rows of the journal that were missing in samples.csv and were appended.
    pub csv_rows_added: u64,
    /// Rows of the journal that are missing in samples.csv and were not appended, as rows before them are missing too:
    /// other hands changed the file, or the journal is damaged. They are in Parquet.
    pub csv_rows_left_out: u64,
    /// Per target, the highest number of its scrapes; numbering goes on from there.
    pub last_seq: BTreeMap<String, u64>,
    /// The sockets of the last part, by node and number, and when the last recorded reading of each was read, in
    /// microseconds of the node's clock, where its page said so.
    pub sockets: BTreeMap<(String, u32), Option<i64>>,
    /// Whether the rows of the parts are of simulated machines; `None` where no part says so.
    pub simulated: Option<Simulated>,
    /// The manifest of the recording before, when it ended in order.
    pub manifest: Option<CpuManifest>,
    /// What was lost, cut or left out, and what could not be read and was not needed: each a line for the log.
    pub warnings: Vec<String>,
}

impl Recovery {
    /// Says what was lost, cut or left out in the files of rows.
    fn warn_of_losses(&mut self, csv: &Path) {
        self.warnings.extend(self.sealed.warnings());
        let losses = [
            (self.csv_bytes_cut, "bytes of a torn last line were cut"),
            (self.csv_rows_left_out, "rows are left out, as rows before them are missing"),
        ];
        for (count, loss) in losses.into_iter().filter(|(count, _)| *count > 0) {
            self.warnings.push(format!("{}: {count} {loss}", csv.display()));
        }
    }
}

/// A run that is being recorded. Dropped without [`RunWriter::close`], it is recovered when it is opened again.
#[derive(Debug)]
pub struct RunWriter {
    paths: RunPaths,
    options: Options,
    csv: CsvFile,
    segment: Segment,
    number: u64,
    /// Segments that are complete and could not be sealed yet.
    unsealed: Vec<u64>,
    _lock: File,
}

impl RunWriter {
    /// Opens a run to record into it, a new one or one that was recorded to before, and recovers it.
    ///
    /// # Errors
    /// When another recorder holds the directory, samples.csv has another version, or the disk refuses.
    pub fn open(directory: &Path, options: Options) -> Result<(RunWriter, Recovery), RunError> {
        let paths = RunPaths::new(directory);
        fs::create_dir_all(directory).map_err(disk::at("create", directory))?;
        disk::sync_parent(directory)?;
        let locked = RunError::Locked { path: directory.to_owned() };
        let lock = disk::lock(&paths.lock())?.ok_or(locked)?;
        disk::make_dir(&paths.cpu())?;
        disk::make_dir(&paths.journal())?;

        let mut recovery = Recovery { resumed: paths.csv().exists(), ..Recovery::default() };
        let (mut csv, cut) = CsvFile::open(&paths.csv(), options.csv_version)?;
        recovery.csv_bytes_cut = cut;
        let segments = paths.segments()?;
        for number in &segments {
            restore_csv(&mut csv, &paths.segment(*number), &mut recovery)?;
        }
        csv.sync()?;
        for number in segments {
            recovery.sealed.add(seal(&paths, number)?);
        }
        recovery.warn_of_losses(&paths.csv());
        last_numbers(&paths, &mut recovery)?;
        last_reads(&paths, &mut recovery)?;
        recovery.simulated = simulated(&paths)?;
        last_manifest(&paths, &mut recovery);

        let number = paths.next_number()?;
        let segment = Segment::create(&paths.segment(number))?;
        let unsealed = Vec::new();
        Ok((RunWriter { paths, options, csv, segment, number, unsealed, _lock: lock }, recovery))
    }

    /// Records one scrape: to the journal, then its published rows to samples.csv, each in one write. Returns what is now
    /// in the journal.
    ///
    /// When this is `Ok` the scrape is in the journal, and only then. Lines that samples.csv does not take wait, and
    /// [`RunWriter::sync`] reports it.
    ///
    /// # Errors
    /// A full disk, a scrape too large for a record, a text with a line break. Nothing was recorded.
    pub fn append(
        &mut self,
        scrape: Scrape,
        cpu: Vec<CpuSample>,
        readings: Vec<LongReading>,
    ) -> Result<ScrapeRecord, RunError> {
        cpu.iter().try_for_each(check_texts)?;
        self.csv.check_room()?;
        let csv_offset = self.csv.offset();
        let record = ScrapeRecord { scrape, cpu, readings, csv_offset };
        self.segment.append(RecordRef::Scrape(&record))?;
        self.csv.append(&record.cpu);
        Ok(record)
    }

    /// Records what rules made of the scrapes so far, in one write.
    ///
    /// # Errors
    /// A full disk. Nothing was recorded, and it may be tried again.
    pub fn append_rules(&mut self, record: &RuleRecord) -> Result<(), RunError> {
        Ok(self.segment.append(RecordRef::Rules(record))?)
    }

    /// The run's directory.
    pub fn directory(&self) -> &Path {
        self.paths.root()
    }

    /// Puts the text of the rules that are evaluated beside the tables. Returns whether there were any before.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn keep_rules(&self, text: &str) -> Result<bool, RunError> {
        let path = self.paths.rules();
        let had_rules = path.exists();
        disk::replace(&path, text.as_bytes())?;
        Ok(had_rules)
    }

    /// Makes all that was recorded durable. To be called every second or so; what came after the last call may be lost
    /// with the machine's power, though not with the process.
    ///
    /// # Errors
    /// When the disk refuses. Rows that wait for samples.csv go on waiting.
    pub fn sync(&mut self) -> Result<(), RunError> {
        self.segment.sync()?;
        self.csv.sync()?;
        Ok(())
    }

    /// Whether the segment has grown so that it should be sealed, however short the time.
    pub fn wants_rotation(&self) -> bool {
        self.segment.bytes() >= self.options.segment_bytes
    }

    /// Begins a new segment and seals the one before, and any that could not be sealed earlier.
    ///
    /// # Errors
    /// When the disk refuses. Recording can go on, and the next rotation tries again.
    pub fn rotate(&mut self) -> Result<Sealed, RunError> {
        // samples.csv must be durable before the journal that could restore it is gone.
        self.sync()?;
        if self.segment.records() > 0 {
            self.segment = Segment::create(&self.paths.segment(self.number + 1))?;
            self.unsealed.push(self.number);
            self.number += 1;
        }
        self.seal_complete()
    }

    /// Ends the recording: seals everything and puts the manifest in place.
    ///
    /// # Errors
    /// When the disk refuses. The run is recovered when it is opened again.
    pub fn close(mut self, manifest: &CpuManifest) -> Result<Sealed, RunError> {
        self.sync()?;
        self.unsealed.push(self.number);
        let sealed = self.seal_complete()?;
        disk::replace(&self.paths.manifest(), &manifest.to_json())?;
        Ok(sealed)
    }

    fn seal_complete(&mut self) -> Result<Sealed, RunError> {
        let mut sealed = Sealed::default();
        while let Some(number) = self.unsealed.first() {
            sealed.add(seal(&self.paths, *number)?);
            self.unsealed.remove(0);
        }
        Ok(sealed)
    }
}

/// A line break within a cell would make a torn tail look whole.
fn check_texts(row: &CpuSample) -> Result<(), RunError> {
    for (column, text) in
        [("hostname", &row.hostname), ("source", &row.source), ("sensor", &row.sensor)]
    {
        if text.contains(['\r', '\n']) {
            return Err(RunError::LineBreak {
                column,
                socket_id: row.socket_id,
                found: text.clone(),
            });
        }
    }
    Ok(())
}

fn restore_csv(csv: &mut CsvFile, segment: &Path, recovery: &mut Recovery) -> Result<(), RunError> {
    for record in SegmentReader::open(segment)? {
        let Record::Scrape(record) = record? else { continue };
        match csv.restore(&record)? {
            Restored::Present => {}
            Restored::Added(rows) => recovery.csv_rows_added += rows,
            Restored::Foreign(rows) => recovery.csv_rows_left_out += rows,
        }
    }
    Ok(())
}

/// Finds the last number of each target in the parts. A part that cannot be read must not stop the recording; numbers
/// may then be used again, and the warning says so by naming it.
fn last_numbers(paths: &RunPaths, recovery: &mut Recovery) -> Result<(), RunError> {
    for number in paths.parts::<Scrape>()? {
        let rows = match PartReader::<ScrapeNumber>::open(&paths.part::<Scrape>(number)) {
            Ok(rows) => rows,
            Err(error) => {
                recovery.warnings.push(error.to_string());
                continue;
            }
        };
        for row in rows {
            match row {
                Ok(row) => {
                    let last = recovery.last_seq.entry(row.target).or_default();
                    *last = row.seq.max(*last);
                }
                Err(error) => {
                    recovery.warnings.push(error.to_string());
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Sums up what the footers of the parts say. One that cannot be read was named by now.
fn simulated(paths: &RunPaths) -> Result<Option<Simulated>, RunError> {
    let parts = paths.parts::<CpuSample>()?;
    let words = parts.into_iter().filter_map(|number| {
        let word = noted::<SocketRead>(&paths.part::<CpuSample>(number), "wattscribe.simulated");
        Simulated::from_word(&word.ok()??)
    });
    Ok(words.reduce(Simulated::and))
}

/// Finds the sockets of the last part. One that is in an older part only was read too long ago to be met again.
fn last_reads(paths: &RunPaths, recovery: &mut Recovery) -> Result<(), RunError> {
    let Some(number) = paths.parts::<CpuSample>()?.last().copied() else { return Ok(()) };
    let read = |recovery: &mut Recovery| -> Result<(), PartError> {
        for row in PartReader::<SocketRead>::open(&paths.part::<CpuSample>(number))? {
            let row = row?;
            // Sorted by time within a socket: the last one stays. A withheld row has no time of its own.
            let last = recovery.sockets.entry((row.hostname, row.socket_id)).or_default();
            *last = row.sensor_time_us.or(*last);
        }
        Ok(())
    };
    if let Err(error) = read(recovery) {
        recovery.warnings.push(error.to_string());
    }
    Ok(())
}

fn last_manifest(paths: &RunPaths, recovery: &mut Recovery) {
    let path = paths.manifest();
    match fs::read(&path) {
        Ok(json) => match CpuManifest::from_json(&json) {
            Ok(manifest) => recovery.manifest = Some(manifest),
            Err(error) => recovery.warnings.push(format!("{}: {error}", path.display())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => recovery.warnings.push(disk::at("read", &path)(error).to_string()),
    }
}
