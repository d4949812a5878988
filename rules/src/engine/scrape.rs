//! What the engine takes: one scrape of one target, as it is recorded.

use crate::state::State;

/// A series that some rule takes, by its place in the list of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub(crate) u32);

/// One scrape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scrape<'a> {
    /// Its number; numbers of one target rise.
    pub seq: u64,
    /// When it began, in Unix seconds of the recorder's clock.
    pub start_s: f64,
    /// Whether it is the first of a recording: a directory may hold several, one after the other.
    pub begins_session: bool,
    /// What came of it.
    pub answer: Answer<'a>,
}

/// What came of a scrape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer<'a> {
    /// No page, or one that was not believed.
    Failed,
    /// A page.
    Page {
        /// What is new of sockets: a socket that is not named has nothing new.
        sockets: &'a [Observed],
        /// Every sample that a rule takes: a series that is not named is not on the page.
        samples: &'a [Observed],
    },
}

/// One reading of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The series.
    pub series: SeriesId,
    /// When the value stands, in Unix seconds of the recorder's clock.
    pub at_s: f64,
    /// The value, or the state in which it was withheld.
    pub value: Result<f64, State>,
    /// For a counter: since when it counts, where that is told.
    pub since_s: Option<f64>,
}
