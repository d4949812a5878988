//! Members: which readings are theirs, and which of them an instant sees.

use std::collections::BTreeMap;

use wattscribe_rules::State;
use wattscribe_rules::rule::{From, Input, Rule};

use super::number::seconds;
use super::result::Row;
use crate::history::{Labels, Reading, Told, text};

/// One member of one input, with all its readings.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub input: usize,
    pub group: Labels,
    pub found: Vec<Found>,
}

/// One reading, and the place of the scrape that it belongs to; for a result the instant.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub turn: i64,
    pub reading: Reading,
}

impl Selected {
    pub(crate) fn group_text(&self) -> String {
        text(&self.group)
    }
}

/// The labels of these names that are there, but for the target's.
pub(crate) fn keep(labels: &Labels, names: &[String]) -> Labels {
    let kept = labels
        .iter()
        .filter(|(name, value)| names.contains(name) && !value.is_empty() && *name != Rule::NODE);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether an input takes a series of a node.
pub(crate) fn takes(input: &Input, node: &str, reading: &Reading) -> bool {
    let label = |name: &str| match name {
        Rule::NODE => Some(node),
        name => reading.labels.get(name).map(String::as_str),
    };
    reading.from == input.from && input.selector.takes(&reading.metric, label)
}

/// The members of one input among what was scraped, in the order of their labels.
pub(crate) fn of_page(
    place: usize,
    input: &Input,
    by: &[String],
    node: &str,
    scrapes: &[Told],
) -> Vec<Selected> {
    let mut members: BTreeMap<(String, String), Selected> = BTreeMap::new();
    for (turn, told) in (0..).zip(scrapes) {
        for reading in told.page.iter().flatten() {
            if !takes(input, node, reading) {
                continue;
            }
            let group = keep(&reading.labels, by);
            let key = (text(&keep(&reading.labels, &input.member)), text(&group));
            let reading = believed(input, told, reading);
            let new = Selected { input: place, group, found: Vec::new() };
            let found = &mut members.entry(key).or_insert(new).found;
            let twin =
                found.iter_mut().find(|of| of.turn == turn && of.reading.labels == reading.labels);
            match twin {
                Some(twin) => twin.reading.value = Err(State::Disagree),
                None => found.push(Found { turn, reading }),
            }
        }
    }
    members.into_values().collect()
}

/// A reading as an input takes it: what cannot be is none.
fn believed(input: &Input, told: &Told, reading: &Reading) -> Reading {
    let mut reading = reading.clone();
    let powerless = |value: f64| input.zero_is_missing && value <= 0.0;
    if reading.value.is_ok_and(|value| !value.is_finite() || powerless(value)) {
        reading.value = Err(State::Unavailable);
    }
    if reading.at_s > told.start_s + 60.0 {
        (reading.at_s, reading.value) = (told.start_s, Err(State::Implausible));
    }
    reading
}

/// The members of one input among results, in the order of nodes and labels.
pub(crate) fn of_results<'a>(
    place: usize,
    input: &Input,
    by: &[String],
    rows: impl Iterator<Item = &'a Row>,
) -> Vec<Selected> {
    let mut members: BTreeMap<(Option<String>, String), Selected> = BTreeMap::new();
    for row in rows {
        let label = |name: &str| match name {
            Rule::NODE => row.node.as_deref(),
            name => row.labels.get(name).map(String::as_str),
        };
        if !input.selector.takes(&input.selector.metric, label) {
            continue;
        }
        let reading = Reading {
            from: input.from,
            metric: String::new(),
            labels: row.labels.clone(),
            at_s: seconds(row.settled_us),
            value: row.outcome.value.map_err(|(_, state)| state),
            since_s: None,
        };
        let key = (row.node.clone(), text(&row.labels));
        let new = Selected { input: place, group: keep(&row.labels, by), found: Vec::new() };
        let found = Found { turn: row.settled_us, reading };
        members.entry(key).or_insert(new).found.push(found);
    }
    members.into_values().collect()
}

/// What an instant sees of a member: `None` when it is not expected yet, else its number or the state that it is in.
pub(crate) fn seen(
    member: &Selected,
    scrapes: &[Told],
    at_us: i64,
    look_back_us: i64,
) -> Option<Result<f64, State>> {
    let at_or_before = member.found.iter().filter(|found| found.reading.at_s <= seconds(at_us));
    let latest = at_or_before.clone().map(|found| found.turn).max()?;
    let mut of_latest: Vec<&Found> = at_or_before.filter(|found| found.turn == latest).collect();
    if matches!(of_latest[0].reading.from, From::Rule(_)) {
        let here = of_latest[0].reading.at_s == seconds(at_us);
        return Some(if here { of_latest[0].reading.value } else { Err(State::Unavailable) });
    }
    of_latest.sort_by_key(|found| text(&found.reading.labels));
    let alone = |found: &Found| of_series(found, scrapes, at_us, look_back_us);
    let first = alone(of_latest[0]);
    let any = of_latest.iter().any(|found| alone(found).is_ok());
    Some(if of_latest.len() > 1 && any { Err(State::Disagree) } else { first })
}

/// What an instant sees of a series whose latest reading this is.
fn of_series(found: &Found, scrapes: &[Told], at_us: i64, look_back_us: i64) -> Result<f64, State> {
    let reading = &found.reading;
    if reading.at_s <= seconds(at_us - look_back_us) {
        return Err(State::Stale);
    }
    let same = |other: &Reading| {
        (other.from, &other.metric, &other.labels)
            == (reading.from, &reading.metric, &reading.labels)
    };
    let later =
        scrapes[found.turn as usize + 1..].iter().filter(|told| told.start_s <= seconds(at_us));
    for told in later {
        match &told.page {
            None => return Err(State::Unavailable),
            Some(page) if reading.from == From::Page && !page.iter().any(same) => {
                return Err(State::Unavailable);
            }
            Some(_) => {}
        }
    }
    reading.value
}
