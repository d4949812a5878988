//! Pages of three nodes, by the time since their servers began: members that agree, differ, are gone and come back.

use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::time::Instant;

use wattscribe_tests::http::{Answer, Reply, Server};

/// The nodes.
pub(crate) const NODES: [&str; 3] = ["grace", "rapl", "late"];

/// When all that happens has happened, in seconds.
pub(crate) const OVER_S: f64 = 54.0;

/// Serves the page of a node.
pub(crate) fn serve(node: &'static str) -> Server {
    let start = Instant::now();
    Server::start(move |_| {
        let body = page(node, start.elapsed().as_secs_f64());
        let status = if body.is_some() { 200 } else { 500 };
        let content_type = "text/plain; version=0.0.4".to_owned();
        Reply::Answer(Answer { status, content_type, body: body.unwrap_or_default().into_bytes() })
    })
}

/// What a node says; `None` where it answers with an error.
fn page(node: &str, at_s: f64) -> Option<String> {
    let during = |from_s: f64, to_s: f64| at_s >= from_s && at_s < to_s;
    match node {
        "grace" if during(26.0, 30.0) => None,
        "grace" => Some(grace(at_s, during)),
        "rapl" if during(31.0, 33.0) => None,
        "rapl" => Some(rapl(at_s, during)),
        "late" if at_s < 8.0 => None,
        _ => Some(late(at_s)),
    }
}

/// A load that comes and goes.
fn watts(base_w: f64, at_s: f64) -> f64 {
    base_w + 10.0 * (TAU * at_s / 7.0).sin()
}

/// The joules since the beginning of that load.
fn joules(base_w: f64, at_s: f64) -> f64 {
    base_w * at_s + 10.0 * 7.0 / TAU * (1.0 - (TAU * at_s / 7.0).cos())
}

fn grace(at_s: f64, during: impl Fn(f64, f64) -> bool) -> String {
    let mut page = String::new();
    for socket in 0..2 {
        let labels = format!("source=\"acpi\",type=\"total\",socket=\"{socket}\"");
        sample(&mut page, "power_sensor_info", &format!("{labels},sensor=\"s{socket}\""), 1.0);
        // A socket that is described and not read.
        if socket == 0 || !during(20.0, 24.0) {
            sample(
                &mut page,
                "cpu_power_acpi_watts",
                &format!("{labels},sensor=\"hwmon{socket}/power1\""),
                watts(100.1, at_s),
            );
        }
        for gpu in 0..2 {
            let labels = format!(
                "pci=\"000{socket}:0{gpu}\",uuid=\"GPU-{socket}{gpu}\",socket=\"{socket}\""
            );
            let differs = gpu == 1 && socket == 1 && during(12.0, 18.0);
            let module =
                watts(600.3, at_s) * if differs { 1.2 } else { 1.0 + 0.001 * f64::from(gpu) };
            if gpu == 0 || socket == 1 || !during(32.0, 36.0) {
                sample(&mut page, "gpu_module_power_watts", &labels, module);
            }
            // A zero is no reading.
            let alone = if gpu == 1 && during(38.0, 40.0) { 0.0 } else { watts(200.7, at_s) };
            sample(&mut page, "accelerator_power_watts", &format!("{labels},scope=\"gpu\""), alone);
        }
    }
    for (number, feed) in ["a", "b", "c"].into_iter().enumerate() {
        let base_w = 97.0 + 0.2 * number as f64;
        let is_gone = feed == "b" && during(16.0, 19.0);
        let labels = format!("feed=\"{feed}\"");
        if !is_gone {
            sample(
                &mut page,
                "feed_power_watts",
                &labels,
                base_w + if feed == "c" && during(22.0, 25.0) { 30.0 } else { 0.3 * at_s.sin() },
            );
        }
        // It begins anew once.
        let since_s = if feed == "a" && at_s >= 34.0 { at_s - 34.0 } else { at_s };
        sample(&mut page, "feed_energy_joules_total", &labels, base_w * since_s);
    }
    sample(&mut page, "tokens_per_second", "", 1234.5 + at_s);
    page
}

/// Two packages, one of two dies. The counter of the other runs a fifth too fast.
fn rapl(at_s: f64, during: impl Fn(f64, f64) -> bool) -> String {
    let mut page = String::new();
    for (zone, socket, base_w) in [(0, 0, 60.2), (1, 0, 55.6), (2, 1, 120.4)] {
        let labels = format!(
            "type=\"package\",zone=\"intel-rapl:{zone}\",socket=\"{socket}\",source=\"rapl\""
        );
        let described = format!(
            "source=\"rapl\",type=\"package\",socket=\"{socket}\",channel=\"intel-rapl:{zone}\",sensor=\"intel-rapl:{zone}\""
        );
        sample(&mut page, "power_sensor_info", &described, 1.0);
        if zone != 1 || !during(14.0, 17.0) {
            sample(&mut page, "cpu_power_rapl_watts", &labels, watts(base_w, at_s));
            let factor = if zone == 2 { 1.2 } else { 1.0 };
            sample(&mut page, "cpu_energy_joules_total", &labels, joules(base_w, at_s) * factor);
            sample(&mut page, "cpu_energy_since_timestamp_seconds", &labels, 1_788_310_000.0);
        }
    }
    sample(&mut page, "feed_power_watts", "feed=\"a\"", watts(300.0, at_s));
    page
}

fn late(at_s: f64) -> String {
    let mut page = String::new();
    sample(
        &mut page,
        "cpu_power_acpi_watts",
        "source=\"acpi\",type=\"total\",socket=\"0\",sensor=\"hwmon0/power1\"",
        watts(80.9, at_s),
    );
    sample(&mut page, "feed_power_watts", "feed=\"c\"", watts(310.0, at_s));
    sample(
        &mut page,
        "gpu_module_power_watts",
        "pci=\"0000:00\",uuid=\"GPU-9\",socket=\"0\"",
        watts(500.9, at_s),
    );
    page
}

fn sample(page: &mut String, name: &str, labels: &str, value: f64) {
    writeln!(page, "{name}{{{labels}}} {value}").unwrap();
}
