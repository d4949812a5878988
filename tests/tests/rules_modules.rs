//! The built-in rules over superchip modules: the means and the residuals of a GB200 as they were measured, a pair of
//! reports that differ by exactly what a mean allows and one that differ by more, and the recovery from it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use wattscribe_table::{DerivedRow, RunReader};
use wattscribe_tests::http::{Answer, Reply, Server};
use wattscribe_tests::nodes::record;
use wattscribe_tests::program::run;

/// One module under one load, in watts: what each GPU reports of it, its CPU, and its GPUs.
struct Load {
    what: &'static str,
    reports_w: [f64; 2],
    cpu_w: f64,
    gpus_w: [f64; 2],
}

/// Three loads of a GB200 as they were measured with driver 580.126.20 and published to the watt, where 38 W to 42 W were
/// left under every load; then two reports that differ by 5 % of their mean, and by a little more.
const LOADS: [Load; 5] = [
    Load { what: "idle", reports_w: [539.0, 534.0], cpu_w: 96.0, gpus_w: [204.0, 198.0] },
    Load { what: "one GPU loaded", reports_w: [731.0, 725.0], cpu_w: 98.0, gpus_w: [390.0, 202.0] },
    Load { what: "both loaded", reports_w: [938.0, 933.0], cpu_w: 101.0, gpus_w: [397.0, 400.0] },
    Load { what: "5 % apart", reports_w: [487.5, 512.5], cpu_w: 98.0, gpus_w: [181.0, 181.0] },
    Load { what: "above 5 %", reports_w: [487.25, 512.75], cpu_w: 98.0, gpus_w: [181.0, 181.0] },
];

/// The page of a node that has a module for each load. With `recovered` the last one's reports agree again.
fn page(recovered: bool) -> String {
    let mut page = String::new();
    for (socket, load) in LOADS.iter().enumerate() {
        let cpu = format!("sensor=\"hwmon{socket}/power1\",type=\"total\",socket=\"{socket}\"");
        writeln!(
            page,
            "cpu_power_acpi_watts{{{cpu},oem_info=\"\",source=\"acpi\"}} {}",
            load.cpu_w
        )
        .unwrap();
        for gpu in 0..2 {
            let uuid = format!("uuid=\"GPU-{socket}-{gpu}\",socket=\"{socket}\"");
            let report_w = if recovered { 500.0 } else { load.reports_w[gpu] };
            let (module, alone) = ("gpu_module_power_watts", "accelerator_power_watts");
            writeln!(page, "{module}{{gpu=\"{gpu}\",{uuid},source=\"nvml\"}} {report_w}").unwrap();
            writeln!(page, "{alone}{{scope=\"gpu\",{uuid}}} {}", load.gpus_w[gpu]).unwrap();
        }
    }
    page
}

/// The results of a rule by the socket of their group, in the order of time.
fn by_socket(rows: &[DerivedRow], rule: &str) -> BTreeMap<usize, Vec<DerivedRow>> {
    let mut found = BTreeMap::<usize, Vec<DerivedRow>>::new();
    for row in rows.iter().filter(|row| row.rule == rule) {
        let socket = row.labels.strip_prefix("socket=\"").unwrap().strip_suffix('"').unwrap();
        found.entry(socket.parse().unwrap()).or_default().push(row.clone());
    }
    found
}

#[test]
fn the_built_in_rules_give_what_was_measured() {
    let has_recovered = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&has_recovered);
    let server =
        Server::start(move |_| Reply::Answer(Answer::page(page(asked.load(Ordering::SeqCst) > 0))));
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let mut command = record([("gb200", server.address)], "500ms", &out);
    let recovers = Arc::clone(&has_recovered);
    let recovery = thread::spawn(move || {
        thread::sleep(Duration::from_secs(6));
        recovers.store(1, Ordering::SeqCst);
    });
    run(command.args(["--duration", "12s"])).succeeded();
    recovery.join().unwrap();
    let run = RunReader::open(&out).unwrap();
    let rows: Vec<DerivedRow> = run.rows().unwrap().map(Result::unwrap).collect();

    let means = by_socket(&rows, "socket:module_power_watts:mean");
    let rests = by_socket(&rows, "socket:module_power_watts:residual");
    for (socket, load) in LOADS.iter().enumerate() {
        let (what, first) = (load.what, &means[&socket][0]);
        let [one, other] = load.reports_w;
        let spread = (one - other).abs() / ((one + other) / 2.0);
        assert_eq!(first.spread, Some(spread), "{what}: stated whether it is withheld or not");
        let rest = &rests[&socket][0];
        if what == "above 5 %" {
            assert_eq!((first.value, first.reason.as_deref()), (None, Some("spread")), "{what}");
            assert_eq!((rest.value, rest.reason.as_deref()), (None, Some("members")), "{what}");
        } else {
            assert_eq!(first.value, Some((one + other) / 2.0), "{what}");
            let rest_w = rest.value.unwrap();
            // What was measured is known to the watt.
            assert!((38.0..=42.0).contains(&rest_w.round()), "{what}: {rest_w} W");
        }
        // Seen once they agree.
        let last = means[&socket].last().unwrap();
        assert_eq!((last.value, last.spread), (Some(500.0), Some(0.0)), "{what}");
    }
    let node = rows.iter().rfind(|row| row.rule == "node:module_power_watts:sum").unwrap();
    assert_eq!(node.value, Some(500.0 * LOADS.len() as f64));
}
