//! A Prometheus server of the test's own.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::file;
use crate::http::{self, try_get};
use crate::peer::Peer;
use crate::program::Running;
use crate::wait::eventually;

/// A running server; its data goes with it.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    server: Running,
    _data: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes `targets` (instance and address) every second as the job `cpu-power-exporter`, and knows
    /// the rules and alerts of `deploy/`. None where there is no Prometheus, which is then said.
    pub fn start(targets: &[(&str, SocketAddr)]) -> Option<Self> {
        let rules = ["deploy/prometheus/rules.yml", "deploy/prometheus/alerts.yml"].map(file);
        Self::with_rules(targets, "1s", &rules)
    }

    /// As [`start`](Self::start), with a scrape interval and rule files of its own.
    pub fn with_rules(
        targets: &[(&str, SocketAddr)],
        interval: &str,
        rules: &[PathBuf],
    ) -> Option<Self> {
        let program = Peer::Prometheus.find()?;
        let data = TempDir::new().unwrap();
        let config = data.path().join("prometheus.yml");
        std::fs::write(&config, configuration(targets, interval, rules)).unwrap();
        // Another process may take the port between the two: then another port is tried.
        for _ in 0..3 {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut server = serve(&program, &config, data.path(), address);
            let is_ready = eventually("Prometheus is ready", || {
                if !server.is_running() {
                    return Some(false);
                }
                let answer = try_get(address, "/-/ready", "*/*").ok()?;
                (answer.status == 200).then_some(true)
            });
            if is_ready {
                return Some(Self { address, server, _data: data });
            }
        }
        panic!("Prometheus does not start");
    }

    /// Evaluates an expression now.
    pub fn query(&self, expression: &str) -> Vec<Value> {
        let path = format!("/api/v1/query?query={}", escape(expression));
        let answer = http::get(self.address, &path);
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.server.said()
    }
}

fn serve(program: &Path, config: &Path, data: &Path, address: SocketAddr) -> Running {
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=debug");
    Running::start(&mut command)
}

fn configuration(targets: &[(&str, SocketAddr)], interval: &str, rules: &[PathBuf]) -> String {
    let mut text = format!(
        "global: {{scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: 1s}}\n\
         rule_files: {rules:?}\n\
         scrape_configs:\n  - job_name: cpu-power-exporter\n    static_configs:\n",
    );
    for (instance, address) in targets {
        let labels = format!("{{instance: {instance:?}}}");
        writeln!(text, "      - {{targets: [{:?}], labels: {labels}}}", address.to_string())
            .unwrap();
    }
    text
}

/// Percent-encodes all but letters and digits.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").unwrap();
        }
        escaped
    })
}
