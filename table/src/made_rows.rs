//! Rows for tests: plain ones by hand, and any that a property test may want.

use proptest::option;
use proptest::prelude::*;
use wattscribe_rules::State;

use crate::{CpuSample, DerivedRow, LongReading, RuleMember, Scrape};

/// Wall time at which the made recordings begin.
pub(crate) const START_US: i64 = 1_788_310_143_461_000;

/// A published row, one second per `seq` after the start.
pub(crate) fn cpu(hostname: &str, socket_id: u32, seq: u64) -> CpuSample {
    CpuSample {
        timestamp_unix: crate::column::seconds(START_US + 1_000_000 * seq as i64),
        hostname: hostname.into(),
        source: "acpi".into(),
        sensor: format!("CPU{socket_id}:cpuSidePowerUsageW"),
        socket_id,
        power_w: Some(94.29),
        cpu_rail_w: Some(49.023),
        soc_w: Some(5.1),
        dram_w: None,
        module_w: None,
        total_power_w: Some(189.002),
        scrape_seq: seq,
        sensor_time_us: Some(START_US - 250_000),
        averaging: "mean".into(),
        averaging_s: Some(1.0),
        energy_counter_j: None,
        energy_counter_time: None,
        energy_counter_since: None,
        state: State::Ok,
        simulated: false,
    }
}

/// A row whose power is withheld.
pub(crate) fn withheld(hostname: &str, socket_id: u32, seq: u64, state: State) -> CpuSample {
    CpuSample { power_w: None, total_power_w: None, state, ..cpu(hostname, socket_id, seq) }
}

/// A scrape that went well.
pub(crate) fn scrape(target: &str, seq: u64) -> Scrape {
    Scrape {
        timestamp_us: START_US + 1_000_000 * seq as i64,
        target: target.into(),
        url: format!("http://{target}:9405/metrics"),
        seq,
        mono_ns: 1_000_000_000 * seq as i64,
        duration_us: 1800,
        status: Some(200),
        outcome: "ok".into(),
        detail: None,
        bytes: Some(4096),
        samples: 12,
        rows: 2,
        missed_ticks: 0,
        clock_offset_us: Some(-120),
        clock_error_us: Some(900),
        wall_step_us: 0,
    }
}

/// A reading of that scrape.
pub(crate) fn reading(target: &str, seq: u64) -> LongReading {
    LongReading {
        timestamp_us: START_US + 1_000_000 * seq as i64,
        target: target.into(),
        scrape_seq: seq,
        metric: "DCGM_FI_DEV_POWER_USAGE".into(),
        labels: "gpu=\"0\"".into(),
        value: 612.5,
        sample_timestamp_ms: None,
        read_at_us: Some(START_US + 1_000_000 * seq as i64 - 250_000),
    }
}

/// What a rule made of that scrape.
pub(crate) fn derived(node: &str, seq: u64) -> DerivedRow {
    DerivedRow {
        timestamp_us: START_US / 1_000_000 * 1_000_000 + 1_000_000 * seq as i64,
        start_us: None,
        window: None,
        rule: "node:cpu_power_watts:sum".into(),
        node: Some(node.into()),
        labels: String::new(),
        value: Some(189.002),
        unit: "W".into(),
        boundary: "socket_total".into(),
        state: State::Ok,
        reason: None,
        low: None,
        high: None,
        counter: None,
        spread: Some(0.004),
        coverage: 1.0,
        members_expected: 2,
        members_reporting: 2,
        rule_hash: "0123456789abcdef".into(),
        simulated: false,
    }
}

/// A series that it met in the first scrape.
pub(crate) fn member(target: &str, labels: &str) -> RuleMember {
    RuleMember {
        timestamp_us: START_US,
        target: target.into(),
        metric: "cpu_power_acpi_watts".into(),
        labels: labels.into(),
        simulated: false,
    }
}

/// Watts as a sensor might give them.
fn any_watts() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..2000.0,
        Just(0.0),
        Just(1e-7),
        Just(1e17),
        any::<f32>().prop_map(|watts| f64::from(watts.abs()))
    ]
    .prop_filter("finite", |watts: &f64| watts.is_finite())
}

prop_compose! {
    /// Any row that CSV can carry.
    pub(crate) fn any_csv_row()(
        us in 0i64..4_000_000_000_000_000,
        hostname in "[a-z\u{e9},\"]{1,8}",
        source in prop::sample::select(vec!["acpi", "dcgm", "rapl"]),
        socket_id: u32,
        power_w in any_watts(),
        parts in prop::array::uniform4(option::of(any_watts())),
        total_power_w in option::of(any_watts()),
    ) -> CpuSample {
        let [cpu_rail_w, soc_w, dram_w, module_w] = parts;
        CpuSample {
            timestamp_unix: crate::column::seconds(us),
            hostname,
            source: source.into(),
            power_w: Some(power_w),
            cpu_rail_w, soc_w, dram_w, module_w, total_power_w,
            scrape_seq: 0,
            sensor_time_us: None,
            averaging: "unknown".into(),
            averaging_s: None,
            ..cpu("", socket_id, 0)
        }
    }
}

prop_compose! {
    /// Any row at all, but NaN: it would not equal itself.
    pub(crate) fn any_cpu_row()(
        row in any_csv_row(),
        state in prop::sample::select(State::ALL.to_vec()),
        power_w in option::of(any_watts()),
        scrape_seq in 0..=i64::MAX as u64,
        sensor_time_us: Option<i64>,
        averaging in prop::sample::select(vec!["instant", "mean", "difference", "unknown"]),
        averaging_s in option::of(0.0..60.0),
        energy_counter_j in option::of(any_watts()),
        energy_counter_time in option::of(0.0..4e9),
        energy_counter_since in option::of(0.0..4e9),
        simulated: bool,
    ) -> CpuSample {
        CpuSample {
            state, power_w, scrape_seq, sensor_time_us, averaging_s, energy_counter_j, energy_counter_time, energy_counter_since, simulated,
            averaging: averaging.into(),
            ..row
        }
    }
}
