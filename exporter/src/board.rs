//! What is measured on a node and how it stands: the source of its CPUs, which is replaced when it dies for
//! good, and its accelerators beside it.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tracing::{info, warn};

use crate::accelerator::counters::Counters;
use crate::accelerator::reader::Reading;
use crate::accelerator::watched::Accelerators;
use crate::base::Base;
use crate::cell::{Cell, Limits, Overdue, Verdict};
use crate::clock::Now;
use crate::decline::{Decline, Patience, Sign, Step};
use crate::failure::Failure;
use crate::health::Health;
use crate::instance::InstanceId;
use crate::ladder::{Chosen, DCGM_DEADLINE, Ground, climb};
use crate::library::LibraryThread;
use crate::module::modules;
use crate::sensor::Source;
use crate::twins::{TwinWatch, Twins};
use crate::vigil::{Said, Seen, Vigil};
use wattscribe_rules::State;

/// What is measured on a node.
#[derive(Debug)]
pub struct Board {
    /// How long readings live and reads may take.
    pub limits: Limits,
    /// Whether the sensors are simulated.
    pub is_simulated: bool,
    /// Which exporter this is.
    pub instance: InstanceId,
    ground: Ground,
    base: RwLock<Arc<Base>>,
    nvml: Option<LibraryThread>,
    accelerators: Accelerators,
    watching: Mutex<Watching>,
    counters: Counters,
    /// On its own, so that a page never waits for a log that nobody reads.
    twins: Mutex<TwinWatch>,
    decline: Mutex<Decline>,
    /// Of which source it was said that there is no other.
    irreplaceable: Mutex<Option<Source>>,
}

/// What the watch remembers.
#[derive(Debug, Default)]
struct Watching {
    of_base: Vigil,
    of_nvml: Vigil,
    /// Of which source it was said that discovery is held back.
    undiscovered: Option<Source>,
}

impl Board {
    /// Starts reading what the ladder chose, and the accelerators. `nvml` is the thread of that library, if it is to be
    /// read. Without anything chosen there are accelerators alone.
    pub fn start(
        chosen: Option<Chosen>,
        ground: Ground,
        nvml: Option<LibraryThread>,
        limits: Limits,
    ) -> io::Result<Arc<Self>> {
        let base = match chosen {
            Some(chosen) => Base::start(chosen, &ground)?,
            None => Base::absent(),
        };
        let accelerators = Accelerators::new(Reading {
            sysfs: ground.sysfs.clone(),
            health: Arc::clone(&ground.health),
            schedule: ground.schedule,
            allow_wake: ground.allow_wake,
        });
        let board = Arc::new(Self {
            limits,
            is_simulated: ground.sysfs.is_simulated(),
            instance: InstanceId::random(),
            ground,
            base: RwLock::new(Arc::new(base)),
            nvml,
            accelerators,
            watching: Mutex::default(),
            counters: Counters::default(),
            twins: Mutex::default(),
            decline: Mutex::new(Decline::new(Now::read())),
            irreplaceable: Mutex::default(),
        });
        board.rediscover_accelerators()?;
        Ok(board)
    }

    /// The source that the CPUs are measured with now.
    pub fn base(&self) -> Arc<Base> {
        Arc::clone(&self.base.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The library of GPUs.
    pub fn nvml(&self) -> Option<&LibraryThread> {
        self.nvml.as_ref()
    }

    /// The accelerators.
    pub fn accelerators(&self) -> &Accelerators {
        &self.accelerators
    }

    /// The counters of accelerators.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Looks for accelerators that came, went or got another driver. Where a file holds that back, all stays as it was.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn rediscover_accelerators(&self) -> io::Result<()> {
        match self.ground.discover_accelerators(self.ground.deadline) {
            Some(Ok(found)) => self.accelerators.reconcile(found),
            // A listing that failed says nothing of any device.
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Counters of the exporter itself.
    pub fn health(&self) -> &Health {
        &self.ground.health
    }

    /// The sensors of the CPUs, lost ones included, ordered by where they stand.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.base().cells()
    }

    /// Sockets that read one number, as the watch found them last.
    pub fn twins(&self) -> Vec<Twins> {
        self.twins.lock().unwrap_or_else(PoisonError::into_inner).found()
    }

    /// Whether there is what readiness asks for: a whole socket's power, or on a node whose CPUs nothing measures the
    /// power of an accelerator, or one that sleeps.
    pub fn is_ready(&self, now: Now) -> bool {
        if self.base().source().is_some() {
            return self.has_socket_power(now);
        }
        let live = self.accelerators.live();
        let cells = live.iter().map(|accelerator| Arc::clone(&accelerator.power));
        let gpus = self.nvml.iter().flat_map(LibraryThread::cells);
        cells
            .chain(gpus)
            .any(|cell| matches!(cell.judge(now, self.limits).state, State::Ok | State::Suspended))
    }

    fn has_socket_power(&self, now: Now) -> bool {
        self.cells().iter().any(|cell| {
            cell.sensor.kind.is_socket_power() && cell.judge(now, self.limits).watts.is_some()
        })
    }

    /// Discovers again, and follows what changed.
    pub fn rediscover(&self) -> io::Result<()> {
        self.base().rediscover(&self.ground)
    }

    /// Looks for another source once the present one has given no socket's power for `dead_after`, and none when
    /// it was asked once more. Its series end where those of the other begin: they have other names, because they
    /// mean other things.
    pub fn reconsider(&self, now: Now, dead_after: Duration) -> io::Result<()> {
        let base = self.base();
        let Some(source) = base.source() else { return Ok(()) };
        let sign = match base.library() {
            _ if self.has_socket_power(now) => Sign::Alive,
            Some(library) if library.status().busy_since.is_some() => Sign::Trying,
            _ => Sign::Silent,
        };
        let answer = self.limits.read_deadline + 2 * self.ground.schedule.interval;
        let patience = Patience { dead_after, answer, trying: DCGM_DEADLINE.max(answer) };
        let mut decline = self.decline.lock().unwrap_or_else(PoisonError::into_inner);
        let step = decline.look(sign, now, patience);
        drop(decline);
        let mut irreplaceable = self.irreplaceable.lock().unwrap_or_else(PoisonError::into_inner);
        if sign == Sign::Alive {
            *irreplaceable = None;
        }
        match step {
            Step::Wait => Ok(()),
            Step::AskOnceMore => {
                base.read_now();
                Ok(())
            }
            Step::Leave => self.replace(source, dead_after, &mut irreplaceable),
        }
    }

    fn replace(
        &self,
        before: Source,
        dead_after: Duration,
        told: &mut Option<Source>,
    ) -> io::Result<()> {
        let was = before.as_str();
        let chosen = match climb(&self.ground, Some(before)) {
            Ok(chosen) => chosen,
            Err(reasons) => {
                if told.replace(before) != Some(before) {
                    let source = was;
                    warn!(
                        source,
                        "no socket was read for {dead_after:?}, and nothing else: {reasons}"
                    );
                }
                return Ok(());
            }
        };
        // The climb took its time: what has come back meanwhile stays.
        if self.has_socket_power(Now::read()) {
            return Ok(());
        }
        let (is, rung) = (chosen.rung().source().as_str(), chosen.rung().as_str());
        let base = Arc::new(Base::start(chosen, &self.ground)?);
        warn!(was, is, rung, "no socket was read for {dead_after:?}: another source is chosen");
        let mut place = self.base.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *place, base);
        drop(place);
        drop(before); // it may have a library to release, and no reader waits for that
        *told = None;
        Ok(())
    }

    /// Whether a file holds discovery back.
    pub fn is_discovery_overdue(&self, base: &Base, now: Now) -> bool {
        base.is_discovery_overdue(&self.ground, now)
    }

    /// Counts reads that have become overdue, and logs what begins and what ends.
    pub fn watch(&self, now: Now) {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let base = self.base();
        match base.library() {
            None => {
                self.watch_files(&base.cells(), now);
                self.watch_discovery(&base, &mut watching.undiscovered, now);
            }
            Some(library) => self.watch_library(library, &mut watching.of_base, now),
        }
        for accelerator in self.accelerators.live() {
            self.watch_files(&accelerator.cells(), now);
        }
        self.watch_counters(now);
        self.watch_twins(&base, now);
        let Some(nvml) = &self.nvml else { return };
        self.watch_library(nvml, &mut watching.of_nvml, now);
        let sockets = base.cells().iter().filter_map(|cell| cell.sensor.socket).collect();
        self.watch_sockets(nvml, &mut watching.of_nvml, &sockets, now);
    }

    fn watch_files<'a>(&self, cells: impl IntoIterator<Item = &'a Arc<Cell>>, now: Now) {
        for cell in cells {
            let Some(overdue) = cell.becomes_overdue(now, self.limits) else { continue };
            let sensor = &cell.sensor;
            self.health().count(sensor.source, Failure::Timeout);
            if overdue == Overdue::First {
                warn!(
                    source = sensor.source.as_str(),
                    sensor = sensor.id,
                    "a read has not come back within {:?}",
                    self.limits.read_deadline
                );
            }
        }
    }

    /// Compares what accelerators count with what their power adds up to.
    fn watch_counters(&self, now: Now) {
        let files = self.accelerators.live();
        let of_files = files.iter().flat_map(|accelerator| accelerator.cells());
        let of_gpus = self.nvml.iter().flat_map(LibraryThread::cells);
        let cells: Vec<_> = of_files.chain(of_gpus).collect();
        self.counters.look(&cells, now, self.limits, self.ground.schedule.interval);
    }

    fn watch_discovery(&self, base: &Base, told: &mut Option<Source>, now: Now) {
        let Some(source) = base.source() else { return };
        let is_overdue = self.is_discovery_overdue(base, now);
        if is_overdue == (*told == Some(source)) {
            return;
        }
        *told = is_overdue.then_some(source);
        if is_overdue {
            self.health().count(source, Failure::Timeout);
        }
        let source = source.as_str();
        if is_overdue {
            warn!(source, "a file holds discovery back: sensors that come or move are not seen");
        } else {
            info!(source, "discovery is back");
        }
    }

    fn watch_library(&self, library: &LibraryThread, vigil: &mut Vigil, now: Now) {
        // Before the verdicts: what is judged afterwards was read under this status or a later one.
        let status = library.status();
        let cells = library.cells();
        for cell in &cells {
            if cell.becomes_overdue(now, self.limits).is_some() {
                self.health().count(library.source, Failure::Timeout);
            }
        }
        let verdicts = self.verdicts(&cells, now);
        let seen = seen(&cells, &verdicts);
        let modules = modules(seen.iter().copied());
        say(library.source, vigil.look(library.source, &status, &seen, &modules, now, self.limits));
    }

    fn watch_twins(&self, base: &Base, now: Now) {
        let cells = base.cells();
        let verdicts = self.verdicts(&cells, now);
        let mut twins = self.twins.lock().unwrap_or_else(PoisonError::into_inner);
        let said = twins.look(&seen(&cells, &verdicts));
        drop(twins);
        if let Some(source) = base.source() {
            say(source, said);
        }
    }

    fn watch_sockets(
        &self,
        library: &LibraryThread,
        vigil: &mut Vigil,
        cpu_sockets: &BTreeSet<u32>,
        now: Now,
    ) {
        let cells = library.cells();
        let verdicts = self.verdicts(&cells, now);
        say(library.source, vigil.look_at_sockets(&seen(&cells, &verdicts), cpu_sockets));
    }

    fn verdicts(&self, cells: &[Arc<Cell>], now: Now) -> Vec<Verdict> {
        cells.iter().map(|cell| cell.judge(now, self.limits)).collect()
    }
}

fn seen<'a>(cells: &'a [Arc<Cell>], verdicts: &'a [Verdict]) -> Vec<Seen<'a>> {
    cells.iter().map(|cell| &cell.sensor).zip(verdicts).collect()
}

fn say(source: Source, said: Vec<Said>) {
    let source = source.as_str();
    for said in said {
        match said {
            Said::Warn(text) => warn!(source, "{text}"),
            Said::Info(text) => info!(source, "{text}"),
        }
    }
}
