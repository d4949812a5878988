//! How a number is written.
//!
//! Everything written here reads back to the same bits (a fixed number to its six decimals). Plain
//! digits as far as they stay short, an exponent beyond that; `NaN`, `+Inf`, `-Inf`.

use std::fmt::Write;

/// A number together with the way it is to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// With six decimals always, `150.000000`, as readers of existing exporters know it.
    Fixed6(f64),
    /// The shortest text that reads back to the same bits, `150`, `0.1`, `1e300`.
    Float(f64),
    /// A whole number, `150`. Readers hold it in a double, exactly up to 2^53.
    Integer(u64),
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Self::Integer(u64::from(number))
    }
}

/// Beyond this, digits before the point are zeros that say nothing.
const PLAIN_MAX: f64 = 1e15;

/// Below this, zeros after the point say nothing.
const PLAIN_MIN: f64 = 1e-5;

impl Number {
    pub(crate) fn write(self, out: &mut String) {
        match self {
            Self::Integer(number) => write_integer(out, number),
            Self::Fixed6(number) | Self::Float(number) if !number.is_finite() => {
                out.push_str(non_finite(number));
            }
            Self::Fixed6(number) => {
                // Writing to a string cannot fail, here and below.
                let _ = write!(out, "{number:.6}");
            }
            Self::Float(number) => write_float(out, number),
        }
    }
}

fn write_float(out: &mut String, number: f64) {
    let size = number.abs();
    let _ = if size == 0.0 || (PLAIN_MIN..PLAIN_MAX).contains(&size) {
        write!(out, "{number}")
    } else {
        write!(out, "{number:e}")
    };
}

/// Digits by hand: most samples are small counts, and this is several times faster than `write!`.
fn write_integer(out: &mut String, mut number: u64) {
    // The largest of 64 bits has twenty digits.
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend(digits[start..].iter().map(|&digit| char::from(digit)));
}

fn non_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}

/// Writes the bound of a bucket the way OpenMetrics makes canonical: always with a point or an
/// exponent, `1.0`, `0.25`, `1e+06`, so that every exporter spells the same series the same. It is
/// Go's `%g` with a point added
/// (<https://prometheus.io/docs/specs/om/open_metrics_spec/#considerations-canonical-numbers>).
pub(crate) fn write_bound(out: &mut String, bound: f64) {
    if !bound.is_finite() {
        return out.push_str(non_finite(bound));
    }
    let scientific = format!("{bound:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = if (-4..6).contains(&exponent) {
        // Debug is Display with at least one decimal, over this range.
        write!(out, "{bound:?}")
    } else {
        write!(out, "{digits}e{exponent:+03}")
    };
}

#[cfg(test)]
mod tests {
    use super::{Number, write_bound};

    #[test]
    fn numbers_are_written() {
        let check = |number: Number, expected: &str| {
            let mut out = String::new();
            number.write(&mut out);
            assert_eq!(out, expected, "{number:?}");
        };
        check(Number::Fixed6(150.0), "150.000000");
        check(Number::Fixed6(0.123_456_7), "0.123457");
        check(Number::Fixed6(-12.5), "-12.500000");
        check(Number::Fixed6(f64::NAN), "NaN");
        check(Number::Fixed6(f64::INFINITY), "+Inf");
        check(Number::Float(150.0), "150");
        check(Number::Float(0.1), "0.1");
        check(Number::Float(-0.0), "-0");
        check(Number::Float(0.00001), "0.00001");
        check(Number::Float(0.000001), "1e-6");
        check(Number::Float(999_999_999_999_999.0), "999999999999999");
        check(Number::Float(1e15), "1e15");
        check(Number::Float(f64::MAX), "1.7976931348623157e308");
        check(Number::Float(5e-324), "5e-324");
        check(Number::Float(f64::NEG_INFINITY), "-Inf");
        check(Number::Float(-f64::NAN), "NaN");
        check(Number::Integer(0), "0");
        check(Number::Integer(9405), "9405");
        check(Number::Integer(u64::MAX), "18446744073709551615");
        check(7_u32.into(), "7");
        check(2.5.into(), "2.5");
    }

    #[test]
    fn bounds_are_canonical() {
        let check = |bound: f64, expected: &str| {
            let mut out = String::new();
            write_bound(&mut out, bound);
            assert_eq!(out, expected, "{bound:?}");
        };
        check(0.0, "0.0");
        check(1.0, "1.0");
        check(-2.0, "-2.0");
        check(0.25, "0.25");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(0.000025, "2.5e-05");
        check(100_000.0, "100000.0");
        check(1_000_000.0, "1e+06");
        check(123_456_789.0, "1.23456789e+08");
        check(1e100, "1e+100");
        check(f64::INFINITY, "+Inf");
    }
}
