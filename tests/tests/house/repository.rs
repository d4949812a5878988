//! The files of the repository: what git tracks or, where there is no git, what lies there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the package stands in the workspace").to_owned()
}

/// The text of a file.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files, as paths from the root, sorted.
pub(crate) fn all_files() -> Vec<String> {
    let mut files = tracked().unwrap_or_else(|| {
        let mut files = Vec::new();
        walk("", &mut files);
        files
    });
    files.sort();
    files
}

/// Files at or below these places whose names end in `ending`.
pub(crate) fn files(places: &[&str], ending: &str) -> Vec<String> {
    let is_there = |path: &str| {
        places.iter().any(|place| {
            path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let files = all_files().into_iter();
    files.filter(|path| is_there(path) && path.ends_with(ending)).collect()
}

/// All files whose names end in `ending`.
pub(crate) fn files_everywhere(ending: &str) -> Vec<String> {
    all_files().into_iter().filter(|path| path.ends_with(ending)).collect()
}

/// What git tracks and what is still there. None where git does not answer, as in an unpacked archive.
fn tracked() -> Option<Vec<String>> {
    let mut git = Command::new("git");
    let output = git.current_dir(root()).args(["ls-files", "-z", "--full-name"]).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let names = names.split('\0').filter(|name| !name.is_empty() && root().join(name).exists());
    let files: Vec<String> = names.map(str::to_owned).collect();
    (output.status.success() && !files.is_empty()).then_some(files)
}

/// What lies there, but for what is built or hidden.
fn walk(folder: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') || ["target", "corpus", "artifacts"].contains(&&*name) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type().unwrap().is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn both_ways_find_this_file() {
    let this = "tests/tests/house/repository.rs".to_owned();
    let mut walked = Vec::new();
    walk("", &mut walked);
    assert!(walked.contains(&this) && all_files().contains(&this));
    assert_eq!(files(&["tests/tests/house"], "repository.rs"), [this]);
    assert_eq!(files(&["tests/tests/hou"], ".rs"), Vec::<String>::new());
}
