//! What rules make of scrapes goes the way of the scrapes: journal, crash, parts.

use super::*;
use crate::RuleRecord;

/// One result and one series of scrape number `seq`.
fn results(seq: u64) -> RuleRecord {
    RuleRecord {
        until_us: None,
        derived: vec![derived("node-a", seq)],
        members: vec![member("node-a", &format!("socket=\"{seq}\""))],
    }
}

#[test]
fn results_are_there_once_wherever_the_recorder_stopped() {
    let directory = tempdir().unwrap();
    for seq in 0..3u64 {
        // Killed after every scrape but the last; rotated in between.
        let (mut writer, recovery) = open(directory.path());
        assert_eq!(recovery.sealed.records, if seq == 1 { 1 } else { seq });
        append(&mut writer, seq);
        writer.append_rules(&results(seq)).unwrap();
        if seq == 0 {
            assert_eq!(writer.rotate().unwrap().rows, 3 + 1 + 1 + 2);
            writer.append_rules(&RuleRecord::default()).unwrap();
        }
        if seq == 2 {
            writer.close(&manifest()).unwrap();
        }
        check(directory.path(), seq + 1);
    }
    check_recovers(directory.path(), 3, "with results");
    check(directory.path(), 3);
    assert_eq!(archived::<DerivedRow>(directory.path()).len(), 3);
}

/// The results of so many scrapes, whether in parts or in the journal.
fn check(directory: &Path, count: u64) {
    let run = RunReader::open(directory).unwrap();
    let derived: Vec<DerivedRow> = run.rows().unwrap().map(Result::unwrap).collect();
    let expected = (0..count).map(|seq| results(seq).derived.remove(0));
    assert_eq!(derived, expected.collect::<Vec<_>>());
    let members: Vec<RuleMember> = run.rows().unwrap().map(Result::unwrap).collect();
    let expected = (0..count).map(|seq| results(seq).members.remove(0));
    assert_eq!(members, expected.collect::<Vec<_>>());
}

#[test]
fn the_rules_are_kept_beside_the_tables() {
    let directory = tempdir().unwrap();
    let (writer, _) = open(directory.path());
    for text in ["wattscribe_rules: 1\n", "# others\n"] {
        writer.keep_rules(text).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("rules.yaml")).unwrap(), text);
    }
}
