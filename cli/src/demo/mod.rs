//! `wattscribe demo`: the real exporters over simulated machines, the real recorder, and the windows
//! beside the truth.
//!
//! The machines' power follows waveforms whose integral is known in closed form, so that every number
//! on the last screen can be judged. Each screen says that the hardware is simulated.

mod machines;
mod screen;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use tokio::net::TcpListener;
use wattscribe_exporter::Exporter;
use wattscribe_exporter::args::Config;
use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_rules::{Limits, Window, Windows};
use wattscribe_scraper::keep::Keep;
use wattscribe_scraper::record::{Plan, Recording};
use wattscribe_scraper::target::Target;
use wattscribe_simulator::{Machine, Simulation};
use wattscribe_table::{Options, RunWriter};

use crate::energy::{Selection, state_energy};
use crate::log::{LiveLine, chain};
use crate::rules::Given;

/// What the operator typed.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keeps the recording in this directory, to look at it with `wattscribe energy` or pandas.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Time between two reads of a sensor and between two scrapes. A node at work reads once a second; the
/// demo is in a hurry.
const INTERVAL: Duration = Duration::from_millis(500);

/// The two windows, in seconds since the simulation began. The first waits for the exporters.
const WINDOWS_S: [(f64, f64); 2] = [(4.0, 9.0), (9.0, 14.0)];

/// Where in a second the sensors are read. The waveforms step at whole seconds and the simulator's
/// files follow within 10 ms: a read just then could see either side.
const READ_PHASE: Duration = Duration::from_millis(350);

/// Runs the command. Exit code 1 when a measured window does not hold the truth within its own bounds.
pub(crate) fn run(args: DemoArgs) -> ExitCode {
    let line = LiveLine::default();
    line.start_log(tracing::Level::ERROR);
    let outcome = demo(&args, &line);
    line.clear();
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            tracing::error!("a window does not hold the truth within its own bounds");
            ExitCode::FAILURE
        }
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn demo(args: &DemoArgs, line: &LiveLine) -> Result<bool, Box<dyn Error>> {
    let trees = tempfile::tempdir()?;
    let kept = tempfile::tempdir()?;
    let out = args.out.clone().unwrap_or_else(|| kept.path().join("run"));
    if out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!(
            "{}: not empty; simulated rows must not be mixed into another recording",
            out.display()
        )
        .into());
    }
    let machines = machines::machines();
    screen::begin(&machines)?;

    let simulation = Simulation::start(trees.path(), &machines, whole_second())?;
    let epoch_s = simulation.epoch_unix_s();
    wait_until(epoch_s + 1.0 + READ_PHASE.as_secs_f64());
    let exporters = start_exporters(&simulation, &machines)?;
    let end_s = epoch_s + WINDOWS_S.map(|(_, end)| end)[WINDOWS_S.len() - 1];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(record(exporters, &out, end_s, line))?;
    line.clear();

    let windows = WINDOWS_S
        .iter()
        .map(|(start, end)| Window::new(epoch_s + start, epoch_s + end))
        .collect::<Result<Vec<_>, _>>()?;
    let names = ["before the step", "after the step"].map(str::to_owned).to_vec();
    let limits = Limits::default();
    let selection = Selection { windows: Windows::list(windows), names, limits };
    let stated = state_energy(&out, &selection)?;
    let holds = screen::end(&machines, &simulation, &stated)?;
    screen::next_steps(args.out.as_deref())?;
    Ok(holds)
}

/// The whole second that has just begun: the simulation's own time starts there.
fn whole_second() -> SystemTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

fn wait_until(unix_s: f64) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    thread::sleep(Duration::from_secs_f64((unix_s - now_s).max(0.0)));
}

/// One exporter a machine, started side by side: proving that a RAPL counter moves takes a second.
fn start_exporters(
    simulation: &Simulation,
    machines: &[Machine],
) -> Result<Vec<(String, Exporter)>, Box<dyn Error>> {
    let mut starting = Vec::new();
    for machine in machines {
        let sysfs = Sysfs::new(simulation.sysfs_root(&machine.name)?, None);
        let address = ([127, 0, 0, 1], 0).into();
        let config =
            Config { interval: INTERVAL, ..Config::of_files(address, SourceChoice::Auto, sysfs) };
        starting.push((machine.name.clone(), thread::spawn(move || Exporter::start(&config))));
    }
    let mut exporters = Vec::new();
    for (name, started) in starting {
        let exporter = started.join().map_err(|_| format!("the exporter of {name} panicked"))??;
        exporters.push((name, exporter));
    }
    Ok(exporters)
}

/// Serves all exporters on loopback and records them until there are readings from after `end_s`.
async fn record(
    exporters: Vec<(String, Exporter)>,
    out: &Path,
    end_s: f64,
    line: &LiveLine,
) -> Result<(), Box<dyn Error>> {
    let mut targets = Vec::new();
    for (name, exporter) in exporters {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        targets.push(format!("{name}=http://{address}/metrics").parse::<Target>()?);
        tokio::spawn(exporter.serve(listener, std::future::pending()));
    }
    let plan = Plan {
        targets,
        interval: INTERVAL,
        timeout: Duration::from_secs(2),
        keep: Keep::nothing(),
        command: None,
        rules: Some(Given::builtin().planned()),
    };
    let (run, recovery) = RunWriter::open(out, Options::default())?;
    let recording = Recording::start(plan, run, recovery)?;
    while recording.now_s() < end_s && !recording.has_failed() {
        if LiveLine::is_shown() {
            line.show(&recording.status().to_string());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    recording.stop_after(end_s).await?;
    Ok(())
}
