//! The recorder's own page: the newest results of rules, and how the recording stands. Pure: whoever serves it asks.

use wattscribe_parser::{Family, Format, Kind, Number, Writer, samples};
use wattscribe_rules::rule::{Over, Rule, RuleSet, Timing};
use wattscribe_table::DerivedRow;

use crate::newest::Newest;
use crate::status::{Status, TargetStatus};

/// The families beside those of rules, in the order of the page.
pub const FAMILIES: [Family<'static>; 10] =
    [WITHHELD, RESULT_TIME, UP, SIMULATED, SCRAPES, MISSED, DROPPED, FAILURES, ROWS, BUILD];

const WITHHELD: Family<'static> = Family {
    name: "wattscribe_rule_withheld",
    kind: Kind::Gauge,
    help: "1 for each newest result of a rule that has no value, and why.",
};
const RESULT_TIME: Family<'static> = Family {
    name: "wattscribe_rule_timestamp_seconds",
    kind: Kind::Gauge,
    help: "Time of the newest result of a rule: its instant, or the end of its window, on the recorder's clock.",
};
const UP: Family<'static> = Family {
    name: "wattscribe_target_up",
    kind: Kind::Gauge,
    help: "Whether the last scrape of a target gave a page.",
};
const SIMULATED: Family<'static> = Family {
    name: "wattscribe_target_simulated",
    kind: Kind::Gauge,
    help: "Whether a target ever said that its sensors are simulated: then nothing that came of it was measured.",
};
const SCRAPES: Family<'static> = Family {
    name: "wattscribe_scrapes_total",
    kind: Kind::Counter,
    help: "Scrapes of a target that came to an end, failed ones included.",
};
const FAILURES: Family<'static> = Family {
    name: "wattscribe_scrape_failures_total",
    kind: Kind::Counter,
    help: "Failed scrapes of a target by class.",
};
const MISSED: Family<'static> = Family {
    name: "wattscribe_ticks_missed_total",
    kind: Kind::Counter,
    help: "Scrapes of a target that were due and left out.",
};
const DROPPED: Family<'static> = Family {
    name: "wattscribe_scrapes_dropped_total",
    kind: Kind::Counter,
    help: "Scrapes of a target that were dropped because the disk was behind or took none.",
};
const ROWS: Family<'static> = Family {
    name: "wattscribe_rows_total",
    kind: Kind::Counter,
    help: "Rows of sockets and of kept samples that were recorded.",
};
const BUILD: Family<'static> =
    Family { name: "wattscribe_build_info", kind: Kind::Gauge, help: "Version of the recorder." };

/// Renders the page.
pub fn render(rules: Option<&RuleSet>, newest: &Newest, status: &Status, format: Format) -> String {
    let mut writer = Writer::new(format);
    if let Some(rules) = rules {
        results(&mut writer, rules, newest);
    }
    health(&mut writer, status);
    writer.finish()
}

/// The results: each rule is a family under its own name, and what has no value is told of at the end.
fn results(writer: &mut Writer, rules: &RuleSet, newest: &Newest) {
    let (mut withheld, mut times) = (Vec::new(), Vec::new());
    for rule in &rules.rules {
        let Some((newest_us, rows)) = newest.of(&rule.name, age_max_us(rule, rules.timing)) else {
            continue;
        };
        times.push((rule, newest_us));
        let (with_value, without): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.value.is_some());
        withheld.extend(without);
        if with_value.is_empty() {
            continue;
        }
        writer.family(&Family { name: &rule.name, kind: Kind::Gauge, help: &rule.about });
        for row in &with_value {
            sample(writer, row, &[], row.value.unwrap_or(f64::NAN));
        }
    }
    if !withheld.is_empty() {
        writer.family(&WITHHELD);
        for row in &withheld {
            let reason = row.reason.as_deref().unwrap_or_default();
            let about =
                [("rule", row.rule.as_str()), ("reason", reason), ("state", row.state.as_str())];
            sample(writer, row, &about, 1_u64);
        }
    }
    if !times.is_empty() {
        writer.family(&RESULT_TIME);
        for (rule, newest_us) in times {
            writer.sample(&[("rule", &rule.name)], Number::Fixed6(newest_us as f64 / 1e6));
        }
    }
}

/// A result: the node, the labels of its group, and what stands before them.
fn sample(writer: &mut Writer, row: &DerivedRow, about: &[(&str, &str)], value: impl Into<Number>) {
    // The labels stand as on a page, so they are read as a page is.
    let line = format!("x{{{}}} 0\n", row.labels);
    let read = samples(line.as_bytes()).unwrap_or_default();
    let of_group = read.first().map(|read| read.labels.iter()).into_iter().flatten();
    let of_group: Vec<_> =
        of_group.map(|(name, value)| (name.unescape(), value.unescape())).collect();
    let node = row.node.as_deref().map(|node| ("node", node));
    let mut labels = about.to_vec();
    labels.extend(node);
    labels.extend(of_group.iter().map(|(name, value)| (&**name, &**value)));
    writer.sample(&labels, value);
}

/// How far a group may be behind the newest of its rule: an instant as far as it looks back and waits, a window by two.
fn age_max_us(rule: &Rule, timing: Timing) -> i64 {
    let Timing { every, look_back, lateness, .. } = timing;
    let age = match rule.over() {
        Some(Over::Aligned { every, .. }) => *every * 2,
        Some(Over::Named) | None => look_back + lateness + every,
    };
    i64::try_from(age.as_micros()).unwrap_or(i64::MAX)
}

fn health(writer: &mut Writer, status: &Status) {
    let targets = status.targets();
    let mut counts = |family: &Family<'_>, count: fn(&TargetStatus) -> u64| {
        writer.family(family);
        for (name, target) in &targets {
            writer.sample(&[("target", name)], count(target));
        }
    };
    counts(&UP, |target| u64::from(target.is_up));
    counts(&SIMULATED, |target| u64::from(target.is_simulated));
    counts(&SCRAPES, |target| target.scrapes);
    counts(&MISSED, |target| target.missed_ticks);
    counts(&DROPPED, |target| target.dropped);
    writer.family(&FAILURES);
    for (name, target) in &targets {
        for (class, count) in &target.failures {
            writer.sample(&[("target", name), ("class", class)], *count);
        }
    }
    writer.family(&ROWS);
    writer.sample(&[], status.rows());
    writer.family(&BUILD);
    writer.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1_u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattscribe_rules::State;
    use wattscribe_rules::rule;

    const RULES: &str = "
wattscribe_rules: 1
rules:
  - name: socket:module_watts:mean
    about: modules
    function: mean
    of: gpu_module_power_watts
    by: [node, socket]
    boundary: module
    unit: W
  - name: fleet:module_watts:sum
    function: sum
    of: socket:module_watts:mean
    by: []
    boundary: module
    unit: W
";

    fn row(rule: &str, node: Option<&str>, labels: &str, value: Option<f64>) -> DerivedRow {
        DerivedRow {
            timestamp_us: 1_500_000,
            start_us: None,
            window: None,
            rule: rule.to_owned(),
            node: node.map(str::to_owned),
            labels: labels.to_owned(),
            value,
            unit: "W".to_owned(),
            boundary: "module".to_owned(),
            state: if value.is_some() { State::Ok } else { State::Disagree },
            reason: value.is_none().then(|| "spread".to_owned()),
            low: None,
            high: None,
            counter: None,
            spread: None,
            coverage: 1.0,
            members_expected: 1,
            members_reporting: 1,
            rule_hash: String::new(),
            simulated: false,
        }
    }

    #[test]
    fn the_page_to_the_byte() {
        let (newest, status) = (Newest::default(), Status::new(["n\"1"].into_iter()));
        let rules = rule::read(RULES).unwrap();
        let mean = "socket:module_watts:mean";
        newest.take(vec![
            row(mean, Some("n\"1"), "socket=\"0\"", Some(536.5)),
            row(mean, Some("n\"1"), "socket=\"1,\\\"\"", None),
        ]);
        let page = render(Some(&rules), &newest, &status, Format::Text);
        let lines: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let version =
            format!("wattscribe_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            lines,
            [
                r#"socket:module_watts:mean{node="n\"1",socket="0"} 536.5"#,
                r#"wattscribe_rule_withheld{rule="socket:module_watts:mean",reason="spread",state="disagree",node="n\"1",socket="1,\""} 1"#,
                r#"wattscribe_rule_timestamp_seconds{rule="socket:module_watts:mean"} 1.500000"#,
                r#"wattscribe_target_up{target="n\"1"} 0"#,
                r#"wattscribe_target_simulated{target="n\"1"} 0"#,
                r#"wattscribe_scrapes_total{target="n\"1"} 0"#,
                r#"wattscribe_ticks_missed_total{target="n\"1"} 0"#,
                r#"wattscribe_scrapes_dropped_total{target="n\"1"} 0"#,
                "wattscribe_rows_total 0",
                version.as_str(),
            ]
        );
        assert!(page.contains("# HELP socket:module_watts:mean modules\n"), "{page}");
        let without = render(None, &newest, &status, Format::Text);
        assert!(without.starts_with("# HELP wattscribe_target_up"), "{without}");
    }
}
