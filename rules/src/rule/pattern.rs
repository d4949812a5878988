//! Regular expressions of matchers, which mean here what they mean in Prometheus.
//!
//! They match a whole text, a dot matches a line feed too, and `\d`, `\w`, `\s` and their opposites are of ASCII, as in Go.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// A compiled expression takes at most so many bytes: enough for a list of hundreds of names, and a file of them is
/// compiled within seconds.
const SIZE_MAX: usize = 256 << 10;

/// A regular expression of a matcher.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles the text of a matcher.
    ///
    /// # Errors
    /// What is no regular expression, in one line; and one that takes more than 256 KiB.
    pub fn new(text: &str) -> Result<Pattern, String> {
        // Alone first: what is closed too often must not close the group around it.
        let build = |text: &str| RegexBuilder::new(text).size_limit(SIZE_MAX).build();
        let inner = of_ascii(text);
        let regex = build(&inner).and_then(|_| build(&format!("^(?s:{inner})$")));
        match regex {
            Ok(regex) => Ok(Pattern { text: text.to_owned(), regex }),
            Err(regex::Error::CompiledTooBig(_)) => Err("it takes more than 256 KiB".to_owned()),
            // The last line says what is wrong; those above it draw the text again.
            Err(error) => {
                let error = error.to_string();
                let last = error.lines().last().unwrap_or_default();
                Err(last.trim_start_matches("error: ").to_owned())
            }
        }
    }

    /// The expression as it stands in the matcher.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches the whole text.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Writes the classes of Perl as the sets of ASCII that they are in Go. A set may stand within a set.
fn of_ascii(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            written.push(letter);
            continue;
        }
        match letters.next() {
            Some('d') => written += "[0-9]",
            Some('D') => written += "[^0-9]",
            Some('w') => written += "[0-9A-Za-z_]",
            Some('W') => written += "[^0-9A-Za-z_]",
            Some('s') => written += r"[\t\n\x0C\r ]",
            Some('S') => written += r"[^\t\n\x0C\r ]",
            Some('b') => written += r"(?-u:\b)",
            other => {
                written.push('\\');
                written.extend(other);
            }
        }
    }
    written
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("total", &["total"], &["total2", "", "Total"]),
            ("a|b", &["a", "b"], &["ab", "a|b"]),
            ("GPU-.+", &["GPU-1", "GPU-\n"], &["GPU-", "xGPU-1"]),
            (r"\d+", &["0", "42"], &["", "4 2", "٤"]),
            (r"[\d.]+", &["1.5"], &["a"]),
            (r"\\d", &[r"\d"], &["1"]),
            (r"\w+", &["a_1"], &["é"]),
            (r"\S*", &["é", ""], &[" "]),
            (".", &["é"], &["", "ab"]),
            ("", &[""], &["a"]),
            ("(?i)acpi", &["ACPI"], &["dcgm"]),
            (r"(?i)[a-f]+é\w", &["Aéz", "fÉ_"], &["gé1"]),
            (".*", &["", "anything"], &[]),
        ];
        for (text, yes, no) in cases {
            let pattern = Pattern::new(text).unwrap();
            for input in *yes {
                assert!(pattern.is_match(input), "{text} matches {input:?}");
            }
            for input in *no {
                assert!(!pattern.is_match(input), "{text} does not match {input:?}");
            }
        }
    }

    #[test]
    fn what_is_none() {
        let cases = [
            ("a)(b", "unopened group"),
            ("(", "unclosed group"),
            ("a{9999}{9999}", "it takes more than 256 KiB"),
            ("(?=a)", "look-around, including look-ahead and look-behind, is not supported"),
        ];
        for (text, expected) in cases {
            assert_eq!(Pattern::new(text).unwrap_err(), expected, "{text}");
        }
    }
}
