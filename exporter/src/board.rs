//! All sensors of a node and the threads that keep them read: what discovery finds gets a worker, what
//! vanishes is kept as lost, what comes back under another number goes on under its own identity.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::cell::{Cell, Limits, Overdue};
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::ladder::{Chosen, Rung};
use crate::sensor::{Sensor, Source};
use crate::sources;
use crate::sysfs::Sysfs;
use crate::worker::{Schedule, Worker};

/// What is measured on a node, and how it stands.
#[derive(Debug)]
pub struct Board {
    /// Who reads.
    pub source: Source,
    /// The rung that the ladder stopped at.
    pub rung: Rung,
    /// How long readings live and reads may take.
    pub limits: Limits,
    /// Whether the sensors are simulated.
    pub is_simulated: bool,
    /// Counters of the exporter itself.
    pub health: Arc<Health>,
    sysfs: Sysfs,
    schedule: Schedule,
    cells: RwLock<Vec<Arc<Cell>>>,
    workers: Mutex<Vec<(String, Worker)>>,
}

impl Board {
    /// Starts a worker for every sensor that the ladder chose.
    pub fn start(
        chosen: Chosen,
        sysfs: Sysfs,
        interval: Duration,
        limits: Limits,
    ) -> io::Result<Arc<Self>> {
        let board = Self {
            source: chosen.source,
            rung: chosen.rung,
            limits,
            is_simulated: sysfs.is_simulated(),
            health: Arc::default(),
            sysfs,
            schedule: Schedule { origin: Instant::now(), interval },
            cells: RwLock::default(),
            workers: Mutex::default(),
        };
        board.reconcile(chosen.sensors)?;
        Ok(Arc::new(board))
    }

    /// The sensors, lost ones included, ordered by where they stand.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a whole socket's power is fresh now.
    pub fn is_ready(&self, now: Now) -> bool {
        self.cells().iter().any(|cell| {
            cell.sensor.kind.is_socket_power() && cell.judge(now, self.limits).watts.is_some()
        })
    }

    /// Discovers again, and follows what changed.
    pub fn rediscover(&self) -> io::Result<()> {
        // No sensor at all is a finding like any other: all are lost.
        let found = sources::discover(self.source, &self.sysfs).unwrap_or_default();
        self.reconcile(found)
    }

    /// Counts reads that have become overdue, and logs the first of a row.
    pub fn watch(&self, now: Now) {
        for cell in self.cells() {
            let Some(overdue) = cell.becomes_overdue(now, self.limits) else { continue };
            self.health.count(self.source, Failure::Timeout);
            if overdue == Overdue::First {
                warn!(
                    source = self.source.as_str(),
                    sensor = cell.sensor.id,
                    "a read has not come back within {:?}",
                    self.limits.read_deadline
                );
            }
        }
    }

    fn reconcile(&self, found: Vec<Sensor>) -> io::Result<()> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cells = self.cells();
        for change in changes(&cells, found) {
            match change {
                Change::Lose(place) => {
                    let cell = &cells[place];
                    cell.lose();
                    workers.retain(|(id, _)| *id != cell.sensor.id);
                    warn!(
                        source = self.source.as_str(),
                        sensor = cell.sensor.id,
                        "sensor vanished"
                    );
                }
                Change::Move(place, sensor) => {
                    let was = &cells[place].sensor.channel;
                    info!(
                        sensor = sensor.id,
                        was,
                        now = sensor.channel,
                        "sensor moved or came back"
                    );
                    workers.retain(|(id, _)| *id != sensor.id);
                    let cell = Arc::new(cells[place].moved_to(sensor));
                    workers.push((cell.sensor.id.clone(), self.worker(&cell)?));
                    cells[place] = cell;
                }
                Change::Add(sensor) => {
                    let cell = Arc::new(Cell::new(sensor));
                    workers.push((cell.sensor.id.clone(), self.worker(&cell)?));
                    cells.push(cell);
                }
            }
        }
        cells.sort_by(|a, b| a.sensor.channel.cmp(&b.sensor.channel));
        *self.cells.write().unwrap_or_else(PoisonError::into_inner) = cells;
        Ok(())
    }

    fn worker(&self, cell: &Arc<Cell>) -> io::Result<Worker> {
        let health = Arc::clone(&self.health);
        Worker::start(Arc::clone(cell), self.sysfs.clone(), health, self.schedule)
    }
}

/// What discovery changes.
#[derive(Debug, PartialEq)]
enum Change {
    /// The cell at this place is gone.
    Lose(usize),
    /// The cell at this place stands elsewhere, or is back.
    Move(usize, Sensor),
    /// A sensor that was never seen.
    Add(Sensor),
}

/// The changes from what is known to what was found, by identity.
fn changes(known: &[Arc<Cell>], found: Vec<Sensor>) -> Vec<Change> {
    let is_found = |cell: &Cell| found.iter().any(|sensor| sensor.id == cell.sensor.id);
    let mut changes: Vec<Change> = known
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.is_present() && !is_found(cell))
        .map(|(place, _)| Change::Lose(place))
        .collect();
    for sensor in found {
        match known.iter().position(|cell| cell.sensor.id == sensor.id) {
            None => changes.push(Change::Add(sensor)),
            Some(place) if known[place].sensor != sensor || !known[place].is_present() => {
                changes.push(Change::Move(place, sensor));
            }
            Some(_) => {}
        }
    }
    changes
}
