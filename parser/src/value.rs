//! Numbers of a sample: its value and its timestamp.
//!
//! Reads one whole word. The format defines both by Go's `strconv` (`ParseFloat` without its
//! hexadecimal and underscore forms, which Prometheus refuses, and `ParseInt`); where Rust's own
//! parser differs from that, this file says so.

use std::num::IntErrorKind;

use crate::FaultKind;

/// The one NaN that leaves this crate: the same bits as `value.NormalNaN` of Prometheus. A target
/// must not be able to send `0x7ff0000000000002`, which Prometheus stores to end a series.
const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0001);

/// Reads a value. Too large for a double is a fault of its own; too small is zero.
pub(crate) fn number(word: &str) -> Result<f64, FaultKind> {
    let number: f64 = word.parse().map_err(|_| FaultKind::Value)?;
    if number.is_finite() {
        return Ok(number);
    }
    if number.is_nan() {
        // Rust takes a sign before `nan`, Go does not.
        return if word.starts_with(['+', '-']) { Err(FaultKind::Value) } else { Ok(NAN) };
    }
    // Rust rounds what is too large to infinity, Go refuses it. The word for infinity has no digit.
    if word.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(FaultKind::ValueRange);
    }
    Ok(number)
}

/// Reads a timestamp in milliseconds.
pub(crate) fn whole_ms(word: &str) -> Result<i64, FaultKind> {
    word.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => FaultKind::TimestampRange,
        _ => FaultKind::Timestamp,
    })
}
