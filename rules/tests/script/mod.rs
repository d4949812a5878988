//! Cases of rules as text: what was scraped in a notation like promtool's, and which rows come of it.
//!
//! A script is a list of cases; `#` begins a remark. In a case stand, in this order,
//!
//! - `case NAME`
//! - `set KEY VALUE …`, where the file's settings are not the defaults
//! - `input METRIC BOUNDARY UNIT` for a metric that nobody knows
//! - `rule KEY: VALUE; KEY: VALUE; …`, the keys of a rule in a file; `name`, `boundary` and `unit` may be left out, and
//!   are then `case:rule:N`, `module` and `W`
//! - `named NAME START END`, a window that is named from outside
//! - `target NODE FIRST EVERY COUNT`: when the first scrape began, seconds between two, how many there are; with
//!   `ended` behind them it is recorded no more while others are
//! - `scrapes TOKENS`: what became of each scrape, `ok` where nothing stands: see [`series::scrapes`]
//! - `METRIC{LABELS} TOKENS`: one series, a token for each scrape: see [`series::readings`]
//! - rows that are expected: see [`expect::Expected`]. `rows N` says how many there are in all.

pub(crate) mod expect;
pub(crate) mod series;

use wattscribe_rules::Window;

use crate::history::{History, Target, Told};
use expect::Expected;

/// One case.
#[derive(Default)]
pub(crate) struct Case {
    pub name: String,
    pub rules: String,
    pub history: History,
    pub expected: Vec<Expected>,
    pub rows: Option<usize>,
    settings: String,
    inputs: String,
    count: usize,
}

impl Case {
    /// The rule file.
    pub(crate) fn file(&self) -> String {
        let inputs = if self.inputs.is_empty() { "" } else { "inputs:\n" };
        let Case { settings, rules, .. } = self;
        format!("wattscribe_rules: 1\n{settings}{inputs}{}rules:\n{rules}", self.inputs)
    }
}

/// The cases of a script.
pub(crate) fn parse(script: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (place, line) in script.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            cases.push(Case { name: rest.to_owned(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("line {}: no case", place + 1));
        case.take(word, rest.trim(), line);
    }
    cases
}

impl Case {
    fn take(&mut self, word: &str, rest: &str, line: &str) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match word {
            "set" => {
                for pair in words.chunks(2) {
                    self.settings += &format!("{}: {}\n", pair[0], pair[1]);
                }
            }
            "input" => {
                let [metric, boundary, unit] = words[..] else { panic!("{line}") };
                self.inputs += &format!(
                    "  - metric: {metric}\n    boundary: {boundary}\n    unit: {unit}\n    averaging: instant\n"
                );
            }
            "rule" => self.rule(rest),
            "named" => {
                let window = Window::new(number(words[1]), number(words[2])).unwrap();
                self.history.named.push((words[0].to_owned(), window));
            }
            "target" => self.target(&words),
            "scrapes" => series::scrapes(&mut self.latest().scrapes, rest),
            "rows" => self.rows = Some(rest.parse().unwrap()),
            _ if word == "at" || word.starts_with('[') => self.expected.push(Expected::new(line)),
            _ => series::readings(self.latest(), line),
        }
    }

    fn rule(&mut self, rest: &str) {
        self.count += 1;
        let has = |key: &str| rest.split("; ").any(|part| part.starts_with(key));
        let name = format!("name: case:rule:{}; ", self.count);
        let defaults =
            [("name:", name.as_str()), ("boundary:", "boundary: module; "), ("unit:", "unit: W; ")];
        let left_out = defaults.iter().filter(|(key, _)| !has(key)).map(|(_, text)| *text);
        let whole: String = left_out.chain([rest]).collect();
        for (place, part) in whole.split("; ").enumerate() {
            let start = if place == 0 { "  - " } else { "    " };
            self.rules += &format!("{start}{part}\n");
        }
    }

    fn target(&mut self, words: &[&str]) {
        let (first, every) = (number(words[1]), number(words[2]));
        let count: usize = words[3].parse().unwrap();
        let told = |place: usize| Told {
            seq: place as u64 + 1,
            // Tenths of a second do not add up in binary; a multiple of the cadence is the nearest double.
            start_s: ((first + every * place as f64) * 1e6).round() / 1e6,
            begins_session: place == 0,
            page: Some(Vec::new()),
        };
        self.history.targets.push(Target {
            node: words[0].to_owned(),
            scrapes: (0..count).map(told).collect(),
            ended: words.get(4) == Some(&"ended"),
        });
    }

    fn latest(&mut self) -> &mut Target {
        self.history.targets.last_mut().expect("a series stands below its target")
    }
}

pub(crate) fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}
