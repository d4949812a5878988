//! The rules that a command is given: a file, those beside a recording, or the built-in ones.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wattscribe_rules::rule::{self, RuleSet};
use wattscribe_scraper::record::PlannedRules;

use super::pace;
use crate::energy::manifest;

/// Rules and their text.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// The rules.
    pub rules: Arc<RuleSet>,
    /// The text that they were read from.
    pub text: String,
    /// The file; `None` for the built-in ones.
    pub path: Option<PathBuf>,
}

/// A rule file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GivenError {
    /// It is not there, or no text.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It means nothing: a line for everything that is wrong.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
}

impl Given {
    /// Reads a file.
    pub(crate) fn file(path: &Path) -> Result<Given, GivenError> {
        let unreadable = |source| GivenError::Unreadable { path: path.to_owned(), source };
        let text = text(path).map_err(unreadable)?;
        let rules = rule::read(&text).map_err(|errors| {
            let line = |error| format!("{}: {error}", path.display());
            GivenError::Refused(errors.iter().map(line).collect())
        })?;
        Ok(Given { rules: Arc::new(rules), text, path: Some(path.to_owned()) })
    }

    /// The built-in rules, with the settings for an interval of scrapes.
    #[expect(
        clippy::expect_used,
        reason = "a constant but for two durations of at most 1h: tests read it"
    )]
    pub(crate) fn builtin_for(interval: Duration) -> Given {
        let text = pace::builtin_text(interval);
        let rules = rule::read(&text).expect("the built-in rules can be read with any settings");
        Given { rules: Arc::new(rules), text, path: None }
    }

    /// The built-in rules as they stand in their file.
    pub(crate) fn builtin() -> Given {
        Given::builtin_for(Duration::ZERO)
    }

    /// As a recording takes them.
    pub(crate) fn planned(self) -> PlannedRules {
        let name =
            self.path.map_or_else(|| "built-in".to_owned(), |path| path.display().to_string());
        PlannedRules { rules: self.rules, text: self.text, name }
    }

    /// The file that was named; else the rules that a recording was made with; else the built-in ones for its interval.
    pub(crate) fn or_of_run(named: Option<&Path>, run: &Path) -> Result<Given, GivenError> {
        let beside = run.join("rules.yaml");
        match named {
            Some(path) => Given::file(path),
            None if beside.is_file() => Given::file(&beside),
            None => Ok(Given::builtin_for(interval(run).unwrap_or_default())),
        }
    }
}

/// The text of a file, up to one byte more than a rule file has: reading says then that it is too long.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(rule::BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > rule::BYTES_MAX {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The interval of a recording, where its manifest has one.
fn interval(run: &Path) -> Option<Duration> {
    Duration::try_from_secs_f64(manifest(run)?.wattscribe.interval_s).ok()
}
