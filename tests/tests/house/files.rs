//! docs/files.md against the schemas of the tables, the headers of samples.csv, the manifest and the journal.

use std::collections::BTreeSet;
use std::io::Cursor;

use serde_json::{Value, json};
use wattscribe_table::{
    CpuManifest, CpuSample, CsvVersion, DerivedRow, EnergyWindow, LongReading, NodeSummary, Row,
    RuleMember, RunSummary, SamplesCsv, Scrape, TargetSummary, csv_header,
};

use crate::markdown::{code, section, table};
use crate::repository::text;
use crate::words::documented;

/// Name, type and unit of every column, as the page writes them.
fn columns<R: Row>() -> Vec<[String; 3]> {
    let word = |data_type: String| match data_type.as_str() {
        "Utf8" => "text".to_owned(),
        "Float64" => "double".to_owned(),
        "Int64" => "int64".to_owned(),
        "Boolean" => "bool".to_owned(),
        time if time.contains("UTC") => "timestamp".to_owned(),
        other => format!("{other}, which the page does not explain"),
    };
    let columns = R::columns().into_iter();
    columns
        .map(|column| {
            let unit = column.unit.unwrap_or_default().to_owned();
            [column.name.to_owned(), word(column.data_type.to_string()), unit]
        })
        .collect()
}

#[test]
fn every_column_is_documented_in_its_place() {
    let tables = [
        (CpuSample::TABLE, columns::<CpuSample>()),
        (Scrape::TABLE, columns::<Scrape>()),
        (LongReading::TABLE, columns::<LongReading>()),
        (DerivedRow::TABLE, columns::<DerivedRow>()),
        (RuleMember::TABLE, columns::<RuleMember>()),
        (EnergyWindow::TABLE, columns::<EnergyWindow>()),
    ];
    let page = text("docs/files.md");
    for (name, columns) in tables {
        let documented: Vec<[String; 3]> = table(&page, name)
            .iter()
            .map(|row| [code(&row[0]).concat(), row[1].clone(), row[2].clone()])
            .collect();
        assert_eq!(documented, columns, "{name}");
    }
}

#[test]
fn the_headers_of_samples_csv_are_those_that_are_read_and_written() {
    let page = text("docs/files.md");
    let headers: Vec<(&str, &str)> = section(&page, "samples.csv")
        .lines()
        .filter_map(|line| line.strip_prefix("version ")?.split_once("   "))
        .collect();
    assert_eq!(
        headers.iter().map(|(version, _)| *version).collect::<Vec<_>>(),
        ["3", "2", "1", "4"]
    );
    for (version, header) in &headers {
        let reader = SamplesCsv::new(Cursor::new(format!("{header}\r\n")));
        assert_eq!(reader.issues(), [], "version {version}");
    }
    for (version, written) in [("3", CsvVersion::V3), ("2", CsvVersion::V2)] {
        let (_, header) = headers.iter().find(|(of, _)| *of == version).unwrap();
        assert_eq!(format!("{header}\r\n").into_bytes(), csv_header(written), "version {version}");
    }
    let unknown = SamplesCsv::new(Cursor::new(b"schema_version,power_w\r\n"));
    assert_eq!(unknown.issues().len(), 1, "a header of no version must be an issue");
}

#[test]
fn every_key_of_the_manifest_is_documented() {
    let node = NodeSummary { resolved_mode: "acpi".into(), scrape_count: 1, error_count: 0 };
    let target = TargetSummary {
        errors_by_class: [("CLASS".to_owned(), 1)].into(),
        ..TargetSummary::default()
    };
    let manifest = CpuManifest {
        schema_version: CpuManifest::SCHEMA_VERSION,
        producer: CpuManifest::PRODUCER.into(),
        producer_git_commit: None,
        started_at_unix: None,
        stopped_at_unix: 0.0,
        nodes: [("NAME".to_owned(), node)].into(),
        wattscribe: RunSummary {
            simulated: Some("false".into()),
            command: Some(vec!["true".into()]),
            rules: Some("built-in".into()),
            targets: [("NAME".to_owned(), target)].into(),
            ..RunSummary::default()
        },
    };
    let json: Value = serde_json::from_slice(&manifest.to_json()).unwrap();
    let mut keys = BTreeSet::new();
    flatten("", &json, &mut keys);
    assert_eq!(documented("docs/files.md", "cpu_manifest.json"), keys);
    assert!(section(&text("docs/files.md"), "cpu_manifest.json").contains(CpuManifest::PRODUCER));
}

/// The paths to everything that is no object.
fn flatten(path: &str, value: &Value, keys: &mut BTreeSet<String>) {
    let Value::Object(members) = value else {
        keys.insert(path.to_owned());
        return;
    };
    for (key, value) in members {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        flatten(&path, value, keys);
    }
}

#[test]
fn keys_are_flattened() {
    let mut keys = BTreeSet::new();
    flatten("", &json!({"a": 1, "b": {"c": null, "d": [1, 2]}}), &mut keys);
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["a", "b.c", "b.d"]);
}
