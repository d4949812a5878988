//! The accelerators of a node, while they come and go: a reader for each that files tell the power of.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tracing::{info, warn};

use super::device::{Device, Role};
use super::hwmon::{Channels, Shape};
use super::live::Accelerator;
use super::reader::{Reader, Reading};
use crate::clock::Now;
use crate::sensor::Source;

/// How long a device that is gone is shown as lost.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// The accelerators of a node.
#[derive(Debug)]
pub struct Accelerators {
    reading: Reading,
    known: RwLock<Vec<Known>>,
}

/// A device that was found at some time.
#[derive(Debug)]
struct Known {
    device: Device,
    /// Its readings, and who makes them as long as it is there.
    live: Option<(Arc<Accelerator>, Option<Reader>)>,
    lost_since: Option<Now>,
    /// Whether one that no reader looks at slept at the last discovery.
    slept: bool,
}

/// A device as it is shown.
#[derive(Debug, Clone)]
pub struct Shown {
    /// What it is.
    pub device: Device,
    /// Its readings, where files tell them.
    pub live: Option<Arc<Accelerator>>,
    /// Whether it is there no more.
    pub is_lost: bool,
    /// Whether it slept when it was looked at last; nothing before the first look.
    pub is_asleep: Option<bool>,
}

impl Accelerators {
    /// None yet.
    pub fn new(reading: Reading) -> Self {
        Self { reading, known: RwLock::default() }
    }

    /// The devices, ordered by address.
    pub fn all(&self) -> Vec<Shown> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let shown = |known: &Known| Shown {
            device: known.device.clone(),
            live: known.live.as_ref().map(|(accelerator, _)| Arc::clone(accelerator)),
            is_lost: known.lost_since.is_some(),
            is_asleep: match &known.live {
                Some((accelerator, _)) => accelerator.is_asleep(),
                None => Some(known.slept),
            },
        };
        known.iter().map(shown).collect()
    }

    /// The accelerators that are read from files.
    pub fn live(&self) -> Vec<Arc<Accelerator>> {
        self.all().into_iter().filter_map(|shown| shown.live).collect()
    }

    /// Follows what discovery found.
    ///
    /// # Errors
    /// When a thread cannot be started for one of them: it is tried again the next time.
    pub fn reconcile(&self, found: Vec<Shape>) -> io::Result<()> {
        let now = Now::read();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| {
            let is_found = found.iter().any(|(device, _)| device.pci == known.device.pci);
            is_found || known.lost_since.is_none_or(|since| now.since(&since) <= FORGET_AFTER)
        });
        for gone in known.iter_mut().filter(|known| known.lost_since.is_none()) {
            if found.iter().any(|(device, _)| device.pci == gone.device.pci) {
                continue;
            }
            gone.lost_since = Some(now);
            warn!(pci = gone.device.pci, driver = gone.device.driver, "an accelerator vanished");
            if let Some((accelerator, reader)) = &mut gone.live {
                *reader = None;
                accelerator.lose(now);
            }
        }
        let mut outcome = Ok(());
        for (device, channels) in found {
            let slept = device.is_asleep(&self.reading.sysfs);
            let place = known.iter().position(|known| known.device.pci == device.pci);
            let before = place.map(|place| &known[place]);
            if before.is_some_and(|before| is_as_before(before, &device, &channels)) {
                let known = &mut known[place.unwrap_or_default()];
                (known.device, known.slept) = (device, slept);
                continue;
            }
            let (pci, driver) = (&device.pci, &device.driver);
            if before.is_some() || !self.is_starting() {
                info!(pci, driver, "an accelerator came, or is another one now");
            }
            match self.begin(device, channels, slept) {
                Ok(now_known) => match place {
                    Some(place) => known[place] = now_known,
                    None => known.push(now_known),
                },
                Err(error) => outcome = Err(error),
            }
        }
        known.sort_by(|a, b| a.device.pci.cmp(&b.device.pci));
        outcome
    }

    fn is_starting(&self) -> bool {
        self.reading.schedule.origin.elapsed() < self.reading.schedule.interval
    }

    fn begin(&self, device: Device, channels: Channels, slept: bool) -> io::Result<Known> {
        let is_read = device.role == Role::Accelerator && device.source() != Source::Nvml;
        let live = if is_read {
            let accelerator = Arc::new(Accelerator::new(device.clone(), channels));
            let reader = Reader::start(Arc::clone(&accelerator), self.reading.clone())?;
            Some((accelerator, Some(reader)))
        } else {
            None
        };
        Ok(Known { device, live, lost_since: None, slept })
    }
}

/// Whether a device goes on as it was.
fn is_as_before(before: &Known, device: &Device, channels: &Channels) -> bool {
    let channels_before = before.live.as_ref().map(|(accelerator, _)| &accelerator.channels);
    before.lost_since.is_none()
        && before.device.is_same(device)
        && channels_before.is_none_or(|before| before == channels)
}
