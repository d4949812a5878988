//! One recording as journal, as Parquet and as CSV gives rules the same.

use tempfile::tempdir;
use wattscribe_rules::State;

use super::*;
use crate::made_rows::{START_US, cpu, reading, scrape, withheld};
use crate::{
    CpuManifest, LongReading, Options, RunReader, RunSummary, RunWriter, SamplesCsv, Scrape,
};

/// Scrape number `seq` of a node: one socket or two, two kept samples, of which one says when it stands.
fn append(writer: &mut RunWriter, target: &str, seq: u64) {
    let rows = if seq == 1 {
        vec![cpu(target, 0, seq), withheld(target, 1, seq, State::Stale)]
    } else {
        vec![cpu(target, 0, seq)]
    };
    let other =
        LongReading { labels: "gpu=\"1\"".into(), read_at_us: None, ..reading(target, seq) };
    let unwanted = LongReading { metric: "node_load1".into(), ..reading(target, seq) };
    let readings = vec![other, unwanted, reading(target, seq)];
    writer.append(scrape(target, seq), rows, readings).unwrap();
}

fn wants(metric: &str) -> bool {
    metric != "node_load1"
}

fn pieces(directory: &std::path::Path) -> Vec<Piece> {
    let pieces = RunReader::open(directory).unwrap().pieces().unwrap();
    (0..pieces.len()).map(|place| pieces.read(place, &wants).unwrap()).collect()
}

/// What a piece says of a target, in words that do not depend on how series are numbered.
fn said(piece: &Piece, target: &str) -> Vec<String> {
    let of = piece.targets.iter().find(|of| &*of.target == target).unwrap();
    let scrapes = of.scrapes.iter().map(|scrape| format!("{scrape:?}"));
    let samples = of.samples.iter().map(|sample| {
        let SampleSeries { metric, labels } = &of.sample_series[sample.series as usize];
        format!("{} {metric}{{{labels}}} {} {}", sample.seq, sample.value, sample.at_us)
    });
    let sockets = of.sockets.iter().map(|socket| {
        let of = &of.socket_series[socket.series as usize];
        format!("{of:?} {:?}", SocketMark { series: 0, ..*socket })
    });
    let mut said: Vec<String> = scrapes.chain(samples).chain(sockets).collect();
    said.sort();
    said
}

#[test]
fn journal_and_parquet_give_the_same() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = RunWriter::open(directory.path(), Options::default()).unwrap();
    // Recorded in turns, and the later scrape of one first.
    for (target, seq) in [("b", 0), ("a", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)] {
        append(&mut writer, target, seq);
    }
    let failed = Scrape { outcome: "timeout".into(), ..scrape("a", 3) };
    writer.append(failed, vec![], vec![]).unwrap();
    let from_journal = pieces(directory.path());
    writer.rotate().unwrap();
    append(&mut writer, "a", 4);
    let from_parts = pieces(directory.path());
    assert_eq!((from_journal.len(), from_parts.len()), (1, 2));
    for target in ["a", "b"] {
        assert_eq!(said(&from_parts[0], target), said(&from_journal[0], target), "{target}");
    }
    let a = &from_parts[0].targets[0];
    assert_eq!(a.scrapes.iter().map(|scrape| scrape.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(
        a.scrapes.iter().map(|scrape| scrape.is_ok).collect::<Vec<_>>(),
        [true, true, true, false]
    );
    assert_eq!(a.samples.iter().map(|sample| sample.seq).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
    assert_eq!(
        a.sockets.iter().map(|socket| socket.state).filter(|state| !state.is_ok()).count(),
        1
    );
    let stands: Vec<i64> = a.samples[..2].iter().map(|sample| sample.at_us - START_US).collect();
    assert!(stands.contains(&0) && stands.contains(&-250_000), "{stands:?}");
    check_csv(directory.path(), &from_parts);
    check_since(directory.path());
}

/// The CSV has the same published powers at the same times.
fn check_csv(directory: &std::path::Path, from_parts: &[Piece]) {
    let csv = SamplesCsv::open(&directory.join("cpu/samples.csv"));
    let mut from_csv = CsvPieces::new(csv);
    let piece = from_csv.next().unwrap();
    assert_eq!((from_csv.next(), from_csv.warnings()), (None, vec![]));
    for target in &piece.targets {
        let powers = |of: &TargetPiece| -> Vec<(u64, Option<f64>)> {
            let ok = of.sockets.iter().filter(|socket| socket.state.is_ok());
            ok.map(|socket| (socket.at_s.to_bits(), socket.power_w)).collect()
        };
        let of_parts = from_parts.iter().flat_map(|piece| &piece.targets);
        let same = of_parts.filter(|of| of.target == target.target).flat_map(powers);
        assert_eq!(powers(target), same.collect::<Vec<_>>());
        let starts_s = target.scrapes.iter().map(|scrape| scrape.start_us as f64 / 1e6);
        assert_eq!(
            starts_s.collect::<Vec<_>>(),
            target.sockets.iter().map(|of| of.at_s).collect::<Vec<_>>()
        );
    }
}

fn check_since(directory: &std::path::Path) {
    for (after_us, count) in [(i64::MIN, 2), (3_000_000, 2), (3_000_001, 1), (9_000_000, 1)] {
        let all = RunReader::open(directory).unwrap().pieces().unwrap();
        let since = all.since(START_US.saturating_add(after_us)).unwrap();
        assert_eq!(since.len(), count, "{after_us} us after the start");
    }
}

#[test]
fn a_recorder_that_was_started_anew_is_told_by_its_clocks() {
    let mark = |timestamp_us, mono_ns| {
        ScrapeMark::from(&Scrape { timestamp_us, mono_ns, ..scrape("a", 0) })
    };
    let cases = [
        (mark(1_000_000, 300_000_000), mark(2_000_001, 1_300_000_999), false),
        (mark(1_000_000, 300_000_000), mark(1_900_000, 300_100_000), true),
        (mark(1_000_000, 300_000_000), mark(2_000_000, 1_200_000_000), true),
        (mark(1_000_000, 300_000_000), ScrapeMark { recorder_us: None, ..mark(9, 9) }, false),
    ];
    for (before, now, expected) in cases {
        assert_eq!(now.begins_session_after(&before), expected, "{before:?} {now:?}");
    }
}

#[test]
fn lines_of_one_time_are_one_scrape_over_pieces() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = RunWriter::open(directory.path(), Options::default()).unwrap();
    for seq in 0..70_000 {
        writer.append(scrape("a", seq), vec![cpu("a", 0, seq), cpu("a", 1, seq)], vec![]).unwrap();
    }
    let manifest = CpuManifest {
        schema_version: CpuManifest::SCHEMA_VERSION,
        producer: CpuManifest::PRODUCER.into(),
        producer_git_commit: None,
        started_at_unix: None,
        stopped_at_unix: 0.0,
        nodes: Default::default(),
        wattscribe: RunSummary::default(),
    };
    writer.close(&manifest).unwrap();
    let csv = SamplesCsv::open(&directory.path().join("cpu/samples.csv"));
    let pieces: Vec<Piece> = CsvPieces::new(csv).collect();
    assert_eq!(pieces.len(), 2);
    let targets = || pieces.iter().flat_map(|piece| &piece.targets);
    let numbers: Vec<u64> = targets().flat_map(|of| of.scrapes.iter().map(|of| of.seq)).collect();
    assert_eq!(numbers, (0..70_000).collect::<Vec<_>>());
    assert!(targets().all(|of| of.sockets.len() == 2 * of.scrapes.len()));
}
