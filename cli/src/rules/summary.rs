//! What came of the rules, a line for each: how many results, how many withheld and why, and the last that has a value.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use wattscribe_rules::rule::RuleSet;
use wattscribe_table::DerivedRow;

use crate::time::utc;

/// Counts of results.
#[derive(Debug)]
pub(crate) struct Summary {
    rules: Arc<RuleSet>,
    counts: BTreeMap<String, Count>,
    from_us: i64,
    to_us: i64,
    is_simulated: bool,
}

#[derive(Debug, Default)]
struct Count {
    results: u64,
    with_value: u64,
    reasons: BTreeMap<String, u64>,
    /// The least and the greatest value.
    range: Option<(f64, f64)>,
}

impl Summary {
    /// Of no results yet.
    pub(crate) fn new(rules: &Arc<RuleSet>) -> Summary {
        Summary {
            rules: Arc::clone(rules),
            counts: BTreeMap::new(),
            from_us: i64::MAX,
            to_us: i64::MIN,
            is_simulated: false,
        }
    }

    /// Takes in rows.
    pub(crate) fn take(&mut self, rows: &[DerivedRow]) {
        for row in rows {
            self.from_us = self.from_us.min(row.start_us.unwrap_or(row.timestamp_us));
            self.to_us = self.to_us.max(row.timestamp_us);
            self.is_simulated |= row.simulated;
            if !self.counts.contains_key(&row.rule) {
                self.counts.insert(row.rule.clone(), Count::default());
            }
            let Some(count) = self.counts.get_mut(&row.rule) else { continue };
            count.results += 1;
            if let Some(value) = row.value {
                count.with_value += 1;
                let (least, greatest) = count.range.unwrap_or((value, value));
                count.range = Some((least.min(value), greatest.max(value)));
            }
            if let Some(reason) = &row.reason {
                match count.reasons.get_mut(reason) {
                    Some(of_reason) => *of_reason += 1,
                    None => drop(count.reasons.insert(reason.clone(), 1)),
                }
            }
        }
    }

    /// How many there were.
    pub(crate) fn rows(&self) -> u64 {
        self.counts.values().map(|count| count.results).sum()
    }

    /// Prints it.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.is_simulated {
            writeln!(out, "SIMULATED HARDWARE, all of it or in part: see the column simulated")?;
        }
        if self.from_us <= self.to_us {
            let [from, to] = [self.from_us, self.to_us].map(|us| utc(us as f64 / 1e6));
            writeln!(out, "{} results from {from} to {to}", self.rows())?;
        }
        let rules = &self.rules.rules;
        let with = rules.iter().filter(|rule| self.counts.contains_key(&rule.name));
        let wide = with.map(|rule| rule.name.len()).max().unwrap_or_default();
        writeln!(
            out,
            "{:<wide$}  {:>10}  {:>10}  {:>14}  {:>14}  unit  withheld",
            "rule", "results", "with value", "least", "greatest"
        )?;
        let mut without = 0;
        for rule in rules {
            let Some(count) = self.counts.get(&rule.name) else {
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
