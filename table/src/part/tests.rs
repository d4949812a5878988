//! Parquet files: rows come back as they were, footers say what they should, and nothing half-made has a name.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use arrow_array::{Array, ArrayRef, TimestampMicrosecondArray};
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use tempfile::tempdir;

use super::*;
use crate::made_rows::{any_cpu_row, cpu, derived, member, reading, scrape, withheld};
use crate::samples_csv::{CsvVersion, SamplesCsv, csv_header, csv_rows};
use crate::{CpuPower, CpuSample, DerivedRow, EnergyWindow, LongReading, Scrape, ScrapeNumber};
use wattscribe_rules::State;

fn read<R: Row>(path: &Path) -> Vec<R> {
    PartReader::open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Writes rows and reads them back: the same in the table's order.
fn check_round_trip<T: Table + PartialEq + std::fmt::Debug>(mut rows: Vec<T>) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("part-000001.parquet");
    write_part(&path, rows.clone(), None).unwrap();
    rows.sort_by(T::order);
    assert_eq!(read::<T>(&path), rows);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn cpu_rows_come_back(rows in prop::collection::vec(any_cpu_row(), 1..40)) {
        check_round_trip(rows);
    }

    #[test]
    fn times_are_those_of_the_csv(us in 0i64..4_000_000_000_000_000) {
        let row = CpuSample { timestamp_unix: us as f64 / 1e6, ..cpu("node-a", 0, 0) };
        let csv = [csv_header(CsvVersion::V3), csv_rows(CsvVersion::V3, [&row])].concat();
        let from_csv = SamplesCsv::new(std::io::Cursor::new(csv)).next().unwrap();
        let directory = tempdir().unwrap();
        let path = directory.path().join("x.parquet");
        write_part(&path, vec![row], None).unwrap();
        let from_part: Vec<CpuSample> = read(&path);
        prop_assert_eq!(from_part[0].timestamp_unix.to_bits(), from_csv.timestamp_unix.to_bits());
    }
}

/// A withheld window of the fleet.
fn fleet_window() -> DerivedRow {
    DerivedRow {
        start_us: Some(1_788_310_080_000_000),
        window: Some("job 7".into()),
        node: None,
        labels: "gpu=\"0\"".into(),
        value: None,
        unit: "J".into(),
        state: State::Disagree,
        reason: Some("counter".into()),
        low: Some(1.5),
        high: Some(2.5),
        counter: Some(9.0),
        spread: None,
        coverage: 0.5,
        members_reporting: 1,
        simulated: true,
        ..derived("", 3)
    }
}

#[test]
fn every_table_comes_back() {
    check_round_trip(vec![
        scrape("b", 2),
        scrape("a", 9),
        scrape("a", 8),
        Scrape {
            status: None,
            outcome: "timeout".into(),
            detail: Some("no answer within 2 s".into()),
            bytes: None,
            clock_offset_us: None,
            clock_error_us: None,
            wall_step_us: -3,
            ..scrape("c", 1)
        },
    ]);
    check_round_trip(vec![
        LongReading { value: f64::NEG_INFINITY, sample_timestamp_ms: Some(-1), ..reading("b", 1) },
        LongReading { read_at_us: None, ..reading("a", 1) },
    ]);
    check_round_trip(vec![derived("b", 1), derived("a", 2), fleet_window()]);
    check_round_trip(vec![member("b", "socket=\"1\""), member("b", ""), member("a", "")]);
    let window = EnergyWindow {
        name: "run".into(),
        boundary: "total".into(),
        hostname: None,
        socket_id: None,
        source: None,
        start_unix: 1788310143.4610002,
        end_unix: 1788310153.0,
        energy_j: None,
        covered_s: 0.0,
        coverage: 0.0,
        avg_w: None,
        samples: 0,
        largest_gap_s: None,
        min_w: None,
        max_w: None,
        p5_w: None,
        p50_w: None,
        p95_w: None,
        p99_w: None,
        percentiles_exact: true,
        energy_low_j: None,
        energy_high_j: None,
        counter_energy_j: None,
        counter_disagreement: None,
        members_expected: 2,
        members_reporting: 1,
        verdict: "none".into(),
        reasons: "no_readings".into(),
        simulated: true,
    };
    let socket = EnergyWindow {
        hostname: Some("a".into()),
        socket_id: Some(1),
        energy_j: Some(5.5),
        ..window.clone()
    };
    check_round_trip(vec![socket, window]);
}

#[test]
fn a_narrow_row_reads_the_same_values() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    let rows: Vec<_> = (0..20_000).map(|seq| cpu("node-a", 0, seq)).collect();
    write_part(&path, rows.clone(), None).unwrap();
    let expected: Vec<CpuPower> = rows.into_iter().map(CpuPower::from).collect();
    assert_eq!(read::<CpuPower>(&path), expected);
}

#[test]
fn the_footer_tells_a_stranger_what_it_is() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    let rows: Vec<_> = (0..ROW_GROUP_ROWS as u64 + 1).map(|seq| cpu("node-a", 0, seq)).collect();
    write_part(&path, rows, Some(Simulated::Mixed)).unwrap();
    assert_eq!(PartReader::<CpuSample>::open(&path).unwrap().simulated(), Some("mixed"));

    let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.num_row_groups(), 2);
    let value = |key: &str| {
        let pairs = metadata.file_metadata().key_value_metadata().unwrap();
        pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone())
    };
    assert_eq!(value("wattscribe.schema").as_deref(), Some("cpu_samples"));
    assert_eq!(value("wattscribe.schema_version").as_deref(), Some("1"));
    assert_eq!(value("wattscribe.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let units: BTreeMap<String, String> =
        serde_json::from_str(&value("wattscribe.units").unwrap()).unwrap();
    assert_eq!((units["power_w"].as_str(), units["energy_counter_j"].as_str()), ("W", "J"));
    let group = metadata.row_group(0);
    let sorted: Vec<_> = group
        .sorting_columns()
        .unwrap()
        .iter()
        .map(|by| group.column(by.column_idx as usize).column_path().string())
        .collect();
    assert_eq!(sorted, CpuSample::SORTED_BY);
    for column in group.columns() {
        assert!(matches!(column.compression(), Compression::ZSTD(_)));
        assert!(column.column_descr().self_type().is_optional());
    }
}

#[test]
fn a_table_the_file_does_not_hold_is_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    write_part(&path, vec![scrape("a", 1)], None).unwrap();
    assert!(matches!(PartReader::<CpuSample>::open(&path), Err(PartError::OtherTable { .. })));
    assert_eq!(read::<ScrapeNumber>(&path), [ScrapeNumber { target: "a".into(), seq: 1 }]);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 4, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(
            matches!(PartReader::<Scrape>::open(&path), Err(PartError::Parquet { .. })),
            "{cut}"
        );
    }
    assert!(matches!(
        PartReader::<Scrape>::open(&directory.path().join("y")),
        Err(PartError::Disk(_))
    ));
}

/// Scrapes as another tool might have rewritten them: its own compression, no footer of ours, and times whose zone is
/// `zone`.
fn rewritten(path: &Path, compression: Compression, zone: Option<&str>) {
    let arrays = Scrape::to_arrays(&[scrape("a", 1)]).unwrap();
    let columns = Scrape::columns().into_iter().zip(arrays).map(|(column, array)| {
        let array = match array.as_any().downcast_ref::<TimestampMicrosecondArray>() {
            Some(times) => Arc::new(times.clone().with_timezone_opt(zone)) as ArrayRef,
            None => array,
        };
        (column.name, array)
    });
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn files_that_other_tools_rewrote_are_read_unless_their_times_have_no_zone() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    for compression in [Compression::SNAPPY, Compression::UNCOMPRESSED] {
        for zone in ["UTC", "+00:00", "Europe/Berlin"] {
            rewritten(&path, compression, Some(zone));
            assert_eq!(read::<Scrape>(&path), [scrape("a", 1)], "{compression} {zone}");
        }
    }
    rewritten(&path, Compression::SNAPPY, None);
    let error = PartReader::<Scrape>::open(&path).unwrap().next().unwrap().unwrap_err();
    let expected = "column timestamp, row 0: found a timestamp without a time zone, expected a UTC timestamp in \
                    microseconds";
    assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
}

#[test]
fn rows_out_of_order_are_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    let mut writer = PartWriter::create(&path).unwrap();
    writer.write(&[cpu("a", 0, 1), cpu("a", 0, 1)]).unwrap();
    let error = writer.write(&[cpu("a", 0, 2), cpu("b", 0, 0), cpu("a", 0, 3)]).unwrap_err();
    assert!(matches!(error, PartError::NotSorted { row: 4, .. }), "{error}");
    drop(writer);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_name_appears_with_the_whole_file_and_links_are_not_followed() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("part-000001.parquet");
    let hidden = directory.path().join(".part-000001.tmp");
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &hidden).unwrap();
    symlink(&victim, &path).unwrap();

    let mut writer = PartWriter::create(&path).unwrap();
    writer.write(&[withheld("a", 0, 1, State::Lost)]).unwrap();
    assert!(hidden.exists());
    writer.finish(Some(Simulated::False)).unwrap();
    assert!(!hidden.exists());
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(read::<CpuSample>(&path), [withheld("a", 0, 1, State::Lost)]);
}

/// Parquet itself would give other numbers for some of these.
#[test]
fn a_byte_that_flipped_is_no_other_number() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("part-000001.parquet");
    let rows: Vec<CpuSample> = (0..20).map(|at| cpu("node-a", 0, at)).collect();
    write_part(&path, rows.clone(), Some(Simulated::False)).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut damaged = 0;
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        match PartReader::<CpuSample>::open(&path)
            .and_then(|part| part.collect::<Result<Vec<_>, _>>())
        {
            // The name of the tool that wrote the file.
            Ok(found) => assert!(found == rows, "byte {at} of {}: {found:?}", whole.len()),
            Err(error @ PartError::Damaged { .. }) => {
                damaged += 1;
                let text = error.to_string();
                assert!(text.contains("part-000001.parquet: damaged: found CRC-32"), "{text}");
            }
            Err(_) => {}
        }
    }
    assert!(damaged > 300, "{damaged} of {}", whole.len());
}

#[test]
fn simulated_of_rows() {
    let cases: [(&[bool], _); 5] = [
        (&[], None),
        (&[true, true], Some(Simulated::True)),
        (&[false], Some(Simulated::False)),
        (&[false, true], Some(Simulated::Mixed)),
        (&[true, false, true], Some(Simulated::Mixed)),
    ];
    for (rows, expected) in cases {
        assert_eq!(Simulated::of(rows.iter().copied()), expected, "{rows:?}");
    }
}
