//! Rule files that are read: what they become, which of the edges of meaning they may use, and what their hashes hold.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::Duration;

use proptest::prelude::*;
use wattscribe_rules::rule::{
    BUILTIN, From, Function, Over, Require, Rule, RuleSet, builtin, read,
};
use wattscribe_rules::{Averaging, Boundary};

/// Three rules that others take, and one of the case.
fn file(rule: &str) -> String {
    format!(
        "wattscribe_rules: 1
inputs:
  - {{metric: tokens_per_second, boundary: node, unit: tokens/s, averaging: mean 1s, member: [server]}}
rules:
  - {{name: 'socket:module_power_watts:mean', function: mean, of: gpu_module_power_watts, by: [node, socket], boundary: module, unit: W}}
  - {{name: 'node:cpu_power_watts:sum', function: sum, of: 'cpu_power_acpi_watts{{type=\"total\"}}', by: [node], boundary: socket_total, unit: W}}
  - {{name: 'node:cpu_energy_joules:integrate1m', function: integrate, of: 'cpu_power_acpi_watts{{type=\"total\"}}', over: {{every: 1m}}, by: [node], boundary: socket_total, unit: J}}
  - {{name: 'a:b:c', {rule}}}
"
    )
}

fn read_rule(rule: &str) -> Rule {
    let text = |errors: Vec<_>| -> String {
        errors
            .iter()
            .map(|error: &wattscribe_rules::rule::RuleError| format!("{error}\n"))
            .collect()
    };
    let set = read(&file(rule)).map_err(text);
    set.unwrap_or_else(|errors| panic!("{rule}\n{errors}")).rules.pop().unwrap()
}

#[test]
fn what_means_something() {
    let cases = [
        // What has no part in common, under what contains both.
        r#"function: sum, of: ['cpu_power_rapl_watts{type="package"}', 'cpu_power_rapl_watts{type="dram"}'], by: [node], boundary: socket_total, unit: W"#,
        r#"function: sum, of: ['cpu_power_dcgm_watts{field_id="1130"}', 'cpu_power_dcgm_watts{field_id="1132"}'], by: [node], boundary: package, unit: W"#,
        r#"function: sum, of: ['cpu_power_acpi_watts{type="total"}', 'accelerator_power_watts{scope="gpu"}'], by: [node], boundary: module, unit: W"#,
        r#"function: sum, of: ['cpu_power_acpi_watts{type="total"}', DCGM_FI_DEV_POWER_USAGE], by: [node], boundary: node, unit: W"#,
        // One metric, kept apart by its matchers.
        r#"function: sum, of: ['cpu_power_acpi_watts{type="total",socket="0"}', 'cpu_power_acpi_watts{type="total",socket=~"[1-9].*"}'], by: [node], boundary: socket_total, unit: W"#,
        // A matcher that leaves one boundary.
        r#"function: sum, of: 'cpu_power_acpi_watts{type!~"cpu_rail|soc|dram"}', by: [node], boundary: socket_total, unit: W"#,
        "function: sum, of: cpu_power_nvml_watts, by: [node], boundary: module, unit: W",
        // Reports of one module, where none is counted twice.
        "function: max, of: gpu_module_power_watts, by: [node, socket], boundary: module, unit: W",
        "function: sum, of: 'socket:module_power_watts:mean', by: [node], boundary: module, unit: W",
        "function: quantile, quantile: 1, of: gpu_module_power_watts, over: {every: 1s}, by: [node, uuid], boundary: module, unit: W",
        // What is left.
        r#"function: residual, of: 'socket:module_power_watts:mean', less: ['cpu_power_acpi_watts{type="total"}', 'accelerator_power_watts{scope="gpu"}'], by: [node, socket], boundary: losses, unit: W"#,
        r#"function: residual, of: 'cpu_power_acpi_watts{type="total"}', less: 'cpu_power_acpi_watts{type="cpu_rail"}', by: [node, socket], boundary: rest, unit: W"#,
        // Quotients.
        r#"function: ratio, of: tokens_per_second, to: 'node:cpu_power_watts:sum', by: [node], boundary: socket_total, unit: tokens/J"#,
        r#"function: ratio, of: tokens_per_second, to: 'node:cpu_power_watts:sum', by: [node], boundary: socket_total, unit: tokens/s/W"#,
        r#"function: ratio, of: 'cpu_power_acpi_watts{type="total"}', to: cpu_power_nvml_watts, by: [node, socket], boundary: module, unit: 1"#,
        // Windows: of results, of a file, overlapping, of the fleet.
        "function: max, of: 'node:cpu_power_watts:sum', over: {every: 1m, length: 1h}, by: [node], boundary: socket_total, unit: W",
        "function: integrate, of: 'node:cpu_power_watts:sum', over: named, by: [], boundary: socket_total, unit: J",
        "function: sum, of: 'node:cpu_energy_joules:integrate1m', by: [], boundary: socket_total, unit: J, withhold: {coverage_below: 100%}",
        "function: increase, of: cpu_energy_joules_total, over: {every: 1d}, by: [node], boundary: package, unit: J, require: at least 2",
        r#"function: check, of: 'cpu_power_rapl_watts{type="package"}', against: cpu_energy_joules_total, over: {every: 1m}, by: [node, socket], boundary: package, unit: J"#,
        // Labels that nobody lists, and the target as one of them.
        r#"function: mean, of: 'DCGM_FI_DEV_POWER_USAGE{Hostname="a",node=~"rack1-.*"}', by: [node, modelName], member: [gpu], boundary: accelerator, unit: W"#,
        // A fleet by a label.
        "function: mean, of: 'socket:module_power_watts:mean', by: [socket], boundary: module, unit: W, withhold: {spread_above: 12.5%, below: 0, above: 5e3}",
    ];
    for case in cases {
        let rule = read_rule(case);
        assert_eq!(rule.name, "a:b:c");
        assert_eq!(rule.hash.len(), 16, "{case}");
    }
}

#[test]
fn what_a_rule_becomes() {
    let rule = read_rule(
        r#"about: words, function: max, of: 'cpu_power_acpi_watts{type="total"}', over: {every: 1m, length: 5m}, by: [socket, node], withhold: {above: 5000, coverage_below: 90%}, boundary: socket_total, unit: W"#,
    );
    assert_eq!((rule.about.as_str(), rule.unit.as_str()), ("words", "W"));
    assert_eq!((rule.boundary, rule.require), (Boundary::SocketTotal, Require::All));
    assert_eq!(rule.by, ["node", "socket"]);
    assert_eq!((rule.withhold.above, rule.withhold.coverage_below), (Some(5000.0), Some(0.9)));
    let [every, length] = [60, 300].map(Duration::from_secs);
    assert_eq!(rule.over(), Some(&Over::Aligned { every, length }));
    let Function::Max { of, .. } = &rule.function else { panic!("{rule:?}") };
    assert_eq!(of[0].selector.to_string(), r#"cpu_power_acpi_watts{type="total"}"#);
    assert_eq!(of[0].from, From::Sockets);
    assert_eq!(of[0].member, ["node", "socket", "type"]);
    assert!(of[0].zero_is_missing);

    let of = |rule: &str| read_rule(rule).inputs()[0].clone();
    let own =
        of("function: max, of: tokens_per_second, by: [node], boundary: node, unit: tokens/s");
    assert_eq!((own.from, own.zero_is_missing), (From::Page, false));
    assert_eq!(own.member, ["node", "server"]);
    assert_eq!(own.averaging, Averaging::Mean { window_s: 1.0 });
    let result = of(
        "function: max, of: 'socket:module_power_watts:mean', by: [node], boundary: module, unit: W",
    );
    assert_eq!((result.from, result.boundary), (From::Rule(0), Boundary::Module));
    assert_eq!(result.member, ["node", "socket"]);
    let said = of(
        "function: mean, of: gpu_module_power_watts, by: [node], member: [gpu], boundary: module, unit: W",
    );
    assert_eq!(said.member, ["gpu", "node"]);
}

#[test]
fn settings() {
    let set = read("wattscribe_rules: 1\nevery: 500ms\nlateness: 0s\nrules: []\n").unwrap();
    assert_eq!((set.timing.every.as_millis(), set.timing.lateness.as_millis()), (500, 0));
    assert_eq!((set.timing.look_back.as_secs(), set.timing.gap.as_secs()), (5, 3));
    assert_eq!(set.rules, []);
}

/// The hash of the last rule.
fn hash(text: &str) -> String {
    read(text).unwrap().rules.pop().unwrap().hash
}

#[test]
fn a_hash_is_of_what_decides_the_value() {
    let rule =
        r#"function: mean, of: tokens_per_second, by: [node], boundary: node, unit: tokens/s"#;
    let text = file(rule);
    // printf '1000000\n5000000\n2000000\n3000000\n{"name":"a:b:c","function":"mean","of":"tokens_per_second","by":["node"],
    // "boundary":"node","unit":"tokens/s"}\n{"metric":"tokens_per_second","boundary":"node","unit":"tokens/s",
    // "averaging":"mean 1s","member":["server"]}\n' | sha256sum
    let expected = "508fded33f48068b";
    assert_eq!(hash(&text), expected);
    let same = [
        text.replace("function: mean, of", "about: words, function: mean, of"),
        text.replace(
            "[node], boundary: node, unit: tokens/s}",
            "[ node ],  boundary: 'node', unit: tokens/s } # why",
        ),
        text.replace("inputs:", "every: 1000ms\ninputs:"),
    ];
    for text in same {
        assert_eq!(hash(&text), expected, "{text}");
    }
    let other = [
        text.replace("a:b:c", "a:b:d"),
        text.replace("inputs:", "gap: 4s\ninputs:"),
        text.replace("averaging: mean 1s", "averaging: instant"),
        text.replace("function: mean, of: tok", "require: all, function: mean, of: tok"),
    ];
    for text in other {
        assert_ne!(hash(&text), expected, "{text}");
    }
    // What the rule above does is part of what this one says.
    let of_rule = file(
        "function: max, of: 'socket:module_power_watts:mean', by: [node], boundary: module, unit: W",
    );
    let guarded = of_rule.replacen("unit: W}", "unit: W, withhold: {spread_above: 5%}}", 1);
    assert_ne!(hash(&of_rule), hash(&guarded));
}

#[test]
fn what_is_built_in_is_told_apart() {
    let RuleSet { rules, .. } = builtin();
    let mut hashes: Vec<&str> = rules.iter().map(|rule| rule.hash.as_str()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), rules.len());
    assert!(rules.iter().all(|rule| !rule.about.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever a file says, it is read or refused, and each fault stands in the file.
    #[test]
    fn a_damaged_file_is_refused_in_its_place(
        at in 0..BUILTIN.len(),
        length in 0..80usize,
        put in prop_oneof!["[ -~\n]{0,12}", "[\\[\\]{}:,&*!|>'\"%#\t\\\\-]{1,4}", "\\PC{0,4}"],
    ) {
        let start = (0..=at).rev().find(|at| BUILTIN.is_char_boundary(*at)).unwrap();
        let end = (start + length..).find(|at| BUILTIN.is_char_boundary((*at).min(BUILTIN.len()))).unwrap();
        let text = format!("{}{put}{}", &BUILTIN[..start], &BUILTIN[end.min(BUILTIN.len())..]);
        if let Err(errors) = read(&text) {
            let lines = text.lines().count() + 1;
            prop_assert!(!errors.is_empty());
            for error in errors {
                prop_assert!((1..=lines).contains(&error.place.line), "{error}");
                prop_assert!(error.place.column >= 1, "{error}");
                prop_assert!(!error.fault.to_string().ends_with('.'), "{error}");
            }
        }
    }

    /// Nothing that is typed makes it panic.
    #[test]
    fn any_text_is_read_or_refused(text in "(\\PC|[\n\t :\\[\\]{},&*#-]){0,200}") {
        let _ = read(&text);
    }
}
