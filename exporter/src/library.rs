//! A C library and the one thread that owns it. What it reads is stored in cells, where age and hangs are judged
//! as for any other sensor; `rounds` is what the thread does.
//!
//! A call that blocks leaves this one thread behind and nothing else: no other thread ever waits for it,
//! and none is started in its place, because it would block on the same lock inside the library. When the
//! call returns, the thread goes on. What fails is opened again after a pause that doubles up to a minute.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::cell::{ASLEEP_MAX, Cell};
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::roster::Roster;
use crate::rounds::Rounds;
use crate::sensor::{Measure, Sensor, Source};
use crate::worker::{Schedule, Wishes};

/// How long a thread that is asked to end is waited for, so that it can release what it holds outside of
/// this process. One that is blocked is left behind.
const END_WAIT: Duration = Duration::from_millis(500);

/// A C library that can be opened again and again.
pub trait Library: Send + 'static {
    /// Loads and initialises it. May block.
    fn open(&mut self) -> Result<Box<dyn Session>, OpenError>;

    /// The devices that the machine itself shows now. A library that knows only those that were there when it was
    /// opened is opened anew for one that has come since.
    fn devices(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

/// A library that is open. Dropping it releases everything. It stays on the thread that opened it.
pub trait Session {
    /// The sensors that there are now, or why the library no longer serves. May block.
    fn discover(&mut self) -> Result<Found, String>;

    /// Reads these sensors once, each between its beginning and its end, by their places; or says why the library
    /// no longer serves. May block.
    fn read(&mut self, sensors: &[&Sensor], listener: &mut dyn Listener) -> Result<(), String>;

    /// Whether it has less than it may have when it is opened anew.
    fn is_reduced(&self) -> bool {
        false
    }

    /// Who answers behind the library, where there is a choice.
    fn engine(&self) -> Option<String> {
        None
    }
}

/// What an open library has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Sensors that can be told apart.
    pub sensors: Vec<Sensor>,
    /// Devices that are counted, and of which nobody tells which ones they are.
    pub refused: Vec<Refused>,
}

/// A device without a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What it goes by instead: `gpu3` for the one with that index.
    pub place: String,
    /// What the library says.
    pub reason: Failure,
}

/// Who is told of reads.
pub trait Listener {
    /// The read of the sensor at this place begins.
    fn begins(&mut self, place: usize);
    /// It is back.
    fn ends(&mut self, place: usize, reading: Reading);
}

/// What one read of one sensor gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Power, or a count of energy.
    pub measured: Result<Measure, Failure>,
    /// When it was true: the library's own time where it tells one, else the middle of the call.
    pub at: Now,
    /// How long before the host was booted that was.
    pub before_boot: Duration,
    /// How long the call took.
    pub took: Duration,
}

impl Reading {
    /// A value that a call gave. One during which the host slept was made on either side of the sleep, nobody knows
    /// which, and has no value.
    pub fn new(measured: Result<Measure, Failure>, started: Now, ended: Now) -> Self {
        let has_slept = ended.asleep_since(&started) > ASLEEP_MAX;
        Self {
            measured: if has_slept { Err(Failure::HostSuspended) } else { measured },
            at: if has_slept { ended } else { started.midpoint(&ended) },
            before_boot: Duration::ZERO,
            took: ended.awake_since(&started),
        }
    }
}

/// Why a library is not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no such library here.
    #[error("{0}")]
    Absent(String),
    /// It was named, and cannot be loaded.
    #[error("{0}")]
    Missing(String),
    /// It is here and does not serve.
    #[error("{0}")]
    Failed(String),
}

/// How a library stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Standing {
    /// It is being opened for the first time.
    #[default]
    Opening,
    /// It is open, and its sensors have been read.
    Open,
    /// There is none, and nobody named one.
    Absent(String),
    /// The one that was named cannot be loaded.
    Missing(String),
    /// It does not serve, with the reason.
    Down(String),
}

/// How a library stands, and what it is doing.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// How it stands.
    pub standing: Standing,
    /// Since when it has not come back to the schedule; nothing between two rounds.
    pub busy_since: Option<Now>,
    /// Devices that cannot be told apart.
    pub refused: Vec<Refused>,
    /// Who answers behind the library, where there is a choice.
    pub engine: Option<String>,
    /// Whether the thread has released it and ended.
    pub has_ended: bool,
}

impl Status {
    /// Whether it has been busy for longer than this.
    pub fn is_busy_for(&self, now: Now, limit: Duration) -> bool {
        self.busy_since.is_some_and(|since| now.since(&since) > limit)
    }
}

/// What the thread shares with everybody else.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) roster: Roster,
    status: Mutex<Status>,
    changed: Condvar,
    pub(crate) wishes: Wishes,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, Status> {
        // Every write under the lock is complete in itself, so a poisoned one is still whole.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status());
        self.changed.notify_all();
    }

    /// The status once it is as wanted, or as it stands when the time is over.
    fn wait(&self, limit: Duration, is_wanted: impl Fn(&Status) -> bool) -> Status {
        let wait = self.changed.wait_timeout_while(self.status(), limit, |s| !is_wanted(s));
        wait.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// The owner of a library's thread. Dropping it asks the thread to release the library and end.
#[derive(Debug)]
pub struct LibraryThread {
    /// Who reads.
    pub source: Source,
    shared: Arc<Shared>,
    thread: Thread,
}

impl LibraryThread {
    /// Starts the thread. Blocks for nothing.
    pub fn start(
        source: Source,
        library: impl Library,
        health: Arc<Health>,
        schedule: Schedule,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let rounds = Rounds::new(source, library, Arc::clone(&shared), health, schedule);
        let name = source.as_str().to_owned();
        let handle = thread::Builder::new().name(name).spawn(move || rounds.run())?;
        Ok(Self { source, shared, thread: handle.thread().clone() })
    }

    /// The sensors, lost ones included.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.shared.roster.cells()
    }

    /// How the library stands now.
    pub fn status(&self) -> Status {
        self.shared.status().clone()
    }

    /// How the library stands once the first attempt to open it is over, or when the time is.
    pub fn first_attempt(&self, limit: Duration) -> Standing {
        self.shared.wait(limit, |status| status.standing != Standing::Opening).standing
    }

    /// Ends every pause: that of a library that does not serve, and those of sensors that have failed for long.
    pub fn read_now(&self) {
        self.shared.wishes.read_now.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl Drop for LibraryThread {
    fn drop(&mut self) {
        self.shared.wishes.stop.store(true, Ordering::Release);
        self.thread.unpark();
        self.shared.wait(END_WAIT, |status| status.has_ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_the_host_slept_through_has_no_value() {
        let at = |awake_s: u64, slept_s: u64| {
            let monotonic = Duration::from_secs(awake_s);
            let boot = monotonic + Duration::from_secs(slept_s);
            Now { wall_s: boot.as_secs_f64(), monotonic, boot }
        };
        let reading = Reading::new(Ok(Measure::Watts(5.0)), at(10, 0), at(12, 0));
        assert_eq!(
            (reading.measured, reading.at, reading.took.as_secs()),
            (Ok(Measure::Watts(5.0)), at(11, 0), 2)
        );
        let reading = Reading::new(Ok(Measure::Watts(5.0)), at(10, 0), at(12, 3600));
        let expected = (Err(Failure::HostSuspended), at(12, 3600), 2);
        assert_eq!((reading.measured, reading.at, reading.took.as_secs()), expected);
    }
}
