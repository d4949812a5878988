//! Lines of a CSV file and their cells.
//!
//! A line is the unit of damage: it is split before quotes are looked at, so a stray quote spoils its own line and not
//! the rest of the file. Our own writer never puts a line break into a cell.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

/// Longest line that is read. A row is about a hundred bytes; a file without line ends must not fill the memory.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What [`read_line`] met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its end.
    Whole,
    /// A line longer than the limit, skipped.
    TooLong,
    /// The end of the input.
    End,
}

/// Reads the next line into `line`; CR LF and LF both end it. The input ends at a line end.
pub(super) fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if line.is_empty() {
        return Ok(Line::End);
    }
    if line.pop_if(|byte| *byte == b'\n').is_none() {
        while !line.is_empty() && !line.ends_with(b"\n") {
            line.clear();
            input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
        }
        return Ok(Line::TooLong);
    }
    line.pop_if(|byte| *byte == b'\r');
    Ok(Line::Whole)
}

/// The cells of a line, in a buffer that is used again for the next.
#[derive(Default)]
pub(super) struct Cells {
    /// The text of the cells without quotes, when the line has any.
    unquoted: csv::ByteRecord,
    /// End of each cell in a line without quotes.
    ends: Vec<usize>,
}

impl Cells {
    /// Splits a line. `None` when its quotes do not close.
    pub(super) fn split<'a>(&'a mut self, line: &'a [u8]) -> Option<Split<'a>> {
        if line.contains(&b'"') {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line);
            let found = reader.read_byte_record(&mut self.unquoted).unwrap_or(false);
            // Within a well-formed line every quote has its partner: they enclose a cell or double inside one.
            let even = line.iter().filter(|byte| **byte == b'"').count().is_multiple_of(2);
            return (found && even)
                .then_some(Split { line, split: SplitKind::Quoted(&self.unquoted) });
        }
        self.ends.clear();
        self.ends
            .extend(line.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(at, _)| at));
        self.ends.push(line.len());
        Some(Split { line, split: SplitKind::Plain(&self.ends) })
    }
}

/// A line that was split.
pub(super) struct Split<'a> {
    line: &'a [u8],
    split: SplitKind<'a>,
}

enum SplitKind<'a> {
    Plain(&'a [usize]),
    Quoted(&'a csv::ByteRecord),
}

impl<'a> Split<'a> {
    pub(super) fn len(&self) -> usize {
        match self.split {
            SplitKind::Plain(ends) => ends.len(),
            SplitKind::Quoted(record) => record.len(),
        }
    }

    /// A cell; one beyond the last is empty.
    pub(super) fn cell(&self, at: usize) -> &'a [u8] {
        match self.split {
            SplitKind::Plain(ends) => {
                let start =
                    at.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |end| end + 1);
                ends.get(at).map_or(&[], |end| &self.line[start..*end])
            }
            SplitKind::Quoted(record) => record.get(at).unwrap_or_default(),
        }
    }
}

/// How many bytes from the start end in LF: all but a torn last line. Leaves the position anywhere.
pub(crate) fn whole_lines(input: &mut (impl Read + Seek)) -> io::Result<u64> {
    let mut end = input.seek(SeekFrom::End(0))?;
    let mut block = [0; 8192];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        input.seek(SeekFrom::Start(start))?;
        input.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn cells_of_a_line() {
        let cases = [
            ("", Some("")),
            ("a", Some("a")),
            ("a,,b,", Some("a||b|")),
            ("\"a,b\",c", Some("a,b|c")),
            ("\"a\"\"b\",c", Some("a\"b|c")),
            ("\"\",c", Some("|c")),
            ("\"a,b", None),
            ("a,\"b,c", None),
        ];
        for (line, expected) in cases {
            let mut cells = Cells::default();
            let found = cells.split(line.as_bytes()).map(|split| {
                let texts = (0..split.len()).map(|at| String::from_utf8_lossy(split.cell(at)));
                texts.collect::<Vec<_>>().join("|")
            });
            assert_eq!(found.as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_skipped() {
        let long = "x".repeat(3 * LINE_BYTES_MAX as usize + 5);
        let mut input = Cursor::new(format!("a\r\n{long}\nb\n").into_bytes());
        let mut line = Vec::new();
        let mut next = || (read_line(&mut input, &mut line).unwrap(), line.clone());
        assert_eq!(next(), (Line::Whole, b"a".to_vec()));
        assert_eq!(next().0, Line::TooLong);
        assert_eq!(next(), (Line::Whole, b"b".to_vec()));
        assert_eq!(next().0, Line::End);
    }

    #[test]
    fn whole_lines_end_at_the_last_line_feed() {
        let far = format!("a\n{}", "x".repeat(20_000));
        for (text, expected) in [("", 0), ("a", 0), ("a\n", 2), ("a\nb", 2), ("\n\n", 2), (&far, 2)]
        {
            assert_eq!(whole_lines(&mut Cursor::new(text.as_bytes())).unwrap(), expected);
        }
    }
}
