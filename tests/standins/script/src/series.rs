//! A number over time, as a script writes it: a constant, or steps.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A double that JSON can hold even when it is not finite: `"NaN"`, `"inf"` and `"-inf"` are words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number(pub f64);

/// A number over time. In JSON a number, or a list of `[seconds, number]` with `null` for no reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Series {
    /// The same at all times.
    Constant(Number),
    /// Each step holds from its time on, in seconds since the library was first called. Before the first there is no
    /// reading.
    Steps(Vec<(f64, Option<Number>)>),
}

impl Series {
    /// The number at a time in seconds since the library was first called.
    pub fn at(&self, seconds: f64) -> Option<f64> {
        let number = match self {
            Series::Constant(number) => Some(*number),
            Series::Steps(steps) => steps.iter().rev().find(|(from, _)| *from <= seconds)?.1,
        };
        number.map(|Number(value)| value)
    }

    /// Steps of `(seconds, number)`.
    pub fn steps(steps: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let step = |(seconds, number)| (seconds, Some(Number(number)));
        Series::Steps(steps.into_iter().map(step).collect())
    }
}

impl From<f64> for Series {
    fn from(number: f64) -> Self {
        Series::Constant(Number(number))
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Word(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Number(number)),
            Written::Word(word) => match word.parse() {
                Ok(number) if !f64::is_finite(number) => Ok(Number(number)),
                _ => Err(serde::de::Error::custom(format!(
                    "found {word:?}, expected a number, \"NaN\", \"inf\" or \"-inf\""
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_until_the_next() {
        let series: Series = serde_json::from_str("[[1, 500], [2.5, null], [4, \"NaN\"]]").unwrap();
        let cases = [(0.9, None), (1.0, Some(500.0)), (2.4, Some(500.0)), (2.5, None), (3.9, None)];
        for (seconds, expected) in cases {
            assert_eq!(series.at(seconds), expected, "{seconds} s");
        }
        assert!(series.at(4.0).unwrap().is_nan());
        assert_eq!(Series::steps([(0.0, 1.0), (1.0, 2.0)]).at(1.5), Some(2.0));
        assert_eq!(Series::from(3.0).at(-1.0), Some(3.0));
    }

    #[test]
    fn numbers_survive_json() {
        let cases = [("539000.25", true), ("\"inf\"", true), ("\"-inf\"", true), ("\"1\"", false)];
        for (text, is_number) in cases {
            let read = serde_json::from_str::<Series>(text);
            assert_eq!(read.is_ok(), is_number, "{text}");
            if let Ok(series) = read {
                assert_eq!(serde_json::to_string(&series).unwrap(), text);
            }
        }
    }
}
