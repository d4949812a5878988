//! What a rule breaks that can be read and yet means nothing: what would be counted twice, units that do not fit, a
//! result that is said to be something else.

use std::fmt;
use std::time::Duration;

use super::duration;
use super::fault::Meant;
use crate::boundary::Boundary;

/// Something that a rule takes, and what it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    /// The metric or the rule.
    pub name: String,
    /// What it covers.
    pub boundary: Boundary,
}

/// What a rule breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The metric is known, and is of no use.
    Unusable {
        /// The metric.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The rule is not above the one that takes its results.
    Below {
        /// The rule.
        name: String,
    },
    /// A metric of `inputs` that is known already.
    KnownMetric {
        /// The metric.
        name: String,
    },
    /// The series do not have the label.
    NoLabel {
        /// The metric or the rule.
        name: String,
        /// The label.
        label: String,
        /// Those that they have.
        meant: Meant,
        /// Whether the page may have it, but the recording of sockets does not.
        is_of_sockets: bool,
    },
    /// The matchers leave series of several boundaries, or leave too much open.
    SeveralBoundaries {
        /// The metric.
        name: String,
        /// The label that tells them apart.
        label: &'static str,
        /// What is left: its values, and what each covers.
        left: Vec<(&'static str, Boundary)>,
    },
    /// The matchers leave nothing.
    NoSeries {
        /// The metric.
        name: String,
        /// The label whose matchers leave nothing.
        label: &'static str,
        /// Its values.
        values: Vec<&'static str>,
    },
    /// What is added overlaps.
    Overlap {
        /// One.
        one: Covering,
        /// The other.
        other: Covering,
    },
    /// Series that report the same thing are added.
    Repeats {
        /// The metric.
        name: String,
        /// What each of its series reports.
        boundary: Boundary,
        /// The function.
        function: &'static str,
    },
    /// A rest is added.
    Rest {
        /// The rule.
        name: String,
        /// The function.
        function: &'static str,
    },
    /// A part is not inside its whole.
    NoPart {
        /// The part.
        part: Covering,
        /// The whole.
        whole: Covering,
    },
    /// Inputs of different boundaries where one is needed.
    Different {
        /// The function.
        function: &'static str,
        /// One.
        one: Covering,
        /// The other.
        other: Covering,
    },
    /// The stated boundary is not that of the result.
    Boundary {
        /// What is stated.
        stated: Boundary,
        /// What it is, or must contain.
        expected: Vec<Boundary>,
        /// Whether it must contain them all.
        contains: bool,
    },
    /// An input has a unit that the function cannot take.
    InputUnit {
        /// The metric or the rule.
        name: String,
        /// Its unit.
        unit: String,
        /// What was expected.
        expected: String,
    },
    /// The stated unit is not that of the result.
    Unit {
        /// What is stated.
        stated: String,
        /// What it is.
        expected: String,
    },
    /// A counter where a power is needed.
    Counter {
        /// The metric.
        name: String,
        /// The function.
        function: &'static str,
    },
    /// No counter where one is needed.
    NoCounter {
        /// The metric or the rule.
        name: String,
        /// The function.
        function: &'static str,
    },
    /// A rule of the fleet takes series, or results that are not of nodes; or a rule of nodes takes results of the fleet.
    Level {
        /// What it takes.
        name: String,
        /// Whether the rule that takes it is of the fleet.
        is_fleet: bool,
    },
    /// Results of windows where they cannot be taken.
    OfWindows {
        /// The rule whose results they are.
        name: String,
        /// The function that takes them.
        function: &'static str,
    },
    /// A sum of results of different windows, or of windows and instants.
    Windows {
        /// One.
        one: String,
        /// The other.
        other: String,
    },
    /// Windows shorter than what each reading is a mean over.
    Short {
        /// The metric.
        name: String,
        /// The length of the windows.
        length: Duration,
        /// What a reading is a mean over, in seconds.
        window_s: String,
    },
    /// Windows of results that stand further apart than the gap.
    Gap {
        /// The rule whose results they are.
        name: String,
        /// How far apart its results stand.
        every: Duration,
        /// The gap of the file.
        gap: Duration,
    },
    /// A guard that the function has no use for.
    Guard {
        /// Its key.
        key: &'static str,
        /// The function.
        function: &'static str,
        /// Where it belongs.
        expected: &'static str,
    },
}

impl fmt::Display for Covering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.boundary)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Unusable { name, why } => {
                write!(f, "{name} {why}, expected a metric that is one thing in W or J")
            }
            Breach::Below { name } => {
                write!(f, "rule {name:?} does not stand above, expected it before what takes it")
            }
            Breach::KnownMetric { name } => {
                write!(
                    f,
                    "{name:?} is known already, expected metrics that Wattscribe does not know"
                )
            }
            Breach::Level { name, is_fleet: true } => {
                write!(f, "{name} in a rule of the fleet, expected results of rules of nodes")
            }
            Breach::Level { name, is_fleet: false } => {
                write!(
                    f,
                    "{name} is of the fleet, expected series or rules by node in a rule by node"
                )
            }
            Breach::NoLabel { .. } | Breach::SeveralBoundaries { .. } | Breach::NoSeries { .. } => {
                self.of_labels(f)
            }
            Breach::Overlap { .. }
            | Breach::Repeats { .. }
            | Breach::Rest { .. }
            | Breach::NoPart { .. }
            | Breach::Different { .. }
            | Breach::Boundary { .. } => self.of_boundaries(f),
            Breach::InputUnit { .. }
            | Breach::Unit { .. }
            | Breach::Counter { .. }
            | Breach::NoCounter { .. } => self.of_units(f),
            Breach::OfWindows { .. }
            | Breach::Windows { .. }
            | Breach::Short { .. }
            | Breach::Gap { .. }
            | Breach::Guard { .. } => self.of_time(f),
        }
    }
}

impl Breach {
    fn of_labels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::NoLabel { name, label, meant, is_of_sockets } => {
                let why = if *is_of_sockets { ", as sockets are recorded" } else { "" };
                write!(f, "{name} has no label {label:?}{why}, {meant}")
            }
            Breach::SeveralBoundaries { name, label, left } => {
                write!(f, "{name} is several things by its {label:?}, expected ")?;
                for (at, (value, boundary)) in left.iter().enumerate() {
                    let or = if at == 0 { "" } else { " or " };
                    write!(f, "{or}{label}=\"{value}\"")?;
                    if *value != boundary.as_str() {
                        write!(f, " ({boundary})")?;
                    }
                }
                Ok(())
            }
            Breach::NoSeries { name, label, values } => {
                write!(f, "no {name} has such a {label:?}, expected {}", values.join(", "))
            }
            _ => Ok(()),
        }
    }

    fn of_boundaries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Overlap { one, other } => {
                let (a, b) = (one.boundary, other.boundary);
                write!(f, "{one} and {other} count the same: {}", nesting(a, b))?;
                f.write_str(", expected what has no part in common")
            }
            Breach::Repeats { name, boundary, function } => {
                write!(
                    f,
                    "several {name} report one {boundary}, and {function} counts it several times"
                )?;
                f.write_str(", expected their mean")
            }
            Breach::Rest { name, function } => {
                write!(f, "{name} is a rest, and nobody knows what is in it")?;
                write!(f, ", expected it nowhere in {function}")
            }
            Breach::NoPart { part, whole } => {
                write!(f, "{part} is no part of {whole}, expected what {} contains", whole.boundary)
            }
            Breach::Different { function, one, other } => {
                write!(f, "{one} and {other} in {function}, expected one boundary")
            }
            Breach::Boundary { stated, expected, contains: false } => {
                let expected: Vec<&str> = expected.iter().map(|of| of.as_str()).collect();
                write!(
                    f,
                    "boundary {stated}, expected {}, which the result covers",
                    expected.join("")
                )
            }
            Breach::Boundary { stated, expected: parts, contains: true } => {
                let words: Vec<&str> = parts.iter().map(|of| of.as_str()).collect();
                write!(f, "boundary {stated}, expected what contains {}", words.join(" and "))?;
                let fits =
                    |of: &Boundary| parts.iter().all(|part| of == part || of.contains(*part));
                match Boundary::ALL.into_iter().find(fits) {
                    Some(fits) => write!(f, ", as {fits} does"),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn of_units(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::InputUnit { name, unit, expected } => {
                write!(f, "{name} is in {unit}, expected {expected}")
            }
            Breach::Unit { stated, expected } => {
                write!(f, "unit {stated}, expected {expected}, which the result is in")
            }
            Breach::Counter { name, function } => {
                write!(f, "{name} is a counter in J, of which only the movement says something")?;
                write!(f, ", expected increase of it, or {function} of a power")
            }
            Breach::NoCounter { name, function } => {
                write!(f, "{name} is no counter, expected one in J for {function}")
            }
            _ => Ok(()),
        }
    }

    fn of_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::OfWindows { name, function } => {
                write!(
                    f,
                    "{name} has results of windows, expected them in sum and not in {function}"
                )
            }
            Breach::Windows { one, other } => {
                write!(f, "{one} and {other} are not of the same windows, expected that they are")
            }
            Breach::Short { name, length, window_s } => {
                let length = duration::text(*length);
                write!(
                    f,
                    "windows of {length}, expected no shorter than the {window_s} s that {name} is a mean over"
                )
            }
            Breach::Gap { name, every, gap } => {
                let (every, gap) = (duration::text(*every), duration::text(*gap));
                write!(
                    f,
                    "results of {name} stand {every} apart and a gap begins after {gap}, expected no more than that"
                )
            }
            Breach::Guard { key, function, expected } => {
                write!(f, "{key:?} in {function}, expected {expected}")
            }
            _ => Ok(()),
        }
    }
}

/// How two boundaries that may not be added lie in each other.
fn nesting(a: Boundary, b: Boundary) -> String {
    if a == b {
        format!("both are {a}")
    } else if a.contains(b) {
        format!("{a} contains {b}")
    } else if b.contains(a) {
        format!("{b} contains {a}")
    } else {
        format!("{a} and {b} are the same silicon in part")
    }
}
