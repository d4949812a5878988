//! The page at `/metrics`: what the board may publish at one moment, as exposition text.

mod accelerators;

use std::collections::BTreeSet;
use std::sync::Arc;

use wattscribe_parser::{Family, Format, Number, Writer};
use wattscribe_rules::{ModuleMean, State};

use crate::base::Base;
use crate::board::Board;
use crate::cell::{Cell, Limits, Verdict};
use crate::clock::Now;
use crate::failure::Failure;
use crate::families;
use crate::health::{DURATION_BOUNDS_S, Health};
use crate::library::{LibraryThread, Standing};
use crate::module::{Module, modules};
use crate::nesting::parts_ratio;
use crate::sensor::{Kind, Meter, Source};
use crate::twins::Twins;
use crate::vigil::OPENING_MAX;

/// Room for one sensor's lines, so that a page is built in one allocation.
const SENSOR_BYTES: usize = 1024;

/// The page as it stands at `now`.
pub fn render(board: &Board, now: Now, format: Format) -> String {
    let base = board.base();
    let of_base = lines(base.cells(), now, board.limits);
    let gpus = board.nvml().map(|library| lines(library.cells(), now, board.limits));
    let gpus = gpus.unwrap_or_default();
    let modules = modules(gpus.iter().map(|line| (&line.cell.sensor, &line.verdict)));
    let count = of_base.len() + gpus.len();
    let mut page = Writer::with_capacity(format, 4096 + count * SENSOR_BYTES);
    // The compatibility family comes first and is printed, headers included, even with no sample.
    match base.source() {
        Some(Source::Dcgm) => write_dcgm(&mut page, &of_base),
        Some(Source::Rapl) => write_rapl(&mut page, &of_base),
        _ => write_acpi(&mut page, &of_base),
    }
    write_modules(&mut page, &gpus, &modules);
    let shown = board.accelerators().all();
    let files = shown.iter().filter_map(|shown| shown.live.as_ref());
    let files = files.flat_map(|accelerator| accelerator.cells()).collect();
    let of_files = lines(files, now, board.limits);
    let lines: Vec<Line> = of_base.into_iter().chain(gpus).chain(of_files).collect();
    let accelerators = accelerators::accelerators(board, shown, &lines);
    accelerators::write(&mut page, &accelerators);
    write_readings(&mut page, &lines);
    write_states(&mut page, &lines);
    write_withheld(&mut page, &lines, &modules, &silent_parts(&base, board, now));
    for (source, sensor, reason) in accelerators.iter().flat_map(|of| of.withheld()) {
        page.sample(&withheld_labels(source, &sensor, reason), Number::Integer(1));
    }
    write_twins(&mut page, board);
    write_sources(&mut page, &base, board, now);
    write_exporter(&mut page, board, now);
    page.finish()
}

fn lines(cells: Vec<Arc<Cell>>, now: Now, limits: Limits) -> Vec<Line> {
    let line =
        |cell: Arc<Cell>| Line { verdict: cell.judge(now, limits), socket: socket(&cell), cell };
    cells.into_iter().map(line).collect()
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

/// One CPU after the other, and of each the rail before SysIO: older readers take a CPU's first sample.
fn write_dcgm(page: &mut Writer, lines: &[Line]) {
    page.family(&families::DCGM_WATTS);
    for line in lines {
        let (Kind::CpuField(field), Some(watts)) = (line.cell.sensor.kind, line.verdict.watts)
        else {
            continue;
        };
        let id = field.id().to_string();
        let labels = [("socket", line.socket.as_str()), ("field_id", &id), line.source()];
        page.sample(&labels, Number::Fixed6(watts));
    }
}

/// Modules, where there are any: most nodes have none, and no headers either.
fn write_modules(page: &mut Writer, gpus: &[Line], modules: &[Module]) {
    let source = ("source", Source::Nvml.as_str());
    let is_mean = |module: &&Module| matches!(module.mean, ModuleMean::Mean { .. });
    header(page, &families::NVML_WATTS, modules.iter().any(|module| is_mean(&module)));
    for module in modules {
        let ModuleMean::Mean { watts, .. } = module.mean else { continue };
        let (socket, gpus) = (module.socket.to_string(), module.gpu_list());
        let labels = [("type", "module"), ("socket", &socket), ("gpus", &gpus), source];
        page.sample(&labels, Number::Fixed6(watts));
    }
    let has_watts =
        |line: &Line| line.cell.sensor.kind == Kind::Module && line.verdict.watts.is_some();
    header(page, &families::MODULE_WATTS, gpus.iter().any(has_watts));
    for line in gpus {
        let (Meter::Gpu(gpu), Kind::Module, Some(watts)) =
            (&line.cell.sensor.meter, line.cell.sensor.kind, line.verdict.watts)
        else {
            continue;
        };
        let index = gpu.index.to_string();
        let labels = [
            ("gpu", index.as_str()),
            ("uuid", &gpu.uuid),
            ("pci", &gpu.pci),
            ("socket", &line.socket),
            line.source(),
        ];
        page.sample(&labels, Number::Fixed6(watts));
    }
    header(page, &families::MODULE_SPREAD, modules.iter().any(|module| module.spread().is_some()));
    for module in modules {
        let Some(spread) = module.spread() else { continue };
        page.sample(&[("socket", &module.socket.to_string()), source], Number::Fixed6(spread));
    }
}

fn header(page: &mut Writer, family: &Family<'_>, is_there: bool) {
    if is_there {
        page.family(family);
    }
}

fn write_rapl(page: &mut Writer, lines: &[Line]) {
    let fixed = |value: Option<f64>| value.map(Number::Fixed6);
    write_zones(page, &families::RAPL_WATTS, lines, |verdict| fixed(verdict.watts));
    write_zones(page, &families::ENERGY_JOULES, lines, |verdict| fixed(verdict.joules));
    write_zones(page, &families::ENERGY_SINCE, lines, |verdict| fixed(verdict.joules_since_s));
    write_zones(page, &families::ENERGY_WRAPS, lines, |verdict| verdict.wraps.map(Number::Integer));
}

/// One value of every powercap zone.
fn write_zones(
    page: &mut Writer,
    family: &Family<'_>,
    lines: &[Line],
    value: impl Fn(&Verdict) -> Option<Number>,
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
        page.sample(&labels, value);
    }
}

/// When each value was read, what it is a mean over, and how the parts of a whole stand to it.
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
    let seen: Vec<_> = lines.iter().map(|line| (&line.cell.sensor, &line.verdict)).collect();
    let ratios = lines.iter().zip(&seen);
    let ratios: Vec<_> =
        ratios.filter_map(|(line, whole)| Some((line, parts_ratio(*whole, &seen)?))).collect();
    header(page, &families::PARTS_RATIO, !ratios.is_empty());
    for (line, ratio) in ratios {
        page.sample(&[line.source(), line.sensor()], Number::Fixed6(ratio));
    }
}

/// What each sensor is, and the state of its reading.
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
}

/// Why values are missing: of sensors, of modules whose GPUs disagree, of all that a silent library has.
fn write_withheld(page: &mut Writer, lines: &[Line], modules: &[Module], silent: &[Silence]) {
    page.family(&families::WITHHELD);
    let mut withheld = |source: Source, sensor: &str, reason: &str| {
        page.sample(&withheld_labels(source, sensor, reason), Number::Integer(1));
    };
    for line in lines {
        if let Some(reason) = line.verdict.reason {
            withheld(line.cell.sensor.source, &line.cell.sensor.id, reason);
        }
    }
    for module in modules {
        if let ModuleMean::Disagree { .. } = module.mean {
            withheld(Source::Nvml, &module.id(), State::Disagree.as_str());
        }
    }
    for Silence { source, part, reason } in silent {
        withheld(*source, part, reason.as_str());
    }
}

fn withheld_labels<'a>(
    source: Source,
    sensor: &'a str,
    reason: &'a str,
) -> [(&'static str, &'a str); 3] {
    [("source", source.as_str()), ("sensor", sensor), ("reason", reason)]
}

/// Silence of what is no sensor: a library, the discovery of sensors that are files, a GPU that cannot be told apart.
struct Silence {
    source: Source,
    part: String,
    reason: Failure,
}

impl Silence {
    fn of(source: Source, part: &str, reason: Failure) -> Self {
        Self { source, part: part.to_owned(), reason }
    }
}

fn silent_parts(base: &Base, board: &Board, now: Now) -> Vec<Silence> {
    let discovery = base.source().filter(|_| board.is_discovery_overdue(base, now));
    let discovery = discovery.map(|source| Silence::of(source, "discovery", Failure::Timeout));
    let libraries = silent_libraries(base, board, now);
    let refused = base.library().into_iter().chain(board.nvml()).flat_map(|library| {
        let refused = library.status().refused.into_iter();
        refused.map(|refused| Silence::of(library.source, &refused.place, refused.reason))
    });
    discovery.into_iter().chain(libraries).chain(refused).collect()
}

/// Sockets that read one number, each with the other.
fn write_twins(page: &mut Writer, board: &Board) {
    let twins = board.twins();
    header(page, &families::SENSOR_TWIN, !twins.is_empty());
    for Twins { source, sensors: [a, b] } in &twins {
        for (sensor, twin) in [(a, b), (b, a)] {
            let labels = [("source", source.as_str()), ("sensor", sensor), ("twin", twin)];
            page.sample(&labels, Number::Integer(1));
        }
    }
}

/// Libraries that are on this node and do not serve, with the reason.
fn silent_libraries(base: &Base, board: &Board, now: Now) -> Vec<Silence> {
    let silence = |library: &LibraryThread| {
        let status = library.status();
        let reason = match status.standing {
            // All that it has is about to be too old, or is: the log says so of the library, and so does the page.
            Standing::Open if status.is_busy_for(now, board.limits.stale_after) => Failure::Timeout,
            Standing::Open => return None,
            Standing::Absent(_) if library.cells().is_empty() => return None,
            // The first attempts are many milliseconds, and no silence yet.
            _ if status.is_busy_for(now, OPENING_MAX) => Failure::Timeout,
            Standing::Opening => return None,
            Standing::Absent(_) | Standing::Missing(_) | Standing::Down(_) => Failure::Disconnected,
        };
        Some(Silence::of(library.source, "library", reason))
    };
    base.library().into_iter().chain(board.nvml()).filter_map(silence).collect()
}

/// What the node is measured with, and how reading it goes.
fn write_sources(page: &mut Writer, base: &Base, board: &Board, now: Now) {
    page.family(&families::SOURCE_SELECTED);
    if let (Some(source), Some(rung)) = (base.source(), base.rung()) {
        let labels = [("source", source.as_str()), ("rung", rung.as_str())];
        page.sample(&labels, Number::Integer(1));
    }
    let engine =
        base.library().and_then(|library| Some((library.source, library.status().engine?)));
    header(page, &families::ENGINE_INFO, engine.is_some());
    if let Some((source, engine)) = engine {
        let labels = [("source", source.as_str()), ("engine", engine.as_str())];
        page.sample(&labels, Number::Integer(1));
    }
    let has_nvml = board.nvml().is_some_and(|library| {
        library.status().standing == Standing::Open
            || !library.cells().is_empty()
            || silent_libraries(base, board, now)
                .iter()
                .any(|silence| silence.source == Source::Nvml)
    });
    let live = board.accelerators().live();
    let of_files: BTreeSet<Source> = live.iter().map(|of| of.device.source()).collect();
    let nvml = has_nvml.then_some(Source::Nvml);
    let sources: Vec<Source> = base.source().into_iter().chain(nvml).chain(of_files).collect();
    page.family(&families::READ_ERRORS);
    for source in &sources {
        write_errors(page, *source, board.health());
    }
    page.family(&families::READ_DURATION);
    for source in &sources {
        let durations = board.health().durations(*source);
        let labels = [("source", source.as_str())];
        page.histogram(&labels, &DURATION_BOUNDS_S, &durations.cumulative, durations.sum_s);
    }
}

/// All reasons from the start: a counter that appears with its first error hides that error from increase().
fn write_errors(page: &mut Writer, source: Source, health: &Health) {
    for failure in Failure::ALL.into_iter().filter(|failure| failure.is_error()) {
        let labels = [("source", source.as_str()), ("reason", failure.as_str())];
        page.sample(&labels, Number::Integer(health.errors(source, failure)));
    }
}

/// The exporter itself.
fn write_exporter(page: &mut Writer, board: &Board, now: Now) {
    page.family(&families::SIMULATED);
    page.sample(&[], Number::Integer(u64::from(board.is_simulated)));
    page.family(&families::EXPOSITION_TIMESTAMP);
    page.sample(&[], Number::Fixed6(now.wall_s));
    page.family(&families::BUILD_INFO);
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], Number::Integer(1));
    page.family(&families::INSTANCE_INFO);
    page.sample(&[("instance_id", board.instance.as_str())], Number::Integer(1));
}
