//! Files of ACPI power meters, as `acpi_power_meter` registers them.
//!
//! Kernel: Documentation/hwmon/acpi_power_meter.rst. The class folder holds links to the devices, and
//! `device` of a class node leads back to the ACPI device: whoever resolves it gets `ACPI000D:NN`, which
//! stays when the class nodes are numbered anew. Until 2025 the attributes were those of the ACPI device
//! and the class node had none; since then they are those of the class node.

use crate::disk::Entry;
use crate::machine::HwmonLayout;
use crate::sensor::{Rail, Sensor, Shows};

/// Where one meter is in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Number of the ACPI device.
    pub(crate) device: u32,
    /// Number of its class node, which a renumbering changes.
    pub(crate) hwmon: u32,
    /// Where the attributes are.
    pub(crate) layout: HwmonLayout,
}

impl Meter {
    /// Folder of the attributes.
    pub(crate) fn attributes(&self) -> String {
        match self.layout {
            HwmonLayout::New => self.class_node(),
            HwmonLayout::Old => self.acpi_device(),
        }
    }

    /// Folder of the class node.
    pub(crate) fn class_node(&self) -> String {
        format!("{}/hwmon/hwmon{}", self.acpi_device(), self.hwmon)
    }

    /// The link in the class folder.
    pub(crate) fn class_link(&self) -> Entry {
        let path = format!("class/hwmon/hwmon{}", self.hwmon);
        Entry::Link(path, format!("../../{}", self.class_node()))
    }

    /// Everything but the reading.
    pub(crate) fn entries(&self, sensor: &Sensor) -> Vec<Entry> {
        let attribute = |name: &str, text: String| {
            Entry::File(format!("{}/{name}", self.attributes()), format!("{text}\n"))
        };
        let mut entries = vec![
            attribute("name", "power_meter".into()),
            attribute("power1_oem_info", label(sensor)),
            Entry::Link(
                format!("{}/device", self.class_node()),
                format!("../../../ACPI000D:{:02X}", self.device),
            ),
            self.class_link(),
        ];
        if let Shows::Mean { averaging_ms, cap_max_w } = sensor.shows {
            if averaging_ms > 0 {
                entries.push(attribute("power1_average_interval", averaging_ms.to_string()));
            }
            if let Some(cap_w) = cap_max_w {
                entries.push(attribute("power1_cap_max", format!("{:.0}", cap_w * 1e6)));
            }
        }
        entries
    }

    fn acpi_device(&self) -> String {
        format!("devices/LNXSYSTM:00/LNXSYBUS:00/ACPI000D:{:02X}", self.device)
    }
}

/// Label that Grace firmware gives the rail.
fn label(sensor: &Sensor) -> String {
    let rail = match sensor.rail {
        Rail::CpuRail => "CPU",
        Rail::Soc => "SysIO",
        Rail::Total | Rail::Package | Rail::Core | Rail::Dram => "Grace",
    };
    format!("{rail} Power Socket {}", sensor.socket)
}
