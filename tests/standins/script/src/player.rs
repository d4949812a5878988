//! A call of a library, played as the script says: logged, blocked, failed, or answered by the library's own state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Line, append};
use crate::source::Source;
use crate::{Behaviour, Block, Calls, Code, ScriptError};

/// How often a call that waits for the script to change looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The script of a library.
pub trait Script: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its return codes.
    type Code: Code;
    /// The environment variable that names the script.
    const VARIABLE: &'static str;
    /// The file name of the library that is built.
    const LIBRARY: &'static str;
    /// What every call returns while the script cannot be read.
    const BROKEN: Self::Code;
    /// The symbols that a script may have misbehave.
    const SYMBOLS: &'static [&'static str];

    /// Where calls are logged.
    fn log(&self) -> Option<&Path>;

    /// Says where calls are to be logged.
    fn set_log(&mut self, path: PathBuf);

    /// All misbehaviour of the script.
    fn calls(&self) -> Vec<&Calls<Self::Code>>;

    /// How a symbol misbehaves when it is asked of a subject, such as a device.
    fn behaviour(&self, symbol: &str, subject: Option<&str>) -> Option<Behaviour<Self::Code>>;
}

/// The script at the moment at which a call is answered.
#[derive(Debug)]
pub struct Scene<S> {
    /// What it says.
    pub script: Arc<S>,
    /// Seconds since the library was first called, by the monotonic clock.
    pub seconds: f64,
    /// Microseconds since 1970.
    pub unix_us: i64,
}

/// Symbol and subject of a misbehaviour, with how often it was asked for since it was written so.
type Counts<C> = BTreeMap<(&'static str, Option<String>), (Behaviour<C>, u64)>;

/// Plays the calls of one loaded library.
#[derive(Debug)]
pub struct Player<S: Script> {
    source: Source<S>,
    began: Instant,
    calls: AtomicU64,
    counts: Mutex<Counts<S::Code>>,
}

impl<S: Script> Player<S> {
    /// The player of the library that has `address` in its code. To be made at the library's first call.
    pub fn new(address: usize) -> Self {
        Self {
            source: Source::of(address),
            began: Instant::now(),
            calls: AtomicU64::new(0),
            counts: Mutex::default(),
        }
    }

    /// Plays a call: `answer` is asked unless the script has the call fail, and says what the call hands out, for the
    /// log. No lock is held while a call blocks.
    pub fn call(
        &self,
        symbol: &'static str,
        subject: Option<&str>,
        args: Value,
        answer: impl FnOnce(&Scene<S>) -> Result<Value, S::Code>,
    ) -> S::Code {
        let script = match self.source.now() {
            Ok(script) => script,
            Err(error) => return self.broken(&error),
        };
        let log = script.log();
        let (pid, number) = (process::id(), self.calls.fetch_add(1, Ordering::Relaxed));
        let (symbol_text, thread) = (symbol.to_owned(), thread_number());
        append(
            log,
            &Line::Begin { pid, number, thread, at_us: unix_us(), symbol: symbol_text, args },
        );
        let answered = match self.misbehave(&script, symbol, subject) {
            Ok(Some(code)) => Err(code),
            Ok(None) => match self.source.now() {
                Ok(script) => answer(&Scene {
                    script,
                    seconds: self.began.elapsed().as_secs_f64(),
                    unix_us: unix_us(),
                }),
                Err(error) => Err(self.broken(&error)),
            },
            Err(error) => Err(self.broken(&error)),
        };
        let (code, out) = match answered {
            Ok(out) => (S::Code::OK, out),
            Err(code) => (code, Value::Null),
        };
        append(log, &Line::End { pid, number, at_us: unix_us(), result: code.number(), out });
        code
    }

    fn broken(&self, error: &ScriptError) -> S::Code {
        self.source.keep(error);
        S::BROKEN
    }

    /// Blocks if the call is to, then says what it fails with, by the script as it is by then.
    fn misbehave(
        &self,
        script: &S,
        symbol: &'static str,
        subject: Option<&str>,
    ) -> Result<Option<S::Code>, ScriptError> {
        let Some(behaviour) = script.behaviour(symbol, subject) else { return Ok(None) };
        if self.is_skipped(behaviour, symbol, subject) {
            return Ok(None);
        }
        let now = || Ok(self.source.now()?.behaviour(symbol, subject));
        match behaviour.block {
            None => return Ok(behaviour.error),
            Some(Block::Seconds(seconds)) => {
                thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
            }
            Some(Block::UntilChanged) => {
                let is_blocked = |found: &Option<Behaviour<_>>| {
                    found.and_then(|now| now.block) == behaviour.block
                };
                while is_blocked(&now()?) {
                    thread::sleep(LOOK_EVERY);
                }
            }
            Some(Block::ForEver) => loop {
                thread::sleep(Duration::MAX);
            },
        }
        Ok(now()?.and_then(|now| now.error))
    }

    /// Counts the call, and says whether it is one of those that are left alone.
    fn is_skipped(
        &self,
        behaviour: Behaviour<S::Code>,
        symbol: &'static str,
        subject: Option<&str>,
    ) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = counts.entry((symbol, subject.map(str::to_owned))).or_insert((behaviour, 0));
        if entry.0 != behaviour {
            *entry = (behaviour, 0);
        }
        entry.1 += 1;
        entry.1 <= behaviour.skip
    }
}

/// The number of the calling thread, in the order of first calls.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Microseconds since 1970.
fn unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
