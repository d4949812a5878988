//! The exporter's command line, and what it means.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::cell::Limits;
use crate::ladder::SourceChoice;
use crate::sources::{dcgm, nvml};
use crate::sysfs::Sysfs;

/// What the operator typed.
#[derive(Debug, Clone, clap::Args)]
pub struct ExporterArgs {
    /// Port to listen on.
    #[arg(long, default_value_t = 9405)]
    pub port: u16,

    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0", value_name = "IP")]
    pub bind: IpAddr,

    /// Where power is read from; auto takes the first that is alive.
    #[arg(long, value_enum, default_value_t = SourceChoice::Auto)]
    pub source: SourceChoice,

    /// Time between two reads of a sensor, 10ms to 15s.
    #[arg(long, default_value = "1s", value_parser = parse_interval, value_name = "DURATION")]
    pub interval: Duration,

    /// Age at which a reading is withheld as stale [default: three intervals, but at least 3s]
    #[arg(long, value_parser = humantime::parse_duration, value_name = "DURATION")]
    pub stale_after: Option<Duration>,

    /// Root of the sysfs tree.
    #[arg(long, default_value = "/sys", value_name = "DIR")]
    pub sysfs_root: PathBuf,

    /// Directory of hwmon devices, in place of SYSFS_ROOT/class/hwmon.
    #[arg(long, value_name = "DIR")]
    pub hwmon_root: Option<PathBuf>,

    /// NVIDIA's library of GPUs, for module power [default: libnvidia-ml.so.1, libnvidia-ml.so]
    #[arg(long, value_name = "PATH", conflicts_with = "no_nvml")]
    pub nvml_library: Option<PathBuf>,

    /// Leaves NVML alone: it initialises every GPU of the node.
    #[arg(long)]
    pub no_nvml: bool,

    /// Reads accelerators that runtime power management holds asleep as well, and so wakes them.
    #[arg(long)]
    pub allow_wake: bool,

    /// DCGM's library [default: libdcgm.so.4, libdcgm.so.3, libdcgm.so]
    #[arg(long, value_name = "PATH")]
    pub dcgm_library: Option<PathBuf>,

    /// Address of the system's DCGM engine; where none answers, one is started in this process [default: 127.0.0.1]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub dcgm_address: Option<String>,
}

/// Where nv-hostengine listens unless it is told otherwise; without a port it is 5555.
const DCGM_ADDRESS: &str = "127.0.0.1";

/// The shortest interval. Faster reads measure the firmware's refresh and cost the workload more than
/// they tell.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The longest interval: the smallest counter of a RAPL zone in use, 65.5 kJ, lasts 16 s at the power that a
/// zone is believed to draw at most. Reads further apart could hide a wrap, and none would be believed.
const INTERVAL_MAX: Duration = Duration::from_secs(15);

/// A duration within the limits of an interval.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Ok(interval);
    }
    Err(format!("expected {INTERVAL_MIN:?} to {INTERVAL_MAX:?}"))
}

/// How the exporter runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub address: SocketAddr,
    /// Which rungs to try.
    pub source: SourceChoice,
    /// The tree to read.
    pub sysfs: Sysfs,
    /// Time between two reads of a sensor.
    pub interval: Duration,
    /// How long readings live and reads may take.
    pub limits: Limits,
    /// How long the source of the CPUs may be dead before another is looked for.
    pub dead_after: Duration,
    /// NVML libraries to try, in their order. None: NVML is left alone.
    pub nvml: Vec<PathBuf>,
    /// Where DCGM is.
    pub dcgm: dcgm::Access,
    /// Whether accelerators that sleep are read all the same, and so woken.
    pub allow_wake: bool,
}

impl Config {
    /// How to run over a simulated machine: this one's libraries are left alone.
    pub fn of_files(address: SocketAddr, source: SourceChoice, sysfs: Sysfs) -> Self {
        let dcgm = dcgm::Access::new(Vec::new(), DCGM_ADDRESS.to_owned());
        let limits = Limits { stale_after: STALE_AFTER_MIN, read_deadline: READ_DEADLINE };
        let (interval, dead_after) = (INTERVAL, DEAD_AFTER);
        Self {
            address,
            source,
            sysfs,
            interval,
            limits,
            dead_after,
            nvml: Vec::new(),
            dcgm,
            allow_wake: false,
        }
    }
}

/// The usual time between two reads.
const INTERVAL: Duration = Duration::from_secs(1);

/// A source that has given nothing for so long is not going to: twenty times what makes a reading stale.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// The default age at which a reading is stale, for intervals of a second and less.
const STALE_AFTER_MIN: Duration = Duration::from_secs(3);

/// A read that takes longer is reported as overdue. Firmware needs about 150 ms.
const READ_DEADLINE: Duration = Duration::from_secs(1);

impl ExporterArgs {
    /// What was typed, completed. Refuses a staleness that no reading can meet.
    pub fn into_config(self) -> Result<Config, String> {
        let stale_after = self.stale_after.unwrap_or(STALE_AFTER_MIN.max(self.interval * 3));
        if stale_after < self.interval {
            return Err(format!(
                "--stale-after {stale_after:?} is shorter than --interval {:?}: every reading would be stale",
                self.interval
            ));
        }
        let sysfs = Sysfs::new(self.sysfs_root, self.hwmon_root);
        let is_simulated = sysfs.is_simulated();
        // A simulated node must not be measured in part by this machine, unless somebody says so.
        let libraries = |named: Option<PathBuf>, usual: &[&str]| match named {
            Some(path) => vec![path],
            None if is_simulated => Vec::new(),
            None => usual.iter().map(PathBuf::from).collect(),
        };
        let nvml = libraries(self.nvml_library, &nvml::LIBRARY_NAMES);
        let dcgm = libraries(self.dcgm_library, &dcgm::LIBRARY_NAMES);
        let is_named = self.dcgm_address.is_some();
        let address = self.dcgm_address.unwrap_or_else(|| DCGM_ADDRESS.to_owned());
        let mut dcgm = dcgm::Access::new(dcgm, address);
        dcgm.is_named = is_named;
        Ok(Config {
            address: SocketAddr::new(self.bind, self.port),
            source: self.source,
            sysfs,
            interval: self.interval,
            limits: Limits { stale_after, read_deadline: READ_DEADLINE },
            dead_after: DEAD_AFTER,
            nvml: if self.no_nvml { Vec::new() } else { nvml },
            dcgm,
            allow_wake: self.allow_wake,
        })
    }
}
