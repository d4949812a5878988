//! The labels of one sample, read again each time they are asked for.
//!
//! Reads text between braces that the grammar has accepted already, with the same grammar, so that
//! no sample has to keep a list. Cannot fail.

use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;

use crate::Text;
use crate::grammar::{self, Element};

/// The labels of a sample, in the order of the body. Each name occurs once.
#[derive(Clone, Copy)]
pub struct Labels<'a> {
    raw: &'a str,
    count: usize,
}

impl<'a> Labels<'a> {
    pub(crate) const EMPTY: Labels<'static> = Labels { raw: "", count: 0 };

    /// `raw` is what stands between the braces, and has been accepted with `count` labels in it.
    pub(crate) fn new(raw: &'a str, count: usize) -> Self {
        Self { raw, count }
    }

    /// The text between the braces as it stands in the body. Equal text means equal labels; unequal
    /// text may still be the same set in another order or spelling. A quoted metric name is part of
    /// it.
    #[must_use]
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// How many labels there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// The value of a label, by the label's own (unescaped) name.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.iter().find(|(found, _)| found == name).map(|(_, value)| value.unescape())
    }

    /// Names and values in the order of the body.
    #[must_use]
    pub fn iter(self) -> LabelsIter<'a> {
        LabelsIter { rest: self.raw.trim_start_matches([' ', '\t']), remaining: self.count }
    }
}

impl<'a> IntoIterator for Labels<'a> {
    type Item = (Text<'a>, Text<'a>);
    type IntoIter = LabelsIter<'a>;

    fn into_iter(self) -> LabelsIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(*self).finish()
    }
}

/// Iterator over [`Labels`].
#[derive(Clone, Debug)]
pub struct LabelsIter<'a> {
    rest: &'a str,
    remaining: usize,
}

impl<'a> Iterator for LabelsIter<'a> {
    type Item = (Text<'a>, Text<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.remaining > 0 {
            let (rest, element) = grammar::element(self.rest).ok()?;
            // After the last element nothing follows; the brace is not part of the text.
            self.rest = grammar::separator(rest).map_or("", |(rest, ())| rest);
            if let Element::Label(name, value) = element {
                self.remaining -= 1;
                return Some((name, value));
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for LabelsIter<'_> {}
impl FusedIterator for LabelsIter<'_> {}
