//! A rule file of Prometheus: groups, their rules, and the comments above them.

use std::fmt::Write as _;
use std::time::Duration;

use crate::rule::duration;

/// Comments end here, beside their sign and indent.
const WIDTH: usize = 108;

/// Rules that are evaluated one after the other at one time.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) interval: Duration,
    pub(super) entries: Vec<Entry>,
}

/// A rule with its comment, or a comment alone.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Paragraphs.
    pub(super) comment: Vec<String>,
    pub(super) what: What,
}

/// What stands below a comment.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Nothing.
    Nothing,
    /// A recording rule: name and expression.
    Record(String, String),
    /// An alert.
    Alert(Alert),
}

/// An alert.
#[derive(Clone, Debug)]
pub(super) struct Alert {
    pub(super) name: &'static str,
    pub(super) expression: String,
    /// How long it must hold.
    pub(super) hold: Duration,
    pub(super) severity: &'static str,
    /// The rule that it is about.
    pub(super) rule: String,
    pub(super) summary: String,
    pub(super) description: String,
}

/// The text of a file.
pub(super) fn text(heading: &[String], groups: &[Group]) -> String {
    let mut text = String::new();
    comment(&mut text, "", heading);
    text += "\ngroups:\n";
    for group in groups {
        let interval = duration::text(group.interval);
        // A String takes whatever is written.
        let _ = write!(text, "  - name: {}\n    interval: {interval}\n    rules:", group.name);
        text += if group.entries.iter().any(Entry::is_rule) { "\n" } else { " []\n" };
        for entry in &group.entries {
            entry.write(&mut text);
        }
    }
    text
}

impl Entry {
    pub(super) fn is_rule(&self) -> bool {
        !matches!(self.what, What::Nothing)
    }

    fn write(&self, text: &mut String) {
        comment(text, "      ", &self.comment);
        match &self.what {
            What::Nothing => {}
            What::Record(name, expression) => {
                let _ = writeln!(text, "      - record: {name}");
                block(text, expression);
            }
            What::Alert(alert) => alert.write(text),
        }
        text.push('\n');
    }
}

impl Alert {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "      - alert: {}", self.name);
        block(text, &self.expression);
        let _ = write!(
            text,
            "        for: {}\n        labels:\n          severity: {}\n          rule: {}\n\
             \x20       annotations:\n          summary: {:?}\n          description: {:?}\n",
            duration::text(self.hold),
            self.severity,
            self.rule,
            self.summary,
            self.description,
        );
    }
}

fn block(text: &mut String, expression: &str) {
    text.push_str("        expr: |\n");
    for line in expression.lines() {
        let _ = writeln!(text, "          {line}");
    }
}

/// Paragraphs, each line with its sign.
fn comment(text: &mut String, indent: &str, paragraphs: &[String]) {
    for paragraph in paragraphs {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty()
                && line.chars().count() + 1 + word.chars().count() > WIDTH - indent.len()
            {
                let _ = writeln!(text, "{indent}# {line}");
                line.clear();
                if paragraph.starts_with("- ") {
                    line.push(' ');
                }
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        let _ = writeln!(text, "{indent}#{}{line}", if line.is_empty() { "" } else { " " });
    }
}
