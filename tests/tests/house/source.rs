//! The form of source files: each says what it is for, none is long, none has a name that says nothing.

use crate::repository::{files_everywhere, text};

/// Longer files are read by nobody in one go.
const LINES_MAX: usize = 400;

/// Names under which anything may stand, so that nothing is found.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"];

fn faults(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with("//! ") {
        faults.push(format!("{path}: does not begin with //! and what the file is for"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{path}: {lines} lines, expected at most {LINES_MAX}"));
    }
    let names = path.trim_end_matches(".rs").split('/');
    let inline = text.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.split([';', ' ']).next()
    });
    for name in names.chain(inline).filter(|name| EMPTY_NAMES.contains(name)) {
        faults.push(format!(
            "{path}: a module named {name:?}, expected a noun that says what is in it"
        ));
    }
    faults
}

#[test]
fn every_file_has_the_form_of_the_house() {
    let sources = files_everywhere(".rs");
    assert!(sources.len() > 100, "found only {} files", sources.len());
    let faults: Vec<String> = sources.iter().flat_map(|path| faults(path, &text(path))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn faults_are_found() {
    let long = format!("//! x\n{}", "\n".repeat(LINES_MAX));
    let cases = [
        ("a/b.rs", "//! For c.\nfn c() {}\n", 0),
        ("a/b.rs", "fn c() {}\n", 1),
        ("a/b.rs", "//!\n", 1),
        ("a/b.rs", &long, 1),
        ("a/util.rs", "//! x\n", 1),
        ("a/helpers/b.rs", "//! x\n", 1),
        ("a/b.rs", "//! x\npub(crate) mod common;\n", 1),
        ("a/b.rs", "//! x\nmod misc {\n}\n", 1),
    ];
    for (path, text, expected) in cases {
        let found = faults(path, text);
        assert_eq!(found.len(), expected, "{path}: {found:?}");
    }
}
