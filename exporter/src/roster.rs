//! The sensors of one source, lost ones included: what discovery finds again goes on under its own
//! identity, wherever it stands now.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::cell::Cell;
use crate::sensor::Sensor;

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
    pub fn reconcile(&self, mut found: Vec<Sensor>) -> Vec<Change> {
        let mut ids = BTreeSet::new();
        found.retain(|sensor| ids.insert(sensor.id.clone()));
        let mut cells = self.cells();
        let mut changes = Vec::new();
        for cell in cells.iter().filter(|cell| cell.is_present() && !ids.contains(&cell.sensor.id))
        {
            cell.lose();
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
