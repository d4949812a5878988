//! How far a counter moved between two reads, and its total over wraps and restarts.
//!
//! A smaller value than before has four explanations: the counter wrapped at its range, it restarted, the source
//! corrected itself by a hair, or the read is wrong. Taking one for another invents or loses whole ranges of energy,
//! so a step is believed only when the device could have made it in the time that passed. Ticks are whatever unit the
//! counter has; the kernel's powercap files count microjoules.

/// The shortest time between two reads that makes a step, in seconds.
///
/// Running-average-power-limit counters are refreshed about every millisecond, so that over ten of them the refresh is
/// at most a tenth of the step. Closer reads measure the refresh and not the power.
pub const MIN_INTERVAL_S: f64 = 0.010;

/// One read of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterRead {
    /// When it was read, in seconds of a monotonic clock.
    pub at_s: f64,
    /// The counter in its ticks.
    pub value: u64,
}

/// What happened between two reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no read before this one.
    First,
    /// The counter grew by this many ticks (or stood still: zero).
    Increase(u64),
    /// The counter passed its range once and moved this many ticks in all.
    Wrapped(u64),
    /// The counter fell by this many ticks, too few for a restart: a correction by the source. It is no energy.
    Backward(u64),
    /// The counter restarted near zero: what it held between the reads is unknown.
    Reset,
    /// So much time passed that the counter may have wrapped unseen, once or more often.
    Ambiguous,
    /// The device cannot have done this in the time, or the value lies beyond the counter's range.
    Implausible,
    /// The reads are closer than [`MIN_INTERVAL_S`], not in order of time, or not finite in time: there is no step.
    TooShort,
}

impl Step {
    /// The ticks that may be added to a total, where the step tells them.
    pub const fn ticks(self) -> Option<u64> {
        match self {
            Step::Increase(ticks) | Step::Wrapped(ticks) => Some(ticks),
            Step::First
            | Step::Backward(_)
            | Step::Reset
            | Step::Ambiguous
            | Step::Implausible
            | Step::TooShort => None,
        }
    }
}

/// Judges the step from `previous` to `current`.
///
/// `range` is the largest value of this very counter (`max_energy_range_uj` of the same powercap zone: zones differ),
/// or `None` when it is not known, in which case no wrap is ever assumed. `max_rate` is the most ticks per second that
/// the device can deliver.
pub fn step(
    previous: CounterRead,
    current: CounterRead,
    range: Option<u64>,
    max_rate: f64,
) -> Step {
    let elapsed_s = current.at_s - previous.at_s;
    if !elapsed_s.is_finite() || elapsed_s < MIN_INTERVAL_S {
        return Step::TooShort;
    }
    if range.is_some_and(|range| previous.value.max(current.value) > range) {
        return Step::Implausible;
    }
    let deliverable = max_rate * elapsed_s;
    let plausible = |ticks: u64| ticks as f64 <= deliverable;
    let wrapped_again =
        |ticks: u64| range.is_some_and(|range| plausible(ticks.saturating_add(range)));

    if let Some(ticks) = current.value.checked_sub(previous.value) {
        return match plausible(ticks) {
            true if wrapped_again(ticks) => Step::Ambiguous,
            true => Step::Increase(ticks),
            false => Step::Implausible,
        };
    }

    let fallen = previous.value - current.value;
    let correction = fallen < current.value && fallen as f64 <= max_rate * MIN_INTERVAL_S;
    match range.map(|range| range - fallen).filter(|ticks| plausible(*ticks)) {
        Some(ticks) if correction || wrapped_again(ticks) => Step::Ambiguous,
        Some(ticks) => Step::Wrapped(ticks),
        None if correction => Step::Backward(fallen),
        None if plausible(current.value) => Step::Reset,
        None => Step::Implausible,
    }
}

/// The total of a counter since the first read, corrected for wraps, and how often it had to begin anew.
///
/// The total never falls. It is complete within an epoch; between two epochs some ticks are unknown and are not in it,
/// so a caller that needs an unbroken total compares [`Epochs::epochs`] before and after.
#[derive(Clone, Debug)]
pub struct Epochs {
    range: Option<u64>,
    max_rate: f64,
    baseline: Option<CounterRead>,
    doubted: bool,
    total: u64,
    wraps: u64,
    epochs: u64,
}

impl Epochs {
    /// A total of a counter with this `range` and `max_rate`, as for [`step`].
    pub const fn new(range: Option<u64>, max_rate: f64) -> Epochs {
        Epochs { range, max_rate, baseline: None, doubted: false, total: 0, wraps: 0, epochs: 0 }
    }

    /// Takes one read and says what it was.
    ///
    /// One implausible read is passed over: the next is compared with the last good one, so that a single wild value
    /// costs nothing. A second in a row means that the counter really is elsewhere, and begins a new epoch there.
    pub fn push(&mut self, read: CounterRead) -> Step {
        let Some(baseline) = self.baseline else {
            return self.first(read);
        };
        let step = step(baseline, read, self.range, self.max_rate);
        match step {
            Step::Increase(ticks) => self.advance(read, ticks),
            Step::Wrapped(ticks) => {
                self.advance(read, ticks);
                self.wraps += 1;
            }
            Step::Reset | Step::Ambiguous => self.begin(read),
            Step::Implausible if self.doubted && self.in_range(read) => self.begin(read),
            Step::Implausible => self.doubted = true,
            Step::First | Step::Backward(_) | Step::TooShort => {}
        }
        step
    }

    /// Begins a new epoch at `read` without a step to it: for a caller that knows of a break, such as a host that
    /// slept between two reads. A read outside the range is no baseline and leaves none.
    pub fn rearm(&mut self, read: CounterRead) {
        self.baseline = None;
        self.first(read);
    }

    /// The read that the next step is measured from. After an implausible read it is older than the last one.
    pub const fn baseline(&self) -> Option<CounterRead> {
        self.baseline
    }

    /// Ticks since the first read, as far as they are known.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// How often the counter passed its range.
    pub const fn wraps(&self) -> u64 {
        self.wraps
    }

    /// Of how many unbroken stretches the total is made; 0 before the first read.
    pub const fn epochs(&self) -> u64 {
        self.epochs
    }

    fn first(&mut self, read: CounterRead) -> Step {
        if !self.in_range(read) {
            return Step::Implausible;
        }
        if !read.at_s.is_finite() {
            return Step::TooShort;
        }
        self.begin(read);
        Step::First
    }

    fn in_range(&self, read: CounterRead) -> bool {
        self.range.is_none_or(|range| read.value <= range)
    }

    fn begin(&mut self, read: CounterRead) {
        self.baseline = Some(read);
        self.doubted = false;
        self.epochs += 1;
    }

    fn advance(&mut self, read: CounterRead, ticks: u64) {
        self.baseline = Some(read);
        self.doubted = false;
        // In microjoules the total lasts a kilowatt for five centuries; if it ever ends it must not fall.
        self.total = self.total.saturating_add(ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::Step::*;
    use super::*;

    /// The two ranges that running-average-power-limit zones commonly have, in microjoules.
    const WIDE: u64 = 262_143_328_850;
    const NARROW: u64 = 65_532_610_987;
    /// 1 kW in microjoules per second.
    const KILOWATT: f64 = 1e9;

    fn read(at_s: f64, value: u64) -> CounterRead {
        CounterRead { at_s, value }
    }

    #[test]
    fn steps() {
        let cases: &[(u64, u64, f64, Option<u64>, Step)] = &[
            // Plain growth, standing still, and the fastest growth that is possible.
            (1_000, 501_000, 1.0, Some(WIDE), Increase(500_000)),
            (7, 7, 1.0, None, Increase(0)),
            (0, 1_000_000_000, 1.0, None, Increase(1_000_000_000)),
            (0, 1_000_000_001, 1.0, None, Implausible),
            // A wrap at the counter's own range; the same values are no wrap at another's, or at none.
            (262_143_328_000, 1_000, 1.0, Some(WIDE), Wrapped(1_850)),
            (65_532_610_000, 999_013, 1.0, Some(NARROW), Wrapped(1_000_000)),
            (65_532_610_000, 999_013, 1.0, Some(WIDE), Reset),
            (65_532_610_000, 999_013, 1.0, None, Reset),
            (WIDE, 0, 1.0, Some(WIDE), Wrapped(0)),
            (WIDE - 500_000_000, 500_000_000, 1.0, Some(WIDE), Wrapped(1_000_000_000)),
            (WIDE - 500_000_000, 500_000_001, 1.0, Some(WIDE), Reset),
            // Restarts: near zero, and too far from the range to be a wrap.
            (150_000_000_000, 0, 1.0, Some(WIDE), Reset),
            (150_000_000_000, 1_000_000_000, 1.0, Some(WIDE), Reset),
            (150_000_000_000, 1_000_000_001, 1.0, Some(WIDE), Implausible),
            (5_000_000, 100_000, 1.0, Some(WIDE), Reset),
            // Corrections by the source.
            (150_000_000_000, 149_999_999_939, 1.0, Some(WIDE), Backward(61)),
            (150_000_000_000, 149_990_000_000, 1.0, None, Backward(10_000_000)),
            (150_000_000_000, 149_989_999_999, 1.0, None, Implausible),
            (1, 0, 1.0, None, Reset),
            // Gaps long enough to hide a wrap.
            (10, 20, 262.0, Some(WIDE), Increase(10)),
            (10, 20, 263.0, Some(WIDE), Ambiguous),
            (10, 20, 263.0, None, Increase(10)),
            (WIDE, 0, 263.0, Some(WIDE), Ambiguous),
            (150_000_000_000, 149_999_999_939, 263.0, Some(WIDE), Ambiguous),
            // Values beyond the range.
            (10, WIDE + 1, 1e9, Some(WIDE), Implausible),
            (WIDE + 1, 10, 1.0, Some(WIDE), Implausible),
            (0, u64::MAX, 1.0, None, Implausible),
            (u64::MAX, 0, 1.0, Some(u64::MAX), Wrapped(0)),
            // No time between the reads.
            (1_000, 2_000, 0.0, None, TooShort),
            (1_000, 2_000, -1.0, None, TooShort),
            (1_000, 2_000, 0.0005, None, TooShort),
            (1_000, 2_000, MIN_INTERVAL_S, None, Increase(1_000)),
            (1_000, 2_000, f64::NAN, None, TooShort),
            (1_000, 2_000, f64::INFINITY, None, TooShort),
        ];
        for &(previous, current, elapsed_s, range, expected) in cases {
            assert_eq!(
                step(read(0.0, previous), read(elapsed_s, current), range, KILOWATT),
                expected,
                "{previous} -> {current} in {elapsed_s} s, range {range:?}"
            );
        }
    }

    #[test]
    fn without_a_rate_nothing_is_plausible() {
        for max_rate in [f64::NAN, -1.0] {
            assert_eq!(step(read(0.0, 0), read(1.0, 1), Some(WIDE), max_rate), Implausible);
        }
    }

    /// Pushes reads one second apart and compares each step, then total, wraps and epochs.
    fn check(range: Option<u64>, reads: &[(u64, Step)], (total, wraps, epochs): (u64, u64, u64)) {
        let mut counter = Epochs::new(range, KILOWATT);
        for (second, &(value, expected)) in reads.iter().enumerate() {
            let before = counter.total();
            assert_eq!(counter.push(read(second as f64, value)), expected, "read {second}");
            assert!(counter.total() >= before, "the total fell at read {second}");
        }
        assert_eq!((counter.total(), counter.wraps(), counter.epochs()), (total, wraps, epochs));
    }

    #[test]
    fn totals() {
        check(Some(WIDE), &[], (0, 0, 0));
        check(
            Some(WIDE),
            &[(262_143_328_000, First), (1_000, Wrapped(1_850)), (2_000, Increase(1_000))],
            (2_850, 1, 1),
        );
        check(
            Some(NARROW),
            &[(NARROW - 100, First), (400, Wrapped(500)), (900, Increase(500))],
            (1_000, 1, 1),
        );
        // A single wild value costs nothing.
        check(
            Some(WIDE),
            &[(1_000, First), (200_000_000_000, Implausible), (3_000, Increase(2_000))],
            (2_000, 0, 1),
        );
        // A counter that really is elsewhere is followed from the second read on.
        check(
            None,
            &[
                (0, First),
                (9_000_000_000, Implausible),
                (9_000_000_100, Implausible),
                (9_000_000_300, Increase(200)),
            ],
            (200, 0, 2),
        );
        // A restart begins an epoch; what was counted before it stays.
        check(
            Some(WIDE),
            &[
                (150_000_000_000, First),
                (150_000_000_500, Increase(500)),
                (40, Reset),
                (90, Increase(50)),
            ],
            (550, 0, 2),
        );
        // A correction neither adds nor takes: the ticks up to the old value are not counted twice.
        check(
            Some(WIDE),
            &[(5_000_000, First), (4_999_000, Backward(1_000)), (5_002_000, Increase(2_000))],
            (2_000, 0, 1),
        );
        // A value beyond the range never becomes the base of anything.
        check(
            Some(100),
            &[(101, Implausible), (10, First), (101, Implausible), (101, Implausible)],
            (0, 0, 1),
        );
    }

    #[test]
    fn a_read_too_soon_is_left_to_the_next() {
        let mut counter = Epochs::new(Some(WIDE), KILOWATT);
        assert_eq!(counter.push(read(f64::NAN, 1)), TooShort);
        assert_eq!(counter.push(read(0.0, 1_000)), First);
        assert_eq!(counter.push(read(0.0005, 1_900)), TooShort);
        assert_eq!(counter.push(read(1.0, 2_000)), Increase(1_000));
        assert_eq!((counter.total(), counter.epochs()), (1_000, 1));
    }

    #[test]
    fn a_long_gap_begins_an_epoch() {
        let mut counter = Epochs::new(Some(NARROW), KILOWATT);
        counter.push(read(0.0, 0));
        assert_eq!(counter.push(read(60.0, 30_000_000_000)), Increase(30_000_000_000));
        assert_eq!(counter.push(read(600.0, 31_000_000_000)), Ambiguous);
        assert_eq!(counter.push(read(601.0, 31_000_000_007)), Increase(7));
        assert_eq!((counter.total(), counter.epochs()), (30_000_000_007, 2));
    }

    proptest::proptest! {
        /// Whatever a real device of less than a kilowatt does, read often enough, is counted to the tick.
        #[test]
        fn a_wrapping_counter_is_counted_exactly(
            start in 0..NARROW,
            steps in proptest::collection::vec(0_u64..50_000_000_000, 1..40),
        ) {
            let mut counter = Epochs::new(Some(NARROW), KILOWATT);
            let (mut at_s, mut truth) = (0.0, 0);
            counter.push(read(at_s, start));
            for ticks in steps {
                // The least time that this step takes at a kilowatt, and a little more.
                at_s += ticks as f64 / KILOWATT + 0.02;
                truth += ticks;
                let value = (start + truth) % NARROW;
                counter.push(read(at_s, value));
            }
            proptest::prop_assert_eq!(counter.total(), truth);
            proptest::prop_assert_eq!(counter.epochs(), 1);
        }
    }
}
