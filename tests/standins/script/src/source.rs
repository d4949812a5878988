//! Where a library finds its script, and the script as it is now.
//!
//! The path stands in an environment variable; without that it is the library's own path with `.json` behind it, so
//! that one process can load several stand-ins, each a file of its own with its own script. The file is read at each
//! call and parsed when its bytes have changed. Comparing times instead would miss a change within their resolution.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Script;

/// Why a library has no script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// Neither the variable is set nor is the library's own file known.
    #[error("{variable} is not set, and the library does not find its own file")]
    Nowhere {
        /// The environment variable.
        variable: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The script.
        path: PathBuf,
        /// The operating system's words.
        reason: String,
    },
    /// The file is not a script.
    #[error("{path}: {reason}")]
    Parse {
        /// The script.
        path: PathBuf,
        /// What was found and where.
        reason: String,
    },
    /// The script has a call misbehave that the library does not have.
    #[error("{path}: calls: found {symbol:?}, expected one of {expected:?}")]
    Symbol {
        /// The script.
        path: PathBuf,
        /// The name found.
        symbol: String,
        /// The names there are.
        expected: &'static [&'static str],
    },
}

/// A script file, and what it said last.
#[derive(Debug)]
pub(crate) struct Source<S> {
    path: Option<PathBuf>,
    last: Mutex<Option<(Vec<u8>, Arc<S>)>>,
}

impl<S: Script> Source<S> {
    /// The script of the library that has `address` in its code.
    pub(crate) fn of(address: usize) -> Self {
        let named = std::env::var_os(S::VARIABLE).map(PathBuf::from);
        let path = named.or_else(|| {
            let maps = fs::read_to_string("/proc/self/maps").ok()?;
            Some(beside(mapped(&maps, address)?, ".json"))
        });
        Self { path, last: Mutex::new(None) }
    }

    /// The script as it is now.
    pub(crate) fn now(&self) -> Result<Arc<S>, ScriptError> {
        let nowhere = ScriptError::Nowhere { variable: S::VARIABLE };
        let path = self.path.as_deref().ok_or(nowhere)?;
        let bytes = fs::read(path).map_err(|error| {
            let reason = error.to_string();
            ScriptError::Read { path: path.to_owned(), reason }
        })?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, script)) = &*last
            && *known == bytes
        {
            return Ok(Arc::clone(script));
        }
        let script = Arc::new(parse::<S>(path, &bytes)?);
        *last = Some((bytes, Arc::clone(&script)));
        Ok(script)
    }

    /// Keeps the reason why there is no script beside it. Where even that fails nobody is left to tell.
    pub(crate) fn keep(&self, error: &ScriptError) {
        if let Some(path) = &self.path {
            let _ = fs::write(beside(path, ".error"), error.to_string());
        }
    }
}

fn parse<S: Script>(path: &Path, bytes: &[u8]) -> Result<S, ScriptError> {
    let script: S = serde_json::from_slice(bytes).map_err(|error| {
        let reason = error.to_string();
        ScriptError::Parse { path: path.to_owned(), reason }
    })?;
    let calls = script.calls();
    let unknown = calls.iter().flat_map(|calls| calls.keys());
    let unknown = unknown.filter(|symbol| !S::SYMBOLS.contains(&symbol.as_str())).min();
    if let Some(symbol) = unknown {
        let (path, symbol) = (path.to_owned(), symbol.clone());
        return Err(ScriptError::Symbol { path, symbol, expected: S::SYMBOLS });
    }
    Ok(script)
}

/// A path with something behind its name.
pub(crate) fn beside(path: impl AsRef<Path>, suffix: &str) -> PathBuf {
    let mut name = path.as_ref().as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The file that is mapped at an address, by `/proc/PID/maps` (proc_pid_maps(5)).
fn mapped(maps: &str, address: usize) -> Option<&str> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let bound = |text| usize::from_str_radix(text, 16).ok();
        let is_here = (bound(start)?..bound(end)?).contains(&address);
        // Permissions, offset, device and inode come before the path, and none of them has a slash.
        is_here.then(|| rest.find('/').map(|at| &rest[at..]))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DcgmScript, NvmlScript};

    #[test]
    fn the_mapped_file_is_found() {
        let maps = "1000-2000 r-xp 00000000 fe:00 77   /tmp/a b/lib.so\n\
                    2000-3000 rw-p 00000000 00:00 0 \n\
                    3000-4000 r--p 00001000 fe:00 77   [vdso]\n";
        let cases = [
            (0x0fff, None),
            (0x1000, Some("/tmp/a b/lib.so")),
            (0x1fff, Some("/tmp/a b/lib.so")),
            (0x2000, None),
            (0x3000, None),
        ];
        for (address, expected) in cases {
            assert_eq!(mapped(maps, address), expected, "{address:x}");
        }
    }

    #[test]
    fn a_script_that_says_what_cannot_be_is_refused() {
        let fault = |text: &str| parse::<NvmlScript>(Path::new("s"), text.as_bytes()).unwrap_err();
        let cases = [
            ("{", "EOF"),
            (r#"{"device": []}"#, "unknown field `device`"),
            (r#"{"calls": {"nvmlInit": {}}}"#, "found \"nvmlInit\", expected one of"),
            (r#"{"calls": {"nvmlInit_v2": {"error": "LOST"}}}"#, "unknown variant `LOST`"),
            (r#"{"devices": [{"uuid": "a", "pci": "b", "calls": {"x": {}}}]}"#, "found \"x\""),
        ];
        for (text, expected) in cases {
            let message = fault(text).to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
        assert!(parse::<DcgmScript>(Path::new("s"), b"{}").is_ok());
    }

    #[test]
    fn a_script_is_read_anew_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.json");
        let source = Source::<DcgmScript> { path: Some(path.clone()), last: Mutex::new(None) };
        assert!(source.now().unwrap_err().to_string().starts_with("cannot read "));
        fs::write(&path, r#"{"engine": {"start": 1}}"#).unwrap();
        let first = source.now().unwrap();
        assert!(Arc::ptr_eq(&first, &source.now().unwrap()));
        fs::write(&path, r#"{"engine": {"start": 2}}"#).unwrap();
        assert_eq!((first.engine.start, source.now().unwrap().engine.start), (1, 2));
    }
}
