//! What a scraped page says about the power of CPU sockets: ours, or that of another exporter with the
//! same compatibility families.
//!
//! Pure. A sample that does not fit (a label missing, a number that is no power) is left out, as the
//! families' other readers do; a page is never half believed because of it. That a socket is named is
//! kept all the same, because a sum must not pass over it.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use wattscribe_parser::{Entry, Exposition, Fault, Labels, Sample};
use wattscribe_rules::{RailKind, State, classify};

use crate::reading_time::ReadingTimes;

/// Where a socket's power comes from. In the order of preference when a page has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// ACPI power_meter.
    Acpi,
    /// DCGM CPU entities.
    Dcgm,
    /// Powercap zones.
    Rapl,
}

impl Source {
    /// The column value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acpi => "acpi",
            Self::Dcgm => "dcgm",
            Self::Rapl => "rapl",
        }
    }

    fn from_label(label: &str) -> Option<Self> {
        [Self::Acpi, Self::Dcgm, Self::Rapl].into_iter().find(|source| source.as_str() == label)
    }
}

/// What a reading covers of its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The socket itself: what becomes `power_w`.
    Primary,
    /// The rail of the cores.
    CpuRail,
    /// The rest of the die.
    Soc,
    /// The memory.
    Dram,
}

/// One reading of one socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Who read it.
    pub source: Source,
    /// The socket.
    pub socket: u32,
    /// What it covers.
    pub part: Part,
    /// Power in watts: above zero, or zero where the part can be idle.
    pub watts: f64,
    /// The channel or zone it came from, which leads to its [`Sensor`].
    pub channel: String,
}

/// A sensor that the page describes, reading or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Who reads it.
    pub source: Source,
    /// Its identity.
    pub id: String,
    /// The channel or zone it stands at.
    pub channel: String,
    /// Its socket.
    pub socket: u32,
    /// What it covers.
    pub part: Part,
    /// How its value stands in time.
    pub averaging: String,
}

/// The page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PowerPage {
    /// Readings in the order of the page.
    pub readings: Vec<Reading>,
    /// Module power in watts by socket.
    pub module_w: HashMap<u32, f64>,
    /// Sensors that are described.
    pub sensors: Vec<Sensor>,
    /// When each sensor was read, and what its reading is a mean over.
    pub times: ReadingTimes,
    /// The state of each sensor.
    pub states: HashMap<(Source, String), State>,
    /// Energy counters in joules by zone.
    pub counter_j: HashMap<String, f64>,
    /// Since when each counter counts, in Unix seconds of the node's clock, by zone.
    pub counter_since_s: HashMap<String, f64>,
    /// When the page was made, in Unix seconds of the node's clock.
    pub made_s: Option<f64>,
    /// Whether the page says that its sensors are simulated.
    pub is_simulated: bool,
    /// Every socket that a reading or a sensor names, also where the number beside it is no power.
    pub sockets: BTreeSet<(Source, u32)>,
    /// What the exporter calls itself, in this run of it.
    pub instance: Option<String>,
    /// All samples of the page.
    pub samples: u64,
    /// Series and sensors that were read already: given twice, the first counts.
    seen: HashSet<(Source, u32, Part, String)>,
    seen_sensors: HashSet<(Source, String)>,
}

/// What can be Unix seconds of a page: from 2001 to 5138. Milliseconds are not.
const UNIX_S: RangeInclusive<f64> = 1e9..=1e11;

impl PowerPage {
    /// Reads a body, and shows every sample to `each`. The first fault fails the whole body.
    pub fn read<'b>(body: &'b [u8], mut each: impl FnMut(&Sample<'b>)) -> Result<Self, Fault> {
        let mut page = Self::default();
        for entry in Exposition::new(body)? {
            if let Entry::Sample(sample) = entry? {
                page.samples += 1;
                page.take(&sample);
                each(&sample);
            }
        }
        Ok(page)
    }

    fn take(&mut self, sample: &Sample<'_>) {
        // Almost every sample of a foreign exporter ends at this comparison.
        let name = sample.name.raw();
        if !name.contains("power_") && !name.starts_with("cpu_energy_") {
            return;
        }
        let (labels, value) = (sample.labels, sample.value);
        match name {
            "cpu_power_acpi_watts" => self.take_reading(acpi_reading(labels, value)),
            "cpu_power_dcgm_watts" => self.take_dcgm(labels, value),
            "cpu_power_nvml_watts" => self.take_module(labels, value),
            "cpu_power_rapl_watts" => self.take_reading(rapl_reading(labels, value)),
            "cpu_energy_joules_total" => {
                if let Some(zone) = labels.get("zone").filter(|_| value.is_finite() && value >= 0.0)
                {
                    self.counter_j.entry(zone.into_owned()).or_insert(value);
                }
            }
            "cpu_energy_since_timestamp_seconds" => {
                if let Some(zone) = labels.get("zone").filter(|_| value.is_finite()) {
                    self.counter_since_s.entry(zone.into_owned()).or_insert(value);
                }
            }
            "power_sensor_info" => self.take_sensor(labels),
            "power_sensor_state" => {
                let state = labels.get("state").and_then(|state| state.parse().ok());
                if let (Some(key), Some(state)) =
                    (sensor_key(labels), state.filter(|_| value == 1.0))
                {
                    self.states.entry(key).or_insert(state);
                }
            }
            "power_reading_timestamp_seconds" => self.times.take_read_at(labels, value),
            "power_reading_window_seconds" => self.times.take_window(labels, value),
            "power_exposition_timestamp_seconds" if UNIX_S.contains(&value) => {
                self.made_s = Some(value);
            }
            "power_exporter_instance_info" => {
                let id = labels.get("instance_id").filter(|id| !id.is_empty());
                self.instance = self.instance.take().or(id.map(Cow::into_owned));
            }
            "power_simulated" => self.is_simulated |= value != 0.0,
            _ => {}
        }
    }

    /// DCGM field 1130 is the CPU rail, and what that source has for a socket; 1132 is SysIO. A sample
    /// without a field id is 1130.
    fn take_dcgm(&mut self, labels: Labels<'_>, value: f64) {
        let field = labels.get("field_id").filter(|field| !field.is_empty());
        let (id, parts): (u32, &[Part]) = match field.as_deref() {
            None | Some("1130") => (1130, &[Part::Primary, Part::CpuRail]),
            Some("1132") => (1132, &[Part::Soc]),
            Some(_) => return,
        };
        let Some(socket) = socket(labels) else { return };
        for part in parts {
            self.take_reading(Some(Reading {
                source: Source::Dcgm,
                socket,
                part: *part,
                watts: value,
                // Where our exporter says that the sensor stands.
                channel: format!("cpu{socket}/{id}"),
            }));
        }
    }

    /// A reading whose number is no power still says that the socket is there.
    fn take_reading(&mut self, reading: Option<Reading>) {
        let Some(reading) = reading else { return };
        self.sockets.insert((reading.source, reading.socket));
        let key = (reading.source, reading.socket, reading.part, reading.channel.clone());
        if reading.is_sound() && self.seen.insert(key) {
            self.readings.push(reading);
        }
    }

    fn take_sensor(&mut self, labels: Labels<'_>) {
        let Some(sensor) = sensor(labels) else { return };
        self.sockets.insert((sensor.source, sensor.socket));
        if self.seen_sensors.insert((sensor.source, sensor.id.clone())) {
            self.sensors.push(sensor);
        }
    }

    fn take_module(&mut self, labels: Labels<'_>, value: f64) {
        let is_module = labels.get("type").is_some_and(|kind| kind == "module");
        if let Some(socket) = socket(labels).filter(|_| is_module && is_power(value)) {
            self.module_w.entry(socket).or_insert(value);
        }
    }
}

impl Reading {
    /// Whether the number can be true. A powered socket never draws nothing, nor does a firmware rail; a
    /// powercap zone inside a package can be idle.
    fn is_sound(&self) -> bool {
        let can_be_zero = self.source == Source::Rapl && self.part != Part::Primary;
        is_power(self.watts) || (can_be_zero && self.watts == 0.0)
    }
}

/// From here on a number is a sentinel that an exporter passed on: what ACPI means by "unknown"
/// (0xFFFFFFFF mW) is 4 294 967.295 W, and DCGM's blanks begin at 0x7FFFFFF0 (dcgm_structs.h). No socket
/// and no module draws a megawatt.
const SENTINELS_FROM_W: f64 = 1e6;

/// What can be the power of something switched on: for a socket, zero is missing.
fn is_power(value: f64) -> bool {
    // NaN is no more above zero than it is below a sentinel.
    value > 0.0 && value < SENTINELS_FROM_W
}

fn acpi_reading(labels: Labels<'_>, watts: f64) -> Option<Reading> {
    let kind = labels.get("type").and_then(|kind| RailKind::from_type_label(&kind));
    let known = kind.filter(|kind| *kind != RailKind::Other).zip(socket(labels));
    let (kind, socket) = match known {
        Some(known) => known,
        // Older exporters leave rails unclassified that their own label text names.
        None => {
            let rail = classify(&labels.get("oem_info")?);
            (rail.kind, rail.socket.filter(|socket| *socket < SOCKETS_MAX)?)
        }
    };
    let part = rail_part(kind)?;
    let channel = labels.get("sensor").map(|sensor| sensor.into_owned()).unwrap_or_default();
    Some(Reading { source: Source::Acpi, socket, part, watts, channel })
}

fn rapl_reading(labels: Labels<'_>, watts: f64) -> Option<Reading> {
    Some(Reading {
        source: Source::Rapl,
        socket: socket(labels)?,
        part: zone_part(&labels.get("type")?)?,
        watts,
        channel: labels.get("zone")?.into_owned(),
    })
}

fn sensor(labels: Labels<'_>) -> Option<Sensor> {
    let (source, id) = sensor_key(labels)?;
    let kind = labels.get("type")?;
    let part = match source {
        Source::Acpi => rail_part(RailKind::from_type_label(&kind)?)?,
        Source::Rapl => zone_part(&kind)?,
        // What DCGM has for a socket is the rail of the cores.
        Source::Dcgm => match rail_part(RailKind::from_type_label(&kind)?)? {
            Part::CpuRail => Part::Primary,
            part => part,
        },
    };
    Some(Sensor {
        source,
        id,
        channel: labels.get("channel")?.into_owned(),
        socket: socket(labels)?,
        part,
        averaging: labels.get("averaging")?.into_owned(),
    })
}

fn rail_part(kind: RailKind) -> Option<Part> {
    match kind {
        RailKind::Total => Some(Part::Primary),
        RailKind::CpuRail => Some(Part::CpuRail),
        RailKind::Soc => Some(Part::Soc),
        RailKind::Dram => Some(Part::Dram),
        RailKind::Other => None,
    }
}

/// The zone types that stand for a part of a socket. `package_mmio` and `psys` cover what others cover.
fn zone_part(kind: &str) -> Option<Part> {
    match kind {
        "package" => Some(Part::Primary),
        "core" => Some(Part::CpuRail),
        "uncore" => Some(Part::Soc),
        "dram" => Some(Part::Dram),
        _ => None,
    }
}

/// Sockets are numbered below this: Linux has at most so many NUMA nodes (MAX_NUMNODES). It also bounds
/// what a broken page can make the recorder remember.
const SOCKETS_MAX: u32 = 1024;

fn socket(labels: Labels<'_>) -> Option<u32> {
    labels.get("socket")?.parse().ok().filter(|socket| *socket < SOCKETS_MAX)
}

fn sensor_key(labels: Labels<'_>) -> Option<(Source, String)> {
    Some((Source::from_label(&labels.get("source")?)?, labels.get("sensor")?.into_owned()))
}
