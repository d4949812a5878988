//! The fleet at one instant.

use std::collections::BTreeMap;

use super::device::FleetDevice;
use super::roll::{Fleet, Told};

/// The fleet at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The instant, in Unix seconds.
    pub at_s: f64,
    /// Agents that there are.
    pub agents_total: usize,
    /// Agents of these that answered when they were asked last.
    pub agents_up: usize,
    /// The sum of all power that is measured, in watts.
    pub total_watts: f64,
    /// The same by what the power covers: scopes are never the same thing.
    pub watts_by_scope: BTreeMap<String, f64>,
    /// Devices by node and address.
    pub devices: Vec<Listed>,
    /// Agents that told of a node for which another one speaks: address and node.
    pub refused: Vec<(String, String)>,
}

/// A device at that instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its node.
    pub node: String,
    /// What was told of it.
    pub device: FleetDevice,
    /// How it stands.
    pub standing: Standing,
    /// When its sensor was read, in Unix seconds.
    pub read_s: f64,
    /// How long ago that was.
    pub age_s: f64,
}

/// How a device stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// It is measured: its power in watts.
    Measured(f64),
    /// It sleeps.
    Suspended,
    /// Nothing fresh is known of it. The power that was read last, in watts, unless there was none or it slept.
    Stale(Option<f64>),
    /// It is not measured.
    Unmeasured,
}

impl Listed {
    /// The power that counts, in watts.
    pub fn measured_watts(&self) -> Option<f64> {
        match self.standing {
            Standing::Measured(watts) => Some(watts),
            _ => None,
        }
    }

    /// Why it does not count; nothing for one that does.
    pub fn reason(&self) -> Option<&str> {
        match self.standing {
            Standing::Measured(_) => None,
            Standing::Stale(_) => Some("stale"),
            Standing::Suspended | Standing::Unmeasured => self.device.watts().err(),
        }
    }
}

impl Fleet {
    /// The fleet at an instant in Unix seconds, which must not be before the last answer.
    pub fn snapshot(&self, at_s: f64) -> Snapshot {
        let limits = self.limits();
        let known =
            self.devices.iter().filter(|(_, told)| at_s - told.at_s <= limits.forget_after_s);
        let devices: Vec<Listed> =
            known.map(|((node, _), told)| listed(node, told, at_s, limits.stale_after_s)).collect();
        let mut watts_by_scope: BTreeMap<String, f64> = BTreeMap::new();
        let mut total_watts = 0.0;
        for device in &devices {
            let Some(watts) = device.measured_watts() else { continue };
            total_watts += watts;
            *watts_by_scope.entry(device.device.scope.clone()).or_default() += watts;
        }
        let (agents_total, agents_up, refused) = self.standing();
        Snapshot { at_s, agents_total, agents_up, total_watts, watts_by_scope, devices, refused }
    }
}

fn listed(node: &str, told: &Told, at_s: f64, stale_after_s: f64) -> Listed {
    let device = &told.device;
    // A page cannot tell of a reading of the future.
    let read_s = told.at_s - device.age_s.max(0.0);
    let age_s = (at_s - read_s).max(0.0);
    // What has no reading grows old with the page that said so.
    let told_ago_s = if device.watts().is_ok() { age_s } else { at_s - told.at_s };
    let standing = match device.watts() {
        watts if told_ago_s > stale_after_s => Standing::Stale(watts.ok()),
        Ok(watts) => Standing::Measured(watts),
        Err("asleep") => Standing::Suspended,
        Err(_) => Standing::Unmeasured,
    };
    Listed { node: node.to_owned(), device: device.clone(), standing, read_s, age_s }
}

#[cfg(test)]
mod tests;
