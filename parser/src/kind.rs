//! The kinds of metric family that text format 0.0.4 knows.

/// Kind of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only ever goes up, until it starts again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations under rising bounds.
    Histogram,
    /// Quantiles that the target computed.
    Summary,
    /// Nobody said.
    Untyped,
}

impl Kind {
    /// The word of a `# TYPE` line in text format 0.0.4.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }

    /// The kind of a word, lower case as Prometheus wants it.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Gauge, Self::Counter, Self::Histogram, Self::Summary, Self::Untyped]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}
