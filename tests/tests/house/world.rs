//! Who may touch the world: files, sockets, clocks, threads, processes, signals and the environment are reached only
//! where docs/architecture.md says.

use std::collections::{BTreeMap, BTreeSet};

use crate::markdown::{code, table};
use crate::repository::{files, text};

/// What reaches out, by the words that do it. A word counts where it does not continue a longer name.
const WORDS: [(&str, &[&str]); 8] = [
    (
        "files",
        &[
            "std::fs",
            "fs::",
            "File::open",
            "File::create",
            "OpenOptions",
            "tempfile::",
            ".exists()",
            ".is_dir()",
            ".is_file()",
            ".canonicalize()",
            ".metadata()",
        ],
    ),
    (
        "sockets",
        &["TcpListener", "TcpStream", "UdpSocket", "UnixStream", "UnixListener", "Client::builder"],
    ),
    (
        "clocks",
        &["SystemTime::now", "Instant::now", "clock_gettime", "Timestamp::now", "Zoned::now"],
    ),
    ("threads", &["thread::spawn", "thread::Builder", "thread::scope", "spawn_blocking"]),
    ("processes", &["Command::new", "kill_process", "process::exit", "process::abort"]),
    ("signals", &["signal::unix", "ctrl_c"]),
    ("environment", &["env::var", "env::args", "from_env", "from_env_lossy", "env::current_dir"]),
    ("libraries", &["libc::", "libloading", "dlopen", "unsafe"]),
];

const CRATES: [&str; 7] = [
    "parser/src",
    "rules/src",
    "table/src",
    "exporter/src",
    "scraper/src",
    "cli/src",
    "tests/simulator/src",
];

/// Code as it is shipped: without comments, and without the tests at the end of the file.
fn shipped(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let lines = source[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// What a source reaches out to.
fn touches(source: &str) -> BTreeSet<&'static str> {
    let code = shipped(source);
    let is_named = |word: &str| {
        let continues = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        code.match_indices(word).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            let after = code[at + word.len()..].chars().next();
            // A word that ends in a mark is whole; `unsafe_code`, which forbids it, is another one.
            (word.starts_with('.') || !continues(before))
                && (word.ends_with([':', ')']) || !continues(after))
        })
    };
    let kinds = WORDS.iter().filter(|(_, words)| words.iter().any(|word| is_named(word)));
    kinds.map(|(kind, _)| *kind).collect()
}

#[test]
fn the_world_is_touched_only_where_the_table_says() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files(&CRATES, ".rs") {
        // A module of tests, or a file of one.
        let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
        let kinds = touches(&text(&path));
        if !is_test && !kinds.is_empty() {
            found.insert(path, kinds.into_iter().map(str::to_owned).collect());
        }
    }
    let documented: BTreeMap<String, BTreeSet<String>> =
        table(&text("docs/architecture.md"), "Who may touch the world")
            .iter()
            .map(|row| (code(&row[0]).concat(), row[1].split(", ").map(str::to_owned).collect()))
            .collect();
    let mut faults = Vec::new();
    for path in found.keys().chain(documented.keys()).collect::<BTreeSet<_>>() {
        let (found, documented) = (found.get(path), documented.get(path));
        if found != documented {
            faults
                .push(format!("{path}: found {found:?}, docs/architecture.md has {documented:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The files that may hold unsafe code: bindings of C libraries.
const UNSAFE: [&str; 2] = ["exporter/src/dcgm_lib.rs", "exporter/src/nvml_lib.rs"];

#[test]
fn unsafe_code_stands_in_bindings_alone_and_each_block_has_its_reason() {
    for path in files(&CRATES, ".rs") {
        let faults = unsafe_faults(&text(&path), UNSAFE.contains(&path.as_str()));
        assert_eq!(faults, Vec::<String>::new(), "{path}");
    }
}

/// Unsafe code where there may be none, and blocks without a reason in the lines before them.
fn unsafe_faults(source: &str, may: bool) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        code.contains("unsafe {") || code.contains("allow(unsafe_code")
    };
    let has_reason = |at: usize| {
        let before = &lines[at.saturating_sub(5)..at];
        before.iter().any(|line| line.trim_start().starts_with("// SAFETY: "))
    };
    let mut faults = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_unsafe(line)) {
        let is_fault = !may || (line.contains("unsafe {") && !has_reason(at));
        faults.extend(is_fault.then(|| format!("line {}: {}", at + 1, line.trim())));
    }
    faults
}

#[test]
fn unsafe_code_is_found() {
    let cases = [
        ("// SAFETY: so\nunsafe { f() }\n", true, 0),
        ("unsafe { f() }\n", true, 1),
        ("// SAFETY: so\nunsafe { f() }\n", false, 1),
        ("#![allow(unsafe_code, reason = \"so\")]\n", false, 1),
        ("// unsafe { f() }\n", false, 0),
    ];
    for (source, may, expected) in cases {
        assert_eq!(unsafe_faults(source, may).len(), expected, "{source}");
    }
}

#[test]
fn what_touches_the_world_is_found() {
    let cases: [(&str, &[&str]); 10] = [
        ("use std::fs;\n", &["files"]),
        ("let f = File::open(p)?;\n", &["files"]),
        ("let f = GrowingFile::open(p)?; // File::open\n", &[]),
        ("if path.is_dir() {}\n", &["files"]),
        ("let t = std::time::Instant::now();\n", &["clocks"]),
        ("TcpListener::bind(a)\n", &["sockets"]),
        ("fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n", &[]),
        ("unsafe { f() }\n", &["libraries"]),
        ("#![forbid(unsafe_code)]\n", &[]),
        ("Command::new(x).spawn(); env::var(y)\n", &["environment", "processes"]),
    ];
    for (source, expected) in cases {
        assert_eq!(touches(source).into_iter().collect::<Vec<_>>(), expected, "{source}");
    }
}
