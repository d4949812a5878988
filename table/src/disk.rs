//! The one place that changes the disk: files that grow by whole writes, files that appear whole, directories, a lock.
//!
//! A file that appears whole is written under a hidden name, synced, renamed, and its directory synced, so that a
//! reader, or a machine that lost power, sees all of it or none. A file that grows does so by one write per piece, and
//! a piece that did not fit is taken back. Symbolic links are never followed to something that is written.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A failed operation on a file, with its place.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct DiskError {
    /// What was tried.
    pub action: &'static str,
    /// On which file or directory.
    pub path: PathBuf,
    /// What the system answered.
    pub source: io::Error,
}

impl DiskError {
    /// Whether there was no such file.
    pub(crate) fn is_not_found(&self) -> bool {
        self.source.kind() == ErrorKind::NotFound
    }
}

/// Adds the place to the system's answer.
pub(crate) fn at<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> DiskError + 'a {
    move |source| DiskError { action, path: path.to_owned(), source }
}

/// Makes a directory inside an existing one, unless it is there.
pub(crate) fn make_dir(path: &Path) -> Result<(), DiskError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(at("write into", path)(io::Error::other(
            "found a file or link, expected a directory",
        ))),
        Err(_) => {
            fs::create_dir(path).map_err(at("create", path))?;
            sync_parent(path)
        }
    }
}

/// Makes the entries of the directory that holds `path` durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), DiskError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let directory = File::open(parent).map_err(at("open", parent))?;
    directory.sync_all().map_err(at("sync", parent))
}

/// Names in a directory, sorted. A directory that is not there is empty.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>, DiskError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at("list", directory))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at("list", directory))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Removes a file durably; one that is gone is fine.
pub(crate) fn remove(path: &Path) -> Result<(), DiskError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => {
            result.map_err(at("remove", path))?;
            sync_parent(path)
        }
    }
}

/// Renames a file within its directory durably.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    fs::rename(from, to).map_err(at("rename", from))?;
    sync_parent(to)
}

/// Takes the lock file of a directory for as long as the answer lives. `None` when another process holds it.
pub(crate) fn lock(path: &Path) -> Result<Option<File>, DiskError> {
    let file = open_to_append(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(at("lock", path)(error)),
    }
}

/// Opens or creates a file to append to it, unless its name is a link.
fn open_to_append(path: &Path) -> Result<File, DiskError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    let file = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path),
        created => created,
    }
    .map_err(at("open", path))?;
    // Compared after opening, so that a link put there in between is noticed too.
    let named = fs::symlink_metadata(path).map_err(at("open", path))?;
    let opened = file.metadata().map_err(at("open", path))?;
    if named.is_file() && (named.dev(), named.ino()) == (opened.dev(), opened.ino()) {
        Ok(file)
    } else {
        Err(at("append to", path)(io::Error::other("found a link, expected a plain file")))
    }
}

/// A file that only grows, one write per piece.
#[derive(Debug)]
pub(crate) struct GrowingFile {
    file: File,
    path: PathBuf,
    /// Length up to the last whole piece.
    len: u64,
    /// Whether something beyond `len` is to be taken back first.
    overhang: bool,
}

impl GrowingFile {
    /// Opens or creates the file; a new one is in its directory durably.
    pub(crate) fn open(path: &Path) -> Result<GrowingFile, DiskError> {
        let file = open_to_append(path)?;
        let len = file.metadata().map_err(at("open", path))?.len();
        sync_parent(path)?;
        Ok(GrowingFile { file, path: path.to_owned(), len, overhang: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// For reading what is there.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Appends a piece in one write. After an error, nothing of it stays.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<(), DiskError> {
        if self.overhang {
            self.cut(self.len)?;
        }
        let written = loop {
            match self.file.write(piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => break written,
            }
        };
        let error = match written {
            Ok(count) if count == piece.len() => {
                self.len += count as u64;
                return Ok(());
            }
            Ok(count) => io::Error::new(
                ErrorKind::StorageFull,
                format!("{count} of {} bytes were written", piece.len()),
            ),
            Err(error) => error,
        };
        self.overhang = true;
        // If this fails as well, the next append tries again before it writes.
        let _ = self.cut(self.len);
        Err(at("append to", &self.path)(error))
    }

    /// Cuts the file to a length. Only for the torn end of a piece.
    pub(crate) fn cut(&mut self, len: u64) -> Result<(), DiskError> {
        self.file.set_len(len).map_err(at("cut", &self.path))?;
        self.len = len;
        self.overhang = false;
        Ok(())
    }

    /// Makes what was appended durable.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(at("sync", &self.path))
    }
}

/// A file that appears whole under its name when it is published, and else leaves nothing.
#[derive(Debug)]
pub(crate) struct HiddenFile {
    file: File,
    hidden: PathBuf,
    path: PathBuf,
    published: bool,
}

impl HiddenFile {
    /// Begins a file under a hidden name beside its own.
    pub(crate) fn create(path: &Path) -> Result<HiddenFile, DiskError> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        // The hidden name has no suffix by which a reader of the directory might pick it up.
        HiddenFile::create_as(path.with_file_name(format!(".{stem}.tmp")), path)
    }

    /// Begins a file under another name of the same file system. What a crash left under that name is removed.
    pub(crate) fn create_as(hidden: PathBuf, path: &Path) -> Result<HiddenFile, DiskError> {
        remove(&hidden)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&hidden);
        let file = file.map_err(at("create", &hidden))?;
        Ok(HiddenFile { file, hidden, path: path.to_owned(), published: false })
    }

    /// For reading what is there, and changing it.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Syncs the file and gives it its name, in place of what had it.
    pub(crate) fn publish(mut self) -> Result<(), DiskError> {
        self.file.sync_all().map_err(at("sync", &self.hidden))?;
        rename(&self.hidden, &self.path)?;
        self.published = true;
        Ok(())
    }
}

impl Write for HiddenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for HiddenFile {
    fn drop(&mut self) {
        if !self.published {
            // Nobody looks at the hidden name, and the next attempt removes it too.
            let _ = fs::remove_file(&self.hidden);
        }
    }
}

/// Puts a whole file in place.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let mut file = HiddenFile::create(path)?;
    file.write_all(bytes).map_err(at("write", path))?;
    file.publish()
}

/// All bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DiskError> {
    fs::read(path).map_err(at("read", path))
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> Result<File, DiskError> {
    File::open(path).map_err(at("open", path))
}

/// The first bytes of a file, at most `count`.
pub(crate) fn head(path: &Path, count: u64) -> Result<Vec<u8>, DiskError> {
    let mut bytes = Vec::new();
    open(path)?.take(count).read_to_end(&mut bytes).map_err(at("read", path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    #[test]
    fn a_piece_that_is_not_written_leaves_nothing() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "whole\n").unwrap();
        let mut file = GrowingFile::open(&path).unwrap();
        let good = std::mem::replace(&mut file.file, File::open("/dev/full").unwrap());
        let error = file.append(b"piece\n").unwrap_err();
        assert!(error.to_string().starts_with("cannot append to"), "{error}");
        assert_eq!(file.len(), 6);
        // What a write cut short by a full disk would have left.
        fs::write(&path, "whole\npie").unwrap();
        file.file = good;
        file.append(b"piece\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\npiece\n");
    }

    #[test]
    fn a_link_is_not_appended_to() {
        let directory = tempdir().unwrap();
        let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(GrowingFile::open(&link).is_err());
        symlink(directory.path().join("nowhere"), directory.path().join("loose")).unwrap();
        assert!(GrowingFile::open(&directory.path().join("loose")).is_err());
        assert!(!directory.path().join("nowhere").exists());
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file.json");
        replace(&path, b"old").unwrap();
        let mut file = HiddenFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(directory.path()).unwrap(), ["file.json"]);
    }
}
