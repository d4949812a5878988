//! Which agents there are: a list that was given, files in Prometheus' `file_sd` form, or names of DNS with all their
//! addresses, as of a headless Service.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use wattscribe_rules::fleet::Found;

use crate::target::Target;

/// Where agents are looked for.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Agents that were given, each with its node.
    pub agents: Vec<Target>,
    /// Files of targets: JSON in the form of Prometheus' `file_sd_configs`.
    pub files: Vec<PathBuf>,
    /// `NAME:PORT` of DNS: every address is an agent.
    pub names: Vec<String>,
}

/// One agent: where it answers, and which node it is of, where anybody said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// What is asked.
    pub url: reqwest::Url,
    /// Its node.
    pub node: Option<String>,
}

impl Agent {
    /// As the fleet knows it: by where it answers.
    pub fn found(&self) -> Found {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        let path = if self.url.path() == "/metrics" { "" } else { self.url.path() };
        Found { address: format!("{host}:{port}{path}"), node: self.node.clone() }
    }
}

/// A group of `file_sd_configs`.
#[derive(Debug, Deserialize)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// The label of a group that names its node.
const NODE_LABEL: &str = "node";

impl Places {
    /// All agents that there are now, and what could not be looked up: that part of the answer is missing.
    pub async fn look(&self) -> (Vec<Agent>, Vec<String>) {
        let mut faults = Vec::new();
        let mut agents: Vec<Agent> = self
            .agents
            .iter()
            .map(|target| Agent { url: target.url.clone(), node: Some(target.name.clone()) })
            .collect();
        for file in &self.files {
            let text = fs::read_to_string(file).map_err(|error| error.to_string());
            match text.and_then(|text| of_file(&text)) {
                Ok(found) => agents.extend(found),
                Err(fault) => faults.push(format!("{}: {fault}", file.display())),
            }
        }
        for name in &self.names {
            match tokio::net::lookup_host(name.as_str()).await {
                Ok(found) => agents.extend(found.filter_map(|address| agent(&address.to_string()))),
                Err(error) => faults.push(format!("{name}: {error}")),
            }
        }
        agents.sort_by_key(|agent| agent.found().address);
        agents.dedup_by_key(|agent| agent.found().address);
        (agents, faults)
    }
}

fn agent(address: &str) -> Option<Agent> {
    let url = reqwest::Url::parse(&format!("http://{address}/metrics")).ok()?;
    Some(Agent { url, node: None })
}

fn of_file(text: &str) -> Result<Vec<Agent>, String> {
    let groups: Vec<Group> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut agents = Vec::new();
    for Group { targets, labels } in groups {
        let single = targets.len() == 1;
        for target in targets {
            let mut agent = agent(&target)
                .ok_or_else(|| format!("{target:?} is not an address, expected HOST:PORT"))?;
            // A name for several agents would be one node with the devices of all.
            agent.node = labels.get(NODE_LABEL).filter(|_| single).cloned();
            agents.push(agent);
        }
    }
    Ok(agents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_targets() {
        let text = r#"[
            {"targets": ["10.0.0.1:9405"], "labels": {"node": "n1", "rack": "a"}},
            {"targets": ["10.0.0.2:9405", "[fd00::1]:9743"], "labels": {"node": "both"}}
        ]"#;
        let agents = of_file(text).unwrap();
        let found: Vec<Found> = agents.iter().map(Agent::found).collect();
        let of = |address: &str, node: Option<&str>| Found {
            address: address.to_owned(),
            node: node.map(str::to_owned),
        };
        let expected = [
            of("10.0.0.1:9405", Some("n1")),
            of("10.0.0.2:9405", None),
            of("[fd00::1]:9743", None),
        ];
        assert_eq!(found, expected);
        assert!(of_file(r#"[{"targets": ["a b:1"]}]"#).unwrap_err().contains("HOST:PORT"));
        assert!(of_file("{}").is_err());
    }
}
