//! Whether a process grows: what it holds, looked at again and again, and judged once it is warm.
//!
//! The first quarter of the looks is the warm-up. What grows by itself lifts the last quarter above the second.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// What a process held at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// When, in seconds since the first.
    pub at_s: f64,
    /// What it was doing: threads and descriptors are compared within one phase.
    pub phase: String,
    /// Resident memory in KiB (`VmRSS`).
    pub rss_kib: u64,
    /// What of it is the process's own, and of no file (`RssAnon`), in KiB.
    pub anon_kib: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors.
    pub fds: u64,
}

/// A number that a look has of something.
type Count = fn(&Look) -> u64;

/// What the looks come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The median of resident memory in the second quarter, in KiB.
    pub second_kib: f64,
    /// What nine of ten looks of the second quarter stay below, in KiB: how far memory swings when nothing grows.
    pub swing_kib: f64,
    /// The median of the last quarter, in KiB.
    pub last_kib: f64,
    /// The slope of a straight line through the last three quarters, in KiB an hour.
    pub slope_kib_h: f64,
    /// What grew, one line each. Empty where nothing did.
    pub faults: Vec<String>,
}

impl Look {
    /// Looks at a process.
    ///
    /// # Errors
    /// As `/proc` has them (proc_pid_status(5)); `InvalidData` where a line is missing, as of a process that has ended.
    pub fn at(pid: u32, at_s: f64, phase: &str) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            let what = || format!("no {name} in /proc/{pid}/status");
            number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, what()))
        };
        Ok(Self {
            at_s,
            phase: phase.to_owned(),
            rss_kib: number("VmRSS")?,
            anon_kib: number("RssAnon")?,
            threads: number("Threads")?,
            fds: fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64,
        })
    }
}

/// Judges looks in the order of their times. Memory grew where the line through it climbs by more than `bound_kib_h`
/// and the median of the last quarter stands above what the second swings to; threads and descriptors where the median of
/// the last quarter is above that of the second, in the same phase. Fewer than four looks are a fault.
pub fn judge(looks: &[Look], bound_kib_h: f64) -> Growth {
    let quarter = |from: usize, to: usize| &looks[looks.len() * from / 4..looks.len() * to / 4];
    let (second, last, warm) = (quarter(1, 2), quarter(3, 4), quarter(1, 4));
    let mut growth = Growth {
        second_kib: quantile(sizes(second), 0.5),
        swing_kib: quantile(sizes(second), 0.9),
        last_kib: quantile(sizes(last), 0.5),
        slope_kib_h: slope_kib_s(warm) * 3600.0,
        faults: Vec::new(),
    };
    if looks.len() < 4 {
        growth.faults.push(format!("found {} looks, expected 4 and more", looks.len()));
    }
    if growth.slope_kib_h > bound_kib_h && growth.last_kib > growth.swing_kib {
        growth.faults.push(format!(
            "memory grows by {:.0} KiB an hour, expected {bound_kib_h:.0} at most: {:.0} KiB in the second quarter, {:.0} in the last",
            growth.slope_kib_h, growth.second_kib, growth.last_kib
        ));
    }
    let counts: [(&str, Count); 2] =
        [("threads", |look| look.threads), ("descriptors", |look| look.fds)];
    let phases: BTreeSet<&str> = looks.iter().map(|look| look.phase.as_str()).collect();
    for phase in phases {
        for (what, count) in counts {
            let usual = |looks: &[Look]| {
                let of_phase = looks.iter().filter(|look| look.phase == phase);
                quantile(of_phase.map(count).collect(), 0.5)
            };
            // Of a phase that one of them does not have, nothing is known: NaN is not above anything.
            let (before, after) = (usual(second), usual(last));
            if after > before {
                growth.faults.push(format!(
                    "{what} grow while {phase}: {before} in the second quarter, {after} in the last"
                ));
            }
        }
    }
    growth
}

fn sizes(looks: &[Look]) -> Vec<u64> {
    looks.iter().map(|look| look.rss_kib).collect()
}

/// What this part of the numbers stays at or below; NaN where there are none.
fn quantile(mut numbers: Vec<u64>, part: f64) -> f64 {
    numbers.sort_unstable();
    let place = (part * numbers.len().saturating_sub(1) as f64).round() as usize;
    numbers.get(place).map_or(f64::NAN, |number| *number as f64)
}

/// The slope of the straight line with the least squares, in KiB a second; NaN where all looks are of one time.
fn slope_kib_s(looks: &[Look]) -> f64 {
    let count = looks.len() as f64;
    let mean = |of: fn(&Look) -> f64| looks.iter().map(of).sum::<f64>() / count;
    let (mean_s, mean_kib) = (mean(|look| look.at_s), mean(|look| look.rss_kib as f64));
    let (mut both, mut square) = (0.0, 0.0);
    for look in looks {
        let from_mean_s = look.at_s - mean_s;
        both += from_mean_s * (look.rss_kib as f64 - mean_kib);
        square += from_mean_s * from_mean_s;
    }
    both / square
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of looks every ten seconds.
    fn hour(look: impl Fn(u32) -> (u64, u64, u64)) -> Vec<Look> {
        let one = |number: u32| {
            let (rss_kib, threads, fds) = look(number);
            let phase = if number % 20 < 12 { "acpi" } else { "dcgm" };
            let at_s = f64::from(number) * 10.0;
            Look { at_s, phase: phase.into(), rss_kib, anon_kib: 0, threads, fds }
        };
        (0..360).map(one).collect()
    }

    #[test]
    fn what_grows_is_told_and_nothing_else() {
        // A swing of 300 KiB, and phases of 14 and 9 threads.
        let swing = |n: u32| 6000 + u64::from(n * 7919 % 301);
        let threads = |n: u32| if n % 20 < 12 { 14 } else { 9 };
        let cases: [(&str, Vec<Look>, &[&str]); 6] = [
            ("steady", hour(|n| (swing(n), threads(n), 20)), &[]),
            ("a warm-up", hour(|n| (swing(n) + u64::from(n.min(80)) * 20, threads(n), 20)), &[]),
            (
                "3 KiB a second",
                hour(|n| (swing(n) + u64::from(n) * 30, threads(n), 20)),
                &["memory grows by 108"],
            ),
            (
                "a megabyte an hour",
                hour(|n| (swing(n) + u64::from(n) * 1024 / 360, threads(n), 20)),
                &["memory grows by 1"],
            ),
            (
                "a thread a round",
                hour(|n| (swing(n), threads(n) + u64::from(n / 20), 20)),
                &["threads grow while acpi", "threads grow while dcgm"],
            ),
            (
                "descriptors that come and go, and one that stays",
                hour(|n| (swing(n), threads(n), 20 + u64::from(n % 3) + u64::from(n > 200))),
                &["descriptors grow while acpi", "descriptors grow while dcgm"],
            ),
        ];
        for (what, looks, expected) in cases {
            let growth = judge(&looks, 512.0);
            assert_eq!(growth.faults.len(), expected.len(), "{what}: {growth:?}");
            for (fault, start) in growth.faults.iter().zip(expected) {
                assert!(fault.starts_with(start), "{what}: {growth:?}");
            }
        }
    }

    #[test]
    fn the_line_is_that_of_the_last_three_quarters() {
        let growth = judge(&hour(|n| (6000 + u64::from(n), 1, 1)), 512.0);
        assert!((growth.slope_kib_h - 360.0).abs() < 1e-6, "{growth:?}");
        assert_eq!((growth.second_kib, growth.last_kib), (6135.0, 6315.0));
        assert_eq!(growth.faults, Vec::<String>::new(), "below the bound");
    }

    #[test]
    fn too_few_looks_prove_nothing() {
        for count in 0..4 {
            let looks = &hour(|_| (1, 1, 1))[..count];
            assert_eq!(judge(looks, 512.0).faults.len(), 1, "{count} looks");
        }
        assert_eq!(judge(&hour(|_| (1, 1, 1))[..4], 512.0).faults, Vec::<String>::new());
    }

    #[test]
    fn a_look_is_at_this_process() {
        let look = Look::at(std::process::id(), 1.5, "test").unwrap();
        assert!(look.rss_kib >= look.anon_kib && look.anon_kib > 0, "{look:?}");
        assert!(look.threads >= 1 && look.fds >= 3, "{look:?}");
        assert_eq!((look.at_s, look.phase.as_str()), (1.5, "test"));
    }
}
