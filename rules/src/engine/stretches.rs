//! The windows of one kind by their place: which touch a stretch of time, and which of them anything happened in.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::clock::{Moment, seconds, whole_us};
use crate::engine::derived::Derived;
use crate::engine::plan::NamedWindow;
use crate::rule::Over;
use crate::window::Window;

/// Windows of one kind, numbered.
#[derive(Debug)]
pub(crate) enum Stretches {
    /// The window at place n begins at n times `every_us`.
    Aligned { every_us: i64, length_us: i64 },
    /// In the order of their starts, then of their ends and names; each once.
    Named(Vec<NamedWindow>),
}

impl Stretches {
    pub(crate) fn of(over: Over, named: &[NamedWindow]) -> Stretches {
        match over {
            Over::Aligned { every, length } => Stretches::Aligned {
                every_us: whole_us(every).max(1),
                length_us: whole_us(length).max(1),
            },
            Over::Named => {
                // To whole microseconds, as results state them.
                let whole = |named: &NamedWindow| {
                    let (start_s, end_s) = (named.window.start_s(), named.window.end_s());
                    let whole_s = |at_s| seconds(Moment::nearest_us(at_s));
                    let window = Window::new(whole_s(start_s), whole_s(end_s)).ok()?;
                    Some(NamedWindow { name: Arc::clone(&named.name), window })
                };
                let mut named: Vec<NamedWindow> = named.iter().filter_map(whole).collect();
                named.sort_by(in_order);
                named.dedup();
                Stretches::Named(named)
            }
        }
    }

    pub(crate) const fn are_named(&self) -> bool {
        matches!(self, Stretches::Named(_))
    }

    /// The window at a place.
    pub(crate) fn window(&self, place: i64) -> Option<Window> {
        match self {
            Stretches::Aligned { every_us, length_us } => {
                let start_us = place.checked_mul(*every_us)?;
                Window::new(seconds(start_us), seconds(start_us.checked_add(*length_us)?)).ok()
            }
            Stretches::Named(named) => {
                named.get(usize::try_from(place).ok()?).map(|named| named.window)
            }
        }
    }

    /// The name of the window at a place.
    pub(crate) fn name(&self, place: i64) -> Option<&Arc<str>> {
        match self {
            Stretches::Aligned { .. } => None,
            Stretches::Named(named) => {
                named.get(usize::try_from(place).ok()?).map(|named| &named.name)
            }
        }
    }

    /// The place of the window that a result is of.
    pub(crate) fn place_of(&self, result: &Derived) -> Option<i64> {
        let start_us = result.start_us?;
        match self {
            Stretches::Aligned { every_us, .. } => Some(start_us.div_euclid(*every_us)),
            Stretches::Named(named) => {
                let window = Window::new(seconds(start_us), seconds(result.at_us)).ok()?;
                let of = NamedWindow { name: Arc::clone(result.window.as_ref()?), window };
                i64::try_from(named.binary_search_by(|named| in_order(named, &of)).ok()?).ok()
            }
        }
    }

    /// Where aligned windows end.
    pub(crate) fn end_us(&self, place: i64) -> Option<i64> {
        match self {
            Stretches::Aligned { every_us, length_us } => {
                place.checked_mul(*every_us)?.checked_add(*length_us)
            }
            Stretches::Named(_) => None,
        }
    }

    /// The place of the first window that does not end before a moment. Named ones all may.
    pub(crate) fn first(&self, moment: Moment) -> i64 {
        match self {
            Stretches::Aligned { every_us, length_us } => {
                let start_us = moment.ceil_us.saturating_sub(*length_us);
                -(start_us.saturating_neg().div_euclid(*every_us))
            }
            Stretches::Named(_) => 0,
        }
    }

    /// The place of the last window that begins at or before a moment.
    pub(crate) fn last(&self, moment: Moment) -> i64 {
        match self {
            Stretches::Aligned { every_us, .. } => moment.floor_us.div_euclid(*every_us),
            Stretches::Named(named) => {
                let begun = |named: &NamedWindow| {
                    Moment::of(named.window.start_s()).ceil_us <= moment.floor_us
                };
                // The list is never longer than memory.
                named.partition_point(begun) as i64 - 1
            }
        }
    }
}

/// How named windows follow each other.
pub(crate) fn in_order(a: &NamedWindow, b: &NamedWindow) -> Ordering {
    let edges = |named: &NamedWindow| (named.window.start_s(), named.window.end_s());
    let ((a_start_s, a_end_s), (b_start_s, b_end_s)) = (edges(a), edges(b));
    let by_time = a_start_s.total_cmp(&b_start_s).then(a_end_s.total_cmp(&b_end_s));
    by_time.then_with(|| a.name.cmp(&b.name))
}

/// A set of places that grows at its end and shrinks at its beginning.
#[derive(Debug, Default)]
pub(crate) struct Places {
    sorted: VecDeque<i64>,
    /// The range that was put in last: mostly the next one is the same.
    latest: Option<(i64, i64)>,
}

impl Places {
    pub(crate) fn insert(&mut self, first: i64, last: i64) {
        if self.latest == Some((first, last)) {
            return;
        }
        self.latest = Some((first, last));
        for place in first..=last {
            if self.sorted.back().is_none_or(|back| *back < place) {
                self.sorted.push_back(place);
            } else if let Err(at) = self.sorted.binary_search(&place) {
                self.sorted.insert(at, place);
            }
        }
    }

    pub(crate) fn contains(&self, place: i64) -> bool {
        self.sorted.binary_search(&place).is_ok()
    }

    /// Forgets what lies before a place.
    pub(crate) fn begin_at(&mut self, place: i64) {
        while self.sorted.front().is_some_and(|front| *front < place) {
            self.sorted.pop_front();
        }
        // A later range may reach back to what was forgotten, so it is not taken for this one.
        if self.latest.is_some_and(|(first, _)| first < place) {
            self.latest = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_touch_a_stretch() {
        let minutes = Stretches::Aligned { every_us: 60_000_000, length_us: 60_000_000 };
        let sliding = Stretches::Aligned { every_us: 60_000_000, length_us: 300_000_000 };
        // Both edges belong to a window.
        let cases = [
            (&minutes, 30.0, 30.0, (0, 0)),
            (&minutes, 60.0, 60.0, (0, 1)),
            (&minutes, 60.000_000_1, 60.000_000_1, (1, 1)),
            (&minutes, 59.999_999_9, 59.999_999_9, (0, 0)),
            (&minutes, 59.0, 121.0, (0, 2)),
            (&minutes, -1.0, -1.0, (-1, -1)),
            (&sliding, 310.0, 310.0, (1, 5)),
            (&sliding, 300.0, 300.0, (0, 5)),
        ];
        for (stretches, from_s, to_s, expected) in cases {
            let found = (stretches.first(Moment::of(from_s)), stretches.last(Moment::of(to_s)));
            assert_eq!(found, expected, "{from_s} to {to_s}");
        }
        assert_eq!(sliding.window(-1), Window::new(-60.0, 240.0).ok());
    }

    #[test]
    fn places_stay_sorted() {
        let mut places = Places::default();
        for (first, last) in [(5, 6), (5, 6), (8, 8), (6, 7), (2, 2)] {
            places.insert(first, last);
        }
        assert_eq!(places.sorted, [2, 5, 6, 7, 8]);
        assert!(places.contains(7) && !places.contains(3));
        places.begin_at(6);
        assert_eq!(places.sorted, [6, 7, 8]);
        places.insert(2, 2);
        assert_eq!(places.sorted, [2, 6, 7, 8]);
    }
}
