//! An accelerator while it is looked after: what it is, and the last readings of it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use wattscribe_rules::Averaging;

use super::device::Device;
use super::hwmon::Channels;
use super::scope::Scope;
use crate::accelerator::quantity::{Component, Quantity};
use crate::cell::Cell;
use crate::clock::Now;
use crate::sensor::{Kind, Meter, Sensor, Source};

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
    /// What its table was found to tell beside its power.
    told: RwLock<Told>,
    scope: Mutex<Scope>,
    sleep: AtomicU8,
}

/// What a table tells beside the power.
#[derive(Debug, Default)]
struct Told {
    energy: Option<Arc<Cell>>,
    components: Vec<Arc<Cell>>,
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
        let is_counter = channels.power.is_empty() && !channels.energy.is_empty();
        let energy = channels.energy.iter().map(|(_, channel)| channel);
        let main = channels.power.iter().chain(energy).next();
        let averaging = match main {
            _ if is_counter => Averaging::Difference,
            Some(channel) => channel.averaging(),
            None => Averaging::Unknown,
        };
        let (name, label) = main.map_or(("", ""), |channel| (&channel.name, &channel.label));
        let power = cell(&device, Quantity::Power, (name, label), averaging, is_counter);
        let instant = channels.power.get(1).map(|channel| {
            let averaging = channel.averaging();
            cell(&device, Quantity::Instant, (&channel.name, &channel.label), averaging, false)
        });
        // Only its table tells whether a chip of AMD is a card or an APU.
        let unread = if device.source() == Source::Amdgpu { Scope::Unknown } else { Scope::Gpu };
        let scope = channels.energy.first().map_or(unread, |(scope, _)| *scope);
        let (scope, sleep) = (Mutex::new(scope), AtomicU8::new(UNKNOWN));
        Self { device, channels, power, instant, told: RwLock::default(), scope, sleep }
    }

    /// All its sensors: its power first.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        let told = self.told();
        let beside = self.instant.iter().chain(&told.energy);
        let all = std::iter::once(&self.power).chain(beside).chain(&told.components);
        all.map(Arc::clone).collect()
    }

    /// Its own count of energy, where its power is a gauge.
    pub fn energy(&self) -> Option<Arc<Cell>> {
        self.told().energy.clone()
    }

    /// The cell of a part.
    pub fn component(&self, component: Component) -> Option<Arc<Cell>> {
        let kind = Kind::Accelerator(Quantity::Component(component));
        self.told().components.iter().find(|cell| cell.sensor.kind == kind).map(Arc::clone)
    }

    /// Notes what its table tells: once that it counts energy, and once that it has parts.
    pub fn note_table(&self, counts: bool, has_parts: bool) {
        let known = self.told();
        if (known.energy.is_some() || !counts) && (!known.components.is_empty() || !has_parts) {
            return;
        }
        drop(known);
        let mut told = self.told.write().unwrap_or_else(PoisonError::into_inner);
        if counts && told.energy.is_none() {
            told.energy = Some(self.of_table(Quantity::Energy));
        }
        if has_parts && told.components.is_empty() {
            let parts = PARTS.map(|part| self.of_table(Quantity::Component(part)));
            told.components = parts.to_vec();
        }
    }

    fn of_table(&self, quantity: Quantity) -> Arc<Cell> {
        let counts = quantity == Quantity::Energy;
        let averaging = if counts { Averaging::Difference } else { Averaging::Unknown };
        cell(&self.device, quantity, ("gpu_metrics", ""), averaging, counts)
    }

    fn told(&self) -> RwLockReadGuard<'_, Told> {
        self.told.read().unwrap_or_else(PoisonError::into_inner)
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
        self.cells().iter().for_each(|cell| cell.lose(now));
    }
}

/// A sensor of a device: what it measures, where, and what the driver calls it.
fn cell(
    device: &Device,
    quantity: Quantity,
    (channel, label): (&str, &str),
    averaging: Averaging,
    counts: bool,
) -> Arc<Cell> {
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
}
