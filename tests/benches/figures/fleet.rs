//! A fleet of superchip nodes, as samples and as a recording in Parquet.

use std::error::Error;
use std::f64::consts::TAU;
use std::fs;
use std::path::Path;

use wattscribe_rules::State;
use wattscribe_table::{CpuSample, LongReading, PartWriter, Scrape, Simulated, Table};

pub(crate) const NODES: u32 = 1_000;
pub(crate) const SOCKETS: u32 = 2;
pub(crate) const GPUS: u32 = 8;
pub(crate) const SECONDS: u32 = 600;
pub(crate) const START_S: f64 = 1_788_310_020.0;

/// A recorder seals a part as often.
const PART_SECONDS: u32 = 150;

pub(crate) fn node_name(number: u32) -> String {
    format!("node{number:04}")
}

/// The power of one sensor of a node: a load that comes and goes, and half a watt of noise.
pub(crate) fn watts(node: u32, sensor: u32, second: u32) -> f64 {
    let phase = f64::from(second % 300) / 300.0 * TAU + f64::from(node);
    let seed = (second * 31 + sensor * 7 + node).wrapping_mul(2_654_435_761);
    let noise = f64::from(seed >> 16) / 65_536.0 - 0.5;
    ((300.0 + 90.0 * phase.sin() + noise) * 1e3).round() / 1e3
}

/// Labels of a GPU, sorted by name. Half of the GPUs are of each socket.
pub(crate) fn gpu_labels(metric: &str, node: &str, gpu: u32) -> String {
    let (pci, socket) = (format!("00{gpu:02}:01:00.0"), gpu * SOCKETS / GPUS);
    let uuid = format!("GPU-{node}-{gpu}");
    match metric {
        "accelerator_power_watts" => {
            format!("kind=\"gpu\",pci=\"{pci}\",scope=\"gpu\",socket=\"{socket}\",uuid=\"{uuid}\"")
        }
        _ => format!(
            "gpu=\"{gpu}\",pci=\"{pci}\",socket=\"{socket}\",source=\"nvml\",uuid=\"{uuid}\""
        ),
    }
}

/// Writes a recording of the fleet. How many rows it has.
pub(crate) fn write(run: &Path) -> Result<u64, Box<dyn Error>> {
    let mut rows = 0;
    for part in 0..SECONDS / PART_SECONDS {
        let seconds = part * PART_SECONDS..(part + 1) * PART_SECONDS;
        let mut cpu = open::<CpuSample>(run, part)?;
        let mut readings = open::<LongReading>(run, part)?;
        let mut scrapes = open::<Scrape>(run, part)?;
        for node in 0..NODES {
            for socket in 0..SOCKETS {
                let series: Vec<CpuSample> =
                    seconds.clone().map(|second| cpu_sample(node, socket, second)).collect();
                cpu.write(&series)?;
                rows += series.len() as u64;
            }
            let series: Vec<Scrape> = seconds.clone().map(|second| scrape(node, second)).collect();
            scrapes.write(&series)?;
            rows += series.len() as u64;
        }
        for (kind, metric) in (0..).zip(["accelerator_power_watts", "gpu_module_power_watts"]) {
            for node in 0..NODES {
                for gpu in 0..GPUS {
                    let labels = gpu_labels(metric, &node_name(node), gpu);
                    let place = SOCKETS + kind * GPUS + gpu;
                    let of = |second| reading(node, second, metric, &labels, place);
                    let series: Vec<LongReading> = seconds.clone().map(of).collect();
                    readings.write(&series)?;
                    rows += series.len() as u64;
                }
            }
        }
        cpu.finish(Some(Simulated::True))?;
        readings.finish(Some(Simulated::True))?;
        scrapes.finish(Some(Simulated::True))?;
    }
    Ok(rows)
}

fn open<T: Table>(run: &Path, part: u32) -> Result<PartWriter<T>, Box<dyn Error>> {
    let folder = run.join(T::TABLE);
    fs::create_dir_all(&folder)?;
    Ok(PartWriter::create(&folder.join(format!("part-{:06}.parquet", part + 1)))?)
}

/// Targets are scraped one after the other within each second.
fn start_us(node: u32, second: u32) -> i64 {
    let offset_us = i64::from(node) * 1_000_000 / i64::from(NODES);
    (START_S * 1e6) as i64 + i64::from(second) * 1_000_000 + offset_us
}

fn reading(node: u32, second: u32, metric: &str, labels: &str, place: u32) -> LongReading {
    LongReading {
        timestamp_us: start_us(node, second),
        target: node_name(node),
        scrape_seq: u64::from(second),
        metric: metric.to_owned(),
        labels: labels.to_owned(),
        value: watts(node, place, second),
        sample_timestamp_ms: None,
        read_at_us: None,
    }
}

fn cpu_sample(node: u32, socket: u32, second: u32) -> CpuSample {
    CpuSample {
        timestamp_unix: start_us(node, second) as f64 / 1e6,
        hostname: node_name(node),
        source: "acpi".to_owned(),
        sensor: format!("CPU{socket}:cpuSidePowerUsageW"),
        socket_id: socket,
        power_w: Some(watts(node, socket, second)),
        cpu_rail_w: None,
        soc_w: None,
        dram_w: None,
        module_w: None,
        total_power_w: Some((0..SOCKETS).map(|socket| watts(node, socket, second)).sum()),
        scrape_seq: u64::from(second),
        sensor_time_us: None,
        averaging: "mean".to_owned(),
        averaging_s: Some(0.05),
        energy_counter_j: None,
        energy_counter_time: None,
        energy_counter_since: None,
        state: State::Ok,
        simulated: true,
    }
}

fn scrape(node: u32, second: u32) -> Scrape {
    Scrape {
        timestamp_us: start_us(node, second),
        target: node_name(node),
        url: format!("http://{}:9405/metrics", node_name(node)),
        seq: u64::from(second),
        mono_ns: i64::from(second) * 1_000_000_000,
        duration_us: 1_000,
        status: Some(200),
        outcome: Scrape::OK.to_owned(),
        detail: None,
        bytes: Some(9_000),
        samples: 60,
        rows: u64::from(SOCKETS + 2 * GPUS),
        missed_ticks: 0,
        clock_offset_us: Some(0),
        clock_error_us: Some(500),
        wall_step_us: 0,
    }
}
