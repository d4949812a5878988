//! What is lost is said, and what is around it is kept.

use std::io::Write;

use super::*;

#[test]
fn scrapes_around_damage_are_kept_and_the_loss_is_said() {
    let directory = killed(3);
    let wal = directory.path().join("journal/000001.wal");
    let mut bytes = fs::read(&wal).unwrap();
    let first = fs::metadata(killed(1).path().join("journal/000001.wal")).unwrap().len() as usize;
    // The length of the second scrape is now one MiB more, and reaches beyond the end.
    bytes[first + 2] ^= 0x10;
    fs::write(&wal, &bytes).unwrap();
    let csv = fs::read(directory.path().join("cpu/samples.csv")).unwrap();

    let warned = |aside: &Path| {
        let mut rows = open_any::<CpuPower>(directory.path()).unwrap();
        let times: Vec<_> = rows.by_ref().map(|row| row.unwrap().timestamp_unix).collect();
        // By socket, then by time.
        assert_eq!(times, [0, 2, 0, 2, 0, 2].map(|seq| cpu("node-a", 0, seq).timestamp_unix));
        assert_eq!(rows.warnings().len(), 1);
        assert!(rows.warnings()[0].starts_with(&format!("{}: ", aside.display())));
    };
    warned(&wal);
    let (writer, recovery) = open(directory.path());
    let aside = directory.path().join("journal/000001.damaged");
    assert_eq!(recovery.sealed.damaged, std::slice::from_ref(&aside));
    assert_eq!((recovery.sealed.records, recovery.csv_rows_left_out), (2, 0));
    assert_eq!(recovery.last_seq, BTreeMap::from([("node-a".to_owned(), 2)]));
    assert_eq!(recovery.warnings.len(), 2);
    assert_eq!(fs::read(&aside).unwrap(), bytes);
    assert_eq!(fs::read(directory.path().join("cpu/samples.csv")).unwrap(), csv);
    writer.close(&manifest()).unwrap();
    warned(&aside);
}

#[test]
fn every_loss_is_a_line_for_the_log() {
    let directory = killed(1);
    let append_to = |name: &str, bytes: &[u8]| {
        let mut file = fs::OpenOptions::new().append(true).open(directory.path().join(name));
        file.as_mut().unwrap().write_all(bytes).unwrap();
    };
    append_to("journal/000001.wal", &[9, 0, 0]);
    append_to("cpu/samples.csv", b"node-");
    let (_, recovery) = open(directory.path());
    let csv = directory.path().join("cpu/samples.csv");
    let expected = [
        "journal: 3 bytes were no whole scrape".to_owned(),
        format!("{}: 5 bytes of a torn last line were cut", csv.display()),
    ];
    assert_eq!(recovery.warnings, expected);
}

#[test]
fn a_csv_shorter_than_the_journal_knows_is_not_guessed_at() {
    let directory = tempdir().unwrap();
    let (mut writer, _) = open(directory.path());
    append(&mut writer, 0);
    writer.rotate().unwrap();
    append(&mut writer, 1);
    drop(writer);
    let path = directory.path().join("cpu/samples.csv");
    fs::write(&path, crate::csv_header(CsvVersion::V3)).unwrap();
    let (_, recovery) = open(directory.path());
    assert_eq!((recovery.csv_rows_added, recovery.csv_rows_left_out), (0, 2));
    let [warning] = &recovery.warnings[..] else { panic!("{:?}", recovery.warnings) };
    assert!(warning.contains("cpu/samples.csv: 2 rows are left out"), "{warning}");
    assert_eq!(csv_rows_of(directory.path()), []);
    assert_eq!(archived::<Scrape>(directory.path()).len(), 2);
}
