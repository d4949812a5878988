//! One rule as the file says it, before anyone asks what it means.

use std::time::Duration;

use super::fault::{Fault, Faults, Place};
use super::fields::{Fields, list, malformed, text};
use super::kind::Kind;
use super::scalar;
use super::selector::Selector;
use super::selector_text::{self, is_label};
use super::unit;
use super::yaml::{Node, Value};
use super::{Over, Require, Withhold, duration};
use crate::boundary::Boundary;

/// The keys of a rule.
pub(super) const KEYS: [&str; 15] = [
    "name", "about", "function", "of", "less", "to", "against", "quantile", "over", "by", "member",
    "require", "withhold", "boundary", "unit",
];

/// The keys of `over`.
pub(super) const OVER_KEYS: [&str; 2] = ["every", "length"];

/// The keys of `withhold`.
pub(super) const WITHHOLD_KEYS: [&str; 4] = ["spread_above", "below", "above", "coverage_below"];

/// The word for windows that a file names.
pub(super) const NAMED: &str = "named";

/// As long as a duration of Prometheus without a wrap: nobody asks for more, and it fits any type.
const WINDOW_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// So many windows of one rule are open at a time at most: each holds state for each member.
const OPEN_MAX: u128 = 3600;

/// A rule as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) place: Place,
    pub(super) name: String,
    pub(super) about: String,
    pub(super) kind: Kind,
    /// One at least, and one unless the function takes several.
    pub(super) of: Vec<Taken>,
    pub(super) form: Form,
    pub(super) by: Vec<String>,
    pub(super) by_place: Place,
    pub(super) member: Option<Vec<String>>,
    pub(super) member_place: Place,
    pub(super) require: Option<Require>,
    pub(super) require_place: Place,
    pub(super) withhold: Withhold,
    pub(super) withhold_place: Place,
    pub(super) boundary: Boundary,
    pub(super) boundary_place: Place,
    pub(super) unit: String,
    pub(super) unit_place: Place,
}

/// What a rule has by its function.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Mean,
    Sum,
    Max(Option<Over>),
    Min(Option<Over>),
    /// The parts, one at least.
    Residual(Vec<Taken>),
    /// What is divided by.
    Ratio(Taken),
    Quantile(f64, Over),
    Integrate(Over),
    Increase(Over),
    /// The counter.
    Check(Taken, Over),
}

impl Form {
    /// The inputs beside `of`.
    pub(super) fn others(&self) -> &[Taken] {
        match self {
            Form::Residual(parts) => parts,
            Form::Ratio(other) | Form::Check(other, _) => std::slice::from_ref(other),
            _ => &[],
        }
    }

    /// The windows that it states.
    pub(super) const fn over(&self) -> Option<Over> {
        match self {
            Form::Max(over) | Form::Min(over) => *over,
            Form::Quantile(_, over)
            | Form::Integrate(over)
            | Form::Increase(over)
            | Form::Check(_, over) => Some(*over),
            Form::Mean | Form::Sum | Form::Residual(_) | Form::Ratio(_) => None,
        }
    }
}

/// A selector and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) place: Place,
    pub(super) selector: Selector,
}

/// The name of a rule in a map, also when the rest of it cannot be read.
pub(super) fn name_of(node: &Node) -> Option<&str> {
    let Value::Map(pairs) = &node.value else { return None };
    let (_, value) = pairs.iter().find(|(key, _)| key.name == "name")?;
    text("name", value).ok()
}

/// Reads a rule; `None` when something in it cannot be read, which is noted.
pub(super) fn read(node: &Node, faults: &mut Faults) -> Option<Draft> {
    let before = faults.len();
    let fields = Fields::of(node, "a rule", &KEYS, faults)?;
    let name = fields.must("name", "level:metric:operations", faults, scalar::rule_name);
    let about = fields.read("about", faults, |text| Ok(text.to_owned()));
    let kind = fields.must("function", "what is made of the members", faults, scalar::kind);
    let of = fields.need("of", "a selector", faults).map(|node| taken("of", node, faults));
    let by = fields.need("by", "the labels that a result keeps", faults);
    let by = by.and_then(|node| labels("by", node, faults));
    let member = fields.get("member").and_then(|node| labels("member", node, faults));
    let require = fields.read("require", faults, scalar::require);
    let withhold = fields.get("withhold").and_then(|node| withhold(node, faults));
    let boundary = fields.must("boundary", "what the result covers", faults, scalar::boundary);
    let unit = fields.must("unit", unit::EXPECTED, faults, scalar::unit_text);
    // What follows needs to know the function.
    let kind = kind?;
    let form = form(&fields, kind, faults);
    let of = of?;
    if of.len() != 1 && !kind.takes_several() {
        let expected = "one selector, as lists are for sum, max and min";
        let fault = Fault::Kind { of: "\"of\"".to_owned(), found: "a list", expected };
        faults.push(fields.key_place("of"), fault);
    }
    if faults.len() > before {
        return None;
    }
    Some(Draft {
        place: fields.get("name").map_or(node.place, |name| name.place),
        name: name?,
        about: about.unwrap_or_default(),
        kind,
        of,
        form: form?,
        by: by?,
        by_place: fields.key_place("by"),
        member,
        member_place: fields.key_place("member"),
        require,
        require_place: fields.key_place("require"),
        withhold: withhold.unwrap_or_default(),
        withhold_place: fields.key_place("withhold"),
        boundary: boundary?,
        boundary_place: fields.key_place("boundary"),
        unit: unit?,
        unit_place: fields.key_place("unit"),
    })
}

/// What only some functions have: the other inputs, the quantile, the windows.
fn form(fields: &Fields<'_>, kind: Kind, faults: &mut Faults) -> Option<Form> {
    for (key, expected) in [
        ("less", "it in residual only"),
        ("to", "it in ratio only"),
        ("against", "it in check only"),
        ("quantile", "it in quantile only"),
        ("over", "it in quantile, integrate, increase, check, max and min only"),
    ] {
        if fields.get(key).is_some() && !kind.has(key) {
            let fault = Fault::Elsewhere { key: key.to_owned(), function: kind.as_str(), expected };
            faults.push(fields.key_place(key), fault);
        }
    }
    if kind.needs_windows() {
        fields.need("over", "windows such as {every: 1m}", faults);
    }
    let windows = fields.get("over").filter(|_| kind.has("over"));
    let windows = windows.and_then(|node| over(node, faults));
    let mut other = |key, expected| {
        let node = fields.need(key, expected, faults)?;
        one(key, node, faults)
    };
    Some(match kind {
        Kind::Mean => Form::Mean,
        Kind::Sum => Form::Sum,
        Kind::Max => Form::Max(windows),
        Kind::Min => Form::Min(windows),
        Kind::Residual => {
            let node = fields.need("less", "the parts that are taken from the whole", faults)?;
            Form::Residual(taken("less", node, faults))
        }
        Kind::Ratio => Form::Ratio(other("to", "what is divided by")?),
        Kind::Quantile => {
            let expected = "a number from 0 to 1";
            let level = fields.must("quantile", expected, faults, scalar::quantile)?;
            Form::Quantile(level, windows?)
        }
        Kind::Integrate => Form::Integrate(windows?),
        Kind::Increase => Form::Increase(windows?),
        Kind::Check => Form::Check(other("against", "the energy counter")?, windows?),
    })
}

/// A selector, or a list of them.
fn taken(key: &'static str, node: &Node, faults: &mut Faults) -> Vec<Taken> {
    let nodes = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if nodes.is_empty() {
        let fault = Fault::Kind {
            of: format!("{key:?}"),
            found: "an empty list",
            expected: "a selector at least",
        };
        faults.push(node.place, fault);
    }
    nodes.iter().filter_map(|node| one(key, node, faults)).collect()
}

fn one(key: &'static str, node: &Node, faults: &mut Faults) -> Option<Taken> {
    let found = match &node.value {
        Value::Text { text, inner } if !text.is_empty() => {
            selector_text::parse(text).map_err(|error| {
                let place = inner.map_or(node.place, |inner| inner.plus(error.at));
                (place, Fault::Selector(error.what))
            })
        }
        Value::Map(_) => {
            let expected = "a selector; one that begins with a brace stands in quotes";
            Err((node.place, Fault::Kind { of: format!("{key:?}"), found: "a map", expected }))
        }
        _ => Err((
            node.place,
            Fault::Kind { of: format!("{key:?}"), found: node.kind(), expected: "a selector" },
        )),
    };
    match found {
        Ok(selector) => Some(Taken { place: node.place, selector }),
        Err((place, fault)) => {
            faults.push(place, fault);
            None
        }
    }
}

/// A list of labels, sorted.
pub(super) fn labels(key: &'static str, node: &Node, faults: &mut Faults) -> Option<Vec<String>> {
    let before = faults.len();
    let items = faults.keep(node.place, list(key, node))?;
    let mut names: Vec<String> = Vec::new();
    for item in items {
        let name = text(key, item).and_then(|text| match text {
            _ if !is_label(text) => Err(malformed(key, text, "names of labels")),
            _ if names.iter().any(|name| name == text) => {
                Err(Fault::Twice { what: "label", name: text.to_owned() })
            }
            _ => Ok(text.to_owned()),
        });
        names.extend(faults.keep(item.place, name));
    }
    names.sort();
    (faults.len() == before).then_some(names)
}

fn over(node: &Node, faults: &mut Faults) -> Option<Over> {
    if let Value::Text { text, .. } = &node.value {
        if text == NAMED {
            return Some(Over::Named);
        }
        faults.push(node.place, malformed("over", text, "windows such as {every: 1m}, or named"));
        return None;
    }
    let fields = Fields::of(node, "over", &OVER_KEYS, faults)?;
    let read = |key| move |text: &str| scalar::span(key, text, WINDOW_MAX);
    let every = fields.must("every", "a duration such as 1m", faults, read("every"))?;
    let length = match fields.get("length") {
        Some(_) => fields.read("length", faults, read("length"))?,
        None => every,
    };
    let fault = |expected: String| malformed("length", &duration::text(length), expected);
    if length < every {
        let expected = format!("{} at least, as windows begin so often", duration::text(every));
        faults.push(fields.key_place("length"), fault(expected));
        return None;
    }
    if length.as_micros().div_ceil(every.as_micros()) > OPEN_MAX {
        let expected = format!("at most {OPEN_MAX} windows at a time");
        faults.push(fields.key_place("length"), fault(expected));
        return None;
    }
    Some(Over::Aligned { every, length })
}

fn withhold(node: &Node, faults: &mut Faults) -> Option<Withhold> {
    let fields = Fields::of(node, "withhold", &WITHHOLD_KEYS, faults)?;
    let bound = |key: &'static str| {
        move |text: &str| scalar::number(text).ok_or_else(|| malformed(key, text, "a number"))
    };
    let share = |key: &'static str, expected: &'static str, most: f64| {
        move |text: &str| {
            let share = scalar::percentage(text).filter(|share| *share <= most);
            share.ok_or_else(|| malformed(key, text, expected))
        }
    };
    let spread = share("spread_above", "a share such as 5%", f64::INFINITY);
    let coverage = share("coverage_below", "a share up to 100%", 1.0);
    let guards = Withhold {
        spread_above: fields.read("spread_above", faults, spread),
        below: fields.read("below", faults, bound("below")),
        above: fields.read("above", faults, bound("above")),
        coverage_below: fields.read("coverage_below", faults, coverage),
    };
    if let (Some(below), Some(above)) = (guards.below, guards.above)
        && below > above
    {
        let fault = malformed("above", &above.to_string(), format!("at least {below}, as below"));
        faults.push(fields.key_place("above"), fault);
    }
    Some(guards)
}
