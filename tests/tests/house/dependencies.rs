//! Who may depend on whom: the manifests, what is compiled in, and the table in docs/architecture.md are one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cargo::cargo;
use crate::markdown::{code, table};
use crate::repository::text;

/// A crate, what it uses of this workspace, and what it never links. A `*` at the end of a name stands for the rest.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

const CRATES: [Row; 10] = [
    ("wattscribe-parser", &[], &["arrow*", "parquet", "tokio", "serde"]),
    ("wattscribe-rules", &[], &["tokio", "arrow*", "parquet", "serde", "clap"]),
    ("wattscribe-table", &["wattscribe-rules"], &["tokio", "axum", "hyper", "reqwest", "clap"]),
    (
        "wattscribe-exporter",
        &["wattscribe-parser", "wattscribe-rules"],
        &["arrow*", "parquet", "reqwest", "rustls"],
    ),
    (
        "wattscribe-scraper",
        &["wattscribe-parser", "wattscribe-rules", "wattscribe-table"],
        &["axum", "clap"],
    ),
    ("wattscribe-simulator", &[], &["tokio", "arrow*", "parquet"]),
    ("wattscribe-standins", &[], &["tokio", "arrow*", "parquet"]),
    ("wattscribe-standin-nvml", &["wattscribe-standins"], &["tokio", "arrow*", "parquet"]),
    ("wattscribe-standin-dcgm", &["wattscribe-standins"], &["tokio", "arrow*", "parquet"]),
    (
        "wattscribe",
        &[
            "wattscribe-exporter",
            "wattscribe-parser",
            "wattscribe-rules",
            "wattscribe-scraper",
            "wattscribe-simulator",
            "wattscribe-table",
        ],
        &[],
    ),
];

/// Everything that is in nobody's way: it holds tests, and no crate may use it.
const TESTS: &str = "wattscribe-tests";

#[test]
fn manifests_name_what_the_table_allows() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--locked"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let mut seen = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        seen.insert(name);
        if name == TESTS {
            continue;
        }
        let found: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].is_null() && dependency["path"].is_string())
            .map(|dependency| dependency["name"].as_str().unwrap())
            .collect();
        let row = CRATES.iter().find(|(of, ..)| *of == name);
        let (_, uses, _) = row.unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(found, uses.iter().copied().collect(), "{name}");
    }
    let expected = CRATES.iter().map(|(name, ..)| *name).chain([TESTS]).collect();
    assert_eq!(seen, expected, "crates of the workspace");
}

#[test]
fn nothing_links_what_it_must_not() {
    for (name, _, never) in CRATES {
        let tree = cargo(&[
            "tree",
            "--locked",
            "--package",
            name,
            "--edges",
            "normal,build",
            "--prefix",
            "none",
        ]);
        let linked: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(linked.contains(&name), "{name}: cargo tree printed {tree:?}");
        assert_eq!(forbidden(name, &linked, never), Vec::<&str>::new(), "{name} links these");
    }
}

/// What is linked of what must not be.
fn forbidden<'a>(name: &str, linked: &[&'a str], never: &[&str]) -> Vec<&'a str> {
    let matches = |found: &str| {
        never.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => found.starts_with(start),
            None => found == *pattern,
        })
    };
    linked.iter().copied().filter(|found| *found != name && matches(found)).collect()
}

#[test]
fn what_must_not_be_linked_is_found() {
    let linked = ["a", "arrow-array", "tokio", "b"];
    let cases: [(&[&str], &[&str]); 4] = [
        (&["arrow*"], &["arrow-array"]),
        (&["tokio", "c"], &["tokio"]),
        (&["toki"], &[]),
        (&["*"], &["arrow-array", "tokio", "b"]),
    ];
    for (never, expected) in cases {
        assert_eq!(forbidden("a", &linked, never), expected, "{never:?}");
    }
}

#[test]
fn the_documented_table_is_this_one() {
    let documented = table(&text("docs/architecture.md"), "Who may depend on whom");
    let documented: Vec<_> = documented
        .iter()
        .map(|row| (code(&row[0]).concat(), code(&row[1]), code(&row[2])))
        .collect();
    let expected: Vec<_> = CRATES
        .iter()
        .map(|(name, uses, never)| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            ((*name).to_owned(), owned(uses), owned(never))
        })
        .collect();
    assert_eq!(documented, expected);
}
