//! How far each target of a recording goes: needed before the first scrape is taken, because whoever waits for a target
//! must know when it does not come any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::mark::ScrapeMark;
use super::piece::Piece;

/// The last scrape of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The piece that it is in, by its place.
    pub place: usize,
    /// The scrape.
    pub last: ScrapeMark,
}

/// The last scrape of every target, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extents {
    targets: BTreeMap<Arc<str>, Extent>,
    /// The latest of all.
    latest: Option<ScrapeMark>,
}

impl Extents {
    /// Takes in a piece. They come in their order.
    pub fn take(&mut self, place: usize, piece: &Piece) {
        for of in &piece.targets {
            let Some(last) = of.scrapes.last().copied() else { continue };
            self.targets.insert(Arc::clone(&of.target), Extent { place, last });
            if self.latest.is_none_or(|latest| latest.start_us <= last.start_us) {
                self.latest = Some(last);
            }
        }
    }

    /// The targets and how far they go.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Extent)> + '_ {
        self.targets.iter()
    }

    /// The place of the last piece of a target, if it was not recorded to the end: when a later recording into the same
    /// directory left it out, or, where recordings are not told apart, when nothing of it came within the last
    /// `silence_us` microseconds.
    pub fn ends_early(&self, target: &str, silence_us: i64) -> Option<usize> {
        let (of, latest) = (self.targets.get(target)?, self.latest?);
        let is_early = match latest.recorder_us {
            Some(_) => latest.begins_session_after(&of.last),
            None => of.last.start_us < latest.start_us.saturating_sub(silence_us),
        };
        is_early.then_some(of.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetPiece;

    fn piece(targets: &[(&str, i64, Option<i64>)]) -> Piece {
        let target = |&(name, start_us, recorder_us): &(&str, i64, Option<i64>)| TargetPiece {
            target: name.into(),
            scrapes: vec![ScrapeMark { seq: 0, start_us, recorder_us, is_ok: true }],
            ..TargetPiece::default()
        };
        Piece { targets: targets.iter().map(target).collect(), warnings: Vec::new() }
    }

    fn early(pieces: &[Piece], target: &str) -> Option<usize> {
        let mut extents = Extents::default();
        pieces.iter().enumerate().for_each(|(place, piece)| extents.take(place, piece));
        extents.ends_early(target, 1_000_000)
    }

    #[test]
    fn a_target_ends_early_when_a_later_recording_leaves_it_out() {
        let (first, second) = (Some(0), Some(9_000_000));
        let pieces = [
            piece(&[("gone", 1_000_000, first), ("kept", 1_000_000, first)]),
            piece(&[("gone", 2_000_000, first), ("slow", 2_000_000, first)]),
            piece(&[("kept", 10_000_000, second)]),
        ];
        assert_eq!(early(&pieces, "gone"), Some(1));
        assert_eq!(early(&pieces, "slow"), Some(1));
        assert_eq!(early(&pieces, "kept"), None);
        assert_eq!(early(&pieces, "nobody"), None);
        assert_eq!(early(&pieces[..2], "kept"), None, "one recording");
    }

    #[test]
    fn a_host_of_a_csv_ends_early_when_it_falls_silent() {
        let pieces = [
            piece(&[("a", 1_000_000, None), ("b", 1_000_001, None)]),
            piece(&[("c", 2_000_001, None)]),
        ];
        assert_eq!(early(&pieces, "a"), Some(0));
        assert_eq!(early(&pieces, "b"), None);
        assert_eq!(early(&pieces, "c"), None);
    }
}
