//! The energy of one window by straight lines between neighbouring readings, and how much of the window they cover.

use crate::compensated::Compensated;
use crate::limits::Limits;
use crate::window::Window;

/// A reading of power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at_s: f64,
    pub(crate) watts: f64,
}

/// The sums of one window. Whoever holds it shows it every pair of neighbours that touches the window, in order of time.
#[derive(Debug)]
pub(crate) struct Trapezoid {
    window: Window,
    energy_j: Compensated,
    low_j: Compensated,
    high_j: Compensated,
    covered_s: Compensated,
    /// Whether the moments just after the start and just before the end are measured. Coverage is decided by these and
    /// by the absence of gaps, not by comparing sums of seconds, which are rounded.
    start_covered: bool,
    end_covered: bool,
    gap: bool,
}

/// What the lines of a window add up to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Integral {
    pub(crate) energy_j: f64,
    /// Every interval at the lower of its two ends.
    pub(crate) low_j: f64,
    /// Every interval at the higher of its two ends.
    pub(crate) high_j: f64,
    /// The length of the window where it is covered from edge to edge.
    pub(crate) covered_s: f64,
    pub(crate) is_full: bool,
}

impl Trapezoid {
    pub(crate) fn new(window: Window) -> Trapezoid {
        Trapezoid {
            window,
            energy_j: Compensated::default(),
            low_j: Compensated::default(),
            high_j: Compensated::default(),
            covered_s: Compensated::default(),
            start_covered: false,
            end_covered: false,
            gap: false,
        }
    }

    /// Takes two neighbours, the later second.
    pub(crate) fn take(&mut self, previous: Reading, current: Reading, limits: Limits) {
        let (start_s, end_s) = (self.window.start_s(), self.window.end_s());
        if previous.at_s >= end_s || current.at_s <= start_s {
            return;
        }
        if limits.bridges(current.at_s - previous.at_s) {
            self.start_covered |= previous.at_s <= start_s;
            self.end_covered |= current.at_s >= end_s;
            self.add(previous, current);
        } else if previous.at_s >= start_s && current.at_s <= end_s {
            self.gap = true;
        }
    }

    /// Adds what lies in the window of the line from one reading to the next.
    fn add(&mut self, previous: Reading, current: Reading) {
        let from_s = previous.at_s.max(self.window.start_s());
        let to_s = current.at_s.min(self.window.end_s());
        let low_w = previous.watts.min(current.watts);
        let high_w = previous.watts.max(current.watts);
        let span_s = to_s - from_s;
        let (a, b) = ((previous.at_s, previous.watts), (current.at_s, current.watts));
        self.energy_j.add((line(a, b, from_s) + line(a, b, to_s)) / 2.0 * span_s);
        self.low_j.add(low_w * span_s);
        self.high_j.add(high_w * span_s);
        self.covered_s.add(span_s);
    }

    pub(crate) const fn covers_start(&self) -> bool {
        self.start_covered
    }

    pub(crate) const fn covers_end(&self) -> bool {
        self.end_covered
    }

    /// Whether two neighbours in the window are further apart than the limit.
    pub(crate) const fn has_gap(&self) -> bool {
        self.gap
    }

    /// What there is so far; `None` when nothing is covered.
    pub(crate) fn integral(&self) -> Option<Integral> {
        let (energy_j, covered_s) = (self.energy_j.total(), self.covered_s.total());
        let is_full = self.start_covered && self.end_covered && !self.gap;
        (covered_s > 0.0).then(|| Integral {
            energy_j,
            // The three sums are rounded each on its own, which must not turn their order around.
            low_j: self.low_j.total().min(energy_j),
            high_j: self.high_j.total().max(energy_j),
            covered_s: if is_full { self.window.duration_s() } else { covered_s },
            is_full,
        })
    }
}

/// The value at `at_s` on the line through two points of time and value.
pub(crate) fn line((from_s, from): (f64, f64), (to_s, to): (f64, f64), at_s: f64) -> f64 {
    if at_s == to_s {
        return to;
    }
    from + (to - from) * ((at_s - from_s) / (to_s - from_s))
}
