//! The series that a row of `cpu_samples` is a reading of.
//!
//! The recorder keeps power per socket and not as it stood on the page. `docs/rules.md` lists which metric and labels
//! each column has for rules, and when a column is a reading.

use crate::engine::node::NodeEngine;
use crate::engine::scrape::{Observed, SeriesId};
use crate::rule::From;
use crate::state::State;

/// What a row of `cpu_samples` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketRow<'a> {
    /// `timestamp`, in Unix seconds.
    pub at_s: f64,
    /// `source`.
    pub source: &'a str,
    /// `socket_id`.
    pub socket: u32,
    /// `state`.
    pub state: State,
    /// `power_w`, in watts as the others.
    pub power_w: Option<f64>,
    /// `cpu_rail_w`.
    pub cpu_rail_w: Option<f64>,
    /// `soc_w`.
    pub soc_w: Option<f64>,
    /// `dram_w`.
    pub dram_w: Option<f64>,
    /// `module_w`.
    pub module_w: Option<f64>,
    /// `energy_counter_j`, in joules.
    pub counter_j: Option<f64>,
    /// `energy_counter_time`, in Unix seconds.
    pub counter_at_s: Option<f64>,
    /// `energy_counter_since`, in Unix seconds.
    pub counter_since_s: Option<f64>,
}

/// The series of the sockets of one node.
#[derive(Clone, Debug, Default)]
pub struct SocketSeries {
    sockets: Vec<Socket>,
    /// Series that had a number before all rows that come.
    remembered: Vec<SeriesId>,
}

/// How many columns are readings.
const COLUMNS: usize = 6;

/// The columns that are not of the socket's own source.
const MODULE: usize = 4;
const COUNTER: usize = 5;

#[derive(Clone, Debug)]
struct Socket {
    source: String,
    id: u32,
    /// Those that a rule takes.
    series: [Option<SeriesId>; COLUMNS],
    /// Which columns ever had a number; the first is a reading without.
    was_read: [bool; COLUMNS],
}

impl SocketSeries {
    /// No socket yet.
    pub fn new() -> SocketSeries {
        SocketSeries::default()
    }

    /// Says that a series had a number before all rows that come: from then on a row without one is a reading.
    pub fn remember(&mut self, series: SeriesId) {
        self.remembered.push(series);
    }

    /// Adds to `observed` the readings of a row that a rule of the node takes.
    pub fn observe(
        &mut self,
        node: &mut NodeEngine,
        row: &SocketRow<'_>,
        observed: &mut Vec<Observed>,
    ) {
        let is_of = |socket: &Socket| socket.id == row.socket && socket.source == row.source;
        let place = self.sockets.iter().position(is_of).unwrap_or_else(|| {
            self.sockets.push(Socket::of(node, row, &self.remembered));
            self.sockets.len() - 1
        });
        let socket = &mut self.sockets[place];
        let counter = row.counter_j.filter(|_| row.counter_at_s.is_some());
        let columns = [row.power_w, row.cpu_rail_w, row.soc_w, row.dram_w, row.module_w, counter];
        for (column, number) in columns.into_iter().enumerate() {
            let number = number.filter(|_| row.state.is_ok());
            socket.was_read[column] |= number.is_some();
            let Some(series) = socket.series[column].filter(|_| socket.was_read[column]) else {
                continue;
            };
            let is_counter = column == COUNTER && number.is_some();
            let missing = if row.state.is_ok() { State::Unavailable } else { row.state };
            observed.push(Observed {
                series,
                at_s: row.counter_at_s.filter(|_| is_counter).unwrap_or(row.at_s),
                value: number.ok_or(missing),
                since_s: row.counter_since_s.filter(|_| is_counter),
            });
        }
    }
}

impl Socket {
    fn of(node: &mut NodeEngine, row: &SocketRow<'_>, remembered: &[SeriesId]) -> Socket {
        let mut series = [None; COLUMNS];
        for (column, series) in series.iter_mut().enumerate() {
            *series = named(row.source, column).and_then(|(metric, label, value)| {
                let source = if column == MODULE { "nvml" } else { row.source };
                let (socket, of) = (row.socket, format!("{label}=\"{value}\""));
                // Sorted by name.
                let labels = match label < "socket" {
                    true => format!("{of},socket=\"{socket}\",source=\"{source}\""),
                    false => format!("socket=\"{socket}\",source=\"{source}\",{of}"),
                };
                node.series(From::Sockets, metric, &labels)
            });
        }
        let mut was_read = series.map(|series| series.is_some_and(|id| remembered.contains(&id)));
        was_read[0] = true;
        Socket { source: row.source.to_owned(), id: row.socket, series, was_read }
    }
}

/// The metric of a column of a source, and the label that tells it from the other columns.
fn named(source: &str, column: usize) -> Option<(&'static str, &'static str, &'static str)> {
    let (metric, label, values) = match (source, column) {
        (_, MODULE) => return Some(("cpu_power_nvml_watts", "type", "module")),
        ("rapl", COUNTER) => return Some(("cpu_energy_joules_total", "type", "package")),
        ("acpi", _) => ("cpu_power_acpi_watts", "type", ["total", "cpu_rail", "soc", "dram"]),
        ("rapl", _) => ("cpu_power_rapl_watts", "type", ["package", "core", "uncore", "dram"]),
        // What it has for a socket is the rail of its cores.
        ("dcgm", _) => ("cpu_power_dcgm_watts", "field_id", ["1130", "", "1132", ""]),
        _ => return None,
    };
    values.get(column).filter(|value| !value.is_empty()).map(|value| (metric, label, *value))
}
