//! CPU of the recorder per sample: HTTP, parsing, rows, journal, CSV and Parquet together.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::process::{Process, program};

const TARGETS: usize = 50;
const SECONDS: u64 = 20;

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let pages = [
        ("power pages (2 sockets)", power_page(), None),
        ("general pages, nothing kept", general_page(), None),
        ("general pages, a tenth kept", general_page(), Some("node_cpu")),
    ];
    println!("{TARGETS} targets each second for {SECONDS} s on loopback");
    for (name, page, keep) in pages {
        measure(name, &page, keep)?;
    }
    Ok(())
}

fn measure(name: &str, page: &str, keep: Option<&str>) -> Result<(), Box<dyn Error>> {
    let samples = page.lines().filter(|line| !line.starts_with('#')).count();
    let dir = tempfile::tempdir()?;
    let mut command = Command::new(program("wattscribe")?);
    command
        .args(["record", "--duration", &format!("{SECONDS}s"), "--out"])
        .arg(dir.path().join("run"));
    for target in 0..TARGETS {
        let port = serve(page.to_owned())?;
        command.args(["--target", &format!("n{target}=http://127.0.0.1:{port}/metrics")]);
    }
    if let Some(pattern) = keep {
        command.args(["--keep", pattern]);
    }
    let process = Process::start(&mut command)?;
    // Before the end: CPU time of threads that are gone is gone with them.
    thread::sleep(Duration::from_secs(SECONDS - 1));
    let cpu = process.cpu()?;
    let rss_kib = process.memory_kib("VmRSS").ok_or("the recorder is gone")?;
    process.finish()?;
    let scraped = (TARGETS as u64 * (SECONDS - 1)) as f64;
    println!(
        "  {name:<28} {samples:>5} samples a page: {:>6.1} us CPU a scrape, {:>7.1} ns a sample, {:.2} % of one core, {rss_kib} KiB resident",
        cpu.as_secs_f64() * 1e6 / scraped,
        cpu.as_secs_f64() * 1e9 / (scraped * samples as f64),
        cpu.as_secs_f64() / (SECONDS - 1) as f64 * 100.0,
    );
    Ok(())
}

/// Serves one page to one client for as long as the process lives.
fn serve(page: String) -> Result<u16, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client goes away when it is done.
            let _ = answer(stream, &page);
        }
    });
    Ok(port)
}

fn answer(stream: TcpStream, page: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n",
        page.len()
    );
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if line == "\r\n" {
            out.write_all(head.as_bytes())?;
            out.write_all(page.as_bytes())?;
        }
        line.clear();
    }
    Ok(())
}

/// A page with the compatibility family of two Grace sockets.
fn power_page() -> String {
    let mut page = String::from("# TYPE cpu_power_acpi_watts gauge\n");
    for socket in 0..2 {
        for (rail, kind) in ["total", "cpu_rail", "soc"].iter().enumerate() {
            let channel = socket * 3 + rail + 1;
            let _ = writeln!(
                page,
                "cpu_power_acpi_watts{{sensor=\"hwmon0/power{channel}\",type=\"{kind}\",socket=\"{socket}\",oem_info=\"rail {channel}\",source=\"acpi\"}} {}.250000",
                50 + channel
            );
        }
    }
    page
}

/// A page like a general exporter's: 2,000 samples in 20 families.
fn general_page() -> String {
    let mut page = String::new();
    for family in 0..20 {
        let name = if family < 2 { "node_cpu" } else { "node_other" };
        let _ = writeln!(page, "# HELP {name}_{family} Some help.\n# TYPE {name}_{family} gauge");
        for series in 0..100 {
            let _ = writeln!(
                page,
                "{name}_{family}{{device=\"device{series}\",mode=\"idle\"}} {}.{series:02}",
                family * 1000 + series
            );
        }
    }
    page
}
