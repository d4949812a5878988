//! What Prometheus stored, and what the engine makes of the very same samples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use wattscribe_rules::State;
use wattscribe_rules::engine::{Answer, Derived, Engine, Observed, Scrape, SeriesId};
use wattscribe_rules::rule::{From, RuleSet};

/// Samples of sockets as the recorder has them: which label tells the kinds of a metric apart.
const SOCKETS: [(&str, &str); 3] = [
    ("cpu_power_acpi_watts", "type"),
    ("cpu_power_rapl_watts", "type"),
    ("cpu_energy_joules_total", "type"),
];

/// Node and labels of a result.
pub(crate) type Group = (Option<String>, String);

/// One stored series.
#[derive(Debug)]
pub(crate) struct Series {
    pub name: String,
    /// Without its name.
    pub labels: BTreeMap<String, String>,
    /// By time in milliseconds.
    pub values: BTreeMap<i64, f64>,
}

/// All stored series.
#[derive(Debug)]
pub(crate) struct Stored(pub Vec<Series>);

/// One scrape of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scraped {
    pub at_ms: i64,
    pub answered: bool,
    pub took_ms: i64,
}

impl Stored {
    /// From the answer to a query of ranges.
    pub(crate) fn new(matrix: &[Value]) -> Stored {
        let one = |row: &Value| {
            let labels = row["metric"].as_object().unwrap().iter();
            let mut labels: BTreeMap<String, String> = labels
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect();
            let name = labels.remove("__name__").unwrap();
            let values = row["values"].as_array().unwrap().iter().map(|pair| {
                let at_ms = (pair[0].as_f64().unwrap() * 1e3).round() as i64;
                (at_ms, pair[1].as_str().unwrap().parse().unwrap())
            });
            Series { name, labels, values: values.collect() }
        };
        Stored(matrix.iter().map(one).collect())
    }

    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.0.iter().filter(move |series| series.name == name)
    }

    pub(crate) fn of_node<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Series> {
        self.0.iter().filter(move |series| {
            series.labels.get("instance").is_some_and(|instance| instance == node)
        })
    }

    /// The scrapes of a node, rising in time.
    pub(crate) fn scrapes(&self, node: &str) -> Vec<Scraped> {
        let one = |name: &str| self.of_node(node).find(|series| series.name == name).unwrap();
        let took = one("scrape_duration_seconds");
        one("up")
            .values
            .iter()
            .map(|(at_ms, up)| Scraped {
                at_ms: *at_ms,
                answered: *up == 1.0,
                took_ms: (took.values.get(at_ms).copied().unwrap_or(0.0) * 1e3) as i64,
            })
            .collect()
    }

    /// The engine over these samples, all times moved back, and those of a node by what it is given and its scrapes took
    /// later when that is not zero.
    pub(crate) fn evaluate(
        &self,
        rules: &RuleSet,
        nodes: &[(&str, i64)],
        back_ms: i64,
    ) -> Vec<Derived> {
        let mut engine = Engine::new(Arc::new(rules.clone()), Vec::new());
        nodes.iter().for_each(|(node, _)| engine.expect_target(node));
        for (node, later_ms) in nodes {
            let page = self.page_series(&mut engine, node);
            let sockets = self.socket_series(&mut engine, node);
            let mut was_there = vec![false; sockets.len()];
            for (seq, scraped) in self.scrapes(node).iter().enumerate() {
                let later_ms = if *later_ms == 0 { 0 } else { later_ms + scraped.took_ms };
                let at_s = (scraped.at_ms + later_ms - back_ms) as f64 / 1e3;
                let observed = |series, value| Observed { series, at_s, value, since_s: None };
                let samples = page.iter().filter_map(|(id, of)| {
                    Some(observed(*id, Ok(*of.values.get(&scraped.at_ms)?)))
                });
                let samples: Vec<Observed> = samples.collect();
                let rows = sockets.iter().zip(&mut was_there).filter_map(|(socket, was_there)| {
                    let value = socket.value(scraped.at_ms);
                    *was_there |= value.is_some() || socket.described;
                    was_there.then(|| observed(socket.id, value.ok_or(State::Unavailable)))
                });
                let rows: Vec<Observed> = rows.collect();
                let answer = match scraped.answered {
                    true => Answer::Page { sockets: &rows, samples: &samples },
                    false => Answer::Failed,
                };
                let scrape =
                    Scrape { seq: seq as u64, start_s: at_s, begins_session: seq == 0, answer };
                engine.push(node, &scrape);
            }
        }
        engine.finish();
        engine.derived().collect()
    }

    fn page_series<'a>(
        &'a self,
        engine: &mut Engine,
        node: &'a str,
    ) -> Vec<(SeriesId, &'a Series)> {
        let of_node = self.of_node(node).filter(|series| !series.name.contains(':'));
        of_node
            .filter_map(|series| {
                let text = series.text();
                Some((engine.node(node).series(From::Page, &series.name, &text)?, series))
            })
            .collect()
    }

    /// Sockets as the recorder has them: the zones of a package are one.
    fn socket_series<'a>(&'a self, engine: &mut Engine, node: &'a str) -> Vec<Socket<'a>> {
        let mut sockets = Vec::new();
        for (metric, kind) in SOCKETS {
            let all: Vec<&Series> =
                self.of_node(node).filter(|series| series.name == metric).collect();
            let label =
                |series: &Series, name: &str| series.labels.get(name).cloned().unwrap_or_default();
            let keys: BTreeSet<[String; 3]> = all
                .iter()
                .map(|of| [label(of, "socket"), label(of, "source"), label(of, kind)])
                .collect();
            for [socket, source, of] in keys {
                let text = format!("socket=\"{socket}\",source=\"{source}\",{kind}=\"{of}\"");
                let Some(id) = engine.node(node).series(From::Sockets, metric, &text) else {
                    continue;
                };
                let zones = all.iter().filter(|series| label(series, "socket") == socket);
                let described = metric != "cpu_energy_joules_total";
                sockets.push(Socket { id, zones: zones.copied().collect(), described });
            }
        }
        sockets
    }
}

/// One socket's series.
struct Socket<'a> {
    id: SeriesId,
    zones: Vec<&'a Series>,
    /// Whether the exporter says that it is there before it is read.
    described: bool,
}

impl Socket<'_> {
    fn value(&self, at_ms: i64) -> Option<f64> {
        self.zones.iter().map(|zone| zone.values.get(&at_ms)).sum()
    }
}

impl Series {
    /// Labels as on the page, without those of Prometheus.
    fn text(&self) -> String {
        let own =
            self.labels.iter().filter(|(name, _)| !["instance", "job"].contains(&name.as_str()));
        own.map(|(name, value)| format!("{name}={value:?}")).collect::<Vec<_>>().join(",")
    }

    /// Its labels as the engine has them for a result of a rule.
    pub(crate) fn group(&self) -> Group {
        (self.labels.get("instance").cloned(), self.text())
    }
}

/// The group of a result of the engine.
pub(crate) fn group_of(result: &Derived) -> Group {
    (result.node.as_deref().map(str::to_owned), result.labels.to_string())
}
