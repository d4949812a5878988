//! The page at `/metrics`: what the board may publish at one moment, as exposition text.

use std::sync::Arc;

use wattscribe_parser::{Family, Format, Number, Writer};

use crate::board::Board;
use crate::cell::{Cell, Verdict};
use crate::clock::Now;
use crate::failure::Failure;
use crate::families;
use crate::health::DURATION_BOUNDS_S;
use crate::sensor::{Kind, Source};

/// Room for one sensor's lines, so that a page is built in one allocation.
const SENSOR_BYTES: usize = 1024;

/// The page as it stands at `now`.
pub fn render(board: &Board, now: Now, format: Format) -> String {
    let lines: Vec<Line> = board
        .cells()
        .into_iter()
        .map(|cell| Line { verdict: cell.judge(now, board.limits), socket: socket(&cell), cell })
        .collect();
    let mut page = Writer::with_capacity(format, 4096 + lines.len() * SENSOR_BYTES);
    // The compatibility family comes first and is printed, headers included, even with no sample.
    match board.source {
        Source::Acpi => write_acpi(&mut page, &lines),
        Source::Rapl => write_rapl(&mut page, &lines),
    }
    write_readings(&mut page, &lines);
    write_states(&mut page, &lines);
    write_exporter(&mut page, board, now);
    page.finish()
}

/// One sensor on the page.
struct Line {
    cell: Arc<Cell>,
    verdict: Verdict,
    socket: String,
}

/// The socket label: decimal, or empty where no label tells it.
fn socket(cell: &Cell) -> String {
    cell.sensor.socket.map(|socket| socket.to_string()).unwrap_or_default()
}

impl Line {
    fn source(&self) -> (&'static str, &'static str) {
        ("source", self.cell.sensor.source.as_str())
    }

    fn sensor(&self) -> (&'static str, &str) {
        ("sensor", &self.cell.sensor.id)
    }
}

fn write_acpi(page: &mut Writer, lines: &[Line]) {
    page.family(&families::ACPI_WATTS);
    for line in lines {
        let Some(watts) = line.verdict.watts else { continue };
        let sensor = &line.cell.sensor;
        let labels = [
            ("sensor", sensor.channel.as_str()),
            ("type", sensor.kind.as_str()),
            ("socket", &line.socket),
            ("oem_info", &sensor.label),
            line.source(),
        ];
        page.sample(&labels, Number::Fixed6(watts));
    }
}

fn write_rapl(page: &mut Writer, lines: &[Line]) {
    write_zones(page, &families::RAPL_WATTS, lines, |verdict| verdict.watts);
    write_zones(page, &families::ENERGY_JOULES, lines, |verdict| verdict.joules);
    write_zones(page, &families::ENERGY_SINCE, lines, |verdict| verdict.joules_since_s);
}

/// One value of every powercap zone.
fn write_zones(
    page: &mut Writer,
    family: &Family<'_>,
    lines: &[Line],
    value: fn(&Verdict) -> Option<f64>,
) {
    page.family(family);
    for line in lines {
        let (Kind::Zone(zone), Some(value)) = (line.cell.sensor.kind, value(&line.verdict)) else {
            continue;
        };
        let labels = [
            ("type", zone.as_str()),
            ("zone", line.cell.sensor.id.as_str()),
            ("socket", &line.socket),
            line.source(),
        ];
        page.sample(&labels, Number::Fixed6(value));
    }
}

/// When each value was read, and what it is a mean over.
fn write_readings(page: &mut Writer, lines: &[Line]) {
    page.family(&families::READING_TIMESTAMP);
    for line in lines {
        if let (Some(_), Some(read_at)) = (line.verdict.watts, line.verdict.read_at) {
            page.sample(&[line.source(), line.sensor()], Number::Fixed6(read_at.wall_s));
        }
    }
    page.family(&families::READING_WINDOW);
    for line in lines {
        if let Some(window_s) = line.verdict.window_s {
            page.sample(&[line.source(), line.sensor()], Number::Fixed6(window_s));
        }
    }
}

/// What each sensor is, the state of its reading, and why a value is missing.
fn write_states(page: &mut Writer, lines: &[Line]) {
    page.family(&families::SENSOR_INFO);
    for line in lines {
        let sensor = &line.cell.sensor;
        let labels = [
            line.source(),
            line.sensor(),
            ("channel", &sensor.channel),
            ("type", sensor.kind.as_str()),
            ("socket", &line.socket),
            ("label", &sensor.label),
            ("averaging", line.verdict.averaging.as_str()),
        ];
        page.sample(&labels, Number::Integer(1));
    }
    page.family(&families::SENSOR_STATE);
    for line in lines {
        let state = ("state", line.verdict.state.as_str());
        page.sample(&[line.source(), line.sensor(), state], Number::Integer(1));
    }
    page.family(&families::WITHHELD);
    for line in lines {
        if let Some(reason) = line.verdict.reason {
            let labels = [line.source(), line.sensor(), ("reason", reason)];
            page.sample(&labels, Number::Integer(1));
        }
    }
}

/// The exporter itself.
fn write_exporter(page: &mut Writer, board: &Board, now: Now) {
    let source = ("source", board.source.as_str());
    page.family(&families::SOURCE_SELECTED);
    page.sample(&[source, ("rung", board.rung.as_str())], Number::Integer(1));
    page.family(&families::READ_ERRORS);
    for failure in Failure::ALL.into_iter().filter(|failure| failure.is_error()) {
        // All reasons from the start: a counter that appears with its first error hides that error from increase().
        let labels = [source, ("reason", failure.as_str())];
        page.sample(&labels, Number::Integer(board.health.errors(board.source, failure)));
    }
    page.family(&families::READ_DURATION);
    let durations = board.health.durations(board.source);
    page.histogram(&[source], &DURATION_BOUNDS_S, &durations.cumulative, durations.sum_s);
    page.family(&families::SIMULATED);
    page.sample(&[], Number::Integer(u64::from(board.is_simulated)));
    page.family(&families::EXPOSITION_TIMESTAMP);
    page.sample(&[], Number::Fixed6(now.wall_s));
    page.family(&families::BUILD_INFO);
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], Number::Integer(1));
}
