//! CPU per scrape and resident memory of the exporter, beside node_exporter's hwmon collector over the
//! same sysfs tree.
//!
//! Ours reads sensors in the background and node_exporter on each scrape; so the background's cost is
//! measured by itself, and printed, and not hidden in either figure.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wattscribe_simulator::{Machine, Tree, Waveform};

use crate::process::{Process, program};

const SCRAPES: u32 = 3000;
const IDLE: Duration = Duration::from_secs(10);

struct Figures {
    per_scrape: Duration,
    idle_share: f64,
    rss_kib: u64,
    page_bytes: usize,
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let root = tempfile::tempdir()?;
    let waves = [120.0, 95.0].map(|watts| Waveform::Constant { watts });
    let tree = Tree::build(&Machine::grace("node", &waves), root.path(), 0.0)?;
    println!("a Grace node of two sockets, six channels; {SCRAPES} scrapes over one connection");

    let mut ours = Command::new(program("cpu-power-exporter")?);
    let port = free_port()?;
    ours.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--sysfs-root"])
        .arg(tree.root());
    let ours = measure(&mut ours, port)?;
    show("cpu-power-exporter", &ours);

    let port = free_port()?;
    let mut theirs = Command::new("prometheus-node-exporter");
    theirs
        .args([
            "--collector.disable-defaults",
            "--collector.hwmon",
            "--web.disable-exporter-metrics",
        ])
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg(format!("--path.sysfs={}", tree.root().display()));
    match measure(&mut theirs, port) {
        Ok(theirs) => {
            show("node_exporter (hwmon only)", &theirs);
            println!(
                "  ours by theirs: CPU per scrape {:.3}, memory {:.3}",
                ours.per_scrape.as_secs_f64() / theirs.per_scrape.as_secs_f64(),
                ours.rss_kib as f64 / theirs.rss_kib as f64
            );
        }
        Err(error) => println!("  node_exporter: skipped ({error})"),
    }
    Ok(())
}

fn show(name: &str, figures: &Figures) {
    println!(
        "  {name:<28} {:>8.1} us CPU per scrape, {:>6.3} % CPU without scrapes, {:>6} KiB resident, page of {} bytes",
        figures.per_scrape.as_secs_f64() * 1e6,
        figures.idle_share * 100.0,
        figures.rss_kib,
        figures.page_bytes
    );
}

fn measure(command: &mut Command, port: u16) -> Result<Figures, Box<dyn Error>> {
    let process = Process::start(command)?;
    let mut connection = connect(port)?;
    for _ in 0..50 {
        scrape(&mut connection)?;
    }
    let (before, start) = (process.cpu()?, Instant::now());
    thread::sleep(IDLE);
    let idle_share = (process.cpu()? - before).as_secs_f64() / start.elapsed().as_secs_f64();

    let mut connection = connect(port)?;
    let (before, start) = (process.cpu()?, Instant::now());
    let mut page_bytes = 0;
    for _ in 0..SCRAPES {
        page_bytes = scrape(&mut connection)?;
    }
    let background = start.elapsed().mul_f64(idle_share);
    let spent = (process.cpu()? - before).saturating_sub(background);
    let rss_kib = process.memory_kib("VmRSS").ok_or("the process is gone")?;
    Ok(Figures { per_scrape: spent / SCRAPES, idle_share, rss_kib, page_bytes })
}

fn free_port() -> Result<u16, Box<dyn Error>> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn connect(port: u16) -> Result<BufReader<TcpStream>, Box<dyn Error>> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return Ok(BufReader::new(stream)),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// One scrape with the header that Prometheus sends, over a kept connection. The body's length.
fn scrape(connection: &mut BufReader<TcpStream>) -> Result<usize, Box<dyn Error>> {
    connection.get_mut().write_all(
        b"GET /metrics HTTP/1.1\r\nHost: node\r\nAccept: text/plain;version=0.0.4;q=1\r\n\r\n",
    )?;
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse()?;
        }
        is_chunked |= line == "transfer-encoding: chunked";
    }
    if !is_chunked {
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        return Ok(length);
    }
    let mut total = 0;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16)?;
        let mut chunk = vec![0; size + 2];
        connection.read_exact(&mut chunk)?;
        if size == 0 {
            return Ok(total);
        }
        total += size;
    }
}
