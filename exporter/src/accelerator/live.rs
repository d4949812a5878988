//! An accelerator while it is looked after: what it is, and the last readings of it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wattscribe_rules::Averaging;

use super::device::Device;
use super::hwmon::Channels;
use super::scope::Scope;
use crate::accelerator::quantity::{Component, Quantity};
use crate::cell::Cell;
use crate::clock::Now;
use crate::sensor::{Kind, Meter, Sensor};

/// An accelerator and its readings.
#[derive(Debug)]
pub struct Accelerator {
    /// What it is.
    pub device: Device,
    /// Where its driver shows power.
    pub channels: Channels,
    /// Its power.
    pub power: Arc<Cell>,
    /// Its power at the moment, where the power is an average.
    pub instant: Option<Arc<Cell>>,
    /// Its own count of energy, where its power is a gauge.
    pub energy: Option<Arc<Cell>>,
    /// Its parts.
    pub components: Vec<Arc<Cell>>,
    scope: Mutex<Scope>,
    sleep: AtomicU8,
}

/// Parts that a table of AMD's may tell apart.
const PARTS: [Component; 4] =
    [Component::Socket, Component::Gfx, Component::CpuCores, Component::Npu];

const UNKNOWN: u8 = 0;
const AWAKE: u8 = 1;
const ASLEEP: u8 = 2;

impl Accelerator {
    /// One that was found and not read yet.
    pub fn new(device: Device, channels: Channels) -> Self {
        let cell = |quantity: Quantity, channel: &str, label: &str, averaging, counts| {
            Arc::new(Cell::new(Sensor {
                source: device.source(),
                id: quantity.id_of(&device.pci),
                channel: channel.to_owned(),
                kind: Kind::Accelerator(quantity),
                socket: device.numa_node,
                label: label.to_owned(),
                averaging,
                meter: Meter::Device { counts },
            }))
        };
        let is_counter = channels.power.is_empty() && !channels.energy.is_empty();
        let energy = channels.energy.iter().map(|(_, channel)| channel);
        let main = channels.power.iter().chain(energy).next();
        let averaging = match main {
            _ if is_counter => Averaging::Difference,
            Some(channel) => channel.averaging(),
            None => Averaging::Unknown,
        };
        let (name, label) = main.map_or(("", ""), |channel| (&channel.name, &channel.label));
        let power = cell(Quantity::Power, name, label, averaging, is_counter);
        let instant = channels.power.get(1).map(|channel| {
            let averaging = channel.averaging();
            cell(Quantity::Instant, &channel.name, &channel.label, averaging, false)
        });
        let part = |component| {
            let quantity = Quantity::Component(component);
            cell(quantity, "gpu_metrics", "", Averaging::Unknown, false)
        };
        let table = channels.table.as_ref();
        let energy = table
            .filter(|table| table.counts)
            .map(|_| cell(Quantity::Energy, "gpu_metrics", "", Averaging::Difference, true));
        let is_apu = table.is_some_and(|table| table.is_apu);
        let components = if is_apu { PARTS.map(part).to_vec() } else { Vec::new() };
        let scope = channels.energy.first().map_or(Scope::Gpu, |(scope, _)| *scope);
        let (scope, sleep) = (Mutex::new(scope), AtomicU8::new(UNKNOWN));
        Self { device, channels, power, instant, energy, components, scope, sleep }
    }

    /// All its sensors: its power first.
    pub fn cells(&self) -> impl Iterator<Item = &Arc<Cell>> {
        let beside = self.instant.iter().chain(&self.energy);
        std::iter::once(&self.power).chain(beside).chain(&self.components)
    }

    /// The cell of a part.
    pub fn component(&self, component: Component) -> Option<&Arc<Cell>> {
        let kind = Kind::Accelerator(Quantity::Component(component));
        self.components.iter().find(|cell| cell.sensor.kind == kind)
    }

    /// What its power covers.
    pub fn scope(&self) -> Scope {
        *self.scope.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its power covers, by what was read of it.
    pub fn set_scope(&self, scope: Scope) {
        *self.scope.lock().unwrap_or_else(PoisonError::into_inner) = scope;
    }

    /// Whether it slept as it was looked at last; nothing before the first look.
    pub fn is_asleep(&self) -> Option<bool> {
        match self.sleep.load(Ordering::Relaxed) {
            AWAKE => Some(false),
            ASLEEP => Some(true),
            _ => None,
        }
    }

    /// Notes whether it sleeps.
    pub fn note_sleep(&self, is_asleep: bool) {
        self.sleep.store(if is_asleep { ASLEEP } else { AWAKE }, Ordering::Relaxed);
    }

    /// Discovery no longer finds it.
    pub fn lose(&self, now: Now) {
        self.cells().for_each(|cell| cell.lose(now));
    }
}
