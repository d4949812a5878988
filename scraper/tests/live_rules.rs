//! Rules live and over the same files, on recordings made up of hours: ended and killed recorders, targets that come and
//! go, failed and missing scrapes, readings that are late, withheld or gone. What a recorder derived, and what its files
//! give, are the same rows to the bit.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use wattscribe_rules::State;
use wattscribe_rules::rule::{self, RuleSet};
use wattscribe_scraper::live_rules::LiveRules;
use wattscribe_table::{
    CpuManifest, CpuSample, DerivedRow, DerivedRows, FleetRules, LongReading, Options, RuleMember,
    RunReader, RunSummary, RunWriter, Scrape, TargetRules,
};

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

fn rules() -> Arc<RuleSet> {
    Arc::new(rule::read(RULES).unwrap())
}

const NODES: [&str; 3] = ["a", "b", "c"];

/// One recording into the directory.
#[derive(Debug, Clone)]
struct Session {
    /// Which of the nodes are polled: one bit each, one at least.
    polled: u8,
    /// Seconds since the one before.
    pause_s: u32,
    /// What becomes of each second of each node.
    seconds: Vec<[Second; 3]>,
    /// Whether it is killed, and how many of the results that were not yet written are lost.
    killed: bool,
    /// A segment becomes Parquet after so many scrapes.
    segment: usize,
}

/// What becomes of one scrape.
#[derive(Debug, Clone, Copy)]
struct Second {
    what: What,
    /// When it begins within its second, and how long before that its readings stand, in milliseconds.
    phase_ms: u16,
    age_ms: u16,
    watts: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Page,
    /// A page without the second socket and the second GPU.
    Half,
    /// A page whose second socket is withheld.
    Withheld,
    /// A page of nothing.
    Empty,
    Failed,
    /// The tick was missed, or the disk did not take it.
    Missing,
}

fn second() -> impl Strategy<Value = Second> {
    let what = prop_oneof![
        12 => Just(What::Page),
        1 => Just(What::Half),
        1 => Just(What::Withheld),
        1 => Just(What::Empty),
        2 => Just(What::Failed),
        1 => Just(What::Missing),
    ];
    (what, 0..1000_u16, 0..2500_u16, 50.0..500.0)
        .prop_map(|(what, phase_ms, age_ms, watts)| Second { what, phase_ms, age_ms, watts })
}

fn session() -> impl Strategy<Value = Session> {
    let seconds = vec([second(), second(), second()], 1..30);
    let pause_s = prop_oneof![Just(1_u32), 1..20_u32, 300..4000_u32];
    (1..8_u8, pause_s, seconds, any::<bool>(), 1..40_usize).prop_map(
        |(polled, pause_s, seconds, killed, segment)| Session {
            polled,
            pause_s,
            seconds,
            killed,
            segment,
        },
    )
}

/// A directory that is recorded to again and again.
struct Recorded {
    directory: tempfile::TempDir,
    rules: Arc<RuleSet>,
    seq: BTreeMap<&'static str, u64>,
    now_us: i64,
}

impl Recorded {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, rules: rules(), seq: BTreeMap::new(), now_us: 1_788_310_140_000_000 }
    }

    /// Records a session as the recorder does.
    fn record(&mut self, session: &Session) {
        self.now_us += i64::from(session.pause_s) * 1_000_000;
        let polled: Vec<&'static str> = (0..)
            .zip(NODES)
            .filter(|(number, _)| session.polled & (1 << number) != 0)
            .map(|(_, name)| name)
            .collect();
        let (mut run, _) = RunWriter::open(self.directory.path(), Options::default()).unwrap();
        let reader = RunReader::open(self.directory.path()).unwrap();
        let rules = Arc::clone(&self.rules);
        let had_rules = run.keep_rules(RULES).unwrap();
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

/// What the files give, in one go.
fn evaluated(directory: &Path, rules: &Arc<RuleSet>) -> Vec<DerivedRow> {
    let pieces = RunReader::open(directory).unwrap().pieces().unwrap();
    let sessions = pieces.sessions().unwrap();
    let rows = DerivedRows::of(Arc::clone(rules));
    let mut fleet = FleetRules::new(Arc::clone(rules), &[]);
    let mut targets = BTreeMap::new();
    for name in sessions.targets() {
        let id = fleet.target(name);
        fleet.end_target(id);
        targets.insert(name, (id, TargetRules::new(Arc::clone(rules), name, &[])));
    }
    let mut out = Vec::new();
    for place in 0..pieces.len() {
        for name in sessions.beginning_at(place).into_iter().flatten() {
            fleet.begin_target(targets[name].0);
        }
        for of in &pieces.read(place, &|_| true).unwrap().targets {
            let (id, target) = targets.get_mut(&*of.target).unwrap();
            target.take(of, i64::MIN);
            let ends = sessions.ends_at(place, &of.target);
            if ends {
                target.finish();
            }
            give(
                &rows,
                target,
                |results, target| {
                    fleet.take(*id, results, target.progress(), target.simulated_since_us());
                },
                &mut out,
            );
            if ends {
                fleet.end_target(*id);
            }
            out.extend(fleet.derived(i64::MIN));
        }
    }
    for (id, target) in targets.values_mut() {
        target.finish();
        give(
            &rows,
            target,
            |results, target| {
                fleet.take(*id, results, target.progress(), target.simulated_since_us());
            },
            &mut out,
        );
    }
    fleet.finish();
    out.extend(fleet.derived(i64::MIN));
    out
}

fn give(
    rows: &DerivedRows,
    target: &mut TargetRules,
    mut fleet: impl FnMut(&[wattscribe_rules::engine::Derived], &TargetRules),
    out: &mut Vec<DerivedRow>,
) {
    let mut results = Vec::new();
    rows.take(target, i64::MIN, out, &mut results);
    fleet(&results, target);
}

/// A result to the bit.
fn to_the_bit(row: &DerivedRow) -> String {
    let bits = |number: Option<f64>| number.map(f64::to_bits);
    let numbers = [row.value, row.low, row.high, row.counter, row.spread, Some(row.coverage)];
    format!("{row:?} {:?}", numbers.map(bits))
}

fn sorted(rows: impl IntoIterator<Item = DerivedRow>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| to_the_bit(&row)).collect();
    rows.sort_unstable();
    rows
}

/// Sessions as short text.
fn told(sessions: &[Session]) -> String {
    let told = |session: &Session| {
        let Session { polled, pause_s, seconds, killed, segment } = session;
        let seconds: Vec<String> = seconds
            .iter()
            .map(|nodes| {
                nodes.map(|of| format!("{:?}/{}/{}", of.what, of.phase_ms, of.age_ms)).join(" ")
            })
            .collect();
        format!(
            "polled {polled:03b}, pause {pause_s} s, killed {killed}, segment {segment}: {seconds:#?}"
        )
    };
    sessions.iter().map(told).collect::<Vec<_>>().join("\n")
}

fn check(sessions: &[Session]) -> Vec<DerivedRow> {
    let mut recorded = Recorded::new();
    sessions.iter().for_each(|session| recorded.record(session));
    let run = RunReader::open(recorded.directory.path()).unwrap();
    let live: Vec<DerivedRow> = run.rows().unwrap().map(Result::unwrap).collect();
    let expected = evaluated(recorded.directory.path(), &recorded.rules);
    let (found, expected_rows) = (sorted(live), sorted(expected.iter().cloned()));
    let missing: Vec<_> =
        expected_rows.iter().filter(|row| found.binary_search(row).is_err()).collect();
    let more: Vec<_> =
        found.iter().filter(|row| expected_rows.binary_search(row).is_err()).collect();
    assert!(
        missing.is_empty() && more.is_empty() && found.len() == expected_rows.len(),
        "files only: {missing:#?}\nlive only: {more:#?}\n{}",
        told(sessions)
    );
    let members: Vec<RuleMember> = run.rows().unwrap().map(Result::unwrap).collect();
    let mut once: Vec<_> = members.iter().map(|of| (&of.target, &of.metric, &of.labels)).collect();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), members.len(), "a series is met twice: {members:#?}");
    expected
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn live_and_files_give_the_same(sessions in vec(session(), 1..6)) {
        // The last one ends in order: what a killed recorder owes is paid when it goes on.
        let mut sessions = sessions;
        if let Some(last) = sessions.last_mut() {
            last.killed = false;
        }
        check(&sessions);
    }
}

/// A session in which all goes well.
fn plain(polled: u8, pause_s: u32, seconds: usize, killed: bool) -> Session {
    let second = Second { what: What::Page, phase_ms: 400, age_ms: 100, watts: 50.0 };
    Session { polled, pause_s, seconds: vec![[second; 3]; seconds], killed, segment: 37 }
}

#[test]
fn a_node_that_was_there_long_ago_is_missing_from_the_fleet() {
    // Its only result over a window follows from its end, which a killed recorder did not see.
    let sessions = [plain(1, 1, 9, true), plain(4, 663, 21, true), plain(6, 2, 5, false)];
    let rows = check(&sessions);
    let fleet = rows.iter().filter(|row| row.rule == "fleet:joules:sum");
    assert!(fleet.clone().count() > 3);
    let last = fleet.max_by_key(|row| row.timestamp_us).unwrap();
    assert_eq!((last.members_expected, last.value), (2, None), "{last:?}");
    // Killed twice before anything was written.
    check(&[
        plain(1, 1, 9, true),
        plain(4, 663, 1, true),
        plain(4, 9000, 1, true),
        plain(6, 2, 20, false),
    ]);
}
