//! Energy of a window from readings of power or of a counter, all of them at hand.

use super::number::sum;

/// The step of a double at Unix times of our days, in seconds.
const STEP_S: f64 = 1.0 / 4_194_304.0;

/// A window in Unix seconds, and how far apart neighbours may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub start_s: f64,
    pub end_s: f64,
    pub gap_s: f64,
}

impl Stretch {
    pub(crate) fn length_s(&self) -> f64 {
        self.end_s - self.start_s
    }

    pub(crate) fn holds(&self, at_s: f64) -> bool {
        self.start_s <= at_s && at_s <= self.end_s
    }

    fn bridges(&self, from_s: f64, to_s: f64) -> bool {
        to_s - from_s <= self.gap_s + STEP_S
    }
}

/// A number at a time; for a counter, since when it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub at_s: f64,
    pub value: f64,
    pub since_s: Option<f64>,
}

/// The energy of what is covered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Energy {
    pub joules: f64,
    pub low: f64,
    pub high: f64,
    pub covered_s: f64,
    pub whole: bool,
}

/// Those that are later than all before them.
pub(crate) fn in_order(points: &[Point]) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|last| point.at_s > last.at_s) {
            kept.push(*point);
        }
    }
    kept
}

/// The energy of power; `None` when nothing is covered. The points are in order.
pub(crate) fn energy(points: &[Point], window: Stretch) -> Option<Energy> {
    let (mut joules, mut low, mut high, mut covered) = (vec![], vec![], vec![], vec![]);
    let mut broken = false;
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if to.at_s <= window.start_s || from.at_s >= window.end_s {
            continue;
        }
        if !window.bridges(from.at_s, to.at_s) {
            broken = true;
            continue;
        }
        let (a, b) = (from.at_s.max(window.start_s), to.at_s.min(window.end_s));
        joules.push((line(from, to, a) + line(from, to, b)) / 2.0 * (b - a));
        low.push(from.value.min(to.value) * (b - a));
        high.push(from.value.max(to.value) * (b - a));
        covered.push(b - a);
    }
    let whole = !broken
        && points.first().is_some_and(|first| first.at_s <= window.start_s)
        && points.last().is_some_and(|last| last.at_s >= window.end_s);
    let covered_s = if whole { window.length_s() } else { sum(&covered) };
    let joules = sum(&joules);
    let (low, high) = (sum(&low).min(joules), sum(&high).max(joules));
    (sum(&covered) > 0.0).then_some(Energy { joules, low, high, covered_s, whole })
}

/// What a counter did over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gain {
    Joules(f64),
    BeganAnew,
    Unknown,
}

/// What a counter gained. The points are in order.
pub(crate) fn gain(points: &[Point], window: Stretch) -> Gain {
    let anew = points.windows(2).any(|pair| {
        let (from, to) = (pair[0], pair[1]);
        let told = from.since_s.is_some() && to.since_s.is_some() && from.since_s != to.since_s;
        from.at_s < window.end_s && to.at_s > window.start_s && (to.value < from.value || told)
    });
    if anew {
        return Gain::BeganAnew;
    }
    match (counter_at(points, window, window.start_s), counter_at(points, window, window.end_s)) {
        (Some(start), Some(end)) => Gain::Joules(end - start),
        _ => Gain::Unknown,
    }
}

fn counter_at(points: &[Point], window: Stretch, edge_s: f64) -> Option<f64> {
    if let Some(exact) = points.iter().find(|point| point.at_s == edge_s) {
        return Some(exact.value);
    }
    let pair = points.windows(2).find(|pair| pair[0].at_s < edge_s && edge_s < pair[1].at_s)?;
    window.bridges(pair[0].at_s, pair[1].at_s).then(|| line(pair[0], pair[1], edge_s))
}

fn line(from: Point, to: Point, at_s: f64) -> f64 {
    if at_s == to.at_s {
        return to.value;
    }
    from.value + (to.value - from.value) * ((at_s - from.at_s) / (to.at_s - from.at_s))
}
