//! The exporter's command line, and what it means.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::cell::Limits;
use crate::ladder::SourceChoice;
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
}

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
}

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
        Ok(Config {
            address: SocketAddr::new(self.bind, self.port),
            source: self.source,
            sysfs: Sysfs::new(self.sysfs_root, self.hwmon_root),
            interval: self.interval,
            limits: Limits { stale_after, read_deadline: READ_DEADLINE },
        })
    }
}
