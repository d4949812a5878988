//! The only module that changes the disk: attributes that are never torn, links, FIFOs.
//!
//! A new value is written to a staging file outside every listed folder and then put in place by a
//! rename, so a reader opens either the old text or the new one, whole, whatever the filesystem does with
//! overlapping reads and writes, and a listing never shows a stray name. (Writing in place would be
//! cheaper, but a local filesystem may show half of each of two values, and half of each still parses.)
//! A reader must open the path for every reading, which is how sysfs is read; a descriptor kept open
//! goes on showing the value it was opened on.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};

use crate::SimulatorError;

/// One thing of a tree: a path below the root, and what is there.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A file with this text.
    File(String, String),
    /// A link with this target.
    Link(String, String),
}

/// Name of the staging file, hidden at the root of the tree. One suffices: a tree has one writer.
const STAGED: &str = ".next";

/// Makes an entry that is not there yet, with the folders above it.
pub(crate) fn create(root: &Path, entry: &Entry) -> Result<(), SimulatorError> {
    let (Entry::File(path, content) | Entry::Link(path, content)) = entry;
    let path = root.join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(SimulatorError::at(folder))?;
    }
    match entry {
        Entry::File(..) => fs::write(&path, content),
        Entry::Link(..) => symlink(content, &path),
    }
    .map_err(SimulatorError::at(&path))
}

/// Puts `text` at `path` in one step.
pub(crate) fn put_text(root: &Path, path: &Path, text: &str) -> Result<(), SimulatorError> {
    put(root, path, |staged| fs::write(staged, text))
}

/// Puts a FIFO at `path` in one step. Nobody writes it: whoever opens it for reading waits.
pub(crate) fn put_fifo(root: &Path, path: &Path) -> Result<(), SimulatorError> {
    let mode = Mode::from_raw_mode(0o644);
    put(root, path, |staged| Ok(rustix::fs::mkfifoat(CWD, staged, mode)?))
}

/// Puts a link at `path` in one step.
pub(crate) fn put_link(root: &Path, path: &Path, target: &str) -> Result<(), SimulatorError> {
    put(root, path, |staged| symlink(target, staged))
}

/// Takes every permission from the file at `path`.
pub(crate) fn deny(path: &Path) -> Result<(), SimulatorError> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).map_err(SimulatorError::at(path))
}

/// Removes a file or link; that it is gone already is no error.
pub(crate) fn remove(path: &Path) -> Result<(), SimulatorError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(SimulatorError::at(path)(error))
        }
        _ => Ok(()),
    }
}

/// Renames a folder.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), SimulatorError> {
    fs::rename(from, to).map_err(SimulatorError::at(to))
}

/// Opens a FIFO so that those who wait for it get through; they read its end when the result is dropped.
///
/// Both directions, because Linux then opens it whether or not anybody waits.
pub(crate) fn open_fifo(path: &Path) -> Result<OwnedFd, SimulatorError> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| SimulatorError::at(path)(errno.into()))
}

/// Makes a thing aside and moves it to `path`.
///
/// An exchange is tried first: ext4 answers a rename over a file by starting to write the new one to the
/// disk, at four times the cost. Where there is nothing to exchange with, or the filesystem cannot, an
/// ordinary rename does the same.
fn put(
    root: &Path,
    path: &Path,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), SimulatorError> {
    let staged = root.join(STAGED);
    make(&staged).map_err(SimulatorError::at(&staged))?;
    match rustix::fs::renameat_with(CWD, &staged, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => remove(&staged),
        Err(_) => rename(&staged, path),
    }
}
