//! Rules in Prometheus: the expressions that are written, what stands above them, and what cannot be written.
//!
//! That they mean what the engine means is for promtool and a real Prometheus to say, which the tests of the whole pipeline
//! run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::Duration;

use wattscribe_rules::promql::{Options, export, in_prometheus};
use wattscribe_rules::rule;

const INPUTS: &str = "wattscribe_rules: 1
inputs:
  - {metric: feed_watts, boundary: node, unit: W, averaging: instant, member: [feed]}
  - {metric: feed_joules_total, boundary: node, unit: J, averaging: instant, member: [feed]}
  - {metric: tokens, boundary: node, unit: tokens/s, averaging: instant}
rules:
";

/// The export of one rule, in the form `{name: a:b:c, by: [node], boundary: node, unit: W, ...}`.
fn exported(rules: &str, options: &Options) -> String {
    let set = rule::read(&format!("{INPUTS}{rules}"))
        .unwrap_or_else(|errors| panic!("{rules}: {errors:?}"));
    export(&set, options).unwrap().rules
}

/// The expression of a recording rule, its lines as one.
fn expression(text: &str, name: &str) -> String {
    let start =
        text.find(&format!("- record: {name}\n")).unwrap_or_else(|| panic!("{name}: {text}"));
    let lines = text[start..].lines().skip(2).take_while(|line| !line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn expressions() {
    const R: &str = "member:feed_watts:reading";
    const E: &str = "member:feed_watts:expected";
    let whole = format!("and count by (instance) ({R}) == count by (instance) ({E})");
    let cases = [
        ("function: sum, of: feed_watts, unit: W", format!("sum by (instance) ({R}) {whole}")),
        (
            "function: sum, of: feed_watts, require: at least 2, unit: W",
            format!("sum by (instance) ({R}) and count by (instance) ({R}) >= 2"),
        ),
        ("function: max, of: feed_watts, unit: W", format!("max by (instance) ({R})")),
        (
            "function: min, of: feed_watts, withhold: {below: 10, above: 2e3}, unit: W",
            format!("(min by (instance) ({R})) >= 10 <= 2000"),
        ),
        (
            "function: mean, of: feed_watts, withhold: {spread_above: 5%}, unit: W",
            format!(
                "sum by (instance) ({R}) / count by (instance) ({R}) unless max by (instance) ({R}) - min by (instance) ({R}) \
                 > 0.05 * 1.000000000001 * avg by (instance) ({R})"
            ),
        ),
        (
            "function: ratio, of: tokens, to: feed_watts, unit: tokens/J",
            format!(
                "sum by (instance) (member:tokens:reading) / (sum by (instance) ({R}) != 0) \
                 and count by (instance) (member:tokens:reading) == count by (instance) (member:tokens:expected) {whole}"
            ),
        ),
        (
            "function: integrate, of: feed_watts, over: {every: 1m, length: 5m}, unit: J",
            whole.replace(R, "member:feed_watts:integrate5m").replacen(
                "and",
                "sum by (instance) (member:feed_watts:integrate5m) and",
                1,
            ),
        ),
        (
            "function: quantile, quantile: 0.5, of: feed_watts, over: {every: 1m}, unit: W",
            format!(
                "sum by (instance) (Q) unless count by (instance) ({E}) > 1 {}",
                whole.replace(R, "Q")
            )
            .replace('Q', "member:feed_watts:quantile1m"),
        ),
    ];
    for (rule, expected) in cases {
        let rule = format!("  - {{name: a:b:c, by: [node], boundary: node, {rule}}}\n");
        assert_eq!(expression(&exported(&rule, &Options::default()), "a:b:c"), expected, "{rule}");
    }
}

#[test]
fn members() {
    let rules = "  - {name: a:b:sum, function: sum, of: 'feed_watts{feed=~\"a|b\"}', by: [node], boundary: node, unit: W}
  - {name: f:b:sum, function: sum, of: a:b:sum, by: [], boundary: node, unit: W}
  - {name: a:b:inc, function: increase, of: feed_joules_total, over: {every: 1m}, by: [node], boundary: node, unit: J}
";
    let options = Options {
        node_label: "host".to_owned(),
        scrape_interval: Duration::from_secs(1),
        remember: Duration::from_secs(7_200),
        jobs: "power|dcgm".to_owned(),
    };
    let text = exported(rules, &options);
    let selector = r#"feed_watts{feed=~"a|b"}"#;
    let silent = r#"up{job=~"power|dcgm"} unless on (host) member:up:answered"#;
    let cases = [
        (
            "member:feed_watts:expected",
            format!(
                "time() * group by (feed, host) ({selector}) \
                 or last_over_time(member:feed_watts:expected[15m]) > time() - 7200"
            ),
        ),
        (
            "member:feed_watts:reading",
            format!("sum by (feed, host) ({selector} > -Inf < Inf) unless count by (feed, host) ({selector}) > 1"),
        ),
        (
            "f:b:sum",
            format!(
                "sum by () (a:b:sum) and count by () (a:b:sum) == count by () (group by (host) (member:feed_watts:expected)) \
                 unless on () count({silent}) > 0"
            ),
        ),
        (
            "series:feed_joules_total:increase1m",
            "last_over_time(( last_over_time(feed_joules_total[1s100ms]) - last_over_time(feed_joules_total[1s100ms] offset 1m) \
             unless resets(feed_joules_total[1m1s100ms]) > 0 )[59s999ms:1m] offset 3s)"
                .to_owned(),
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(expression(&text, name), expected, "{name}");
    }
    let groups: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  - name: ")).collect();
    assert_eq!(groups, ["wattscribe", "wattscribe-1m", "wattscribe-alerts"]);
}

#[test]
fn what_cannot_be_written_says_why() {
    let of = "of: feed_watts, by: [node], boundary: node";
    let cases = [
        ("over: named", 5, "Prometheus does not know when benchmarks and jobs begin and end"),
        ("over: {every: 5s}", 5, "windows of 5s hold fewer than two readings that are 5s apart"),
        (
            "over: {every: 5s, length: 1m}",
            15,
            "windows begin every 5s, and rules are evaluated every 15s",
        ),
    ];
    for (over, interval_s, reason) in cases {
        let rules = format!(
            "  - {{name: a:b:c, function: integrate, {over}, {of}, unit: J}}
  - {{name: f:b:c, function: sum, of: a:b:c, by: [], boundary: node, unit: J}}\n"
        );
        let options =
            Options { scrape_interval: Duration::from_secs(interval_s), ..Options::default() };
        let text = exported(&rules, &options);
        assert!(!text.contains("record: a:b:c") && !text.contains("record: f:b:c"), "{text}");
        for reason in [reason, "it takes results of a:b:c, which is not here either"] {
            assert!(text.contains(&format!("# Not here: {reason}.")), "{reason}: {text}");
        }
    }
}

#[test]
fn readings_that_a_window_needs() {
    // By window and scrape interval in ms: with half of the window asked for, nothing asked for, and all of it; last for a
    // comparison with a counter.
    let cases = [
        ("10s", 5_000, [2, 2, 2, 2]),
        ("10s", 4_000, [2, 2, 2, 2]),
        ("1m", 30_000, [2, 2, 2, 2]),
        ("1m", 24_000, [2, 2, 2, 2]),
        ("1m", 20_000, [2, 3, 3, 2]),
        ("1m", 17_000, [2, 3, 3, 2]),
        ("1m", 15_000, [2, 4, 4, 3]),
        ("1m", 12_000, [3, 5, 5, 4]),
        ("1m", 10_000, [3, 6, 6, 5]),
        ("1m", 7_000, [5, 8, 8, 7]),
        ("1m", 6_000, [5, 9, 10, 9]),
        ("1m", 5_000, [6, 11, 12, 11]),
        ("1m", 1_000, [30, 54, 60, 59]),
        ("15s", 100, [75, 135, 150, 149]),
    ];
    for (length, interval_ms, expected) in cases {
        let options =
            Options { scrape_interval: Duration::from_millis(interval_ms), ..Options::default() };
        let integrate = "function: integrate, of: feed_watts";
        let forms = [
            format!("{integrate}, withhold: {{coverage_below: 50%}}"),
            integrate.to_owned(),
            format!("{integrate}, withhold: {{coverage_below: 100%}}"),
            "function: check, of: feed_watts, against: feed_joules_total".to_owned(),
        ];
        let found = forms.map(|form| {
            let rule = format!(
                "  - {{name: a:b:c, {form}, over: {{every: {length}}}, by: [node], boundary: node, unit: J}}\n"
            );
            let text = exported(&rule, &options);
            let power = expression(&text, &format!("series:feed_watts:integrate{length}"));
            let (_, count) = power.split_once(&format!("[{length}]) >= ")).unwrap();
            count.split_once(' ').unwrap().0.parse::<u64>().unwrap()
        });
        assert_eq!(found, expected, "{length}, {interval_ms} ms");
    }
}

#[test]
fn options_that_make_no_sense() {
    let of = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        options
    };
    let cases = [
        (
            of(|options| options.node_label = "a-b".to_owned()),
            "the label of nodes is \"a-b\", expected letters, digits and underscores",
        ),
        (
            of(|options| options.scrape_interval = Duration::ZERO),
            "the scrape interval is 0ns, expected 1ms to 1h in whole milliseconds",
        ),
        (
            of(|options| options.scrape_interval = Duration::from_micros(1_500)),
            "the scrape interval is 1.5ms, expected 1ms to 1h in whole milliseconds",
        ),
        (
            of(|options| options.remember = Duration::from_secs(60)),
            "members are remembered for 60s, expected 1h at least",
        ),
        (
            of(|options| options.jobs = "(".to_owned()),
            "the jobs are no regular expression: unclosed group",
        ),
    ];
    for (options, expected) in cases {
        let error = export(&rule::builtin(), &options).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn settings_hold_two_scrapes() {
    let settings = |interval_ms| {
        let timing = in_prometheus(&rule::builtin(), Duration::from_millis(interval_ms)).timing;
        [timing.every, timing.gap, timing.look_back].map(|setting| setting.as_millis())
    };
    for (interval_ms, expected) in [
        (500, [1_000, 3_000, 5_000]),
        (1_500, [1_500, 3_000, 5_000]),
        (2_000, [2_000, 6_000, 5_000]),
        (15_000, [15_000, 45_000, 45_000]),
    ] {
        assert_eq!(settings(interval_ms), expected, "{interval_ms}");
    }
}
