//! The README's promise: two commands, both there, and no other that sets anything up.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use crate::markdown::section;
use crate::repository::{all_files, files_everywhere, root, text};

/// The commands of a page's set-up: the lines of its indented blocks.
fn commands(section: &str) -> Vec<&str> {
    section.lines().filter_map(|line| line.strip_prefix("    ")).collect()
}

/// What else would set something up.
const OTHERS: [&str; 7] = [
    "apt install",
    "apt-get",
    "pip install",
    "cargo install",
    "cargo build",
    "rustup",
    "make install",
];

fn others(page: &str) -> Vec<&str> {
    OTHERS.into_iter().filter(|command| page.contains(command)).collect()
}

#[test]
fn two_commands_set_everything_up() {
    let readme = text("README.md");
    let commands = commands(section(&readme, "Set-up"));
    assert_eq!(commands, ["sh scripts/demo", "sh scripts/test"]);
    assert_eq!(others(&readme), Vec::<&str>::new());
    for command in commands {
        let script = root().join(command.trim_start_matches("sh "));
        let mode =
            script.metadata().unwrap_or_else(|error| panic!("{command}: {error}")).permissions();
        assert_ne!(mode.mode() & 0o100, 0, "{command} is not executable");
        let text = text(command.trim_start_matches("sh "));
        assert!(text.starts_with("#!/bin/sh\n"), "{command}");
    }
}

#[test]
fn pages_hold_no_rust_that_nobody_compiles() {
    for path in files_everywhere(".md") {
        assert!(
            !text(&path).contains("```rust"),
            "{path}: rustdoc examples are compiled, this is not"
        );
    }
}

/// Folders that a map does not mention.
fn unmapped<'a>(folders: &'a [String], map: &str) -> Vec<&'a String> {
    folders.iter().filter(|folder| !map.contains(&format!("`{folder}/`"))).collect()
}

#[test]
fn every_room_is_on_the_map() {
    let folders = all_files();
    let folders = folders.iter().filter_map(|path| Some(path.split_once('/')?.0.to_owned()));
    let folders: BTreeSet<String> = folders.filter(|name| !name.starts_with('.')).collect();
    let folders: Vec<String> = folders.into_iter().collect();
    assert!(folders.len() >= 10, "found only {folders:?}");
    let readme = text("README.md");
    assert_eq!(unmapped(&folders, section(&readme, "The rooms")), Vec::<&String>::new());
    assert_eq!(unmapped(&["a".to_owned(), "b".to_owned()], "`a/` b"), [&"b".to_owned()]);
}

#[test]
fn another_command_is_found() {
    assert_eq!(commands("x\n\n    a\n    b c\n\ny"), ["a", "b c"]);
    assert_eq!(others("first run cargo build, then"), ["cargo build"]);
}
