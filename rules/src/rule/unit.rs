//! Units of results: which texts are the same unit, and what a quotient of two is in.

use std::collections::BTreeMap;

/// A unit as the powers of what it is made of. `W` is `J/s`, so tokens per second by watts are tokens per joule.
///
/// Prefixes mean nothing here: `kW` is another unit than `W`, and never taken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit(BTreeMap<String, i32>);

/// Watts as a file writes them.
pub(super) const WATTS: &str = "W";

/// Joules as a file writes them.
pub(super) const JOULES: &str = "J";

/// What was expected where a unit cannot be read.
pub(super) const EXPECTED: &str = "a unit such as W, J, 1 or tokens/J";

impl Unit {
    /// Reads `W`, `1`, `tokens/J`, `1/s`. `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Unit> {
        let mut unit = Unit(BTreeMap::new());
        for (at, word) in text.split('/').enumerate() {
            let power = if at == 0 { 1 } else { -1 };
            match word {
                "1" if at == 0 => {}
                "W" => {
                    unit.multiply(JOULES, power);
                    unit.multiply("s", -power);
                }
                _ if is_word(word) => unit.multiply(word, power),
                _ => return None,
            }
        }
        Some(unit)
    }

    /// What this by `divisor` is in.
    pub(super) fn by(mut self, divisor: &Unit) -> Unit {
        for (word, power) in &divisor.0 {
            self.multiply(word, -power);
        }
        self
    }

    fn multiply(&mut self, word: &str, power: i32) {
        let sum = self.0.entry(word.to_owned()).or_default();
        *sum += power;
        if *sum == 0 {
            self.0.remove(word);
        }
    }
}

impl std::fmt::Display for Unit {
    /// As a file would write it, watts where there are any.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Unit(BTreeMap::from([(JOULES.to_owned(), 1), ("s".to_owned(), -1)])) {
            return f.write_str(WATTS);
        }
        let words = |positive: bool| {
            self.0.iter().flat_map(move |(word, power)| {
                let count = if (*power > 0) == positive { power.unsigned_abs() } else { 0 };
                (0..count).map(move |_| word.as_str())
            })
        };
        let above: Vec<&str> = words(true).collect();
        f.write_str(if above.is_empty() { "1" } else { "" })?;
        f.write_str(&above.join("*"))?;
        words(false).try_for_each(|word| write!(f, "/{word}"))
    }
}

fn is_word(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients() {
        let cases = [
            ("W", "W", "1"),
            ("tokens/s", "W", "tokens/J"),
            ("tokens", "J", "tokens/J"),
            ("J", "tokens", "J/tokens"),
            ("W", "1", "W"),
            ("J/s", "1", "W"),
            ("1", "W", "s/J"),
            ("1/s", "1", "1/s"),
        ];
        for (of, to, expected) in cases {
            let [of, to, expected] = [of, to, expected].map(|text| Unit::parse(text).unwrap());
            assert_eq!(of.by(&to), expected);
        }
        assert_ne!(Unit::parse("kW"), Unit::parse("W"));
    }

    #[test]
    fn texts() {
        for text in ["W", "J", "1", "tokens/J", "1/s", "J/tokens"] {
            assert_eq!(Unit::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "/", "W/", "/s", "W/1", "k W", "W*s", "%", "2"] {
            assert_eq!(Unit::parse(text), None, "{text:?}");
        }
    }
}
