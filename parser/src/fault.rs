//! What was wrong with a body, and where.
//!
//! The grammar reports a [`Mistake`], which borrows and costs nothing; only when it leaves the
//! crate does it become a [`Fault`] with line, column and words.

use std::error::Error;
use std::fmt;
use std::str::Utf8Error;

use memchr::{memchr_iter, memrchr};
use nom::error::{ErrorKind, ParseError};

use crate::Limits;

/// Most characters of a body that a fault quotes: enough to find the place, short enough for a log.
const EXCERPT_CHARS_MAX: usize = 40;

/// One thing wrong with a body. It prints as one line, such as
/// ``3:14: expected a number, found `12W` ``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line of the body, from 1.
    pub line: usize,
    /// Column of the line in characters, from 1.
    pub column: usize,
    /// Which rule of the format was broken.
    pub kind: FaultKind,
    /// What stood there instead, in words, with a short quotation of the body.
    pub found: Box<str>,
}

/// Which rule of the format was broken. A closed set, to count faults by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// A byte that is not UTF-8.
    Encoding,
    /// A carriage return outside quotes; lines end in a line feed alone.
    CarriageReturn,
    /// A NUL byte outside a label value and a HELP text.
    Nul,
    /// No metric name where one must be.
    MetricName,
    /// A character that cannot continue a name, and a name that should have ended.
    NameEnd,
    /// Braces without a metric name before or inside them.
    MetricNameMissing,
    /// No label name where one must be.
    LabelName,
    /// A label name without an equals sign.
    Equals,
    /// An equals sign without a quoted value.
    LabelValue,
    /// A quote that the line does not close.
    UnclosedQuote,
    /// Neither comma nor closing brace after a label.
    Separator,
    /// A label name used twice in one sample.
    DuplicateLabel,
    /// The metric's own name given as a label.
    ReservedLabel,
    /// No number where the value must be.
    Value,
    /// A number too large for a double.
    ValueRange,
    /// A timestamp that is not a whole number.
    Timestamp,
    /// A timestamp beyond 64 bits.
    TimestampRange,
    /// More after the end of a sample or of its metadata.
    Trailing,
    /// A kind of family that the format does not have.
    MetricKind,
    /// A body over [`Limits::body_bytes`].
    BodyTooLong,
    /// A line over [`Limits::line_bytes`].
    LineTooLong,
    /// A sample over [`Limits::labels`].
    TooManyLabels,
    /// A name over [`Limits::name_bytes`].
    NameTooLong,
    /// A label value over [`Limits::value_bytes`].
    ValueTooLong,
}

impl FaultKind {
    /// Every kind, in the order of this page: for counters that must exist before the first fault.
    pub const ALL: [Self; 24] = [
        Self::Encoding,
        Self::CarriageReturn,
        Self::Nul,
        Self::MetricName,
        Self::NameEnd,
        Self::MetricNameMissing,
        Self::LabelName,
        Self::Equals,
        Self::LabelValue,
        Self::UnclosedQuote,
        Self::Separator,
        Self::DuplicateLabel,
        Self::ReservedLabel,
        Self::Value,
        Self::ValueRange,
        Self::Timestamp,
        Self::TimestampRange,
        Self::Trailing,
        Self::MetricKind,
        Self::BodyTooLong,
        Self::LineTooLong,
        Self::TooManyLabels,
        Self::NameTooLong,
        Self::ValueTooLong,
    ];

    /// The kind as one word for a label or a column.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::CarriageReturn => "carriage_return",
            Self::Nul => "nul",
            Self::MetricName => "metric_name",
            Self::NameEnd => "name_end",
            Self::MetricNameMissing => "metric_name_missing",
            Self::LabelName => "label_name",
            Self::Equals => "equals",
            Self::LabelValue => "label_value",
            Self::UnclosedQuote => "unclosed_quote",
            Self::Separator => "separator",
            Self::DuplicateLabel => "duplicate_label",
            Self::ReservedLabel => "reserved_label",
            Self::Value => "value",
            Self::ValueRange => "value_range",
            Self::Timestamp => "timestamp",
            Self::TimestampRange => "timestamp_range",
            Self::Trailing => "trailing",
            Self::MetricKind => "metric_kind",
            Self::BodyTooLong => "body_too_long",
            Self::LineTooLong => "line_too_long",
            Self::TooManyLabels => "too_many_labels",
            Self::NameTooLong => "name_too_long",
            Self::ValueTooLong => "value_too_long",
        }
    }

    /// What should have stood there.
    fn expected(self) -> &'static str {
        match self {
            Self::Encoding => "UTF-8",
            Self::CarriageReturn => "lines that end in a line feed alone",
            Self::Nul => "text",
            Self::MetricName => "a metric name",
            Self::NameEnd => "a blank after the name",
            Self::MetricNameMissing => "a metric name before or inside the braces",
            Self::LabelName => "a label name",
            Self::Equals => "`=` after the label name",
            Self::LabelValue => "a label value in double quotes",
            Self::UnclosedQuote => "a closing `\"`",
            Self::Separator => "`,` or `}` after the label",
            Self::DuplicateLabel => "each label once",
            Self::ReservedLabel => "a label that is not the metric's own name",
            Self::Value => "a number",
            Self::ValueRange => "a number that a double can hold",
            Self::Timestamp => "a timestamp in whole milliseconds",
            Self::TimestampRange => "a timestamp of 64 bits",
            Self::Trailing => "the end of the line",
            Self::MetricKind => "counter, gauge, histogram, summary or untyped",
            Self::BodyTooLong => "a body within the limit",
            Self::LineTooLong => "a line within the limit",
            Self::TooManyLabels => "labels within the limit",
            Self::NameTooLong => "a name within the limit",
            Self::ValueTooLong => "a label value within the limit",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Fault {
    /// Puts a mistake in `text`, the line numbered `line`, into words.
    pub(crate) fn new(line: usize, text: &str, mistake: Mistake<'_>, limits: &Limits) -> Self {
        let found = match mistake.kind {
            FaultKind::CarriageReturn => "a carriage return".into(),
            FaultKind::Nul => "a NUL byte".into(),
            FaultKind::BodyTooLong => format!("more than {} bytes", limits.body_bytes),
            FaultKind::LineTooLong => format!("more than {} bytes", limits.line_bytes),
            FaultKind::TooManyLabels => format!("more than {}", limits.labels),
            FaultKind::NameTooLong => format!("more than {} bytes", limits.name_bytes),
            FaultKind::ValueTooLong => format!("more than {} bytes", limits.value_bytes),
            FaultKind::DuplicateLabel => format!("{} again", excerpt(mistake.at)),
            _ => excerpt(mistake.at),
        };
        // A mistake is part of the line, so that the difference of their addresses is its place.
        let offset = (mistake.at.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        let column = column_after(text.get(..offset).unwrap_or_default());
        Self { line, column, kind: mistake.kind, found: found.into() }
    }

    /// The whole body is more than is read.
    pub(crate) fn body_too_long(limits: &Limits) -> Self {
        Self::new(1, "", Mistake::new("", FaultKind::BodyTooLong), limits)
    }

    /// The place of the first byte that is not UTF-8.
    pub(crate) fn encoding(body: &[u8], error: Utf8Error) -> Self {
        let before = &body[..error.valid_up_to()];
        let line_start = memrchr(b'\n', before).map_or(0, |lf| lf + 1);
        let found = match (error.error_len(), body.get(error.valid_up_to())) {
            (Some(_), Some(byte)) => format!("byte 0x{byte:02x}"),
            _ => "half a character at the end of the body".into(),
        };
        Self {
            line: memchr_iter(b'\n', before).count() + 1,
            column: column_after(&String::from_utf8_lossy(&before[line_start..])),
            kind: FaultKind::Encoding,
            found: found.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, kind, found } = self;
        write!(f, "{line}:{column}: expected {}, found {found}", kind.expected())
    }
}

impl Error for Fault {}

/// A fault while it is still a piece of the line: what was found is `at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mistake<'a> {
    at: &'a str,
    kind: FaultKind,
}

impl<'a> Mistake<'a> {
    /// `at` must be part of the line. Two bytes betray a body that is no exposition, or one with
    /// foreign line ends: where they stand in the way, they are what is reported.
    pub(crate) fn new(at: &'a str, kind: FaultKind) -> Self {
        let kind = match at.as_bytes().first() {
            Some(b'\r') => FaultKind::CarriageReturn,
            Some(0) => FaultKind::Nul,
            _ => kind,
        };
        Self { at, kind }
    }
}

/// The grammar names its own mistakes; nom asks for this to compile, and would use it only for a
/// leaf parser of its own.
impl<'a> ParseError<&'a str> for Mistake<'a> {
    fn from_error_kind(at: &'a str, _: ErrorKind) -> Self {
        Self::new(at, FaultKind::Trailing)
    }

    fn append(_: &'a str, _: ErrorKind, mistake: Self) -> Self {
        mistake
    }
}

impl<'a> From<nom::Err<Mistake<'a>>> for Mistake<'a> {
    fn from(error: nom::Err<Mistake<'a>>) -> Self {
        match error {
            nom::Err::Error(mistake) | nom::Err::Failure(mistake) => mistake,
            // Only nom's streaming parsers ask for more, and none is used.
            nom::Err::Incomplete(_) => Self::new("", FaultKind::Trailing),
        }
    }
}

fn column_after(before: &str) -> usize {
    before.chars().count() + 1
}

/// A short quotation in backquotes, with what does not print made visible.
fn excerpt(at: &str) -> String {
    match at.chars().next() {
        None => return "the end of the line".into(),
        Some('\u{feff}') => return "a byte order mark".into(),
        Some(_) => {}
    }
    let mut quoted = String::from("`");
    for (n, char) in at.chars().enumerate() {
        if n == EXCERPT_CHARS_MAX {
            quoted.push('…');
            break;
        }
        match char {
            '\u{feff}' => quoted.extend(char.escape_unicode()),
            char if char.is_control() => quoted.extend(char.escape_default()),
            char => quoted.push(char),
        }
    }
    quoted.push('`');
    quoted
}
