//! An accelerator as the machine itself shows it: where it stands on PCI, who made it, which driver has it.
//!
//! Everything here is a file that the kernel answers from its memory: looking wakes no device
//! (kernel: Documentation/ABI/testing/sysfs-bus-pci, Documentation/ABI/testing/sysfs-class-drm).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::sensor::Source;
use crate::sysfs::Sysfs;

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// It draws and computes, or only computes.
    Gpu,
    /// It computes neural networks.
    Npu,
}

impl DeviceKind {
    /// The `kind` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Npu => "npu",
        }
    }
}

/// Whether a device has power of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An accelerator.
    Accelerator,
    /// A display of a management controller or of a virtual machine: it accelerates nothing.
    Display,
    /// A virtual function of another device, which measures the power of both.
    VirtualFunction,
}

impl Role {
    /// The `role` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accelerator => "accelerator",
            Self::Display => "display",
            Self::VirtualFunction => "virtual_function",
        }
    }
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its PCI address as sysfs writes it, `0000:c3:00.0`: what it goes by.
    pub pci: String,
    /// What it is for.
    pub kind: DeviceKind,
    /// Whether it has power of its own.
    pub role: Role,
    /// Who made it, in hexadecimal without a prefix; empty where nothing tells.
    pub vendor_id: String,
    /// Which of that maker's devices it is, likewise.
    pub device_id: String,
    /// The driver that has it; empty where none does.
    pub driver: String,
    /// The number of its `card` or `accel` node, which another may have tomorrow.
    pub index: Option<u32>,
    /// The NUMA node that it stands by.
    pub numa_node: Option<u32>,
    /// What its maker calls it, where the driver tells.
    pub name: String,
    /// Its serial number, where the driver tells.
    pub serial: String,
}

/// Makers of displays that accelerate nothing, by PCI vendor: ASPEED, Matrox, Cirrus; and of virtual machines: QEMU,
/// Red Hat's QXL and virtio, VMware, VirtualBox, Hyper-V.
const DISPLAY_VENDORS: [&str; 9] =
    ["1a03", "102b", "1013", "1234", "1b36", "1af4", "15ad", "80ee", "1414"];

/// Displays of makers that make accelerators too: Huawei's management controller, AMD's ES1000.
const DISPLAYS: [(&str, &str); 2] = [("19e5", "1711"), ("1002", "515e")];

impl Device {
    /// Whether it is the same device under the same driver. Texts about it may be told later than others.
    pub fn is_same(&self, other: &Device) -> bool {
        let what = |of: &Device| (of.kind, of.role, of.index);
        let ids =
            |of: &Device| [&of.pci, &of.vendor_id, &of.device_id, &of.driver].map(String::clone);
        what(self) == what(other) && ids(self) == ids(other)
    }

    /// Who reads it.
    pub fn source(&self) -> Source {
        match self.driver.as_str() {
            "amdgpu" => Source::Amdgpu,
            "i915" => Source::I915,
            "xe" => Source::Xe,
            "nvidia" => Source::Nvml,
            "amdxdna" => Source::Amdxdna,
            "intel_vpu" => Source::IntelVpu,
            _ => Source::OtherDriver,
        }
    }

    /// Its directory.
    pub fn directory(&self, sysfs: &Sysfs) -> PathBuf {
        sysfs.pci_device(&self.pci)
    }

    /// Its directory among the sensors: `hwmon3` of the driver's own name. Drivers that have one for each tile call those
    /// otherwise.
    ///
    /// # Errors
    /// A listing that failed.
    pub fn hwmon(&self, sysfs: &Sysfs) -> Result<Option<PathBuf>, Failure> {
        let dir = self.directory(sysfs).join("hwmon");
        for name in listed(sysfs, &dir)? {
            let hwmon = dir.join(name);
            if word(sysfs, &hwmon.join("name"))? == self.driver {
                return Ok(Some(hwmon));
            }
        }
        Ok(None)
    }

    /// Whether runtime power management holds it asleep. What nobody tells is awake.
    pub fn is_asleep(&self, sysfs: &Sysfs) -> bool {
        is_asleep(sysfs, &self.pci)
    }
}

/// The driver that has a device.
pub fn driver(sysfs: &Sysfs, device: &Path) -> Option<String> {
    let driver = sysfs.canonical(&device.join("driver"))?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

/// Whether a PCI device sleeps, or is about to. What nobody tells is awake.
pub fn is_asleep(sysfs: &Sysfs, pci: &str) -> bool {
    let device = sysfs.pci_device(pci);
    let says = |name: &str, words: &[&str]| {
        sysfs.text_if_any(&device.join(name)).is_some_and(|text| words.contains(&text.as_str()))
    };
    says("power/runtime_status", &["suspended", "suspending"]) || says("power_state", &["D3cold"])
}

/// All devices, ordered by address.
///
/// # Errors
/// A listing or an identity that cannot be read: then nothing is known of any of them. That there is none is no error.
pub fn discover(sysfs: &Sysfs) -> Result<Vec<Device>, Failure> {
    let mut found: BTreeMap<String, (DeviceKind, Option<u32>)> = BTreeMap::new();
    for pci in listed(sysfs, &sysfs.pci_devices())?.into_iter().filter(|name| is_address(name)) {
        // A display or 3D controller, and a processing accelerator (PCI Code and ID Assignment, 03h and 12h).
        match word(sysfs, &sysfs.pci_device(&pci).join("class"))? {
            class if class.starts_with("0x03") => {
                found.insert(pci, (DeviceKind::Gpu, None));
            }
            class if class.starts_with("0x12") => {
                found.insert(pci, (DeviceKind::Npu, None));
            }
            _ => {}
        }
    }
    for (class, prefix, kind) in
        [("accel", "accel", DeviceKind::Npu), ("drm", "card", DeviceKind::Gpu)]
    {
        let dir = sysfs.class(class);
        for name in listed(sysfs, &dir)? {
            // `card0-DP-1` is a connector.
            let Some(index) = name.strip_prefix(prefix).and_then(|number| number.parse().ok())
            else {
                continue;
            };
            if let Some(pci) = address_of(sysfs, &dir.join(&name).join("device")) {
                found.insert(pci, (kind, Some(index)));
            }
        }
    }
    let device = |(pci, (kind, index))| device(sysfs, pci, kind, index).transpose();
    found.into_iter().filter_map(device).collect()
}

/// The names in a directory, none where there is no such directory.
pub(super) fn listed(sysfs: &Sysfs, dir: &Path) -> Result<Vec<String>, Failure> {
    match sysfs.list(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|error| Failure::from_io(&error)),
    }
}

/// What a file that every device has says; nothing where it is not there.
fn word(sysfs: &Sysfs, file: &Path) -> Result<String, Failure> {
    match sysfs.text(file) {
        Err(Failure::Gone) => Ok(String::new()),
        text => text,
    }
}

fn device(
    sysfs: &Sysfs,
    pci: String,
    kind: DeviceKind,
    index: Option<u32>,
) -> Result<Option<Device>, Failure> {
    let dir = sysfs.pci_device(&pci);
    let text = |name: &str| sysfs.text_if_any(&dir.join(name)).unwrap_or_default();
    let hexadecimal = |name: &str| {
        let word = word(sysfs, &dir.join(name))?;
        Ok(word.trim_start_matches("0x").to_ascii_lowercase())
    };
    // One that went while it was looked at.
    if sysfs.canonical(&dir).is_none() {
        return Ok(None);
    }
    let (vendor_id, device_id) = (hexadecimal("vendor")?, hexadecimal("device")?);
    let is_display = DISPLAY_VENDORS.contains(&vendor_id.as_str())
        || DISPLAYS.contains(&(vendor_id.as_str(), device_id.as_str()));
    let role = if sysfs.canonical(&dir.join("physfn")).is_some() {
        Role::VirtualFunction
    } else if is_display {
        Role::Display
    } else {
        Role::Accelerator
    };
    Ok(Some(Device {
        kind,
        role,
        vendor_id,
        device_id,
        driver: driver(sysfs, &dir).unwrap_or_default(),
        index,
        numa_node: text("numa_node").parse().ok(), // -1 where the firmware says nothing
        name: text("product_name"),
        serial: Some(text("serial_number"))
            .filter(|serial| !serial.is_empty())
            .unwrap_or_else(|| text("unique_id")),
        pci,
    }))
}

/// The address of the PCI device that a link leads to. A partition of a chip is a platform device, and has none.
fn address_of(sysfs: &Sysfs, link: &Path) -> Option<String> {
    let name = sysfs.canonical(link)?.file_name()?.to_string_lossy().into_owned();
    is_address(&name).then_some(name)
}

/// `0000:c3:00.0`, also with a longer domain: `10000:e1:00.0`.
fn is_address(name: &str) -> bool {
    let digits = |text: &str, count: std::ops::RangeInclusive<usize>| {
        count.contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let mut parts = name.split([':', '.']);
    let shapes = [4..=8, 2..=2, 2..=2, 1..=1];
    let separators: String = name.chars().filter(|c| matches!(c, ':' | '.')).collect();
    separators == "::."
        && shapes.into_iter().all(|shape| parts.next().is_some_and(|part| digits(part, shape)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_four_parts_and_a_domain_of_any_width() {
        for name in ["0000:c3:00.0", "10000:e1:00.0", "00000008:01:00.7"] {
            assert!(is_address(name), "{name}");
        }
        for name in [
            "",
            "c3:00.0",
            "000:c3:00.0",
            "0000:c3:00:0",
            "0000:c3:00.",
            "0000:c3.00.0",
            "card0",
            "0000:g3:00.0",
        ] {
            assert!(!is_address(name), "{name}");
        }
    }
}
