//! What a value of DCGM is: watts, or the reason why it is none. Pure.
//!
//! DCGM writes a blank where it has no value, of each type another one, and each kind of blank is told as what it is.

use crate::dcgm_lib::FieldValue;
use crate::failure::Failure;
use crate::plausible::power;

/// What one value is in watts, or why it is none.
pub(crate) fn watts(value: &FieldValue) -> Result<f64, Failure> {
    of_status(value.status)?;
    let [a, b, c, d, e, f, g, h, ..] = value.bytes;
    let eight = [a, b, c, d, e, f, g, h];
    // `DCGM_FT_*`: the type is a letter. Power is a double; what is blank may come as any type.
    let number = match u8::try_from(value.kind) {
        Ok(b'd') => f64::from_ne_bytes(eight),
        Ok(b'i') => return Err(blank_of_integer(i64::from_ne_bytes(eight))),
        Ok(b's') => return Err(blank_of_text(&value.bytes)),
        _ => return Err(Failure::Malformed),
    };
    match number {
        number if number.is_finite() && number >= BLANK_DOUBLE => {
            Err(blank((number - BLANK_DOUBLE).min(4.0) as u64))
        }
        // A blank integer that somebody has made a double of.
        number if number.is_finite() && number >= BLANK_INT32 as f64 => {
            Err(blank((number - BLANK_INT32 as f64) as u64))
        }
        number => power(number, false),
    }
}

/// `DCGM_FP64_BLANK`, `DCGM_INT64_BLANK`, `DCGM_INT32_BLANK` (dcgm_structs.h). Not found, not supported and
/// not permitted follow each by one.
const BLANK_DOUBLE: f64 = 140_737_488_355_328.0;
const BLANK_INT64: i64 = 0x7fff_ffff_ffff_fff0;
const BLANK_INT32: i64 = 0x7fff_fff0;

/// Which blank it is, by its distance from the first of its type.
fn blank(distance: u64) -> Failure {
    match distance {
        1 => Failure::NotFound,
        2 => Failure::NotSupported,
        3 => Failure::NotPermitted,
        _ => Failure::Blank,
    }
}

fn blank_of_integer(value: i64) -> Failure {
    match value {
        BLANK_INT64.. => blank(value.abs_diff(BLANK_INT64)),
        BLANK_INT32..=0x7fff_ffff => blank(value.abs_diff(BLANK_INT32)),
        _ => Failure::Malformed,
    }
}

fn blank_of_text(bytes: &[u8]) -> Failure {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    match &bytes[..end] {
        b"<<<NULL>>>" => Failure::Blank,
        b"<<<NOT_FOUND>>>" => Failure::NotFound,
        b"<<<NOT_SUPPORTED>>>" => Failure::NotSupported,
        b"<<<NOT_PERM>>>" => Failure::NotPermitted,
        _ => Failure::Malformed,
    }
}

/// What the status beside a value says (`dcgmReturn_t`, dcgm_structs.h).
fn of_status(status: i32) -> Result<(), Failure> {
    Err(match status {
        0 => return Ok(()),
        -6 | -22 | -32 => Failure::NotSupported,
        -13 => Failure::NotFound,
        -9 | -14 | -15 | -16 => Failure::Blank, // pending, no data, stale data, not watched
        -11 => Failure::Timeout,
        -17 | -29 => Failure::NotPermitted,
        -18 => Failure::Gone,
        _ => Failure::Io,
    })
}
