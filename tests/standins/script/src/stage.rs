//! Puts a library on a stage: its file and its script in a folder, which a test changes while a program plays.
//!
//! Every stage has a copy of the library. The dynamic linker knows a library by its file, so each copy has its own
//! state, and tests in one process do not meet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::call::{self, Call, LogError};
use crate::player::Script;
use crate::source::beside;

/// Why a stage cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The library was not built beside the running program.
    #[error("{name} is in none of {folders:?}: its package has to be a dev-dependency")]
    NotBuilt {
        /// The file name of the library.
        name: &'static str,
        /// Where it was looked for.
        folders: Vec<PathBuf>,
    },
    /// A file of the stage cannot be written or read.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The script cannot be written as JSON.
    #[error("cannot write a script as JSON")]
    Script(#[source] serde_json::Error),
    /// The library could not use the script, so that its calls failed for no reason of the test's.
    #[error("the library refuses its script: {0}")]
    Refused(String),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A library with its script. The folder is the test's and outlives it.
#[derive(Debug)]
pub struct Stage<S> {
    library: PathBuf,
    script: S,
}

impl<S: Script> Stage<S> {
    /// Copies the library into a folder that has none yet, and writes its script, with a log beside it.
    pub fn new(folder: &Path, script: S) -> Result<Self, StageError> {
        let library = folder.join(S::LIBRARY);
        let built = Self::built()?;
        fs::copy(built, &library).map_err(|source| file(&library, source))?;
        let mut stage = Self { library, script };
        stage.script.set_log(stage.log_path());
        stage.write()?;
        Ok(stage)
    }

    /// The library as cargo built it, beside the running program.
    pub fn built() -> Result<PathBuf, StageError> {
        let program = std::env::current_exe();
        let program = program.map_err(|source| file(Path::new("/proc/self/exe"), source))?;
        // A test stands in `deps` itself, an ordinary program above it. What stands beside the latter may be older
        // than what is in `deps`, where cargo puts it first.
        let folder = program.parent().unwrap_or(Path::new("/"));
        let folders = vec![folder.join("deps"), folder.to_owned()];
        let found =
            folders.iter().map(|folder| folder.join(S::LIBRARY)).find(|path| path.is_file());
        found.ok_or(StageError::NotBuilt { name: S::LIBRARY, folders })
    }

    /// The library to load.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The script. A library that is loaded from this stage finds it without a variable.
    pub fn script_path(&self) -> PathBuf {
        beside(&self.library, ".json")
    }

    /// The variable for a program that is to load the library from elsewhere, and its value.
    pub fn environment(&self) -> (&'static str, PathBuf) {
        (S::VARIABLE, self.script_path())
    }

    /// The script as it was written last.
    pub fn script(&self) -> &S {
        &self.script
    }

    /// Changes the script. It takes effect with the next call.
    pub fn change(&mut self, change: impl FnOnce(&mut S)) -> Result<(), StageError> {
        change(&mut self.script);
        self.write()
    }

    /// The calls so far, in the order in which they began.
    pub fn calls(&self) -> Result<Vec<Call>, StageError> {
        match fs::read_to_string(beside(self.script_path(), ".error")) {
            Ok(refusal) => Err(StageError::Refused(refusal)),
            Err(_) => Ok(call::read(&self.log_path())?),
        }
    }

    fn log_path(&self) -> PathBuf {
        beside(&self.library, ".calls.jsonl")
    }

    /// By a rename, so that a library reads either the old script or the new one.
    fn write(&self) -> Result<(), StageError> {
        let path = self.script_path();
        let staged = beside(&path, ".next");
        let text = serde_json::to_vec_pretty(&self.script).map_err(StageError::Script)?;
        fs::write(&staged, text).map_err(|source| file(&staged, source))?;
        fs::rename(&staged, &path).map_err(|source| file(&path, source))
    }
}

fn file(path: &Path, source: io::Error) -> StageError {
    StageError::File { path: path.to_owned(), source }
}
