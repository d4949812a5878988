//! What came of the rules, a line for each: how many results, how many withheld and why, and the last that has a value.

use std::collections::BTreeMap;
use std::io::{self, Write};

use wattscribe_rules::engine::Withheld;
use wattscribe_rules::rule::RuleSet;
use wattscribe_table::Settled;

use crate::time::utc;

/// Counts of results.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// By the places of the rules.
    counts: BTreeMap<usize, Count>,
    /// From the first to the last, in Unix microseconds.
    range_us: Option<(i64, i64)>,
    is_simulated: bool,
}

#[derive(Debug, Default)]
struct Count {
    results: u64,
    with_value: u64,
    reasons: BTreeMap<Withheld, u64>,
    /// The least and the greatest value.
    range: Option<(f64, f64)>,
}

impl Summary {
    /// Of some results.
    pub(crate) fn of(results: &[Settled]) -> Summary {
        let mut summary = Summary::default();
        results.iter().for_each(|settled| summary.take(settled));
        summary
    }

    fn take(&mut self, Settled { result, simulated }: &Settled) {
        let start_us = result.start_us.unwrap_or(result.at_us);
        self.range_us = wider(self.range_us, Some((start_us, result.at_us)), i64::min, i64::max);
        self.is_simulated |= simulated;
        let count = self.counts.entry(result.rule).or_default();
        count.results += 1;
        count.with_value += u64::from(result.value.is_some());
        let value = result.value.map(|value| (value, value));
        count.range = wider(count.range, value, f64::min, f64::max);
        if let Some(reason) = result.withheld {
            *count.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Takes in what others counted.
    pub(crate) fn add(&mut self, other: Summary) {
        self.range_us = wider(self.range_us, other.range_us, i64::min, i64::max);
        self.is_simulated |= other.is_simulated;
        for (rule, of) in other.counts {
            let count = self.counts.entry(rule).or_default();
            count.results += of.results;
            count.with_value += of.with_value;
            count.range = wider(count.range, of.range, f64::min, f64::max);
            for (reason, of_reason) in of.reasons {
                *count.reasons.entry(reason).or_default() += of_reason;
            }
        }
    }

    /// How many there were.
    pub(crate) fn rows(&self) -> u64 {
        self.counts.values().map(|count| count.results).sum()
    }

    /// Prints it.
    pub(crate) fn print(&self, rules: &RuleSet, out: &mut dyn Write) -> io::Result<()> {
        if self.is_simulated {
            writeln!(out, "SIMULATED HARDWARE, all of it or in part: see the column simulated")?;
        }
        if let Some((from_us, to_us)) = self.range_us {
            let [from, to] = [from_us, to_us].map(|us| utc(us as f64 / 1e6));
            writeln!(out, "{} results from {from} to {to}", self.rows())?;
        }
        let with = self.counts.keys().filter_map(|place| rules.rules.get(*place));
        let wide = with.map(|rule| rule.name.len()).max().unwrap_or_default();
        writeln!(
            out,
            "{:<wide$}  {:>10}  {:>10}  {:>14}  {:>14}  unit  withheld",
            "rule", "results", "with value", "least", "greatest"
        )?;
        let mut without = 0;
        for (place, rule) in rules.rules.iter().enumerate() {
            let Some(count) = self.counts.get(&place) else {
                without += 1;
                continue;
            };
            let [least, greatest] = match count.range {
                Some((least, greatest)) => [least, greatest].map(number),
                None => ["-".to_owned(), "-".to_owned()],
            };
            let reasons = count.reasons.iter().map(|(reason, count)| format!("{reason} {count}"));
            let line = format!(
                "{:<wide$}  {:>10}  {:>10}  {least:>14}  {greatest:>14}  {:<4}  {}",
                rule.name,
                count.results,
                count.with_value,
                rule.unit,
                reasons.collect::<Vec<_>>().join(", ")
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        if without > 0 {
            let rules = if without == 1 { "1 rule is" } else { &format!("{without} rules are") };
            writeln!(out, "{rules} left out, without any result")?;
        }
        Ok(())
    }
}

/// A range that holds both.
fn wider<T>(
    one: Option<(T, T)>,
    other: Option<(T, T)>,
    min: fn(T, T) -> T,
    max: fn(T, T) -> T,
) -> Option<(T, T)> {
    match (one, other) {
        (Some((low, high)), Some((least, most))) => Some((min(low, least), max(high, most))),
        (one, other) => one.or(other),
    }
}

/// A value to three decimals, or with an exponent where that would be a row of digits that no double has.
fn number(value: f64) -> String {
    if value.abs() < 1e15 { format!("{value:.3}") } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_as_long_as_what_is_known_of_them() {
        let cases = [
            (0.0, "0.000"),
            (-38.25, "-38.250"),
            (999_999_999_999_999.0, "999999999999999.000"),
            (1e15, "1e15"),
            (-1.5e308, "-1.5e308"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }
}
