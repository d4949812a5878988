//! A real Prometheus, loaded with exported rules, against the engine over the samples that it stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use wattscribe_rules::engine::Derived;
use wattscribe_rules::promql::in_prometheus;
use wattscribe_rules::rule::{self, RuleSet};
use wattscribe_tests::prometheus::Prometheus;
use wattscribe_tests::wait::eventually;

use super::pages::{NODES, OVER_S, serve};
use super::stored::{Group, Scraped, Stored, group_of};
use super::{export, live_rules, windows};

/// No whole part of the interval between evaluations, so that evaluations fall between scrapes in every way.
const SCRAPE_INTERVAL: &str = "700ms";
const SCRAPE_INTERVAL_MS: u64 = 700;

/// Evaluations of each rule that must have been compared.
const COMPARED_MIN: usize = 30;

/// What a scrape may take to be stored once it has been read.
const STORED_MS: i64 = 150;

/// Sums are compensated here and plain there.
const ROUNDING: f64 = 1e-12;

#[test]
fn prometheus_agrees_at_every_evaluation() {
    let text = live_rules();
    let rules = rule::read(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let folder = export(Some(&text), SCRAPE_INTERVAL);
    let servers = NODES.map(|node| (node, serve(node)));
    let begun = Instant::now();
    let targets = servers.each_ref().map(|(node, server)| (*node, server.address));
    let exported = [folder.path().join("rules.yml")];
    let Some(prometheus) = Prometheus::with_rules(&targets, SCRAPE_INTERVAL, &exported) else {
        return;
    };
    eventually("all that happens to the nodes", || {
        (begun.elapsed().as_secs_f64() > OVER_S).then_some(())
    });
    let stored = Stored::new(&prometheus.query(r#"{__name__=~".+"}[5m]"#));
    let log = prometheus.log();
    let bad = ["rule failed", "level=error", "Append failed", "duplicate"];
    let bad: Vec<&str> =
        log.lines().filter(|line| bad.iter().any(|word| line.contains(word))).collect();
    assert!(bad.is_empty(), "{bad:#?}");

    let rules = in_prometheus(&rules, std::time::Duration::from_millis(SCRAPE_INTERVAL_MS));
    compare_instants(&rules, &stored);
    windows::compare(&rules, &stored, SCRAPE_INTERVAL_MS as f64 / 1e3);
    compare_alerts(&stored);
}

/// When the first group was evaluated: members are carried on at each evaluation.
fn evaluations(stored: &Stored) -> BTreeSet<i64> {
    let carried = stored.0.iter().filter(|series| series.name.ends_with(":expected"));
    carried.flat_map(|series| series.values.keys().copied()).collect()
}

fn compare_instants(rules: &RuleSet, stored: &Stored) {
    let evaluations = evaluations(stored);
    let phases: BTreeSet<i64> = evaluations.iter().map(|at_ms| at_ms % 1_000).collect();
    assert_eq!(phases.len(), 1, "evaluations are a second apart: {evaluations:?}");
    // Instants are whole seconds: the clock is turned so that evaluations are instants.
    let back_ms = *phases.first().unwrap();
    let seen = Seen::new(rules, stored, back_ms);
    let (mut faults, mut values, mut absences) = (Vec::new(), 0, 0);
    for (place, rule) in rules.rules.iter().enumerate().filter(|(_, rule)| rule.over().is_none()) {
        let groups = seen.groups(place);
        assert!(!groups.is_empty() || rule.name.contains("dcgm"), "{}: no results", rule.name);
        let there: BTreeMap<Group, _> =
            stored.named(&rule.name).map(|series| (series.group(), &series.values)).collect();
        for unknown in there.keys().filter(|group| !groups.contains(*group)) {
            faults.push(format!("{} {unknown:?}: no such group", rule.name));
        }
        for group in &groups {
            let mut compared = 0;
            for at_ms in evaluations.iter().filter(|at_ms| **at_ms <= seen.over_ms) {
                let found = there.get(group).and_then(|values| values.get(at_ms)).copied();
                let allowed = seen.allowed(place, group, *at_ms);
                if allowed.iter().any(|expected| is_same(*expected, found)) {
                    compared += 1;
                    values += usize::from(found.is_some());
                    absences += usize::from(found.is_none());
                } else if let [expected] = allowed[..] {
                    faults.push(format!(
                        "{} {group:?} at {at_ms}: {found:?}, expected {expected:?}",
                        rule.name
                    ));
                }
                // Else a scrape was stored in the midst of the evaluation.
            }
            if compared < COMPARED_MIN {
                faults.push(format!("{} {group:?}: {compared} evaluations", rule.name));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {:#?}", faults.len(), &faults[..faults.len().min(40)]);
    assert!(values > 1_000 && absences > 300, "{values} values, {absences} absences");
}

fn is_same(expected: Option<f64>, found: Option<f64>) -> bool {
    match (expected, found) {
        (Some(expected), Some(found)) => (expected - found).abs() <= ROUNDING * expected.abs(),
        (expected, found) => expected == found,
    }
}

/// What the engine has at an evaluation, by which scrapes that were under way then had been stored.
struct Seen {
    scrapes: [(&'static str, Vec<Scraped>); NODES.len()],
    /// By the nodes whose scrapes are stored late, one bit each.
    results: Vec<HashMap<(usize, i64, Group), Option<f64>>>,
    back_ms: i64,
    /// After a node's last scrape its recording is over.
    over_ms: i64,
}

impl Seen {
    fn new(rules: &RuleSet, stored: &Stored, back_ms: i64) -> Seen {
        let scrapes = NODES.map(|node| (node, stored.scrapes(node)));
        let last_ms = scrapes.iter().filter_map(|(_, all)| Some(all.last()?.at_ms)).min();
        let results = (0..1_u32 << NODES.len()).map(|late| {
            let mut bit = 0;
            let nodes = NODES.map(|node| {
                let is_late = late >> bit & 1 == 1;
                bit += 1;
                (node, if is_late { STORED_MS } else { 0 })
            });
            let results = stored.evaluate(rules, &nodes, back_ms);
            let key = |result: &Derived| (result.rule, result.at_us, group_of(result));
            results.iter().map(|result| (key(result), result.value)).collect()
        });
        Seen { results: results.collect(), scrapes, back_ms, over_ms: last_ms.unwrap() }
    }

    fn groups(&self, rule: usize) -> BTreeSet<Group> {
        let keys = self.results[0].keys().filter(|(of, ..)| *of == rule);
        keys.map(|(_, _, group)| group.clone()).collect()
    }

    /// The values that Prometheus may have: one where no scrape was under way, of the node or of any for the fleet.
    fn allowed(&self, rule: usize, group: &Group, at_ms: i64) -> Vec<Option<f64>> {
        let is_under_way = |scraped: &Scraped| {
            scraped.at_ms <= at_ms && at_ms <= scraped.at_ms + scraped.took_ms + STORED_MS
        };
        let mut open = 0;
        for (bit, (node, scrapes)) in self.scrapes.iter().enumerate() {
            let concerns = group.0.as_deref().is_none_or(|of| of == *node);
            open |= usize::from(concerns && scrapes.iter().any(is_under_way)) << bit;
        }
        let key = (rule, (at_ms - self.back_ms) * 1_000, group.clone());
        let late = (0..self.results.len()).filter(|late| late & open == *late);
        late.map(|late| self.results[late].get(&key).copied().flatten()).collect()
    }
}

fn compare_alerts(stored: &Stored) {
    let alerts = |name: &str| -> BTreeSet<(String, String, String)> {
        let label = |series: &super::stored::Series, name: &str| {
            series.labels.get(name).cloned().unwrap_or_default()
        };
        let of = stored.named("ALERTS").filter(|series| label(series, "alertname") == name);
        of.map(|series| (label(series, "rule"), label(series, "instance"), label(series, "socket")))
            .collect()
    };
    let owned = |rule: &str, node: &str, socket: &str| {
        (rule.to_owned(), node.to_owned(), socket.to_owned())
    };
    let disagree = alerts("PowerMembersDisagree");
    assert!(
        disagree.contains(&owned("socket:module_power_watts:mean", "grace", "1")),
        "{disagree:?}"
    );
    assert!(
        !disagree.contains(&owned("socket:module_power_watts:mean", "grace", "0")),
        "{disagree:?}"
    );
    let withheld = alerts("PowerSumWithheld");
    for (rule, node) in [
        ("node:cpu_power_acpi_watts:sum", "grace"),
        ("node:cpu_power_rapl_watts:sum", "rapl"),
        ("fleet:module_power_watts:sum", ""),
    ] {
        assert!(withheld.contains(&owned(rule, node, "")), "{withheld:?}");
    }
    // A scrape that a busy machine delays makes a true counter differ for a while, and a false one differs all the time.
    let evaluations = |socket: &str| -> usize {
        let of = stored.named("ALERTS").filter(|series| {
            let is = |name: &str, value: &str| {
                series.labels.get(name).is_some_and(|found| found == value)
            };
            is("alertname", "PowerCounterDisagrees")
                && is("rule", "socket:cpu_energy_joules:check1m")
                && is("instance", "rapl")
                && is("socket", socket)
        });
        of.map(|series| series.values.len()).sum()
    };
    let (true_one, false_one) = (evaluations("0"), evaluations("1"));
    assert!(false_one > 0 && true_one * 2 < false_one, "{true_one} and {false_one} evaluations");
}
