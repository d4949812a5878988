//! Reads samples.csv of every version, row by row.
//!
//! Bad input never stops the good: a row that cannot be read is skipped and noted, as are a header of no known version,
//! a missing file and a torn last line. Nothing is repaired; a number that cannot be a power is no number.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom, Take};
use std::path::Path;

use wattscribe_rules::{RailKind, State, classify};

use super::header::Layout;
use super::issue::{CsvIssue, CsvReason, note};
use super::line::{Cells, Line, Split, read_line, whole_lines};
use crate::CpuSample;

/// The rows of a samples.csv. What CSV does not carry is filled with what it means there: the state is ok, the
/// averaging unknown, the scrape number 0 and the rest absent.
pub struct SamplesCsv<R> {
    input: Option<Take<R>>,
    columns: Columns,
    sensors: Option<Sensors>,
    line: Vec<u8>,
    line_number: u64,
    cells: Cells,
    issues: Vec<CsvIssue>,
}

/// In version 1, the one sensor that stands for each socket of each host: `(hostname, socket) -> sensor`.
type Sensors = HashMap<(String, u32), (u8, String)>;

impl SamplesCsv<BufReader<File>> {
    /// Opens a file. A missing or unreadable one has no rows and an issue.
    pub fn open(path: &Path) -> Self {
        match File::open(path) {
            Ok(file) => SamplesCsv::new(BufReader::with_capacity(1 << 16, file)),
            Err(error) => {
                let mut reader = SamplesCsv::empty();
                let reason = match error.kind() {
                    ErrorKind::NotFound => CsvReason::Missing,
                    _ => CsvReason::Malformed,
                };
                note(&mut reader.issues, reason, 0, error.to_string());
                reader
            }
        }
    }
}

impl<R: BufRead + Seek> SamplesCsv<R> {
    /// Reads from the start of `input` up to the last line end that is there now, so that a file which is being
    /// written can be read as well.
    pub fn new(input: R) -> Self {
        let mut reader = SamplesCsv::empty();
        if let Err(error) = reader.begin(input) {
            reader.note(CsvReason::Malformed, error.to_string());
        }
        reader
    }

    fn empty() -> Self {
        SamplesCsv {
            input: None,
            columns: Columns::of(Layout::V3),
            sensors: None,
            line: Vec::new(),
            line_number: 0,
            cells: Cells::default(),
            issues: Vec::new(),
        }
    }

    /// What had to be left out so far; complete once the iterator has ended.
    pub fn issues(&self) -> &[CsvIssue] {
        &self.issues
    }

    fn begin(&mut self, mut input: R) -> io::Result<()> {
        let whole = whole_lines(&mut input)?;
        let torn = input.seek(SeekFrom::End(0))? - whole;
        input.seek(SeekFrom::Start(0))?;
        self.input = Some(input.take(whole));
        if torn > 0 {
            note(
                &mut self.issues,
                CsvReason::Torn,
                0,
                format!("last line of {torn} bytes does not end"),
            );
        }
        let Some(layout) = self.header()? else {
            self.input = None;
            return Ok(());
        };
        self.columns = Columns::of(layout);
        if layout == Layout::V1 {
            self.choose_sensors(whole)?;
        }
        Ok(())
    }

    fn header(&mut self) -> io::Result<Option<Layout>> {
        let found = self.next_line()? == Line::Whole;
        let layout = Layout::of(&self.line).filter(|_| found);
        if layout.is_none() {
            let start =
                String::from_utf8_lossy(&self.line[..self.line.len().min(200)]).into_owned();
            let what =
                format!("found header {start:?}, expected that of version 1, 2, 3 or the host's 4");
            self.note(CsvReason::HeaderMismatch, what);
        }
        Ok(layout)
    }

    /// Version 1 has a row per rail. One sensor must stand for a socket over the whole file: choosing anew at each
    /// scrape would join the powers of different rails into one series. So the file is read twice.
    fn choose_sensors(&mut self, whole: u64) -> io::Result<()> {
        let mut sensors = Sensors::new();
        for row in &mut *self {
            let candidate = (sensor_rank(&row.source, &row.sensor), row.sensor);
            let key = (row.hostname, row.socket_id);
            match sensors.get_mut(&key) {
                Some(best) if *best <= candidate => {}
                Some(best) => *best = candidate,
                None => drop(sensors.insert(key, candidate)),
            }
        }
        // The second reading meets the same bad rows again.
        self.issues.retain(|issue| issue.reason == CsvReason::Torn);
        self.line_number = 0;
        if let Some(input) = &mut self.input {
            input.get_mut().seek(SeekFrom::Start(0))?;
            input.set_limit(whole);
        }
        self.header()?;
        self.sensors = Some(sensors);
        Ok(())
    }

    fn next_line(&mut self) -> io::Result<Line> {
        let Some(input) = &mut self.input else { return Ok(Line::End) };
        let line = read_line(input, &mut self.line)?;
        self.line_number += u64::from(line != Line::End);
        Ok(line)
    }

    fn note(&mut self, reason: CsvReason, what: String) {
        note(&mut self.issues, reason, self.line_number, what);
    }

    /// The row of the current line; `None` when it is blank or of a sensor that was not chosen.
    fn row(&mut self) -> Result<Option<CpuSample>, String> {
        if self.line.is_empty() {
            return Ok(None);
        }
        let cells = self.cells.split(&self.line).ok_or("a quote does not close")?;
        let row = self.columns.read(&cells)?;
        let chosen = self.sensors.as_ref().is_none_or(|sensors| {
            sensors
                .get(&(row.hostname.clone(), row.socket_id))
                .is_some_and(|(_, sensor)| *sensor == row.sensor)
        });
        Ok(chosen.then_some(row))
    }
}

impl<R: BufRead + Seek> Iterator for SamplesCsv<R> {
    type Item = CpuSample;

    fn next(&mut self) -> Option<CpuSample> {
        loop {
            match self.next_line() {
                Ok(Line::End) => return None,
                Ok(Line::TooLong) => {
                    self.note(CsvReason::Malformed, "line is longer than 64 KiB".into());
                }
                Ok(Line::Whole) => match self.row() {
                    Ok(Some(row)) => return Some(row),
                    Ok(None) => {}
                    Err(what) => self.note(CsvReason::Malformed, what),
                },
                Err(error) => {
                    self.note(CsvReason::Malformed, format!("reading stopped: {error}"));
                    self.input = None;
                }
            }
        }
    }
}

/// Where the columns of a layout stand. Those that a layout lacks have no position.
struct Columns {
    layout: Layout,
    width: usize,
    schema_version: Option<usize>,
    timestamp_unix: Option<usize>,
    hostname: Option<usize>,
    source: Option<usize>,
    sensor: Option<usize>,
    socket_id: Option<usize>,
    power_w: Option<usize>,
    cpu_rail_w: Option<usize>,
    soc_w: Option<usize>,
    dram_w: Option<usize>,
    module_w: Option<usize>,
    total_power_w: Option<usize>,
}

impl Columns {
    fn of(layout: Layout) -> Columns {
        Columns {
            layout,
            width: layout.width(),
            schema_version: layout.position("schema_version"),
            timestamp_unix: layout.position("timestamp_unix"),
            hostname: layout.position("hostname"),
            source: layout.position("source"),
            sensor: layout.position("sensor"),
            socket_id: layout.position("socket_id"),
            power_w: layout.position("power_w"),
            cpu_rail_w: layout.position("cpu_rail_w"),
            soc_w: layout.position("soc_w"),
            dram_w: layout.position("dram_w"),
            module_w: layout.position("module_w"),
            total_power_w: layout.position("total_power_w"),
        }
    }

    fn read(&self, cells: &Split<'_>) -> Result<CpuSample, String> {
        if cells.len() != self.width {
            return Err(format!("found {} cells, expected {}", cells.len(), self.width));
        }
        let text = |at: Option<usize>| at.map_or(&[][..], |at| cells.cell(at));
        let version: u32 = number("schema_version", text(self.schema_version))?;
        if version != self.layout.number() {
            return Err(format!(
                "schema_version is {version}, the header's is {}",
                self.layout.number()
            ));
        }
        let timestamp_unix: f64 = number("timestamp_unix", text(self.timestamp_unix))?;
        if !timestamp_unix.is_finite() {
            return Err(format!("timestamp_unix is {timestamp_unix}, expected a finite number"));
        }
        let source = name("source", text(self.source))?;
        if self.layout != Layout::V1 && !matches!(source.as_str(), "acpi" | "dcgm" | "rapl") {
            return Err(format!("source is {source:?}, expected acpi, dcgm or rapl"));
        }
        let power_w = watts("power_w", text(self.power_w))?.ok_or("power_w is empty")?;
        Ok(CpuSample {
            timestamp_unix,
            hostname: name("hostname", text(self.hostname))?,
            source,
            sensor: name("sensor", text(self.sensor))?,
            socket_id: number("socket_id", text(self.socket_id))?,
            power_w: Some(power_w),
            cpu_rail_w: watts("cpu_rail_w", text(self.cpu_rail_w))?,
            soc_w: watts("soc_w", text(self.soc_w))?,
            dram_w: watts("dram_w", text(self.dram_w))?,
            module_w: watts("module_w", text(self.module_w))?,
            total_power_w: watts("total_power_w", text(self.total_power_w))?,
            scrape_seq: 0,
            sensor_time_us: None,
            averaging: "unknown".into(),
            averaging_s: None,
            energy_counter_j: None,
            energy_counter_time: None,
            energy_counter_since: None,
            state: State::Ok,
            simulated: false,
        })
    }
}

fn number<T: std::str::FromStr>(column: &str, cell: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(cell).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| {
        format!("{column} is {:?}, expected a number", String::from_utf8_lossy(cell))
    })
}

fn name(column: &str, cell: &[u8]) -> Result<String, String> {
    match std::str::from_utf8(cell) {
        Ok("") => Err(format!("{column} is empty")),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(format!("{column} is not UTF-8: {:?}", String::from_utf8_lossy(cell))),
    }
}

fn watts(column: &str, cell: &[u8]) -> Result<Option<f64>, String> {
    if cell.is_empty() {
        return Ok(None);
    }
    let watts: f64 = number(column, cell)?;
    if watts.is_finite() && watts >= 0.0 {
        Ok(Some(watts))
    } else {
        Err(format!("{column} is {watts}, expected a finite number, not negative"))
    }
}

/// Which sensor stands for a socket when there are several: the whole socket before a part of it.
fn sensor_rank(source: &str, sensor: &str) -> u8 {
    let suffix = sensor.split_once(':').map_or("", |(_, suffix)| suffix);
    let kind = match suffix {
        "cpuSidePowerUsageW" => RailKind::Total,
        "cpuRailPowerUsageW" => RailKind::CpuRail,
        "socPowerUsageW" => RailKind::Soc,
        "dramPowerUsageW" => RailKind::Dram,
        "cpuPowerUsageW" if source == "dcgm" => return 1,
        _ => classify(sensor).kind,
    };
    match kind {
        RailKind::Total => 0,
        RailKind::CpuRail => 2,
        RailKind::Soc => 3,
        RailKind::Dram => 4,
        RailKind::Other => 5,
    }
}
