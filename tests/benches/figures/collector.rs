//! The collector over 1,000 agents of eight devices, of which 10 % never answer and 5 % answer every other time: how long
//! the fleet's document takes, whether it is the right one each time, and what the collector takes.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Process, program};

const AGENTS: usize = 1_000;
const DEVICES: usize = 8;
/// Questions for the document, with pauses between them.
const ASKED: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(20);

/// What an agent does.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Answers,
    Hangs,
    Flaps,
}

fn manner(agent: usize) -> Manner {
    match agent % 20 {
        0 | 10 => Manner::Hangs,
        1 => Manner::Flaps,
        _ => Manner::Answers,
    }
}

/// Milliwatts, so that their sum is exact.
fn milliwatts(agent: usize, device: usize) -> u64 {
    300_000 + (agent * DEVICES + device) as u64
}

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let agents = serve()?;
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = Command::new(program("wattscribe")?);
    command.args(["fleet", "serve", "--listen", &address.to_string()]);
    for agent in 0..AGENTS {
        command.args(["--agent", &format!("n{agent:04}=http://{agents}/{agent}")]);
    }
    let collector = Process::start(&mut command)?;
    let present: Vec<usize> = (0..AGENTS).filter(|agent| manner(*agent) != Manner::Hangs).collect();
    let total_mw: u64 = present
        .iter()
        .flat_map(|agent| (0..DEVICES).map(|device| milliwatts(*agent, device)))
        .sum();
    let expected = (present.len() * DEVICES, total_mw);
    let deadline = Instant::now() + Duration::from_secs(60);
    while document(address).ok().and_then(|body| told(&body)) != Some(expected) {
        if Instant::now() > deadline {
            return Err("the fleet is never whole".into());
        }
        thread::sleep(Duration::from_millis(200));
    }
    let (began, cpu) = (Instant::now(), collector.cpu()?);
    let (mut took, mut bytes) = (Vec::with_capacity(ASKED), 0);
    for question in 0..ASKED {
        let start = Instant::now();
        let body = document(address)?;
        took.push(start.elapsed());
        bytes = body.len();
        if told(&body) != Some(expected) {
            return Err(
                format!("answer {question} is not that of the model: {:?}", told(&body)).into()
            );
        }
        thread::sleep(PAUSE);
    }
    let cpu = collector.cpu()?.saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{AGENTS} agents of {DEVICES} devices, asked every 5 s; a tenth of them hang, a twentieth fail every other time"
    );
    println!(
        "  {ASKED} documents of {bytes} bytes, each with the {} devices and {:.3} W of the model: median {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        expected.0,
        total_mw as f64 / 1e3,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!(
        "  {:.1} % of a core, {} KiB resident, {} KiB at most",
        cpu * 100.0,
        collector.memory_kib("VmRSS").unwrap_or_default(),
        collector.memory_kib("VmHWM").unwrap_or_default()
    );
    Ok(())
}

/// Devices that are measured, and their milliwatts, both counted in the list.
fn told(body: &[u8]) -> Option<(usize, u64)> {
    let document: serde_json::Value = serde_json::from_slice(body).ok()?;
    let devices = document["devices"].as_array()?;
    let measured = devices.iter().filter(|device| device["measured"] == true);
    let watts: Vec<f64> = measured.filter_map(|device| device["powerWatts"].as_f64()).collect();
    let listed_mw: u64 = watts.iter().map(|watts| (watts * 1e3).round() as u64).sum();
    let total_mw = (document["totalWatts"].as_f64()? * 1e3).round() as u64;
    (listed_mw == total_mw && devices.len() == watts.len()).then_some((watts.len(), listed_mw))
}

fn document(address: SocketAddr) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /api/v1/fleet HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::with_capacity(4 << 20);
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").ok_or("no head")?;
    Ok(answer.split_off(end + 4))
}

/// All agents behind one address: the path says which one is asked.
fn serve() -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    // By agent and not by connection: a client shares its connections among the agents of one address.
    let asked: Arc<Vec<AtomicU32>> = Arc::new((0..AGENTS).map(|_| AtomicU32::new(0)).collect());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = Arc::clone(&asked);
            thread::Builder::new().stack_size(64 << 10).spawn(move || answer(stream, &asked)).ok();
        }
    });
    Ok(address)
}

/// Answers one client for as long as it stays.
fn answer(stream: TcpStream, asked: &[AtomicU32]) {
    let Ok(mut writer) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(1..) => {}
                _ => return,
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let Ok(agent) = path.trim_start_matches('/').parse::<usize>() else { return };
        let Some(before) = asked.get(agent) else { return };
        let is_second = before.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let (status, body) = match manner(agent) {
            Manner::Hangs => continue,
            Manner::Flaps if is_second => ("500 Internal Server Error", String::new()),
            _ => ("200 OK", page(agent)),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if writer
            .write_all(head.as_bytes())
            .and_then(|()| writer.write_all(body.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}

fn page(agent: usize) -> String {
    let mut page = String::new();
    for device in 0..DEVICES {
        let labels = format!(
            "kind=\"gpu\",pci=\"0000:{:02x}:00.0\",uuid=\"GPU-{agent:08}-0000-0000-0000-{device:012}\",vendor_id=\"10de\",device_id=\"2330\",driver=\"nvidia\"",
            0x18 + device
        );
        let watts = milliwatts(agent, device) as f64 / 1e3;
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "accelerator_info{{{labels},role=\"accelerator\",name=\"NVIDIA H100 80GB HBM3\"}} 1"
        );
        let _ = writeln!(
            page,
            "accelerator_power_watts{{{labels},socket=\"0\",scope=\"gpu\",averaging=\"mean\"}} {watts:.6}"
        );
        let _ = writeln!(
            page,
            "accelerator_energy_joules_total{{{labels},scope=\"gpu\",counter=\"hardware\"}} 123456.789"
        );
        let _ = writeln!(
            page,
            "accelerator_energy_since_timestamp_seconds{{{labels},scope=\"gpu\",counter=\"hardware\"}} 1788310143.461"
        );
        let _ = writeln!(page, "accelerator_suspended{{{labels}}} 0");
    }
    page
}
