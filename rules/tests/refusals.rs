//! Rule files that are refused, each with everything that is said of it: `refusals/*.test`.
//!
//! A case is `=== what is wrong`, the rule file, `---`, and a line for every fault in the order of the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;

use wattscribe_rules::rule::read;

/// The files, with at least how many cases each has: an empty file passes every test.
const FILES: [(&str, &str, usize); 3] = [
    ("form", include_str!("refusals/form.test"), 20),
    ("words", include_str!("refusals/words.test"), 20),
    ("meaning", include_str!("refusals/meaning.test"), 30),
];

#[test]
fn every_nonsense_is_refused_with_its_reason() {
    let mut faults = Vec::new();
    let mut titles = BTreeSet::new();
    for (name, text, at_least) in FILES {
        let cases: Vec<&str> = text.split("\n=== ").skip(1).collect();
        assert!(cases.len() >= at_least, "{name}: {} cases", cases.len());
        for case in cases {
            let (title, rest) = case.split_once('\n').unwrap();
            assert!(titles.insert(title), "{name}: {title} is there twice");
            let (file, expected) = rest.split_once("\n---\n").unwrap();
            let found: Vec<String> = match read(file) {
                Ok(_) => vec!["it is read".to_owned()],
                Err(errors) => errors.iter().map(ToString::to_string).collect(),
            };
            let expected: Vec<&str> = expected.trim().lines().collect();
            if found != expected {
                faults.push(format!("{name}, {title}:\n{}", found.join("\n")));
            }
        }
    }
    assert!(faults.is_empty(), "\n\n{}\n", faults.join("\n\n"));
}
