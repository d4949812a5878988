//! The sensors of one source, lost ones included: what discovery finds again goes on under its own
//! identity, wherever it stands now. What stays lost is forgotten after an hour.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::cell::Cell;
use crate::clock::Now;
use crate::sensor::Sensor;

/// How long a lost sensor is shown as lost. Whoever looks after a node has seen it by then, and one that gives
/// itself another name each time that its driver is loaded would fill the page.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// The sensors of one source.
#[derive(Debug, Default)]
pub struct Roster {
    cells: RwLock<Vec<Arc<Cell>>>,
}

/// What discovery changed.
#[derive(Debug)]
pub enum Change {
    /// It is no longer found.
    Lost(Arc<Cell>),
    /// It stands elsewhere, or is back.
    Moved {
        /// Where it stood before.
        was: String,
        /// As it is now.
        cell: Arc<Cell>,
    },
    /// Another sensor stands under the same name: nothing of what was known of that one is true of it.
    Replaced {
        /// The label of the one before.
        was: String,
        /// The one that stands there now.
        cell: Arc<Cell>,
    },
    /// It was never seen before.
    Added(Arc<Cell>),
}

impl Roster {
    /// The sensors, ordered by where they stand.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows what discovery found, and says what changed. A sensor found twice counts once.
    pub fn reconcile(&self, mut found: Vec<Sensor>, now: Now) -> Vec<Change> {
        let mut ids = BTreeSet::new();
        found.retain(|sensor| ids.insert(sensor.id.clone()));
        let mut cells = self.cells();
        cells.retain(|cell| !cell.is_lost_for(now, FORGET_AFTER) || ids.contains(&cell.sensor.id));
        let mut changes = Vec::new();
        for cell in cells.iter().filter(|cell| cell.is_present() && !ids.contains(&cell.sensor.id))
        {
            cell.lose(now);
            changes.push(Change::Lost(Arc::clone(cell)));
        }
        for sensor in found {
            let Some(known) = cells.iter_mut().find(|cell| cell.sensor.id == sensor.id) else {
                let cell = Arc::new(Cell::new(sensor));
                changes.push(Change::Added(Arc::clone(&cell)));
                cells.push(cell);
                continue;
            };
            if !known.sensor.is_same(&sensor) {
                let was = known.sensor.label.clone();
                *known = Arc::new(Cell::new(sensor));
                changes.push(Change::Replaced { was, cell: Arc::clone(known) });
            } else if known.sensor != sensor || !known.is_present() {
                let was = known.sensor.channel.clone();
                *known = Arc::new(known.moved_to(sensor));
                changes.push(Change::Moved { was, cell: Arc::clone(known) });
            }
        }
        cells.sort_by(|a, b| a.sensor.rank().cmp(&b.sensor.rank()));
        *self.cells.write().unwrap_or_else(PoisonError::into_inner) = cells;
        changes
    }
}

#[cfg(test)]
mod tests {
    use wattscribe_rules::Averaging;

    use super::*;
    use crate::sensor::{Gpu, Kind, Meter, Source};

    #[test]
    fn what_stays_lost_is_forgotten_after_an_hour() {
        let sensor = |id: &str| Sensor {
            source: Source::Nvml,
            id: id.to_owned(),
            channel: String::new(),
            kind: Kind::Module,
            socket: None,
            label: String::new(),
            averaging: Averaging::Unknown,
            meter: Meter::Gpu(Gpu { index: 0, uuid: id.to_owned(), pci: String::new(), mig: None }),
        };
        let roster = Roster::default();
        let look = |second: u64, found: &[&str]| {
            let since = Duration::from_secs(second);
            let now = Now { wall_s: 0.0, monotonic: since, boot: since };
            roster.reconcile(found.iter().map(|id| sensor(id)).collect(), now);
            let cells = roster.cells();
            cells.iter().map(|cell| (cell.sensor.id.clone(), cell.is_present())).collect::<Vec<_>>()
        };
        let is = |id: &str, present| (id.to_owned(), present);
        assert_eq!(look(0, &["a", "b"]), [is("a", true), is("b", true)]);
        assert_eq!(look(10, &["b"]), [is("a", false), is("b", true)]);
        assert_eq!(look(3610, &["b"]), [is("a", false), is("b", true)], "an hour");
        assert_eq!(look(3611, &["b"]), [is("b", true)], "and a second");
        assert_eq!(look(3620, &["a", "b"]), [is("b", true), is("a", true)], "as one never seen");
    }
}
