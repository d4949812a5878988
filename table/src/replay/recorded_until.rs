//! How far results are recorded already, of a node or of the fleet.

use wattscribe_rules::engine::Derived;

/// The last results that are recorded. Results of instants and of windows each come in the order of their times, so all
/// before them are recorded too. The two are told apart, as a rule file with another gap limit settles a window sooner
/// or later after its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedUntil {
    /// The last instant, in Unix microseconds.
    instant_us: i64,
    /// The end of the last window, in Unix microseconds.
    window_us: i64,
}

impl RecordedUntil {
    /// No result at all.
    pub const NOTHING: RecordedUntil = RecordedUntil { instant_us: i64::MIN, window_us: i64::MIN };

    /// Notes a result that is recorded, by its time and whether it is of a window.
    pub(super) fn note(&mut self, at_us: i64, is_of_window: bool) {
        let last_us = if is_of_window { &mut self.window_us } else { &mut self.instant_us };
        *last_us = at_us.max(*last_us);
    }

    pub(super) fn has(&self, result: &Derived) -> bool {
        let last_us = if result.start_us.is_some() { self.window_us } else { self.instant_us };
        result.at_us <= last_us
    }
}
