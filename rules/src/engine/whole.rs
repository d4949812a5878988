//! Nodes and fleet together, as a recorder has them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::engine::derived::Derived;
use crate::engine::explain::Explanation;
use crate::engine::fleet::FleetEngine;
use crate::engine::node::NodeEngine;
use crate::engine::plan::{NamedWindow, Plan};
use crate::engine::scrape::{Scrape, SeriesId};
use crate::rule::RuleSet;

/// All rules over the scrapes of any number of targets.
///
/// ```
/// use std::sync::Arc;
/// use wattscribe_rules::engine::{Answer, Engine, Observed, Scrape};
/// use wattscribe_rules::rule::{self, From};
///
/// let mut engine = Engine::new(Arc::new(rule::builtin()), Vec::new());
/// let node = engine.node("gb200-1");
/// let gpu = |uuid| format!(r#"socket="0",uuid="{uuid}""#);
/// let series = ["a", "b"].map(|uuid| node.series(From::Page, "gpu_module_power_watts", &gpu(uuid)));
/// for seq in 0..4 {
///     let at_s = 1_788_310_143.25 + seq as f64;
///     let reading = |(series, watts)| Observed { series, at_s, value: Ok(watts), since_s: None };
///     let samples: Vec<_> = series.into_iter().flatten().zip([539.0, 534.0]).map(reading).collect();
///     let answer = Answer::Page { sockets: &[], samples: &samples };
///     engine.push("gb200-1", &Scrape { seq, start_s: at_s, begins_session: seq == 0, answer });
/// }
/// let mean = engine.derived().next().ok_or("nothing is settled")?;
/// assert_eq!((mean.at_us, mean.value), (1_788_310_144_000_000, Some(536.5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    plan: Arc<Plan>,
    nodes: Vec<NodeEngine>,
    by_name: HashMap<Arc<str>, usize>,
    fleet: FleetEngine,
    out: VecDeque<Derived>,
    /// The rule and the time whose results are explained, of targets that are still to come as well.
    explained: Option<(usize, i64)>,
}

impl Engine {
    /// An engine without targets. `named` are the windows of `over: named`.
    pub fn new(rules: Arc<RuleSet>, named: Vec<NamedWindow>) -> Engine {
        let plan = Arc::new(Plan::new(rules, &named));
        Engine {
            nodes: Vec::new(),
            by_name: HashMap::new(),
            fleet: FleetEngine::of(Arc::clone(&plan)),
            out: VecDeque::new(),
            explained: None,
            plan,
        }
    }

    /// Says that a target is recorded: the instants of the fleet wait for it.
    pub fn expect_target(&mut self, node: &str) {
        self.place(node);
    }

    /// The rules of one target, which is expected from now on: for its series. Scrapes go through [`Engine::push`].
    pub fn node(&mut self, node: &str) -> &mut NodeEngine {
        let place = self.place(node);
        &mut self.nodes[place]
    }

    /// See [`NodeEngine::remember`]; the fleet remembers as well.
    pub fn remember(&mut self, node: &str, series: SeriesId) {
        let place = self.place(node);
        self.nodes[place].remember(series);
        for (rule, labels) in self.nodes[place].remembered() {
            self.fleet.remember(rule, node, labels);
        }
    }

    /// The rules of the fleet.
    pub fn fleet(&mut self) -> &mut FleetEngine {
        &mut self.fleet
    }

    /// Takes a scrape of a target, and settles what it settles.
    pub fn push(&mut self, node: &str, scrape: &Scrape<'_>) {
        let place = self.place(node);
        self.nodes[place].push(scrape);
        self.collect(node, place);
    }

    /// Ends a target: the instants of the fleet do not wait for it any more.
    pub fn end_target(&mut self, node: &str) {
        let place = self.place(node);
        self.nodes[place].finish();
        self.collect(node, place);
        let target = self.fleet.target(node);
        self.fleet.end_target(target);
        self.out.extend(self.fleet.derived());
    }

    /// Ends the recording.
    pub fn finish(&mut self) {
        let mut names: Vec<Arc<str>> = self.by_name.keys().cloned().collect();
        names.sort_unstable();
        for node in &names {
            let place = self.place(node);
            self.nodes[place].finish();
            self.collect(node, place);
        }
        self.fleet.finish();
        self.out.extend(self.fleet.derived());
    }

    /// Takes out what is settled. Results of one node and those of the fleet come instants rising, rules in the order of
    /// the file; those of different nodes as their scrapes came.
    pub fn derived(&mut self) -> impl Iterator<Item = Derived> + '_ {
        self.out.drain(..)
    }

    /// Has the results of one rule explained, those of an instant or of the window that ends then, in microseconds since
    /// the Unix epoch. To be said before that is settled.
    pub fn explain(&mut self, rule: usize, at_us: i64) {
        self.explained = Some((rule, at_us));
        self.nodes.iter_mut().for_each(|node| node.explain(rule, at_us));
        self.fleet.explain(rule, at_us);
    }

    /// Takes out the explanations.
    pub fn explanations(&mut self) -> impl Iterator<Item = Explanation> + '_ {
        self.nodes.iter_mut().flat_map(NodeEngine::explanations).chain(self.fleet.explanations())
    }

    fn place(&mut self, node: &str) -> usize {
        if let Some(place) = self.by_name.get(node) {
            return *place;
        }
        let name: Arc<str> = node.into();
        let mut of = NodeEngine::of(Arc::clone(&self.plan), Arc::clone(&name));
        if let Some((rule, at_us)) = self.explained {
            of.explain(rule, at_us);
        }
        self.nodes.push(of);
        self.by_name.insert(name, self.nodes.len() - 1);
        self.fleet.target(node);
        self.nodes.len() - 1
    }

    fn collect(&mut self, node: &str, place: usize) {
        let of = &mut self.nodes[place];
        for result in of.derived() {
            self.fleet.take(&result);
            self.out.push_back(result);
        }
        let target = self.fleet.target(node);
        self.fleet.progress(target, of.progress());
        self.out.extend(self.fleet.derived());
    }
}
