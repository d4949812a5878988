//! Sums over the members of a node or a fleet. A partial sum is not a sum: it is withheld, and says how many are missing.
//!
//! The members must measure one boundary, each a different thing: see [`may_add`](crate::boundary::may_add).

use std::fmt;

use crate::compensated::Compensated;
use crate::energy::{Energy, Verdict};
use crate::reason::Reasons;

/// How many members a sum covers of how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// Members that should report.
    pub expected: usize,
    /// Members that did.
    pub reporting: usize,
}

/// A sum of one moment's readings, in their unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    /// The sum when every member reported; `None` otherwise, and for no members at all.
    pub value: Option<f64>,
    /// How many did.
    pub members: Members,
}

/// Adds one reading of each expected member. A value that is not finite counts as not reported.
pub fn total(parts: &[Option<f64>]) -> Sum {
    let reported: Vec<f64> = parts.iter().flatten().copied().filter(|v| v.is_finite()).collect();
    let members = Members { expected: parts.len(), reporting: reported.len() };
    let whole = !parts.is_empty() && members.reporting == members.expected;
    let sum = whole.then(|| reported.into_iter().collect::<Compensated>().total());
    Sum { value: sum, members }
}

/// The energy of several members over one window.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetEnergy {
    /// The start of the window in Unix seconds.
    pub start_s: f64,
    /// The end of the window in Unix seconds.
    pub end_s: f64,
    /// The sum of what each member's readings cover, in joules. `None` when a member has nothing to state.
    pub energy_j: Option<f64>,
    /// The sum of the members' lower energies, in joules.
    pub energy_low_j: Option<f64>,
    /// The sum of the members' higher energies, in joules.
    pub energy_high_j: Option<f64>,
    /// Members whose window is covered from edge to edge.
    pub members_full: usize,
    /// Members that have some energy to state, `members_full` among them.
    pub members_reporting: usize,
    /// All members.
    pub members_expected: usize,
    /// The member-seconds that are covered, as a fraction of all; exactly 1 when every member is full.
    pub coverage: f64,
    /// Full when every member is full, none when a member has no energy, partial otherwise.
    pub verdict: Verdict,
    /// The reasons of all members together.
    pub reasons: Reasons,
}

impl FleetEnergy {
    /// The average power in watts, when every member is full: members that cover different times have none together.
    pub fn avg_w(&self) -> Option<f64> {
        let is_full = self.verdict == Verdict::Full;
        self.energy_j.filter(|_| is_full).map(|joules| joules / (self.end_s - self.start_s))
    }
}

/// Adds the energies of all expected members; one that never reported takes part with a verdict of none.
///
/// # Errors
/// Without members, and when their windows are not one and the same.
pub fn sum_energy(members: &[Energy]) -> Result<FleetEnergy, SumError> {
    let first = members.first().ok_or(SumError::NoMembers)?;
    let (start_s, end_s) = (first.start_s, first.end_s);
    if let Some(other) = members.iter().find(|m| (m.start_s, m.end_s) != (start_s, end_s)) {
        let found_s = (other.start_s, other.end_s);
        return Err(SumError::WindowsDiffer { expected_s: (start_s, end_s), found_s });
    }
    let full = members.iter().filter(|member| member.verdict == Verdict::Full).count();
    let reporting = members.iter().filter(|member| member.verdict != Verdict::None).count();
    let verdict = match members.len() {
        expected if full == expected => Verdict::Full,
        expected if reporting == expected => Verdict::Partial,
        _ => Verdict::None,
    };
    let sum =
        |of: fn(&Energy) -> Option<f64>| total(&members.iter().map(of).collect::<Vec<_>>()).value;
    let covered_s: Compensated = members.iter().map(|member| member.covered_s).collect();
    let member_seconds = (end_s - start_s) * members.len() as f64;
    Ok(FleetEnergy {
        start_s,
        end_s,
        energy_j: sum(|member| member.energy_j),
        energy_low_j: sum(|member| member.energy_low_j),
        energy_high_j: sum(|member| member.energy_high_j),
        members_full: full,
        members_reporting: reporting,
        members_expected: members.len(),
        coverage: match verdict {
            Verdict::Full => 1.0,
            Verdict::Partial | Verdict::None => (covered_s.total() / member_seconds).min(1.0),
        },
        verdict,
        reasons: members.iter().flat_map(|member| &member.reasons).copied().collect(),
    })
}

/// Why energies are no sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SumError {
    /// There is nothing to add.
    NoMembers,
    /// Two members' energies are of different windows.
    WindowsDiffer {
        /// Start and end of the first member's window in Unix seconds.
        expected_s: (f64, f64),
        /// Start and end of the first window that differs.
        found_s: (f64, f64),
    },
}

impl fmt::Display for SumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SumError::NoMembers => f.write_str("no members to add, expected at least one"),
            SumError::WindowsDiffer { expected_s, found_s } => write!(
                f,
                "member's window is {} s to {} s, expected {} s to {} s as of the first",
                found_s.0, found_s.1, expected_s.0, expected_s.1
            ),
        }
    }
}

impl std::error::Error for SumError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;
    use crate::{Integrator, Limits, Sample, Window, Windows};

    #[test]
    fn totals() {
        type Case<'a> = (&'a [Option<f64>], Option<f64>, usize);
        let cases: &[Case<'_>] = &[
            (&[], None, 0),
            (&[None], None, 0),
            (&[Some(94.29)], Some(94.29), 1),
            (&[Some(94.29), Some(94.712)], Some(189.002), 2),
            (&[Some(94.29), None], None, 1),
            (&[Some(94.29), Some(f64::NAN)], None, 1),
            (&[Some(0.0), Some(0.0)], Some(0.0), 2),
        ];
        for &(parts, value, reporting) in cases {
            let members = Members { expected: parts.len(), reporting };
            assert_eq!(total(parts), Sum { value, members }, "{parts:?}");
        }
    }

    /// The window from 0 s to 10 s of a member that reads a steady power at these seconds.
    fn member(watts: f64, seconds: &[u32]) -> Energy {
        let windows = Windows::list([Window::new(0.0, 10.0).unwrap()]);
        let mut integrator = Integrator::new(windows, Limits::default());
        for &second in seconds {
            integrator.push(Sample::power(f64::from(second), watts)).unwrap();
        }
        integrator.finish().map(|(_, energy)| energy).next().unwrap()
    }

    #[test]
    fn energies() {
        let full = member(100.0, &[0, 2, 4, 6, 8, 10]);
        let half = member(50.0, &[0, 2, 4, 5]);
        let silent = member(7.0, &[]);
        type Case<'a> = (&'a [&'a Energy], Option<f64>, (usize, usize), f64, Verdict);
        let cases: &[Case<'_>] = &[
            (&[&full, &full], Some(2_000.0), (2, 2), 1.0, Verdict::Full),
            (&[&full, &half], Some(1_250.0), (1, 2), 0.75, Verdict::Partial),
            (&[&full, &silent], None, (1, 1), 0.5, Verdict::None),
            (&[&silent], None, (0, 0), 0.0, Verdict::None),
        ];
        for &(members, energy_j, (members_full, members_reporting), coverage, verdict) in cases {
            let members: Vec<Energy> = members.iter().copied().cloned().collect();
            let sum = sum_energy(&members).unwrap();
            assert_eq!(sum.energy_j, energy_j);
            assert_eq!((sum.energy_low_j, sum.energy_high_j), (energy_j, energy_j));
            assert_eq!(
                (sum.members_full, sum.members_reporting),
                (members_full, members_reporting)
            );
            assert_eq!(sum.members_expected, members.len());
            assert_eq!((sum.coverage, sum.verdict), (coverage, verdict));
        }
        let reasons = sum_energy(&[full, half, silent]).unwrap().reasons;
        assert_eq!(reasons, Reasons::from([Reason::EndNotCovered, Reason::NoReadings]));
    }

    #[test]
    fn what_cannot_be_added() {
        assert_eq!(sum_energy(&[]), Err(SumError::NoMembers));
        let here = member(1.0, &[0]);
        let there = Energy { end_s: 11.0, ..here.clone() };
        assert_eq!(
            sum_energy(&[here, there]),
            Err(SumError::WindowsDiffer { expected_s: (0.0, 10.0), found_s: (0.0, 11.0) })
        );
    }
}
