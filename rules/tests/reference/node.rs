//! The rules of nodes over one target.

use std::collections::BTreeMap;

use wattscribe_rules::Window;
use wattscribe_rules::rule::{From, Function, Input, Over, Rule, RuleSet};

use super::member::{Found, Selected, of_page, of_results, seen};
use super::number::seconds;
use super::result::{Member, Outcome, Row, When, of_instant, wholes};
use super::stretch::{Side, of_window};
use super::sum::sums;
use crate::history::{Labels, Reading, Target, Told};

/// One target: its scrapes, less those whose number was there before.
pub(crate) struct Recorded {
    pub node: String,
    pub ended: bool,
    scrapes: Vec<Told>,
    every_us: i64,
    lateness_us: i64,
}

impl Recorded {
    pub(crate) fn new(rules: &RuleSet, target: &Target) -> Recorded {
        let mut newest = None;
        let scrapes = target.scrapes.iter().filter(|scrape| {
            let is_new = newest.is_none_or(|newest| scrape.seq > newest);
            newest = newest.max(Some(scrape.seq));
            is_new
        });
        Recorded {
            node: target.node.clone(),
            ended: target.ended,
            scrapes: scrapes.cloned().collect(),
            every_us: micros(rules.timing.every),
            lateness_us: micros(rules.timing.lateness),
        }
    }

    /// The scrapes that count for an instant.
    pub(crate) fn counting(&self, at_us: i64) -> &[Told] {
        let mut reached_s = f64::NEG_INFINITY;
        let mut count = 0;
        for scrape in &self.scrapes {
            let late = scrape.start_s > seconds(at_us + self.lateness_us);
            let settled_at_end = seconds(at_us) <= reached_s;
            let to_come = scrape.start_s > seconds(at_us) || settled_at_end;
            if late || (scrape.begins_session && to_come) {
                break;
            }
            reached_s = reached_s.max(scrape.start_s);
            count += 1;
        }
        &self.scrapes[..count]
    }

    pub(crate) fn is_settled(&self, at_us: i64) -> bool {
        self.scrapes.iter().any(|scrape| seconds(at_us) <= scrape.start_s)
    }

    /// Every instant that can have a result, the first first.
    pub(crate) fn instants(&self) -> Vec<i64> {
        let starts = self.scrapes.iter().map(|scrape| scrape.start_s);
        let first_s = starts.fold(f64::INFINITY, f64::min);
        if first_s.is_infinite() {
            return Vec::new();
        }
        let first = (first_s * 1e6 / self.every_us as f64).floor() as i64;
        let from_first = (first..).map(|number| number * self.every_us);
        from_first.take_while(|at_us| self.is_settled(*at_us)).collect()
    }
}

pub(crate) fn micros(duration: std::time::Duration) -> i64 {
    duration.as_micros() as i64
}

/// Whether a rule adds results of windows.
pub(crate) fn adds_windows(rules: &RuleSet, rule: &Rule) -> bool {
    let of_windows = |input: &Input| match input.from {
        From::Rule(of) => rules.rules[of].over().is_some(),
        From::Sockets | From::Page => false,
    };
    rule.inputs().into_iter().any(of_windows)
}

/// All rules of nodes over one target.
pub(crate) struct Evaluation<'a> {
    rules: &'a RuleSet,
    node: &'a Recorded,
    named: &'a [(String, Window)],
    pub rows: Vec<Row>,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(
        rules: &'a RuleSet,
        node: &'a Recorded,
        named: &'a [(String, Window)],
    ) -> Evaluation<'a> {
        Evaluation { rules, node, named, rows: Vec::new() }
    }

    pub(crate) fn run(&mut self) {
        let rules = self.rules.rules.iter().enumerate().filter(|(_, rule)| rule.is_of_node());
        let rules: Vec<(usize, &Rule)> = rules.collect();
        for at_us in self.node.instants() {
            for (index, rule) in &rules {
                match rule.over() {
                    _ if adds_windows(self.rules, rule) => self.of_windows(*index, rule, at_us),
                    None => self.instant(*index, rule, at_us),
                    Some(Over::Aligned { every, length }) => {
                        self.windows(*index, rule, at_us, micros(*every), micros(*length));
                    }
                    Some(Over::Named) => {}
                }
            }
        }
        for (index, rule) in &rules {
            if adds_windows(self.rules, rule) {
                self.of_windows(*index, rule, i64::MAX);
            } else if rule.over() == Some(&Over::Named) {
                self.named(*index, rule);
            }
        }
    }

    fn of_windows(&mut self, index: usize, rule: &Rule, at_us: i64) {
        self.rows.extend(sums(index, rule, &self.rows, at_us, Some(&self.node.node), 0));
    }

    /// What each input of a rule takes of these scrapes, with the results of rules until `until_us`.
    fn selected(&self, rule: &Rule, scrapes: &[Told], until_us: i64) -> Vec<Selected> {
        let inputs = rule.inputs().into_iter().enumerate();
        let selected = inputs.flat_map(|(place, input)| match input.from {
            From::Rule(of) => {
                let until = |row: &&Row| row.rule == of && row.settled_us <= until_us;
                of_results(place, input, &rule.by, self.rows.iter().filter(until))
            }
            From::Sockets | From::Page => of_page(place, input, &rule.by, &self.node.node, scrapes),
        });
        selected.collect()
    }

    fn instant(&mut self, index: usize, rule: &Rule, at_us: i64) {
        let scrapes = self.node.counting(at_us);
        let look_back_us = micros(self.rules.timing.look_back);
        let lately = |scrape: &Told| {
            seconds(at_us - look_back_us) < scrape.start_s && scrape.start_s <= seconds(at_us)
        };
        if !scrapes.iter().any(lately) {
            return;
        }
        let mut groups: BTreeMap<String, (Labels, Vec<Member>)> = BTreeMap::new();
        for member in self.selected(rule, scrapes, at_us) {
            let Some(number) = seen(&member, scrapes, at_us, look_back_us) else { continue };
            let group = groups.entry(member.group_text()).or_insert((member.group, Vec::new()));
            group.1.push(Member { input: member.input, number });
        }
        for (labels, members) in groups.into_values() {
            if members.iter().any(|member| member.input < wholes(rule)) {
                let outcome = of_instant(rule, &members);
                self.push(at_us, When::Instant, index, labels, outcome);
            }
        }
    }

    fn windows(&mut self, index: usize, rule: &Rule, at_us: i64, every_us: i64, length_us: i64) {
        let gap_us = micros(self.rules.timing.gap);
        // Ends whose first instant at or after end and gap is this one.
        let newest_end_us = at_us - gap_us;
        let mut start_us = (newest_end_us - length_us).div_euclid(every_us) * every_us;
        let mut settled_here = Vec::new();
        while start_us + length_us > newest_end_us - self.node.every_us {
            settled_here.push(start_us);
            start_us -= every_us;
        }
        for start_us in settled_here.into_iter().rev() {
            let when = When::Aligned { start_us, end_us: start_us + length_us };
            self.window(index, rule, at_us, when, (start_us, start_us + length_us));
        }
    }

    fn window(
        &mut self,
        index: usize,
        rule: &Rule,
        at_us: i64,
        when: When,
        (start_us, end_us): (i64, i64),
    ) {
        let scrapes = self.node.counting(at_us);
        let window = self.stretch(seconds(start_us), seconds(end_us));
        let begun = |scrape: &Told| window.holds(scrape.start_s);
        let scraped = scrapes.iter().any(begun);
        for (labels, sides) in self.sides(rule, scrapes, at_us) {
            let expected = |side: &Side| {
                side.input < wholes(rule) && side.read.iter().any(|r| r.at_s <= seconds(at_us))
            };
            if !sides.iter().any(expected) {
                continue;
            }
            let sides: Vec<Side> = sides
                .into_iter()
                .filter(|side| side.read.iter().any(|r| r.at_s <= seconds(at_us)))
                .collect();
            let read = sides.iter().any(|side| side.read.iter().any(|r| window.holds(r.at_s)));
            let outcome = of_window(rule, &sides, window);
            if read || scraped || outcome.reporting > 0 {
                self.push(at_us, when.clone(), index, labels, outcome);
            }
        }
    }

    fn named(&mut self, index: usize, rule: &Rule) {
        for (name, named) in self.named {
            let window = self.stretch(named.start_s(), named.end_s());
            for (labels, sides) in self.sides(rule, &self.node.scrapes, i64::MAX) {
                if sides.iter().any(|side| side.input < wholes(rule)) {
                    let outcome = of_window(rule, &sides, window);
                    let when = When::Named { name: name.clone(), window: *named };
                    self.push(i64::MAX, when, index, labels, outcome);
                }
            }
        }
    }

    fn stretch(&self, start_s: f64, end_s: f64) -> super::integral::Stretch {
        let gap_s = self.rules.timing.gap.as_secs_f64();
        super::integral::Stretch { start_s, end_s, gap_s }
    }

    /// The readings of every member by group, those that share a scrape left without a number.
    fn sides(&self, rule: &Rule, scrapes: &[Told], until_us: i64) -> Vec<(Labels, Vec<Side>)> {
        let mut groups: BTreeMap<String, (Labels, Vec<Side>)> = BTreeMap::new();
        for member in self.selected(rule, scrapes, until_us) {
            let mut found: Vec<&Found> = member.found.iter().collect();
            found.sort_by_key(|found| found.turn);
            let alone = |one: &Found| found.iter().filter(|f| f.turn == one.turn).count() == 1;
            let read = found.iter().map(|one| {
                let value = if alone(one) {
                    one.reading.value
                } else {
                    Err(wattscribe_rules::State::Disagree)
                };
                Reading { value, ..one.reading.clone() }
            });
            let counter = match rule.function {
                Function::Increase { .. } => true,
                Function::Check { .. } => member.input == 1,
                _ => false,
            };
            let side = Side { input: member.input, counter, read: read.collect() };
            let group = groups.entry(member.group_text()).or_insert((member.group, Vec::new()));
            group.1.push(side);
        }
        groups.into_values().collect()
    }

    fn push(&mut self, settled_us: i64, when: When, rule: usize, labels: Labels, outcome: Outcome) {
        let node = Some(self.node.node.clone());
        self.rows.push(Row { settled_us, when, rule, node, labels, outcome });
    }
}
