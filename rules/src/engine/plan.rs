//! The rules as the engine works on them: durations in microseconds, who takes whose results, which windows there are.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::clock::{Moment, ceil_to, whole_us};
use crate::engine::stream::Horizon;
use crate::engine::stretches::Stretches;
use crate::limits::Limits;
use crate::rule::{From, Function, Input, Over, Rule, RuleSet};
use crate::window::Window;

/// A window that a file names, of a benchmark or a job.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWindow {
    /// The name.
    pub name: Arc<str>,
    /// From when to when.
    pub window: Window,
}

/// Which results are worked out where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Node,
    Fleet,
}

/// How an input gathers readings over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gathers {
    Energy,
    Least,
    Greatest,
    Quantile(f64),
    Counter,
}

/// One rule.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) level: Level,
    /// The place of its windows among the plan's; `None` at instants.
    pub(crate) over: Option<usize>,
    /// What each input gathers over windows: only of rules that make windows of readings.
    pub(crate) gathers: Vec<Gathers>,
    /// By input: whether a zero is no reading.
    pub(crate) zero_is_missing: Vec<bool>,
    /// How many inputs, from the first, give it its groups; the others are what they are compared with.
    pub(crate) leading: usize,
    /// Who takes its results: rule and input.
    takers: Vec<(usize, usize)>,
}

/// All rules.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) set: Arc<RuleSet>,
    pub(crate) rules: Vec<Planned>,
    pub(crate) stretches: Vec<Stretches>,
    pub(crate) every_us: i64,
    pub(crate) look_back_us: i64,
    pub(crate) lateness_us: i64,
    pub(crate) gap_us: i64,
    pub(crate) limits: Limits,
    sockets: HashMap<String, Vec<(usize, usize)>>,
    page: HashMap<String, Vec<(usize, usize)>>,
}

impl Plan {
    /// Windows of the same name and stretch are one.
    pub(crate) fn new(set: Arc<RuleSet>, named: &[NamedWindow]) -> Plan {
        let timing = set.timing;
        let mut plan = Plan {
            rules: Vec::with_capacity(set.rules.len()),
            stretches: Vec::new(),
            every_us: whole_us(timing.every).max(1),
            look_back_us: whole_us(timing.look_back),
            lateness_us: whole_us(timing.lateness),
            gap_us: whole_us(timing.gap),
            limits: Limits::new(timing.gap.as_secs_f64()).unwrap_or_default(),
            sockets: HashMap::new(),
            page: HashMap::new(),
            set: Arc::clone(&set),
        };
        let mut overs: Vec<Over> = Vec::new();
        for (place, rule) in set.rules.iter().enumerate() {
            let over = rule.over().map(|over| {
                overs.iter().position(|of| of == over).unwrap_or_else(|| {
                    overs.push(*over);
                    plan.stretches.push(Stretches::of(*over, named));
                    overs.len() - 1
                })
            });
            plan.rules.push(Planned {
                level: if rule.is_of_node() { Level::Node } else { Level::Fleet },
                over,
                gathers: if over.is_some() { gathers(&rule.function) } else { Vec::new() },
                zero_is_missing: rule.inputs().iter().map(|input| input.zero_is_missing).collect(),
                leading: leading(rule),
                takers: Vec::new(),
            });
            for (number, input) in rule.inputs().into_iter().enumerate() {
                plan.note_taker(place, number, input);
            }
        }
        plan
    }

    fn note_taker(&mut self, rule: usize, number: usize, input: &Input) {
        let of_metric = match input.from {
            From::Sockets => &mut self.sockets,
            From::Page => &mut self.page,
            From::Rule(above) => {
                // A rule that takes one below itself takes nothing; reading a file refuses it.
                if above < rule {
                    self.rules[above].takers.push((rule, number));
                }
                return;
            }
        };
        of_metric.entry(input.selector.metric.clone()).or_default().push((rule, number));
    }

    /// Inputs that may take series of a metric: rule and input, rules rising.
    pub(crate) fn takers_of_metric(&self, from: From, metric: &str) -> &[(usize, usize)] {
        let of_metric = match from {
            From::Sockets => &self.sockets,
            From::Page => &self.page,
            From::Rule(_) => return &[],
        };
        of_metric.get(metric).map_or(&[], Vec::as_slice)
    }

    /// Inputs of a level that may take results of a rule: rule and input, rules rising.
    pub(crate) fn takers_of_rule(
        &self,
        rule: usize,
        level: Level,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let takers = self.rules.get(rule).map_or(&[][..], |rule| &rule.takers);
        takers.iter().copied().filter(move |&(taker, _)| self.rules[taker].level == level)
    }

    /// An input by its number.
    pub(crate) fn input(&self, rule: usize, number: usize) -> Option<&Input> {
        self.set.rules.get(rule)?.inputs().into_iter().nth(number)
    }

    /// The instant at which a window is settled; `None` for one that only the end of the recording settles.
    pub(crate) fn due_us(&self, over: usize, place: i64) -> Option<i64> {
        let end_us = self.stretches[over].end_us(place)?;
        Some(ceil_to(end_us + self.gap_us, self.every_us))
    }

    /// Where readings of windows of a kind go, of which those before a place are settled.
    pub(crate) fn horizon(&self, over: usize, settled: i64) -> Horizon<'_> {
        Horizon { stretches: &self.stretches[over], limits: self.limits, settled }
    }

    /// The first window that is not settled at this instant.
    pub(crate) fn first_after(&self, over: usize, instant_us: i64) -> i64 {
        // Instants are whole multiples, so that a window is due there exactly when its end and the gap are past.
        let end_us = instant_us.saturating_sub(self.gap_us);
        self.stretches[over].first(Moment::at(end_us.saturating_add(1)))
    }
}

fn gathers(function: &Function) -> Vec<Gathers> {
    match function {
        Function::Integrate { .. } => vec![Gathers::Energy],
        Function::Increase { .. } => vec![Gathers::Counter],
        Function::Check { .. } => vec![Gathers::Energy, Gathers::Counter],
        Function::Quantile { quantile, .. } => vec![Gathers::Quantile(*quantile)],
        Function::Max { of, .. } => vec![Gathers::Greatest; of.len()],
        Function::Min { of, .. } => vec![Gathers::Least; of.len()],
        Function::Mean { .. }
        | Function::Sum { .. }
        | Function::Residual { .. }
        | Function::Ratio { .. } => Vec::new(),
    }
}

fn leading(rule: &Rule) -> usize {
    match &rule.function {
        Function::Residual { .. } | Function::Ratio { .. } | Function::Check { .. } => 1,
        Function::Sum { of, .. } | Function::Max { of, .. } | Function::Min { of, .. } => of.len(),
        Function::Mean { .. }
        | Function::Quantile { .. }
        | Function::Integrate { .. }
        | Function::Increase { .. } => 1,
    }
}
