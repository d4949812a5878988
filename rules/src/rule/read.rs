//! From the text of a rule file to rules that mean something, or to everything that is wrong in it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalogue::{Catalogue, Covers, Metric};
use super::draft::{self, Draft};
use super::fault::{Fault, Faults, RuleError};
use super::fields::{Fields, list, malformed};
use super::input::Above;
use super::selector_text::is_metric;
use super::yaml::{self, Node};
use super::{From, Rule, RuleSet, Timing, breach::Breach, duration, hash, meaning, scalar, unit};
use crate::averaging::Averaging;

/// The keys of a file.
pub(super) const KEYS: [&str; 7] =
    ["wattscribe_rules", "every", "look_back", "lateness", "gap", "inputs", "rules"];

/// The keys of an entry of `inputs`.
pub(super) const INPUT_KEYS: [&str; 5] = ["metric", "boundary", "unit", "averaging", "member"];

/// The version of the form that is read here.
const VERSION: &str = "1";

/// Readings are kept for so long: an hour of them is for windows to hold, not for an instant.
const SETTING_MAX: Duration = Duration::from_secs(3600);

/// Many times what anyone writes by hand. Each rule looks at all above it, so the time grows with the square.
const RULES_MAX: usize = 1000;

/// Reads a rule file. One of more than [`BYTES_MAX`](super::BYTES_MAX) is refused before anything is built of it.
///
/// # Errors
/// Everything that is wrong in it, in the order of the file; only the first, where it is no YAML that rule files have.
pub fn read(text: &str) -> Result<RuleSet, Vec<RuleError>> {
    let root = yaml::parse(text).map_err(|error| vec![error])?;
    let mut faults = Faults::default();
    let set = file(&root, &mut faults);
    faults.or(set)
}

fn file(root: &Node, faults: &mut Faults) -> Option<RuleSet> {
    let fields = Fields::of(root, "a rule file", &KEYS, faults)?;
    fields.must("wattscribe_rules", "the version of the form, 1", faults, |text| match text {
        VERSION => Ok(()),
        _ => Err(malformed("wattscribe_rules", text, "1")),
    });
    let timing = timing(&fields, faults);
    let mut file = File { catalogue: Catalogue::known(), entries: BTreeMap::new(), timing };
    if let Some(node) = fields.get("inputs")
        && let Some(entries) = faults.keep(node.place, list("inputs", node))
    {
        entries.iter().for_each(|entry| file.input(entry, faults));
    }
    let node = fields.need("rules", "a list of rules", faults)?;
    let nodes = faults.keep(node.place, list("rules", node))?;
    if nodes.len() > RULES_MAX {
        let found = format!("{} rules", nodes.len());
        faults.push(node.place, Fault::TooMuch { found, expected: "1000" });
        return None;
    }
    let rules = file.rules(nodes, faults);
    Some(RuleSet { timing, rules })
}

fn timing(fields: &Fields<'_>, faults: &mut Faults) -> Timing {
    let default = Timing::default();
    let mut setting = |key: &'static str, default: Duration| {
        let read = |text: &str| scalar::span(key, text, SETTING_MAX);
        fields.read(key, faults, read).unwrap_or(default)
    };
    let every = setting("every", default.every);
    let look_back = setting("look_back", default.look_back);
    let gap = setting("gap", default.gap);
    let lateness = fields.read("lateness", faults, |text| match duration::parse(text) {
        Some(none) if none.is_zero() => Ok(none),
        _ => scalar::span("lateness", text, SETTING_MAX),
    });
    Timing { every, look_back, gap, lateness: lateness.unwrap_or(default.lateness) }
}

/// What is known of a file while its rules are read.
struct File<'a> {
    catalogue: Catalogue,
    /// The entries of `inputs` by their metrics.
    entries: BTreeMap<String, &'a Node>,
    timing: Timing,
}

impl<'a> File<'a> {
    /// Takes in an entry of `inputs`.
    fn input(&mut self, node: &'a Node, faults: &mut Faults) {
        let Some(fields) = Fields::of(node, "an input", &INPUT_KEYS, faults) else { return };
        let metric = fields.must("metric", "the name of a metric", faults, |text| match text {
            _ if is_metric(text) => Ok(text.to_owned()),
            _ => Err(malformed("metric", text, "the name of a metric")),
        });
        let boundary = fields.must("boundary", "what it covers", faults, scalar::boundary);
        let unit = fields.must("unit", unit::EXPECTED, faults, scalar::unit_text);
        let averaging = fields.must("averaging", AVERAGING, faults, averaging);
        let member = fields.get("member").map(|node| draft::labels("member", node, faults));
        let Some(name) = metric else { return };
        if let (Some(boundary), Some(unit), Some(averaging)) = (boundary, unit, averaging) {
            let metric = Metric {
                from: From::Page,
                covers: Covers::One(boundary),
                unit,
                averaging,
                labels: None,
                member: member.flatten().unwrap_or_default(),
                zero_is_missing: false,
                repeats_by: None,
            };
            let is_unusable = Catalogue::unusable(&name).is_some();
            if is_unusable || !self.catalogue.add(&name, metric) {
                let fault = match self.entries.contains_key(&name) {
                    true => Fault::Twice { what: "metric", name: name.clone() },
                    false => Fault::Meaning(Breach::KnownMetric { name: name.clone() }),
                };
                faults.push(fields.get("metric").map_or(node.place, |metric| metric.place), fault);
            }
        }
        self.entries.insert(name, node);
    }

    /// The rules that mean something; the rest is noted.
    fn rules(&self, nodes: &[Node], faults: &mut Faults) -> Vec<Rule> {
        // A rule without a name has an empty one, which nothing can take.
        let names: Vec<String> =
            nodes.iter().map(|node| draft::name_of(node).unwrap_or_default().to_owned()).collect();
        let mut rules: Vec<Rule> = Vec::new();
        for (count, node) in nodes.iter().enumerate() {
            let Some(draft) = draft::read(node, faults) else { continue };
            if names[..count].contains(&draft.name) || self.entries.contains_key(&draft.name) {
                let fault = Fault::Twice { what: "rule", name: draft.name };
                faults.push(draft.place, fault);
                continue;
            }
            rules.extend(self.rule(&draft, node, &names, count, &rules, faults));
        }
        rules
    }

    fn rule(
        &self,
        draft: &Draft,
        node: &Node,
        names: &[String],
        count: usize,
        rules: &[Rule],
        faults: &mut Faults,
    ) -> Option<Rule> {
        let above = Above { catalogue: &self.catalogue, rules, names, count };
        let mut rule = meaning::rule(draft, &above, self.timing, faults)?;
        let entry = |metric: &str| self.entries.get(metric).copied();
        rule.hash = hash::of(&rule, node, self.timing, rules, entry);
        Some(rule)
    }
}

/// What stands for an averaging.
const AVERAGING: &str = "instant, mean 1s, difference or unknown";

/// `instant`, `difference`, `unknown`, or `mean` and its window.
fn averaging(text: &str) -> Result<Averaging, Fault> {
    let window = text.strip_prefix("mean ").and_then(duration::parse);
    match text {
        "instant" => Ok(Averaging::Instant),
        "difference" => Ok(Averaging::Difference),
        "unknown" => Ok(Averaging::Unknown),
        _ => match window.filter(|window| !window.is_zero()) {
            Some(window) => Ok(Averaging::Mean { window_s: window.as_secs_f64() }),
            None => Err(malformed("averaging", text, AVERAGING)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{BUILTIN, builtin};

    #[test]
    fn a_file_has_so_many_rules() {
        let rule = |n| {
            format!(
                "  - {{name: 'node:cpu_power_{n}:sum', function: sum, of: 'cpu_power_acpi_watts{{type=\"total\"}}', \
                 by: [node], boundary: socket_total, unit: W}}\n"
            )
        };
        let file = |rules| -> String {
            format!("wattscribe_rules: 1\nrules:\n{}", (0..rules).map(rule).collect::<String>())
        };
        assert_eq!(read(&file(RULES_MAX)).unwrap().rules.len(), RULES_MAX);
        let errors = read(&file(RULES_MAX + 1)).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, ["line 3, column 3: 1001 rules, expected at most 1000"]);
    }

    #[test]
    fn what_is_built_in_can_be_read() {
        let text = |errors: Vec<RuleError>| errors.iter().map(|e| format!("{e}\n")).collect();
        let read: Result<RuleSet, String> = read(BUILTIN).map_err(text);
        assert_eq!(read.as_ref().map(|set| set.rules.len()), Ok(28));
        assert_eq!(builtin().timing, Timing::default());
    }
}
