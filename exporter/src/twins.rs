//! Sockets that read the same number, read after read: most likely one meter that is shown for two of them.
//!
//! Pure. It is a flag and takes nothing off the page: whether one meter stands for both, nobody here can know.

use std::time::Duration;

use wattscribe_rules::RailKind;

use crate::cell::Verdict;
use crate::sensor::{CpuField, Kind, Sensor, Source};
use crate::vigil::{Said, Seen};

/// How many reads in a row two sockets may share to the bit. Meters resolve a milliwatt or less, and from one read to
/// the next a socket moves by many of them even while it idles: two sockets meet once in a hundred reads at most, and
/// sixty times in a row never. Only where a meter resolves whole watts may a minute of idling do it, which is why
/// this is a flag.
pub const EQUAL_READS: u32 = 60;

/// Two sockets' sensors whose readings are one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twins {
    /// Who reads them.
    pub source: Source,
    /// Their identities.
    pub sensors: [String; 2],
}

/// All pairs of sockets, and for how long each has been one number.
#[derive(Debug, Default)]
pub struct TwinWatch {
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    twins: Twins,
    /// When both were read for the last comparison, on the monotonic clock.
    compared_at: Option<[Duration; 2]>,
    /// How many comparisons in a row found one number.
    equal_reads: u32,
    /// Whether both had a reading at the last look.
    is_read: bool,
}

impl TwinWatch {
    /// Looks once at the sensors of the CPUs, and says what is new.
    pub fn look(&mut self, seen: &[Seen<'_>]) -> Vec<Said> {
        let sockets: Vec<&Seen<'_>> = seen.iter().filter(|(sensor, _)| is_whole(sensor)).collect();
        let mut before = std::mem::take(&mut self.pairs);
        let (mut new, mut over) = (Vec::new(), Vec::new());
        for (place, (a, of_a)) in sockets.iter().enumerate() {
            for (b, of_b) in &sockets[place + 1..] {
                if a.socket == b.socket {
                    continue;
                }
                let twins = Twins { source: a.source, sensors: [a.id.clone(), b.id.clone()] };
                let known = before.iter().position(|pair| pair.twins == twins);
                let mut pair = known.map_or_else(|| Pair::new(twins), |at| before.swap_remove(at));
                let was_one = pair.is_one();
                pair.compare(of_a, of_b);
                match (was_one, pair.is_one()) {
                    (false, true) => new.push(format!("{} and {}", a.id, b.id)),
                    (true, false) => over.push(format!("{} and {}", a.id, b.id)),
                    _ => {}
                }
                self.pairs.push(pair);
            }
        }
        let told = (!new.is_empty()).then(|| {
            Said::Warn(format!(
                "{EQUAL_READS} reads in a row gave sockets the same number: one meter may stand for both {}",
                new.join(", ")
            ))
        });
        let ended = (!over.is_empty())
            .then(|| Said::Info(format!("sockets differ again: {}", over.join(", "))));
        told.into_iter().chain(ended).collect()
    }

    /// The pairs that are one number now.
    pub fn found(&self) -> Vec<Twins> {
        let found = self.pairs.iter().filter(|pair| pair.is_read && pair.is_one());
        found.map(|pair| pair.twins.clone()).collect()
    }
}

impl Pair {
    fn new(twins: Twins) -> Self {
        Self { twins, compared_at: None, equal_reads: 0, is_read: false }
    }

    fn is_one(&self) -> bool {
        self.equal_reads >= EQUAL_READS
    }

    /// Compares readings that are both new: in between, one sensor is ahead of the other. While one has none, what was
    /// found stands.
    fn compare(&mut self, a: &Verdict, b: &Verdict) {
        let reading = |verdict: &Verdict| Some((verdict.watts?, verdict.read_at?.monotonic));
        let readings = reading(a).zip(reading(b));
        self.is_read = readings.is_some();
        let Some(((a_w, a_at), (b_w, b_at))) = readings else { return };
        if self.compared_at.is_some_and(|[a_before, b_before]| a_at <= a_before || b_at <= b_before)
        {
            return;
        }
        self.compared_at = Some([a_at, b_at]);
        let is_equal = a_w.to_bits() == b_w.to_bits();
        self.equal_reads = if is_equal { self.equal_reads.saturating_add(1) } else { 0 };
    }
}

/// What ACPI and DCGM have for a whole socket. RAPL's power is a difference over a time of each zone's own, so that not
/// even one counter shown twice would give one number.
fn is_whole(sensor: &Sensor) -> bool {
    matches!(sensor.kind, Kind::Rail(RailKind::Total) | Kind::CpuField(CpuField::CpuRail))
}
