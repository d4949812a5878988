//! NVML that is blocked for long, under the real program: what a scrape costs then, beside a program that leaves NVML
//! alone.
//!
//! The block lasts eight seconds, more than twice the life of a reading; with `WATTSCRIBE_LONG` in the environment it
//! lasts a minute. `--nocapture` shows the figures.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wattscribe_standins::{Behaviour, Block, NvmlScript};

use crate::fixture::{ask, eventually, samples, value};
use crate::process::Running;
use crate::superchip::{Superchip, module_lines};

const SCRAPES: u32 = 1000;

/// Readings live for 3 s. The last one is that of the first GPU, in the round that meets the block: up to a second after
/// the block was asked for.
const GONE_AFTER: Duration = Duration::from_millis(4250);

fn block_time() -> Duration {
    let is_long = std::env::var_os("WATTSCRIBE_LONG").is_some();
    Duration::from_secs(if is_long { 60 } else { 8 })
}

/// One page, with the sockets on it, and how long it took.
fn scrape(running: &Running) -> (String, Duration) {
    let started = Instant::now();
    let page = ask(running.address, "GET", "/metrics", &[]).text();
    let took = started.elapsed();
    assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 2, "{page}");
    (page, took)
}

/// Median, 99th percentile and the longest.
fn figures(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    let last = times.len() - 1;
    [times[last / 2], times[last * 99 / 100], times[last]]
}

/// Scrapes both programs in turn, evenly over the time of the block, so that whatever else the machine does is in both.
/// The first is the one that is blocked.
fn scrape_both(blocked: &Running, alone: &Running) -> [[Duration; 3]; 2] {
    let (began, block_time) = (Instant::now(), block_time());
    let mut times = [Vec::new(), Vec::new()];
    let mut without_modules = 0;
    for number in 0..SCRAPES {
        let due = began + block_time * number / SCRAPES;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for turn in [number % 2, (number + 1) % 2] {
            if turn == 1 {
                times[1].push(scrape(alone).1);
                continue;
            }
            let age = began.elapsed();
            let (page, took) = scrape(blocked);
            times[0].push(took);
            if age > GONE_AFTER {
                let has_modules =
                    ["cpu_power_nvml_watts", "gpu_module_"].map(|name| page.contains(name));
                assert_eq!(has_modules, [false; 2], "{age:?} into the block: {page}");
                without_modules += 1;
            }
        }
    }
    thread::sleep((began + block_time).saturating_duration_since(Instant::now()));
    assert!(without_modules > SCRAPES / 5, "only {without_modules} scrapes without modules");
    times.map(figures)
}

#[test]
fn a_blocked_library_costs_a_scrape_nothing() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let library = node.nvml.library().to_str().unwrap().to_owned();
    let blocked = Running::start(&node.tree, &["--nvml-library", &library]);
    let alone = Running::start(&node.tree, &["--no-nvml"]);
    eventually("the GPUs are read", || module_lines(&scrape(&blocked).0).len() == 4);

    // In the middle of a round: the first GPU is still read in it.
    let blocks = Behaviour::blocks(Block::UntilChanged);
    let symbol = "nvmlDeviceGetFieldValues".to_owned();
    let change = |script: &mut NvmlScript| {
        script.devices[1].calls.insert(symbol, blocks);
    };
    node.nvml.change(change).unwrap();
    let [of_blocked, of_alone] = scrape_both(&blocked, &alone);
    eprintln!("median, p99, longest of {SCRAPES} scrapes in {:?}:", block_time());
    eprintln!("  NVML blocked {of_blocked:?}");
    eprintln!("  --no-nvml    {of_alone:?}");
    for (figure, (blocked, alone)) in
        ["median", "p99"].iter().zip(of_blocked.into_iter().zip(of_alone))
    {
        // Far above the noise of a busy machine, far below any wait for a library.
        let bound = 3 * alone + Duration::from_millis(5);
        assert!(blocked <= bound, "{figure}: {blocked:?} blocked, {alone:?} without NVML");
    }

    node.nvml.change(|script| script.devices[1].calls.clear()).unwrap();
    eventually("the GPUs are read again", || module_lines(&scrape(&blocked).0).len() == 4);
    check_log(blocked);
}

/// One warning and one recovery, however long it lasted.
fn check_log(blocked: Running) {
    let reads = |page: &str| {
        value(page, "power_read_duration_seconds_count", &[r#"source="acpi""#]).unwrap()
    };
    // The watch looks four times a second; the two meters are read once a second.
    let before = reads(&scrape(&blocked).0);
    eventually("the watch has looked", || reads(&scrape(&blocked).0) > before + 3.0);
    blocked.signal(Signal::TERM);
    let (code, log) = blocked.end();
    assert_eq!(code, Some(0), "{log}");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("source=\"nvml\"")).collect();
    let expected = [
        (" INFO ", "NVML: 4 of 4 sensors report"),
        (" WARN ", "NVML has not come back within 3s"),
        (" INFO ", "back again: NVML"),
    ];
    let is_so = lines.len() == expected.len()
        && lines
            .iter()
            .zip(expected)
            .all(|(line, (level, words))| line.contains(level) && line.contains(words));
    assert!(is_so, "expected {expected:#?}, found {lines:#?}");
}
