//! Text of the body that may hold escapes, borrowed as it stands.
//!
//! Reads nothing of itself; holds a slice that the grammar cut out and knows which escapes count in
//! it. Comparing and printing go by the meaning and not by the spelling, and allocate nothing.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use memchr::memchr;

/// A name, a label value or a HELP text as it stands in the body.
///
/// ```
/// use wattscribe_parser::samples;
///
/// let read = samples(br#"disk{path="C:\\tmp"} 1"#)?;
/// let (name, value) = read[0].labels.iter().next().unwrap();
/// assert_eq!(name, "path");
/// assert_eq!(value.raw(), r"C:\\tmp");
/// assert_eq!(value.unescape(), r"C:\tmp");
/// # Ok::<(), wattscribe_parser::Fault>(())
/// ```
#[derive(Clone, Copy)]
pub struct Text<'a> {
    raw: &'a str,
    escapes: Escapes,
}

/// Which escapes a text holds. Any other backslash stands for itself.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Escapes {
    /// None at all.
    None,
    /// `\\`, `\"` and `\n`.
    Quoted,
    /// `\\` and `\n`.
    Help,
}

impl<'a> Text<'a> {
    pub(crate) fn new(raw: &'a str, escapes: Escapes) -> Self {
        Self { raw, escapes }
    }

    /// The text as it stands in the body, escapes and all, without its quotes.
    #[must_use]
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// What the text means; borrowed when there is no backslash in it.
    #[must_use]
    pub fn unescape(self) -> Cow<'a, str> {
        if self.is_plain() { Cow::Borrowed(self.raw) } else { self.pieces().collect() }
    }

    fn is_plain(self) -> bool {
        self.escapes == Escapes::None || memchr(b'\\', self.raw.as_bytes()).is_none()
    }

    fn pieces(self) -> Pieces<'a> {
        Pieces { rest: self.raw, escapes: self.escapes }
    }

    fn bytes(self) -> impl Iterator<Item = u8> {
        self.pieces().flat_map(str::bytes)
    }
}

/// The meaning of a text piece by piece: a run of characters, or one unescaped character.
struct Pieces<'a> {
    rest: &'a str,
    escapes: Escapes,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let unescaped = match (self.escapes, self.rest.as_bytes()) {
            (_, []) => return None,
            (Escapes::None, _) => return Some(std::mem::take(&mut self.rest)),
            (_, [b'\\', b'\\', ..]) => Some("\\"),
            (_, [b'\\', b'n', ..]) => Some("\n"),
            (Escapes::Quoted, [b'\\', b'"', ..]) => Some("\""),
            _ => None,
        };
        if unescaped.is_some() {
            self.rest = &self.rest[2..];
            return unescaped;
        }
        // A backslash in first place here starts no escape: it belongs to the run.
        let run = memchr(b'\\', &self.rest.as_bytes()[1..]).map_or(self.rest.len(), |at| at + 1);
        let (run, rest) = self.rest.split_at(run);
        self.rest = rest;
        Some(run)
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.escapes, other.escapes) {
            (Escapes::None, Escapes::None) => self.raw == other.raw,
            _ => self.bytes().eq(other.bytes()),
        }
    }
}

impl Eq for Text<'_> {}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.escapes, other.escapes) {
            (Escapes::None, Escapes::None) => self.raw.cmp(other.raw),
            _ => self.bytes().cmp(other.bytes()),
        }
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        *self == Text::new(other, Escapes::None)
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

/// Prints what the text means.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().try_for_each(|piece| f.write_str(piece))
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.unescape(), f)
    }
}
