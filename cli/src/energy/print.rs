//! Windows as a table, JSON, CSV or Parquet.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};

use wattscribe_table::{EnergyWindow, RunReader, Simulated, write_energy_windows, write_part};

use super::{EnergyArgs, Format};
use crate::time::utc;

/// Prints or writes the windows as the arguments ask.
pub(crate) fn print(args: &EnergyArgs, windows: Vec<EnergyWindow>) -> Result<(), Box<dyn Error>> {
    let text = match args.format {
        Format::Table => table(&windows).into_bytes(),
        Format::Json => json(&windows)?,
        Format::Csv => csv(&windows)?,
        Format::Parquet => return parquet(args, windows),
    };
    match &args.output {
        Some(path) => File::create(path)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(|error| format!("cannot write {}: {error}", path.display()).into()),
        None => match io::stdout().write_all(&text) {
            // Whoever closes the pipe has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        },
    }
}

fn json(windows: &[EnergyWindow]) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec_pretty(windows)?;
    text.push(b'\n');
    Ok(text)
}

fn csv(windows: &[EnergyWindow]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for window in windows {
        writer.serialize(window)?;
    }
    Ok(writer.into_inner()?)
}

fn parquet(args: &EnergyArgs, mut windows: Vec<EnergyWindow>) -> Result<(), Box<dyn Error>> {
    use wattscribe_table::Row;
    windows.sort_by(|a, b| a.order(b));
    let path = match &args.output {
        Some(path) => {
            let simulated = Simulated::of(windows.iter().map(|window| window.simulated));
            write_part(path, windows, simulated)?;
            Some(path.clone())
        }
        None if RunReader::open(&args.run).is_ok() => write_energy_windows(&args.run, windows)?,
        None => {
            return Err(
                "--format parquet needs --output FILE: the input is no run directory".into()
            );
        }
    };
    if let Some(path) = path {
        writeln!(io::stdout(), "{}", path.display())?;
    }
    Ok(())
}

/// A table per window, with what it says of itself above.
pub(crate) fn table(windows: &[EnergyWindow]) -> String {
    let mut text = String::new();
    let mut shown: Option<(&str, f64, f64)> = None;
    let notice = notice(windows);
    let wide = windows.iter().map(|window| label(window).len()).max().unwrap_or_default().max(8);
    for window in windows {
        let this = (window.name.as_str(), window.start_unix, window.end_unix);
        if shown != Some(this) {
            let gap = if shown.is_some() { "\n" } else { "" };
            let _ = write!(text, "{gap}{notice}{}", heading(window, wide));
            shown = Some(this);
        }
        let _ = writeln!(text, "{}", line(window, wide));
    }
    text
}

/// What stands above every table of a recording with anything simulated in it.
fn notice(windows: &[EnergyWindow]) -> String {
    let nodes = || windows.iter().filter(|window| window.boundary == "node");
    if !windows.iter().any(|window| window.simulated) {
        return String::new();
    }
    if nodes().all(|window| window.simulated) {
        return "SIMULATED HARDWARE: nothing here was measured\n".to_owned();
    }
    let simulated: BTreeSet<&str> = nodes()
        .filter(|window| window.simulated)
        .filter_map(|window| window.hostname.as_deref())
        .collect();
    let names = simulated.into_iter().collect::<Vec<_>>().join(", ");
    format!("SIMULATED HARDWARE in part: {names} and every total with them were not measured\n")
}

fn heading(window: &EnergyWindow, wide: usize) -> String {
    let (start, end) = (utc(window.start_unix), utc(window.end_unix));
    let seconds = window.end_unix - window.start_unix;
    let columns = format!(
        "  {:<wide$}  {:>14}  {:>27}  {:>10}  {:>8}  {:>7}  {}",
        "", "energy J", "between J", "average W", "coverage", "verdict", "remarks"
    );
    format!("{}: {start} to {end} ({seconds:.3} s)\n{columns}\n", window.name)
}

fn line(window: &EnergyWindow, wide: usize) -> String {
    let number = |value: Option<f64>, decimals| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
    };
    let between = match (window.energy_low_j, window.energy_high_j) {
        (Some(low), Some(high)) => format!("{low:.3} .. {high:.3}"),
        _ => "-".to_owned(),
    };
    let text = format!(
        "  {:<wide$}  {:>14}  {between:>27}  {:>10}  {:>7.1}%  {:>7}  {}",
        label(window),
        number(window.energy_j, 3),
        number(window.avg_w, 3),
        window.coverage * 100.0,
        window.verdict,
        remarks(window)
    );
    text.trim_end().to_owned()
}

/// `node-a/socket0 acpi`, `node-a acpi`, `total acpi`.
fn label(window: &EnergyWindow) -> String {
    let source = window.source.as_deref().unwrap_or_default();
    match (&window.hostname, window.socket_id) {
        (Some(node), Some(socket)) => format!("{node}/socket{socket} {source}"),
        (Some(node), None) => format!("{node} {source}"),
        _ => format!("total {source}"),
    }
}

fn remarks(window: &EnergyWindow) -> String {
    let mut remarks = Vec::new();
    if window.boundary == "node" {
        remarks
            .push(format!("{} of {} sockets", window.members_reporting, window.members_expected));
    } else if window.boundary == "total" {
        remarks.push(format!("{} of {} nodes", window.members_reporting, window.members_expected));
    }
    if let Some(joules) = window.counter_energy_j {
        remarks.push(format!("counter {joules:.3} J"));
    }
    if !window.reasons.is_empty() {
        remarks.push(window.reasons.replace(';', ", "));
    }
    remarks.join(", ")
}
