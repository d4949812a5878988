//! From a page to the rows of `cpu_samples`: one row per socket.
//!
//! - A socket with its primary reading gives a row in state ok. A socket that is known and has none
//!   gives a row that says why, which CSV leaves out and Parquet keeps.
//! - `total_power_w` stands only when every known socket of the node has a row in this scrape: a partial
//!   sum is not a sum.
//! - A reading that was recorded before, told by the time at which its sensor was read, gives no second
//!   row.
//! - All rows of a scrape share one time: the middle of the sensors' own read times, moved back by half
//!   of what each value is a mean over, on the head's clock. A page that does not say when its sensors
//!   were read gets the middle of the scrape.

use std::collections::{BTreeSet, HashMap};

use wattscribe_rules::State;
use wattscribe_table::CpuSample;

use crate::offset::Offset;
use crate::power_page::{Part, PowerPage, Reading, Sensor, Source};

/// When and as what a page was scraped.
#[derive(Debug, Clone, Copy)]
pub struct ScrapeTime {
    /// Number of the scrape.
    pub seq: u64,
    /// The middle of the exchange, in Unix seconds of the head's clock.
    pub middle_s: f64,
    /// The node's clock against the head's, when the page lets it be known.
    pub offset: Option<Offset>,
}

/// What earlier scrapes of the node showed.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Every socket that ever had a sensor or a reading: the members that a total needs.
    sockets: BTreeSet<u32>,
    /// When each socket's last recorded reading was read, in microseconds of the node's clock.
    recorded_us: HashMap<u32, i64>,
}

/// A reading is at most this old on its page, in seconds. Past it the times of the page contradict each
/// other (a clock was set between the read and the page), and the scrape's own time is used.
const READING_AGE_MAX_S: f64 = 60.0;

/// The source whose readings are a page's, and none but its.
pub fn source_of(page: &PowerPage) -> Option<Source> {
    let of_readings = page.readings.iter().map(|reading| reading.source);
    of_readings.chain(page.sensors.iter().map(|sensor| sensor.source)).min()
}

/// The rows of one page, sockets ascending.
pub fn rows(
    page: &PowerPage,
    node: &str,
    history: &mut History,
    time: ScrapeTime,
) -> Vec<CpuSample> {
    let Some(source) = source_of(page) else { return Vec::new() };
    let primary_sensors = page
        .sensors
        .iter()
        .filter(|sensor| sensor.source == source && sensor.part == Part::Primary);
    let primary_readings =
        page.readings.iter().filter(|one| one.source == source && one.part == Part::Primary);
    history.sockets.extend(primary_sensors.map(|sensor| sensor.socket));
    history.sockets.extend(primary_readings.map(|reading| reading.socket));

    let sockets: Vec<Socket<'_>> =
        history.sockets.iter().map(|id| Socket::of(page, source, *id)).collect();
    let mut fresh: Vec<&Socket<'_>> = Vec::new();
    for socket in &sockets {
        let recorded = history.recorded_us.get(&socket.id);
        let is_repeat = socket.read_at_us().is_some_and(|at_us| recorded == Some(&at_us));
        if socket.watts.is_some() && !is_repeat {
            fresh.push(socket);
        }
    }
    let at_s = to_microseconds(row_time(&fresh, page, time)) as f64 / 1e6;
    // In order of sockets, so that equal pages give equal sums to the bit.
    let total_w = (fresh.len() == sockets.len())
        .then(|| fresh.iter().filter_map(|socket| socket.watts).sum::<f64>());
    let mut rows = Vec::with_capacity(sockets.len());
    for socket in &sockets {
        let is_fresh = fresh.iter().any(|one| one.id == socket.id);
        if socket.watts.is_some() && !is_fresh {
            continue;
        }
        if let (true, Some(at_us)) = (is_fresh, socket.read_at_us()) {
            history.recorded_us.insert(socket.id, at_us);
        }
        rows.push(socket.row(page, node, time, at_s, total_w));
    }
    rows
}

/// One socket on one page.
struct Socket<'a> {
    id: u32,
    source: Source,
    watts: Option<f64>,
    state: State,
    sensors: Vec<&'a Sensor>,
    read_at_s: Option<f64>,
    window_s: Option<f64>,
    page: &'a PowerPage,
}

impl<'a> Socket<'a> {
    fn of(page: &'a PowerPage, source: Source, id: u32) -> Self {
        let sensors: Vec<&Sensor> = sensors(page, source, id, Part::Primary).collect();
        let watts = part_watts(page, source, id, Part::Primary);
        let fact = |map: &HashMap<(Source, String), f64>| {
            mean(sensors.iter().map(|sensor| map.get(&(sensor.source, sensor.id.clone())).copied()))
        };
        let state_of =
            |sensor: &&Sensor| page.states.get(&(sensor.source, sensor.id.clone())).copied();
        let state = match watts {
            Some(_) => State::Ok,
            // A page that describes no sensors cannot say why one is missing.
            None => sensors
                .iter()
                .filter_map(state_of)
                .find(|state| !state.is_ok())
                .unwrap_or(State::Unavailable),
        };
        let (read_at_s, window_s) = (fact(&page.read_at_s), fact(&page.window_s));
        Self { id, source, watts, state, sensors, read_at_s, window_s, page }
    }

    fn read_at_us(&self) -> Option<i64> {
        self.read_at_s.map(to_microseconds)
    }

    fn row(
        &self,
        page: &PowerPage,
        node: &str,
        time: ScrapeTime,
        at_s: f64,
        total_w: Option<f64>,
    ) -> CpuSample {
        let part = |part| self.watts.and_then(|_| part_watts(page, self.source, self.id, part));
        let counter_j = self.counter_j();
        let counter_time = self.read_at_s.zip(time.offset).map(|(at, offset)| at - offset.offset_s);
        CpuSample {
            timestamp_unix: at_s,
            hostname: node.to_owned(),
            source: self.source.as_str().to_owned(),
            sensor: sensor_name(self.source, self.id),
            socket_id: self.id,
            power_w: self.watts,
            cpu_rail_w: part(Part::CpuRail),
            soc_w: part(Part::Soc),
            dram_w: part(Part::Dram),
            module_w: self.watts.and_then(|_| page.module_w.get(&self.id).copied()),
            total_power_w: self.watts.and(total_w),
            scrape_seq: time.seq,
            sensor_time_us: self.watts.and(self.read_at_us()),
            averaging: self
                .sensors
                .first()
                .map_or("unknown", |sensor| &sensor.averaging)
                .to_owned(),
            averaging_s: self.watts.and(self.window_s),
            energy_counter_j: counter_j.and(counter_time).and(counter_j),
            energy_counter_time: counter_j.and(counter_time),
            state: self.state,
            simulated: page.is_simulated,
        }
    }

    /// The energy counter of the socket: of all its dies together, or none.
    fn counter_j(&self) -> Option<f64> {
        self.watts?;
        if self.sensors.is_empty() {
            return None;
        }
        let counters = self.sensors.iter().map(|sensor| self.page.counter_j.get(&sensor.channel));
        counters.sum::<Option<f64>>()
    }
}

fn sensors(
    page: &PowerPage,
    source: Source,
    socket: u32,
    part: Part,
) -> impl Iterator<Item = &Sensor> {
    page.sensors.iter().filter(move |sensor| {
        sensor.source == source && sensor.socket == socket && sensor.part == part
    })
}

/// The power of a part of a socket. Firmware has one channel for it, and the first counts. A package of
/// several dies has a zone for each, and they count only together.
fn part_watts(page: &PowerPage, source: Source, socket: u32, part: Part) -> Option<f64> {
    let is_wanted =
        |one: &&Reading| one.source == source && one.socket == socket && one.part == part;
    let mut readings = page.readings.iter().filter(is_wanted);
    let first = readings.next()?.watts;
    if source != Source::Rapl {
        return Some(first);
    }
    let (sum, count) = readings.fold((first, 1), |(sum, count), one| (sum + one.watts, count + 1));
    let described = sensors(page, source, socket, part).count();
    (count >= described).then_some(sum)
}

/// The time of a scrape's rows, in Unix seconds of the head's clock.
fn row_time(fresh: &[&Socket<'_>], page: &PowerPage, time: ScrapeTime) -> f64 {
    let (Some(offset), Some(made_s)) = (time.offset, page.made_s) else { return time.middle_s };
    let read_at = |socket: &&Socket<'_>| {
        let read_at_s = socket.read_at_s?;
        let is_sound = (-READING_SKEW_MAX_S..READING_AGE_MAX_S).contains(&(made_s - read_at_s));
        is_sound.then(|| read_at_s - socket.window_s.unwrap_or(0.0) / 2.0 - offset.offset_s)
    };
    mean(fresh.iter().map(read_at)).unwrap_or(time.middle_s)
}

/// A page may be printed to six decimals of a second: its own times may be apart by that.
const READING_SKEW_MAX_S: f64 = 1e-3;

/// The mean of values that are all there, else nothing.
fn mean(values: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let count = values.len();
    let sum = values.sum::<Option<f64>>()?;
    (count > 0).then(|| sum / count as f64)
}

fn to_microseconds(seconds: f64) -> i64 {
    // Unix time in microseconds is far inside both types.
    (seconds * 1e6).round() as i64
}

/// The `sensor` cell: it names the primary reading.
fn sensor_name(source: Source, socket: u32) -> String {
    let suffix = match source {
        Source::Acpi => "cpuSidePowerUsageW",
        Source::Dcgm => "cpuPowerUsageW",
        Source::Rapl => "packagePowerUsageW",
    };
    format!("CPU{socket}:{suffix}")
}
