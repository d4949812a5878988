//! Runs the scripts in `peers/`: JSON in, JSON out.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::file;
use crate::peer::Peer;
use crate::program::run;

/// A script of `peers/`, ready to run. None where Python is missing, which is then said.
#[derive(Debug)]
pub struct Script(Command);

impl Script {
    /// `peers/NAME.py`.
    pub fn named(name: &str) -> Option<Self> {
        let mut command = Command::new(Peer::Python.find()?);
        command.arg(file(&format!("tests/peers/{name}.py")));
        Some(Self(command))
    }

    /// With an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.arg(arg);
        self
    }

    /// With a JSON value as an argument, by way of a file in `folder`.
    #[must_use]
    pub fn json(self, folder: &Path, name: &str, value: &Value) -> Self {
        let path = folder.join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        self.arg(path)
    }

    /// What it prints.
    pub fn answer(mut self) -> Value {
        let ended = run(&mut self.0).succeeded();
        serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr))
    }
}
