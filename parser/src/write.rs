//! Writes an exposition: the text format, or OpenMetrics.
//!
//! Promises that what it writes reads back equal with this crate's own reader (in the text format),
//! whatever the label values are. Never fails and never panics; names are the program's own
//! constants, and names out of the ordinary are quoted as Prometheus 3 has it.

use memchr::{memchr2, memchr3};

use crate::number::{self, Number};
use crate::{Format, Kind};

/// A metric family: what its HELP and TYPE lines say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family<'a> {
    /// Name as it stands on the samples of the text format, so a counter's ends in `_total`. A
    /// histogram's is without `_bucket`.
    pub name: &'a str,
    /// Its kind.
    pub kind: Kind,
    /// What it measures, and in which unit, in one sentence. No line is written when it is empty.
    pub help: &'a str,
}

/// One exposition in the making.
///
/// ```
/// use wattscribe_parser::{Family, Format, Kind, Number, Writer};
///
/// let energy = Family {
///     name: "cpu_energy_joules_total",
///     kind: Kind::Counter,
///     help: "Energy of a zone since the start.",
/// };
/// let mut writer = Writer::new(Format::OpenMetrics);
/// writer.family(&energy);
/// writer.sample(&[("zone", "package-0")], Number::Fixed6(150.0));
/// let body = writer.finish();
/// let lines: Vec<&str> = body.lines().collect();
/// assert_eq!(lines, [
///     "# HELP cpu_energy_joules Energy of a zone since the start.",
///     "# TYPE cpu_energy_joules counter",
///     "cpu_energy_joules_total{zone=\"package-0\"} 150.000000",
///     "# EOF",
/// ]);
/// ```
#[derive(Clone, Debug)]
pub struct Writer {
    format: Format,
    out: String,
    /// Name of the current family's samples.
    name: String,
}

impl Writer {
    /// Starts an exposition.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self::with_capacity(format, 0)
    }

    /// Starts an exposition with room for so many bytes: the last one's length is a good guess.
    #[must_use]
    pub fn with_capacity(format: Format, bytes: usize) -> Self {
        Self { format, out: String::with_capacity(bytes), name: String::new() }
    }

    /// Starts a family: its HELP and TYPE lines. The samples that follow are its own.
    pub fn family(&mut self, family: &Family<'_>) {
        self.name.clear();
        self.name.push_str(family.name);
        let (name, word) = self.title(family);
        if !family.help.is_empty() {
            self.out.push_str("# HELP ");
            write_name(&mut self.out, name, "");
            self.out.push(' ');
            match self.format {
                Format::Text => write_help(&mut self.out, family.help),
                Format::OpenMetrics => write_escaped(&mut self.out, family.help),
            }
            self.out.push('\n');
        }
        self.out.push_str("# TYPE ");
        write_name(&mut self.out, name, "");
        self.out.push(' ');
        self.out.push_str(word);
        self.out.push('\n');
    }

    /// Writes a sample of the current family, its labels in the order given.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) {
        self.line("", labels, None, value.into());
    }

    /// Writes a histogram of the current family.
    ///
    /// `cumulative[i]` counts what was at most `bounds[i]`; one more at the end counts everything.
    /// The bound `+Inf` is added here and not given. Bounds are spelled alike in both formats, so
    /// that a series does not change its name with the client.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        bounds: &[f64],
        cumulative: &[u64],
        sum: f64,
    ) {
        debug_assert_eq!(cumulative.len(), bounds.len() + 1, "a count per bound, and of all");
        let count = cumulative.last().copied().unwrap_or(0);
        let buckets = bounds.iter().copied().zip(cumulative.iter().copied());
        for (bound, at_most) in buckets.chain([(f64::INFINITY, count)]) {
            self.line("_bucket", labels, Some(bound), Number::Integer(at_most));
        }
        self.line("_sum", labels, None, Number::Float(sum));
        self.line("_count", labels, None, Number::Integer(count));
    }

    /// Ends the exposition and hands it over.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    /// Name and kind in the family's metadata. OpenMetrics names a counter without `_total` there,
    /// and knows no counter whose samples are called otherwise: such a one keeps its name and is
    /// of unknown kind.
    fn title<'a>(&self, family: &Family<'a>) -> (&'a str, &'static str) {
        match (self.format, family.kind) {
            (Format::OpenMetrics, Kind::Counter) => match family.name.strip_suffix("_total") {
                Some(stem) => (stem, "counter"),
                None => (family.name, "unknown"),
            },
            (Format::OpenMetrics, Kind::Untyped) => (family.name, "unknown"),
            (_, kind) => (family.name, kind.as_str()),
        }
    }

    /// `name{labels,le="bound"} value`
    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<f64>, value: Number) {
        debug_assert!(!self.name.is_empty(), "a sample needs a family before it");
        let out = &mut self.out;
        let is_bare = is_bare_metric_name(&self.name);
        if is_bare {
            out.push_str(&self.name);
            out.push_str(suffix);
        }
        // A quoted name is the first thing inside the braces.
        let mut before = '{';
        if !is_bare {
            out.push(before);
            write_name(out, &self.name, suffix);
            before = ',';
        }
        for (name, value) in labels {
            out.push(before);
            before = ',';
            write_label_name(out, name);
            out.push_str("=\"");
            write_escaped(out, value);
            out.push('"');
        }
        if let Some(bound) = bound {
            out.push(before);
            before = ',';
            out.push_str("le=\"");
            number::write_bound(out, bound);
            out.push('"');
        }
        out.push_str(if before == ',' { "} " } else { " " });
        value.write(out);
        out.push('\n');
    }
}

/// Writes a metric's name, in quotes where it must.
fn write_name(out: &mut String, name: &str, suffix: &str) {
    let quote = if is_bare_metric_name(name) { "" } else { "\"" };
    out.push_str(quote);
    write_escaped(out, name);
    out.push_str(suffix);
    out.push_str(quote);
}

/// Writes a label's name, in quotes where it must.
fn write_label_name(out: &mut String, name: &str) {
    let is_bare = is_bare_metric_name(name) && !name.contains(':');
    let quote = if is_bare { "" } else { "\"" };
    out.push_str(quote);
    write_escaped(out, name);
    out.push_str(quote);
}

fn is_bare_metric_name(name: &str) -> bool {
    !name.as_bytes().first().is_none_or(u8::is_ascii_digit)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}

/// Writes text for between quotes: backslash, quote and line feed escaped, nothing else.
fn write_escaped(out: &mut String, mut text: &str) {
    while let Some(at) = memchr3(b'\\', b'"', b'\n', text.as_bytes()) {
        text = write_escape(out, text, at);
    }
    out.push_str(text);
}

/// Writes the text of a HELP line, where a quote is a character like any other.
fn write_help(out: &mut String, mut text: &str) {
    while let Some(at) = memchr2(b'\\', b'\n', text.as_bytes()) {
        text = write_escape(out, text, at);
    }
    out.push_str(text);
}

/// Writes `text` up to and with the character at `at`, that one escaped; returns what is left.
fn write_escape<'a>(out: &mut String, text: &'a str, at: usize) -> &'a str {
    out.push_str(&text[..at]);
    out.push_str(match text.as_bytes()[at] {
        b'\n' => "\\n",
        b'"' => "\\\"",
        _ => "\\\\",
    });
    &text[at + 1..]
}
