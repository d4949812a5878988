//! Labels of series and of groups in their one text: sorted by name, `a="b",c="d"`, escaped as on a page.

use std::borrow::Cow;
use std::fmt::Write;

use crate::rule::{Rule, Selector};

/// The labels of one series of one node. `node` is the target, whatever the page says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Labels<'a> {
    node: &'a str,
    text: &'a str,
    pairs: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Labels<'a> {
    /// Reads the text; `None` when it is no such text.
    pub(crate) fn read(node: &'a str, text: &'a str) -> Option<Labels<'a>> {
        let (mut pairs, mut left) = (Vec::new(), text);
        while !left.is_empty() {
            let (name, quoted) = left.split_once("=\"")?;
            let end = closing_quote(quoted)?;
            pairs.push((name, unescaped(&quoted[..end])?));
            left = &quoted[end + 1..];
            left = match left.strip_prefix(',') {
                Some(rest) if !rest.is_empty() => rest,
                None if left.is_empty() => left,
                Some(_) | None => return None,
            };
        }
        Some(Labels { node, text, pairs })
    }

    /// The text that they were read from.
    pub(crate) const fn text(&self) -> &'a str {
        self.text
    }

    fn get(&self, name: &str) -> Option<&str> {
        if name == Rule::NODE {
            return Some(self.node);
        }
        self.pairs.iter().find(|(of, _)| *of == name).map(|(_, value)| &**value)
    }

    /// Whether a selector takes the series.
    pub(crate) fn are_taken_by(&self, selector: &Selector, metric: &str) -> bool {
        selector.takes(metric, |name| self.get(name))
    }

    /// The text of some of them, whose names are sorted: those that are not empty, without `node`.
    pub(crate) fn text_of(&self, names: &[String]) -> String {
        let mut text = String::new();
        for name in names.iter().filter(|name| *name != Rule::NODE) {
            let value = self.get(name).unwrap_or_default();
            if value.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push(',');
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "{name}=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    other => text.push(other),
                }
            }
            text.push('"');
        }
        text
    }
}

/// Where the first quote stands that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                other @ ('\\' | '"') => other,
                _ => return None,
            },
            other => other,
        });
    }
    Some(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("", &["a"], ""),
            (r#"a="1",b="2""#, &["a", "b"], r#"a="1",b="2""#),
            (r#"a="1",b="2""#, &["b", "c"], r#"b="2""#),
            (r#"a="",node="x""#, &["a", "node"], ""),
            (r#"a="q\"\\\n,b=\"""#, &["a"], r#"a="q\"\\\n,b=\"""#),
            (r#"a="é=\"x\",""#, &["a"], r#"a="é=\"x\",""#),
        ];
        for (text, names, expected) in cases {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let labels = Labels::read("n1", text).unwrap();
            assert_eq!(labels.text_of(&names), *expected, "{text}");
            assert_eq!(labels.get("node"), Some("n1"), "{text}");
        }
        for text in ["a", "a=", "a=\"", "a=\"1", "a=\"1\"b=\"2\"", "a=\"1\",", "a=\"\\x\"", ","] {
            assert_eq!(Labels::read("n1", text), None, "{text}");
        }
    }
}
