//! The journal's bytes, and what is left of a segment after each kind of accident.

use std::fs;

use tempfile::tempdir;

use super::*;
use crate::made_rows::{cpu, derived, member, reading, scrape};
use crate::{RuleRecord, ScrapeRecord};

fn scrape_record(seq: u64) -> ScrapeRecord {
    ScrapeRecord {
        scrape: scrape("node-a", seq),
        cpu: vec![cpu("node-a", 0, seq), cpu("node-a", 1, seq)],
        readings: vec![reading("node-a", seq)],
        csv_offset: 120 + 170 * seq,
    }
}

/// Scrapes, and of every third what rules made of them.
fn record(seq: u64) -> Record {
    if seq % 3 == 2 {
        // The last byte is not zero: a cut is to be told from what blank bytes complete.
        let members = vec![member("node-a", "socket=\"0\"")];
        let derived = vec![derived("node-a", seq)];
        return Record::Rules(RuleRecord { derived, members, until_us: Some(seq as i64) });
    }
    Record::Scrape(Box::new(scrape_record(seq)))
}

fn borrowed(record: &Record) -> RecordRef<'_> {
    match record {
        Record::Scrape(record) => RecordRef::Scrape(record),
        Record::Rules(record) => RecordRef::Rules(record),
    }
}

fn segment(records: &[Record]) -> Vec<u8> {
    let directory = tempdir().unwrap();
    let path = directory.path().join("000001.wal");
    let mut segment = Segment::create(&path).unwrap();
    records.iter().try_for_each(|record| segment.append(borrowed(record))).unwrap();
    assert_eq!(segment.records(), records.len() as u64);
    fs::read(path).unwrap()
}

fn read(bytes: &[u8]) -> (Vec<Record>, Tail) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("000001.wal");
    fs::write(&path, bytes).unwrap();
    let mut reader = SegmentReader::open(&path).unwrap();
    let records = reader.by_ref().collect::<Result<_, _>>().unwrap();
    (records, reader.tail().unwrap())
}

/// A change of these bytes makes journals of running recorders unreadable: it needs a new version.
#[test]
fn the_segment_to_the_byte() {
    let small = ScrapeRecord { cpu: vec![], readings: vec![], csv_offset: 300, ..scrape_record(1) };
    let bytes = segment(&[Record::Scrape(Box::new(small))]);
    assert_eq!(bytes[..12], *b"wattscrb\x02\0\0\0");
    let payload = &bytes[20..];
    assert_eq!(bytes[12..16], (payload.len() as u32).to_le_bytes());
    assert_eq!(bytes[16..20], crc32fast::hash(payload).to_le_bytes());
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "0090a3c5eeac9dad06066e6f64652d611a687474703a2f2f6e6f64652d613a393430352f6d6574726963730180a8d6b907\
                    880e01c801026f6b000180200c020001ef0101880e000000ac02";
    assert_eq!(hex, expected);
    let sums = [1, 2].map(|seq| {
        let whole = segment(&[record(seq)]);
        (whole.len(), crc32fast::hash(&whole))
    });
    assert_eq!(sums, [(389, 4_033_704_270), (185, 1_862_018_603)]);
}

#[test]
fn a_segment_cut_at_any_byte_gives_its_whole_records() {
    let records: Vec<_> = (0..3).map(record).collect();
    let bytes = segment(&records);
    let ends: Vec<usize> = (0..=3).map(|count| segment(&records[..count]).len()).collect();
    for cut in 0..=bytes.len() {
        let whole = ends.iter().rposition(|end| *end <= cut);
        let dropped = cut - whole.map_or(0, |whole| ends[whole]);
        let tail = if dropped == 0 { Tail::Clean } else { Tail::Torn { bytes: dropped as u64 } };
        let expected = (records[..whole.unwrap_or(0)].to_vec(), tail);
        assert_eq!(read(&bytes[..cut]), expected, "cut at {cut}");
        // A file system may have extended the file before it lost the data.
        let blank = [&bytes[..cut], &[0; 40]].concat();
        let (found, tail) = read(&blank);
        assert_eq!(found, expected.0, "blank from {cut}");
        assert!(!matches!(tail, Tail::Clean), "blank from {cut}");
    }
}

#[test]
fn a_changed_byte_costs_the_record_that_holds_it() {
    let records: Vec<_> = (0..3).map(record).collect();
    let bytes = segment(&records);
    let ends: Vec<usize> = (0..=3).map(|count| segment(&records[..count]).len()).collect();
    for at in 12..bytes.len() {
        for mask in [0x01, 0x40] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            let hit = ends.iter().rposition(|end| *end <= at).unwrap();
            let mut others = records.clone();
            others.remove(hit);
            let (found, tail) = read(&changed);
            assert_eq!(found, others, "byte {at}");
            let lost = (ends[hit + 1] - ends[hit]) as u64;
            if hit < 2 {
                assert_eq!(tail, Tail::Damaged { bytes: lost }, "byte {at}");
            } else {
                assert!(
                    [Tail::Torn { bytes: lost }, Tail::Damaged { bytes: lost }].contains(&tail),
                    "byte {at}: {tail:?}"
                );
            }
        }
    }
}

#[test]
fn whole_records_behind_damage_are_read() {
    let records: Vec<_> = (0..3).map(record).collect();
    let bytes = segment(&records);
    let ends: Vec<usize> = (0..=3).map(|count| segment(&records[..count]).len()).collect();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        bytes
    };
    let length_plus = |bytes: &mut Vec<u8>, at: usize, more: u8| bytes[at + 2] ^= more;
    let size = |at: usize| (ends[at + 1] - ends[at]) as u64;
    let cases = [
        (
            "a length that reaches beyond the end",
            changed(&|bytes| length_plus(bytes, ends[1], 0x10)),
            vec![0, 2],
            size(1),
        ),
        (
            "two lengths in a row",
            changed(&|bytes| {
                length_plus(bytes, ends[0], 0x10);
                length_plus(bytes, ends[1], 0x20);
            }),
            vec![2],
            size(0) + size(1),
        ),
        (
            "damage on both sides of a whole record",
            changed(&|bytes| {
                bytes[ends[0] + 30] ^= 1;
                bytes[ends[2] + 30] ^= 1;
            }),
            vec![1],
            size(0) + size(2),
        ),
        (
            "blank bytes in the middle",
            changed(&|bytes| bytes[ends[1] - 5..ends[1] + 20].fill(0)),
            vec![2],
            size(0) + size(1),
        ),
        (
            "bytes of nobody between two records",
            changed(&|bytes| drop(bytes.splice(ends[1]..ends[1], [7; 1000]))),
            vec![0, 1, 2],
            1000,
        ),
        (
            "bytes that are missing",
            changed(&|bytes| drop(bytes.drain(ends[1] + 3..ends[1] + 40))),
            vec![0, 2],
            size(1) - 37,
        ),
        (
            "damage, and then a torn end",
            changed(&|bytes| {
                length_plus(bytes, ends[0], 0x10);
                bytes.truncate(ends[2] + 9);
            }),
            vec![1],
            size(0) + 9,
        ),
        ("a magic with a flipped bit", changed(&|bytes| bytes[3] ^= 4), vec![0, 1, 2], 12),
    ];
    for (case, bytes, whole, lost) in cases {
        let whole: Vec<_> = whole.into_iter().map(|at: usize| records[at].clone()).collect();
        assert_eq!(read(&bytes), (whole, Tail::Damaged { bytes: lost }), "{case}");
    }
    let foreign = [b"another file", &bytes[12..]].concat();
    let all = Tail::Damaged { bytes: foreign.len() as u64 };
    assert_eq!(read(&foreign), (vec![], all), "no version that is known");
}

#[test]
fn another_version_is_refused() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("000001.wal");
    fs::write(&path, b"wattscrb\x01\0\0\0").unwrap();
    let error = SegmentReader::open(&path).unwrap_err();
    assert!(matches!(error, JournalError::OtherVersion { found: 1, .. }), "{error}");
}

#[test]
fn a_scrape_beyond_the_bound_leaves_nothing() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("000001.wal");
    let mut segment = Segment::create(&path).unwrap();
    let text = "x".repeat(RECORD_BYTES_MAX as usize);
    let mut large = scrape_record(1);
    large.readings[0].labels.clone_from(&text);
    let error = segment.append(RecordRef::Scrape(&large)).unwrap_err();
    assert!(error.to_string().starts_with("scrape 1 of node-a takes 67109"), "{error}");
    let mut large = RuleRecord { derived: vec![derived("node-a", 1)], ..RuleRecord::default() };
    large.derived[0].labels = text;
    let error = segment.append(RecordRef::Rules(&large)).unwrap_err();
    assert!(error.to_string().starts_with("a record of 1 results takes 67108"), "{error}");
    segment.append(borrowed(&record(2))).unwrap();
    assert_eq!(read(&fs::read(&path).unwrap()), (vec![record(2)], Tail::Clean));
}

#[test]
fn a_number_that_is_taken_is_not_begun_again() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("000001.wal");
    drop(Segment::create(&path).unwrap());
    let mut segment = Segment::create(&path).unwrap();
    segment.append(borrowed(&record(1))).unwrap();
    assert!(Segment::create(&path).is_err());
    assert_eq!(read(&fs::read(&path).unwrap()), (vec![record(1)], Tail::Clean));
}
