//! The call log: JSON lines, two a call, one when it begins and one when it comes back.
//!
//! So a call that never comes back is in the log as well, without a result. Lines are appended whole, by one write, so
//! that threads and processes may share a file.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The C symbol.
    pub symbol: String,
    /// The process that called.
    pub pid: u32,
    /// The thread that called, numbered from 0 in the order of their first calls.
    pub thread: u64,
    /// What it was given, by the names of the parameters.
    pub args: Value,
    /// When it began, in microseconds since 1970.
    pub began_us: i64,
    /// Its number and what it handed out; none while it has not come back.
    pub outcome: Option<(i32, Value)>,
}

impl Call {
    /// Whether it came back with 0, which is success in both libraries.
    pub fn succeeded(&self) -> bool {
        self.outcome.as_ref().is_some_and(|(result, _)| *result == 0)
    }

    /// A number that it was given, such as `handle`.
    pub fn arg(&self, name: &str) -> Option<u64> {
        self.args.get(name)?.as_u64()
    }

    /// A number that it handed out, such as `handle`.
    pub fn out(&self, name: &str) -> Option<u64> {
        self.outcome.as_ref()?.1.get(name)?.as_u64()
    }
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The log.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A line is not one of a log.
    #[error("{path}:{line}: expected a call that begins or one that ends")]
    Line {
        /// The log.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// A call begins.
    Begin { pid: u32, number: u64, thread: u64, at_us: i64, symbol: String, args: Value },
    /// The call of this number comes back.
    End { pid: u32, number: u64, at_us: i64, result: i32, out: Value },
}

/// Appends a line. A log that cannot be written is not worth failing a call of the library for: the test that reads it
/// finds the call missing.
pub(crate) fn append(log: Option<&Path>, line: &Line) {
    let Some(path) = log else { return };
    let Ok(mut text) = serde_json::to_vec(line) else { return };
    text.push(b'\n');
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(&text);
    }
}

/// The calls of a log in the order in which they began. A log that does not exist has none.
pub(crate) fn read(path: &Path) -> Result<Vec<Call>, LogError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(LogError::Read { path: path.to_owned(), source }),
    };
    // What is behind the last line end is being written.
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    calls(whole).map_err(|(line, source)| LogError::Line { path: path.to_owned(), line, source })
}

/// The calls of whole lines, or the line that is none.
fn calls(text: &str) -> Result<Vec<Call>, (usize, serde_json::Error)> {
    let mut calls = Vec::new();
    let mut open = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        match serde_json::from_str(line).map_err(|error| (index + 1, error))? {
            Line::Begin { pid, number, thread, at_us, symbol, args } => {
                open.insert((pid, number), calls.len());
                calls.push(Call { symbol, pid, thread, args, began_us: at_us, outcome: None });
            }
            Line::End { pid, number, result, out, .. } => {
                let call = open.remove(&(pid, number)).and_then(|at| calls.get_mut(at));
                if let Some(call) = call {
                    call.outcome = Some((result, out));
                }
            }
        }
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_what_began_and_what_came_back() {
        let text = r#"{"begin":{"pid":7,"number":0,"thread":0,"at_us":5,"symbol":"a","args":{"x":1}}}
{"begin":{"pid":7,"number":1,"thread":1,"at_us":6,"symbol":"b","args":{}}}
{"begin":{"pid":8,"number":0,"thread":0,"at_us":7,"symbol":"c","args":{}}}
{"end":{"pid":7,"number":0,"at_us":8,"result":0,"out":{"handle":9}}}
{"end":{"pid":8,"number":0,"at_us":9,"result":-21,"out":null}}
"#;
        let found = calls(text).unwrap();
        let symbols: Vec<&str> = found.iter().map(|call| call.symbol.as_str()).collect();
        assert_eq!(symbols, ["a", "b", "c"]);
        assert_eq!(found[0].outcome, Some((0, json!({"handle": 9}))));
        assert_eq!((found[0].arg("x"), found[0].out("handle")), (Some(1), Some(9)));
        assert_eq!((found[1].outcome.clone(), found[1].succeeded()), (None, false));
        assert_eq!(
            (found[2].outcome.clone(), found[2].succeeded()),
            (Some((-21, json!(null))), false)
        );
        assert_eq!(calls("{}\n").unwrap_err().0, 1);
    }

    #[test]
    fn a_line_that_is_being_written_is_not_read_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        assert_eq!(read(&path).unwrap(), []);
        let (symbol, args) = ("a".to_owned(), json!({}));
        let line = Line::Begin { pid: 1, number: 0, thread: 0, at_us: 0, symbol, args };
        append(Some(&path), &line);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{{\"beg")).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
    }
}
