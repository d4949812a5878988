//! Durations as Prometheus writes them: `500ms`, `1s`, `1h30m`.

use std::time::Duration;

/// Units from the longest to the shortest, in milliseconds. Each stands at most once, in this order. A year has 365 days.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 24 * 3_600_000),
    ("w", 7 * 24 * 3_600_000),
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads a duration; `None` for anything else. Zero is one.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters =
            after.len() - after.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
        let (unit, after) = after.split_at(letters);
        // Going on where the last unit was found keeps them in order, each once.
        let (_, unit_ms) = units.find(|(name, _)| *name == unit)?;
        let part_ms = number.parse::<u64>().ok()?.checked_mul(*unit_ms)?;
        total_ms = total_ms.checked_add(part_ms)?;
        rest = after;
    }
    (!text.is_empty()).then(|| Duration::from_millis(total_ms))
}

/// Writes a duration so that it reads best: `1m`, `1h30m`, `500ms`.
pub(crate) fn text(duration: Duration) -> String {
    let mut rest_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    // Weeks and years are read, but nobody thinks in them.
    for (unit, unit_ms) in &UNITS[2..] {
        let count = rest_ms / unit_ms;
        rest_ms %= unit_ms;
        if count > 0 {
            text += &format!("{count}{unit}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("1s", Some(1_000), "1s"),
            ("500ms", Some(500), "500ms"),
            ("5m", Some(300_000), "5m"),
            ("1h30m", Some(5_400_000), "1h30m"),
            ("90m", Some(5_400_000), "1h30m"),
            ("1d", Some(86_400_000), "1d"),
            ("1w", Some(604_800_000), "7d"),
            ("1y", Some(31_536_000_000), "365d"),
            ("1m1s1ms", Some(61_001), "1m1s1ms"),
            ("0s", Some(0), "0s"),
            ("", None, ""),
            ("1", None, ""),
            ("s", None, ""),
            ("1 s", None, ""),
            ("1.5s", None, ""),
            ("-1s", None, ""),
            ("1S", None, ""),
            ("30m1h", None, ""),
            ("1s1s", None, ""),
            ("1us", None, ""),
            ("1s ", None, ""),
            ("99999999999999999999s", None, ""),
            ("9999999999999y", None, ""),
        ];
        for (input, expected_ms, written) in cases {
            let found = parse(input);
            assert_eq!(found, expected_ms.map(Duration::from_millis), "{input:?}");
            if let Some(found) = found {
                assert_eq!(text(found), written, "{input:?}");
            }
        }
    }
}
