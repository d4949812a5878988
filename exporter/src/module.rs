//! The power of whole superchip modules, from what each of their GPUs reports of them.
//!
//! Pure: the rule stands in `wattscribe_rules`, so that files of recorded readings give the same means.

use std::collections::BTreeMap;

use wattscribe_rules::{ModuleMean, module_mean};

use crate::cell::Verdict;
use crate::sensor::{Kind, Meter, Sensor};

/// The module of one socket.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// The socket: the NUMA node of its GPUs.
    pub socket: u32,
    /// The indices of the GPUs that report, ascending.
    pub gpus: Vec<u32>,
    /// What they report together.
    pub mean: ModuleMean,
}

impl Module {
    /// Its name where a sensor is named.
    pub fn id(&self) -> String {
        format!("socket{}", self.socket)
    }

    /// The `gpus` label: `0,1`.
    pub fn gpu_list(&self) -> String {
        self.gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    /// The highest reading less the lowest as a fraction of their mean, for two readings and more.
    pub fn spread(&self) -> Option<f64> {
        match self.mean {
            ModuleMean::Mean { watts, spread_w, members } if members > 1 => Some(spread_w / watts),
            ModuleMean::Disagree { mean_w, spread_w, .. } => Some(spread_w / mean_w),
            ModuleMean::Mean { .. } | ModuleMean::NoReading => None,
        }
    }
}

/// The modules of some GPUs, by socket. A GPU without a reading is no member, nor one whose socket nobody
/// tells.
pub fn modules<'a>(gpus: impl Iterator<Item = (&'a Sensor, &'a Verdict)>) -> Vec<Module> {
    let mut of_socket: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
    for (sensor, verdict) in gpus {
        let (Meter::Gpu(gpu), Kind::Module, Some(socket)) =
            (&sensor.meter, sensor.kind, sensor.socket)
        else {
            continue;
        };
        let members = of_socket.entry(socket).or_default();
        if let Some(watts) = verdict.watts {
            members.insert(gpu.index, watts);
        }
    }
    let module = |(socket, members): (u32, BTreeMap<u32, f64>)| {
        let readings: Vec<Option<f64>> = members.values().copied().map(Some).collect();
        Module { socket, gpus: members.into_keys().collect(), mean: module_mean(&readings) }
    };
    of_socket.into_iter().map(module).collect()
}
