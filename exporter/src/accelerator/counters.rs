//! The counters of accelerators and how far each is believed: what is counted beside what the power adds up to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;
use wattscribe_rules::State;

use super::energy_check::{EnergyCheck, Power, Trust};
use super::quantity::Quantity;
use crate::cell::{Cell, Limits, Verdict};
use crate::clock::Now;
use crate::sensor::{Kind, Meter};

/// The counters of a node.
#[derive(Debug, Default)]
pub struct Counters {
    checks: Mutex<BTreeMap<String, EnergyCheck>>,
}

impl Counters {
    /// Whether the counter of an accelerator is believed.
    pub fn trust(&self, counter: &Arc<Cell>) -> Trust {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.get(&key(counter)).map(EnergyCheck::trust).unwrap_or_default()
    }

    /// Compares what each counts with what its power adds up to, and says so when one is given up. `cells` are all sensors of
    /// accelerators, `interval` is the time between two reads.
    pub fn look(&self, cells: &[Arc<Cell>], now: Now, limits: Limits, interval: Duration) {
        let of = |quantity: Quantity| {
            let kind = Kind::Accelerator(quantity);
            cells.iter().filter(move |cell| cell.sensor.kind == kind)
        };
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let known: BTreeSet<String> = of(Quantity::Energy).map(key).collect();
        checks.retain(|check, _| known.contains(check));
        for counter in of(Quantity::Energy) {
            let pci = place(counter);
            let power = of(Quantity::Power).find(|cell| place(cell) == pci);
            let power = match power.map(|cell| cell.judge(now, limits)) {
                Some(verdict) if verdict.state != State::Unsupported => {
                    let counted = verdict.watts.zip(count(&verdict));
                    counted.map_or(Power::Missing, |(watts, count)| Power::Is(watts, count))
                }
                _ => Power::Unmeasured,
            };
            let check = checks.entry(key(counter)).or_default();
            let before = check.trust();
            check.look(now, interval, count(&counter.judge(now, limits)), power);
            if check.trust() == Trust::Disagrees && before != Trust::Disagrees {
                let source = counter.sensor.source.as_str();
                warn!(
                    source,
                    pci,
                    "the counter of energy disagrees with the power by more than 5 %: energy is that of the power from now on"
                );
            }
        }
    }
}

fn count(verdict: &Verdict) -> Option<(f64, f64)> {
    Some((verdict.joules?, verdict.joules_since_s?))
}

/// The device of a sensor: what its id begins with.
fn place(cell: &Cell) -> &str {
    cell.sensor.id.split('/').next().unwrap_or_default()
}

/// What the comparison of a counter goes by: a GPU by its UUID, which has it wherever it stands; a device of files by
/// itself, as another one at its address is another cell.
fn key(counter: &Arc<Cell>) -> String {
    match &counter.sensor.meter {
        Meter::Gpu(gpu) => gpu.uuid.clone(),
        _ => format!("{} {:p}", counter.sensor.id, Arc::as_ptr(counter)),
    }
}
