//! `wattscribe fleet serve`: watches a fleet, and serves its document and its page.
//!
//! Answers are prepared by a thread of their own, several times a second: whoever asks is given what is there, however many
//! agents hang.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use wattscribe_exporter::serve::{Bytes, Pages, serve};
use wattscribe_parser::Format;
use wattscribe_rules::fleet::{FleetLimits, Snapshot};
use wattscribe_scraper::fetch::Fetcher;
use wattscribe_scraper::fleet::discovery::Places;
use wattscribe_scraper::fleet::gathered;
use wattscribe_scraper::fleet::watch::{Plan, Watched, watch};
use wattscribe_scraper::target::{Target, check_distinct};

use super::wire::Document;
use crate::listen;
use crate::log::{LiveLine, chain};
use crate::record::Signals;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// An exporter, as NAME=URL; the name is that of its node, and is host:port where it is left out. May be given many
    /// times.
    #[arg(long = "agent", value_name = "NAME=URL")]
    agents: Vec<Target>,

    /// A file of exporters in the form of Prometheus' file_sd; the label `node` names the node of a single target.
    #[arg(long = "agents-file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A name of DNS, as of a headless Service: each of its addresses is an exporter.
    #[arg(long = "agents-dns", value_name = "NAME:PORT", value_parser = parse_name)]
    names: Vec<String>,

    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0:9744", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,

    /// Time between two questions to one exporter, 100ms to 1h.
    #[arg(long, default_value = "5s", value_parser = parse_interval, value_name = "DURATION")]
    interval: Duration,

    /// Age at which a reading is stale [default: three intervals, but at least 5s]
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION")]
    stale_after: Option<Duration>,

    /// How long a device that nobody tells of any more is listed, as stale.
    #[arg(long, default_value = "1h", value_parser = humantime::parse_duration, value_name = "DURATION")]
    forget_after: Duration,
}

/// Where the document is.
const DOCUMENT_PATH: &str = "/api/v1/fleet";

/// How often answers are prepared.
const PREPARE_EVERY: Duration = Duration::from_millis(500);

/// For so many preparations a page is wanted after somebody asked: two minutes, so that a usual scraper never waits.
const WANTED_FOR: u32 = 240;

/// The longest that an exporter may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The default age at which a reading is stale, for intervals below two seconds.
const STALE_AFTER_MIN: Duration = Duration::from_secs(5);

fn parse_interval(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(3600));
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (least..=most).contains(&interval) {
        return Ok(interval);
    }
    Err(format!("expected {least:?} to {most:?}"))
}

fn parse_name(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(name, port)| {
        (!name.is_empty()).then_some(())?;
        port.parse::<u16>().ok().filter(|port| *port > 0)
    });
    port.map(|_| text.to_owned()).ok_or_else(|| "expected NAME:PORT".to_owned())
}

/// What is served: it is there before anybody asks. Pages are made only while somebody does, each for the format that he
/// wants; the first time he waits for it.
#[derive(Debug)]
struct Prepared {
    watched: Arc<Watched>,
    document: RwLock<Option<Bytes>>,
    text: Page,
    open_metrics: Page,
    /// What readiness lacks.
    missing: RwLock<Option<&'static str>>,
}

/// The page in one format.
#[derive(Debug)]
struct Page {
    format: Format,
    prepared: RwLock<Option<String>>,
    /// How many more times it is prepared unless somebody asks again.
    wanted: AtomicU32,
}

impl Page {
    fn new(format: Format) -> Self {
        Self { format, prepared: RwLock::default(), wanted: AtomicU32::new(0) }
    }

    fn prepare(&self, snapshot: &Snapshot, watched: &Watched) {
        let is_wanted = |left: u32| left.checked_sub(1);
        let wanted =
            self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_wanted).is_ok();
        let page = wanted.then(|| gathered::render(snapshot, watched, self.format));
        replace(&self.prepared, page);
    }

    fn give(&self, watched: &Watched) -> String {
        self.wanted.store(WANTED_FOR, Ordering::Relaxed);
        let prepared = self.prepared.read().unwrap_or_else(PoisonError::into_inner).clone();
        prepared.unwrap_or_else(|| gathered::render(&watched.snapshot(), watched, self.format))
    }
}

/// Puts something in place; what was there is let go of once nobody waits for the lock.
fn replace<T>(place: &RwLock<T>, new: T) {
    let mut place = place.write().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *place, new);
    drop(place);
    drop(before);
}

impl Prepared {
    fn new(watched: Arc<Watched>) -> Self {
        let (document, missing) = (RwLock::default(), RwLock::default());
        let (text, open_metrics) = (Page::new(Format::Text), Page::new(Format::OpenMetrics));
        let prepared = Self { watched, document, text, open_metrics, missing };
        prepared.prepare();
        prepared
    }

    fn prepare(&self) {
        let is_over = self.watched.discovery().is_over;
        let snapshot = self.watched.snapshot();
        let missing = match (is_over, snapshot.agents_up) {
            (false, _) => Some("agents have not been looked for yet\n"),
            (true, 0) => Some("no agent has answered\n"),
            (true, _) => None,
        };
        replace(&self.missing, missing);
        replace(&self.document, is_over.then(|| Document::of(&snapshot).bytes().into()));
        self.text.prepare(&snapshot, &self.watched);
        self.open_metrics.prepare(&snapshot, &self.watched);
    }
}

impl Pages for Prepared {
    fn metrics(&self, format: Format) -> String {
        match format {
            Format::Text => self.text.give(&self.watched),
            Format::OpenMetrics => self.open_metrics.give(&self.watched),
        }
    }

    fn ready(&self) -> Result<(), &'static str> {
        self.missing.read().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn document(&self, path: &str) -> Option<Result<Bytes, &'static str>> {
        let document = self.document.read().unwrap_or_else(PoisonError::into_inner).clone();
        (path == DOCUMENT_PATH).then(|| document.ok_or("agents have not been looked for yet\n"))
    }
}

/// Runs the command.
pub(crate) fn run(args: ServeArgs) -> ExitCode {
    LiveLine::default().start_log(tracing::Level::INFO);
    let (plan, address) = match plan(args) {
        Ok(planned) => planned,
        Err(reason) => {
            tracing::error!("{reason}");
            return ExitCode::from(2);
        }
    };
    match listen::bind(address).and_then(|listener| serve_fleet(plan, listener)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            tracing::error!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn plan(args: ServeArgs) -> Result<(Plan, SocketAddr), String> {
    let ServeArgs { agents, files, names, listen, interval, stale_after, forget_after } = args;
    if agents.is_empty() && files.is_empty() && names.is_empty() {
        return Err("no agents: give --agent, --agents-file or --agents-dns".to_owned());
    }
    check_distinct(&agents).map_err(|error| error.to_string())?;
    let stale_after = stale_after.unwrap_or(STALE_AFTER_MIN.max(interval * 3));
    if stale_after < interval || forget_after < stale_after {
        return Err(format!(
            "expected --interval {interval:?}, --stale-after {stale_after:?} and --forget-after {forget_after:?} in this order"
        ));
    }
    let limits = FleetLimits {
        stale_after_s: stale_after.as_secs_f64(),
        forget_after_s: forget_after.as_secs_f64(),
    };
    Ok((Plan { places: Places { agents, files, names }, interval, limits }, listen))
}

/// Three threads: one asks agents, one prepares answers, and this one gives them.
fn serve_fleet(plan: Plan, listener: std::net::TcpListener) -> Result<(), String> {
    let runtime = || {
        let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
        built.map_err(|error| format!("cannot start: {error}"))
    };
    let with_tls = plan.places.agents.iter().any(|agent| agent.url.scheme() == "https");
    let fetcher = Fetcher::new(TIMEOUT, with_tls).map_err(|error| chain(&error))?;
    let watched = Watched::new(plan.limits);
    let prepared = Arc::new(Prepared::new(Arc::clone(&watched)));
    let (asking, answering) = (runtime()?, runtime()?);
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
        spawned.map_err(|error| format!("cannot start a thread: {error}"))
    };
    // Both end with the process.
    spawn("agents", Box::new(move || asking.block_on(watch(plan, watched, fetcher))))?;
    let answers = Arc::clone(&prepared);
    let prepare = move || {
        loop {
            thread::sleep(PREPARE_EVERY);
            answers.prepare();
        }
    };
    spawn("answers", Box::new(prepare))?;
    answering.block_on(async {
        let listener = TcpListener::from_std(listener).map_err(|error| chain(&error))?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!(addr = %address, "listening");
        }
        let mut signals = Signals::listen();
        serve(listener, prepared, async move {
            signals.any().await;
        })
        .await;
        Ok(())
    })
}
