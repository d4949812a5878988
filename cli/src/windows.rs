//! Named windows in a file: CSV with the header `name,start_unix,end_unix`, or JSON lines with those keys.
//! Times are Unix seconds, or RFC 3339 text.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use wattscribe_rules::Window;
use wattscribe_table::{DiskError, append_line};

use crate::time::parse_time;

const HEADER: &str = "name,start_unix,end_unix";

/// A window and what it is called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedWindow {
    /// The name.
    pub name: String,
    /// The stretch of time.
    pub window: Window,
}

/// Reads a file of windows. An error names the line.
pub(crate) fn read(path: &Path) -> Result<Vec<NamedWindow>, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn parse(text: &str) -> Result<Vec<NamedWindow>, String> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty()).peekable();
    let is_json = lines.peek().is_some_and(|(_, line)| line.starts_with('{'));
    if !is_json {
        match lines.next() {
            Some((_, HEADER)) => {}
            Some((number, line)) => {
                return Err(format!(
                    "line {number}: expected the header {HEADER} or JSON lines, found {line:?}"
                ));
            }
            None => return Err("no windows".to_owned()),
        }
    }
    let windows: Vec<NamedWindow> = lines
        .map(|(number, line)| {
            let parsed = if is_json { parse_json(line) } else { parse_csv(line) };
            parsed.map_err(|reason| format!("line {number}: {reason}"))
        })
        .collect::<Result<_, _>>()?;
    if windows.is_empty() { Err("no windows".to_owned()) } else { Ok(windows) }
}

/// The times stand behind the last two commas, so that a name may hold some.
fn parse_csv(line: &str) -> Result<NamedWindow, String> {
    let mut cells = line.rsplitn(3, ',');
    let (Some(end), Some(start), Some(name)) = (cells.next(), cells.next(), cells.next()) else {
        return Err(format!("expected {HEADER}, found {line:?}"));
    };
    let name = name.trim().trim_matches('"');
    named(name, parse_time(start.trim())?, parse_time(end.trim())?)
}

#[derive(Deserialize)]
struct JsonWindow {
    name: String,
    start_unix: JsonTime,
    end_unix: JsonTime,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonTime {
    Seconds(f64),
    Text(String),
}

fn parse_json(line: &str) -> Result<NamedWindow, String> {
    let window: JsonWindow = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let seconds = |time| match time {
        JsonTime::Seconds(seconds) => Ok(seconds),
        JsonTime::Text(text) => parse_time(&text),
    };
    named(&window.name, seconds(window.start_unix)?, seconds(window.end_unix)?)
}

fn named(name: &str, start_s: f64, end_s: f64) -> Result<NamedWindow, String> {
    let window = Window::new(start_s, end_s).map_err(|error| error.to_string())?;
    Ok(NamedWindow { name: name.to_owned(), window })
}

/// Adds a window to a file of windows, which is made if there is none. Returns how many bytes of a torn last line were
/// cut: its time may have lost digits.
pub(crate) fn append(path: &Path, name: &str, start_s: f64, end_s: f64) -> Result<u64, DiskError> {
    let name = name.replace(['\n', '\r', '"'], " ");
    append_line(path, HEADER, &format!("{name},{start_s},{end_s}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_in_both_forms() {
        let named = |name: &str, start_s, end_s| NamedWindow {
            name: name.to_owned(),
            window: Window::new(start_s, end_s).unwrap(),
        };
        let csv =
            "name,start_unix,end_unix\r\nwarm-up,1,2.5\r\n\r\na, b,1970-01-01T00:00:03Z,4\r\n";
        assert_eq!(parse(csv), Ok(vec![named("warm-up", 1.0, 2.5), named("a, b", 3.0, 4.0)]));
        let json = "{\"name\":\"x\",\"start_unix\":1,\"end_unix\":\"1970-01-01T00:00:02Z\"}\n";
        assert_eq!(parse(json), Ok(vec![named("x", 1.0, 2.0)]));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line() {
        let cases = [
            ("", "no windows"),
            ("name,start_unix,end_unix\n", "no windows"),
            (
                "a,1,2\n",
                "line 1: expected the header name,start_unix,end_unix or JSON lines, found \"a,1,2\"",
            ),
            (
                "name,start_unix,end_unix\nx,2,1\n",
                "line 2: window from 2 s to 1 s, expected an end after the start",
            ),
            (
                "name,start_unix,end_unix\nx,2\n",
                "line 2: expected name,start_unix,end_unix, found \"x,2\"",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
        assert!(parse("{\"name\":\"x\"}").unwrap_err().starts_with("line 1: missing field"));
    }

    #[test]
    fn an_appended_window_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("windows.csv");
        append(&path, "./bench \"a\"", 1.25, 2.5).unwrap();
        let torn = fs::read_to_string(&path).unwrap() + "torn,2,2.1";
        fs::write(&path, torn).unwrap();
        assert_eq!(append(&path, "b", 3.0, 4.0).unwrap(), 10);
        let names: Vec<String> = read(&path).unwrap().into_iter().map(|w| w.name).collect();
        assert_eq!(names, ["./bench  a", "b"]);
    }
}
