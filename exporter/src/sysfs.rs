//! The exporter's one door to the file system: a sysfs tree under a root that the caller names.
//!
//! Reads are one `open` and one `read` without a `stat`: a sysfs attribute is at most a page, and some
//! hwmon drivers answer `EAGAIN`, which a retrying reader would spin on. Every failure keeps its path.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A sysfs attribute never exceeds one page (kernel: Documentation/filesystems/sysfs.rst).
const ATTRIBUTE_BYTES_MAX: usize = 4096;

/// The file that marks a tree as simulated hardware; see [`Sysfs::is_simulated`].
pub const SIMULATED_MARKER: &str = "wattscribe-simulated";

/// A sysfs tree.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
    hwmon: PathBuf,
}

impl Sysfs {
    /// The tree below `root` (`/sys` on a real machine); `hwmon` replaces `root/class/hwmon` when given.
    pub fn new(root: impl Into<PathBuf>, hwmon: Option<PathBuf>) -> Self {
        let root = root.into();
        let hwmon = hwmon.unwrap_or_else(|| root.join("class/hwmon"));
        Self { root, hwmon }
    }

    /// The directory that lists hwmon devices.
    pub fn hwmon(&self) -> &Path {
        &self.hwmon
    }

    /// The directory that lists powercap zones.
    pub fn powercap(&self) -> PathBuf {
        self.root.join("class/powercap")
    }

    /// The directory that lists the devices of a class.
    pub fn class(&self, class: &str) -> PathBuf {
        self.root.join("class").join(class)
    }

    /// The directory that lists PCI devices.
    pub fn pci_devices(&self) -> PathBuf {
        self.root.join("bus/pci/devices")
    }

    /// The directory of the PCI device at an address.
    pub fn pci_device(&self, address: &str) -> PathBuf {
        self.pci_devices().join(address)
    }

    /// Whether the tree says of itself that it is simulated. What is read from it is then published
    /// as simulated, whatever the flags say: a test tree must never pass for a machine.
    pub fn is_simulated(&self) -> bool {
        // A --hwmon-root of its own is also asked, and the tree that it stands in.
        let of_hwmon = self.hwmon.ancestors().take(3).map(|dir| dir.join(SIMULATED_MARKER));
        std::iter::once(self.root.join(SIMULATED_MARKER)).chain(of_hwmon).any(|path| path.exists())
    }

    /// One attribute's bytes, at most a page of them.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Failure> {
        let at = |error: io::Error| Failure::from_io(&error);
        let mut buffer = [0_u8; ATTRIBUTE_BYTES_MAX];
        let length = File::open(path).map_err(at)?.read(&mut buffer).map_err(at)?;
        Ok(buffer[..length].to_vec())
    }

    /// One attribute as text: invalid bytes replaced, surrounding blanks, newlines and NULs removed.
    pub fn text(&self, path: &Path) -> Result<String, Failure> {
        let bytes = self.read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
    }

    /// An attribute's text, or nothing when it is missing, unreadable or empty.
    pub fn text_if_any(&self, path: &Path) -> Option<String> {
        self.text(path).ok().filter(|text| !text.is_empty())
    }

    /// The names in a directory, sorted as text.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// The path behind all links, to tell two names of one thing.
    pub fn canonical(&self, path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok()
    }
}
