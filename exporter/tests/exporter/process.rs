//! The program as an operator meets it: exit codes, log lines, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use wattscribe_standins::{Behaviour, Block, DcgmScript};

use crate::fixture::{Tree, ask, connect, eventually, value};
use crate::superchip::Engines;

/// Whoever ends a service waits for longer than this, and answers in flight may take longer.
const END_TIME_BOUND: Duration = Duration::from_secs(2);

pub(crate) fn exporter(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cpu-power-exporter"));
    command.args(args).env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running exporter, killed when the test fails.
pub(crate) struct Running {
    pub(crate) child: Child,
    log: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    said: String,
}

impl Running {
    /// Starts over a tree and waits for the line that says where it listens.
    pub(crate) fn start(tree: &Tree, args: &[&str]) -> Self {
        let root = tree.root().to_str().unwrap();
        let common = ["--port", "0", "--bind", "127.0.0.1", "--sysfs-root", root];
        let mut child = exporter(&[&common[..], args].concat()).spawn().unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "ended without listening:\n{said}");
            said += &line;
            if line.contains("listening") {
                let field = line.split("addr=").nth(1).unwrap();
                break field.trim().parse().unwrap();
            }
        };
        Self { child, log, address, said }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit code, and everything that was logged.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.log.read_to_string(&mut self.said).unwrap();
        (code, std::mem::take(&mut self.said))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn grace() -> Tree {
    Tree::meters(&[("Grace Power Socket 0", "98029000"), ("CPU Power Socket 0", "50000000")])
}

#[test]
fn signals_end_it_with_code_0() {
    let tree = grace();
    for signal in [Signal::TERM, Signal::INT] {
        let running = Running::start(&tree, &[]);
        // At once: whoever saw the line may already send it.
        running.signal(signal);
        assert_eq!(running.end().0, Some(0), "{signal:?}");
    }
}

#[test]
fn whoever_is_owed_no_answer_does_not_delay_the_end() {
    let tree = grace();
    let requests: [&[u8]; 4] = [
        b"",
        b"GET /metr",
        b"GET /health HTTP/1.1\r\nHost: ",
        b"GET /health HTTP/1.1\r\nHost: node\r\n\r\n", // answered, and kept open
    ];
    for request in requests {
        let running = Running::start(&tree, &[]);
        let mut client = connect(running.address);
        client.write_all(request).unwrap();
        // Served after the other was accepted: it is being served, too.
        assert_eq!(ask(running.address, "GET", "/health", &[]).status, 200);
        let started = Instant::now();
        running.signal(Signal::TERM);
        assert_eq!(running.end().0, Some(0));
        assert!(started.elapsed() < END_TIME_BOUND, "{request:?} took {:?}", started.elapsed());
    }
}

#[test]
fn a_signal_ends_a_start_that_blocks() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut engines = Engines::of(&[(50.0, 6.0)]);
        let blocks = Behaviour::blocks(Block::ForEver);
        let change = |script: &mut DcgmScript| {
            script.calls.insert("dcgmConnect".into(), blocks);
        };
        engines.dcgm.change(change).unwrap();
        let library = engines.dcgm.library().to_str().unwrap();
        let tree = Tree::new::<&str>(&[]);
        let root = tree.root().to_str().unwrap();
        let mut child = exporter(&[
            "--sysfs-root",
            root,
            "--no-nvml",
            "--dcgm-library",
            library,
            "--source",
            "dcgm",
        ])
        .spawn()
        .unwrap();
        let calls = || engines.dcgm.calls().unwrap();
        eventually("it connects", || calls().iter().any(|call| call.symbol == "dcgmConnect"));
        let started = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal:?}");
        assert!(started.elapsed() < END_TIME_BOUND, "{signal:?} took {:?}", started.elapsed());
    }
}

#[test]
fn a_hung_sensor_is_logged_once() {
    let tree = grace();
    tree.hang("devices/ACPI000D:01/hwmon/hwmon1/power1_average");
    let running = Running::start(&tree, &["--interval", "50ms"]);
    let page = || ask(running.address, "GET", "/metrics", &[]).text();
    let count = |family, label: &str| value(&page(), family, &[label]).unwrap();
    eventually("the hang is counted", || {
        count("power_read_errors_total", "reason=\"timeout\"") == 1.0
    });
    // The watch looks four times a second; forty reads of the other sensor are two seconds.
    let reads = count("power_read_duration_seconds_count", "");
    eventually("the watch has looked again and again", || {
        count("power_read_duration_seconds_count", "") > reads + 40.0
    });
    assert_eq!(count("power_read_errors_total", "reason=\"timeout\""), 1.0);
    running.signal(Signal::TERM);
    let (code, log) = running.end();
    assert_eq!(code, Some(0));
    assert_eq!(log.matches("a read has not come back").count(), 1, "{log}");
    assert_eq!(log.matches(" WARN ").count(), 1, "{log}");
}

fn output(args: &[&str]) -> Output {
    exporter(args).output().unwrap()
}

/// It ends with this code, and says each of these on one of its two outputs.
fn check(args: &[&str], code: i32, said: &[&str]) {
    let output = output(args);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
    for words in said {
        assert!(text.contains(words), "{args:?}: {words:?} is not in {text}");
    }
    assert!(!text.contains("listening"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn it_tells_what_it_is() {
    check(&["--version"], 0, &[concat!("cpu-power-exporter ", env!("CARGO_PKG_VERSION"))]);
    let flags = [
        "--port",
        "--bind",
        "--source",
        "--interval",
        "--stale-after",
        "--sysfs-root",
        "--hwmon-root",
        "--nvml-library",
        "--no-nvml",
        "--dcgm-library",
        "--dcgm-address",
    ];
    check(&["--help"], 0, &flags);
    check(
        &["--help"],
        0,
        &["[default: 9405]", "[default: 0.0.0.0]", "- auto: ", "- acpi: ", "- dcgm: ", "- rapl: "],
    );
}

#[test]
fn arguments_without_sense_end_it_with_code_2() {
    let cases: [(&[&str], &str); 12] = [
        (&["--interval", "0s"], "expected 10ms to 15s"),
        (&["--interval", "9ms"], "expected 10ms to 15s"),
        (&["--interval", "16s"], "expected 10ms to 15s"),
        (&["--interval", "NaN"], "--interval"),
        (&["--interval=-1s"], "--interval"),
        (
            &["--interval", "5s", "--stale-after", "4s"],
            "--stale-after 4s is shorter than --interval 5s: every reading would be stale",
        ),
        (&["--stale-after", "0s"], "--stale-after 0ns is shorter than --interval 1s"),
        (&["--port", "65536"], "--port"),
        (&["--bind", "localhost"], "--bind"),
        (&["--source", "nvml"], "--source"),
        (&["--unknown"], "--unknown"),
        (&["extra"], "extra"),
    ];
    for (args, said) in cases {
        check(args, 2, &[said]);
    }
}

#[test]
fn a_start_that_fails_ends_it_with_code_1_and_every_reason() {
    let empty = Tree::new::<&str>(&[]);
    let root = empty.root().to_str().unwrap();
    let reasons = [
        "no usable power source",
        "acpi: cannot list",
        "dcgm: no DCGM library: tried libdcgm.so.4, libdcgm.so.3, libdcgm.so",
        "rapl: cannot list",
    ];
    check(&["--sysfs-root", root], 1, &reasons);
    check(&["--sysfs-root", root, "--source", "dcgm"], 1, &["dcgm: no DCGM library"]);

    let tree = grace();
    let root = tree.root().to_str().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let said = [&format!("cannot listen on {address}: "), "in use"].map(|s| s.to_owned());
    check(
        &["--sysfs-root", root, "--bind", "127.0.0.1", "--port", &port],
        1,
        &[&said[0], &said[1]],
    );
}

#[test]
fn a_hwmon_root_of_its_own_is_read() {
    let tree = grace();
    let hwmon = tree.path("class/hwmon");
    let nothing = Tree::new::<&str>(&[]);
    let running = Running::start(&nothing, &["--hwmon-root", hwmon.to_str().unwrap()]);
    let page = ask(running.address, "GET", "/metrics", &[]).text();
    let total = &[r#"sensor="hwmon0/power1",type="total""#];
    assert_eq!(value(&page, "cpu_power_acpi_watts", total), Some(98.029), "{page}");
    assert_eq!(value(&page, "power_simulated", &[]), Some(0.0));
}
