//! What becomes of a recording: which nodes are polled, and how each scrape of them goes.

use proptest::collection::vec;
use proptest::prelude::*;

/// One recording into the directory.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    /// Which of the nodes are polled: one bit each, one at least.
    pub(crate) polled: u8,
    /// Seconds since the one before.
    pub(crate) pause_s: u32,
    /// What becomes of each second of each node.
    pub(crate) seconds: Vec<[Second; 3]>,
    /// Whether it is killed, and how many of the results that were not yet written are lost.
    pub(crate) killed: bool,
    /// A segment becomes Parquet after so many scrapes.
    pub(crate) segment: usize,
}

/// What becomes of one scrape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Second {
    pub(crate) what: What,
    /// When it begins within its second, and how long before that its readings stand, in milliseconds.
    pub(crate) phase_ms: u16,
    pub(crate) age_ms: u16,
    pub(crate) watts: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Page,
    /// A page without the second socket and the second GPU.
    Half,
    /// A page whose second socket is withheld.
    Withheld,
    /// A page of nothing.
    Empty,
    Failed,
    /// The tick was missed, or the disk did not take it.
    Missing,
}

pub(crate) fn second() -> impl Strategy<Value = Second> {
    let what = prop_oneof![
        12 => Just(What::Page),
        1 => Just(What::Half),
        1 => Just(What::Withheld),
        1 => Just(What::Empty),
        2 => Just(What::Failed),
        1 => Just(What::Missing),
    ];
    (what, 0..1000_u16, 0..2500_u16, 50.0..500.0)
        .prop_map(|(what, phase_ms, age_ms, watts)| Second { what, phase_ms, age_ms, watts })
}

pub(crate) fn session() -> impl Strategy<Value = Session> {
    let seconds = vec([second(), second(), second()], 1..30);
    let pause_s = prop_oneof![Just(1_u32), 1..20_u32, 300..4000_u32];
    (1..8_u8, pause_s, seconds, any::<bool>(), 1..40_usize).prop_map(
        |(polled, pause_s, seconds, killed, segment)| Session {
            polled,
            pause_s,
            seconds,
            killed,
            segment,
        },
    )
}

/// A session in which all goes well.
pub(crate) fn plain(polled: u8, pause_s: u32, seconds: usize, killed: bool) -> Session {
    let second = Second { what: What::Page, phase_ms: 400, age_ms: 100, watts: 50.0 };
    Session { polled, pause_s, seconds: vec![[second; 3]; seconds], killed, segment: 37 }
}

/// Sessions as short text.
pub(crate) fn told(sessions: &[Session]) -> String {
    let told = |session: &Session| {
        let Session { polled, pause_s, seconds, killed, segment } = session;
        let seconds: Vec<String> = seconds
            .iter()
            .map(|nodes| {
                nodes.map(|of| format!("{:?}/{}/{}", of.what, of.phase_ms, of.age_ms)).join(" ")
            })
            .collect();
        format!(
            "polled {polled:03b}, pause {pause_s} s, killed {killed}, segment {segment}: {seconds:#?}"
        )
    };
    sessions.iter().map(told).collect::<Vec<_>>().join("\n")
}
