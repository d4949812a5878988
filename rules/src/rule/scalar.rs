//! Single words and numbers of a rule file, each with what was expected in its place.

use std::time::Duration;

use super::fault::{Fault, Meant};
use super::fields::malformed;
use super::kind::Kind;
use super::unit::{self, Unit};
use super::{Require, duration};
use crate::boundary::Boundary;

/// `level:metric:operations`, as recording rules are named.
pub(super) fn rule_name(text: &str) -> Result<String, Fault> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_name = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let starts_well = !text.starts_with(|c: char| c.is_ascii_digit());
    match parts.as_slice() {
        [_, _, _] if starts_well && parts.iter().all(is_name) => Ok(text.to_owned()),
        _ => Err(malformed("name", text, "level:metric:operations, such as node:power_watts:sum")),
    }
}

/// A function.
pub(super) fn kind(text: &str) -> Result<Kind, Fault> {
    Kind::of_word(text).ok_or_else(|| {
        let meant = Meant::of(text, Kind::ALL.map(Kind::as_str));
        Fault::Word { what: "function", found: text.to_owned(), meant }
    })
}

/// A boundary.
pub(super) fn boundary(text: &str) -> Result<Boundary, Fault> {
    text.parse().map_err(|_| {
        let meant = Meant::of(text, Boundary::ALL.map(Boundary::as_str));
        Fault::Word { what: "boundary", found: text.to_owned(), meant }
    })
}

/// A unit as the file has it, once it can be read.
pub(super) fn unit_text(text: &str) -> Result<String, Fault> {
    match Unit::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(malformed("unit", text, unit::EXPECTED)),
    }
}

/// 0 to 1.
pub(super) fn quantile(text: &str) -> Result<f64, Fault> {
    let level = number(text).filter(|level| (0.0..=1.0).contains(level));
    level.ok_or_else(|| malformed("quantile", text, "a number from 0 to 1"))
}

/// `any`, `all`, or `at least N`.
pub(super) fn require(text: &str) -> Result<Require, Fault> {
    let at_least = || {
        let digits = text.strip_prefix("at least ")?;
        let is_plain = digits.chars().all(|c| c.is_ascii_digit());
        digits.parse().ok().filter(|count| is_plain && *count > 0)
    };
    match text {
        "any" => Ok(Require::Any),
        "all" => Ok(Require::All),
        _ => at_least()
            .map(Require::AtLeast)
            .ok_or_else(|| malformed("require", text, "any, all, or at least N")),
    }
}

/// A duration above zero and up to `max`.
pub(super) fn span(key: &str, text: &str, max: Duration) -> Result<Duration, Fault> {
    match duration::parse(text) {
        Some(found) if found.is_zero() => Err(malformed(key, text, "more than nothing")),
        Some(found) if found > max => {
            Err(malformed(key, text, format!("at most {}", duration::text(max))))
        }
        Some(found) => Ok(found),
        None => Err(malformed(key, text, "a duration such as 1s, 500ms or 1h30m")),
    }
}

/// A decimal number; no infinity, and nothing that is no number.
pub(super) fn number(text: &str) -> Option<f64> {
    let is_plain = text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite())
}

/// `5%` as 0.05. The digits are moved before they are read, so that it is the double that 0.05 is.
pub(super) fn percentage(text: &str) -> Option<f64> {
    let digits = text.strip_suffix('%')?;
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_plain.then(|| number(&format!("{digits}e-2"))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_numbers() {
        let cases = [
            ("5%", Some(0.05)),
            ("0.1%", Some(0.001)),
            ("12.5%", Some(0.125)),
            ("100%", Some(1.0)),
            ("0%", Some(0.0)),
            ("5", None),
            ("-5%", None),
            ("5e1%", None),
            ("%", None),
            ("5 %", None),
            ("five%", None),
        ];
        for (text, expected) in cases {
            assert_eq!(percentage(text), expected, "{text}");
        }
        for (text, expected) in
            [("-1.5e3", Some(-1500.0)), ("inf", None), ("NaN", None), ("1e999", None), ("", None)]
        {
            assert_eq!(number(text), expected, "{text}");
        }
    }
}
