//! One thread that owns a C library: it initialises, finds the sensors, reads them on the node's schedule
//! and stores what it read in cells, where age and hangs are judged as for any other sensor.
//!
//! A call that blocks leaves this one thread behind and nothing else: no other thread ever waits for it,
//! and none is started in its place, because it would block on the same lock inside the library. When the
//! call returns, the thread goes on. What fails is opened again after a pause that doubles up to a minute.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::cell::Cell;
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::roster::Roster;
use crate::sensor::{Measure, Sensor, Source};
use crate::worker::{Schedule, Wishes, backoff};

/// How often an open library is asked which devices there are.
const REDISCOVER_EVERY: Duration = Duration::from_secs(10);

/// Reading a whole node takes milliseconds through NVML, and up to a second through DCGM. What took longer is of
/// nobody knows which moment in between, and may be too old before the next read comes: it is read once more.
const LATE: Duration = Duration::from_secs(2);

/// How long a thread that is asked to end is waited for, so that it can release what it holds outside of
/// this process. One that is blocked is left behind.
const END_WAIT: Duration = Duration::from_millis(500);

/// A C library that can be opened again and again.
pub trait Library: Send + 'static {
    /// Loads and initialises it. May block.
    fn open(&mut self) -> Result<Box<dyn Session>, OpenError>;
}

/// A library that is open. Dropping it releases everything. It stays on the thread that opened it.
pub trait Session {
    /// The sensors that there are now, or why the library no longer serves. May block.
    fn discover(&mut self) -> Result<Vec<Sensor>, String>;

    /// Reads these sensors once and answers in their order, or says why the library no longer serves. May
    /// block.
    fn read(&mut self, sensors: &[&Sensor]) -> Result<Vec<Reading>, String>;
}

/// What one read of one sensor gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Power in watts.
    pub watts: Result<f64, Failure>,
    /// When it was true: the library's own time where it tells one, else the middle of the call.
    pub at: Now,
    /// How long the call took.
    pub took: Duration,
}

/// Why a library is not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no such library here.
    #[error("{0}")]
    Absent(String),
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
    /// There is none.
    Absent(String),
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
struct Shared {
    roster: Roster,
    status: Mutex<Status>,
    changed: Condvar,
    wishes: Wishes,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, Status> {
        // Every write under the lock is complete in itself, so a poisoned one is still whole.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
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
        let rounds = Rounds {
            source,
            library: Box::new(library),
            shared: Arc::clone(&shared),
            health,
            schedule,
            rediscover_at: None,
            down: Pause::default(),
            lost: Pause::default(),
            pauses: HashMap::new(),
        };
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
}

impl LibraryThread {
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

/// A pause that grows with failures in a row.
#[derive(Debug, Default)]
struct Pause {
    failures: u32,
    until: Option<Instant>,
}

impl Pause {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    fn take(&mut self, failed: bool, interval: Duration) {
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        // Measured from now, so that a library that was blocked is not asked for what it missed.
        self.until = failed.then(|| Instant::now() + backoff(interval, self.failures));
    }
}

/// What the thread does, round by round.
struct Rounds {
    source: Source,
    library: Box<dyn Library>,
    shared: Arc<Shared>,
    health: Arc<Health>,
    schedule: Schedule,
    rediscover_at: Option<Instant>,
    /// Until when a library that does not serve is left alone.
    down: Pause,
    /// Until when one that lost a device is not opened anew.
    lost: Pause,
    /// Sensors that fail are asked less and less often.
    pauses: HashMap<String, Pause>,
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Rounds {
    fn run(mut self) {
        let mut session = None;
        while !self.shared.wishes.stop.load(Ordering::Acquire) {
            if session.is_some() || self.down.is_over(Instant::now()) {
                self.shared.change(|status| status.busy_since = Some(Now::read()));
                let round = self.round(session.take());
                let standing = match round {
                    Ok(open) => {
                        session = open;
                        Standing::Open
                    }
                    Err(error) => self.close(error),
                };
                self.shared.change(|status| {
                    status.standing = standing;
                    status.busy_since = None;
                });
            }
            let next = self.schedule.next(Instant::now(), Duration::ZERO);
            if self.shared.wishes.wait_until(next) {
                self.down.until = None;
                self.pauses.values_mut().for_each(|pause| pause.until = None);
            }
        }
        drop(session);
        drop(self.library);
        self.shared.change(|status| status.has_ended = true);
    }

    /// Opens the library if need be and reads it once. Gives back the session, or nothing where the
    /// library is to be opened anew in the next round.
    fn round(
        &mut self,
        session: Option<Box<dyn Session>>,
    ) -> Result<Option<Box<dyn Session>>, OpenError> {
        let mut session = match session {
            Some(session) => session,
            None => {
                self.rediscover_at = None;
                self.library.open()?
            }
        };
        let began = Instant::now();
        self.read(session.as_mut()).map_err(OpenError::Failed)?;
        if began.elapsed() > LATE {
            self.read(session.as_mut()).map_err(OpenError::Failed)?;
        }
        // A device that fell off its bus comes back to a library that is initialised anew, if at all.
        let is_lost = |cell: &Arc<Cell>| !cell.is_present() || cell.is_gone();
        let has_lost = self.shared.roster.cells().iter().any(is_lost);
        self.down = Pause::default();
        if !has_lost {
            self.lost = Pause::default();
        } else if self.lost.is_over(Instant::now()) {
            self.lost.take(true, self.schedule.interval);
            return Ok(None);
        }
        Ok(Some(session))
    }

    fn read(&mut self, session: &mut dyn Session) -> Result<(), String> {
        if self.rediscover_at.is_none_or(|at| at <= Instant::now()) {
            self.shared.roster.reconcile(session.discover()?);
            self.rediscover_at = Some(Instant::now() + REDISCOVER_EVERY);
        }
        let now = Instant::now();
        let mut cells = self.shared.roster.cells();
        cells.retain(|cell| {
            cell.is_present() && self.pauses.get(&cell.sensor.id).is_none_or(|p| p.is_over(now))
        });
        let started = Now::read();
        for cell in &cells {
            cell.begin(started);
        }
        let sensors: Vec<&Sensor> = cells.iter().map(|cell| &cell.sensor).collect();
        let readings = session.read(&sensors)?;
        for (cell, reading) in cells.iter().zip(readings) {
            let outcome = cell.finish(reading.watts.map(Measure::Watts), reading.at);
            self.health.record(self.source, reading.took, outcome);
            let pause = self.pauses.entry(cell.sensor.id.clone()).or_default();
            pause.take(outcome.is_err(), self.schedule.interval);
        }
        Ok(())
    }

    /// The library does not serve: neither do its sensors.
    fn close(&mut self, error: OpenError) -> Standing {
        self.down.take(true, self.schedule.interval);
        self.pauses.clear();
        self.health.count(self.source, Failure::Disconnected);
        let now = Now::read();
        for cell in self.shared.roster.cells() {
            // What it means is what it is: the cell only stores it.
            let _ = cell.finish(Err(Failure::Disconnected), now);
        }
        match error {
            OpenError::Absent(reason) => Standing::Absent(reason),
            OpenError::Failed(reason) => Standing::Down(reason),
        }
    }
}
