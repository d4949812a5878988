//! What an energy counter shows at the two edges of a window.

use crate::limits::Limits;
use crate::sample::CounterSample;
use crate::trapezoid::line;
use crate::window::Window;

/// The counter at the edges of a window, in its own unit.
#[derive(Debug, Default)]
pub(crate) struct CounterEdges {
    start: Option<f64>,
    end: Option<f64>,
    restarted: bool,
}

impl CounterEdges {
    /// Takes a reading that is later than `previous`, the one before it.
    pub(crate) fn take(
        &mut self,
        window: Window,
        previous: Option<CounterSample>,
        current: CounterSample,
        limits: Limits,
    ) {
        let (start_s, end_s) = (window.start_s(), window.end_s());
        let at = |edge_s: f64| {
            if current.at_s == edge_s {
                return Some(current.joules);
            }
            let previous = previous.filter(|previous| {
                (previous.at_s..current.at_s).contains(&edge_s)
                    && limits.bridges(current.at_s - previous.at_s)
            })?;
            Some(line((previous.at_s, previous.joules), (current.at_s, current.joules), edge_s))
        };
        self.start = self.start.or_else(|| at(start_s));
        self.end = self.end.or_else(|| at(end_s));
        self.restarted |= previous.is_some_and(|previous| {
            previous.at_s < end_s && current.at_s > start_s && previous.restarted_before(&current)
        });
    }

    /// Whether the counter began anew within the window, so that the edges are of two counts.
    pub(crate) const fn restarted(&self) -> bool {
        self.restarted
    }

    /// By how much the counter moved from edge to edge, where it did so in one count and both are known.
    pub(crate) fn gain(&self) -> Option<f64> {
        let (start, end) = self.start.zip(self.end)?;
        (!self.restarted).then_some(end - start)
    }
}
