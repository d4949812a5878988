//! A directory that is recorded to as the recorder does it, at a time that the test makes up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wattscribe_rules::State;
use wattscribe_rules::rule::{self, RuleSet};
use wattscribe_scraper::live_rules::LiveRules;
use wattscribe_table::{
    CpuManifest, CpuSample, LongReading, Options, RunReader, RunSummary, RunWriter, Scrape,
};

use crate::session::{Second, Session, What};

const RULES: &str = r#"
wattscribe_rules: 1
rules:
  - name: node:watts:sum
    function: sum
    of: cpu_power_acpi_watts{type="total"}
    by: [node]
    boundary: socket_total
    unit: W
  - name: socket:module_watts:mean
    function: mean
    of: gpu_module_power_watts
    by: [node, socket]
    withhold: {spread_above: 5%}
    boundary: module
    unit: W
  - name: fleet:watts:sum
    function: sum
    of: node:watts:sum
    by: []
    require: at least 2
    boundary: socket_total
    unit: W
  - name: node:joules:integrate
    function: integrate
    of: cpu_power_acpi_watts{type="total"}
    over: {every: 5s, length: 10s}
    by: [node]
    boundary: socket_total
    unit: J
  - name: fleet:joules:sum
    function: sum
    of: node:joules:integrate
    by: []
    boundary: socket_total
    unit: J
  - name: node:watts:p50
    function: quantile
    quantile: 0.5
    of: node:watts:sum
    over: {every: 10s}
    by: [node]
    boundary: socket_total
    unit: W
"#;

const NODES: [&str; 3] = ["a", "b", "c"];

/// A directory that is recorded to again and again.
pub(crate) struct Recorded {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) rules: Arc<RuleSet>,
    text: String,
    seq: BTreeMap<&'static str, u64>,
    now_us: i64,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let rules = Arc::new(rule::read(RULES).unwrap());
        let (text, now_us) = (RULES.to_owned(), 1_788_310_140_000_000);
        Self { directory, rules, text, seq: BTreeMap::new(), now_us }
    }

    /// Records with another gap limit from now on.
    pub(crate) fn set_gap(&mut self, gap: &str) {
        self.text = RULES.replace("\nrules:", &format!("\ngap: {gap}\nrules:"));
        self.rules = Arc::new(rule::read(&self.text).unwrap());
    }

    /// Records a session as the recorder does.
    pub(crate) fn record(&mut self, session: &Session) {
        self.now_us += i64::from(session.pause_s) * 1_000_000;
        let polled: Vec<&'static str> = (0..)
            .zip(NODES)
            .filter(|(number, _)| session.polled & (1 << number) != 0)
            .map(|(_, name)| name)
            .collect();
        let (mut run, _) = RunWriter::open(self.directory.path(), Options::default()).unwrap();
        let reader = RunReader::open(self.directory.path()).unwrap();
        let rules = Arc::clone(&self.rules);
        let had_rules = run.keep_rules(&self.text).unwrap();
        let mut live =
            LiveRules::start(rules, &polled, Duration::from_secs(1), &reader, had_rules).unwrap();
        let recorder_us = self.now_us;
        let mut count = 0;
        for (number, nodes) in session.seconds.iter().enumerate() {
            let mut order: Vec<(&'static str, Second)> = NODES
                .into_iter()
                .zip(*nodes)
                .filter(|(name, second)| polled.contains(name) && second.what != What::Missing)
                .collect();
            order.sort_by_key(|(_, second)| second.phase_ms);
            for (name, second) in order {
                let start_us = self.now_us + i64::from(second.phase_ms) * 1000;
                let (scrape, cpu, readings) = self.rows(name, second, start_us, recorder_us);
                let record = run.append(scrape, cpu, readings).unwrap();
                live.take(record);
                count += 1;
                if count % session.segment == 0 {
                    run.rotate().unwrap();
                }
            }
            // The tail is taken in while scrapes go on.
            live.catch_up().unwrap();
            // What was not written when the recorder is killed is lost.
            if !session.killed || number + 1 < session.seconds.len() {
                live.note_progress();
                run.append_rules(&std::mem::take(live.out())).unwrap();
            }
            self.now_us += 1_000_000;
        }
        if session.killed {
            return;
        }
        while live.is_behind() {
            live.catch_up().unwrap();
        }
        live.finish();
        run.append_rules(&std::mem::take(live.out())).unwrap();
        run.close(&manifest()).unwrap();
    }

    fn rows(
        &mut self,
        name: &'static str,
        second: Second,
        start_us: i64,
        recorder_us: i64,
    ) -> (Scrape, Vec<CpuSample>, Vec<LongReading>) {
        let seq = self.seq.entry(name).or_default();
        let scrape_seq = *seq;
        *seq += 1;
        let read_us = start_us - i64::from(second.age_ms) * 1000;
        let is_page = second.what != What::Failed;
        let scrape = scrape(name, scrape_seq, start_us, recorder_us, is_page);
        if matches!(second.what, What::Failed | What::Empty) {
            return (scrape, Vec::new(), Vec::new());
        }
        let members = if second.what == What::Half { 1 } else { 2 };
        let mut cpu: Vec<CpuSample> = (0..members)
            .map(|socket| socket_row(name, scrape_seq, socket, read_us, second.watts))
            .collect();
        if second.what == What::Withheld {
            cpu[1].state = State::Denied;
            cpu[1].power_w = None;
        }
        let reading = |gpu: u32| LongReading {
            timestamp_us: start_us,
            target: name.to_owned(),
            scrape_seq,
            metric: "gpu_module_power_watts".to_owned(),
            labels: format!("gpu=\"{gpu}\",socket=\"0\",source=\"nvml\",uuid=\"GPU-{gpu}\""),
            value: second.watts * (1.0 + f64::from(gpu) * 0.04),
            sample_timestamp_ms: None,
            read_at_us: (gpu == 0).then_some(read_us),
        };
        (scrape, cpu, (0..members).map(reading).collect())
    }
}

fn scrape(target: &str, seq: u64, start_us: i64, recorder_us: i64, is_page: bool) -> Scrape {
    Scrape {
        timestamp_us: start_us,
        target: target.to_owned(),
        url: String::new(),
        seq,
        mono_ns: (start_us - recorder_us) * 1000,
        duration_us: 1000,
        status: None,
        outcome: if is_page { "ok" } else { "timeout" }.to_owned(),
        detail: None,
        bytes: None,
        samples: 0,
        rows: 0,
        missed_ticks: 0,
        clock_offset_us: None,
        clock_error_us: None,
        wall_step_us: 0,
    }
}

fn socket_row(node: &str, scrape_seq: u64, socket_id: u32, at_us: i64, watts: f64) -> CpuSample {
    CpuSample {
        timestamp_unix: at_us as f64 / 1e6,
        hostname: node.to_owned(),
        source: "acpi".to_owned(),
        sensor: format!("CPU{socket_id}:cpuSidePowerUsageW"),
        socket_id,
        power_w: Some(watts + f64::from(socket_id)),
        cpu_rail_w: None,
        soc_w: None,
        dram_w: None,
        module_w: None,
        total_power_w: None,
        scrape_seq,
        sensor_time_us: None,
        averaging: "mean".to_owned(),
        averaging_s: None,
        energy_counter_j: None,
        energy_counter_time: None,
        energy_counter_since: None,
        state: State::Ok,
        simulated: node == "c",
    }
}

fn manifest() -> CpuManifest {
    CpuManifest {
        schema_version: CpuManifest::SCHEMA_VERSION,
        producer: CpuManifest::PRODUCER.to_owned(),
        producer_git_commit: None,
        started_at_unix: None,
        stopped_at_unix: 0.0,
        nodes: BTreeMap::new(),
        wattscribe: RunSummary::default(),
    }
}
