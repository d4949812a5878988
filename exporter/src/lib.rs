//! The exporter: on each node, sensors become readings, and readings a page that Prometheus scrapes.
//!
//! Data flows one way. [`sources`] find sensors in a [`sysfs`] tree or a C [`library`]; the [`ladder`]
//! proves which source is alive; a [`worker`] per file, or the one thread of a library, stores readings in
//! a [`cell`]; the [`board`] keeps cells and readers in step with what discovery finds; [`page`] prints
//! what may be published now; [`serve`] answers scrapes.
//!
//! What never happens here: a handler that waits for a sensor, a number without a fresh reading behind
//! it, a zero for something unknown.

pub mod accelerator;
pub mod args;
pub mod base;
pub mod board;
pub mod cell;
pub mod clock;
pub mod decline;
pub mod failure;
pub mod families;
pub mod health;
pub mod instance;
pub mod ladder;
pub mod library;
pub mod module;
pub mod nesting;
pub mod page;
pub mod plausible;
pub mod probe;
pub mod program;
pub mod roster;
pub mod sensor;
pub mod serve;
pub mod sources;
pub mod sysfs;
pub mod twins;
pub mod vigil;
pub mod worker;

mod answer_stream;
mod attribute;
mod dcgm_error;
mod dcgm_lib;
mod integral;
mod nvml_lib;
mod reopening;
mod rounds;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::info;

use crate::accelerator::device::Role;
use crate::args::Config;
use crate::board::Board;
use crate::clock::Now;
use crate::health::Health;
use crate::ladder::{Chosen, Ground, NoSource, SourceChoice};
use crate::library::LibraryThread;
use crate::sensor::Source;
use crate::sources::nvml::Nvml;

/// How often discovery looks for sensors that came, went or moved.
const REDISCOVER_EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether the chosen source has died for good.
const RECONSIDER_EVERY: Duration = Duration::from_secs(1);

/// How often the watch looks for reads that hang.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// How long a start that is no longer wanted may take to end in order, so that it gives back what it has taken.
const START_END_WAIT: Duration = Duration::from_millis(500);

/// Why the exporter does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No rung of the ladder held.
    #[error(transparent)]
    NoSource(#[from] NoSource),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The signals that end the process cannot be caught.
    #[error("cannot catch SIGINT and SIGTERM")]
    Signals(#[source] io::Error),
    /// A thread cannot be started.
    #[error("cannot start a worker thread")]
    Thread(#[source] io::Error),
}

/// A node that is being measured, before anyone listens.
#[derive(Debug)]
pub struct Exporter {
    board: Arc<Board>,
}

impl Exporter {
    /// Finds a live source and reads all its sensors once, or says why there is none. Blocks for up to
    /// a few seconds: call it where blocking is allowed.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let limits = config.limits;
        let ground = Ground::of(config);
        let chosen = choose(&ground)?;
        let nvml = start_nvml(config, &ground).map_err(StartError::Thread)?;
        let board = Board::start(chosen, ground, nvml, limits).map_err(StartError::Thread)?;
        let (base, cells) = (board.base(), board.cells());
        if let (Some(source), Some(rung)) = (base.source(), base.rung()) {
            let (source, rung, sensors) = (source.as_str(), rung.as_str(), cells.len());
            info!(source, rung, sensors, "source chosen");
        }
        if board.is_simulated {
            tracing::warn!("the sensors are SIMULATED: nothing published here was measured");
        }
        let dead_after = config.dead_after;
        look_after(&board, "watch", WATCH_EVERY, |board| board.watch(Now::read()))
            .and_then(|()| look_after(&board, "discovery", REDISCOVER_EVERY, rediscover))
            .and_then(|()| {
                look_after(&board, "accelerators", REDISCOVER_EVERY, rediscover_accelerators)
            })
            .and_then(|()| {
                look_after(&board, "ladder", RECONSIDER_EVERY, move |board| {
                    reconsider(board, dead_after);
                })
            })
            .map_err(StartError::Thread)?;
        let until = Instant::now() + limits.read_deadline;
        let is_read = || {
            let live = board.accelerators().live();
            let powers = live.iter().map(|accelerator| Arc::clone(&accelerator.power));
            board.cells().into_iter().chain(powers).all(|cell| cell.has_been_read())
        };
        while Instant::now() < until && !is_read() {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { board })
    }

    /// Serves the page on a listener until `shutdown` resolves.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        if let Ok(address) = listener.local_addr() {
            info!(addr = %address, "listening");
        }
        serve::serve(listener, self.board, shutdown).await;
    }
}

/// Does `work` every `period` for as long as the board lives. Each kind of work has a thread of its own:
/// discovery may hang on a sensor, and the watch must still see that sensor hang.
fn look_after(
    board: &Arc<Board>,
    name: &str,
    period: Duration,
    work: impl Fn(&Board) + Send + 'static,
) -> io::Result<()> {
    let weak = Arc::downgrade(board);
    let until_gone = move || {
        loop {
            thread::sleep(period);
            let Some(board) = weak.upgrade() else { return };
            work(&board);
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(until_gone)?;
    Ok(())
}

fn rediscover(board: &Board) {
    if let Err(error) = board.rediscover() {
        tracing::warn!(%error, "cannot start a worker for a sensor that was found");
    }
}

fn rediscover_accelerators(board: &Board) {
    if let Err(error) = board.rediscover_accelerators() {
        tracing::warn!(%error, "cannot start a thread for an accelerator that was found");
    }
}

/// What the CPUs are measured with. Nothing, where no rung holds, the operator asked for none, and there are accelerators
/// to measure.
fn choose(ground: &Ground) -> Result<Option<Chosen>, NoSource> {
    let reasons = match ladder::climb(ground, None) {
        Ok(chosen) => return Ok(Some(chosen)),
        Err(reasons) => reasons,
    };
    let found = ground.discover_accelerators(ground.deadline).and_then(Result::ok);
    let found = found.unwrap_or_default();
    let count = found.iter().filter(|(device, _)| device.role == Role::Accelerator).count();
    if ground.choice != SourceChoice::Auto || count == 0 {
        return Err(reasons);
    }
    tracing::warn!(accelerators = count, "the CPUs are not measured: {reasons}");
    Ok(None)
}

fn reconsider(board: &Board, dead_after: Duration) {
    if let Err(error) = board.reconsider(Now::read(), dead_after) {
        tracing::warn!(%error, "cannot start a worker for another source");
    }
}

/// The thread of NVML, unless it is left alone.
fn start_nvml(config: &Config, ground: &Ground) -> io::Result<Option<LibraryThread>> {
    if config.nvml.is_empty() {
        return Ok(None);
    }
    let library = Nvml::new(config.nvml.clone(), config.sysfs.clone(), config.allow_wake);
    let health: Arc<Health> = Arc::clone(&ground.health);
    LibraryThread::start(Source::Nvml, library, health, ground.schedule).map(Some)
}

/// The whole program: starts, listens, serves until SIGINT or SIGTERM, drains.
pub async fn run(config: Config) -> Result<(), StartError> {
    let address = config.address;
    // First of all: the start may block for as long as a library does, and a process without a handler cannot be
    // ended as the first of its container.
    let terminated = termination().map_err(StartError::Signals)?;
    tokio::pin!(terminated);
    let (sender, mut started) = oneshot::channel();
    // Fails only when nobody waits any more: then what was started is given back here.
    let start = move || drop(sender.send(Exporter::start(&config)));
    let thread = thread::Builder::new().name("start".to_owned());
    thread.spawn(start).map_err(StartError::Thread)?;
    let started = tokio::select! {
        started = &mut started => started,
        () = &mut terminated => {
            info!("asked to end before it was started");
            drop(timeout(START_END_WAIT, started).await);
            return Ok(());
        }
    };
    let exporter = started.map_err(|lost| StartError::Thread(io::Error::other(lost)))??;
    let listener =
        TcpListener::bind(address).await.map_err(|source| StartError::Bind { address, source })?;
    exporter.serve(listener, terminated).await;
    Ok(())
}

/// Catches SIGINT and SIGTERM from here on; the future resolves at the first of them.
fn termination() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
