//! What a program took from a library and did not give back, or gave back in the wrong order, by the call log.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Call, Code, DcgmReturn};

/// What is out of balance at the end of a log, one line each. Empty for a program that has ended well.
///
/// - Every initialisation that succeeded has its shutdown, in each process.
/// - Every connection and every embedded engine is ended, before the last shutdown.
/// - Every group and field group is destroyed, and no watch is left on it by then.
///
/// What belonged to an engine that is gone counts as given back once a call was told so: nobody is left to take it.
pub fn unbalanced(calls: &[Call]) -> Vec<String> {
    let pids: BTreeSet<u32> = calls.iter().map(|call| call.pid).collect();
    let faults = |pid| {
        let mut ledger = Ledger::default();
        calls.iter().filter(|call| call.pid == pid).for_each(|call| ledger.enter(call));
        ledger.close()
    };
    pids.into_iter().flat_map(faults).collect()
}

/// What one process holds.
#[derive(Debug, Default)]
struct Ledger {
    /// Initialisations by the symbol that ends them.
    inits: BTreeMap<&'static str, u64>,
    /// Connections and embedded engines.
    handles: BTreeMap<u64, Held>,
    faults: Vec<String>,
}

/// What is held of one engine.
#[derive(Debug, Default)]
struct Held {
    groups: BTreeSet<u64>,
    field_groups: BTreeSet<u64>,
    /// Watches: group and field group.
    watches: BTreeSet<(u64, u64)>,
    /// A call was told that the engine is gone.
    is_gone: bool,
}

impl Ledger {
    fn enter(&mut self, call: &Call) {
        if let Some(held) = call.arg("handle").and_then(|handle| self.handles.get_mut(&handle))
            && call.outcome.as_ref().map(|(result, _)| *result)
                == Some(DcgmReturn::ConnectionNotValid.number())
        {
            held.is_gone = true;
        }
        if !call.succeeded() {
            return;
        }
        match call.symbol.as_str() {
            "nvmlInit_v2" | "nvmlInitWithFlags" => self.init("nvmlShutdown"),
            "dcgmInit" => self.init("dcgmShutdown"),
            "nvmlShutdown" => self.shutdown("nvmlShutdown"),
            "dcgmShutdown" => self.shutdown("dcgmShutdown"),
            "dcgmConnect" | "dcgmStartEmbedded" => {
                self.handles.insert(call.out("handle").unwrap_or_default(), Held::default());
            }
            "dcgmDisconnect" | "dcgmStopEmbedded" => {
                let handle = call.arg("handle").unwrap_or_default();
                let held = self.handles.remove(&handle).unwrap_or_default();
                self.faults.extend(held.kept(handle));
            }
            symbol => {
                let handle = call.arg("handle").unwrap_or_default();
                let held = self.handles.get_mut(&handle);
                self.faults.extend(held.and_then(|held| held.enter(symbol, call)));
            }
        }
    }

    fn init(&mut self, end: &'static str) {
        *self.inits.entry(end).or_default() += 1;
    }

    fn shutdown(&mut self, end: &'static str) {
        let open = self.inits.entry(end).or_default();
        *open = open.saturating_sub(1);
        if end == "dcgmShutdown" && *open == 0 {
            let early =
                self.handles.keys().map(|handle| format!("{end} before the end of {handle}"));
            self.faults.extend(early);
        }
    }

    fn close(mut self) -> Vec<String> {
        let open = self.inits.iter().filter(|(_, open)| **open > 0);
        self.faults.extend(open.map(|(end, open)| format!("{open} times no {end}")));
        for (handle, held) in &self.handles {
            self.faults.push(format!("connection {handle} was not ended"));
            self.faults.extend(held.kept(*handle));
        }
        self.faults
    }
}

impl Held {
    /// Enters a successful call, and says what is wrong with it.
    fn enter(&mut self, symbol: &str, call: &Call) -> Option<String> {
        let watch = (call.arg("group"), call.arg("field_group"));
        match (symbol, watch) {
            ("dcgmGroupCreate", _) => drop(self.groups.insert(call.out("group")?)),
            ("dcgmFieldGroupCreate", _) => {
                self.field_groups.insert(call.out("field_group")?);
            }
            ("dcgmWatchFields", (Some(group), Some(fields))) => {
                self.watches.insert((group, fields));
            }
            ("dcgmUnwatchFields", (Some(group), Some(fields))) => {
                self.watches.remove(&(group, fields));
            }
            ("dcgmGroupDestroy", (Some(group), _)) => {
                self.groups.remove(&group);
                let is_watched = self.watches.iter().any(|(of, _)| *of == group);
                return is_watched.then(|| format!("group {group} was destroyed while watched"));
            }
            ("dcgmFieldGroupDestroy", (_, Some(fields))) => {
                self.field_groups.remove(&fields);
                let is_watched = self.watches.iter().any(|(_, of)| *of == fields);
                return is_watched
                    .then(|| format!("field group {fields} was destroyed while watched"));
            }
            _ => {}
        }
        None
    }

    /// What is still held of the engine behind a handle.
    fn kept(&self, handle: u64) -> Vec<String> {
        if self.is_gone {
            return Vec::new();
        }
        let kept = |what: &str| format!("{what} was kept, of connection {handle}");
        let groups = self.groups.iter().map(|group| kept(&format!("group {group}")));
        let fields = self.field_groups.iter().map(|group| kept(&format!("field group {group}")));
        let watches = self.watches.iter().map(|(group, fields)| {
            kept(&format!("the watch of field group {fields} on group {group}"))
        });
        groups.chain(fields).chain(watches).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A call of one process: symbol, arguments, result, and what it handed out.
    type Entry = (&'static str, Value, i32, Value);

    fn check(calls: &[Entry], expected: &[&str]) {
        let call = |(symbol, args, result, out): &Entry| Call {
            symbol: (*symbol).into(),
            pid: 1,
            thread: 0,
            args: args.clone(),
            began_us: 0,
            outcome: Some((*result, out.clone())),
        };
        let calls: Vec<Call> = calls.iter().map(call).collect();
        assert_eq!(unbalanced(&calls), expected);
    }

    fn set_up() -> Vec<Entry> {
        vec![
            ("dcgmInit", json!({}), 0, json!({})),
            ("dcgmConnect", json!({}), 0, json!({"handle": 5})),
            ("dcgmGroupCreate", json!({"handle": 5}), 0, json!({"group": 1})),
            ("dcgmFieldGroupCreate", json!({"handle": 5}), 0, json!({"field_group": 2})),
            ("dcgmWatchFields", json!({"handle": 5, "group": 1, "field_group": 2}), 0, json!({})),
        ]
    }

    fn tear_down() -> Vec<Entry> {
        vec![
            ("dcgmUnwatchFields", json!({"handle": 5, "group": 1, "field_group": 2}), 0, json!({})),
            ("dcgmFieldGroupDestroy", json!({"handle": 5, "field_group": 2}), 0, json!({})),
            ("dcgmGroupDestroy", json!({"handle": 5, "group": 1}), 0, json!({})),
            ("dcgmDisconnect", json!({"handle": 5}), 0, json!({})),
            ("dcgmShutdown", json!({}), 0, json!({})),
        ]
    }

    #[test]
    fn what_is_given_back_in_order_is_balanced() {
        check(&[], &[]);
        check(&[set_up(), tear_down()].concat(), &[]);
    }

    #[test]
    fn what_is_left_out_is_found() {
        let kept = "the watch of field group 2 on group 1 was kept, of connection 5";
        let cases: [(usize, &[&str]); 5] = [
            (
                0,
                &[
                    "field group 2 was destroyed while watched",
                    "group 1 was destroyed while watched",
                    kept,
                ],
            ),
            (1, &["field group 2 was kept, of connection 5"]),
            (2, &["group 1 was kept, of connection 5"]),
            (3, &["dcgmShutdown before the end of 5", "connection 5 was not ended"]),
            (4, &["1 times no dcgmShutdown"]),
        ];
        for (left_out, expected) in cases {
            let mut calls = tear_down();
            calls.remove(left_out);
            check(&[set_up(), calls].concat(), expected);
        }
    }

    #[test]
    fn a_call_that_fails_gives_nothing_and_takes_nothing() {
        check(&[("nvmlInit_v2", json!({}), 9, json!(null))], &[]);
        let init = ("nvmlInit_v2", json!({}), 0, json!({}));
        check(
            &[init.clone(), ("nvmlShutdown", json!({}), 999, json!(null))],
            &["1 times no nvmlShutdown"],
        );
        check(&[init, ("nvmlShutdown", json!({}), 0, json!({}))], &[]);
    }

    #[test]
    fn an_engine_that_is_gone_keeps_nothing() {
        let gone = ("dcgmUpdateAllFields", json!({"handle": 5}), -21, json!(null));
        let end: Vec<Entry> = tear_down().split_off(3);
        check(&[set_up(), vec![gone], end].concat(), &[]);
    }
}
