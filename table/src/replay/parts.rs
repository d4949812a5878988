//! The Parquet parts of a piece, read by columns.
//!
//! Rows come sorted by series, so the texts of a series are looked at where it begins, and a row costs its numbers only.

use std::path::Path;

use arrow_array::RecordBatch;
use wattscribe_rules::State;

use super::mark::{SampleMark, ScrapeMark, SocketMark};
use super::piece::Builder;
use crate::column::{CellError, Cells, DictionaryCells, Plain, Time, seconds};
use crate::part::{PartError, Texts, cell_error, open, parquet_error};
use crate::{CpuSample, LongReading, Row, Scrape};

/// Rows that are decoded at a time: many of one series follow each other.
const BATCH_ROWS: usize = 64 * 1024;

/// Adds the scrapes of a part.
pub(super) fn scrapes(path: &Path, builder: &mut Builder) -> Result<(), PartError> {
    const NAMES: [&str; 5] = ["target", "timestamp", "seq", "mono_ns", "outcome"];
    batches::<Scrape>(path, &NAMES, |batch| {
        let target = DictionaryCells::find(batch, "target")?;
        let outcome = DictionaryCells::find(batch, "outcome")?;
        let timestamp_us = Cells::<Time, i64>::find(batch, "timestamp")?;
        let seq = Cells::<Plain, u64>::find(batch, "seq")?;
        let mono_ns = Cells::<Plain, i64>::find(batch, "mono_ns")?;
        let mut before = None;
        for row in 0..batch.num_rows() {
            let number = target.number(row)?;
            let place = match before {
                Some((of, place)) if of == number => place,
                _ => builder.target(target.text(number)),
            };
            before = Some((number, place));
            let start_us = timestamp_us.get(row)?;
            builder.at(place).scrapes.push(ScrapeMark {
                seq: seq.get(row)?,
                start_us,
                recorder_us: Some(ScrapeMark::recorder_us(start_us, mono_ns.get(row)?)),
                is_ok: outcome.text(outcome.number(row)?) == Scrape::OK,
            });
        }
        Ok(())
    })
}

/// Adds the samples of a part whose metric is wanted.
pub(super) fn samples(
    path: &Path,
    builder: &mut Builder,
    wants: &dyn Fn(&str) -> bool,
) -> Result<(), PartError> {
    const NAMES: [&str; 7] =
        ["timestamp", "target", "scrape_seq", "metric", "labels", "value", "read_at"];
    batches::<LongReading>(path, &NAMES, |batch| {
        let metric = DictionaryCells::find(batch, "metric")?;
        let target = DictionaryCells::find(batch, "target")?;
        let labels = DictionaryCells::find(batch, "labels")?;
        let timestamp_us = Cells::<Time, i64>::find(batch, "timestamp")?;
        let read_at_us = Cells::<Time, Option<i64>>::find(batch, "read_at")?;
        let scrape_seq = Cells::<Plain, u64>::find(batch, "scrape_seq")?;
        let values = Cells::<Plain, f64>::find(batch, "value")?;
        let mut before = None;
        for row in 0..batch.num_rows() {
            let texts = (metric.number(row)?, target.number(row)?, labels.number(row)?);
            let series = match before {
                Some((of, series)) if of == texts => series,
                _ => {
                    let name = metric.text(texts.0);
                    wants(name).then(|| {
                        let place = builder.target(target.text(texts.1));
                        let series = builder.sample_series(place, name, labels.text(texts.2));
                        (place, series)
                    })
                }
            };
            before = Some((texts, series));
            let Some((place, series)) = series else { continue };
            let at_us = match read_at_us.get(row)? {
                Some(at_us) => at_us,
                None => timestamp_us.get(row)?,
            };
            let (seq, value) = (scrape_seq.get(row)?, values.get(row)?);
            builder.at(place).samples.push(SampleMark { seq, series, at_us, value });
        }
        Ok(())
    })
}

/// Adds the rows of sockets of a part.
pub(super) fn sockets(path: &Path, builder: &mut Builder) -> Result<(), PartError> {
    const NAMES: [&str; 15] = [
        "timestamp",
        "hostname",
        "source",
        "socket_id",
        "power_w",
        "cpu_rail_w",
        "soc_w",
        "dram_w",
        "module_w",
        "scrape_seq",
        "energy_counter_j",
        "energy_counter_time",
        "energy_counter_since",
        "state",
        "simulated",
    ];
    batches::<CpuSample>(path, &NAMES, |batch| socket_rows(batch, builder))
}

fn socket_rows(batch: &RecordBatch, builder: &mut Builder) -> Result<(), CellError> {
    let hostname = DictionaryCells::find(batch, "hostname")?;
    let source = DictionaryCells::find(batch, "source")?;
    let state = DictionaryCells::find(batch, "state")?;
    let socket_id = Cells::<Plain, u32>::find(batch, "socket_id")?;
    let timestamp_us = Cells::<Time, i64>::find(batch, "timestamp")?;
    let scrape_seq = Cells::<Plain, u64>::find(batch, "scrape_seq")?;
    let simulated = Cells::<Plain, bool>::find(batch, "simulated")?;
    let watts = |column| Cells::<Plain, Option<f64>>::find(batch, column);
    let (power_w, cpu_rail_w) = (watts("power_w")?, watts("cpu_rail_w")?);
    let (soc_w, dram_w, module_w) = (watts("soc_w")?, watts("dram_w")?, watts("module_w")?);
    let counter_j = watts("energy_counter_j")?;
    let counter_at_s = watts("energy_counter_time")?;
    let counter_since_s = watts("energy_counter_since")?;
    let mut before = None;
    for row in 0..batch.num_rows() {
        let texts = (hostname.number(row)?, source.number(row)?, socket_id.get(row)?);
        let (place, series) = match before {
            Some((of, series)) if of == texts => series,
            _ => {
                let place = builder.target(hostname.text(texts.0));
                (place, builder.socket_series(place, source.text(texts.1), texts.2))
            }
        };
        before = Some((texts, (place, series)));
        builder.at(place).sockets.push(SocketMark {
            seq: scrape_seq.get(row)?,
            series,
            at_s: seconds(timestamp_us.get(row)?),
            state: state_of(&state, row)?,
            power_w: power_w.get(row)?,
            cpu_rail_w: cpu_rail_w.get(row)?,
            soc_w: soc_w.get(row)?,
            dram_w: dram_w.get(row)?,
            module_w: module_w.get(row)?,
            counter_j: counter_j.get(row)?,
            counter_at_s: counter_at_s.get(row)?,
            counter_since_s: counter_since_s.get(row)?,
            is_simulated: simulated.get(row)?,
        });
    }
    Ok(())
}

fn state_of(cells: &DictionaryCells<'_>, row: usize) -> Result<State, CellError> {
    let text = cells.text(cells.number(row)?);
    text.parse().map_err(|_| CellError {
        column: "state",
        row,
        found: format!("{text:?}"),
        expected: "the name of a state",
    })
}

/// Reads some columns of a part, batch by batch.
fn batches<R: Row>(
    path: &Path,
    names: &[&str],
    mut each: impl FnMut(&RecordBatch) -> Result<(), CellError>,
) -> Result<(), PartError> {
    let (builder, _) = open::<R>(path, names, Texts::Dictionary)?;
    let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(parquet_error(path))?;
    let mut rows_before = 0;
    for batch in batches {
        let batch = batch.map_err(|error| parquet_error(path)(error.into()))?;
        each(&batch).map_err(cell_error(path, rows_before))?;
        rows_before += batch.num_rows() as u64;
    }
    Ok(())
}
