//! One window that is being integrated: what its readings have added up to so far.

use crate::counter_edges::CounterEdges;
use crate::energy::{COUNTER_DISAGREEMENT_MAX, Energy, Verdict};
use crate::limits::Limits;
use crate::quantiles::Quantiles;
use crate::reason::{Reason, Reasons};
use crate::sample::CounterSample;
use crate::trapezoid::{Integral, Reading, Trapezoid};
use crate::window::Window;

/// A window and its sums. Whoever holds it shows it every reading from its start on, each with the one before.
#[derive(Debug)]
pub(crate) struct OpenWindow {
    pub(crate) window: Window,
    index: usize,
    sums: Trapezoid,
    readings: Quantiles,
    largest_gap_s: f64,
    counter: CounterEdges,
    reasons: Reasons,
}

impl OpenWindow {
    pub(crate) fn new(index: usize, window: Window) -> OpenWindow {
        OpenWindow {
            window,
            index,
            sums: Trapezoid::new(window),
            readings: Quantiles::new(),
            largest_gap_s: 0.0,
            counter: CounterEdges::default(),
            reasons: Reasons::new(),
        }
    }

    pub(crate) fn note(&mut self, reason: Reason) {
        self.reasons.insert(reason);
    }

    /// Takes a reading that is later than `previous`, the one before it in the series.
    pub(crate) fn take(&mut self, previous: Option<Reading>, current: Reading, limits: Limits) {
        if self.window.contains(current.at_s) {
            self.readings.push(current.watts);
        }
        self.widen_gap(previous, Some(current), limits);
        if let Some(previous) = previous {
            self.sums.take(previous, current, limits);
        }
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
        self.counter.take(self.window, previous, current, limits);
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
        let integral = self.sums.integral();
        let verdict = self.verdict(integral);
        let covered_s = integral.map_or(0.0, |integral| integral.covered_s);
        let energy_j = integral.map(|integral| integral.energy_j);
        let (counter_energy_j, counter_disagreement) =
            self.counter_energy(energy_j.filter(|_| verdict == Verdict::Full), counted);
        let energy = Energy {
            start_s,
            end_s,
            energy_j,
            covered_s,
            coverage: (covered_s / self.window.duration_s()).min(1.0),
            avg_w: energy_j.map(|energy_j| energy_j / covered_s),
            samples: self.readings.count(),
            largest_gap_s: self.largest_gap_s,
            min_w: self.readings.min(),
            max_w: self.readings.max(),
            p5_w: self.readings.quantile(0.05),
            p50_w: self.readings.quantile(0.50),
            p95_w: self.readings.quantile(0.95),
            p99_w: self.readings.quantile(0.99),
            percentiles_exact: self.readings.is_exact(),
            energy_low_j: integral.map(|integral| integral.low_j),
            energy_high_j: integral.map(|integral| integral.high_j),
            counter_energy_j,
            counter_disagreement,
            verdict,
            reasons: self.reasons,
        };
        (self.index, energy)
    }

    /// Decides the verdict and notes why it is not full.
    fn verdict(&mut self, integral: Option<Integral>) -> Verdict {
        if integral.is_none() && self.readings.count() == 0 {
            self.note(Reason::NoReadings);
            return Verdict::None;
        }
        if self.sums.has_gap() {
            self.note(Reason::Gap);
        }
        if !self.sums.covers_start() {
            self.note(Reason::StartNotCovered);
        }
        if !self.sums.covers_end() {
            self.note(Reason::EndNotCovered);
        }
        match integral {
            Some(integral) if integral.is_full => Verdict::Full,
            Some(_) => Verdict::Partial,
            None => Verdict::None,
        }
    }

    /// The counter's gain over the window, and how far the energy of a full one is from it.
    fn counter_energy(&mut self, full_j: Option<f64>, counted: bool) -> (Option<f64>, Option<f64>) {
        if self.counter.restarted() {
            self.note(Reason::CounterReset);
            return (None, None);
        }
        let Some(counter_j) = self.counter.gain() else {
            if counted {
                self.note(Reason::CounterNotCovered);
            }
            return (None, None);
        };
        let Some(energy_j) = full_j else {
            return (Some(counter_j), None);
        };
        let difference_j = (counter_j - energy_j).abs();
        if difference_j > COUNTER_DISAGREEMENT_MAX * counter_j {
            self.note(Reason::CounterDisagrees);
        }
        let fraction = difference_j / counter_j;
        (Some(counter_j), fraction.is_finite().then_some(fraction))
    }
}
