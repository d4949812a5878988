//! Machines that live on the real clock: one thread refreshes their files, tests break them and ask for the truth.
//!
//! A file is at most [`UPDATE_PERIOD`] old, plus what the scheduler adds. Time is read from the monotonic
//! clock, set once by the wall clock when the simulation starts: a counter does not run backwards when
//! the wall clock is set, and the truth is in the wall clock of that moment.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{Fault, Machine, SimulatorError, Tree};

/// How often the files are brought up to date: five times within the 50 ms over which Grace averages.
pub const UPDATE_PERIOD: Duration = Duration::from_millis(10);

/// Running machines. They stop, and readers that hang are let go, when this is dropped.
#[derive(Debug)]
pub struct Simulation {
    trees: Arc<Mutex<Vec<Tree>>>,
    machines: Vec<(Machine, PathBuf)>,
    clock: Clock,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), SimulatorError>>>,
}

/// Seconds since the epoch, for this process and for the truth.
#[derive(Debug, Clone, Copy)]
struct Clock {
    started: Instant,
    started_s: f64,
    epoch_unix_s: f64,
}

impl Simulation {
    /// Makes each machine's sysfs at `root/<name>` and starts to refresh it. The files are there, with
    /// their first readings, when this returns. A `root` in memory (`/dev/shm`) costs least.
    ///
    /// # Errors
    /// As [`Tree::build`], and [`SimulatorError::Thread`].
    pub fn start(
        root: &Path,
        machines: &[Machine],
        epoch: SystemTime,
    ) -> Result<Simulation, SimulatorError> {
        let clock = Clock::starting_now(epoch);
        let build =
            |machine: &Machine| Tree::build(machine, &root.join(&machine.name), clock.now_s());
        let trees = machines.iter().map(build).collect::<Result<Vec<Tree>, _>>()?;
        let machines = trees.iter().map(|t| (t.machine().clone(), t.root().to_owned())).collect();
        let trees = Arc::new(Mutex::new(trees));
        let (stop, stopped) = channel();
        let refreshed = Arc::clone(&trees);
        let thread = thread::Builder::new()
            .name("simulation".into())
            .spawn(move || refresh_until(&stopped, &refreshed, clock))
            .map_err(SimulatorError::Thread)?;
        Ok(Simulation { trees, machines, clock, stop: Some(stop), thread: Some(thread) })
    }

    /// The sysfs root of a node.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`].
    pub fn sysfs_root(&self, node: &str) -> Result<&Path, SimulatorError> {
        self.node(node).map(|(_, root)| root.as_path())
    }

    /// The epoch of the waveforms, in seconds since 1970.
    pub fn epoch_unix_s(&self) -> f64 {
        self.clock.epoch_unix_s
    }

    /// True energy of a whole socket between two wall-clock times, in joules.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`] node or socket.
    pub fn truth(
        &self,
        node: &str,
        socket: u32,
        start_unix_s: f64,
        end_unix_s: f64,
    ) -> Result<f64, SimulatorError> {
        let (start_s, end_s) =
            (self.clock.since_epoch_s(start_unix_s), self.clock.since_epoch_s(end_unix_s));
        let joules = self.node(node)?.0.socket_joules(socket, start_s, end_s);
        joules.ok_or_else(|| unknown(&format!("machine {node:?}"), "socket", &socket.to_string()))
    }

    /// True energy of one sensor between two wall-clock times, in joules.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`] node or sensor.
    pub fn sensor_truth(
        &self,
        node: &str,
        sensor: &str,
        start_unix_s: f64,
        end_unix_s: f64,
    ) -> Result<f64, SimulatorError> {
        let (start_s, end_s) =
            (self.clock.since_epoch_s(start_unix_s), self.clock.since_epoch_s(end_unix_s));
        let found = self.node(node)?.0.sensors().into_iter().find(|known| known.id == sensor);
        let joules = found.map(|known| known.waveform.joules(start_s, end_s));
        joules.ok_or_else(|| unknown(&format!("machine {node:?}"), "sensor", sensor))
    }

    /// Path of the file that holds the reading of a sensor.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`].
    pub fn reading_file(&self, node: &str, sensor: &str) -> Result<PathBuf, SimulatorError> {
        self.with(node, |tree, _| tree.reading_file(sensor))
    }

    /// Gives a sensor a fault until it is healed.
    ///
    /// # Errors
    /// As [`Tree::fail`].
    pub fn fail(&self, node: &str, sensor: &str, fault: Fault) -> Result<(), SimulatorError> {
        self.with(node, |tree, t_s| tree.fail(sensor, fault, t_s))
    }

    /// Takes the fault of a sensor away; its reading is up to date when this returns.
    ///
    /// # Errors
    /// As [`Tree::heal`].
    pub fn heal(&self, node: &str, sensor: &str) -> Result<(), SimulatorError> {
        self.with(node, |tree, t_s| tree.heal(sensor, t_s))
    }

    /// Replaces the text of another attribute beside a sensor's reading.
    ///
    /// # Errors
    /// As [`Tree::set_attribute`].
    pub fn set_attribute(
        &self,
        node: &str,
        sensor: &str,
        attribute: &str,
        text: &str,
    ) -> Result<(), SimulatorError> {
        self.with(node, |tree, _| tree.set_attribute(sensor, attribute, text))
    }

    /// Starts the energy counter of a sensor again from 0.
    ///
    /// # Errors
    /// As [`Tree::reset_counter`].
    pub fn reset_counter(&self, node: &str, sensor: &str) -> Result<(), SimulatorError> {
        self.with(node, |tree, t_s| tree.reset_counter(sensor, t_s))
    }

    /// Moves every hwmon node of a machine to another number.
    ///
    /// # Errors
    /// As [`Tree::renumber_hwmon`].
    pub fn renumber_hwmon(&self, node: &str) -> Result<(), SimulatorError> {
        self.with(node, |tree, _| tree.renumber_hwmon())
    }

    /// Whether refreshing has ended by itself, which is always an error; [`Simulation::stop`] says which.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops, and says whether the files were refreshed to the end.
    ///
    /// # Errors
    /// The error at which refreshing ended; [`SimulatorError::Panicked`].
    pub fn stop(mut self) -> Result<(), SimulatorError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), SimulatorError> {
        self.stop = None; // the thread sees its channel close
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(ended) => ended.unwrap_or(Err(SimulatorError::Panicked)),
        }
    }

    fn node(&self, name: &str) -> Result<&(Machine, PathBuf), SimulatorError> {
        let found = self.machines.iter().find(|(machine, _)| machine.name == name);
        found.ok_or_else(|| unknown("the simulation", "machine", name))
    }

    fn with<T>(
        &self,
        node: &str,
        change: impl FnOnce(&mut Tree, f64) -> Result<T, SimulatorError>,
    ) -> Result<T, SimulatorError> {
        let mut trees = lock(&self.trees);
        let tree = trees.iter_mut().find(|tree| tree.machine().name == node);
        change(tree.ok_or_else(|| unknown("the simulation", "machine", node))?, self.clock.now_s())
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Whoever wants to know how refreshing ended calls `stop`; drop cannot report it.
        let _ = self.join();
    }
}

impl Clock {
    fn starting_now(epoch: SystemTime) -> Clock {
        let started_unix_s = unix_s(SystemTime::now());
        let epoch_unix_s = unix_s(epoch);
        Clock { started: Instant::now(), started_s: started_unix_s - epoch_unix_s, epoch_unix_s }
    }

    fn now_s(&self) -> f64 {
        self.started_s + self.started.elapsed().as_secs_f64()
    }

    fn since_epoch_s(&self, at_unix_s: f64) -> f64 {
        at_unix_s - self.epoch_unix_s
    }
}

/// Refreshes at every multiple of the period since the start until the sender is gone. A tick that comes
/// late does not move the ones after it, and ticks that were missed are not made up for.
fn refresh_until(
    stopped: &Receiver<()>,
    trees: &Mutex<Vec<Tree>>,
    clock: Clock,
) -> Result<(), SimulatorError> {
    let period_ns = UPDATE_PERIOD.as_nanos();
    loop {
        let into_period_ns = clock.started.elapsed().as_nanos() % period_ns;
        let wait = Duration::from_nanos((period_ns - into_period_ns) as u64); // at most one period
        match stopped.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        lock(trees).iter_mut().try_for_each(|tree| tree.refresh(clock.now_s()))?;
    }
}

/// A tree is whole between any two of its methods' calls, so a panic elsewhere does not spoil it.
fn lock(trees: &Mutex<Vec<Tree>>) -> MutexGuard<'_, Vec<Tree>> {
    trees.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(place: &str, kind: &'static str, name: &str) -> SimulatorError {
    SimulatorError::Unknown { place: place.into(), kind, name: name.into() }
}

fn unix_s(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}
