//! Which windows are asked for, and how long a gap may be.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::path::{Path, PathBuf};

use wattscribe_rules::{Limits, Window, Windows};
use wattscribe_table::{CpuManifest, CpuPower, open_any};

use super::EnergyArgs;
use crate::time::utc;
use crate::windows;

/// The most windows of one report: each is a row for every socket, node and total, and all are held until
/// they are added up.
const WINDOWS_MAX: f64 = 1e6;

/// The windows of one report.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// The windows.
    pub windows: Windows,
    /// Their names, by number; windows without one are named by their start.
    pub names: Vec<String>,
    /// The gap limit.
    pub limits: Limits,
}

impl Selection {
    /// One window, called `name`.
    pub(crate) fn one(name: &str, window: Window, limits: Limits) -> Self {
        Self { windows: Windows::list([window]), names: vec![name.to_owned()], limits }
    }

    /// The name of a window.
    pub(crate) fn name(&self, number: usize, start_s: f64) -> String {
        self.names.get(number).cloned().unwrap_or_else(|| utc(start_s))
    }
}

/// What the arguments ask for.
pub(crate) fn windows(args: &EnergyArgs) -> Result<Selection, Box<dyn Error>> {
    let limits = limits(args)?;
    if let Some(file) = &args.windows {
        let named = windows::read(file)?;
        let names = named.iter().map(|window| window.name.clone()).collect();
        let windows = Windows::list(named.into_iter().map(|named| named.window));
        return Ok(Selection { windows, names, limits });
    }
    let (from_s, to_s) = stretch(args, limits)?;
    match args.every {
        Some(every) => {
            let count = (to_s - from_s) / every.as_secs_f64();
            if count > WINDOWS_MAX {
                return Err(format!(
                    "{count:.0} windows of {every:?}: expected at most {WINDOWS_MAX}; ask for longer ones or a shorter time"
                )
                .into());
            }
            let windows = Windows::aligned(every.as_secs_f64(), from_s, to_s)?;
            if windows.clone().next().is_none() {
                let (from, to) = (utc(from_s), utc(to_s));
                return Err(format!("no whole window of {every:?} between {from} and {to}").into());
            }
            Ok(Selection { windows, names: Vec::new(), limits })
        }
        None => {
            let whole = args.from.is_none() && args.to.is_none();
            let name = if whole { "recording" } else { "window" };
            Ok(Selection::one(name, Window::new(from_s, to_s)?, limits))
        }
    }
}

/// From when to when: as given, else the time that the series have in common.
fn stretch(args: &EnergyArgs, limits: Limits) -> Result<(f64, f64), Box<dyn Error>> {
    let (from_s, to_s) = match (args.from, args.to) {
        (Some(from_s), Some(to_s)) => (from_s, to_s),
        (from, to) => {
            let (begun_s, ended_s) = common_time(&args.run, limits)?;
            (from.unwrap_or(begun_s), to.unwrap_or(ended_s))
        }
    };
    if to_s <= from_s {
        let (from, to) = (utc(from_s), utc(to_s));
        return Err(
            format!("nothing between {from} and {to}: expected an end after the start").into()
        );
    }
    Ok((from_s, to_s))
}

/// The gap limit: as given, else three intervals of the recording, and never less than the default,
/// since an exporter may refresh more slowly than it is scraped.
fn limits(args: &EnergyArgs) -> Result<Limits, Box<dyn Error>> {
    if let Some(gap) = args.gap {
        return Ok(Limits::new(gap.as_secs_f64())?);
    }
    let interval_s = manifest(&args.run).map(|manifest| manifest.wattscribe.interval_s);
    let derived = interval_s.and_then(|interval_s| Limits::from_interval(interval_s).ok());
    Ok(derived.filter(|limits| limits.gap_s() > Limits::default().gap_s()).unwrap_or_default())
}

/// The manifest of a run or beside a samples.csv, when there is one that can be read.
pub(crate) fn manifest(run: &Path) -> Option<CpuManifest> {
    let beside: PathBuf = match run.extension() {
        Some(extension) if extension == "csv" => run.with_file_name("cpu_manifest.json"),
        _ if run.join("samples.csv").is_file() => run.join("cpu_manifest.json"),
        _ => run.join("cpu/cpu_manifest.json"),
    };
    CpuManifest::from_json(&std::fs::read(beside).ok()?).ok()
}

/// The time that all series have in common, as far as they began and ended together: targets are polled
/// one after the other, and a window from the very first reading would find the others uncovered for a
/// moment. A series that began or ended apart from the others by more than the gap limit does not cut
/// the window; it is uncovered there, and says so.
fn common_time(run: &Path, limits: Limits) -> Result<(f64, f64), Box<dyn Error>> {
    let mut extents: HashMap<(String, u32), (f64, f64)> = HashMap::new();
    let mut withheld: BTreeSet<&str> = BTreeSet::new();
    for row in open_any::<CpuPower>(run)? {
        let row = row?;
        if row.published_w().is_none() {
            withheld.insert(row.state.as_str());
            continue;
        }
        // A counter is read after the middle of the power that came with it: both must have begun.
        let from_s = row
            .energy_counter_time
            .filter(|time| time.is_finite())
            .map_or(row.timestamp_unix, |time| time.max(row.timestamp_unix));
        let to_s = row.timestamp_unix;
        match extents.get_mut(&(row.hostname.clone(), row.socket_id)) {
            Some((first_s, last_s)) => {
                *first_s = first_s.min(from_s);
                *last_s = last_s.max(to_s);
            }
            None => {
                extents.insert((row.hostname, row.socket_id), (from_s, to_s));
            }
        }
    }
    let firsts = extents.values().map(|(first_s, _)| *first_s);
    let lasts = extents.values().map(|(_, last_s)| *last_s);
    let earliest_s = firsts.clone().fold(f64::INFINITY, f64::min);
    let latest_s = lasts.clone().fold(f64::NEG_INFINITY, f64::max);
    if !earliest_s.is_finite() {
        let states = withheld.into_iter().collect::<Vec<_>>().join(", ");
        let found = if states.is_empty() { "no row".to_owned() } else { format!("only {states}") };
        return Err(format!("{}: no reading in state ok, found {found}", run.display()).into());
    }
    let begun_s = firsts.filter(|s| s - earliest_s <= limits.gap_s()).fold(earliest_s, f64::max);
    let ended_s = lasts.filter(|s| latest_s - s <= limits.gap_s()).fold(latest_s, f64::min);
    if ended_s <= begun_s {
        let (begun, ended) = (utc(begun_s), utc(ended_s));
        return Err(format!(
            "{}: the series have no time in common: one begins at {begun} and one ends at {ended}; name a window with \
             --from and --to",
            run.display()
        )
        .into());
    }
    Ok((begun_s, ended_s))
}
