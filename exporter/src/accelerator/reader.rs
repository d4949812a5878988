//! The thread of one accelerator: asks sysfs whether the device is awake, and only then reads it.
//!
//! Each device has a thread of its own, so that one whose driver hangs holds up no other. Nothing but sysfs is opened: a
//! node of `/dev/dri` wakes a card.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::gpu_metrics::{GpuMetrics, TableError};
use super::hwmon::Channel;
use super::live::Accelerator;
use super::scope::Scope;
use crate::accelerator::quantity::{Component, Quantity};
use crate::attribute::{parse_energy, parse_power};
use crate::cell::Cell;
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::plausible::power;
use crate::sensor::{Kind, Measure, Source};
use crate::sysfs::Sysfs;
use crate::worker::{Schedule, Wishes, backoff, say_changes};

/// It reads small files and one page.
const STACK_BYTES: usize = 128 << 10;

/// A table whose time stands still for as long is read from a firmware that has stopped: drivers keep one for a tenth of
/// a second at the most.
const FROZEN_AFTER: Duration = Duration::from_secs(1);

/// AMD's devices whose sensor is known to be wrong, by PCI device: the graphics of Granite Ridge (SMU 13.0.5).
const WRONG_SENSORS: [&str; 1] = ["13c0"];

/// APUs whose table looks like that of a discrete chip, by PCI device: MI300A.
const APUS: [&str; 1] = ["74a0"];

/// A running reader. Dropping it asks the thread to end after the read in flight.
#[derive(Debug)]
pub struct Reader {
    wishes: Arc<Wishes>,
    thread: Thread,
}

/// How devices are read.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The tree.
    pub sysfs: Sysfs,
    /// Where reads are counted.
    pub health: Arc<Health>,
    /// When.
    pub schedule: Schedule,
    /// Whether a device that sleeps is read all the same, and so woken.
    pub allow_wake: bool,
}

impl Reader {
    /// Starts reading an accelerator.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(accelerator: Arc<Accelerator>, reading: Reading) -> io::Result<Self> {
        let wishes = Arc::<Wishes>::default();
        let wished = Arc::clone(&wishes);
        let handle = thread::Builder::new()
            .name(accelerator.device.pci.clone())
            .stack_size(STACK_BYTES)
            .spawn(move || Rounds::new(&accelerator, &reading).run(&wished))?;
        Ok(Self { wishes, thread: handle.thread().clone() })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.wishes.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A card whose counter reads zero for as long never counts: another counter of it may.
const NEVER_COUNTS_AFTER: Duration = Duration::from_secs(2);

/// What the thread carries from round to round.
struct Rounds<'a> {
    accelerator: &'a Accelerator,
    reading: &'a Reading,
    /// Whether what its driver tells is known to be wrong.
    is_wrong: bool,
    /// The counter that was seen to have counted: some cards have one that stays at zero.
    counter: Option<usize>,
    /// Since when no counter has.
    zero_since: Option<Now>,
    /// The time of the last table, and when it was met first.
    clock: Option<(u64, Now)>,
    /// How long the device has slept since it has its driver, in the driver's milliseconds.
    slept_ms: Option<u64>,
}

impl<'a> Rounds<'a> {
    fn new(accelerator: &'a Accelerator, reading: &'a Reading) -> Self {
        let is_wrong = WRONG_SENSORS.contains(&accelerator.device.device_id.as_str());
        Self {
            accelerator,
            reading,
            is_wrong,
            counter: None,
            zero_since: None,
            clock: None,
            slept_ms: None,
        }
    }

    fn run(mut self, wishes: &Wishes) {
        let (mut failures_in_a_row, mut said) = (0_u32, None);
        let schedule = self.reading.schedule;
        while !wishes.stop.load(Ordering::Acquire) {
            let Round { power, is_table_read } = self.round();
            say_changes(&self.accelerator.power, power, &mut said);
            failures_in_a_row = match power {
                // Who has no sensor is asked no less often whether it sleeps, nor who tells other things.
                Err(Failure::NotSupported) => 0,
                _ if is_table_read => 0,
                Err(failure) if failure.is_of_the_sensor() => failures_in_a_row.saturating_add(1),
                _ => 0,
            };
            let pause = backoff(schedule.interval, failures_in_a_row);
            wishes.wait_until(schedule.next(Instant::now(), pause));
        }
    }

    /// Looks at the device once.
    fn round(&mut self) -> Round {
        let accelerator = self.accelerator;
        accelerator.note_sleep(false);
        self.note_slept();
        let mut round = match accelerator.device.source() {
            // Nothing is opened below without asking whether it sleeps; and what has no file is asked here.
            _ if self.may_read().is_err() => Round::failed(Failure::Asleep),
            _ if self.is_wrong => Round::failed(Failure::NotSupported),
            Source::I915 | Source::Xe => self.read_counter(),
            _ => self.read_gauges(),
        };
        if accelerator.is_asleep() == Some(true) && !self.reading.allow_wake {
            round = Round::failed(Failure::Asleep);
        }
        if let Err(failure @ (Failure::Asleep | Failure::NotSupported)) = round.power {
            let now = Now::read();
            let is_asleep = failure == Failure::Asleep;
            for cell in accelerator.cells() {
                if is_asleep || self.is_wrong || Arc::ptr_eq(&cell, &accelerator.power) {
                    let _ = cell.finish(Err(failure), now);
                }
            }
            if is_asleep {
                self.clock = None;
            }
        }
        round
    }

    /// Whether the device may be read now.
    fn may_read(&self) -> Result<(), Failure> {
        if !self.accelerator.device.is_asleep(&self.reading.sysfs) {
            return Ok(());
        }
        self.accelerator.note_sleep(true);
        if self.reading.allow_wake { Ok(()) } else { Err(Failure::Asleep) }
    }

    /// Breaks what is counted where the device has slept between two looks, both of which found it awake.
    fn note_slept(&mut self) {
        let file = self.accelerator.device.directory(&self.reading.sysfs);
        let text = self.reading.sysfs.text_if_any(&file.join("power/runtime_suspended_time"));
        let slept_ms = text.and_then(|text| text.parse().ok());
        if self.slept_ms.is_some_and(|before| slept_ms.is_some_and(|now| now > before)) {
            self.accelerator.cells().iter().for_each(|cell| cell.interrupt());
        }
        self.slept_ms = slept_ms.or(self.slept_ms);
    }

    /// The gauges of power, and AMD's table.
    fn read_gauges(&mut self) -> Round {
        let accelerator = self.accelerator;
        let channels = &accelerator.channels;
        if channels.power.is_empty() && channels.table.is_none() {
            return Round::failed(Failure::NotSupported);
        }
        let table = channels.table.as_deref().map(|file| self.timed_table(file));
        let parsed = table.as_ref().and_then(|(table, _)| table.as_ref().ok());
        if let Some(table) = parsed {
            let is_apu = table.is_apu || APUS.contains(&accelerator.device.device_id.as_str());
            accelerator.set_scope(if is_apu { Scope::Socket } else { Scope::Gpu });
            accelerator.note_table(table.energy_uj.is_some(), table.is_apu);
        }
        let (power, watts) = match &table {
            // A card whose driver shows its power in the table alone.
            Some((table, times)) if channels.power.is_empty() => {
                let told = table.and_then(|table| table.in_watts(None).ok_or(Failure::NoData));
                let watts = told.and_then(|told| told.socket.ok_or(Failure::NotSupported));
                let watts = watts.and_then(|watts| power(watts, false));
                (self.finish(&accelerator.power, watts, *times), watts.ok())
            }
            _ => self.read_power(),
        };
        if let (Some(instant), Some(channel)) = (&accelerator.instant, channels.power.get(1)) {
            let _ = self.read_gauge(instant, channel);
        }
        let is_table_read = parsed.is_some();
        if let Some((table, times)) = table {
            self.finish_table(table, watts, times);
        }
        Round { power, is_table_read }
    }

    /// The power: its average, or else what it is at the moment.
    fn read_power(&self) -> (Result<(), Failure>, Option<f64>) {
        let cell = &self.accelerator.power;
        let mut outcome = (Err(Failure::NotSupported), None);
        for channel in &self.accelerator.channels.power {
            cell.begin(Now::read());
            let started = Now::read();
            let watts = self.watts(channel);
            let ended = Now::read();
            if watts.is_ok() {
                cell.set_averaging(channel.averaging());
            }
            outcome = (self.finish(cell, watts, (started, ended)), watts.ok());
            if matches!(watts, Ok(_) | Err(Failure::Asleep)) {
                break;
            }
        }
        outcome
    }

    fn read_gauge(&self, cell: &Cell, channel: &Channel) -> Result<(), Failure> {
        cell.begin(Now::read());
        let started = Now::read();
        let watts = self.watts(channel);
        self.finish(cell, watts, (started, Now::read()))
    }

    fn watts(&self, channel: &Channel) -> Result<f64, Failure> {
        parse_power(&self.text(channel)?, false, None)
    }

    /// What a file says, unless the device sleeps by now.
    fn text(&self, channel: &Channel) -> Result<String, Failure> {
        self.may_read()?;
        self.reading.sysfs.text(&channel.file).map_err(|failure| self.meant(failure))
    }

    /// What a refusal means: drivers refuse to read a device that has gone to sleep since it was looked at.
    fn meant(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Busy | Failure::Denied => self.may_read().err().unwrap_or(failure),
            failure => failure,
        }
    }

    /// Intel's counter of energy, whose power is its difference.
    fn read_counter(&mut self) -> Round {
        let accelerator = self.accelerator;
        let (cell, counters) = (&accelerator.power, &accelerator.channels.energy);
        if counters.is_empty() {
            return Round::failed(Failure::NotSupported);
        }
        cell.begin(Now::read());
        let started = Now::read();
        let never_counts =
            self.zero_since.is_some_and(|since| started.since(&since) >= NEVER_COUNTS_AFTER);
        let mut outcome = Err(Failure::NoData);
        for (place, (scope, channel)) in counters.iter().enumerate() {
            if self.counter.is_some_and(|chosen| chosen != place) {
                continue;
            }
            match self.text(channel).and_then(|text| parse_energy(&text)) {
                Ok(0) if self.counter.is_none() => {
                    self.zero_since.get_or_insert(started);
                    outcome = Err(Failure::NoData);
                    if !never_counts {
                        break;
                    }
                }
                Ok(microjoules) => {
                    accelerator.set_scope(*scope);
                    self.counter = Some(place);
                    outcome = Ok(Measure::MicroJoules(microjoules));
                    break;
                }
                Err(failure) => outcome = Err(failure),
            }
        }
        Round { power: self.store(cell, outcome, (started, Now::read())), is_table_read: false }
    }

    fn timed_table(&mut self, file: &Path) -> (Result<GpuMetrics, Failure>, (Now, Now)) {
        let started = Now::read();
        let is_alone = self.accelerator.channels.power.is_empty();
        let power = is_alone.then(|| Arc::clone(&self.accelerator.power));
        let beside = self.accelerator.cells().into_iter().filter(|cell| {
            !matches!(cell.sensor.kind, Kind::Accelerator(Quantity::Power | Quantity::Instant))
        });
        beside.chain(power).for_each(|cell| cell.begin(started));
        (self.table(file), (started, Now::read()))
    }

    fn table(&mut self, file: &Path) -> Result<GpuMetrics, Failure> {
        self.may_read()?;
        let bytes = self.reading.sysfs.read(file).map_err(|failure| self.meant(failure))?;
        let table = GpuMetrics::parse(&bytes).map_err(|error| match error {
            TableError::Short => Failure::Malformed,
            TableError::Unknown { .. } => Failure::NotSupported,
        })?;
        let (Some(clock), now) = (table.clock_ns, Now::read()) else { return Ok(table) };
        match self.clock {
            Some((before, met)) if before == clock => {
                if now.since(&met) >= FROZEN_AFTER {
                    return Err(Failure::Frozen);
                }
            }
            _ => self.clock = Some((clock, now)),
        }
        Ok(table)
    }

    fn finish_table(
        &self,
        table: Result<GpuMetrics, Failure>,
        watts: Option<f64>,
        times: (Now, Now),
    ) {
        let accelerator = self.accelerator;
        let energy = table.map(|table| table.energy_uj);
        if let Some(cell) = &accelerator.energy() {
            let counted = energy.and_then(|counted| counted.ok_or(Failure::NotSupported));
            let _ = self.store(cell, counted.map(Measure::MicroJoules), times);
        }
        let told = table.and_then(|table| table.in_watts(watts).ok_or(Failure::NoData));
        let parts = [
            (Component::Socket, told.map(|told| told.socket)),
            (Component::Gfx, told.map(|told| told.gfx)),
            (Component::CpuCores, told.map(|told| told.cpu_cores)),
            (Component::Npu, told.map(|told| told.npu)),
        ];
        for (component, watts) in parts {
            let Some(cell) = accelerator.component(component) else { continue };
            let _ = self.finish(
                &cell,
                watts.and_then(|watts| watts.ok_or(Failure::NotSupported)),
                times,
            );
        }
    }

    fn finish(
        &self,
        cell: &Cell,
        watts: Result<f64, Failure>,
        times: (Now, Now),
    ) -> Result<(), Failure> {
        self.store(cell, watts.map(Measure::Watts), times)
    }

    fn store(
        &self,
        cell: &Cell,
        measured: Result<Measure, Failure>,
        (started, ended): (Now, Now),
    ) -> Result<(), Failure> {
        let outcome = cell.finish_read(measured, started, ended);
        self.reading.health.record(cell.sensor.source, ended.awake_since(&started), outcome);
        outcome
    }
}

/// What came of one look.
struct Round {
    /// Of the device's power.
    power: Result<(), Failure>,
    /// Whether its table told something.
    is_table_read: bool,
}

impl Round {
    fn failed(failure: Failure) -> Self {
        Self { power: Err(failure), is_table_read: false }
    }
}
