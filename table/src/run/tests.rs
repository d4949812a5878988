//! A run after every kind of interruption: each row is in samples.csv and in Parquet exactly once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::{TempDir, tempdir};
use wattscribe_rules::State;

use super::*;
use crate::made_rows::{cpu, derived, member, reading, scrape, withheld};
use crate::{
    CpuManifest, CpuPower, CpuSample, CsvVersion, DerivedRow, LongReading, PartReader, Row,
    RuleMember, RunSummary, SamplesCsv, Scrape, ScrapeNumber, open_any,
};

mod losses;
mod rules;

fn open(directory: &Path) -> (RunWriter, Recovery) {
    RunWriter::open(directory, Options::default()).unwrap()
}

/// Scrape number `seq`: two published rows, one withheld, one reading.
fn append(writer: &mut RunWriter, seq: u64) {
    let rows = vec![
        cpu("node-a", 0, seq),
        withheld("node-a", 1, seq, State::Stale),
        cpu("node-a", 2, seq),
    ];
    writer.append(scrape("node-a", seq), rows, vec![reading("node-a", seq)]).unwrap();
}

fn manifest() -> CpuManifest {
    CpuManifest {
        schema_version: CpuManifest::SCHEMA_VERSION,
        producer: CpuManifest::PRODUCER.into(),
        producer_git_commit: None,
        started_at_unix: None,
        stopped_at_unix: 0.0,
        nodes: BTreeMap::new(),
        wattscribe: RunSummary::default(),
    }
}

/// A directory with `count` scrapes whose recorder was killed.
fn killed(count: u64) -> TempDir {
    let directory = tempdir().unwrap();
    let (mut writer, recovery) = open(directory.path());
    assert_eq!(recovery, Recovery::default());
    (0..count).for_each(|seq| append(&mut writer, seq));
    directory
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn copied(from: &TempDir) -> TempDir {
    let directory = tempdir().unwrap();
    copy(from.path(), directory.path());
    directory
}

/// Socket and second of the rows of samples.csv.
fn csv_rows_of(directory: &Path) -> Vec<(u32, f64)> {
    let mut csv = SamplesCsv::open(&directory.join("cpu/samples.csv"));
    let rows = csv.by_ref().map(|row| (row.socket_id, row.timestamp_unix)).collect();
    assert_eq!(csv.issues(), []);
    rows
}

fn archived<R: Row>(directory: &Path) -> Vec<R> {
    let Ok(entries) = fs::read_dir(directory.join(R::TABLE)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    paths.sort();
    let rows = |path| PartReader::open(path).unwrap().collect::<Result<Vec<R>, _>>().unwrap();
    paths.iter().flat_map(|path| rows(path)).collect()
}

/// Opens and closes the run, then expects the scrapes `0..count` once in each place.
fn check_recovers(directory: &Path, count: u64, case: &str) -> Recovery {
    let live: Vec<CpuSample> = match RunReader::open(directory) {
        Ok(run) => run.rows().unwrap().collect::<Result<_, _>>().unwrap(),
        Err(_) => Vec::new(),
    };
    let (writer, recovery) = open(directory);
    writer.close(&manifest()).unwrap();
    let csv: Vec<_> = (0..count)
        .flat_map(|seq| [0, 2].map(|socket| (socket, cpu("node-a", socket, seq).timestamp_unix)))
        .collect();
    assert_eq!(csv_rows_of(directory), csv, "csv: {case}");
    let mut rows: Vec<_> = (0..count)
        .flat_map(|seq| {
            [cpu("node-a", 0, seq), withheld("node-a", 1, seq, State::Stale), cpu("node-a", 2, seq)]
        })
        .collect();
    rows.sort_by(CpuSample::order);
    let sorted = |mut rows: Vec<CpuSample>| {
        rows.sort_by(CpuSample::order);
        rows
    };
    assert_eq!(sorted(live), rows, "live: {case}");
    assert_eq!(sorted(archived(directory)), rows, "cpu_samples: {case}");
    let scrapes: Vec<_> = (0..count).map(|seq| scrape("node-a", seq)).collect();
    assert_eq!(archived::<Scrape>(directory), scrapes, "scrapes: {case}");
    let readings: Vec<_> = (0..count).map(|seq| reading("node-a", seq)).collect();
    assert_eq!(archived::<LongReading>(directory), readings, "readings: {case}");
    let left = fs::read_dir(directory.join("journal")).unwrap().count();
    assert_eq!(left, 0, "journal: {case}");
    recovery
}

#[test]
fn a_recording_that_ends_in_order() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = open(directory.path());
    (0..2).for_each(|seq| append(&mut writer, seq));
    let sealed = writer.rotate().unwrap();
    assert_eq!((sealed.records, sealed.rows), (2, 10));
    assert_eq!(writer.rotate().unwrap(), Sealed::default());
    append(&mut writer, 2);
    writer.sync().unwrap();
    writer.close(&manifest()).unwrap();
    let recovery = check_recovers(directory.path(), 3, "closed");
    assert!(recovery.resumed);
    assert_eq!(recovery.sealed, Sealed::default());
    assert_eq!(recovery.last_seq, BTreeMap::from([("node-a".to_owned(), 2)]));
    let read = Some(1_788_310_143_211_000);
    let sockets = (0..3).map(|socket| (("node-a".to_owned(), socket), read));
    assert_eq!(recovery.sockets, sockets.collect());
    assert_eq!(recovery.manifest, Some(manifest()));
}

#[test]
fn a_recorder_killed_after_each_scrape_goes_on() {
    let directory = tempdir().unwrap();
    for seq in 0..4u64 {
        let (mut writer, recovery) = open(directory.path());
        assert_eq!(recovery.last_seq.get("node-a").copied(), seq.checked_sub(1));
        assert_eq!(recovery.sealed.records, u64::from(seq > 0));
        append(&mut writer, seq);
    }
    check_recovers(directory.path(), 4, "killed");
    let csv = fs::read_to_string(directory.path().join("cpu/samples.csv")).unwrap();
    assert_eq!(csv.matches("schema_version").count(), 1);
}

#[test]
fn samples_csv_cut_at_any_byte_is_completed() {
    let run = killed(2);
    let whole = fs::read(run.path().join("cpu/samples.csv")).unwrap();
    for cut in 0..=whole.len() {
        let directory = copied(&run);
        fs::write(directory.path().join("cpu/samples.csv"), &whole[..cut]).unwrap();
        let recovery = check_recovers(directory.path(), 2, &format!("csv cut at {cut}"));
        assert_eq!(fs::read(directory.path().join("cpu/samples.csv")).unwrap(), whole);
        assert_eq!(recovery.csv_rows_left_out, 0);
    }
}

#[test]
fn a_journal_cut_at_any_byte_keeps_its_whole_scrapes() {
    let run = killed(2);
    let wal = run.path().join("journal/000001.wal");
    let whole = fs::read(&wal).unwrap();
    // What samples.csv and the journal were after each scrape: the journal is always the first to grow.
    let steps: Vec<_> = (0..=2)
        .map(|count| {
            let run = killed(count);
            let length = |name| fs::metadata(run.path().join(name)).unwrap().len() as usize;
            (length("journal/000001.wal"), length("cpu/samples.csv"))
        })
        .collect();
    let csv = fs::read(run.path().join("cpu/samples.csv")).unwrap();
    for cut in 0..=whole.len() {
        let count = steps.iter().rposition(|(wal, _)| *wal <= cut).unwrap_or(0);
        let directory = copied(&run);
        fs::write(directory.path().join("journal/000001.wal"), &whole[..cut]).unwrap();
        fs::write(directory.path().join("cpu/samples.csv"), &csv[..steps[count].1]).unwrap();
        let recovery =
            check_recovers(directory.path(), count as u64, &format!("journal cut at {cut}"));
        let kept = if cut < steps[0].0 { 0 } else { steps[count].0 };
        assert_eq!(recovery.sealed.bytes_dropped as usize, cut - kept);
    }
}

/// Every state between the steps of a rotation, made by hand: the new segment's header written so far, each of the three
/// parts there or not, a hidden file left behind, the old segment there or gone.
#[test]
fn a_rotation_stopped_anywhere_is_finished() {
    let before = killed(2);
    let after = copied(&before);
    drop(open(after.path()).0);
    let parts = [CpuSample::TABLE, LongReading::TABLE, Scrape::TABLE]
        .map(|table| format!("{table}/part-000001.parquet"));
    for there in 0..8u32 {
        for header in [None, Some(0), Some(5), Some(12)] {
            let directory = copied(&before);
            for (bit, part) in parts.iter().enumerate() {
                let path = directory.path().join(part);
                fs::create_dir(path.parent().unwrap()).unwrap();
                if there & (1 << bit) != 0 {
                    fs::copy(after.path().join(part), path).unwrap();
                } else {
                    fs::write(path.with_file_name(".part-000001.tmp"), "PAR1 half").unwrap();
                }
            }
            if let Some(bytes) = header {
                let header = &fs::read(before.path().join("journal/000001.wal")).unwrap()[..bytes];
                fs::write(directory.path().join("journal/000002.wal"), header).unwrap();
            }
            check_recovers(directory.path(), 2, &format!("parts {there:03b}, header {header:?}"));
        }
    }
    check_recovers(after.path(), 2, "segment removed");
}

#[test]
fn numbers_go_on_past_parts_and_damage() {
    let directory = tempdir().unwrap();
    fs::create_dir(directory.path().join("journal")).unwrap();
    fs::write(directory.path().join("journal/000001.damaged"), "").unwrap();
    drop(open(directory.path()));
    assert!(directory.path().join("journal/000002.wal").exists());
    fs::create_dir(directory.path().join("cpu_samples")).unwrap();
    fs::write(directory.path().join("cpu_samples/part-000041.parquet"), "").unwrap();
    drop(open(directory.path()));
    assert!(directory.path().join("journal/000042.wal").exists());
}

#[test]
fn a_second_recorder_is_refused() {
    let directory = tempdir().unwrap();
    let (writer, _) = open(directory.path());
    let error = RunWriter::open(directory.path(), Options::default()).unwrap_err();
    assert!(matches!(error, RunError::Locked { .. }), "{error}");
    drop(writer);
    drop(open(directory.path()));
}

#[test]
fn a_csv_of_other_hands_is_left_as_it_is() {
    for text in ["x", "timestamp,power\n1,2", "schema_version,timestamp_unix\r\n"] {
        let directory = tempdir().unwrap();
        fs::create_dir(directory.path().join("cpu")).unwrap();
        let path = directory.path().join("cpu/samples.csv");
        fs::write(&path, text).unwrap();
        let error = RunWriter::open(directory.path(), Options::default()).unwrap_err();
        assert!(matches!(error, RunError::OtherCsv { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let directory = killed(1);
    let options = Options { csv_version: CsvVersion::V2, ..Options::default() };
    let error = RunWriter::open(directory.path(), options).unwrap_err();
    assert!(error.to_string().contains("module_w,total_power_w\", expected"), "{error}");
    check_recovers(directory.path(), 1, "after a refusal");
}

#[test]
fn links_are_not_written_through() {
    for (name, is_directory) in [("cpu", true), ("journal", true), ("cpu/samples.csv", false)] {
        let directory = tempdir().unwrap();
        let elsewhere = tempdir().unwrap();
        let victim = elsewhere.path().join("victim");
        fs::write(&victim, "").unwrap();
        let link = directory.path().join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(if is_directory { elsewhere.path() } else { &victim }, link).unwrap();
        let error = RunWriter::open(directory.path(), Options::default()).unwrap_err();
        assert!(matches!(error, RunError::Disk(_)), "{name}: {error}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&victim).unwrap(), b"");
    }
}

#[test]
fn a_text_with_a_line_break_is_refused_whole() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = open(directory.path());
    let row = CpuSample { hostname: "node\na".into(), ..cpu("", 0, 0) };
    let error = writer.append(scrape("node-a", 0), vec![row], vec![]).unwrap_err();
    assert_eq!(error.to_string(), "hostname of socket 0 is \"node\\na\", expected no line break");
    drop(writer);
    check_recovers(directory.path(), 0, "nothing recorded");
}

#[test]
fn a_run_is_read_while_it_grows() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = open(directory.path());
    for seq in 0..5 {
        append(&mut writer, seq);
        if seq == 2 {
            writer.rotate().unwrap();
        }
        let rows: Vec<CpuPower> =
            open_any(directory.path()).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len() as u64, 3 * (seq + 1));
        for socket in 0..3 {
            let times: Vec<_> = rows
                .iter()
                .filter(|row| row.socket_id == socket)
                .map(|row| row.timestamp_unix)
                .collect();
            assert!(times.is_sorted(), "{times:?}");
        }
    }
    let numbers = RunReader::open(directory.path()).unwrap().rows::<ScrapeNumber>().unwrap();
    assert_eq!(numbers.map(|row| row.unwrap().seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn rows_listed_in_the_journal_and_sealed_since_come_once() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = open(directory.path());
    append(&mut writer, 0);
    let listed = RunReader::open(directory.path()).unwrap().rows::<CpuSample>().unwrap();
    writer.rotate().unwrap();
    assert_eq!(listed.count(), 3);
}

#[test]
fn any_path_that_holds_samples_is_read() {
    let run = killed(2);
    drop(open(run.path()));
    let count =
        |path: &Path| open_any::<CpuSample>(path).map(|rows| rows.map(Result::unwrap).count());
    for (name, expected) in [
        ("", 6),
        ("cpu_samples", 6),
        ("cpu_samples/part-000001.parquet", 6),
        ("cpu/samples.csv", 4),
        ("cpu", 4),
    ] {
        assert_eq!(count(&run.path().join(name)).unwrap(), expected, "{name}");
    }
    for name in ["journal", "journal/000002.wal", "nothing", "nothing.csv", "nothing.parquet"] {
        assert!(
            matches!(count(&run.path().join(name)), Err(ReadError::NotRecorded { .. })),
            "{name}"
        );
    }
}
