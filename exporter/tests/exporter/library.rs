//! A library that blocks holds up nothing: no scrape, no other source, no second thread.

use std::time::{Duration, Instant};

use wattscribe_standins::{Behaviour, Block, NvmlScript};

use crate::fixture::{Served, eventually, samples, value};
use crate::superchip::{Superchip, module_lines};

const SCRAPES: usize = 1000;

/// Far above what a busy machine adds to a scrape, far below what a scrape would take that waits.
const SCRAPE_TIME_BOUND: Duration = Duration::from_millis(750);

/// The slowest of many scrapes, all of which show the sockets.
fn slowest(served: &Served) -> Duration {
    let timed = || {
        let started = Instant::now();
        let page = served.page();
        assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 2, "{page}");
        started.elapsed()
    };
    (0..SCRAPES).map(|_| timed()).max().unwrap()
}

fn block(node: &mut Superchip, symbol: &str) {
    let behaviour = Behaviour::blocks(Block::UntilChanged);
    let change = |script: &mut NvmlScript| {
        script.calls.insert(symbol.to_owned(), behaviour);
    };
    node.nvml.change(change).unwrap();
}

fn heal(node: &mut Superchip) {
    node.nvml.change(|script| script.calls.clear()).unwrap();
}

#[test]
fn a_blocked_read_costs_the_modules_and_nothing_else() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    block(&mut node, "nvmlDeviceGetFieldValues");
    eventually("what was read is too old", || module_lines(&served.page()).is_empty());
    let page = served.page();
    assert!(!page.contains("cpu_power_nvml_watts"), "{page}");
    assert_eq!(value(&page, "power_withheld", &["GPU-00000000", r#"reason="timeout""#]), Some(1.0));
    assert!(slowest(&served) < SCRAPE_TIME_BOUND);
    assert_eq!(served.get("/readyz").status, 200);
    heal(&mut node);
    eventually("it is read again", || module_lines(&served.page()).len() == 4);
}

#[test]
fn a_blocked_initialisation_does_not_hold_up_the_start() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    block(&mut node, "nvmlInit_v2");
    let started = Instant::now();
    let served = Served::start(&node.config());
    assert!(started.elapsed() < Duration::from_secs(3), "the start took {:?}", started.elapsed());
    assert!(slowest(&served) < SCRAPE_TIME_BOUND);
    let silent = &[r#"source="nvml",sensor="library",reason="timeout""#];
    eventually("its silence is told", || value(&served.page(), "power_withheld", silent).is_some());
    let calls = node.nvml.calls().unwrap();
    assert_eq!(calls.len(), 1, "nobody knocks twice: {calls:?}");
    heal(&mut node);
    eventually("it is read", || module_lines(&served.page()).len() == 4);
}

#[test]
fn a_gpu_that_answers_slowly_makes_no_other_one_late() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let served = node.served(4);
    // Longer than a read may take, and shorter than a reading lives.
    let slow = Behaviour::blocks(Block::Seconds(0.6));
    let change = |script: &mut NvmlScript| {
        script.devices[1].calls.insert("nvmlDeviceGetFieldValues".to_owned(), slow);
    };
    node.nvml.change(change).unwrap();
    let timeouts = || {
        let labels = [r#"source="nvml",reason="timeout""#];
        value(&served.page(), "power_read_errors_total", &labels).unwrap()
    };
    eventually("three of its reads were overdue", || timeouts() >= 3.0);
    let reads = r#"source="nvml""#;
    let reads = || value(&served.page(), "power_read_duration_seconds_count", &[reads]).unwrap();
    let before = (reads(), timeouts());
    eventually("five more rounds", || reads() >= before.0 + 20.0);
    // One of four sensors is late in each round, and not all of them.
    let late = timeouts() - before.1;
    assert!(late <= 10.0, "{late} timeouts in five rounds of four reads");
}
