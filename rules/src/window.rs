//! A stretch of time over which energy is stated, and ordered lists of such stretches.
//!
//! Times are seconds of the Unix epoch as doubles, as the files carry them; around the present they resolve
//! [`TIME_RESOLUTION_S`].

use std::fmt;
use std::sync::Arc;

/// The distance of two neighbouring doubles at Unix times from 2004 to 2038: 2^-22 s, about a quarter microsecond.
pub const TIME_RESOLUTION_S: f64 = 1.0 / 4_194_304.0;

/// Below this many windows from the epoch every multiple of their length is a double of its own.
const MULTIPLES_MAX: f64 = (1_u64 << 52) as f64;

/// A stretch of time with a length above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    start_s: f64,
    end_s: f64,
}

impl Window {
    /// The window from `start_s` to `end_s`, both in Unix seconds and both part of it.
    ///
    /// # Errors
    /// When an edge is not finite, or the end is not after the start.
    pub fn new(start_s: f64, end_s: f64) -> Result<Window, WindowError> {
        if !start_s.is_finite() || !end_s.is_finite() {
            Err(WindowError::NotFinite { start_s, end_s })
        } else if end_s <= start_s {
            Err(WindowError::Reversed { start_s, end_s })
        } else {
            Ok(Window { start_s, end_s })
        }
    }

    /// The first moment, in Unix seconds.
    pub const fn start_s(self) -> f64 {
        self.start_s
    }

    /// The last moment, in Unix seconds.
    pub const fn end_s(self) -> f64 {
        self.end_s
    }

    /// The length in seconds.
    pub const fn duration_s(self) -> f64 {
        self.end_s - self.start_s
    }

    /// Whether a moment lies in the window; both edges do.
    pub const fn contains(self, at_s: f64) -> bool {
        self.start_s <= at_s && at_s <= self.end_s
    }
}

/// Windows in the order of their starts, each with its place in the list it came from. They may overlap.
#[derive(Clone, Debug)]
pub struct Windows(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Shared, as one list serves every series of a run.
    List { windows: Arc<[(usize, Window)]>, next: usize },
    /// `next` counts multiples of the length, a whole number below [`MULTIPLES_MAX`].
    Aligned { every_s: f64, to_s: f64, next: f64, index: usize },
}

impl Windows {
    /// The windows of a list in any order.
    pub fn list(windows: impl IntoIterator<Item = Window>) -> Windows {
        let mut windows: Vec<_> = windows.into_iter().enumerate().collect();
        windows.sort_by(|(_, a), (_, b)| a.start_s.total_cmp(&b.start_s));
        Windows(Source::List { windows: windows.into(), next: 0 })
    }

    /// Windows of `every_s` seconds that begin at multiples of it since the Unix epoch and lie whole within
    /// `from_s..=to_s`. A piece at either end that is shorter is left out. Neighbours share an edge to the bit.
    ///
    /// # Errors
    /// When a number is not finite, the length is not above zero or too short to be told apart at that time, or the end
    /// is not after the start. A stretch shorter than a window is no error: it has no windows.
    pub fn aligned(every_s: f64, from_s: f64, to_s: f64) -> Result<Windows, WindowError> {
        let stretch = Window::new(from_s, to_s)?;
        if !every_s.is_finite() || every_s <= 0.0 {
            return Err(WindowError::Length { every_s });
        }
        if stretch.start_s.abs().max(stretch.end_s.abs()) / every_s >= MULTIPLES_MAX {
            return Err(WindowError::Length { every_s });
        }
        // The quotient may have been rounded across a whole number: settle it by the product that makes the edges.
        let mut next = (from_s / every_s).ceil();
        if (next - 1.0) * every_s >= from_s {
            next -= 1.0;
        } else if next * every_s < from_s {
            next += 1.0;
        }
        Ok(Windows(Source::Aligned { every_s, to_s, next, index: 0 }))
    }
}

impl Iterator for Windows {
    type Item = (usize, Window);

    fn next(&mut self) -> Option<(usize, Window)> {
        match &mut self.0 {
            Source::List { windows, next } => {
                let window = windows.get(*next).copied();
                *next += 1;
                window
            }
            Source::Aligned { every_s, to_s, next, index } => {
                let (start_s, end_s) = (*next * *every_s, (*next + 1.0) * *every_s);
                if end_s > *to_s {
                    return None;
                }
                let numbered = (*index, Window { start_s, end_s });
                *next += 1.0;
                *index += 1;
                Some(numbered)
            }
        }
    }
}

/// Why a stretch of time is no window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowError {
    /// An edge is infinite or not a number.
    NotFinite {
        /// The start as given, in seconds.
        start_s: f64,
        /// The end as given, in seconds.
        end_s: f64,
    },
    /// The end is at or before the start.
    Reversed {
        /// The start as given, in seconds.
        start_s: f64,
        /// The end as given, in seconds.
        end_s: f64,
    },
    /// The length of aligned windows cannot be used.
    Length {
        /// The length as given, in seconds.
        every_s: f64,
    },
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowError::NotFinite { start_s, end_s } => {
                write!(f, "window from {start_s} s to {end_s} s, expected finite times")
            }
            WindowError::Reversed { start_s, end_s } => {
                write!(f, "window from {start_s} s to {end_s} s, expected an end after the start")
            }
            WindowError::Length { every_s } => {
                write!(
                    f,
                    "window length {every_s} s, expected a finite length above the resolution of time"
                )
            }
        }
    }
}

impl std::error::Error for WindowError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_window() {
        let cases = [(1.0, 1.0), (2.0, 1.0), (0.0, -0.0)];
        for (start_s, end_s) in cases {
            assert_eq!(
                Window::new(start_s, end_s),
                Err(WindowError::Reversed { start_s, end_s }),
                "{start_s}..{end_s}"
            );
        }
        for (start_s, end_s) in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::NEG_INFINITY, 0.0)] {
            assert!(matches!(Window::new(start_s, end_s), Err(WindowError::NotFinite { .. })));
        }
    }

    #[test]
    fn a_list_is_ordered_by_start_and_keeps_its_numbers() {
        let windows = [(5.0, 6.0), (1.0, 9.0), (5.0, 5.5), (0.0, 1.0)];
        let windows = windows.map(|(start_s, end_s)| Window::new(start_s, end_s).unwrap());
        let order: Vec<_> = Windows::list(windows).map(|(index, _)| index).collect();
        assert_eq!(order, [3, 1, 0, 2]);
    }

    #[test]
    fn aligned_windows() {
        type Edges = &'static [(f64, f64)];
        let cases: &[(f64, f64, f64, Edges)] = &[
            (60.0, 0.0, 120.0, &[(0.0, 60.0), (60.0, 120.0)]),
            (60.0, 0.1, 179.9, &[(60.0, 120.0)]),
            (60.0, 61.0, 119.0, &[]),
            (10.0, -15.0, 5.0, &[(-10.0, 0.0)]),
            // Multiples that a division rounds to the wrong side.
            (0.1, 0.3, 0.5, &[(0.30000000000000004, 0.4), (0.4, 0.5)]),
            (0.1, 0.30000000000000004, 0.4, &[(0.30000000000000004, 0.4)]),
            (900.0, 1_788_310_143.461, 1_788_311_800.0, &[(1_788_310_800.0, 1_788_311_700.0)]),
        ];
        for &(every_s, from_s, to_s, expected) in cases {
            let found: Vec<_> = Windows::aligned(every_s, from_s, to_s).unwrap().collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|&(start_s, end_s)| Window::new(start_s, end_s).unwrap())
                .enumerate()
                .collect();
            assert_eq!(found, expected, "every {every_s} in {from_s}..{to_s}");
        }
        for every_s in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-7] {
            let found = Windows::aligned(every_s, 1_788_310_143.0, 1_788_310_153.0);
            assert!(matches!(found, Err(WindowError::Length { .. })), "{every_s}");
        }
        assert!(Windows::aligned(1.0, 5.0, 5.0).is_err());
    }
}
