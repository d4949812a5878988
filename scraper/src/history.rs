//! What earlier scrapes of a node showed: its sockets, their dies, and what of them is recorded.
//!
//! A sum needs to know its members before it can say that all of them are there, and one page may not
//! name them all.

use std::collections::BTreeMap;

use crate::power_page::{Part, Source};

/// One node so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Where its power came from at last.
    pub(crate) source: Option<Source>,
    /// Every socket that was ever named: the members that a total needs.
    pub(crate) members: BTreeMap<u32, Member>,
}

/// One socket so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Member {
    /// The most powercap zones that its parts had at one time.
    zones: BTreeMap<Part, usize>,
    /// When its last recorded reading was read, in microseconds of the node's clock.
    recorded_us: Option<i64>,
    /// Time of its last row, in Unix seconds, while its power is not withheld.
    last_row_s: Option<f64>,
}

impl History {
    /// A node that an earlier recording knew: its sockets, and when the last recorded reading of each
    /// was read, in microseconds of the node's clock. A reading that is met again is no second one, and
    /// a socket that is silent now is a member still.
    pub(crate) fn resumed(sockets: impl Iterator<Item = (u32, Option<i64>)>) -> Self {
        let member = |(socket, recorded_us)| (socket, Member { recorded_us, ..Member::default() });
        Self { source: None, members: sockets.map(member).collect() }
    }

    /// Sockets that a page names.
    pub(crate) fn take(&mut self, sockets: impl Iterator<Item = u32>) {
        for socket in sockets {
            self.members.entry(socket).or_default();
        }
    }

    /// The time up to which every socket whose power is not withheld has rows, in Unix seconds.
    pub fn rows_until_s(&self) -> Option<f64> {
        self.members.values().filter_map(|member| member.last_row_s).min_by(f64::total_cmp)
    }
}

impl Member {
    /// How many zones a part has: as many as now, or as ever before.
    pub(crate) fn zones_needed(&mut self, part: Part, now: usize) -> usize {
        let most = self.zones.entry(part).or_default();
        *most = now.max(*most);
        *most
    }

    /// Whether the reading of that time is recorded.
    pub(crate) fn has_recorded(&self, read_at_us: i64) -> bool {
        self.recorded_us == Some(read_at_us)
    }

    /// A row: of a reading at its time, or without one when the power is withheld.
    pub(crate) fn take(&mut self, read_at_us: Option<i64>, row_s: Option<f64>) {
        self.last_row_s = row_s;
        if row_s.is_some() {
            self.recorded_us = read_at_us.or(self.recorded_us);
        }
    }
}
