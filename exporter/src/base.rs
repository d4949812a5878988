//! The source that this node's CPUs are measured with, and what keeps its sensors read: a worker a file, or
//! the one thread of a library.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};

use crate::cell::Cell;
use crate::clock::Now;
use crate::ladder::{Chosen, Ground, Rung};
use crate::library::LibraryThread;
use crate::roster::{Change, Roster};
use crate::sensor::{CpuField, Kind, Sensor, Source};
use crate::worker::Worker;

/// How many deadlines of a read discovery may take: it looks at a few files of each sensor, one after the
/// other, and each may wait until the driver has answered a worker.
const DISCOVERY_PATIENCE: u32 = 5;

/// What the ladder chose, at work.
#[derive(Debug)]
pub struct Base {
    /// The rung that it stands on; none where nothing measures the CPUs.
    rung: Option<Rung>,
    readers: Readers,
}

#[derive(Debug)]
enum Readers {
    Workers(Workers),
    Library(LibraryThread),
}

impl Base {
    /// A node whose CPUs nothing measures.
    pub fn absent() -> Self {
        Self { rung: None, readers: Readers::Workers(Workers::default()) }
    }

    /// Starts what reads the sensors.
    pub fn start(chosen: Chosen, ground: &Ground) -> io::Result<Self> {
        let rung = chosen.rung();
        let readers = match chosen {
            Chosen::Files { sensors, .. } => {
                let workers = Workers::default();
                workers.reconcile(sensors, ground)?;
                Readers::Workers(workers)
            }
            Chosen::Library { thread, .. } => Readers::Library(thread),
        };
        Ok(Self { rung: Some(rung), readers })
    }

    /// Who reads, if anyone does.
    pub fn source(&self) -> Option<Source> {
        self.rung.map(Rung::source)
    }

    /// The rung of the ladder. An engine that comes back may offer more or less than before.
    pub fn rung(&self) -> Option<Rung> {
        if self.source() != Some(Source::Dcgm) {
            return self.rung;
        }
        let is_sys_io = |cell: &Arc<Cell>| {
            cell.is_present() && cell.sensor.kind == Kind::CpuField(CpuField::SysIo)
        };
        let has_sys_io = self.cells().iter().any(is_sys_io);
        Some(if has_sys_io { Rung::Dcgm } else { Rung::Dcgm1130 })
    }

    /// The sensors, lost ones included, ordered by where they stand.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        match &self.readers {
            Readers::Workers(workers) => workers.roster.cells(),
            Readers::Library(thread) => thread.cells(),
        }
    }

    /// The library that it is read through, if it is.
    pub fn library(&self) -> Option<&LibraryThread> {
        match &self.readers {
            Readers::Workers(_) => None,
            Readers::Library(thread) => Some(thread),
        }
    }

    /// Discovers again, and follows what changed. A library's thread does so by itself. Where a file holds
    /// discovery back, all stays as it was: whoever watches tells that.
    pub fn rediscover(&self, ground: &Ground) -> io::Result<()> {
        let Readers::Workers(workers) = &self.readers else { return Ok(()) };
        let patience = ground.deadline * DISCOVERY_PATIENCE;
        let Some(source) = self.source() else { return Ok(()) };
        let Some(found) = ground.discover(source, patience) else { return Ok(()) };
        // No sensor at all is a finding like any other: all are lost.
        workers.reconcile(found.unwrap_or_default(), ground)
    }

    /// Has every sensor read at once, also one that pauses because it has failed for long.
    pub fn read_now(&self) {
        match &self.readers {
            Readers::Workers(workers) => workers.read_now(),
            Readers::Library(thread) => thread.read_now(),
        }
    }

    /// Whether a file holds discovery back: no sensor that came, went or moved since is known.
    pub fn is_discovery_overdue(&self, ground: &Ground, now: Now) -> bool {
        let patience = ground.deadline * DISCOVERY_PATIENCE;
        self.source().is_some_and(|source| ground.is_discovery_overdue(source, now, patience))
    }
}

/// A thread for each sensor that is a file.
#[derive(Debug, Default)]
struct Workers {
    roster: Roster,
    of_sensor: Mutex<Vec<(String, Worker)>>,
}

impl Workers {
    fn read_now(&self) {
        let workers = self.of_sensor.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().for_each(|(_, worker)| worker.read_now());
    }

    fn reconcile(&self, found: Vec<Sensor>, ground: &Ground) -> io::Result<()> {
        let mut workers = self.of_sensor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcome = Ok(());
        for change in self.roster.reconcile(found, Now::read()) {
            let (Change::Lost(cell)
            | Change::Moved { cell, .. }
            | Change::Replaced { cell, .. }
            | Change::Added(cell)) = &change;
            let sensor = &cell.sensor;
            workers.retain(|(id, _)| *id != sensor.id);
            match &change {
                Change::Lost(_) => {
                    warn!(source = sensor.source.as_str(), sensor = sensor.id, "sensor vanished");
                    continue;
                }
                Change::Moved { was, .. } => {
                    let now = &sensor.channel;
                    info!(sensor = sensor.id, was, now, "sensor moved or came back");
                }
                Change::Replaced { was, .. } => {
                    let (sensor, now) = (&sensor.id, &sensor.label);
                    warn!(sensor, was, now, "another sensor stands in its place, and is read anew");
                }
                Change::Added(_) => {}
            }
            let health = Arc::clone(&ground.health);
            match Worker::start(Arc::clone(cell), ground.sysfs.clone(), health, ground.schedule) {
                Ok(worker) => workers.push((sensor.id.clone(), worker)),
                Err(error) => {
                    // Nobody reads it: it is lost until the next discovery tries again.
                    cell.lose(Now::read());
                    outcome = Err(error);
                }
            }
        }
        outcome
    }
}
