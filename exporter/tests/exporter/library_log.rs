//! What the program says of NVIDIA's libraries: each trouble once when it begins and once when it is over,
//! whether anybody scrapes or not.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wattscribe_standins::{Answer, Behaviour, Block, NvmlReturn, NvmlScript, unbalanced};

use crate::fixture::{Tree, ask, eventually, samples, value};
use crate::process::Running;
use crate::superchip::{Engines, Superchip, module_lines, uuid};

fn start(node: &Superchip, args: &[&str]) -> Running {
    let library = node.nvml.library().to_str().unwrap();
    let common = ["--interval", "50ms", "--nvml-library", library];
    Running::start(&node.tree, &[&common[..], args].concat())
}

fn page(running: &Running) -> String {
    ask(running.address, "GET", "/metrics", &[]).text()
}

/// Ends it, and gives the lines that it logged about a source.
fn lines(running: Running, source: &str) -> Vec<String> {
    running.signal(Signal::TERM);
    let (code, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    let source = format!("source=\"{source}\"");
    log.lines().filter(|line| line.contains(&source)).map(str::to_owned).collect()
}

/// The lines are these, by level and by words in them, in this order.
fn check(lines: &[String], expected: &[(&str, &str)]) {
    let fits = |(line, (level, words)): (&String, &(&str, &str))| {
        line.contains(&format!(" {level} ")) && line.contains(words)
    };
    let all = lines.len() == expected.len() && lines.iter().zip(expected).all(fits);
    assert!(all, "expected {expected:#?}, found {lines:#?}");
}

fn waits(running: &Running, what: &str, modules: usize) {
    eventually(what, || module_lines(&page(running)).len() == modules);
}

#[test]
fn a_blocked_initialisation_is_one_warning_and_one_recovery() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let blocked = Behaviour::blocks(Block::Seconds(4.0));
    let change = |script: &mut NvmlScript| {
        script.calls.insert("nvmlInit_v2".into(), blocked);
    };
    node.nvml.change(change).unwrap();
    let running = start(&node, &[]);
    waits(&running, "it is read", 4);
    wait_for_the_watch(&running);
    check(
        &lines(running, "nvml"),
        &[("WARN", "NVML has not come back within 3s"), ("INFO", "back again: NVML")],
    );
}

#[test]
fn a_blocked_read_is_one_warning_and_one_recovery() {
    let mut node = Superchip::gb200([500_000.0; 4]);
    let running = start(&node, &[]);
    waits(&running, "it is read", 4);
    wait_for_the_watch(&running);
    let blocked = Behaviour::blocks(Block::Seconds(5.0));
    let change = |script: &mut NvmlScript| {
        script.calls.insert("nvmlDeviceGetFieldValues".into(), blocked);
    };
    node.nvml.change(change).unwrap();
    waits(&running, "the readings are too old", 0);
    node.nvml.change(|script| script.calls.clear()).unwrap();
    waits(&running, "it is read again", 4);
    wait_for_the_watch(&running);
    check(
        &lines(running, "nvml"),
        &[
            ("INFO", "NVML: 4 of 4 sensors report"),
            ("WARN", "NVML has not come back within 3s"),
            ("INFO", "back again: NVML"),
        ],
    );
}

/// The watch looks four times a second; twenty reads of a socket are a whole second.
fn wait_for_the_watch(running: &Running) {
    let count = || {
        let acpi = [r#"source="acpi""#];
        value(&page(running), "power_read_duration_seconds_count", &acpi).unwrap()
    };
    let before = count();
    eventually("the watch has looked", || count() > before + 40.0);
}

#[test]
fn troubles_of_gpus_are_told_once_and_so_is_their_end() {
    let mut node = Superchip::gb200([500_000.0, 500_000.0, 600_000.0, 600_000.0]);
    let running = start(&node, &[]);
    waits(&running, "they are read", 4);
    wait_for_the_watch(&running);
    node.set_mw(1, 526_000.0);
    wait_for_the_watch(&running);
    node.set_mw(1, 527_000.0); // the same trouble in other numbers
    wait_for_the_watch(&running);
    node.set_mw(1, 501_000.0);
    wait_for_the_watch(&running);
    node.answer(3, Answer::Error(NvmlReturn::NoData));
    waits(&running, "one is silent", 3);
    wait_for_the_watch(&running);
    node.set_mw(3, 600_000.0);
    waits(&running, "it is back", 4);
    wait_for_the_watch(&running);
    let silent = format!("no reading of {} (0019:01:00.0): no_data", uuid(3));
    let back = format!("back again: {}", uuid(3));
    check(
        &lines(running, "nvml"),
        &[
            ("INFO", "NVML: 4 of 4 sensors report"),
            (
                "WARN",
                "the module power of socket 0 is withheld: GPUs 0,1 differ by 26.000 W, 5.07 % of their mean 513.000 W",
            ),
            ("INFO", "back again: socket0"),
            ("WARN", &silent),
            ("INFO", &back),
        ],
    );
}

#[test]
fn persistence_mode_that_is_off_is_told_once() {
    const READ: (&str, &str) = ("INFO", "NVML: 4 of 4 sensors report");
    let mut node = Superchip::gb200([500_000.0; 4]);
    for place in [1, 2] {
        node.nvml.change(|script| script.devices[place].persistence_mode = false).unwrap();
    }
    let running = start(&node, &[]);
    waits(&running, "they are read", 4);
    wait_for_the_watch(&running);
    node.nvml.change(|script| script.driver.error = Some(NvmlReturn::DriverNotLoaded)).unwrap();
    wait_for_the_watch(&running);
    let loaded = |script: &mut NvmlScript| {
        script.driver.error = None;
        script.driver.load += 1;
    };
    node.nvml.change(loaded).unwrap();
    waits(&running, "they are read again", 4);
    wait_for_the_watch(&running);
    let off = "persistence mode of the GPUs at 0009:01:00.0, 0018:01:00.0 is off";
    let down = ("WARN", "NVML does not serve: ");
    let back = ("INFO", "back again: NVML");
    check(&lines(running, "nvml"), &[("WARN", off), READ, down, back]);

    // A GPU without such a mode, and a library that is older than the question.
    let refuses = Behaviour::fails(NvmlReturn::NotSupported);
    node.nvml.change(|script| script.set_call(PERSISTENCE, refuses)).unwrap();
    let running = start(&node, &[]);
    waits(&running, "they are read", 4);
    wait_for_the_watch(&running);
    check(&lines(running, "nvml"), &[READ]);
    node.nvml.change(|script| script.calls.clear()).unwrap();
    forget(node.nvml.library(), PERSISTENCE);
    let running = start(&node, &[]);
    waits(&running, "they are read", 4);
    wait_for_the_watch(&running);
    check(&lines(running, "nvml"), &[READ]);
}

const PERSISTENCE: &str = "nvmlDeviceGetPersistenceMode";

/// Takes a symbol out of a library that nobody has loaded: its name is another one from now on.
fn forget(library: &Path, symbol: &str) {
    let mut bytes = fs::read(library).unwrap();
    let places: Vec<usize> = bytes
        .windows(symbol.len())
        .enumerate()
        .filter_map(|(place, found)| (found == symbol.as_bytes()).then_some(place))
        .collect();
    assert!(!places.is_empty(), "{symbol} is not in {library:?}");
    places.into_iter().for_each(|place| bytes[place] = b'_');
    fs::write(library, bytes).unwrap();
}

#[test]
fn a_module_without_a_cpu_socket_is_told_once() {
    let node = Superchip::new(
        &["98029000"],
        &[(0, 500_000.0), (0, 500_000.0), (-1, 600_000.0), (7, 600_000.0)],
    );
    let running = start(&node, &[]);
    waits(&running, "they are read", 4);
    wait_for_the_watch(&running);
    check(
        &lines(running, "nvml"),
        &[
            ("INFO", "NVML: 4 of 4 sensors report"),
            ("WARN", "no NUMA node of the GPUs at 0018:01:00.0"),
            ("WARN", "module socket 7 has no CPU socket"),
        ],
    );
}

#[test]
fn a_library_that_is_not_there_is_a_trouble_only_where_it_was_named() {
    let node = Superchip::gb200([500_000.0; 4]);
    let missing = node.tree.path("libnvidia-ml.so.1");
    let args = ["--interval", "50ms", "--nvml-library", missing.to_str().unwrap()];
    let running = Running::start(&node.tree, &args);
    wait_for_the_watch(&running);
    check(&lines(running, "nvml"), &[("WARN", "NVML is not read: no NVML library: tried")]);

    let running = Running::start(&node.tree, &["--interval", "50ms", "--no-nvml"]);
    wait_for_the_watch(&running);
    check(&lines(running, "nvml"), &[]);
}

/// NVIDIA's own library, where it is installed without a driver: Debian's place, or the one that is named.
fn real_library() -> Option<PathBuf> {
    let debian =
        format!("/usr/lib/{}-linux-gnu/nvidia/current/libnvidia-ml.so.1", std::env::consts::ARCH);
    let named = std::env::var_os("WATTSCRIBE_REAL_NVML").map(PathBuf::from);
    let found = named.or(Some(debian.into())).filter(|path| path.exists());
    let has_driver = Path::new("/proc/driver/nvidia").exists();
    let found = found.filter(|_| !has_driver);
    if found.is_none() {
        eprintln!("skipped: no libnvidia-ml without a driver here");
    }
    found
}

#[test]
fn nvidias_own_library_without_a_driver_is_no_trouble() {
    let Some(library) = real_library() else { return };
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let args = ["--interval", "50ms", "--nvml-library", library.to_str().unwrap()];
    let running = Running::start(&tree, &args);
    wait_for_the_watch(&running);
    check(&lines(running, "nvml"), &[("INFO", "NVML is not read: NVIDIA driver is not loaded")]);
}

#[test]
fn a_library_that_never_answers_leaves_one_thread_behind() {
    for symbol in ["nvmlInit_v2", "nvmlDeviceGetFieldValues"] {
        let mut node = Superchip::gb200([500_000.0; 4]);
        let change = |script: &mut NvmlScript| {
            script.calls.insert(symbol.into(), Behaviour::blocks(Block::ForEver));
        };
        node.nvml.change(change).unwrap();
        let running = start(&node, &[]);
        wait_for_the_watch(&running);
        let threads = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", running.child.id())).unwrap();
            let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
            names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "nvml")).count()
        };
        for _ in 0..5 {
            wait_for_the_watch(&running);
            assert_eq!(threads(), 1, "{symbol}");
        }
        assert_eq!(samples(&page(&running), "cpu_power_acpi_watts").len(), 2);
        // N32: it ends at once, whatever it is in the middle of.
        let ended = Instant::now();
        running.signal(Signal::TERM);
        assert_eq!(running.end().0, Some(0));
        assert!(ended.elapsed() < Duration::from_secs(2), "the end took {:?}", ended.elapsed());
    }
}

#[test]
fn what_an_engine_gave_is_given_back_at_the_end() {
    let engines = Engines::of(&[(50.0, 6.0)]);
    let library = engines.dcgm.library().to_str().unwrap();
    let args = ["--interval", "50ms", "--source", "dcgm", "--dcgm-library", library];
    let running = Running::start(&Tree::new::<&str>(&[]), &args);
    eventually("it is read", || samples(&page(&running), "cpu_power_dcgm_watts").len() == 2);
    let reads = || value(&page(&running), "power_read_duration_seconds_count", &[]).unwrap();
    let before = reads();
    eventually("the watch has looked", || reads() > before + 40.0);
    check(
        &lines(running, "dcgm"),
        &[
            ("INFO", "the DCGM engine at 127.0.0.1 answers"),
            ("INFO", "source chosen"),
            ("INFO", "DCGM: 2 of 2 sensors report"),
        ],
    );
    assert_eq!(unbalanced(&engines.dcgm.calls().unwrap()), Vec::<String>::new());
}

#[test]
fn an_engine_in_place_of_one_that_was_named_is_a_warning() {
    let mut engines = Engines::of(&[(50.0, 6.0)]);
    engines.dcgm.change(|script| script.engine.running = false).unwrap();
    let library = engines.dcgm.library().to_str().unwrap();
    let args = ["--interval", "50ms", "--source", "dcgm", "--no-nvml", "--dcgm-library", library];
    for (address, level) in [(&["--dcgm-address", "node7:5555"] as &[&str], "WARN"), (&[], "INFO")]
    {
        let running = Running::start(&Tree::new::<&str>(&[]), &[&args[..], address].concat());
        let lines = lines(running, "dcgm");
        let at = address.last().unwrap_or(&"127.0.0.1");
        let said = format!("no DCGM engine at {at} (dcgmConnect returned -21");
        check(&lines[..1], &[(level, &said)]);
    }
}
