//! Why a rule file is refused: where, what was found there, and what was expected.
//!
//! The faults of form are here; those of meaning are in [`breach`](super::breach).

use std::fmt;

use super::breach::Breach;

/// Where a word of the file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

impl Place {
    /// The beginning of the file.
    pub(super) const START: Place = Place { line: 1, column: 1 };

    /// So many characters later in the same line.
    pub(super) const fn plus(self, characters: usize) -> Place {
        Place { line: self.line, column: self.column + characters }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One thing that is wrong in a rule file. A file has all of them together, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Where.
    pub place: Place,
    /// What.
    pub fault: Fault,
}

/// A fault with more letters is shown by its ends: it repeats what it found, which may be a file's length.
const SHOWN_MAX: usize = 1000;

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        let fault = self.fault.to_string();
        let letters = fault.chars().count();
        if letters <= SHOWN_MAX {
            return f.write_str(&fault);
        }
        let head: String = fault.chars().take(SHOWN_MAX / 2).collect();
        let tail: String = fault.chars().skip(letters - SHOWN_MAX / 2).collect();
        write!(f, "{head} [...] {tail}")
    }
}

impl std::error::Error for RuleError {}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is no YAML, as its parser says.
    Yaml(String),
    /// More than a rule file holds.
    TooMuch {
        /// Bytes or levels, as they were found.
        found: String,
        /// The limit.
        expected: &'static str,
    },
    /// Something of YAML that rule files do without.
    Foreign {
        /// What was found.
        found: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// A key that stands twice in one map.
    Repeated {
        /// The key.
        key: String,
        /// Where it stands first.
        first: Place,
    },
    /// A value of another kind.
    Kind {
        /// What the value is of: `"by"`.
        of: String,
        /// What was found: `a map`.
        found: &'static str,
        /// What was expected.
        expected: &'static str,
    },
    /// A key that is not known.
    Key {
        /// The key.
        key: String,
        /// In what: `a rule`.
        of: &'static str,
        /// What could have been meant.
        meant: Meant,
    },
    /// A key that is not there.
    Missing {
        /// The key.
        key: &'static str,
        /// Of what: `a residual`.
        of: String,
        /// What it would say.
        expected: &'static str,
    },
    /// A key that another function has.
    Elsewhere {
        /// The key.
        key: String,
        /// The function: `mean`.
        function: &'static str,
        /// What it belongs to.
        expected: &'static str,
    },
    /// A word out of a closed set.
    Word {
        /// What kind of word: `function`.
        what: &'static str,
        /// The word.
        found: String,
        /// What could have been meant.
        meant: Meant,
    },
    /// A text that does not have the form of its key.
    Text {
        /// What the text is: `"every"`.
        what: String,
        /// The text.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A name that stands twice.
    Twice {
        /// What: `rule`, `label`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A selector that cannot be read.
    Selector(String),
    /// A rule that means nothing.
    Meaning(Breach),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Yaml(what) => write!(f, "{what}, expected YAML"),
            Fault::TooMuch { found, expected } => write!(f, "{found}, expected at most {expected}"),
            Fault::Foreign { found, expected } => write!(f, "{found}, expected {expected}"),
            Fault::Repeated { key, first } => {
                write!(f, "{key:?} a second time, expected it once; it stands at {first} already")
            }
            Fault::Kind { of, found, expected } => {
                write!(f, "{of} is {found}, expected {expected}")
            }
            Fault::Key { key, of, meant } => write!(f, "unknown key {key:?} in {of}, {meant}"),
            Fault::Missing { key, of, expected } => {
                write!(f, "{of} without {key:?}, expected {expected}")
            }
            Fault::Elsewhere { key, function, expected } => {
                write!(f, "{key:?} in {function}, expected {expected}")
            }
            Fault::Word { what, found, meant } => write!(f, "unknown {what} {found:?}, {meant}"),
            Fault::Text { what, found, expected } => {
                write!(f, "{what} is {found:?}, expected {expected}")
            }
            Fault::Twice { what, name } => {
                write!(f, "{what} {name:?} a second time, expected each once")
            }
            Fault::Selector(what) => f.write_str(what),
            Fault::Meaning(breach) => breach.fmt(f),
        }
    }
}

/// What an unknown word could have been: the nearest of a closed set, or all of them where none is near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// One that is spelled much like it, or that other tools call so.
    Nearest(String),
    /// None is near.
    OneOf(Vec<String>),
}

/// How alike two words are at least, as `strsim::jaro` measures it, for one to be suggested for the other. The limit that
/// clap has.
const ALIKE: f64 = 0.7;

/// The same for long names with much in common, of which others may be right as well.
const ALMOST_EQUAL: f64 = 0.94;

/// What other tools call what we call otherwise.
const ELSEWHERE: [(&str, &str); 8] = [
    ("avg", "mean"),
    ("average", "mean"),
    ("difference", "residual"),
    ("divide", "ratio"),
    ("percentile", "quantile"),
    ("energy", "integrate"),
    ("rate", "increase"),
    ("where", "of"),
];

impl Meant {
    /// What could have been meant by `word`, of a closed set.
    pub(super) fn of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Meant {
        Meant::nearest(word, known, ALIKE)
    }

    /// What could have been meant by a name, of many that are there among others.
    pub(super) fn of_alike<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Meant {
        Meant::nearest(name, known, ALMOST_EQUAL)
    }

    /// What is expected in words, where no name is near.
    pub(super) fn or(self, expected: &str) -> Meant {
        match self {
            Meant::OneOf(_) => Meant::OneOf(vec![expected.to_owned()]),
            nearest @ Meant::Nearest(_) => nearest,
        }
    }

    fn nearest<'a>(
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
        alike_at_least: f64,
    ) -> Meant {
        let known: Vec<&str> = known.into_iter().collect();
        let word = word.to_lowercase();
        let other = ELSEWHERE.iter().find(|(theirs, ours)| *theirs == word && known.contains(ours));
        if let Some((_, ours)) = other {
            return Meant::Nearest((*ours).to_owned());
        }
        let alike = known.iter().map(|known| (strsim::jaro(&word, &known.to_lowercase()), *known));
        // Of equally near words the first, so that the order of the set decides and not that of the comparison.
        let nearest = alike.reduce(|best, next| if next.0 > best.0 { next } else { best });
        match nearest {
            Some((likeness, nearest)) if likeness > alike_at_least => {
                Meant::Nearest(nearest.to_owned())
            }
            _ => Meant::OneOf(known.into_iter().map(str::to_owned).collect()),
        }
    }
}

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meant::Nearest(word) => write!(f, "did you mean {word:?}?"),
            Meant::OneOf(words) => write!(f, "expected {}", words.join(", ")),
        }
    }
}

/// The faults of one file, as they are found.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<RuleError>);

impl Faults {
    pub(super) fn push(&mut self, place: Place, fault: Fault) {
        self.0.push(RuleError { place, fault });
    }

    /// The value, or `None` with its fault noted at `place`.
    pub(super) fn keep<T>(&mut self, place: Place, found: Result<T, Fault>) -> Option<T> {
        found.map_err(|fault| self.push(place, fault)).ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them in the order of the file, or the value when there are none.
    pub(super) fn or<T>(mut self, value: Option<T>) -> Result<T, Vec<RuleError>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => {
                self.0.sort_by_key(|error| error.place);
                Err(self.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_shown_by_its_ends() {
        let fault = |found: String| Fault::Text {
            what: "\"of\"".to_owned(),
            found,
            expected: "a selector".to_owned(),
        };
        let shown = |fault| RuleError { place: Place::START, fault }.to_string();
        assert_eq!(
            shown(fault("x".to_owned())),
            r#"line 1, column 1: "of" is "x", expected a selector"#
        );
        for letters in [1000, 100_000] {
            let long = shown(fault("é".repeat(letters)));
            assert!(long.starts_with(r#"line 1, column 1: "of" is "éé"#), "{letters}: {long}");
            assert!(long.contains("é [...] é"), "{letters}: {long}");
            assert!(long.ends_with(r#"é", expected a selector"#), "{letters}: {long}");
            let shown = long.chars().count();
            assert!(shown < SHOWN_MAX + 30, "{letters}: {shown} letters");
        }
    }
}
