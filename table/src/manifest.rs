//! cpu_manifest.json: who recorded samples.csv, when, and how it went per node.
//!
//! The first keys are those that readers of the format know; all of ours are under `wattscribe`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The manifest of a recording. Its keys are written in this order, nodes and targets sorted by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuManifest {
    /// Version of the keys outside of `wattscribe`: [`CpuManifest::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Program that recorded: [`CpuManifest::PRODUCER`].
    pub producer: String,
    /// Commit it was built from, where known.
    pub producer_git_commit: Option<String>,
    /// Unix seconds; `None` if the first scrape was never begun.
    pub started_at_unix: Option<f64>,
    /// Unix seconds.
    pub stopped_at_unix: f64,
    /// Per node, by the name in the `hostname` column.
    pub nodes: BTreeMap<String, NodeSummary>,
    /// What we add.
    pub wattscribe: RunSummary,
}

/// How the scrapes of a node went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Source of its rows: `acpi`, `dcgm`, `rapl`, or `unknown` when it never had any.
    pub resolved_mode: String,
    /// Scrapes that ended, well or not.
    pub scrape_count: u64,
    /// Scrapes whose page had no power of any socket, failed ones included.
    pub error_count: u64,
}

/// What we add to the manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Version of the recorder.
    pub version: String,
    /// Whether the values were simulated: `true`, `false` or `mixed`; absent without rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<String>,
    /// Scrape interval in seconds; the shortest, where the run was recorded to more than once.
    pub interval_s: f64,
    /// Whether the recording went on in a directory that had one.
    pub resumed: bool,
    /// The command that was recorded around, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The rules that were evaluated, as the file that was given or `built-in`; absent without rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// Per target, by its name.
    pub targets: BTreeMap<String, TargetSummary>,
}

/// How the scrapes of a target went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSummary {
    /// What was asked.
    pub url: String,
    /// Scrapes that ended, well or not.
    pub scrapes: u64,
    /// Failed scrapes by class of error.
    pub errors_by_class: BTreeMap<String, u64>,
    /// Scheduled scrapes that were left out.
    pub missed_ticks: u64,
    /// What the last error said.
    pub last_error: Option<String>,
    /// Last known clock of the node minus clock of the recorder, in microseconds.
    pub clock_offset_us: Option<i64>,
    /// The offset is within plus and minus this, in microseconds.
    pub clock_error_us: Option<i64>,
}

impl CpuManifest {
    /// The version of the format.
    pub const SCHEMA_VERSION: u32 = 1;
    /// Our name in the manifest.
    pub const PRODUCER: &'static str = "wattscribe.cpu-power";

    /// The file's bytes: JSON indented by two, with a last line end.
    pub fn to_json(&self) -> Vec<u8> {
        // Serializing fails only for maps whose keys are not strings, and for types that say so; none is in here.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// Text that is not JSON or lacks a key, with line and column.
    pub fn from_json(json: &[u8]) -> Result<CpuManifest, serde_json::Error> {
        serde_json::from_slice(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_to_the_byte() {
        let node = NodeSummary { resolved_mode: "acpi".into(), scrape_count: 3, error_count: 1 };
        let target = TargetSummary {
            url: "http://node-a:9405/metrics".into(),
            scrapes: 3,
            errors_by_class: BTreeMap::from([("timeout".into(), 1)]),
            last_error: Some("no answer within 2 s".into()),
            ..TargetSummary::default()
        };
        let manifest = CpuManifest {
            schema_version: CpuManifest::SCHEMA_VERSION,
            producer: CpuManifest::PRODUCER.into(),
            producer_git_commit: None,
            started_at_unix: Some(1788310143.0),
            stopped_at_unix: 1788310146.5,
            nodes: BTreeMap::from([("node-a".into(), node)]),
            wattscribe: RunSummary {
                version: "0.1.0".into(),
                simulated: Some("false".into()),
                interval_s: 1.0,
                targets: BTreeMap::from([("node-a".into(), target)]),
                ..RunSummary::default()
            },
        };
        let expected = r#"{
  "schema_version": 1,
  "producer": "wattscribe.cpu-power",
  "producer_git_commit": null,
  "started_at_unix": 1788310143.0,
  "stopped_at_unix": 1788310146.5,
  "nodes": {
    "node-a": {
      "resolved_mode": "acpi",
      "scrape_count": 3,
      "error_count": 1
    }
  },
  "wattscribe": {
    "version": "0.1.0",
    "simulated": "false",
    "interval_s": 1.0,
    "resumed": false,
    "targets": {
      "node-a": {
        "url": "http://node-a:9405/metrics",
        "scrapes": 3,
        "errors_by_class": {
          "timeout": 1
        },
        "missed_ticks": 0,
        "last_error": "no answer within 2 s",
        "clock_offset_us": null,
        "clock_error_us": null
      }
    }
  }
}
"#;
        assert_eq!(String::from_utf8(manifest.to_json()).unwrap(), expected);
        assert_eq!(CpuManifest::from_json(expected.as_bytes()).unwrap(), manifest);
    }
}
