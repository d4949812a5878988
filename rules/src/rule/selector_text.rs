//! Reads a selector as PromQL writes it: `metric{label="text", label=~"regex"}`.
//!
//! A range, an offset or a function is no selector: which readings count is for the file's settings to say.

use super::pattern::Pattern;
use super::selector::{Condition, Matcher, Selector};

/// What is wrong with a selector, and at which character of it, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SelectorError {
    pub(super) at: usize,
    pub(super) what: String,
}

/// Reads a selector.
///
/// # Errors
/// The first character that does not belong there, and what was expected.
pub(super) fn parse(text: &str) -> Result<Selector, SelectorError> {
    let mut reader = Reader { letters: text.chars().collect(), at: 0 };
    reader.blanks();
    let metric = reader.word(|c| c == ':');
    if metric.is_empty() {
        return Err(reader.fault("the name of a metric or of a rule"));
    }
    reader.blanks();
    let mut matchers = Vec::new();
    if reader.take('{') {
        loop {
            reader.blanks();
            if reader.take('}') {
                break;
            }
            matchers.push(reader.matcher()?);
            reader.blanks();
            if !reader.take(',') && reader.peek() != Some('}') {
                return Err(reader.fault("\",\" or \"}\""));
            }
        }
        reader.blanks();
    }
    match reader.peek() {
        None => Ok(Selector { metric, matchers }),
        Some(_) if matchers.is_empty() => Err(reader.fault("\"{\" or the end of the selector")),
        Some(_) => Err(reader.fault("the end of the selector")),
    }
}

/// Whether a text is the name of a label.
pub(super) fn is_label(text: &str) -> bool {
    is_word(text, |_| false)
}

/// Whether a text is the name of a metric.
pub(super) fn is_metric(text: &str) -> bool {
    is_word(text, |c| c == ':')
}

fn is_word(text: &str, and: impl Fn(char) -> bool) -> bool {
    let mut reader = Reader { letters: text.chars().collect(), at: 0 };
    !reader.word(and).is_empty() && reader.peek().is_none()
}

struct Reader {
    letters: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek();
        self.at += usize::from(letter.is_some());
        letter
    }

    fn take(&mut self, letter: char) -> bool {
        let is_there = self.peek() == Some(letter);
        self.at += usize::from(is_there);
        is_there
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Letters, underscores, what `and` allows besides, and after the first of them digits.
    fn word(&mut self, and: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while let Some(c) = self.peek() {
            let is_digit = c.is_ascii_digit() && self.at > start;
            if !(is_digit || c.is_ascii_alphabetic() || c == '_' || and(c)) {
                break;
            }
            self.at += 1;
        }
        self.letters[start..self.at].iter().collect()
    }

    fn matcher(&mut self) -> Result<Matcher, SelectorError> {
        let start = self.at;
        let label = self.word(|_| false);
        if label.is_empty() {
            return Err(self.fault("the name of a label"));
        }
        if label == "__name__" {
            let what = "a matcher of the name, expected the name before \"{\"".to_owned();
            return Err(SelectorError { at: start, what });
        }
        self.blanks();
        let sign = match (self.next(), self.peek()) {
            (Some('='), Some('~')) => "=~",
            (Some('!'), Some('~')) => "!~",
            (Some('!'), Some('=')) => "!=",
            (Some('='), _) => "=",
            (found, _) => {
                self.at -= usize::from(found.is_some());
                return Err(self.fault("=, !=, =~ or !~"));
            }
        };
        self.at += sign.len() - 1;
        self.blanks();
        let start = self.at;
        let text = self.text()?;
        let pattern = |text: &str| {
            Pattern::new(text).map_err(|why| SelectorError {
                at: start,
                what: format!("{text:?} is no regular expression: {why}"),
            })
        };
        let condition = match sign {
            "=" => Condition::Is(text),
            "!=" => Condition::IsNot(text),
            "=~" => Condition::Matches(pattern(&text)?),
            _ => Condition::MatchesNot(pattern(&text)?),
        };
        Ok(Matcher { label, condition })
    }

    /// A text in quotes; in backquotes it has no escapes.
    fn text(&mut self) -> Result<String, SelectorError> {
        let start = self.at;
        let Some(quote @ ('"' | '\'' | '`')) = self.peek() else {
            return Err(self.fault("a text in quotes"));
        };
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') if quote != '`' => text.push(self.escape()?),
                Some(c) => text.push(c),
                None => {
                    let what = format!("a text without its end, expected {quote}");
                    return Err(SelectorError { at: start, what });
                }
            }
        }
    }

    /// What stands for one character, after its backslash, as Go has it.
    fn escape(&mut self) -> Result<char, SelectorError> {
        let start = self.at - 1;
        let letter = self.next();
        let found = match letter {
            Some('a') => Some('\u{7}'),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('v') => Some('\u{b}'),
            Some(c @ ('\\' | '"' | '\'')) => Some(c),
            Some('x') => self.number(2, 16).filter(char::is_ascii),
            Some('u') => self.number(4, 16),
            Some('U') => self.number(8, 16),
            Some('0'..='7') => {
                self.at -= 1;
                self.number(3, 8).filter(char::is_ascii)
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let seen: String = letter.into_iter().collect();
            let what =
                format!("\"\\{seen}\" is no escape, expected one of Go, such as \\\\ or \\n");
            SelectorError { at: start, what }
        })
    }

    fn number(&mut self, digits: usize, radix: u32) -> Option<char> {
        let text: String = self.letters.get(self.at..self.at + digits)?.iter().collect();
        self.at += digits;
        let is_plain = text.chars().all(|c| c.is_digit(radix));
        u32::from_str_radix(&text, radix).ok().filter(|_| is_plain).and_then(char::from_u32)
    }

    fn fault(&self, expected: &str) -> SelectorError {
        let found = match self.peek() {
            Some(c) => format!("{:?}", c.to_string()),
            None => "the end".to_owned(),
        };
        SelectorError { at: self.at, what: format!("{found} in a selector, expected {expected}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        let cases = [
            ("up", "up"),
            (" up ", "up"),
            ("up{}", "up"),
            (r#"a{b="c"}"#, r#"a{b="c"}"#),
            (r#"a { b = "c" , d != 'e', }"#, r#"a{b="c",d!="e"}"#),
            (r#"a{b=~"c|d",e!~`\d+`}"#, r#"a{b=~"c|d",e!~"\\d+"}"#),
            ("socket:module_power_watts:mean", "socket:module_power_watts:mean"),
            (r#"a{b="\"\\\n\x41\u00e9\101"}"#, "a{b=\"\\\"\\\\\\nAéA\"}"),
            (r#"a{b="}"}"#, r#"a{b="}"}"#),
        ];
        for (input, expected) in cases {
            let selector = parse(input).unwrap();
            assert_eq!(selector.to_string(), expected, "{input}");
            assert_eq!(parse(&selector.to_string()), Ok(selector), "{input}");
        }
    }

    #[test]
    fn what_is_no_selector() {
        let cases = [
            ("", 0, "the end in a selector, expected the name of a metric or of a rule"),
            ("{a=\"b\"}", 0, "\"{\" in a selector, expected the name of a metric or of a rule"),
            ("rate(a[5m])", 4, "\"(\" in a selector, expected \"{\" or the end of the selector"),
            ("a[5m]", 1, "\"[\" in a selector, expected \"{\" or the end of the selector"),
            ("a{b=\"c\"} offset 5m", 9, "\"o\" in a selector, expected the end of the selector"),
            ("a{b}", 3, "\"}\" in a selector, expected =, !=, =~ or !~"),
            ("a{b==\"c\"}", 4, "\"=\" in a selector, expected a text in quotes"),
            ("a{b=c}", 4, "\"c\" in a selector, expected a text in quotes"),
            ("a{b=\"c\" d=\"e\"}", 8, "\"d\" in a selector, expected \",\" or \"}\""),
            ("a{b=\"c\"", 7, "the end in a selector, expected \",\" or \"}\""),
            ("a{b=\"c}", 4, "a text without its end, expected \""),
            ("a{1=\"c\"}", 2, "\"1\" in a selector, expected the name of a label"),
            ("a{b=~\"(\"}", 5, "\"(\" is no regular expression: unclosed group"),
            ("a{b=\"\\q\"}", 5, "\"\\q\" is no escape, expected one of Go, such as \\\\ or \\n"),
            ("a{b=\"\\u12\"}", 5, "\"\\u\" is no escape, expected one of Go, such as \\\\ or \\n"),
            ("a{__name__=\"b\"}", 2, "a matcher of the name, expected the name before \"{\""),
        ];
        for (input, at, what) in cases {
            assert_eq!(parse(input), Err(SelectorError { at, what: what.to_owned() }), "{input}");
        }
    }
}
