//! Which numbers can be power at all: one set of bounds for every source. Pure.

use crate::failure::Failure;

/// More than anything that has one sensor draws, in watts. The largest is a superchip module, at 2.7 kW in a GB200
/// (NVIDIA: GB200 NVL72) and a few kilowatts in those that are announced. It is below 32 767 W and 65 535 W, where
/// firmware that counts in 16 bits ends up.
pub const SENSOR_WATTS_MAX: f64 = 20_000.0;

/// More than any CPU package draws, in watts: a step of its counter beyond it is not energy.
pub const ZONE_WATTS_MAX: f64 = 4_000.0;

/// From here on it is firmware's word for unknown: all ones in 32 bits of milliwatts, 4 294 967.295 W (lm-sensors#460),
/// however that was rounded on its way.
const UNKNOWN_WATTS: f64 = 4_294_967.0;

/// A page prints six decimals: up to here a power would stand there as zero.
const PRINTED_AS_ZERO_WATTS: f64 = 0.000_000_5;

/// Watts as they may be published, or why they cannot be true. `zero_is_true` where the sensor can read zero.
pub(crate) fn power(watts: f64, zero_is_true: bool) -> Result<f64, Failure> {
    match watts {
        watts if !watts.is_finite() => Err(Failure::Malformed),
        watts if watts < 0.0 => Err(Failure::Negative),
        watts if is_zero(watts) && !zero_is_true => Err(Failure::Zero),
        watts if watts >= UNKNOWN_WATTS => Err(Failure::SensorUnknown),
        watts if watts > SENSOR_WATTS_MAX => Err(Failure::OverLimit),
        watts => Ok(watts),
    }
}

/// Whether it would be published as zero.
pub(crate) fn is_zero(watts: f64) -> bool {
    (0.0..=PRINTED_AS_ZERO_WATTS).contains(&watts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_power_only_between_its_bounds() {
        let cases = [
            (100.0, Ok(100.0)),
            (0.000_001, Ok(0.000_001)),
            (0.000_000_5, Err(Failure::Zero)),
            (1e-300, Err(Failure::Zero)),
            (0.0, Err(Failure::Zero)),
            (-0.0, Err(Failure::Zero)),
            (-1e-9, Err(Failure::Negative)),
            (20_000.0, Ok(20_000.0)),
            (20_000.001, Err(Failure::OverLimit)),
            (65_535.0, Err(Failure::OverLimit)),
            (2_147_483.647, Err(Failure::OverLimit)),
            (4_294_967.295, Err(Failure::SensorUnknown)),
            (2_147_483_631.0, Err(Failure::SensorUnknown)),
            (f64::MAX, Err(Failure::SensorUnknown)),
            (f64::INFINITY, Err(Failure::Malformed)),
            (f64::NAN, Err(Failure::Malformed)),
        ];
        for (watts, expected) in cases {
            assert_eq!(power(watts, false), expected, "{watts} W");
        }
        assert_eq!(power(0.0, true), Ok(0.0), "a zone that can be idle");
    }

    #[test]
    fn what_is_published_never_reads_as_zero() {
        let mut watts = 1e-7;
        while watts < 1e-5 {
            let printed = format!("{watts:.6}");
            assert_eq!(is_zero(watts), printed == "0.000000", "{watts} W is printed as {printed}");
            watts *= 1.01;
        }
        let edge = PRINTED_AS_ZERO_WATTS;
        assert_eq!(format!("{edge:.6}"), "0.000000");
        assert_eq!(format!("{:.6}", edge.next_up()), "0.000001");
    }
}
