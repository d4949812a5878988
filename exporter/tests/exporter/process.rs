//! The program as an operator meets it: exit codes, log lines, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Answer, Tree, ask, connect, eventually, read_to_end, value};

/// Longer than requests in flight are waited for at the end.
const DRAIN_TIME_BOUND: Duration = Duration::from_secs(8);

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
fn a_request_in_flight_is_answered_before_the_end() {
    let tree = grace();
    let running = Running::start(&tree, &[]);
    let mut idle = connect(running.address);
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    let mut start = [0; 15];
    idle.read_exact(&mut start).unwrap();
    let mut in_flight = connect(running.address);
    in_flight.write_all(b"GET /health HTTP/1.1\r\nHost: ").unwrap();
    // Served after the half request was accepted, so the half request is being served, too.
    assert_eq!(ask(running.address, "GET", "/health", &[]).status, 200);
    running.signal(Signal::TERM);
    eventually("nobody listens any more", || TcpStream::connect(running.address).is_err());
    in_flight.write_all(b"node\r\n\r\n").unwrap();
    let answer = Answer::parse(&read_to_end(&mut in_flight).unwrap());
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok\n"));
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn a_client_that_never_ends_is_cut() {
    let tree = grace();
    let running = Running::start(&tree, &[]);
    let mut endless = connect(running.address);
    endless.write_all(b"GET /health HTTP/1.1\r\nHost: ").unwrap();
    assert_eq!(ask(running.address, "GET", "/health", &[]).status, 200);
    running.signal(Signal::TERM);
    let started = Instant::now();
    assert_eq!(running.end().0, Some(0));
    assert!(started.elapsed() < DRAIN_TIME_BOUND, "took {:?}", started.elapsed());
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
