//! The readings of one member on their way into windows.
//!
//! Each window holds its sums and, for a percentile, its readings; of those before it holds nothing. A window is open
//! from the first pair of neighbours that touches it until it is settled.

use std::collections::BTreeMap;

use crate::counter_edges::CounterEdges;
use crate::engine::clock::Moment;
use crate::engine::outcome::Given;
use crate::engine::plan::Gathers;
use crate::engine::series::number;
use crate::engine::stretches::{Places, Stretches};
use crate::limits::Limits;
use crate::quantiles::Quantiles;
use crate::sample::CounterSample;
use crate::state::State;
use crate::trapezoid::{Reading, Trapezoid};
use crate::window::Window;

/// A reading that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// What it came with: the number of its scrape, or of a rule's result its instant.
    pub(crate) turn: u64,
    pub(crate) at_s: f64,
    pub(crate) value: Result<f64, State>,
    pub(crate) since_s: Option<f64>,
}

/// The windows that readings go into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon<'a> {
    pub(crate) stretches: &'a Stretches,
    pub(crate) limits: Limits,
    /// The place of the first window that is not settled.
    pub(crate) settled: i64,
}

/// The member of one input.
#[derive(Debug)]
pub(crate) struct Stream {
    gathers: Gathers,
    zero_is_missing: bool,
    /// The reading that came last: whether it counts is known when its turn is over.
    pending: Option<Arrival>,
    pending_counts: bool,
    latest: Option<CounterSample>,
    /// The first window that was not opened yet.
    next: i64,
    /// By place.
    open: Vec<Gathering>,
    /// Named windows that no reading can reach any more; those with nothing in them are left out.
    closed: BTreeMap<i64, Measured>,
    /// Windows in which a reading lies, with a number or without.
    touched: Places,
}

/// A window that is open.
#[derive(Debug)]
struct Gathering {
    place: i64,
    window: Window,
    /// Readings with a number in it.
    readings: u64,
    sums: Sums,
}

#[derive(Debug)]
enum Sums {
    Power(Trapezoid, Kept),
    Counter(CounterEdges),
}

/// What is kept of the readings in a window beside their energy.
#[derive(Debug)]
enum Kept {
    Nothing,
    Least(f64),
    Greatest(f64),
    All(Quantiles, f64),
}

/// What a member gives over a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) given: Given,
    /// Readings with a number in the window, edges included.
    pub(crate) readings: u64,
}

impl Measured {
    const NOTHING: Measured = Measured { given: Given::missing(State::Unavailable), readings: 0 };
}

impl Stream {
    pub(crate) fn new(gathers: Gathers, zero_is_missing: bool) -> Stream {
        Stream {
            gathers,
            zero_is_missing,
            pending: None,
            pending_counts: false,
            latest: None,
            next: i64::MIN,
            open: Vec::new(),
            closed: BTreeMap::new(),
            touched: Places::default(),
        }
    }

    /// Takes a reading. Those of one turn follow each other; where there are several, none counts.
    pub(crate) fn take(&mut self, horizon: Horizon<'_>, arrival: Arrival) {
        if !horizon.stretches.are_named() {
            let moment = Moment::of(arrival.at_s);
            let first = horizon.stretches.first(moment).max(horizon.settled);
            self.touched.insert(first, horizon.stretches.last(moment));
        }
        if self.pending.is_some_and(|pending| pending.turn == arrival.turn) {
            self.pending_counts = false;
            return;
        }
        self.flush(horizon);
        self.pending = Some(arrival);
        self.pending_counts = true;
    }

    /// Gives the reading that waits to its windows.
    fn flush(&mut self, horizon: Horizon<'_>) {
        let Some(arrival) = self.pending.take().filter(|_| self.pending_counts) else { return };
        let Ok(value) = number(arrival.value, self.zero_is_missing) else { return };
        let at_s = arrival.at_s;
        let is_out_of_order = self.latest.is_some_and(|latest| at_s <= latest.at_s);
        if is_out_of_order || (self.gathers == Gathers::Counter && value < 0.0) {
            return;
        }
        self.open_until(horizon, Moment::of(at_s));
        let current = CounterSample { at_s, joules: value, since_s: arrival.since_s };
        let previous = self.latest.replace(current);
        for gathering in &mut self.open {
            gathering.take(previous, current, horizon.limits);
        }
        if horizon.stretches.are_named() {
            self.close_until(at_s);
        }
    }

    /// Opens every window that begins by now and is not settled: a window is open before anything that touches it is
    /// taken. There are few, as whoever takes a scrape settles before what the scrape settles.
    fn open_until(&mut self, horizon: Horizon<'_>, now: Moment) {
        let last = horizon.stretches.last(now);
        self.next = self.next.max(horizon.settled);
        while self.next <= last {
            if let Some(window) = horizon.stretches.window(self.next) {
                self.open.push(Gathering::new(self.next, window, self.gathers));
            }
            self.next += 1;
        }
    }

    fn close_until(&mut self, now_s: f64) {
        let closed = self.open.extract_if(.., |gathering| gathering.window.end_s() <= now_s);
        let measured = closed.map(|mut gathering| (gathering.place, gathering.measure()));
        self.closed.extend(measured.filter(|(_, measured)| measured.is_something()));
    }

    /// What it gives over a window.
    pub(crate) fn measure(&mut self, horizon: Horizon<'_>, place: i64) -> Measured {
        self.flush(horizon);
        if let Ok(at) = self.open.binary_search_by_key(&place, |gathering| gathering.place) {
            return self.open[at].measure();
        }
        self.closed.get(&place).copied().unwrap_or(Measured::NOTHING)
    }

    /// Whether a reading lies in an aligned window, with a number or without.
    pub(crate) fn touches(&self, place: i64) -> bool {
        self.touched.contains(place)
    }

    /// Forgets the windows before this place.
    pub(crate) fn release(&mut self, settled: i64) {
        let past = self.open.partition_point(|gathering| gathering.place < settled);
        self.open.drain(..past);
        self.touched.begin_at(settled);
    }
}

impl Gathering {
    fn new(place: i64, window: Window, gathers: Gathers) -> Gathering {
        let kept = match gathers {
            Gathers::Energy => Some(Kept::Nothing),
            Gathers::Least => Some(Kept::Least(f64::INFINITY)),
            Gathers::Greatest => Some(Kept::Greatest(f64::NEG_INFINITY)),
            Gathers::Quantile(quantile) => Some(Kept::All(Quantiles::new(), quantile)),
            Gathers::Counter => None,
        };
        let sums = match kept {
            Some(kept) => Sums::Power(Trapezoid::new(window), kept),
            None => Sums::Counter(CounterEdges::default()),
        };
        Gathering { place, window, readings: 0, sums }
    }

    fn take(&mut self, previous: Option<CounterSample>, current: CounterSample, limits: Limits) {
        let is_within = self.window.contains(current.at_s);
        self.readings += u64::from(is_within);
        match &mut self.sums {
            Sums::Counter(edges) => edges.take(self.window, previous, current, limits),
            Sums::Power(trapezoid, kept) => {
                let reading = |of: CounterSample| Reading { at_s: of.at_s, watts: of.joules };
                if let Some(previous) = previous {
                    trapezoid.take(reading(previous), reading(current), limits);
                }
                if is_within {
                    kept.take(current.joules);
                }
            }
        }
    }

    fn measure(&mut self) -> Measured {
        let given = match &mut self.sums {
            Sums::Counter(edges) => {
                let value = edges.gain().ok_or(State::Unavailable);
                let reports = value.is_ok() || edges.restarted();
                let covered = if reports { self.window.duration_s() } else { 0.0 };
                Given { value, bounds: None, covered, restarted: edges.restarted() }
            }
            Sums::Power(trapezoid, kept) => {
                let integral = trapezoid.integral();
                let energy = integral.map(|integral| integral.energy_j);
                let bounds = integral.map(|integral| (integral.low_j, integral.high_j));
                let covered = integral.map_or(0.0, |integral| integral.covered_s);
                let (value, bounds) = match kept {
                    Kept::Nothing => (energy, bounds),
                    _ => (kept.value().filter(|_| self.readings > 0), None),
                };
                Given { value: value.ok_or(State::Unavailable), bounds, covered, restarted: false }
            }
        };
        Measured { given, readings: self.readings }
    }
}

impl Kept {
    fn take(&mut self, value: f64) {
        match self {
            Kept::Nothing => {}
            Kept::Least(least) => *least = value.min(*least),
            Kept::Greatest(greatest) => *greatest = value.max(*greatest),
            Kept::All(quantiles, _) => {
                quantiles.push(value);
            }
        }
    }

    /// What the readings come to, of which there is one at least.
    fn value(&mut self) -> Option<f64> {
        match self {
            Kept::Nothing => None,
            Kept::Least(value) | Kept::Greatest(value) => Some(*value),
            Kept::All(quantiles, quantile) => quantiles.quantile(*quantile),
        }
    }
}

impl Measured {
    const fn is_something(&self) -> bool {
        self.readings > 0 || self.given.value.is_ok() || self.given.restarted
    }
}
