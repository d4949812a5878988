//! The hash that stands in every row that a rule made, so that a row tells by which definition.
//!
//! It covers what decides the value and nothing else: the settings, the rule, what `inputs` say of its metrics, and the
//! hashes of the rules that it takes. Blanks, comments and `about` do not change it.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::yaml::{Node, Value};
use super::{From, Rule, Timing};

/// So many hexadecimal digits of the SHA-256: that two of a million rules are alike has a chance of one in thirty million.
const DIGITS: usize = 16;

/// The key whose value decides nothing.
const WORDS: &str = "about";

/// The hash of a rule that stands in `node`, over rules and `inputs` that it takes.
pub(super) fn of<'a>(
    rule: &Rule,
    node: &Node,
    timing: Timing,
    above: &[Rule],
    inputs: impl Fn(&str) -> Option<&'a Node>,
) -> String {
    let mut text = String::new();
    for setting in [timing.every, timing.look_back, timing.lateness, timing.gap] {
        line(&mut text, &setting.as_micros().to_string());
    }
    line(&mut text, &json(node));
    for input in rule.inputs() {
        match input.from {
            From::Rule(at) => line(&mut text, above.get(at).map_or("", |rule| &rule.hash)),
            From::Sockets | From::Page => {
                line(&mut text, &inputs(&input.selector.metric).map(json).unwrap_or_default());
            }
        }
    }
    let mut digits = String::with_capacity(DIGITS);
    for byte in &Sha256::digest(text)[..DIGITS / 2] {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The node as JSON without blanks, every scalar a string, keys in the order of the file.
fn json(node: &Node) -> String {
    let mut text = String::new();
    write_json(node, &mut text);
    text
}

fn write_json(node: &Node, out: &mut String) {
    match &node.value {
        Value::Text { text, .. } => write_string(text, out),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Map(pairs) => {
            out.push('{');
            let deciding = pairs.iter().filter(|(key, _)| key.name != WORDS);
            for (at, (key, value)) in deciding.enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_string(&key.name, out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if (letter as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}
