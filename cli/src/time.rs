//! Times on the command line and in tables: Unix seconds or RFC 3339, always printed in UTC.

use jiff::Timestamp;

/// Unix seconds from `1788310143.5` or `2026-09-02T00:49:03.5Z` (any offset, but there must be one: a
/// local time names two moments a year).
pub(crate) fn parse_time(text: &str) -> Result<f64, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let timestamp: Timestamp = text.parse().map_err(|_| {
                format!("{text:?} is no time: expected Unix seconds or RFC 3339 with an offset, as 2026-09-02T00:49:03Z")
            })?;
            // Unix microseconds are whole in a double until the year 2255.
            timestamp.as_microsecond() as f64 / 1e6
        }
    };
    if seconds.is_finite() { Ok(seconds) } else { Err(format!("{text:?} is no finite time")) }
}

/// RFC 3339 in UTC to the millisecond.
pub(crate) fn utc(unix_s: f64) -> String {
    match Timestamp::from_millisecond((unix_s * 1e3).round() as i64) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Beyond the year 9999 only the number says something.
        Err(_) => format!("{unix_s}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed() {
        let cases = [
            ("0", 0.0, "1970-01-01T00:00:00.000Z"),
            ("1788310143.461", 1_788_310_143.461, "2026-09-02T00:49:03.461Z"),
            ("2026-09-02T00:49:03Z", 1_788_310_143.0, "2026-09-02T00:49:03.000Z"),
            ("2026-09-02T02:49:03.25+02:00", 1_788_310_143.25, "2026-09-02T00:49:03.250Z"),
        ];
        for (text, unix_s, printed) in cases {
            assert_eq!(parse_time(text), Ok(unix_s), "{text}");
            assert_eq!(utc(unix_s), printed, "{text}");
        }
        for text in ["", "yesterday", "2026-09-02T00:49:03", "NaN", "inf"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
