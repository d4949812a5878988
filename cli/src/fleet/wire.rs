//! The fleet's document: JSON of the wire contract that existing consumers read, and what is new in keys beside theirs.
//!
//! A device that is not measured has `powerWatts` -1, which those consumers reject and show as unmeasurable; zero would be
//! a measurement to them. One that sleeps has 0 and `suspended`, one that is stale its last power and `stale`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wattscribe_rules::fleet::{Listed, Snapshot, Standing};

use crate::time::utc;

/// The largest document that is ever given: what existing consumers read.
pub(crate) const BYTES_MAX: usize = 4 << 20;

/// What stands for the power of a device that has none.
const UNMEASURED: f64 = -1.0;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document {
    /// The instant that it is of.
    pub scraped_at: String,
    pub agents_total: u64,
    pub agents_up: u64,
    /// The sum of all that is measured, in watts.
    pub total_watts: f64,
    pub stale_devices: u64,
    pub devices: Vec<Device>,
    /// The sum by what the power covers.
    #[serde(default)]
    pub watts_by_scope: BTreeMap<String, f64>,
    /// Devices that are measured.
    #[serde(default)]
    pub measured_devices: u64,
    /// Devices that the document has no room for; they are in the totals.
    #[serde(default)]
    pub omitted_devices: u64,
    /// Agents that told of a node for which another one speaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

/// An agent that was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub agent: String,
    pub node: String,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Device {
    pub node: String,
    pub kind: String,
    pub pci: String,
    pub vendor_id: String,
    pub device_id: String,
    pub driver: String,
    pub power_watts: f64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, f64>,
    pub suspended: bool,
    pub stale: bool,
    #[serde(flatten)]
    pub more: More,
}

/// What is new.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub averaging: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_joules: Option<f64>,
    /// When the count began, in Unix seconds of the node's clock: another number is another count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_epoch: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub energy_counter: String,
}

impl Document {
    /// The document of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Document {
        let stale = |of: &&Listed| matches!(of.standing, Standing::Stale(_));
        let measured = |of: &&Listed| of.measured_watts().is_some();
        let refused = snapshot.refused.iter();
        Document {
            scraped_at: utc(snapshot.at_s),
            agents_total: snapshot.agents_total as u64,
            agents_up: snapshot.agents_up as u64,
            total_watts: micro(snapshot.total_watts),
            stale_devices: snapshot.devices.iter().filter(stale).count() as u64,
            devices: snapshot.devices.iter().map(Device::of).collect(),
            watts_by_scope: rounded(&snapshot.watts_by_scope),
            measured_devices: snapshot.devices.iter().filter(measured).count() as u64,
            omitted_devices: 0,
            refused: refused
                .map(|(agent, node)| Refused { agent: agent.clone(), node: node.clone() })
                .collect(),
        }
    }

    /// Its bytes, no more than [`BYTES_MAX`]: without what is new where it would not fit, and then without the devices that
    /// come last.
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        let whole = self.json();
        if whole.len() <= BYTES_MAX {
            return whole;
        }
        self.devices.iter_mut().for_each(|device| device.more = More::default());
        self.refused.clear();
        loop {
            let bytes = self.json();
            if bytes.len() <= BYTES_MAX || self.devices.is_empty() {
                return bytes;
            }
            // Devices are about as long as each other: what fits is met in a step or two.
            let share = BYTES_MAX as f64 / bytes.len() as f64;
            let kept =
                ((self.devices.len() as f64 * share * 0.99) as usize).min(self.devices.len() - 1);
            self.omitted_devices += (self.devices.len() - kept) as u64;
            self.devices.truncate(kept);
        }
    }

    fn json(&self) -> Vec<u8> {
        // Every number is finite and every key a text: there is nothing that JSON cannot say.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

impl Device {
    fn of(listed: &Listed) -> Device {
        let device = &listed.device;
        let last = |watts: Option<f64>| watts.map_or(UNMEASURED, micro);
        let was_asleep = device.watts() == Err("asleep");
        let power_watts = match listed.standing {
            Standing::Measured(watts) => micro(watts),
            Standing::Stale(_) | Standing::Suspended if was_asleep => 0.0,
            Standing::Stale(watts) => last(watts),
            Standing::Suspended | Standing::Unmeasured => UNMEASURED,
        };
        let is_ok = device.watts().is_ok();
        let energy =
            device.energy.as_ref().filter(|of| of.joules.is_finite() && of.since_s.is_finite());
        Device {
            node: listed.node.clone(),
            kind: device.kind.clone(),
            pci: device.pci.clone(),
            vendor_id: device.vendor_id.clone(),
            device_id: device.device_id.clone(),
            driver: device.driver.clone(),
            power_watts,
            components: if is_ok { rounded(&device.components) } else { BTreeMap::new() },
            suspended: was_asleep,
            stale: matches!(listed.standing, Standing::Stale(_)),
            more: More {
                measured: Some(listed.measured_watts().is_some()),
                reason: listed.reason().map(str::to_owned),
                sampled_at: is_ok.then(|| utc(listed.read_s)),
                age_ms: is_ok.then(|| (listed.age_s * 1e3).round() as u64),
                scope: device.scope.clone(),
                averaging: device.averaging.clone(),
                uuid: device.uuid.clone(),
                name: device.name.clone(),
                energy_joules: energy.map(|of| micro(of.joules)),
                energy_epoch: energy.map(|of| micro(of.since_s)),
                energy_counter: energy.map(|of| of.counter.clone()).unwrap_or_default(),
            },
        }
    }
}

/// To a millionth, which is what pages are printed with: a sum of doubles has a tail of digits that mean nothing.
fn micro(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn rounded(numbers: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    numbers.iter().map(|(name, number)| (name.clone(), micro(*number))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wattscribe_rules::fleet::{Fleet, FleetDevice, FleetLimits, Found, Joules, Reading};

    use super::*;

    const LIMITS: FleetLimits = FleetLimits { stale_after_s: 15.0, forget_after_s: 600.0 };

    fn document(devices: Vec<FleetDevice>, at_s: f64) -> Document {
        let mut fleet = Fleet::new(LIMITS);
        fleet.found(&[Found { address: "a".to_owned(), node: Some("n".to_owned()) }]);
        fleet.answered("a", 1_788_310_143.0, devices);
        Document::of(&fleet.snapshot(1_788_310_143.0 + at_s))
    }

    fn device(pci: &str, reading: Reading) -> FleetDevice {
        let (kind, components) =
            ("gpu".to_owned(), BTreeMap::from([("gfx".to_owned(), 6.400000000000001)]));
        FleetDevice { pci: pci.to_owned(), kind, reading, components, ..FleetDevice::default() }
    }

    #[test]
    fn devices_take_the_forms_that_consumers_know() {
        let devices = vec![
            device("1", Reading::Watts(25.05)),
            device("2", Reading::Suspended),
            device("3", Reading::None("not_supported".to_owned())),
            device("4", Reading::Watts(f64::NAN)),
        ];
        let fresh = document(devices.clone(), 1.5);
        let json = String::from_utf8(fresh.clone().bytes()).unwrap();
        let first = r#"{"node":"n","kind":"gpu","pci":"1","vendorId":"","deviceId":"","driver":"","powerWatts":25.05,"components":{"gfx":6.4},"suspended":false,"stale":false,"measured":true,"sampledAt":"2026-09-02T00:49:03.000Z","ageMs":1500}"#;
        assert!(json.contains(first), "{json}");
        assert!(json.starts_with(r#"{"scrapedAt":"2026-09-02T00:49:04.500Z","agentsTotal":1,"agentsUp":1,"totalWatts":25.05,"staleDevices":0,"devices":["#), "{json}");
        let forms = |document: &Document| -> Vec<(f64, bool, bool, Option<String>)> {
            let forms = document.devices.iter();
            forms
                .map(|of| (of.power_watts, of.suspended, of.stale, of.more.reason.clone()))
                .collect()
        };
        let reason = |text: &str| Some(text.to_owned());
        let expected = [
            (25.05, false, false, None),
            (0.0, true, false, reason("asleep")),
            (-1.0, false, false, reason("not_supported")),
            (-1.0, false, false, reason("rejected")),
        ];
        assert_eq!(forms(&fresh), expected);
        let stale = document(devices, 16.0);
        assert_eq!((stale.total_watts, stale.stale_devices, stale.measured_devices), (0.0, 4, 0));
        let stale_forms = forms(&stale);
        assert_eq!(stale_forms[0], (25.05, false, true, reason("stale")));
        assert_eq!(stale_forms[1], (0.0, true, true, reason("stale")));
        let empty = String::from_utf8(document(Vec::new(), 0.0).bytes()).unwrap();
        assert!(empty.contains(r#""devices":[]"#), "{empty}");
    }

    #[test]
    fn a_document_has_a_bound() {
        let many = |count: usize| {
            let devices = (0..count).map(|n| FleetDevice {
                name: "x".repeat(120),
                ..device(&format!("{n:08}"), Reading::Watts(1.0))
            });
            document(devices.collect(), 0.0)
        };
        let whole = many(8_000);
        let parsed: Document = serde_json::from_slice(&whole.clone().bytes()).unwrap();
        assert_eq!(parsed, whole, "a large fleet fits");
        let bytes = many(16_000).bytes();
        let parsed: Document = serde_json::from_slice(&bytes).unwrap();
        assert!(bytes.len() <= BYTES_MAX);
        assert_eq!(
            (parsed.devices.len(), parsed.devices[0].more.clone()),
            (16_000, More::default())
        );
        let bytes = many(60_000).bytes();
        let parsed: Document = serde_json::from_slice(&bytes).unwrap();
        assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&bytes.len()), "{}", bytes.len());
        assert_eq!(parsed.devices.len() as u64 + parsed.omitted_devices, 60_000);
        assert_eq!((parsed.total_watts, parsed.measured_devices), (60_000.0, 60_000));
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), 0.0..1e4_f64]
    }

    proptest! {
        /// Whatever pages tell, the answer is JSON of the contract, and its total is the sum of what it says is measured.
        #[test]
        fn any_fleet_is_a_document(
            devices in proptest::collection::vec((any::<String>(), number(), number(), number(), 0..3_u8), 0..20),
            later_s in 0.0..700.0_f64,
        ) {
            let devices = devices.into_iter().map(|(text, watts, part, joules, what)| FleetDevice {
                pci: text.clone(),
                uuid: text.clone(),
                driver: text.clone(),
                reading: match what {
                    0 => Reading::Watts(watts),
                    1 => Reading::Suspended,
                    _ => Reading::None(text.clone()),
                },
                components: BTreeMap::from([(text.clone(), part.clamp(0.0, 1.0))]),
                energy: Some(Joules { joules, since_s: joules, counter: text }),
                age_s: watts,
                ..FleetDevice::default()
            });
            let document = document(devices.collect(), later_s);
            let bytes = document.clone().bytes();
            let parsed: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let listed = parsed["devices"].as_array().unwrap();
            let measured = listed.iter().filter(|of| of["measured"] == true);
            let sum: f64 = measured.clone().map(|of| of["powerWatts"].as_f64().unwrap()).sum();
            let total = parsed["totalWatts"].as_f64().unwrap();
            prop_assert!((sum - total).abs() < 1e-3, "{} is not {}", sum, total);
            for of in measured {
                prop_assert!(of["stale"] == false && of["suspended"] == false);
            }
            prop_assert_eq!(parsed["staleDevices"].as_u64(), Some(document.stale_devices));
        }
    }
}
