//! YAML as rule files have it: texts, lists and maps, each with its place. What else YAML has is refused.
//!
//! One document without anchors, tags and keys that stand twice, so that a file says one thing to every reader. Size
//! and depth are bounded before anything is built.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScanError, Span, StrInput};

use super::fault::{Fault, Place, RuleError};

/// The longest rule file: far more than anyone writes, and little enough to hold several times over.
pub const BYTES_MAX: usize = 1 << 20;

/// A guard stands at the fourth level; what is deeper is no rule file.
const DEPTH_MAX: usize = 8;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A scalar as it is meant, quotes and escapes resolved. `inner` is the place of its first character, where the
    /// characters stand in the file one by one.
    Text { text: String, inner: Option<Place> },
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// A key and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) place: Place,
    pub(super) name: String,
}

impl Node {
    /// What it is, for whoever expected something else.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text { text, .. } if text.is_empty() => "empty",
            Value::Text { .. } => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Reads one document.
///
/// # Errors
/// The first thing that is no YAML, or none that rule files have: what follows it cannot be trusted.
pub(super) fn parse(text: &str) -> Result<Node, RuleError> {
    if text.len() > BYTES_MAX {
        let fault = Fault::TooMuch { found: "a longer file".to_owned(), expected: "1 MiB" };
        return Err(RuleError { place: Place::START, fault });
    }
    // A byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = Events { parser: Parser::new_from_str(text) };
    let mut root = None;
    loop {
        let (event, span) = events.next()?;
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) if root.is_none() => {
                let (event, span) = events.next()?;
                root = Some(events.node(event, span, 0)?);
            }
            Event::DocumentStart(_) => {
                return Err(foreign(span, "a second document", "one document a file"));
            }
            _ => {}
        }
    }
    let empty = Value::Text { text: String::new(), inner: None };
    Ok(root.unwrap_or(Node { place: Place::START, value: empty }))
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), RuleError> {
        match self.parser.next_event() {
            Some(next) => next.map_err(|error| not_yaml(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, RuleError> {
        if depth == DEPTH_MAX {
            let found = format!("a level {} deep", DEPTH_MAX + 1);
            let fault = Fault::TooMuch { found, expected: "8 levels" };
            return Err(RuleError { place: place(span), fault });
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag),
            // An alias comes after its anchor, which was refused.
            _ => return Err(foreign(span, "no value", "a text, a list or a map")),
        };
        if anchor != 0 {
            return Err(foreign(span, "an anchor", "a value without one"));
        }
        if tag.is_some() {
            return Err(foreign(span, "a tag", "a value without one"));
        }
        let value = match event {
            Event::Scalar(text, ..) => {
                let inner = inner(&text, span);
                Value::Text { text: text.into_owned(), inner }
            }
            Event::SequenceStart(..) => Value::List(self.list(depth)?),
            _ => Value::Map(self.map(depth)?),
        };
        Ok(Node { place: place(span), value })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, RuleError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, RuleError> {
        let mut pairs = Vec::new();
        let mut places = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(pairs);
            }
            let key = self.node(event, span, depth + 1)?;
            let Value::Text { text: name, .. } = key.value else {
                return Err(foreign(span, "a key that is no text", "a word"));
            };
            if let Some(first) = places.insert(name.clone(), key.place) {
                let fault = Fault::Repeated { key: name, first };
                return Err(RuleError { place: key.place, fault });
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            pairs.push((Key { place: key.place, name }, value));
        }
    }
}

/// Where the text begins in the file, when every character of it stands there as itself: plain, or in quotes without
/// escapes.
fn inner(text: &str, span: Span) -> Option<Place> {
    let is_one_line = span.start.line() == span.end.line();
    let width = span.end.col().checked_sub(span.start.col()).filter(|_| is_one_line)?;
    let characters = text.chars().count();
    match width.checked_sub(characters)? {
        0 => Some(place(span)),
        2 => Some(place(span).plus(1)),
        _ => None,
    }
}

fn place(span: Span) -> Place {
    Place { line: span.start.line().max(1), column: span.start.col() + 1 }
}

fn foreign(span: Span, found: &'static str, expected: &'static str) -> RuleError {
    RuleError { place: place(span), fault: Fault::Foreign { found, expected } }
}

fn not_yaml(error: &ScanError) -> RuleError {
    let at = error.marker();
    let place = Place { line: at.line().max(1), column: at.col() + 1 };
    // What stands there most often is the brace of a selector, which begins a map in a list of this form.
    let fault = match error.info() {
        info if info.starts_with("while parsing a flow sequence") => Fault::Foreign {
            found: "neither \",\" nor \"]\" in a list",
            expected: "one of them; quote a selector inside [ ]",
        },
        info => Fault::Yaml(info.to_owned()),
    };
    RuleError { place, fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of each scalar in order, with its place and that of its first character.
    fn texts(node: &Node) -> Vec<(String, Place, Option<Place>)> {
        match &node.value {
            Value::Text { text, inner } => vec![(text.clone(), node.place, *inner)],
            Value::List(items) => items.iter().flat_map(texts).collect(),
            Value::Map(pairs) => pairs.iter().flat_map(|(_, value)| texts(value)).collect(),
        }
    }

    #[test]
    fn places() {
        let at = |line, column| Place { line, column };
        let cases: &[(&str, &str, Place, Option<Place>)] = &[
            ("a: b", "b", at(1, 4), Some(at(1, 4))),
            ("a: b   # why", "b", at(1, 4), Some(at(1, 4))),
            ("é: ü", "ü", at(1, 4), Some(at(1, 4))),
            ("# ü é\na: 'b c'", "b c", at(2, 4), Some(at(2, 5))),
            ("a: \"b\"", "b", at(1, 4), Some(at(1, 5))),
            ("a: \"b\\n\"", "b\n", at(1, 4), None),
            ("a: 'it''s'", "it's", at(1, 4), None),
            ("a: |\n  b\n", "b\n", at(2, 3), None),
            ("a:\r\n  - b", "b", at(2, 5), Some(at(2, 5))),
            ("\u{feff}a: b", "b", at(1, 4), Some(at(1, 4))),
        ];
        for (input, text, place, inner) in cases {
            let found = texts(&parse(input).unwrap());
            assert_eq!(found, [((*text).to_owned(), *place, *inner)], "{input:?}");
        }
    }

    #[test]
    fn a_selector_in_brackets_wants_quotes() {
        let hint =
            "neither \",\" nor \"]\" in a list, expected one of them; quote a selector inside [ ]";
        let cases = [
            ("of: [a{b=\"c\"}]", Some("line 1, column 7")),
            ("of: [a, b{c=~\"d\", e=\"f\"}]", Some("line 1, column 10")),
            ("of: ['a{b=\"c\"}']", None),
            ("of: a{b=\"c\"}", None),
        ];
        for (input, place) in cases {
            let found = parse(input).err().map(|error| error.to_string());
            assert_eq!(found, place.map(|place| format!("{place}: {hint}")), "{input}");
        }
    }

    #[test]
    fn bounds() {
        let long = format!("a: {}", "b".repeat(BYTES_MAX));
        let [deep, deeper] = [100, 100_000].map(|depth| "[".repeat(depth));
        let nested: String = (0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        let cases = [
            (long, "line 1, column 1: a longer file, expected at most 1 MiB"),
            (deep, "line 1, column 9: a level 9 deep, expected at most 8 levels"),
            (deeper, "line 1, column 256: recursion limit exceeded, expected YAML"),
            (nested, "line 8, column 8: a level 9 deep, expected at most 8 levels"),
        ];
        for (input, expected) in cases {
            assert_eq!(parse(&input).unwrap_err().to_string(), expected);
        }
    }
}
