//! One scrape body as an iterator of entries.
//!
//! Reads the whole body's bytes, checks once that they are UTF-8, and cuts lines; the meaning of a
//! line is the grammar's. Promises one entry or one fault per line that is neither blank nor a
//! comment, in order, and that it ends.

use std::iter::FusedIterator;

use memchr::memchr;

use crate::fault::Fault;
use crate::{Kind, Labels, Limits, Text, grammar};

/// A line that says something.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// One number of one series.
    Sample(Sample<'a>),
    /// What kind of family a name is.
    Type {
        /// The family's name.
        name: Text<'a>,
        /// Its kind.
        kind: Kind,
    },
    /// What a family measures, in words.
    Help {
        /// The family's name.
        name: Text<'a>,
        /// The words; `\\` and `\n` are its only escapes.
        text: Text<'a>,
    },
}

/// One number of one series, borrowed from the body.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The metric's name; quoted names may hold any UTF-8.
    pub name: Text<'a>,
    /// The labels in the order of the body. A series is its *set* of labels, whatever their order.
    pub labels: Labels<'a>,
    /// The value. A NaN has always the bits `0x7ff8000000000001`, never a target's own choice,
    /// because Prometheus keeps another NaN as its marker for stale series.
    pub value: f64,
    /// Milliseconds since the Unix epoch, where the target gave them.
    pub timestamp_ms: Option<i64>,
    /// The line of the body, from 1.
    pub line: usize,
}

/// All samples of a body, or its first fault: one bad line fails the whole.
///
/// # Errors
///
/// The first [`Fault`] of the body, whichever line it is on.
pub fn samples(body: &[u8]) -> Result<Vec<Sample<'_>>, Fault> {
    let mut samples = Vec::new();
    for entry in Exposition::new(body)? {
        if let Entry::Sample(sample) = entry? {
            samples.push(sample);
        }
    }
    Ok(samples)
}

/// One pass over a body.
///
/// After a fault the iterator goes on with the next line. A line is not always an exporter's unit,
/// though: when a label value holds a raw line feed, what follows it is read as a line of its own.
/// Who must not store an invented series stops at the first fault.
#[derive(Clone, Debug)]
pub struct Exposition<'a> {
    rest: &'a str,
    line: usize,
    is_terminated: bool,
    limits: Limits,
    /// Label names of the line in hand, kept to find repeats without allocating for each sample.
    names: Vec<Text<'a>>,
}

impl<'a> Exposition<'a> {
    /// Opens a body under the default [`Limits`].
    ///
    /// # Errors
    ///
    /// [`BodyTooLong`](crate::FaultKind::BodyTooLong), or
    /// [`Encoding`](crate::FaultKind::Encoding) with the place of the first byte that is not UTF-8.
    pub fn new(body: &'a [u8]) -> Result<Self, Fault> {
        Self::with_limits(body, Limits::default())
    }

    /// Opens a body under limits of the caller's own.
    ///
    /// # Errors
    ///
    /// As [`Exposition::new`].
    pub fn with_limits(body: &'a [u8], limits: Limits) -> Result<Self, Fault> {
        if body.len() > limits.body_bytes {
            return Err(Fault::body_too_long(&limits));
        }
        let rest = std::str::from_utf8(body).map_err(|error| Fault::encoding(body, error))?;
        Ok(Self {
            rest,
            line: 0,
            is_terminated: body.last().is_none_or(|&last| last == b'\n'),
            limits,
            names: Vec::new(),
        })
    }

    /// Whether the body ends in a line feed, or is empty.
    ///
    /// One that does not may have been cut: its last value, `12`, may have been `123`. Whoever
    /// knows that the transport delivered the body whole can take it all the same.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.is_terminated
    }

    /// Cuts the next line, without its line feed.
    fn next_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        let (line, rest) = match memchr(b'\n', self.rest.as_bytes()) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, ""),
        };
        self.rest = rest;
        Some(line)
    }
}

impl<'a> Iterator for Exposition<'a> {
    type Item = Result<Entry<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.next_line()?;
            match grammar::line(line, self.line, &self.limits, &mut self.names) {
                Ok(None) => {}
                Ok(Some(entry)) => return Some(Ok(entry)),
                Err(mistake) => {
                    return Some(Err(Fault::new(self.line, line, mistake, &self.limits)));
                }
            }
        }
    }
}

impl FusedIterator for Exposition<'_> {}
