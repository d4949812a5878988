//! docs/operations.md against the programs: every flag with its default, and exit codes.

use std::process::Command;

use wattscribe_scraper::fleet::gathered;
use wattscribe_scraper::page::FAMILIES;
use wattscribe_tests::program::{Ended, exporter, run, wattscribe};

use crate::markdown::{code, table};
use crate::repository::text;

/// One of the programs, to be given arguments.
type Program = fn() -> Command;

/// A flag and its default, as `--help` has them.
type Flag = (String, String);

/// The flags of a `--help` text, but for those that every program has.
fn flags(help: &str) -> Vec<Flag> {
    let options = help.split_once("Options:").map_or("", |(_, options)| options);
    let mut flags: Vec<(String, String)> = Vec::new();
    for line in options.lines().map(str::trim) {
        let start = line.strip_prefix("-h, ").or(line.strip_prefix("-V, "));
        let start = start.or(line.strip_prefix("-o, ")).unwrap_or(line);
        if start.starts_with("--") {
            let name = start.split(' ').next().unwrap_or_default();
            flags.push((name.to_owned(), String::new()));
        }
        if let Some((_, text)) = flags.last_mut() {
            text.push_str(line);
            text.push(' ');
        }
    }
    flags.retain(|(name, _)| name != "--help" && name != "--version");
    let default = |text: &str| Some(text.split_once("[default: ")?.1.split_once(']')?.0.to_owned());
    let with_default = flags.into_iter().map(|(name, text)| {
        let default = default(&text).unwrap_or_default();
        (name, default)
    });
    with_default.collect()
}

/// Runs one of the programs.
fn ended(program: Program, args: &[&str]) -> Ended {
    run(program().args(args).env_remove("RUST_LOG"))
}

#[test]
fn every_flag_is_documented_with_its_default() {
    let page = text("docs/operations.md");
    let cases: [(Program, &[&str], &str); 11] = [
        (exporter, &["--help"], "The exporter"),
        (wattscribe, &["export", "--help"], "The exporter"),
        (wattscribe, &["record", "--help"], "Recording"),
        (wattscribe, &["energy", "--help"], "Energy"),
        (wattscribe, &["demo", "--help"], "The demo"),
        (wattscribe, &["rules", "eval", "--help"], "Results of a recording"),
        (wattscribe, &["rules", "explain", "--help"], "One result explained"),
        (wattscribe, &["rules", "export", "--help"], "Rules in Prometheus"),
        (wattscribe, &["fleet", "serve", "--help"], "The fleet"),
        (wattscribe, &["fleet", "status", "--help"], "A fleet shown"),
        (wattscribe, &["fleet", "at", "--help"], "A fleet of the past"),
    ];
    for (program, args, heading) in cases {
        let found = flags(&ended(program, args).succeeded().stdout);
        let documented: Vec<Flag> = table(&page, heading)
            .iter()
            .map(|row| (code(&row[0]).concat(), code(&row[1]).concat()))
            .collect();
        assert_eq!(documented, found, "{args:?} against {heading:?}");
    }
}

#[test]
fn every_family_of_the_recorders_page_is_documented_in_its_place() {
    let found: Vec<[String; 2]> = table(&text("docs/operations.md"), "The recorder's page")
        .iter()
        .map(|row| [code(&row[0]).concat(), row[1].clone()])
        .collect();
    let families = FAMILIES.iter().map(|of| [of.name.to_owned(), of.kind.as_str().to_owned()]);
    assert_eq!(found, families.collect::<Vec<_>>());
}

#[test]
fn every_family_of_the_fleets_page_is_documented_in_its_place() {
    let found: Vec<[String; 2]> = table(&text("docs/fleet.md"), "The page")
        .iter()
        .map(|row| [code(&row[0]).concat(), row[1].clone()])
        .collect();
    let families = gathered::FAMILIES.iter();
    let families = families.map(|of| [of.name.to_owned(), of.kind.as_str().to_owned()]);
    assert_eq!(found, families.collect::<Vec<_>>());
}

#[test]
fn every_command_is_documented() {
    let page = text("docs/operations.md");
    let help = ended(wattscribe, &["--help"]).succeeded().stdout;
    let commands = help.split_once("Commands:").unwrap().1.split_once("Options:").unwrap().0;
    // A line that is a command is indented by two; what goes on from the line before, by more.
    let names = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(names.len() >= 4, "found only {names:?} in {help}");
    for name in names {
        assert!(page.contains(&format!("`wattscribe {name}`")), "{name}");
    }
}

#[test]
fn exit_codes_are_documented_and_come_so() {
    let rows = table(&text("docs/operations.md"), "Exit codes");
    let codes: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(codes, ["0", "1", "2", "126", "127", "128+n", "other"]);
    let of_exporter = table(&text("docs/metrics.md"), "Exit codes of the exporter");
    let codes: Vec<&str> = of_exporter.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(codes, ["0", "1", "2"]);
    let cases: [(Program, &[&str], i32); 9] = [
        (wattscribe, &["--version"], 0),
        (wattscribe, &["rules", "check", "/nowhere"], 2),
        (wattscribe, &["rules", "eval", "/nowhere"], 1),
        (wattscribe, &["rules", "eval", "--rules", "/nowhere", "/nowhere"], 2),
        (wattscribe, &["energy", "/nowhere"], 1),
        (wattscribe, &["energy"], 2),
        (wattscribe, &["record", "--target", "a", "--out", "/nowhere"], 2),
        (exporter, &["--sysfs-root", "/nowhere"], 1),
        (exporter, &["--interval", "0s"], 2),
    ];
    for (program, args, expected) in cases {
        let ended = ended(program, args);
        assert_eq!(ended.code, expected, "{args:?}: {}{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn flags_are_read_from_both_layouts_of_help() {
    let short = "Options:\n      --out <DIR>  Where [default: a\n                   b]\n  -h, --help       Print help\n";
    let long = "Options:\n  -o, --output <FILE>\n          Writes\n\n      --port <PORT>\n          Port\n          \n          [default: 1]\n\n  -V, --version\n          Print\n";
    let flag = |name: &str, default: &str| (name.to_owned(), default.to_owned());
    assert_eq!(flags(short), [flag("--out", "a b")]);
    assert_eq!(flags(long), [flag("--output", ""), flag("--port", "1")]);
}
