//! The thread of one accelerator: asks sysfs whether the device is awake, and only then reads it.
//!
//! Each device has a thread of its own, so that one whose driver hangs holds up no other. Nothing but sysfs is opened: a
//! node of `/dev/dri` wakes a card.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::gpu_metrics::{GpuMetrics, TableError};
use super::hwmon::{Channel, Table};
use super::live::Accelerator;
use super::scope::Scope;
use crate::accelerator::quantity::Component;
use crate::attribute::{parse_energy, parse_power};
use crate::cell::Cell;
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::sensor::{Measure, Source};
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

/// What the thread carries from round to round.
struct Rounds<'a> {
    accelerator: &'a Accelerator,
    reading: &'a Reading,
    /// The counter that was seen to have counted: some cards have one that stays at zero.
    counter: Option<usize>,
    /// The time of the last table, and when it was met first.
    clock: Option<(u64, Now)>,
}

impl<'a> Rounds<'a> {
    fn new(accelerator: &'a Accelerator, reading: &'a Reading) -> Self {
        Self { accelerator, reading, counter: None, clock: None }
    }

    fn run(mut self, wishes: &Wishes) {
        let (mut failures_in_a_row, mut said) = (0_u32, None);
        let schedule = self.reading.schedule;
        while !wishes.stop.load(Ordering::Acquire) {
            let outcome = self.round();
            say_changes(&self.accelerator.power, outcome, &mut said);
            failures_in_a_row = match outcome {
                // Who has no sensor is asked no less often whether it sleeps.
                Err(Failure::NotSupported) => 0,
                Err(failure) if failure.is_of_the_sensor() => failures_in_a_row.saturating_add(1),
                _ => 0,
            };
            let pause = backoff(schedule.interval, failures_in_a_row);
            wishes.wait_until(schedule.next(Instant::now(), pause));
        }
    }

    /// Looks at the device once. What came of its power.
    fn round(&mut self) -> Result<(), Failure> {
        let accelerator = self.accelerator;
        let is_asleep = accelerator.device.is_asleep(&self.reading.sysfs);
        accelerator.note_sleep(is_asleep);
        if is_asleep && !self.reading.allow_wake {
            let now = Now::read();
            self.clock = None;
            for cell in accelerator.cells() {
                let _ = cell.finish(Err(Failure::Asleep), now);
            }
            return Err(Failure::Asleep);
        }
        match accelerator.device.source() {
            Source::I915 | Source::Xe => self.read_counter(),
            _ => self.read_gauges(),
        }
    }

    /// The gauges of power, and AMD's table.
    fn read_gauges(&mut self) -> Result<(), Failure> {
        let accelerator = self.accelerator;
        let channels = &accelerator.channels;
        let table = channels.table.as_ref().map(|Table { file, .. }| {
            let started = Now::read();
            (self.table(file), started, Now::read())
        });
        let parsed = table.as_ref().and_then(|(table, ..)| table.as_ref().ok());
        let apu = APUS.contains(&accelerator.device.device_id.as_str());
        if parsed.is_some_and(|table| table.is_apu) || apu {
            accelerator.set_scope(Scope::Socket);
        }
        // A card whose driver shows its power in the table alone.
        let of_table = parsed.and_then(|table| table.in_watts(None)).and_then(|table| table.socket);
        let (outcome, watts) = if channels.power.is_empty() && of_table.is_some() {
            (
                self.finish(
                    &accelerator.power,
                    of_table.ok_or(Failure::NoData),
                    table_times(&table),
                ),
                of_table,
            )
        } else {
            self.read_power()
        };
        if let (Some(instant), Some(channel)) = (&accelerator.instant, channels.power.get(1)) {
            let _ = self.read_gauge(instant, channel);
        }
        if let Some((table, started, ended)) = table {
            self.finish_table(table, watts, (started, ended));
        }
        outcome
    }

    /// The power: its average, or else what it is at the moment.
    fn read_power(&self) -> (Result<(), Failure>, Option<f64>) {
        let cell = &self.accelerator.power;
        let is_wrong = WRONG_SENSORS.contains(&self.accelerator.device.device_id.as_str());
        let mut outcome = (Err(Failure::NotSupported), None);
        if is_wrong || self.accelerator.channels.power.is_empty() {
            let now = Now::read();
            return (self.finish(cell, Err(Failure::NotSupported), (now, now)), None);
        }
        for channel in &self.accelerator.channels.power {
            cell.begin(Now::read());
            let started = Now::read();
            let watts = self.watts(channel);
            let ended = Now::read();
            if watts.is_ok() {
                cell.set_averaging(channel.averaging());
            }
            outcome = (self.finish(cell, watts, (started, ended)), watts.ok());
            if watts.is_ok() {
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
        let text = self.reading.sysfs.text(&channel.file).map_err(|failure| self.meant(failure))?;
        parse_power(&text, false, None)
    }

    /// What a refusal means: drivers refuse to read a device that has gone to sleep since it was looked at.
    fn meant(&self, failure: Failure) -> Failure {
        let refuses = matches!(failure, Failure::Busy | Failure::Denied);
        let is_asleep = || self.accelerator.device.is_asleep(&self.reading.sysfs);
        if refuses && is_asleep() { Failure::Asleep } else { failure }
    }

    /// Intel's counter of energy, whose power is its difference.
    fn read_counter(&mut self) -> Result<(), Failure> {
        let accelerator = self.accelerator;
        let (cell, counters) = (&accelerator.power, &accelerator.channels.energy);
        cell.begin(Now::read());
        let started = Now::read();
        let read = |channel: &Channel| {
            let text = self.reading.sysfs.text(&channel.file);
            parse_energy(&text.map_err(|failure| self.meant(failure))?)
        };
        let mut outcome = Err(Failure::NotSupported);
        let mut chosen = self.counter;
        for (place, (scope, channel)) in counters.iter().enumerate() {
            if chosen.is_some_and(|chosen| chosen != place) {
                continue;
            }
            match read(channel) {
                // It may never count: the next one may.
                Ok(0) if chosen.is_none() => outcome = Err(Failure::NoData),
                Ok(microjoules) => {
                    accelerator.set_scope(*scope);
                    chosen = Some(place);
                    outcome = Ok(Measure::MicroJoules(microjoules));
                    break;
                }
                Err(failure) => outcome = Err(failure),
            }
        }
        self.counter = chosen;
        self.store(cell, outcome, (started, Now::read()))
    }

    fn table(&mut self, file: &std::path::Path) -> Result<GpuMetrics, Failure> {
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
        if let Some(cell) = &accelerator.energy {
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
                cell,
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

fn table_times<T>(table: &Option<(T, Now, Now)>) -> (Now, Now) {
    table
        .as_ref()
        .map_or_else(|| (Now::read(), Now::read()), |(_, started, ended)| (*started, *ended))
}
