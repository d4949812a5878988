//! How the text of a sensor's files becomes a number, or the reason why it is none. Pure.

use wattscribe_rules::Averaging;

use crate::failure::Failure;
use crate::plausible::power;

/// The longest averaging interval that is believed: an hour. Firmware prints nonsense here, too.
const AVERAGE_INTERVAL_MS_MAX: u64 = 3_600_000;

/// What a driver says of the time that one value is an average over, in milliseconds. Each file may be missing.
#[derive(Debug, Default)]
pub(crate) struct AveragingTexts {
    /// `power*_average_interval`.
    pub(crate) interval_ms: Option<String>,
    /// `power*_average_interval_min`: the shortest that it can be set to.
    pub(crate) min_ms: Option<String>,
    /// `power*_average_interval_max`: the longest.
    pub(crate) max_ms: Option<String>,
}

impl AveragingTexts {
    /// The window, where it can be believed: a driver prints `unknown`, leaves the file out, or prints what
    /// it says itself can not be.
    pub(crate) fn parse(&self) -> Averaging {
        let ms = |text: &Option<String>| text.as_ref()?.parse::<u64>().ok();
        // A bound of 0 is firmware's word for none.
        let bound = |text| ms(text).filter(|bound| *bound > 0);
        let shortest = bound(&self.min_ms).unwrap_or(1);
        let longest = bound(&self.max_ms).unwrap_or(AVERAGE_INTERVAL_MS_MAX);
        match ms(&self.interval_ms) {
            Some(ms)
                if (1..=AVERAGE_INTERVAL_MS_MAX).contains(&ms)
                    && (shortest..=longest).contains(&ms) =>
            {
                Averaging::Mean { window_s: ms as f64 / 1e3 }
            }
            _ => Averaging::Unknown,
        }
    }
}

/// A meter averages over less than its cap does, so a true reading may pass the cap for a moment.
/// Twice the largest cap is no longer a moment.
const LIMIT_FACTOR: f64 = 2.0;

/// Microwatts as hwmon prints them, in watts.
pub(crate) fn parse_power(
    text: &str,
    zero_is_true: bool,
    limit_w: Option<f64>,
) -> Result<f64, Failure> {
    let microwatts: f64 = text.parse().map_err(|_| Failure::Malformed)?;
    let watts = power(microwatts / 1e6, zero_is_true)?;
    if limit_w.is_some_and(|limit| watts > limit * LIMIT_FACTOR) {
        return Err(Failure::OverLimit);
    }
    Ok(watts)
}

/// Microjoules as powercap prints them.
pub(crate) fn parse_energy(text: &str) -> Result<u64, Failure> {
    match text.parse() {
        Ok(microjoules) => Ok(microjoules),
        Err(_) if text.starts_with('-') => Err(Failure::Negative),
        Err(_) => Err(Failure::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_text_becomes_watts_or_a_reason() {
        let cases: [(&str, Result<f64, Failure>); 14] = [
            ("150000000", Ok(150.0)),
            ("98029000", Ok(98.029)),
            ("1", Ok(0.000001)),
            ("0.4", Err(Failure::Zero)),
            ("0", Err(Failure::Zero)),
            ("", Err(Failure::Malformed)),
            ("N/A", Err(Failure::Malformed)),
            ("NaN", Err(Failure::Malformed)),
            ("inf", Err(Failure::Malformed)),
            ("unknown", Err(Failure::Malformed)),
            ("-5000000", Err(Failure::Negative)),
            ("4294967295000", Err(Failure::SensorUnknown)),
            ("1000000000", Ok(1000.0)),
            ("1000000001", Err(Failure::OverLimit)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_power(text, false, Some(500.0)), expected, "{text:?}");
        }
        assert_eq!(parse_power("0", true, None), Ok(0.0), "a zone that can be idle");
        let over = parse_power("20000000001", false, None);
        assert_eq!(over, Err(Failure::OverLimit), "of a meter that declares no cap");
    }

    #[test]
    fn an_averaging_interval_is_believed_only_within_reason() {
        let mean = |window_s| Averaging::Mean { window_s };
        let cases = [
            // (interval, the driver's own bounds, what is believed)
            (Some("50"), [None, None], mean(0.05)),
            (Some("1000"), [None, None], mean(1.0)),
            (Some("0"), [None, None], Averaging::Unknown),
            (Some("unknown"), [None, None], Averaging::Unknown),
            (Some("4000000000"), [None, None], Averaging::Unknown),
            (Some("4000000000"), [None, Some("4294967295")], Averaging::Unknown),
            (Some("50"), [Some("50"), Some("50")], mean(0.05)),
            (Some("49"), [Some("50"), Some("1000")], Averaging::Unknown),
            (Some("1001"), [Some("50"), Some("1000")], Averaging::Unknown),
            (Some("50"), [Some("0"), Some("0")], mean(0.05)),
            (Some("50"), [Some("unknown"), Some("")], mean(0.05)),
            (None, [Some("50"), Some("1000")], Averaging::Unknown),
        ];
        for (interval, [min, max], expected) in cases {
            let [interval_ms, min_ms, max_ms] = [interval, min, max].map(|t| t.map(str::to_owned));
            let texts = AveragingTexts { interval_ms, min_ms, max_ms };
            assert_eq!(texts.parse(), expected, "{texts:?}");
        }
    }

    #[test]
    fn energy_text_becomes_microjoules_or_a_reason() {
        let cases = [
            ("262143328000", Ok(262_143_328_000)),
            ("0", Ok(0)),
            ("", Err(Failure::Malformed)),
            ("-1", Err(Failure::Negative)),
            ("1.5", Err(Failure::Malformed)),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_energy(text), expected, "{text:?}");
        }
    }
}
