//! A machine as files under a sysfs root, refreshed to a time given by the caller.
//!
//! The layout is the kernel's (see `hwmon` and `powercap`): links in `class/`, attributes in `devices/`.
//! A value is replaced in one step (see `disk`), and only when its text has changed. Dropping a tree
//! leaves its files, for they are the caller's to remove, but lets go of readers that hang on it.

use std::path::{Path, PathBuf};

use crate::disk::{self, Entry};
use crate::hwmon::Meter;
use crate::machine::Kind;
use crate::sensor::{Origin, Sensor};
use crate::{Fault, Machine, SimulatorError, powercap};

/// File at the root of every simulated sysfs. Who reads power below such a root must say that it is simulated.
pub const MARKER: &str = "wattscribe-simulated";

const MARKER_TEXT: &str = "The power values below this folder are made up by a simulator.\n";

/// A target whose reading fails with `EIO`: address 0 of the reader's own memory, which is never mapped.
const UNREADABLE: &str = "/proc/self/mem";

/// The files of one machine.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    machine: Machine,
    channels: Vec<Channel>,
}

/// A sensor with its place and its state.
#[derive(Debug)]
struct Channel {
    sensor: Sensor,
    place: Place,
    origin: Origin,
    fault: Option<Fault>,
    /// The text in the file, none when it has to be written whatever it is.
    shown: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Meter(Meter),
    Zone,
}

impl Tree {
    /// Makes the files of `machine` below `root`, with the readings of `t_s` seconds after the epoch.
    ///
    /// # Errors
    /// [`SimulatorError::Description`] for a machine that cannot be; [`SimulatorError::Change`] when a
    /// file cannot be made, and also when `root` holds a tree already.
    pub fn build(machine: &Machine, root: &Path, t_s: f64) -> Result<Tree, SimulatorError> {
        machine.check()?;
        let channels: Vec<Channel> = (0_u32..)
            .zip(machine.sensors())
            .map(|(number, sensor)| Channel::new(sensor, Place::first(&machine.kind, number)))
            .collect();
        disk::create(root, &Entry::File(MARKER.into(), MARKER_TEXT.into()))?;
        if matches!(machine.kind, Kind::Rapl { .. }) {
            powercap::control_type().iter().try_for_each(|entry| disk::create(root, entry))?;
        }
        for channel in &channels {
            channel.entries().iter().try_for_each(|entry| disk::create(root, entry))?;
        }
        let mut tree = Tree { root: root.to_owned(), machine: machine.clone(), channels };
        tree.refresh(t_s)?;
        Ok(tree)
    }

    /// The sysfs root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The machine whose files these are.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Brings every reading without a fault to `t_s` seconds after the epoch.
    ///
    /// # Errors
    /// [`SimulatorError::Change`]; readings after the one that failed are left as they were.
    pub fn refresh(&mut self, t_s: f64) -> Result<(), SimulatorError> {
        let Tree { root, channels, .. } = self;
        channels.iter_mut().try_for_each(|channel| channel.refresh(root, t_s))
    }

    /// Path of the file that holds the reading of a sensor, below `devices/`.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`].
    pub fn reading_file(&self, sensor: &str) -> Result<PathBuf, SimulatorError> {
        self.channel(sensor).map(|index| self.channels[index].file(&self.root))
    }

    /// Gives a sensor a fault, in place of one that it may have.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`], [`SimulatorError::Change`].
    pub fn fail(&mut self, sensor: &str, fault: Fault, t_s: f64) -> Result<(), SimulatorError> {
        self.heal(sensor, t_s)?;
        let index = self.channel(sensor)?;
        let channel = &mut self.channels[index];
        let file = channel.file(&self.root);
        match &fault {
            Fault::Text(text) => disk::put_text(&self.root, &file, text)?,
            Fault::Missing => disk::remove(&file)?,
            Fault::Denied => disk::deny(&file)?,
            Fault::ReadError => disk::put_link(&self.root, &file, UNREADABLE)?,
            Fault::Hung => disk::put_fifo(&self.root, &file)?,
            Fault::Frozen => {}
        }
        channel.fault = Some(fault);
        Ok(())
    }

    /// Takes a sensor's fault away and shows the reading of `t_s`. Without a fault, only refreshes it.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`], [`SimulatorError::Change`].
    pub fn heal(&mut self, sensor: &str, t_s: f64) -> Result<(), SimulatorError> {
        let index = self.channel(sensor)?;
        let channel = &mut self.channels[index];
        let hung = channel.fault == Some(Fault::Hung);
        // Held until the FIFO has been replaced, so that nobody can start to wait after the others left.
        let _waiting = hung.then(|| disk::open_fifo(&channel.file(&self.root))).transpose()?;
        if channel.fault.take().is_some() {
            channel.shown = None;
        }
        channel.refresh(&self.root, t_s)
    }

    /// Replaces the text of another attribute beside a sensor's reading, such as `power1_oem_info`.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`], [`SimulatorError::Change`].
    pub fn set_attribute(
        &self,
        sensor: &str,
        attribute: &str,
        text: &str,
    ) -> Result<(), SimulatorError> {
        let file = self.reading_file(sensor)?.with_file_name(attribute);
        disk::put_text(&self.root, &file, text)
    }

    /// Starts a sensor's energy counter again from 0 at `t_s`, as a driver does when it is loaded anew.
    ///
    /// # Errors
    /// [`SimulatorError::Unknown`], also for a sensor that does not count; [`SimulatorError::Change`].
    pub fn reset_counter(&mut self, sensor: &str, t_s: f64) -> Result<(), SimulatorError> {
        let index = self.channel(sensor)?;
        let channel = &mut self.channels[index];
        if matches!(channel.place, Place::Meter(_)) {
            return Err(self.unknown("counter", sensor));
        }
        channel.origin = Origin { t_s, counter_uj: 0 };
        channel.refresh(&self.root, t_s)
    }

    /// Gives every hwmon node the number of the next one, and the last the number of the first. Faults and
    /// attributes move with their meters; the links in `class/hwmon` are gone for a moment, as they
    /// are when a kernel registers its devices again.
    ///
    /// # Errors
    /// [`SimulatorError::Change`].
    pub fn renumber_hwmon(&mut self) -> Result<(), SimulatorError> {
        let Tree { root, channels, .. } = self;
        let mut meters: Vec<&mut Meter> = channels.iter_mut().filter_map(Channel::meter).collect();
        let count = meters.len() as u32; // a machine has far fewer meters than a u32 counts
        for meter in &meters {
            let (Entry::Link(link, _) | Entry::File(link, _)) = meter.class_link();
            disk::remove(&root.join(link))?;
        }
        for meter in &mut meters {
            let before = root.join(meter.class_node());
            meter.hwmon = (meter.hwmon + 1) % count;
            disk::rename(&before, &root.join(meter.class_node()))?;
        }
        meters.iter().try_for_each(|meter| disk::create(root, &meter.class_link()))
    }

    /// Position of a sensor.
    fn channel(&self, id: &str) -> Result<usize, SimulatorError> {
        let found = self.channels.iter().position(|channel| channel.sensor.id == id);
        found.ok_or_else(|| self.unknown("sensor", id))
    }

    fn unknown(&self, kind: &'static str, name: &str) -> SimulatorError {
        let place = format!("machine {:?}", self.machine.name);
        SimulatorError::Unknown { place, kind, name: name.into() }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for channel in &self.channels {
            if channel.fault == Some(Fault::Hung) {
                let file = channel.file(&self.root);
                let waiting = disk::open_fifo(&file);
                // Nothing is left to do about a file that cannot be removed, and drop cannot report it.
                let _ = disk::remove(&file);
                drop(waiting);
            }
        }
    }
}

impl Channel {
    fn new(sensor: Sensor, place: Place) -> Channel {
        let origin = sensor.first_origin();
        Channel { sensor, place, origin, fault: None, shown: None }
    }

    fn meter(&mut self) -> Option<&mut Meter> {
        match &mut self.place {
            Place::Meter(meter) => Some(meter),
            Place::Zone => None,
        }
    }

    fn entries(&self) -> Vec<Entry> {
        match self.place {
            Place::Meter(meter) => meter.entries(&self.sensor),
            Place::Zone => powercap::entries(&self.sensor),
        }
    }

    fn file(&self, root: &Path) -> PathBuf {
        let folder = match self.place {
            Place::Meter(meter) => meter.attributes(),
            Place::Zone => powercap::folder(&self.sensor.id),
        };
        root.join(folder).join(self.sensor.reading())
    }

    fn refresh(&mut self, root: &Path, t_s: f64) -> Result<(), SimulatorError> {
        if self.fault.is_some() {
            return Ok(());
        }
        let text = self.sensor.text(t_s, self.origin);
        if self.shown.as_ref() != Some(&text) {
            disk::put_text(root, &self.file(root), &text)?;
            self.shown = Some(text);
        }
        Ok(())
    }
}

impl Place {
    fn first(kind: &Kind, number: u32) -> Place {
        match *kind {
            Kind::Grace { layout, .. } => {
                Place::Meter(Meter { device: number, hwmon: number, layout })
            }
            Kind::Rapl { .. } => Place::Zone,
        }
    }
}
