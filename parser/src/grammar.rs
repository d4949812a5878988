//! The grammar of one line.
//!
//! Reads a line without its line feed. Promises that a line it accepts was consumed to its last
//! byte. Fails with a [`Mistake`]: the piece of the line that was found, and the rule it broke.
//!
//! Every parser here returns `Err::Failure` at once and never backtracks: the first byte of a token
//! tells what it is.

use memchr::{memchr, memchr2};
use nom::branch::alt;
use nom::combinator::cond;
use nom::sequence::{preceded, terminated};
use nom::{IResult, Parser};

use crate::fault::Mistake;
use crate::text::Escapes;
use crate::{Entry, FaultKind, Kind, Labels, Limits, Sample, Text, value};

/// One element of a sample's braces.
pub(crate) enum Element<'a> {
    /// A quoted name alone: the metric's.
    Metric(Text<'a>),
    Label(Text<'a>, Text<'a>),
}

type Parsed<'a, O> = IResult<&'a str, O, Mistake<'a>>;

/// Label under which Prometheus keeps the metric's name.
const METRIC_NAME_LABEL: &str = "__name__";

/// Reads a whole line, the body's `number`th; nothing comes of a blank line or a comment. `names`
/// is room to work in.
pub(crate) fn line<'a>(
    line: &'a str,
    number: usize,
    limits: &Limits,
    names: &mut Vec<Text<'a>>,
) -> Result<Option<Entry<'a>>, Mistake<'a>> {
    if line.len() > limits.line_bytes {
        return Err(Mistake::new(line, FaultKind::LineTooLong));
    }
    // Whatever the line is, a carriage return at its end is a foreign line end and not text.
    if line.ends_with('\r') {
        return Err(Mistake::new(&line[line.len() - 1..], FaultKind::CarriageReturn));
    }
    let line = after_blanks(line);
    let parsed = match line.as_bytes().first() {
        None => return Ok(None),
        Some(b'#') => metadata(line, limits),
        Some(_) => sample(line, number, limits, names),
    };
    match parsed {
        Ok(("", entry)) => Ok(entry),
        Ok((rest, _)) => Err(Mistake::new(rest, FaultKind::Trailing)),
        Err(error) => Err(Mistake::from(error)),
    }
}

/// `series value [timestamp]`
fn sample<'a>(
    input: &'a str,
    line: usize,
    limits: &Limits,
    names: &mut Vec<Text<'a>>,
) -> Parsed<'a, Option<Entry<'a>>> {
    let (rest, (name, labels)) = series(input, limits, names)?;
    let (rest, value) = terminated(preceded(blanks, value), blanks).parse(rest)?;
    let (rest, timestamp_ms) =
        cond(!rest.is_empty(), terminated(timestamp_ms, blanks)).parse(rest)?;
    let sample = Sample { name, labels, value, timestamp_ms, line };
    Ok((rest, Some(Entry::Sample(sample))))
}

/// `name blank`, `name{..}` or `{"name",..}`
fn series<'a>(
    input: &'a str,
    limits: &Limits,
    names: &mut Vec<Text<'a>>,
) -> Parsed<'a, (Text<'a>, Labels<'a>)> {
    if input.starts_with('{') {
        let (rest, (name, labels)) = braces(input, None, limits, names)?;
        let name = name.ok_or_else(|| stop(input, FaultKind::MetricNameMissing))?;
        return Ok((rest, (name, labels)));
    }
    let (rest, name) = within(bare_metric_name, limits.name_bytes, input)?;
    if after_blanks(rest).starts_with('{') {
        let (rest, (_, labels)) = braces(after_blanks(rest), Some(name), limits, names)?;
        return Ok((rest, (name, labels)));
    }
    let (rest, ()) = name_end(rest)?;
    Ok((rest, (name, Labels::EMPTY)))
}

/// `{ element, element, }`, and the metric's name: as given, or from inside.
fn braces<'a>(
    input: &'a str,
    mut metric: Option<Text<'a>>,
    limits: &Limits,
    names: &mut Vec<Text<'a>>,
) -> Parsed<'a, (Option<Text<'a>>, Labels<'a>)> {
    let inside = &input[1..];
    names.clear();
    let mut rest = after_blanks(inside);
    while !rest.starts_with('}') {
        let at = rest;
        let (after, element) = element(rest)?;
        match element {
            Element::Label(name, value) => {
                check_length(name, limits.name_bytes, FaultKind::NameTooLong)?;
                check_length(value, limits.value_bytes, FaultKind::ValueTooLong)?;
                if name == METRIC_NAME_LABEL {
                    return Err(stop(name.raw(), FaultKind::ReservedLabel));
                }
                if names.len() == limits.labels {
                    return Err(stop(at, FaultKind::TooManyLabels));
                }
                names.push(name);
            }
            Element::Metric(name) if metric.is_none() => {
                check_length(name, limits.name_bytes, FaultKind::NameTooLong)?;
                if name.raw().is_empty() {
                    return Err(stop(at, FaultKind::MetricName));
                }
                metric = Some(name);
            }
            // The metric has its name already, so this one was to be a label's.
            Element::Metric(_) => return Err(stop(after, FaultKind::Equals)),
        }
        rest = separator(after)?.0;
    }
    let labels = Labels::new(&inside[..inside.len() - rest.len()], names.len());
    if let Some(name) = repeated(names) {
        return Err(stop(name.raw(), FaultKind::DuplicateLabel));
    }
    Ok((&rest[1..], (metric, labels)))
}

/// `label = "value"`, or `"metric name"`; and the blanks after it.
pub(crate) fn element(input: &str) -> Parsed<'_, Element<'_>> {
    let is_quoted = input.starts_with('"');
    let (rest, name) = terminated(alt((quoted_name, bare_label_name)), blanks).parse(input)?;
    let Some(rest) = rest.strip_prefix('=') else {
        return match is_quoted {
            true => Ok((rest, Element::Metric(name))),
            false => Err(stop(rest, FaultKind::Equals)),
        };
    };
    if name.raw().is_empty() {
        return Err(stop(input, FaultKind::LabelName));
    }
    let (rest, value) = terminated(preceded(blanks, quoted), blanks).parse(rest)?;
    Ok((rest, Element::Label(name, value)))
}

/// A comma with the blanks after it; a closing brace ahead will do as well.
pub(crate) fn separator(input: &str) -> Parsed<'_, ()> {
    match input.as_bytes().first() {
        Some(b',') => Ok((after_blanks(&input[1..]), ())),
        Some(b'}') => Ok((input, ())),
        _ => Err(stop(input, FaultKind::Separator)),
    }
}

/// `# TYPE name kind`, `# HELP name text`, or a comment.
fn metadata<'a>(input: &'a str, limits: &Limits) -> Parsed<'a, Option<Entry<'a>>> {
    let rest = after_blanks(&input[1..]);
    let follows_blank = rest.len() + 1 < input.len();
    let (rest, keyword) = token(rest);
    let rest = after_blanks(rest);
    // A keyword with nothing after it names no metric, so that it is a comment like any other.
    if !follows_blank || rest.is_empty() || !matches!(keyword, "TYPE" | "HELP") {
        return comment(input);
    }
    let (rest, name) = within(metadata_name, limits.name_bytes, rest)?;
    let (rest, ()) = terminated(name_end, blanks).parse(rest)?;
    if keyword == "HELP" {
        return Ok(("", Some(Entry::Help { name, text: Text::new(rest, Escapes::Help) })));
    }
    let (after, word) = token(rest);
    let kind = Kind::from_word(word)
        .ok_or_else(|| stop(if word.is_empty() { rest } else { word }, FaultKind::MetricKind))?;
    Ok((after_blanks(after), Some(Entry::Type { name, kind })))
}

/// Anything at all, but for the two bytes that show a body to be something else.
fn comment(input: &str) -> Parsed<'_, Option<Entry<'_>>> {
    match memchr2(b'\r', 0, input.as_bytes()) {
        None => Ok(("", None)),
        Some(found) => Err(stop(&input[found..], FaultKind::Trailing)),
    }
}

/// The name in a metadata line, bare or in quotes, never empty.
fn metadata_name(input: &str) -> Parsed<'_, Text<'_>> {
    match alt((quoted_name, bare_metric_name)).parse(input)? {
        (_, name) if name.raw().is_empty() => Err(stop(input, FaultKind::MetricName)),
        parsed => Ok(parsed),
    }
}

/// `[a-zA-Z_:][a-zA-Z0-9_:]*`
fn bare_metric_name(input: &str) -> Parsed<'_, Text<'_>> {
    bare_name(input, |byte| is_name_byte(byte) || byte == b':', FaultKind::MetricName)
}

/// `[a-zA-Z_][a-zA-Z0-9_]*`
fn bare_label_name(input: &str) -> Parsed<'_, Text<'_>> {
    bare_name(input, is_name_byte, FaultKind::LabelName)
}

fn bare_name(input: &str, belongs: impl Fn(u8) -> bool, kind: FaultKind) -> Parsed<'_, Text<'_>> {
    let (name, rest) = split_while(input, belongs);
    if name.as_bytes().first().is_none_or(u8::is_ascii_digit) {
        return Err(stop(input, kind));
    }
    Ok((rest, Text::new(name, Escapes::None)))
}

/// Where a bare or quoted name stops, something else than more of it must follow.
fn name_end(input: &str) -> Parsed<'_, ()> {
    match input.as_bytes().first() {
        None | Some(b' ' | b'\t') => Ok((input, ())),
        Some(_) => Err(stop(input, FaultKind::NameEnd)),
    }
}

/// A name in quotes. The one parser that yields to another, when there is no quote.
fn quoted_name(input: &str) -> Parsed<'_, Text<'_>> {
    if !input.starts_with('"') {
        return Err(nom::Err::Error(Mistake::new(input, FaultKind::LabelName)));
    }
    let (rest, name) = quoted(input)?;
    match memchr(0, name.raw().as_bytes()) {
        None => Ok((rest, name)),
        Some(found) => Err(stop(&name.raw()[found..], FaultKind::Nul)),
    }
}

/// `"any text with escapes"`
fn quoted(input: &str) -> Parsed<'_, Text<'_>> {
    let Some(inside) = input.strip_prefix('"') else {
        return Err(stop(input, FaultKind::LabelValue));
    };
    let bytes = inside.as_bytes();
    let mut escapes = Escapes::None;
    let mut searched = 0;
    while let Some(found) = bytes.get(searched..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        let end = searched + found;
        if bytes[end] == b'"' {
            return Ok((&inside[end + 1..], Text::new(&inside[..end], escapes)));
        }
        // Whatever stands after a backslash, it does not close the text.
        escapes = Escapes::Quoted;
        searched = end + 2;
    }
    Err(stop(&inside[inside.len()..], FaultKind::UnclosedQuote))
}

fn value(input: &str) -> Parsed<'_, f64> {
    let (rest, word) = token(input);
    match value::number(word) {
        Ok(number) => Ok((rest, number)),
        Err(kind) => Err(stop(if word.is_empty() { input } else { word }, kind)),
    }
}

fn timestamp_ms(input: &str) -> Parsed<'_, i64> {
    let (rest, word) = token(input);
    match value::whole_ms(word) {
        Ok(whole_ms) => Ok((rest, whole_ms)),
        Err(kind) => Err(stop(if word.is_empty() { input } else { word }, kind)),
    }
}

/// Up to the next blank. Bytes that never belong to a line end a word too, so that they are the
/// ones reported.
fn token(input: &str) -> (&str, &str) {
    let (word, rest) = split_while(input, |byte| !matches!(byte, b' ' | b'\t' | b'\r' | 0));
    (rest, word)
}

/// Any number of blanks, none included.
fn blanks(input: &str) -> Parsed<'_, ()> {
    Ok((after_blanks(input), ()))
}

fn after_blanks(input: &str) -> &str {
    split_while(input, |byte| matches!(byte, b' ' | b'\t')).1
}

/// Splits before the first byte that does not belong. `belongs` must hold for all bytes of a
/// character or for none beyond ASCII, so that a character is never split.
fn split_while(input: &str, belongs: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = input.bytes().position(|byte| !belongs(byte)).unwrap_or(input.len());
    input.split_at(end)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn within<'a>(
    parser: impl Fn(&'a str) -> Parsed<'a, Text<'a>>,
    bytes_max: usize,
    input: &'a str,
) -> Parsed<'a, Text<'a>> {
    let parsed = parser(input)?;
    check_length(parsed.1, bytes_max, FaultKind::NameTooLong)?;
    Ok(parsed)
}

fn check_length<'a>(
    text: Text<'a>,
    bytes_max: usize,
    kind: FaultKind,
) -> Result<(), nom::Err<Mistake<'a>>> {
    if text.raw().len() > bytes_max { Err(stop(text.raw(), kind)) } else { Ok(()) }
}

/// A name that occurs twice. Few names are compared each with each, which is faster than sorting;
/// many are sorted, so that a hostile line costs no quadratic time.
fn repeated<'a>(names: &mut [Text<'a>]) -> Option<Text<'a>> {
    const FEW: usize = 16;
    if names.len() <= FEW {
        let mut numbered = names.iter().enumerate();
        return numbered.find(|&(n, name)| names[..n].contains(name)).map(|(_, name)| *name);
    }
    names.sort_unstable();
    let pair = names.windows(2).find(|pair| pair[0] == pair[1])?;
    pair.iter().copied().max_by_key(|name| name.raw().as_ptr())
}

fn stop(at: &str, kind: FaultKind) -> nom::Err<Mistake<'_>> {
    nom::Err::Failure(Mistake::new(at, kind))
}
