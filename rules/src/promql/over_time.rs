//! One series over aligned windows, in PromQL.
//!
//! Prometheus evaluates rules at times of its own, but the steps of a subquery are whole multiples of its resolution. So
//! the last step of a subquery is the end of the last aligned window, whenever the rule is evaluated.

use std::time::Duration;

use crate::rule::{Function, Input, Over, Rule, duration};

/// Of a window, readings of at least this part must be there where the rule does not say what it wants covered: no
/// coverage stands beside a value of Prometheus.
pub(super) const COVERED_MIN: f64 = 0.9;

/// One reading is a power at a moment and says nothing of a window: there is no time between it and another.
const READINGS_MIN: f64 = 2.0;

/// What doubles add to a whole number of readings.
const ROUNDING: f64 = 1e-9;

/// What a series gives over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gathers {
    Energy,
    Gain,
    Greatest,
    Least,
    Quantile(f64),
}

/// Windows as the rules of one file have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Windows {
    pub(super) every: Duration,
    pub(super) length: Duration,
    /// From reading to reading.
    pub(super) step: Duration,
    /// When a window counts as over, after its end.
    pub(super) gap: Duration,
    /// How old a counter's last reading before an edge may be: from reading to reading and a tenth, because scrapes keep
    /// their time well, and whatever is older makes a window of another length.
    pub(super) edge: Duration,
    /// So many readings must be there.
    pub(super) readings_min: u64,
}

impl Gathers {
    /// What an input of a rule over windows gives; `None` where it takes results of windows.
    pub(super) fn of(rule: &Rule, number: usize) -> Option<Gathers> {
        match &rule.function {
            Function::Integrate { .. } => Some(Gathers::Energy),
            Function::Increase { .. } => Some(Gathers::Gain),
            Function::Check { .. } if number == 0 => Some(Gathers::Energy),
            Function::Check { .. } => Some(Gathers::Gain),
            Function::Quantile { quantile, .. } => Some(Gathers::Quantile(*quantile)),
            Function::Max { over: Some(_), .. } => Some(Gathers::Greatest),
            Function::Min { over: Some(_), .. } => Some(Gathers::Least),
            _ => None,
        }
    }

    /// For a name: `integrate1m`.
    pub(super) fn operation(self, windows: &Windows) -> String {
        let length = duration::text(windows.length);
        match self {
            Gathers::Energy => format!("integrate{length}"),
            Gathers::Gain => format!("increase{length}"),
            Gathers::Greatest => format!("max{length}"),
            Gathers::Least => format!("min{length}"),
            Gathers::Quantile(_) => format!("quantile{length}"),
        }
    }
}

impl Windows {
    /// Those of a rule whose readings are so far apart.
    pub(super) fn of(rule: &Rule, step: Duration, gap: Duration) -> Option<Windows> {
        let Some(Over::Aligned { every, length }) = rule.over().copied() else { return None };
        let edge_ms = (step.as_millis() as u64).saturating_mul(11).div_ceil(10);
        let edge = Duration::from_millis(edge_ms);
        let readings_min = readings_min(rule, length.div_duration_f64(step));
        Some(Windows { every, length, step, gap, edge, readings_min })
    }

    /// What a selector's series give over the last window that is over, their labels kept.
    pub(super) fn expression(&self, selector: &str, input: &Input, gathers: Gathers) -> String {
        let inner = match gathers {
            Gathers::Gain => self.gain(selector),
            _ => self.of_power(selector, input, gathers),
        };
        let every = duration::text(self.every);
        // A millisecond less than two steps apart, so that there is exactly one step whether or not the range is closed.
        let range = duration::text(self.every - Duration::from_millis(1));
        let inner = inner.replace('\n', "\n  ");
        format!(
            "last_over_time((\n  {inner}\n)[{range}:{every}] offset {})",
            duration::text(self.gap)
        )
    }

    fn of_power(&self, selector: &str, input: &Input, gathers: Gathers) -> String {
        let readings = format!("{selector}[{}]", duration::text(self.length));
        let value = match gathers {
            Gathers::Energy => format!("avg_over_time({readings}) * {}", self.length.as_secs_f64()),
            Gathers::Greatest => format!("max_over_time({readings})"),
            Gathers::Least => format!("min_over_time({readings})"),
            Gathers::Quantile(quantile) => format!("quantile_over_time({quantile}, {readings})"),
            Gathers::Gain => String::new(),
        };
        let least = if input.zero_is_missing { "0" } else { "-Inf" };
        format!(
            "{value} < Inf\nand min_over_time({readings}) > {least}\nand count_over_time({readings}) >= {}",
            self.readings_min
        )
    }

    /// The last reading before each edge, one less the other. It neither extrapolates nor adds what a counter had before
    /// it began anew.
    fn gain(&self, selector: &str) -> String {
        let (edge, length) = (duration::text(self.edge), duration::text(self.length));
        let between = duration::text(self.length + self.edge);
        let mut text = format!(
            "last_over_time({selector}[{edge}]) - last_over_time({selector}[{edge}] offset {length})\n\
             unless resets({selector}[{between}]) > 0"
        );
        // Our exporter says since when each of its counters counts, and a counter may begin anew between two scrapes.
        if let Some(matchers) = selector.strip_prefix("cpu_energy_joules_total") {
            text += &format!(
                "\nunless changes(cpu_energy_since_timestamp_seconds{matchers}[{between}]) > 0"
            );
        }
        text
    }
}

/// How many readings a window of so many steps needs. It is never more than every window has of a series that misses none:
/// where steps do not divide a window, some windows have one more than others.
fn readings_min(rule: &Rule, steps: f64) -> u64 {
    let whole = (steps + ROUNDING).floor();
    let wanted = match rule.function {
        // What is compared with a counter is covered from edge to edge: all readings, but one that an edge may cost.
        Function::Check { .. } => whole - 1.0,
        _ => (rule.withhold.coverage_below.unwrap_or(COVERED_MIN) * steps - ROUNDING).ceil(),
    };
    wanted.min(whole).max(READINGS_MIN) as u64
}
