//! Rows to the bytes of samples.csv.

use std::io::Write;

use super::float::push_repr;
use super::header::{CsvVersion, Layout};
use crate::CpuSample;

/// The header line with its end.
pub fn csv_header(version: CsvVersion) -> Vec<u8> {
    [version.layout().header().as_bytes(), b"\r\n"].concat()
}

/// The lines of the rows whose power was published, in the order given; the others have no place in CSV.
///
/// A part whose number is not finite becomes an empty cell. The texts must hold no line break: a reader finds a torn
/// tail by its line end.
pub fn csv_rows<'a>(version: CsvVersion, rows: impl IntoIterator<Item = &'a CpuSample>) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        if let Some(power_w) = row.published_w() {
            push_row(version, row, power_w, &mut out);
        }
    }
    out
}

fn push_row(version: CsvVersion, row: &CpuSample, power_w: f64, out: &mut Vec<u8>) {
    push_number(version.number(), out);
    out.push(b',');
    push_repr(row.timestamp_unix, out);
    for text in [&row.hostname, &row.source, &row.sensor] {
        out.push(b',');
        push_text(text, out);
    }
    out.push(b',');
    push_number(row.socket_id, out);
    out.push(b',');
    push_repr(power_w, out);
    let module_w = (version.layout() == Layout::V3).then_some(row.module_w);
    let parts = [row.cpu_rail_w, row.soc_w, row.dram_w];
    for watts in parts.into_iter().chain(module_w).chain([row.total_power_w]) {
        out.push(b',');
        if let Some(watts) = watts.filter(|watts| watts.is_finite()) {
            push_repr(watts, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn push_number(number: u32, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail: it grows or the process ends.
    let _ = write!(out, "{number}");
}

/// Quotes a cell only when it holds a comma, a quote or a line end, and doubles its quotes.
fn push_text(text: &str, out: &mut Vec<u8>) {
    if !text.contains([',', '"', '\r', '\n']) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}
