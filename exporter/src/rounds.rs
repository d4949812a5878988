//! What the thread of a library does, round by round: it opens the library, finds the sensors, reads each once and
//! stores what it read.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::cell::Cell;
use crate::clock::Now;
use crate::failure::Failure;
use crate::health::Health;
use crate::library::{Library, Listener, OpenError, Reading, Session, Shared, Standing};
use crate::reopening::Reopening;
use crate::sensor::{Sensor, Source};
use crate::worker::{Schedule, backoff};

/// How often an open library is asked which devices there are.
const REDISCOVER_EVERY: Duration = Duration::from_secs(10);

/// Reading a whole node takes milliseconds through NVML, and up to a second through DCGM. What took longer is of
/// nobody knows which moment in between, and may be too old before the next read comes: it is read once more.
const LATE: Duration = Duration::from_secs(2);

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

/// What the thread has.
pub(crate) struct Rounds {
    source: Source,
    library: Box<dyn Library>,
    shared: Arc<Shared>,
    health: Arc<Health>,
    schedule: Schedule,
    rediscover_at: Option<Instant>,
    /// Until when a library that does not serve is left alone.
    down: Pause,
    /// Sensors that fail are asked less and less often.
    pauses: HashMap<String, Pause>,
    reopening: Reopening,
    /// What the machine showed of devices as the library was opened.
    devices: BTreeSet<String>,
    /// How many devices the library had when it was asked last.
    count: Option<usize>,
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Rounds {
    pub(crate) fn new(
        source: Source,
        library: impl Library,
        shared: Arc<Shared>,
        health: Arc<Health>,
        schedule: Schedule,
    ) -> Self {
        Self {
            source,
            library: Box::new(library),
            shared,
            health,
            schedule,
            rediscover_at: None,
            down: Pause::default(),
            pauses: HashMap::new(),
            reopening: Reopening::default(),
            devices: BTreeSet::new(),
            count: None,
        }
    }

    /// Rounds until the thread is asked to end.
    pub(crate) fn run(mut self) {
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
                self.devices = self.library.devices();
                self.library.open()?
            }
        };
        let began = Instant::now();
        let has_new = self.read(session.as_mut()).map_err(OpenError::Failed)?;
        if began.elapsed() > LATE {
            self.read(session.as_mut()).map_err(OpenError::Failed)?;
        }
        self.down = Pause::default();
        // A device that fell off its bus comes back to a library that is initialised anew, if at all. One that the
        // library no longer lists is gone in good order, and nothing is to be had by asking again.
        let is_lost = |cell: &Arc<Cell>| cell.is_present() && cell.is_gone();
        let is_missing = session.is_reduced() || self.shared.roster.cells().iter().any(is_lost);
        let is_due = self.reopening.is_due(is_missing, Instant::now());
        Ok((!has_new && !is_due).then_some(session))
    }

    /// Reads what is not paused. Whether the machine shows a device that the library cannot know yet.
    fn read(&mut self, session: &mut dyn Session) -> Result<bool, String> {
        let mut has_new = false;
        if self.rediscover_at.is_none_or(|at| at <= Instant::now()) {
            self.discover(session)?;
            has_new = !self.library.devices().is_subset(&self.devices);
            self.rediscover_at = Some(Instant::now() + REDISCOVER_EVERY);
        }
        let now = Instant::now();
        let mut cells = self.shared.roster.cells();
        cells.retain(|cell| {
            cell.is_present() && self.pauses.get(&cell.sensor.id).is_none_or(|p| p.is_over(now))
        });
        let sensors: Vec<&Sensor> = cells.iter().map(|cell| &cell.sensor).collect();
        session.read(&sensors, &mut Storing { rounds: self, cells: &cells })?;
        Ok(has_new)
    }

    fn discover(&mut self, session: &mut dyn Session) -> Result<(), String> {
        let found = session.discover()?;
        for refused in &found.refused {
            self.health.count(self.source, refused.reason);
        }
        let count = found.sensors.len() + found.refused.len();
        if self.count.replace(count).is_some_and(|before| before != count) {
            self.reopening = Reopening::default();
        }
        self.shared.roster.reconcile(found.sensors, Now::read());
        let cells = self.shared.roster.cells();
        self.pauses.retain(|id, _| cells.iter().any(|cell| cell.sensor.id == *id));
        self.shared.change(|status| {
            status.refused = found.refused;
            status.engine = session.engine();
        });
        Ok(())
    }

    /// The library does not serve: neither do its sensors.
    fn close(&mut self, error: OpenError) -> Standing {
        self.down.take(true, self.schedule.interval);
        self.pauses.clear();
        self.reopening = Reopening::default();
        self.health.count(self.source, Failure::Disconnected);
        let now = Now::read();
        for cell in self.shared.roster.cells() {
            // What it means is what it is: the cell only stores it.
            let _ = cell.finish(Err(Failure::Disconnected), now);
        }
        self.shared.change(|status| {
            status.refused.clear();
            status.engine = None;
        });
        match error {
            OpenError::Absent(reason) => Standing::Absent(reason),
            OpenError::Missing(reason) => Standing::Missing(reason),
            OpenError::Failed(reason) => Standing::Down(reason),
        }
    }
}

/// Stores each reading as it comes: a device that answers slowly makes no other one look late.
struct Storing<'r> {
    rounds: &'r mut Rounds,
    cells: &'r [Arc<Cell>],
}

impl Listener for Storing<'_> {
    fn begins(&mut self, place: usize) {
        if let Some(cell) = self.cells.get(place) {
            cell.begin(Now::read());
        }
    }

    fn ends(&mut self, place: usize, reading: Reading) {
        let Some(cell) = self.cells.get(place) else { return };
        let Reading { measured, at, before_boot, took } = reading;
        let outcome = cell.finish_dated(measured, at, before_boot);
        self.rounds.health.record(self.rounds.source, took, outcome);
        let is_failed = outcome.is_err_and(Failure::is_of_the_sensor);
        let pause = self.rounds.pauses.entry(cell.sensor.id.clone()).or_default();
        pause.take(is_failed, self.rounds.schedule.interval);
    }
}
