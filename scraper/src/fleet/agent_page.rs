//! What a page says of accelerators: ours (`accelerator_*`), or that of an agent of another collector that is being
//! replaced (`ergoz_accel_*`).
//!
//! Pure. A page is believed whole or not at all; a sample that names no device is left out.

use std::collections::BTreeMap;

use wattscribe_parser::{Entry, Exposition, Fault, Labels, Sample};
use wattscribe_rules::fleet::{FleetDevice, Joules, Reading};

/// The accelerators of a page.
///
/// # Errors
/// The first fault of the page.
pub fn read(body: &[u8]) -> Result<Vec<FleetDevice>, Fault> {
    let mut page = AgentPage::default();
    for entry in Exposition::new(body)? {
        if let Entry::Sample(sample) = entry? {
            page.take(&sample);
        }
    }
    Ok(page.devices())
}

#[derive(Default)]
struct AgentPage {
    of_device: BTreeMap<String, Told>,
    /// When the page was made, and when each sensor was read, in Unix seconds of the node's clock.
    made_s: Option<f64>,
    read_s: BTreeMap<String, f64>,
    /// State and reason of each sensor.
    states: BTreeMap<String, String>,
    reasons: BTreeMap<String, String>,
}

/// What was met of one device so far.
#[derive(Default)]
struct Told {
    device: FleetDevice,
    watts: Option<f64>,
    suspended: Option<bool>,
    joules: Option<(f64, String)>,
    since_s: Option<f64>,
    /// Something that is no accelerator, whatever else is told of it.
    is_other: bool,
    is_foreign: bool,
}

impl AgentPage {
    fn take(&mut self, sample: &Sample<'_>) {
        let (labels, value) = (sample.labels, sample.value);
        match sample.name.raw() {
            "power_exposition_timestamp_seconds" => self.made_s = Some(value),
            "power_reading_timestamp_seconds" => {
                if let Some(sensor) = labels.get("sensor") {
                    self.read_s.insert(sensor.into_owned(), value);
                }
            }
            "power_sensor_state" => {
                if let (Some(sensor), Some(state)) = (labels.get("sensor"), labels.get("state")) {
                    self.states.insert(sensor.into_owned(), state.into_owned());
                }
            }
            "power_withheld" => {
                if let (Some(sensor), Some(reason)) = (labels.get("sensor"), labels.get("reason")) {
                    self.reasons.insert(sensor.into_owned(), reason.into_owned());
                }
            }
            name => {
                if let Some(family) = name.strip_prefix("accelerator_") {
                    self.take_ours(family, labels, value);
                } else if let Some(family) = name.strip_prefix("ergoz_accel_") {
                    self.take_foreign(family, labels, value);
                }
            }
        }
    }

    fn take_ours(&mut self, family: &str, labels: Labels<'_>, value: f64) {
        let Some(told) = self.told(labels) else { return };
        match family {
            "info" => {
                told.device.name = text(labels, "name");
                told.is_other = !matches!(text(labels, "role").as_str(), "" | "accelerator");
            }
            "power_watts" => {
                told.watts.get_or_insert(value);
                told.device.scope = text(labels, "scope");
                told.device.averaging = text(labels, "averaging");
            }
            "component_power_watts" => told.take_component(labels, value),
            "energy_joules_total" => told.joules = Some((value, text(labels, "counter"))),
            "energy_since_timestamp_seconds" => told.since_s = Some(value),
            "suspended" => told.suspended = Some(value == 1.0),
            _ => {}
        }
    }

    fn take_foreign(&mut self, family: &str, labels: Labels<'_>, value: f64) {
        let Some(told) = self.told(labels) else { return };
        told.is_foreign = true;
        told.device.node = Some(text(labels, "node")).filter(|node| !node.is_empty());
        match family {
            "power_watts" => told.watts = Some(value),
            "component_power_watts" => told.take_component(labels, value),
            "runtime_suspended" => told.suspended = Some(value == 1.0),
            _ => {}
        }
    }

    /// The device that labels name.
    fn told(&mut self, labels: Labels<'_>) -> Option<&mut Told> {
        let pci = FleetDevice::canonical_pci(&labels.get("pci")?);
        let told = self.of_device.entry(pci.clone()).or_insert_with(|| Told {
            device: FleetDevice {
                pci,
                kind: text(labels, "kind"),
                vendor_id: text(labels, "vendor_id"),
                device_id: text(labels, "device_id"),
                driver: text(labels, "driver"),
                ..FleetDevice::default()
            },
            ..Told::default()
        });
        if told.device.uuid.is_empty() {
            told.device.uuid = text(labels, "uuid");
        }
        Some(told)
    }

    fn devices(self) -> Vec<FleetDevice> {
        let Self { of_device, made_s, read_s, states, reasons } = self;
        let finish = |told: Told| {
            let Told { mut device, watts, suspended, joules, since_s, is_foreign, .. } = told;
            let sensor = format!("{}/power", device.pci);
            let is_suspended = suspended == Some(true);
            device.reading = match watts {
                _ if is_suspended => Reading::Suspended,
                // What those agents say of a device that has no sensor, or whose sensor failed as it woke.
                Some(0.0) if is_foreign => Reading::None("zero".to_owned()),
                Some(watts) => Reading::Watts(watts),
                None => {
                    let reason = reasons.get(&sensor).or(states.get(&sensor)).cloned();
                    Reading::None(reason.unwrap_or_else(|| "not_supported".to_owned()))
                }
            };
            if is_suspended {
                device.components.clear();
            }
            let age = made_s.zip(read_s.get(&sensor)).map(|(made_s, read_s)| made_s - read_s);
            device.age_s = age.filter(|age| age.is_finite()).unwrap_or(0.0).max(0.0);
            device.energy = joules.zip(since_s).map(|((joules, counter), since_s)| Joules {
                joules,
                since_s,
                counter,
            });
            device
        };
        of_device.into_values().filter(|told| !told.is_other).map(finish).collect()
    }
}

impl Told {
    fn take_component(&mut self, labels: Labels<'_>, watts: f64) {
        // A part that is no power is left out, as a part that is not there.
        if (0.0..=wattscribe_rules::fleet::WATTS_MAX).contains(&watts) {
            self.device.components.insert(text(labels, "component"), watts);
        }
    }
}

fn text(labels: Labels<'_>, name: &str) -> String {
    labels.get(name).map(|value| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_ours() {
        let page = concat!(
            "accelerator_info{kind=\"gpu\",pci=\"0000:C3:00.0\",uuid=\"GPU-1\",vendor_id=\"10de\",device_id=\"2330\",driver=\"nvidia\",role=\"accelerator\",name=\"H100\"} 1\n",
            "accelerator_info{kind=\"gpu\",pci=\"0000:02:00.0\",uuid=\"\",role=\"display\"} 1\n",
            "accelerator_info{kind=\"npu\",pci=\"0000:c4:00.1\",uuid=\"\",role=\"accelerator\"} 1\n",
            "accelerator_info{kind=\"gpu\",pci=\"0000:00:02.0\",uuid=\"\",role=\"accelerator\"} 1\n",
            "accelerator_power_watts{kind=\"gpu\",pci=\"0000:c3:00.0\",uuid=\"GPU-1\",scope=\"gpu\",averaging=\"mean\"} 300.5\n",
            "accelerator_component_power_watts{kind=\"gpu\",pci=\"0000:c3:00.0\",component=\"memory\"} 60\n",
            "accelerator_energy_joules_total{pci=\"0000:c3:00.0\",scope=\"gpu\",counter=\"hardware\"} 12.5\n",
            "accelerator_energy_since_timestamp_seconds{pci=\"0000:c3:00.0\",scope=\"gpu\",counter=\"hardware\"} 1700000000\n",
            "accelerator_suspended{pci=\"0000:c3:00.0\"} 0\n",
            "accelerator_suspended{pci=\"0000:c4:00.1\"} 1\n",
            "power_reading_timestamp_seconds{source=\"nvml\",sensor=\"0000:c3:00.0/power\"} 1700000099.5\n",
            "power_withheld{source=\"xe\",sensor=\"0000:00:02.0/power\",reason=\"not_supported\"} 1\n",
            "power_exposition_timestamp_seconds 1700000100\n",
        );
        let devices = read(page.as_bytes()).unwrap();
        let places: Vec<&str> = devices.iter().map(|device| device.pci.as_str()).collect();
        assert_eq!(places, ["0000:00:02.0", "0000:c3:00.0", "0000:c4:00.1"]);
        assert_eq!(devices[0].reading, Reading::None("not_supported".to_owned()));
        assert_eq!(devices[2].reading, Reading::Suspended);
        let gpu = &devices[1];
        assert_eq!((&gpu.reading, gpu.age_s), (&Reading::Watts(300.5), 0.5));
        assert_eq!(
            (gpu.name.as_str(), gpu.scope.as_str(), gpu.uuid.as_str()),
            ("H100", "gpu", "GPU-1")
        );
        assert_eq!(gpu.components, BTreeMap::from([("memory".to_owned(), 60.0)]));
        let joules = Joules { joules: 12.5, since_s: 1.7e9, counter: "hardware".to_owned() };
        assert_eq!((gpu.energy.clone(), gpu.node.clone()), (Some(joules), None));
    }

    #[test]
    fn a_page_of_an_agent_that_is_being_replaced() {
        let labels = |pci: &str| {
            format!(
                "driver=\"amdgpu\",kind=\"gpu\",node=\"framework\",pci=\"{pci}\",vendor_id=\"1002\",device_id=\"1586\""
            )
        };
        let (gpu, npu, dark) =
            (labels("0000:c3:00.0"), labels("0000:c4:00.1"), labels("0000:00:02.0"));
        let page = format!(
            "ergoz_accel_power_watts{{{gpu}}} 20.072\nergoz_accel_component_power_watts{{component=\"socket\",{gpu}}} 20.724\n\
             ergoz_accel_runtime_suspended{{{gpu}}} 0\nergoz_accel_power_watts{{{npu}}} 0\nergoz_accel_runtime_suspended{{{npu}}} 1\n\
             ergoz_accel_runtime_suspended{{{dark}}} 0\n"
        );
        let devices = read(page.as_bytes()).unwrap();
        let readings: Vec<&Reading> = devices.iter().map(|device| &device.reading).collect();
        let none = Reading::None("not_supported".to_owned());
        assert_eq!(readings, [&none, &Reading::Watts(20.072), &Reading::Suspended]);
        assert!(devices.iter().all(|device| device.node.as_deref() == Some("framework")));
        assert_eq!(devices[1].components, BTreeMap::from([("socket".to_owned(), 20.724)]));
        assert!(read(b"ergoz_accel_power_watts{\n").is_err());
    }
}
