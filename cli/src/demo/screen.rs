//! What the demo shows: the machines first, the windows beside the truth last.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use wattscribe_simulator::{Machine, Simulation};
use wattscribe_table::EnergyWindow;

use super::machines::{describe, waves};

const NOTICE: &str = "SIMULATED HARDWARE: nothing here was measured";

/// Says which machines there are.
pub(crate) fn begin(machines: &[Machine]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{NOTICE}\n")?;
    for machine in machines {
        for (socket, wave) in waves(machine) {
            writeln!(out, "  {}/socket{socket}  {}", machine.name, describe(&wave))?;
        }
    }
    writeln!(
        out,
        "\nreal exporters read them, the real recorder polls the exporters; this takes about 15 s\n"
    )?;
    out.flush()
}

/// What stands beside a window: its energy by the closed form.
type Truths = BTreeMap<(String, u32), f64>;

/// Shows every window beside the truth. Returns whether each holds it within its bounds.
pub(crate) fn end(
    machines: &[Machine],
    simulation: &Simulation,
    windows: &[EnergyWindow],
) -> Result<bool, Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let mut all_hold = true;
    let mut shown = "";
    writeln!(out, "{NOTICE}")?;
    for window in windows {
        if window.name != shown {
            shown = &window.name;
            let seconds = window.end_unix - window.start_unix;
            writeln!(
                out,
                "\n{shown} ({seconds:.0} s)\n  {:<22}  {:>10}  {:>10}  {:>20}  {:>8}  {:>7}  holds",
                "", "truth J", "measured J", "between J", "error", "verdict"
            )?;
        }
        let truths = truths(machines, simulation, window)?;
        let truth = truth_of(window, &truths);
        let holds = holds(window, truth);
        all_hold &= holds;
        writeln!(out, "{}", line(window, truth, holds))?;
    }
    let count = windows.len();
    let summary = if all_hold { "all hold" } else { "NOT all hold" };
    writeln!(
        out,
        "\n{count} windows, {summary}: the truth lies within what stands between, the energy if each interval had\n\
         stayed at the lower or at the higher of the two readings that end it"
    )?;
    writeln!(out, "\n{NOTICE}")?;
    Ok(all_hold)
}

/// What to try next.
pub(crate) fn next_steps(kept: Option<&Path>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match kept {
        Some(dir) => {
            let dir = dir.display();
            writeln!(out, "\nkept in {dir}; try: wattscribe energy {dir} --every 2s")
        }
        None => writeln!(out, "\nto keep the recording: wattscribe demo --out DIR"),
    }
}

/// The truth of every socket over one window.
fn truths(
    machines: &[Machine],
    simulation: &Simulation,
    window: &EnergyWindow,
) -> Result<Truths, Box<dyn Error>> {
    let mut truths = Truths::new();
    for machine in machines {
        for (socket, _) in waves(machine) {
            let (start_s, end_s) = (window.start_unix, window.end_unix);
            let joules = simulation.truth(&machine.name, socket, start_s, end_s)?;
            truths.insert((machine.name.clone(), socket), joules);
        }
    }
    Ok(truths)
}

/// The truth of what a window covers: a socket, a node, or the nodes of its source.
fn truth_of(window: &EnergyWindow, truths: &Truths) -> f64 {
    let is_covered = |node: &str, socket: u32| match (&window.hostname, window.socket_id) {
        (Some(host), Some(id)) => host == node && id == socket,
        (Some(host), None) => host == node,
        _ => node.starts_with("x86") == (window.source.as_deref() == Some("rapl")),
    };
    truths
        .iter()
        .filter(|((node, socket), _)| is_covered(node, *socket))
        .map(|(_, joules)| joules)
        .sum()
}

/// Rounding of a sum of some hundred doubles, and of a file's microwatts.
const ROUNDING: f64 = 1e-7;

fn holds(window: &EnergyWindow, truth_j: f64) -> bool {
    let slack_j = truth_j * ROUNDING;
    window.energy_low_j.is_some_and(|low_j| low_j - slack_j <= truth_j)
        && window.energy_high_j.is_some_and(|high_j| truth_j <= high_j + slack_j)
        && window.verdict == "full"
}

fn line(window: &EnergyWindow, truth_j: f64, holds: bool) -> String {
    let source = window.source.as_deref().unwrap_or_default();
    let label = match (&window.hostname, window.socket_id) {
        (Some(node), Some(socket)) => format!("{node}/socket{socket} {source}"),
        (Some(node), None) => format!("{node} {source}"),
        _ => format!("total {source}"),
    };
    let (measured, between, error) =
        match (window.energy_j, window.energy_low_j.zip(window.energy_high_j)) {
            (Some(joules), Some((low, high))) => (
                format!("{joules:.2}"),
                format!("{low:.2} .. {high:.2}"),
                format!("{:+.2} %", (joules - truth_j) / truth_j * 100.0),
            ),
            _ => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        };
    let mut text = format!(
        "  {label:<22}  {truth_j:>10.2}  {measured:>10}  {between:>20}  {error:>8}  {:>7}  {}",
        window.verdict,
        if holds { "yes" } else { "NO" }
    );
    if let Some(joules) = window.counter_energy_j {
        text.push_str(&format!("  counter {joules:.2}"));
    }
    if !window.reasons.is_empty() {
        text.push_str(&format!("  {}", window.reasons.replace(';', ", ")));
    }
    text
}
