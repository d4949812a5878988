//! What a selector takes: a known metric, one of `inputs`, or the results of a rule above.

use super::breach::{Breach, Covering};
use super::catalogue::{Catalogue, Covers, Metric};
use super::draft::Taken;
use super::fault::{Fault, Meant, Place};
use super::selector::{Condition, Selector};
use super::{From, Input, Over, Rule};
use crate::averaging::Averaging;
use crate::boundary::Boundary;

/// An input with what only its meaning needs.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) place: Place,
    pub(super) input: Input,
    /// The labels that it has; `None` where nobody lists them.
    pub(super) labels: Option<Vec<String>>,
    /// Whether it is an energy counter.
    pub(super) is_counter: bool,
    /// Whether several of its series report one thing.
    pub(super) repeats: bool,
    /// The windows whose results it is.
    pub(super) over: Option<Over>,
    /// Whether it is the results of a rule of nodes.
    pub(super) is_of_nodes: bool,
}

/// What stands above a rule.
pub(super) struct Above<'a> {
    pub(super) catalogue: &'a Catalogue,
    /// The rules above that mean something.
    pub(super) rules: &'a [Rule],
    /// The names of all rules of the file.
    pub(super) names: &'a [String],
    /// How many of them stand above.
    pub(super) count: usize,
}

impl Known {
    pub(super) fn name(&self) -> String {
        self.input.selector.metric.clone()
    }

    pub(super) fn covering(&self) -> Covering {
        Covering { name: self.input.selector.to_string(), boundary: self.input.boundary }
    }
}

impl Above<'_> {
    /// What a selector takes, and by which labels its members are told apart unless the rule says so.
    ///
    /// `Ok(None)` for results of a rule that is itself refused: one fault is enough.
    pub(super) fn find(&self, taken: &Taken) -> Result<Option<Known>, Fault> {
        let name = &taken.selector.metric;
        if let Some(at) = self.rules.iter().position(|rule| rule.name == *name) {
            return Ok(Some(self.of_rule(taken, at)));
        }
        if let Some(metric) = self.catalogue.get(name) {
            return of_metric(taken, metric).map(Some).map_err(Fault::Meaning);
        }
        match self.names.iter().position(|known| known == name) {
            Some(at) if at < self.count => Ok(None),
            Some(_) => Err(Fault::Meaning(Breach::Below { name: name.clone() })),
            None => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Fault {
        let found = name.to_owned();
        if let Some(why) = Catalogue::unusable(name) {
            return Fault::Meaning(Breach::Unusable { name: found, why });
        }
        let (what, meant) = if name.contains(':') {
            let above = self.names[..self.count].iter().map(String::as_str);
            ("rule", Meant::of_alike(name, above).or("one that stands above"))
        } else {
            let meant = Meant::of_alike(name, self.catalogue.names());
            ("metric", meant.or("\"inputs\" to say what it measures"))
        };
        Fault::Word { what, found, meant }
    }

    fn of_rule(&self, taken: &Taken, at: usize) -> Known {
        let rule = &self.rules[at];
        let mut member = rule.by.clone();
        member.push(Rule::NODE.to_owned());
        member.sort();
        member.dedup();
        let input = Input {
            from: From::Rule(at),
            selector: taken.selector.clone(),
            member,
            zero_is_missing: false,
            boundary: rule.boundary,
            unit: rule.unit.clone(),
            averaging: Averaging::Unknown,
        };
        Known {
            place: taken.place,
            input,
            labels: Some(rule.by.clone()),
            is_counter: false,
            repeats: self.repeats(rule).is_some(),
            over: rule.over().copied(),
            is_of_nodes: rule.is_of_node(),
        }
    }

    /// The labels that tell apart what several results of a rule report, where they do: it keeps labels that tell reports
    /// apart. A mean by node and socket keeps none, and is one report of each module.
    fn repeats(&self, rule: &Rule) -> Option<&'static [&'static str]> {
        let things = rule.inputs().into_iter().find_map(|input| match input.from {
            From::Rule(at) => self.rules.get(at).and_then(|rule| self.repeats(rule)),
            From::Sockets | From::Page => self.catalogue.get(&input.selector.metric)?.repeats_by,
        })?;
        let is_of_thing = |label: &String| label == Rule::NODE || things.contains(&label.as_str());
        (!rule.by.iter().all(is_of_thing)).then_some(things)
    }
}

fn of_metric(taken: &Taken, metric: &Metric) -> Result<Known, Breach> {
    let boundary = boundary(&taken.selector, metric)?;
    let mut member = metric.member.clone();
    member.push(Rule::NODE.to_owned());
    member.sort();
    let input = Input {
        from: metric.from,
        selector: taken.selector.clone(),
        member,
        zero_is_missing: metric.zero_is_missing,
        boundary,
        unit: metric.unit.clone(),
        averaging: metric.averaging,
    };
    Ok(Known {
        place: taken.place,
        input,
        labels: metric.labels.clone(),
        is_counter: metric.is_counter(),
        repeats: metric.repeats_by.is_some(),
        over: None,
        is_of_nodes: false,
    })
}

/// The one boundary of all series that a selector leaves.
fn boundary(selector: &Selector, metric: &Metric) -> Result<Boundary, Breach> {
    let (label, values) = match metric.covers {
        Covers::One(boundary) => return Ok(boundary),
        Covers::ByLabel(label, values) => (label, values),
    };
    let name = selector.metric.clone();
    let of_label = || selector.matchers.iter().filter(|matcher| matcher.label == label);
    let left: Vec<_> = values
        .iter()
        .copied()
        .filter(|(value, _)| of_label().all(|matcher| matcher.condition.holds(value)))
        .collect();
    let [(_, first), ..] = left[..] else {
        let values = values.iter().map(|(value, _)| *value).collect();
        return Err(Breach::NoSeries { name, label, values });
    };
    // A page may have values that nobody knows yet, and only an exact matcher keeps them out.
    let is_exact = of_label().any(|matcher| matches!(matcher.condition, Condition::Is(_)));
    let is_closed = metric.from == From::Sockets || is_exact;
    if !is_closed || left.iter().any(|(_, other)| *other != first) {
        return Err(Breach::SeveralBoundaries { name, label, left });
    }
    Ok(first)
}
