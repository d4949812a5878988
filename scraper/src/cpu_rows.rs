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
//!   were read, or says what cannot be, gets the middle of the scrape.

use std::collections::HashMap;

use wattscribe_rules::State;
use wattscribe_table::CpuSample;

use crate::history::{History, Member};
use crate::offset::Offset;
use crate::power_page::{Part, PowerPage, Reading, Sensor, Source};
use crate::reading_time::ReadingTime;

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

/// What a page says about the sockets of a node.
#[derive(Debug, Clone, Default)]
pub struct CpuRows {
    /// Sockets ascending.
    pub rows: Vec<CpuSample>,
    /// Whether the page has power of any socket, recorded before or not.
    pub has_power: bool,
}

/// The rows of one page.
pub fn rows(page: &PowerPage, node: &str, history: &mut History, time: ScrapeTime) -> CpuRows {
    // The sources of a page are never mixed. One that names no socket still has the sockets of before.
    let named = page.sockets.first().map(|(source, _)| *source);
    let Some(source) = named.or(history.source) else { return CpuRows::default() };
    history.source = Some(source);
    let mut of_socket: HashMap<u32, Named<'_>> = HashMap::new();
    for (_, id) in page.sockets.iter().filter(|(of, _)| *of == source) {
        of_socket.entry(*id).or_default();
    }
    for reading in page.readings.iter().filter(|reading| reading.source == source) {
        of_socket.entry(reading.socket).or_default().readings.push(reading);
    }
    for sensor in page.sensors.iter().filter(|sensor| sensor.source == source) {
        of_socket.entry(sensor.socket).or_default().sensors.push(sensor);
    }
    history.take(of_socket.keys().copied());

    let mut sockets = Vec::with_capacity(history.members.len());
    for (id, member) in &mut history.members {
        let named = of_socket.remove(id).unwrap_or_default();
        sockets.push(Socket::of(page, source, *id, named, member));
    }
    let at_s = to_microseconds(row_time(&sockets, time)) as f64 / 1e6;
    // In order of sockets, so that equal pages give equal sums to the bit.
    let total_w = sockets.iter().map(|socket| socket.watts.filter(|_| socket.is_fresh)).sum();
    let mut rows = Vec::with_capacity(sockets.len());
    for (socket, member) in sockets.iter().zip(history.members.values_mut()) {
        if socket.is_fresh || socket.watts.is_none() {
            rows.push(socket.row(page, node, time, at_s, total_w));
            member.take(socket.read_at_us(), socket.watts.map(|_| at_s));
        }
    }
    CpuRows { rows, has_power: sockets.iter().any(|socket| socket.watts.is_some()) }
}

/// What one page names for one socket.
#[derive(Debug, Default)]
struct Named<'a> {
    readings: Vec<&'a Reading>,
    sensors: Vec<&'a Sensor>,
}

/// One socket on one page.
struct Socket<'a> {
    id: u32,
    source: Source,
    watts: Option<f64>,
    cpu_rail_w: Option<f64>,
    soc_w: Option<f64>,
    dram_w: Option<f64>,
    state: State,
    /// The sensors that the power is from.
    sensors: Vec<&'a Sensor>,
    read_at_s: Option<f64>,
    /// `read_at_s` where the page's times can be true.
    sound_at_s: Option<f64>,
    window_s: Option<f64>,
    /// Whether the reading has not been recorded yet.
    is_fresh: bool,
}

impl<'a> Socket<'a> {
    fn of(
        page: &PowerPage,
        source: Source,
        id: u32,
        named: Named<'a>,
        member: &mut Member,
    ) -> Self {
        let mut part = |part| part_watts(&named, source, part, member);
        let watts = part(Part::Primary);
        let (cpu_rail_w, soc_w, dram_w) = (part(Part::CpuRail), part(Part::Soc), part(Part::Dram));
        let sensors = primary_sensors(&named, source);
        let time_of = |sensor: &&Sensor| page.times.of(sensor.source.as_str(), &sensor.id);
        let fact = |of: fn(ReadingTime) -> Option<f64>| {
            mean(sensors.iter().map(|sensor| of(time_of(sensor))))
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
        let (read_at_s, window_s) = (fact(|time| time.read_at_s), fact(|time| time.window_s));
        let of_all = ReadingTime { read_at_s, window_s };
        let sound_at_s = of_all.sound_at_s(page.made_s);
        let is_repeat = read_at_s.is_some_and(|at_s| member.has_recorded(to_microseconds(at_s)));
        let is_fresh = watts.is_some() && !is_repeat;
        Self {
            id,
            source,
            watts,
            cpu_rail_w,
            soc_w,
            dram_w,
            state,
            sensors,
            read_at_s,
            sound_at_s,
            window_s,
            is_fresh,
        }
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
        // Nothing stands beside a power that is withheld.
        let beside = |value: Option<f64>| self.watts.and(value);
        let counter_time =
            self.sound_at_s.zip(time.offset).map(|(at, offset)| at - offset.offset_s);
        let counter = beside(self.counter_j(page)).zip(counter_time);
        CpuSample {
            timestamp_unix: at_s,
            hostname: node.to_owned(),
            source: self.source.as_str().to_owned(),
            sensor: sensor_name(self.source, self.id),
            socket_id: self.id,
            power_w: self.watts,
            cpu_rail_w: beside(self.cpu_rail_w),
            soc_w: beside(self.soc_w),
            dram_w: beside(self.dram_w),
            module_w: beside(page.module_w.get(&self.id).copied()),
            total_power_w: beside(total_w),
            scrape_seq: time.seq,
            sensor_time_us: self.watts.and(self.read_at_us()),
            averaging: self
                .sensors
                .first()
                .map_or("unknown", |sensor| &sensor.averaging)
                .to_owned(),
            averaging_s: beside(self.window_s),
            energy_counter_j: counter.map(|(joules, _)| joules),
            energy_counter_time: counter.map(|(_, at_s)| at_s),
            energy_counter_since: counter.and_then(|_| self.counter_since_s(page)),
            state: self.state,
            simulated: page.is_simulated,
        }
    }

    /// Since when that counter counts: of several dies, since the last began anew.
    fn counter_since_s(&self, page: &PowerPage) -> Option<f64> {
        let of = |sensor: &&Sensor| page.counter_since_s.get(&sensor.channel).copied();
        self.sensors.iter().filter_map(of).reduce(f64::max)
    }

    /// The energy counter of the socket: of all its dies together, or none.
    fn counter_j(&self, page: &PowerPage) -> Option<f64> {
        if self.sensors.is_empty() {
            return None;
        }
        self.sensors.iter().map(|sensor| page.counter_j.get(&sensor.channel)).sum()
    }
}

/// The power of a part of a socket. Firmware has one channel for it; of several the first counts, and where
/// the page describes them the first described: when that one is withheld, another meter must not stand in
/// for it unseen. A package of several dies has a zone for each, and they count only together.
fn part_watts(named: &Named<'_>, source: Source, part: Part, member: &mut Member) -> Option<f64> {
    let readings = || named.readings.iter().filter(|reading| reading.part == part);
    if source != Source::Rapl {
        let described = first_described(named, source, part);
        let counts =
            |reading: &&&Reading| described.is_none_or(|sensor| sensor.channel == reading.channel);
        return readings().find(counts).map(|reading| reading.watts);
    }
    let described = named.sensors.iter().filter(|sensor| sensor.part == part).count();
    let count = readings().count();
    let needed = member.zones_needed(part, described.max(count));
    (count > 0 && count == needed).then(|| readings().map(|reading| reading.watts).sum())
}

/// The firmware channel that the page describes first for a part. DCGM has one sensor for it, whose
/// description names it by another word than its reading.
fn first_described<'a>(named: &Named<'a>, source: Source, part: Part) -> Option<&'a Sensor> {
    let is_of_part = |sensor: &&&'a Sensor| sensor.part == part;
    named.sensors.iter().find(is_of_part).copied().filter(|_| source == Source::Acpi)
}

/// The sensors behind a socket's power. Firmware may show several channels for it: then only that which
/// counts.
fn primary_sensors<'a>(named: &Named<'a>, source: Source) -> Vec<&'a Sensor> {
    if let Some(sensor) = first_described(named, source, Part::Primary) {
        return vec![sensor];
    }
    let sensors = named.sensors.iter().filter(|sensor| sensor.part == Part::Primary).copied();
    let counting = named.readings.iter().find(|reading| reading.part == Part::Primary);
    match counting.filter(|_| source != Source::Rapl) {
        Some(reading) => sensors.filter(|sensor| sensor.channel == reading.channel).collect(),
        None => sensors.collect(),
    }
}

/// The time of a scrape's rows, in Unix seconds of the head's clock.
fn row_time(sockets: &[Socket<'_>], time: ScrapeTime) -> f64 {
    let Some(offset) = time.offset else { return time.middle_s };
    let fresh: Vec<&Socket<'_>> = sockets.iter().filter(|socket| socket.is_fresh).collect();
    let read_at = |socket: &&Socket<'_>| {
        let read_at_s = socket.sound_at_s?;
        Some(read_at_s - socket.window_s.unwrap_or(0.0) / 2.0 - offset.offset_s)
    };
    mean(fresh.iter().map(read_at)).unwrap_or(time.middle_s)
}

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
