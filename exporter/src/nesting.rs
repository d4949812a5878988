//! Whether a whole draws what its parts draw: sensors of one thing that contradict each other.
//!
//! Pure. Nothing is withheld for it, because nothing says which of them is wrong.

use wattscribe_rules::RailKind;

use crate::cell::Verdict;
use crate::sensor::{Kind, Sensor, Zone};

/// A sensor and what may be published of it now.
type Seen<'a> = (&'a Sensor, &'a Verdict);

/// The sum of the parts of a whole as a fraction of the whole: above 1 they contradict each other. None
/// unless the whole and every part that is known have a reading, and no two parts are of one kind: a sum
/// that lacks a part, or counts one twice, says nothing.
pub fn parts_ratio((whole, verdict): Seen<'_>, all: &[Seen<'_>]) -> Option<f64> {
    let whole_w = verdict.watts.filter(|watts| *watts > 0.0)?;
    let parts = || all.iter().filter(|(sensor, _)| is_part(sensor, whole));
    let mut kinds: Vec<Kind> = Vec::new();
    let mut sum_w = 0.0;
    for (part, verdict) in parts() {
        if kinds.contains(&part.kind) {
            return None;
        }
        kinds.push(part.kind);
        sum_w += verdict.watts?;
    }
    (!kinds.is_empty()).then_some(sum_w / whole_w)
}

/// Whether the power of one sensor is inside that of another.
fn is_part(part: &Sensor, whole: &Sensor) -> bool {
    let is_within_zone = || part.id.rsplit_once(':').is_some_and(|(outer, _)| outer == whole.id);
    match (whole.kind, part.kind) {
        (Kind::Rail(RailKind::Total), Kind::Rail(rail)) => {
            let is_rail = matches!(rail, RailKind::CpuRail | RailKind::Soc | RailKind::Dram);
            is_rail && part.socket == whole.socket
        }
        (Kind::Zone(Zone::Package), Kind::Zone(Zone::Core | Zone::Uncore)) => is_within_zone(),
        (Kind::Zone(Zone::Psys), Kind::Zone(Zone::Package | Zone::Dram)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wattscribe_rules::{Averaging, State};

    use super::*;
    use crate::sensor::{Meter, Source};

    fn sensor(id: &str, kind: Kind, socket: u32) -> Sensor {
        Sensor {
            source: Source::Rapl,
            id: id.into(),
            channel: id.into(),
            kind,
            socket: Some(socket),
            label: String::new(),
            averaging: Averaging::Unknown,
            meter: Meter::Entity(0),
        }
    }

    fn verdict(watts: Option<f64>) -> Verdict {
        Verdict {
            state: if watts.is_some() { State::Ok } else { State::Transient },
            reason: None,
            watts,
            joules: None,
            joules_since_s: None,
            wraps: None,
            read_at: None,
            window_s: None,
            averaging: Averaging::Unknown,
        }
    }

    #[test]
    fn a_ratio_needs_the_whole_and_all_of_its_parts() {
        const PSYS: Kind = Kind::Zone(Zone::Psys);
        const PACKAGE: Kind = Kind::Zone(Zone::Package);
        const CORE: Kind = Kind::Zone(Zone::Core);
        const UNCORE: Kind = Kind::Zone(Zone::Uncore);
        const DRAM: Kind = Kind::Zone(Zone::Dram);
        const TOTAL: Kind = Kind::Rail(RailKind::Total);
        const CPU: Kind = Kind::Rail(RailKind::CpuRail);
        const SOC: Kind = Kind::Rail(RailKind::Soc);
        type Of = (&'static str, Kind, u32, Option<f64>);
        // The whole comes first.
        let cases: [(&[Of], Option<f64>); 12] = [
            (&[("a", TOTAL, 0, Some(100.0)), ("b", CPU, 0, Some(50.0))], Some(0.5)),
            (
                &[
                    ("a", TOTAL, 0, Some(100.0)),
                    ("b", CPU, 0, Some(90.0)),
                    ("c", SOC, 0, Some(30.0)),
                    ("d", CPU, 1, Some(7.0)),
                ],
                Some(1.2),
            ),
            (&[("a", TOTAL, 0, Some(100.0))], None),
            (&[("a", TOTAL, 0, None), ("b", CPU, 0, Some(50.0))], None),
            (&[("a", TOTAL, 0, Some(0.0)), ("b", CPU, 0, Some(50.0))], None),
            (&[("a", TOTAL, 0, Some(9.0)), ("b", CPU, 0, Some(5.0)), ("c", SOC, 0, None)], None),
            (
                &[("a", TOTAL, 0, Some(9.0)), ("b", CPU, 0, Some(5.0)), ("c", CPU, 0, Some(5.0))],
                None,
            ),
            (
                &[
                    ("z:0", PACKAGE, 0, Some(100.0)),
                    ("z:0:0", CORE, 0, Some(60.0)),
                    ("z:0:1", UNCORE, 0, Some(15.0)),
                    ("z:0:2", DRAM, 0, Some(40.0)), // beside it, not in it
                    ("z:1:0", CORE, 0, Some(7.0)),
                ],
                Some(0.75),
            ),
            (&[("z:0", PACKAGE, 0, Some(100.0)), ("z:0:2", DRAM, 0, Some(40.0))], None),
            (
                &[
                    ("z:1", PSYS, 0, Some(100.0)),
                    ("z:0", PACKAGE, 0, Some(90.0)),
                    ("z:0:2", DRAM, 0, Some(20.0)),
                ],
                Some(1.1),
            ),
            // Which of two packages a platform is around is not known.
            (
                &[
                    ("z:2", PSYS, 0, Some(100.0)),
                    ("z:0", PACKAGE, 0, Some(9.0)),
                    ("z:1", PACKAGE, 1, Some(9.0)),
                ],
                None,
            ),
            (&[("z:0:0", CORE, 0, Some(9.0)), ("z:0", PACKAGE, 0, Some(90.0))], None),
        ];
        for (of, expected) in cases {
            let sensors = of.iter().map(|(id, kind, socket, _)| sensor(id, *kind, *socket));
            let sensors: Vec<Sensor> = sensors.collect();
            let verdicts: Vec<Verdict> = of.iter().map(|(.., watts)| verdict(*watts)).collect();
            let seen: Vec<Seen<'_>> = sensors.iter().zip(&verdicts).collect();
            let found = parts_ratio(seen[0], &seen);
            let fits = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(fits, "{of:?}: {found:?}, expected {expected:?}");
        }
    }
}
