//! Which targets each recording into a directory had, and how far each went: needed before the first scrape is taken,
//! because whoever waits for a target must know when it does not come any more.
//!
//! A piece is of one recording, since opening a directory closes what was there. A target that a later recording leaves
//! out has ended with its last scrape; one that comes back begins anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::mark::ScrapeMark;
use super::piece::Piece;

/// The recordings of a directory, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sessions {
    /// Of each piece, the number of its recording.
    pieces: Vec<usize>,
    sessions: Vec<Session>,
    /// The last scrape that was taken in.
    before: Option<ScrapeMark>,
    /// The latest beginning of a scrape, in Unix microseconds.
    latest_us: i64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Session {
    first_place: usize,
    targets: BTreeMap<Arc<str>, Extent>,
}

/// The last of a target in one recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// The piece that it is in, by its place.
    place: usize,
    last_us: i64,
}

impl Sessions {
    /// Takes in the scrapes of a piece. They come in their order.
    pub fn take(&mut self, piece: &Piece) {
        let place = self.pieces.len();
        let first = piece.targets.iter().find_map(|of| of.scrapes.first()).copied();
        let begins = match (first, self.before) {
            (Some(first), Some(before)) => first.begins_session_after(&before),
            (_, None) => self.sessions.is_empty(),
            (None, _) => false,
        };
        if begins {
            self.sessions.push(Session { first_place: place, targets: BTreeMap::new() });
        }
        self.before = first.or(self.before);
        self.pieces.push(self.sessions.len().saturating_sub(1));
        let Some(session) = self.sessions.last_mut() else { return };
        for of in &piece.targets {
            let Some(last) = of.scrapes.last() else { continue };
            let extent = Extent { place, last_us: last.start_us };
            session.targets.insert(Arc::clone(&of.target), extent);
            self.latest_us = self.latest_us.max(last.start_us);
        }
    }

    /// Says that another recording follows, with these targets.
    pub fn go_on_with(&mut self, targets: &[&str]) {
        let extent = Extent { place: usize::MAX, last_us: i64::MAX };
        let targets = targets.iter().map(|target| (Arc::from(*target), extent)).collect();
        self.sessions.push(Session { first_place: self.pieces.len(), targets });
    }

    /// All targets, by name.
    pub fn targets(&self) -> impl Iterator<Item = &str> + '_ {
        let mut names: Vec<&str> = self
            .sessions
            .iter()
            .flat_map(|session| session.targets.keys())
            .map(|name| &**name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// The targets of the recording that begins with a piece, by its place; `None` when it goes on there.
    pub fn beginning_at(&self, place: usize) -> Option<impl Iterator<Item = &str> + '_> {
        let session = self.sessions.iter().find(|session| session.first_place == place)?;
        Some(session.targets.keys().map(|name| &**name))
    }

    /// Whether a target ends with a piece: its recording has nothing more of it, and the next one leaves it out.
    pub fn ends_at(&self, place: usize, target: &str) -> bool {
        let Some(&number) = self.pieces.get(place) else { return false };
        let is_last = |session: &Session| {
            session.targets.get(target).is_some_and(|extent| extent.place == place)
        };
        self.sessions.get(number).is_some_and(is_last)
            && self.sessions.get(number + 1).is_some_and(|next| !next.targets.contains_key(target))
    }

    /// Whether a target of the only recording there is falls silent with a piece: nothing of it comes within the last
    /// `silence_us` microseconds. For files that have no scrapes, where that is all that can be told.
    pub fn falls_silent_at(&self, place: usize, target: &str, silence_us: i64) -> bool {
        let extent = self.sessions.last().and_then(|session| session.targets.get(target));
        extent.is_some_and(|extent| {
            extent.place == place && extent.last_us < self.latest_us.saturating_sub(silence_us)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetPiece;

    fn piece(recorder_us: Option<i64>, targets: &[(&str, i64)]) -> Piece {
        let target = |&(name, start_us): &(&str, i64)| TargetPiece {
            target: name.into(),
            scrapes: vec![ScrapeMark { seq: 0, start_us, recorder_us, is_ok: true }],
            ..TargetPiece::default()
        };
        Piece { targets: targets.iter().map(target).collect(), warnings: Vec::new() }
    }

    fn sessions(pieces: &[Piece]) -> Sessions {
        let mut sessions = Sessions::default();
        pieces.iter().for_each(|piece| sessions.take(piece));
        sessions
    }

    /// `a` in all three recordings, `b` in the first and the last, `c` in the first alone.
    fn three() -> Sessions {
        sessions(&[
            piece(Some(0), &[("a", 1), ("b", 1), ("c", 1)]),
            piece(Some(0), &[("a", 2), ("c", 2)]),
            piece(Some(1000), &[("a", 1001)]),
            Piece::default(),
            piece(Some(2000), &[("a", 2001), ("b", 2001)]),
        ])
    }

    #[test]
    fn a_target_ends_where_a_later_recording_leaves_it_out() {
        let sessions = three();
        let ends: Vec<(usize, &str)> = (0..6)
            .flat_map(|place| ["a", "b", "c", "d"].map(|target| (place, target)))
            .filter(|(place, target)| sessions.ends_at(*place, target))
            .collect();
        assert_eq!(ends, [(0, "b"), (1, "c")]);
        assert_eq!(sessions.targets().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn recordings_begin_with_a_piece() {
        let sessions = three();
        let begun: Vec<(usize, Vec<&str>)> = (0..6)
            .filter_map(|place| Some((place, sessions.beginning_at(place)?.collect())))
            .collect();
        assert_eq!(begun, [(0, vec!["a", "b", "c"]), (2, vec!["a"]), (4, vec!["a", "b"])]);
    }

    #[test]
    fn a_recording_that_is_about_to_begin_counts() {
        let mut sessions = three();
        sessions.go_on_with(&["b", "d"]);
        assert!(sessions.ends_at(4, "a") && !sessions.ends_at(4, "b"));
        assert_eq!(sessions.beginning_at(5).unwrap().collect::<Vec<_>>(), ["b", "d"]);
    }

    #[test]
    fn a_host_of_a_csv_falls_silent() {
        let sessions = sessions(&[
            piece(None, &[("a", 1_000_000), ("b", 1_000_001)]),
            piece(None, &[("c", 2_000_001)]),
        ]);
        let silent = |place, target| sessions.falls_silent_at(place, target, 1_000_000);
        assert!(silent(0, "a") && !silent(1, "a") && !silent(0, "b") && !silent(1, "c"));
        assert!(!sessions.ends_at(0, "a"));
    }
}
