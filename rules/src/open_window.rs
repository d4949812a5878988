//! One window that is being integrated: what its readings have added up to so far.

use crate::compensated::Compensated;
use crate::energy::{COUNTER_DISAGREEMENT_MAX, Energy, Verdict};
use crate::limits::Limits;
use crate::quantiles::Quantiles;
use crate::reason::{Reason, Reasons};
use crate::sample::CounterSample;
use crate::window::Window;

/// A reading of power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at_s: f64,
    pub(crate) watts: f64,
}

/// A window and its sums. Whoever holds it shows it every reading from its start on, each with the one before.
#[derive(Debug)]
pub(crate) struct OpenWindow {
    pub(crate) window: Window,
    index: usize,
    energy_j: Compensated,
    low_j: Compensated,
    high_j: Compensated,
    covered_s: Compensated,
    readings: Quantiles,
    largest_gap_s: f64,
    /// Whether the moments just after the start and just before the end are measured. Coverage is decided by these and
    /// by the absence of gaps, not by comparing sums of seconds, which are rounded.
    start_covered: bool,
    end_covered: bool,
    counter: CounterEdges,
    reasons: Reasons,
}

/// The energy counter at the edges of a window, in joules.
#[derive(Debug, Default)]
struct CounterEdges {
    start_j: Option<f64>,
    end_j: Option<f64>,
    reset: bool,
}

impl OpenWindow {
    pub(crate) fn new(index: usize, window: Window) -> OpenWindow {
        OpenWindow {
            window,
            index,
            energy_j: Compensated::default(),
            low_j: Compensated::default(),
            high_j: Compensated::default(),
            covered_s: Compensated::default(),
            readings: Quantiles::new(),
            largest_gap_s: 0.0,
            start_covered: false,
            end_covered: false,
            counter: CounterEdges::default(),
            reasons: Reasons::new(),
        }
    }

    pub(crate) fn note(&mut self, reason: Reason) {
        self.reasons.insert(reason);
    }

    /// Takes a reading that is later than `previous`, the one before it in the series.
    pub(crate) fn take(&mut self, previous: Option<Reading>, current: Reading, limits: Limits) {
        let (start_s, end_s) = (self.window.start_s(), self.window.end_s());
        if self.window.contains(current.at_s) {
            self.readings.push(current.watts);
        }
        self.widen_gap(previous, Some(current), limits);
        let Some(previous) = previous else { return };
        if previous.at_s >= end_s || current.at_s <= start_s {
            return;
        }
        if limits.bridges(current.at_s - previous.at_s) {
            self.start_covered |= previous.at_s <= start_s;
            self.end_covered |= current.at_s >= end_s;
            self.add(previous, current);
        } else if previous.at_s >= start_s && current.at_s <= end_s {
            self.note(Reason::Gap);
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

    /// Measures the time from one reading to the next where it touches the window. A reading beyond an edge counts if it
    /// is near enough to bracket the edge; otherwise the time is measured from the edge.
    fn widen_gap(&mut self, previous: Option<Reading>, current: Option<Reading>, limits: Limits) {
        let (start_s, end_s) = (self.window.start_s(), self.window.end_s());
        let from_s = previous
            .map(|reading| reading.at_s)
            .filter(|from_s| limits.bridges(start_s - from_s))
            .unwrap_or(start_s);
        let to_s = current
            .map(|reading| reading.at_s)
            .filter(|to_s| limits.bridges(to_s - end_s))
            .unwrap_or(end_s);
        if from_s < end_s && to_s > start_s {
            self.largest_gap_s = self.largest_gap_s.max(to_s - from_s);
        }
    }

    /// Takes a reading of the counter that is later than `previous`, the one before it.
    pub(crate) fn take_counter(
        &mut self,
        previous: Option<CounterSample>,
        current: CounterSample,
        limits: Limits,
    ) {
        let (start_s, end_s) = (self.window.start_s(), self.window.end_s());
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
        let edges = &mut self.counter;
        edges.start_j = edges.start_j.or_else(|| at(start_s));
        edges.end_j = edges.end_j.or_else(|| at(end_s));
        edges.reset |= previous.is_some_and(|previous| {
            previous.at_s < end_s && current.at_s > start_s && previous.restarted_before(&current)
        });
    }

    /// States what is known. `latest` is the latest reading of the series; `counted` says that it has a counter.
    pub(crate) fn close(
        mut self,
        latest: Option<Reading>,
        counted: bool,
        limits: Limits,
    ) -> (usize, Energy) {
        let (start_s, end_s) = (self.window.start_s(), self.window.end_s());
        if latest.is_none_or(|latest| latest.at_s < end_s) {
            self.widen_gap(latest, None, limits);
        }
        let verdict = self.verdict();
        let covered_s = match verdict {
            Verdict::Full => self.window.duration_s(),
            Verdict::Partial | Verdict::None => self.covered_s.total(),
        };
        let covered = |sum: f64| (verdict != Verdict::None).then_some(sum);
        let energy_j = self.energy_j.total();
        let (counter_energy_j, counter_disagreement) = self.counter_energy(verdict, counted);
        let energy = Energy {
            start_s,
            end_s,
            energy_j: covered(energy_j),
            covered_s,
            coverage: (covered_s / self.window.duration_s()).min(1.0),
            avg_w: covered(energy_j / covered_s),
            samples: self.readings.count(),
            largest_gap_s: self.largest_gap_s,
            min_w: self.readings.min(),
            max_w: self.readings.max(),
            p5_w: self.readings.quantile(0.05),
            p50_w: self.readings.quantile(0.50),
            p95_w: self.readings.quantile(0.95),
            p99_w: self.readings.quantile(0.99),
            percentiles_exact: self.readings.is_exact(),
            // The three sums are rounded each on its own, which must not turn their order around.
            energy_low_j: covered(self.low_j.total().min(energy_j)),
            energy_high_j: covered(self.high_j.total().max(energy_j)),
            counter_energy_j,
            counter_disagreement,
            verdict,
            reasons: self.reasons,
        };
        (self.index, energy)
    }

    /// Decides the verdict and notes why it is not full.
    fn verdict(&mut self) -> Verdict {
        let covered = self.covered_s.total() > 0.0;
        if !covered && self.readings.count() == 0 {
            self.note(Reason::NoReadings);
            return Verdict::None;
        }
        if !self.start_covered {
            self.note(Reason::StartNotCovered);
        }
        if !self.end_covered {
            self.note(Reason::EndNotCovered);
        }
        let whole = self.start_covered && self.end_covered && !self.reasons.contains(&Reason::Gap);
        match (covered, whole) {
            (true, true) => Verdict::Full,
            (true, false) => Verdict::Partial,
            (false, _) => Verdict::None,
        }
    }

    /// The counter's gain over the window, and how far the integrated power is from it.
    fn counter_energy(&mut self, verdict: Verdict, counted: bool) -> (Option<f64>, Option<f64>) {
        if self.counter.reset {
            self.note(Reason::CounterReset);
            return (None, None);
        }
        let (Some(start_j), Some(end_j)) = (self.counter.start_j, self.counter.end_j) else {
            if counted {
                self.note(Reason::CounterNotCovered);
            }
            return (None, None);
        };
        let counter_j = end_j - start_j;
        if verdict != Verdict::Full {
            return (Some(counter_j), None);
        }
        let difference_j = (counter_j - self.energy_j.total()).abs();
        if difference_j > COUNTER_DISAGREEMENT_MAX * counter_j {
            self.note(Reason::CounterDisagrees);
        }
        let fraction = difference_j / counter_j;
        (Some(counter_j), fraction.is_finite().then_some(fraction))
    }
}

/// The value at `at_s` on the line through two points of time and value.
fn line((from_s, from): (f64, f64), (to_s, to): (f64, f64), at_s: f64) -> f64 {
    if at_s == to_s {
        return to;
    }
    from + (to - from) * ((at_s - from_s) / (to_s - from_s))
}
