//! The keys of one map of a rule file: each is taken once, and what nobody knows is a fault with what was meant.

use super::fault::{Fault, Faults, Meant, Place};
use super::yaml::{Node, Value};

/// A map and what it is the map of.
pub(super) struct Fields<'a> {
    node: &'a Node,
    /// What it is, for faults: `a rule`.
    of: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of a map whose keys are all among `known`. `None` for another value; unknown keys are noted.
    pub(super) fn of(
        node: &'a Node,
        of: &'static str,
        known: &[&str],
        faults: &mut Faults,
    ) -> Option<Fields<'a>> {
        let Value::Map(pairs) = &node.value else {
            let fault = Fault::Kind { of: of.to_owned(), found: node.kind(), expected: "a map" };
            faults.push(node.place, fault);
            return None;
        };
        for (key, _) in pairs.iter().filter(|(key, _)| !known.contains(&key.name.as_str())) {
            let meant = Meant::of(&key.name, known.iter().copied());
            faults.push(key.place, Fault::Key { key: key.name.clone(), of, meant });
        }
        Some(Fields { node, of })
    }

    /// The value of a key, when it is there.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        let Value::Map(pairs) = &self.node.value else { return None };
        pairs.iter().find(|(found, _)| found.name == key).map(|(_, value)| value)
    }

    /// Where a key stands.
    pub(super) fn key_place(&self, key: &str) -> Place {
        let Value::Map(pairs) = &self.node.value else { return self.node.place };
        let found = pairs.iter().find(|(found, _)| found.name == key);
        found.map_or(self.node.place, |(key, _)| key.place)
    }

    /// The value of a key that must be there.
    pub(super) fn need(
        &self,
        key: &'static str,
        expected: &'static str,
        faults: &mut Faults,
    ) -> Option<&'a Node> {
        let found = self.get(key);
        if found.is_none() {
            let fault = Fault::Missing { key, of: self.of.to_owned(), expected };
            faults.push(self.node.place, fault);
        }
        found
    }

    /// The same, read by `read`.
    pub(super) fn must<T>(
        &self,
        key: &'static str,
        expected: &'static str,
        faults: &mut Faults,
        read: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        self.need(key, expected, faults)?;
        self.read(key, faults, read)
    }

    /// The value of a key when it is there, read by `read`; its fault is noted where the value stands.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        faults: &mut Faults,
        read: impl FnOnce(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let node = self.get(key)?;
        let found = text(key, node).and_then(read);
        faults.keep(node.place, found)
    }
}

/// The text of a value, that of `key`.
pub(super) fn text<'a>(key: &str, node: &'a Node) -> Result<&'a str, Fault> {
    match &node.value {
        Value::Text { text, .. } if !text.is_empty() => Ok(text),
        _ => Err(Fault::Kind { of: format!("{key:?}"), found: node.kind(), expected: "a text" }),
    }
}

/// The items of a list, that of `key`.
pub(super) fn list<'a>(key: &str, node: &'a Node) -> Result<&'a [Node], Fault> {
    match &node.value {
        Value::List(items) => Ok(items),
        _ => Err(Fault::Kind { of: format!("{key:?}"), found: node.kind(), expected: "a list" }),
    }
}

/// That a text does not have the form of its key.
pub(super) fn malformed(key: &str, found: &str, expected: impl Into<String>) -> Fault {
    let (what, found) = (format!("{key:?}"), found.to_owned());
    Fault::Text { what, found, expected: expected.into() }
}
