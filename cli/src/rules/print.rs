//! Rows of results as CSV and as JSON: those of one piece in the order of time, rule, node and labels.

use std::error::Error;
use std::io::Write;

use serde::Serialize;
use wattscribe_table::{DerivedRow, DerivedRows, PartError, Settled};

use super::eval::Out;
use super::evaluation::{Keep, Kept};
use super::summary::Summary;

/// Results as rows, for one who puts them in their order.
pub(crate) struct AsRows(pub DerivedRows);

impl Keep for AsRows {
    fn keep(&self, _: usize, _: usize, results: &[Settled]) -> Result<Kept, PartError> {
        let rows = results.iter().map(|settled| self.0.row(settled)).collect();
        Ok(Kept { summary: Summary::of(results), rows })
    }
}

/// Puts rows in the order in which people read them.
fn sorted(mut rows: Vec<DerivedRow>) -> Vec<DerivedRow> {
    let key = |row: &DerivedRow| (row.timestamp_us, row.start_us);
    rows.sort_by(|a, b| {
        let (by_time, names) = (key(a).cmp(&key(b)), |row: &DerivedRow| row.window.clone());
        by_time
            .then_with(|| a.rule.cmp(&b.rule))
            .then_with(|| a.node.cmp(&b.node))
            .then_with(|| a.labels.cmp(&b.labels))
            .then_with(|| names(a).cmp(&names(b)))
    });
    rows
}

/// A result as it is printed: times in Unix seconds, which are what other files here have.
#[derive(Serialize)]
struct Printed<'a> {
    timestamp_unix: f64,
    start_unix: Option<f64>,
    window_name: Option<&'a str>,
    rule: &'a str,
    node: Option<&'a str>,
    labels: &'a str,
    value: Option<f64>,
    unit: &'a str,
    boundary: &'a str,
    state: &'a str,
    reason: Option<&'a str>,
    low: Option<f64>,
    high: Option<f64>,
    counter: Option<f64>,
    spread: Option<f64>,
    coverage: f64,
    members_expected: u32,
    members_reporting: u32,
    rule_hash: &'a str,
    simulated: bool,
}

impl<'a> Printed<'a> {
    fn of(row: &'a DerivedRow) -> Printed<'a> {
        let seconds = |us: i64| us as f64 / 1e6;
        Printed {
            timestamp_unix: seconds(row.timestamp_us),
            start_unix: row.start_us.map(seconds),
            window_name: row.window.as_deref(),
            rule: &row.rule,
            node: row.node.as_deref(),
            labels: &row.labels,
            value: row.value,
            unit: &row.unit,
            boundary: &row.boundary,
            state: row.state.as_str(),
            reason: row.reason.as_deref(),
            low: row.low,
            high: row.high,
            counter: row.counter,
            spread: row.spread,
            coverage: row.coverage,
            members_expected: row.members_expected,
            members_reporting: row.members_reporting,
            rule_hash: &row.rule_hash,
            simulated: row.simulated,
        }
    }
}

/// A header and a line per result.
pub(crate) struct Csv<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> Csv<W> {
    /// Onto a stream.
    pub(crate) fn new(out: W) -> Csv<W> {
        Csv { writer: csv::Writer::from_writer(out) }
    }
}

impl<W: Write> Out for Csv<W> {
    fn take(&mut self, rows: Vec<DerivedRow>) -> Result<(), Box<dyn Error>> {
        for row in sorted(rows) {
            self.writer.serialize(Printed::of(&row)).map_err(|error| match error.into_kind() {
                csv::ErrorKind::Io(error) => Box::<dyn Error>::from(error),
                other => format!("{other:?}").into(),
            })?;
        }
        Ok(self.writer.flush()?)
    }

    fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.writer.flush()?)
    }
}

/// An array of objects, a line each.
pub(crate) struct Json<W: Write> {
    out: W,
    has_begun: bool,
}

impl<W: Write> Json<W> {
    /// Onto a stream.
    pub(crate) fn new(out: W) -> Json<W> {
        Json { out, has_begun: false }
    }
}

impl<W: Write> Out for Json<W> {
    fn take(&mut self, rows: Vec<DerivedRow>) -> Result<(), Box<dyn Error>> {
        for row in sorted(rows) {
            let between = if self.has_begun { ",\n" } else { "[\n" };
            self.has_begun = true;
            let mut line = between.as_bytes().to_vec();
            serde_json::to_writer(&mut line, &Printed::of(&row))?;
            self.out.write_all(&line)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Box<dyn Error>> {
        self.out.write_all(if self.has_begun { b"\n]\n" } else { b"[]\n" })?;
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattscribe_rules::State;

    fn row(timestamp_us: i64, node: &str) -> DerivedRow {
        DerivedRow {
            timestamp_us,
            start_us: None,
            window: None,
            rule: "node:watts:sum".into(),
            node: Some(node.into()),
            labels: "socket=\"0\"".into(),
            value: None,
            unit: "W".into(),
            boundary: "node".into(),
            state: State::Stale,
            reason: Some("members".into()),
            low: None,
            high: None,
            counter: None,
            spread: None,
            coverage: 0.5,
            members_expected: 2,
            members_reporting: 1,
            rule_hash: "00".into(),
            simulated: false,
        }
    }

    #[test]
    fn csv_has_a_line_a_result_in_their_order() {
        let mut csv = Csv::new(Vec::new());
        csv.take(vec![row(2_500_000, "b"), row(2_500_000, "a"), row(1_000_000, "c")]).unwrap();
        csv.take(vec![row(3_000_000, "a")]).unwrap();
        csv.finish().unwrap();
        let text = String::from_utf8(csv.writer.into_inner().unwrap()).unwrap();
        let line = |at, node| {
            format!(
                "{at},,,node:watts:sum,{node},\"socket=\"\"0\"\"\",,W,node,stale,members,,,,,0.5,2,1,00,false\n"
            )
        };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        assert!(lines[0].starts_with("timestamp_unix,start_unix,window_name,rule,"), "{text}");
        assert_eq!(
            lines[1..],
            [line("1.0", "c"), line("2.5", "a"), line("2.5", "b"), line("3.0", "a")]
        );
    }

    #[test]
    fn json_is_one_array_however_many_pieces_there_were() {
        for pieces in [vec![], vec![1], vec![0, 2, 0, 1]] {
            let mut json = Json::new(Vec::new());
            for count in &pieces {
                json.take(vec![row(1_000_000, "a"); *count]).unwrap();
            }
            json.finish().unwrap();
            let rows: Vec<serde_json::Value> = serde_json::from_slice(&json.out).unwrap();
            assert_eq!(rows.len(), pieces.iter().sum::<usize>());
            assert!(
                rows.iter().all(|row| row["labels"] == "socket=\"0\"" && row["value"].is_null())
            );
        }
    }
}
