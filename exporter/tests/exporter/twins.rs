//! Sockets that read one number: told when it is no chance any more, and when it is over.

use std::sync::Arc;
use std::time::Duration;

use wattscribe_exporter::board::Board;
use wattscribe_exporter::cell::{Cell, Limits, Verdict};
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure;
use wattscribe_exporter::ladder::{Ground, SourceChoice, climb};
use wattscribe_exporter::page::render;
use wattscribe_exporter::sensor::{CpuField, Kind, Measure, Meter, Sensor, Source, Zone};
use wattscribe_exporter::twins::{EQUAL_READS, TwinWatch};
use wattscribe_exporter::vigil::Said;
use wattscribe_parser::Format;
use wattscribe_rules::{Averaging, RailKind};

use crate::fixture::{LIMITS, Tree, board, eventually, samples, value};
use crate::superchip::Engines;

fn sensor(kind: Kind, socket: u32) -> Sensor {
    let (id, channel) = (format!("cpu{socket}"), String::new());
    let (averaging, meter) = (Averaging::Unknown, Meter::Entity(socket));
    let (source, socket) = (Source::Dcgm, Some(socket));
    Sensor { source, id, channel, kind, socket, label: String::new(), averaging, meter }
}

/// A verdict as a cell gives it that was read at this second.
fn verdict(outcome: Result<f64, Failure>, second: u32) -> Verdict {
    let monotonic = Duration::from_secs(second.into());
    let at = Now { wall_s: 0.0, monotonic, boot: monotonic };
    let cell = Cell::new(sensor(Kind::CpuField(CpuField::CpuRail), 0));
    cell.finish(outcome.map(Measure::Watts), at).ok();
    let patience = Duration::from_secs(3600);
    cell.judge(at, Limits { stale_after: patience, read_deadline: patience })
}

/// Some looks in a row: what each of two sockets reads at each, what is said in all, and how many pairs are twins
/// after the last.
struct Looks {
    count: u32,
    reads: fn(u32) -> [Result<f64, Failure>; 2],
    /// When each was read for the look of this number.
    at: fn(u32) -> [u32; 2],
    said: &'static [&'static str],
    found: usize,
}

/// Looks at sensors of these kinds and sockets.
fn check(what: &str, sensors: [(Kind, u32); 2], phases: &[Looks]) {
    let sensors = sensors.map(|(kind, socket)| sensor(kind, socket));
    let mut twins = TwinWatch::default();
    let mut look = 0;
    for (phase, looks) in phases.iter().enumerate() {
        let mut said = Vec::new();
        for _ in 0..looks.count {
            look += 1;
            let [a, b] = (looks.reads)(look);
            let [a_at, b_at] = (looks.at)(look);
            let verdicts = [verdict(a, a_at), verdict(b, b_at)];
            said.extend(twins.look(&sensors.iter().zip(&verdicts).collect::<Vec<_>>()));
        }
        let said: Vec<String> = said
            .into_iter()
            .map(|said| match said {
                Said::Warn(text) => format!("! {text}"),
                Said::Info(text) => format!("+ {text}"),
            })
            .collect();
        assert_eq!(said, looks.said, "{what}, phase {phase}");
        assert_eq!(twins.found().len(), looks.found, "{what}, phase {phase}");
    }
}

const TOTALS: [(Kind, u32); 2] =
    [(Kind::Rail(RailKind::Total), 0), (Kind::Rail(RailKind::Total), 1)];
const RAILS: [(Kind, u32); 2] =
    [(Kind::CpuField(CpuField::CpuRail), 0), (Kind::CpuField(CpuField::CpuRail), 1)];

const ONE: fn(u32) -> [Result<f64, Failure>; 2] = |_| [Ok(31.427); 2];
const MOVES: fn(u32) -> [Result<f64, Failure>; 2] = |look| [Ok(31.0 + f64::from(look) / 8.0); 2];
const DIFFER: fn(u32) -> [Result<f64, Failure>; 2] = |_| [Ok(31.427), Ok(31.428)];
const MISSING: fn(u32) -> [Result<f64, Failure>; 2] = |_| [Ok(31.427), Err(Failure::Blank)];

const ANEW: fn(u32) -> [u32; 2] = |look| [look; 2];

const TOLD: &str =
    "! 60 reads in a row gave sockets the same number: one meter may stand for both cpu0 and cpu1";
const OVER: &str = "+ sockets differ again: cpu0 and cpu1";

const fn looks(
    count: u32,
    reads: fn(u32) -> [Result<f64, Failure>; 2],
    said: &'static [&'static str],
    found: usize,
) -> Looks {
    Looks { count, reads, at: ANEW, said, found }
}

#[test]
fn twins_are_told_once_and_so_is_their_end() {
    for (what, sensors) in [("ACPI", TOTALS), ("DCGM", RAILS)] {
        for reads in [ONE, MOVES] {
            let phases = [
                looks(EQUAL_READS - 1, reads, &[], 0),
                looks(1, reads, &[TOLD], 1),
                looks(1000, reads, &[], 1),
                // A reading that is missing proves nothing.
                looks(5, MISSING, &[], 0),
                looks(1, reads, &[], 1),
                looks(1, DIFFER, &[OVER], 0),
                looks(EQUAL_READS - 1, reads, &[], 0),
                looks(1, DIFFER, &[], 0),
                looks(EQUAL_READS, reads, &[TOLD], 1),
            ];
            check(what, sensors, &phases);
        }
    }
}

#[test]
fn only_new_readings_of_two_sockets_count() {
    let many = |at| [Looks { count: 1000, reads: MOVES, at, said: &[], found: 0 }];
    check("one reading, seen again and again", TOTALS, &many(|_| [7; 2]));
    check("one that stands still", TOTALS, &many(|look| [look, 7]));
    // Seen twice a read, and at every other look the second is a read behind.
    let behind = [Looks {
        count: 2 * EQUAL_READS,
        reads: |look| [look / 2, (look - 1) / 2].map(|read| Ok(31.0 + f64::from(read))),
        at: |look| [look / 2, (look - 1) / 2].map(|read| read + 1),
        said: &[TOLD],
        found: 1,
    }];
    check("one that is read later", TOTALS, &behind);
    let others = [
        ("two meters of one socket", [(Kind::Rail(RailKind::Total), 0); 2]),
        ("SysIO", [0, 1].map(|socket| (Kind::CpuField(CpuField::SysIo), socket))),
        ("DRAM", [0, 1].map(|socket| (Kind::Rail(RailKind::Dram), socket))),
        ("RAPL", [0, 1].map(|socket| (Kind::Zone(Zone::Package), socket))),
    ];
    for (what, sensors) in others {
        check(what, sensors, &[looks(1000, ONE, &[], 0)]);
    }
}

/// What the page says of twins once the watch has looked often enough.
fn wait_for_twins(board: &Board, what: &str, expected: &[&str]) {
    eventually(what, || {
        board.watch(Now::read());
        let page = render(board, Now::read(), Format::Text);
        samples(&page, "power_sensor_twin") == expected
    });
}

#[test]
fn twins_are_on_the_page_with_their_readings() {
    let meters = [("Grace Power Socket 0", "31427000"), ("Grace Power Socket 1", "31427000")];
    let tree = Tree::meters(&meters);
    let board = board(tree.sysfs(), Source::Acpi);
    let expected = [
        r#"power_sensor_twin{source="acpi",sensor="ACPI000D:00/power1",twin="ACPI000D:01/power1"} 1"#,
        r#"power_sensor_twin{source="acpi",sensor="ACPI000D:01/power1",twin="ACPI000D:00/power1"} 1"#,
    ];
    wait_for_twins(&board, "they are twins", &expected);
    let page = render(&board, Now::read(), Format::Text);
    assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 2, "nothing is withheld: {page}");
    tree.write("devices/ACPI000D:01/hwmon/hwmon1/power1_average", "31428000\n");
    wait_for_twins(&board, "they differ", &[]);
    let page = render(&board, Now::read(), Format::Text);
    assert!(!page.contains("power_sensor_twin"), "no header without a sample: {page}");
}

#[test]
fn an_engine_that_has_one_number_for_two_cpus_is_noticed() {
    let engines = Engines::of(&[(31.427, 6.0), (31.427, 5.0), (50.0, 6.0)]);
    let ground = Ground::of(&engines.config(&Tree::new::<&str>(&[]), SourceChoice::Dcgm));
    let chosen = climb(&ground, None).unwrap();
    let board: Arc<Board> = Board::start(Some(chosen), ground, None, LIMITS).unwrap();
    let expected = [
        r#"power_sensor_twin{source="dcgm",sensor="cpu0/1130",twin="cpu1/1130"} 1"#,
        r#"power_sensor_twin{source="dcgm",sensor="cpu1/1130",twin="cpu0/1130"} 1"#,
    ];
    wait_for_twins(&board, "they are twins", &expected);
    let page = render(&board, Now::read(), Format::Text);
    let rail = &[r#"socket="1",field_id="1130""#];
    assert_eq!(value(&page, "cpu_power_dcgm_watts", rail), Some(31.427));
}
