//! Accelerators on the page: what each is, its power, its parts, its energy, and whether it sleeps.

use std::collections::BTreeMap;

use wattscribe_parser::{Family, Number, Writer};
use wattscribe_rules::State;

use super::{Line, header};
use crate::accelerator::device::{Device, DeviceKind, Role};
use crate::accelerator::energy_check::Trust;
use crate::accelerator::quantity::Quantity;
use crate::accelerator::scope::Scope;
use crate::accelerator::watched::Shown;
use crate::board::Board;
use crate::failure::Failure;
use crate::families;
use crate::library::Standing;
use crate::sensor::{Kind, Meter, Source};

/// One accelerator on the page.
pub(super) struct AcceleratorLine<'a> {
    device: Device,
    uuid: &'a str,
    index: Option<u32>,
    mig: Option<bool>,
    scope: Scope,
    is_lost: bool,
    is_asleep: Option<bool>,
    trust: Trust,
    /// Whether the library of GPUs serves: then what it does not tell it does not have.
    is_served: bool,
    lines: Vec<&'a Line>,
}

/// All accelerators, with what was read of them, ordered by address.
pub(super) fn accelerators<'a>(
    board: &Board,
    shown: Vec<Shown>,
    lines: &'a [Line],
) -> Vec<AcceleratorLine<'a>> {
    let mut of_device: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        if matches!(line.cell.sensor.kind, Kind::Accelerator(_)) {
            let pci = line.cell.sensor.id.split('/').next().unwrap_or_default();
            of_device.entry(pci).or_default().push(line);
        }
    }
    let mut all = Vec::new();
    for Shown { device, live, is_lost, is_asleep } in shown {
        let lines = of_device.remove(device.pci.as_str()).unwrap_or_default();
        let scope = live.as_ref().map_or(Scope::Gpu, |live| live.scope());
        all.push(AcceleratorLine::new(board, device, scope, lines, (is_lost, is_asleep)));
    }
    // What the library knows and sysfs does not, as in a container that sees none of it.
    for lines in of_device.into_values() {
        let pci = lines.iter().find_map(|line| match &line.cell.sensor.meter {
            Meter::Gpu(gpu) => Some(gpu.pci.as_str()),
            _ => None,
        });
        let device = nvidia(pci.unwrap_or_default());
        all.push(AcceleratorLine::new(board, device, Scope::Gpu, lines, (false, None)));
    }
    all.sort_by(|a, b| a.device.pci.cmp(&b.device.pci));
    all
}

/// A GPU of NVIDIA of which nothing but its address is known.
fn nvidia(pci: &str) -> Device {
    Device {
        pci: pci.to_owned(),
        kind: DeviceKind::Gpu,
        role: Role::Accelerator,
        vendor_id: "10de".to_owned(),
        device_id: String::new(),
        driver: "nvidia".to_owned(),
        index: None,
        numa_node: None,
        name: String::new(),
        serial: String::new(),
    }
}

impl<'a> AcceleratorLine<'a> {
    fn new(
        board: &Board,
        mut device: Device,
        scope: Scope,
        lines: Vec<&'a Line>,
        (is_lost, is_asleep): (bool, Option<bool>),
    ) -> Self {
        let gpu = lines.iter().find_map(|line| match &line.cell.sensor.meter {
            Meter::Gpu(gpu) => Some((gpu, &line.cell.sensor.label)),
            _ => None,
        });
        if let (Some((_, product)), true) = (gpu, device.name.is_empty()) {
            device.name.clone_from(product);
        }
        let uuid = gpu.map_or("", |(gpu, _)| gpu.uuid.as_str());
        let index = gpu.map(|(gpu, _)| gpu.index).or(device.index);
        let mig = gpu.and_then(|(gpu, _)| gpu.mig);
        let counter =
            lines.iter().find(|line| line.cell.sensor.kind == Kind::Accelerator(Quantity::Energy));
        let trust = counter.map(|line| board.counters().trust(&line.cell)).unwrap_or_default();
        let is_served =
            board.nvml().is_some_and(|library| library.status().standing == Standing::Open);
        Self { device, uuid, index, mig, scope, is_lost, is_asleep, trust, is_served, lines }
    }

    fn line(&self, quantity: Quantity) -> Option<&'a Line> {
        self.lines.iter().copied().find(|line| line.cell.sensor.kind == Kind::Accelerator(quantity))
    }

    fn labels(&self) -> [(&'static str, &str); 6] {
        [
            ("kind", self.device.kind.as_str()),
            ("pci", &self.device.pci),
            ("uuid", self.uuid),
            ("vendor_id", &self.device.vendor_id),
            ("device_id", &self.device.device_id),
            ("driver", &self.device.driver),
        ]
    }

    /// Whether it sleeps, by sysfs or by what the library's thread saw there.
    fn sleeps(&self) -> Option<bool> {
        let verdict = self.line(Quantity::Power).map(|line| line.verdict);
        match verdict {
            Some(verdict) if verdict.reason == Some(Failure::Asleep.as_str()) => Some(true),
            Some(verdict) if verdict.state == State::Ok => Some(false),
            _ => self.is_asleep,
        }
    }

    /// Joules, since when, and by which counter they are: its own as long as it agrees with the power.
    fn energy(&self) -> Option<(f64, f64, &'static str)> {
        let power = self.line(Quantity::Power);
        let count = |line: Option<&Line>| {
            let verdict = &line?.verdict;
            Some((verdict.joules?, verdict.joules_since_s?))
        };
        if power.is_some_and(|line| line.cell.sensor.counts()) {
            let (joules, since_s) = count(power)?;
            return Some((joules, since_s, "hardware"));
        }
        let own = self.line(Quantity::Energy);
        let (line, counter) = match self.trust {
            Trust::Agrees => (own, "hardware"),
            Trust::Undecided if own.is_some_and(|own| own.verdict.state == State::Ok) => {
                return None;
            }
            Trust::Undecided | Trust::Disagrees => (power, "integrated"),
        };
        let (joules, since_s) = count(line)?;
        Some((joules, since_s, counter))
    }

    /// What stands in the way of its energy, and of its power where nobody reads that.
    pub(super) fn withheld(&self) -> impl Iterator<Item = (Source, String, &'static str)> {
        let source = self.device.source();
        let named = |quantity: Quantity| quantity.id_of(&self.device.pci);
        let is_read = self.is_lost || self.line(Quantity::Power).is_some();
        let is_member = self.device.role == Role::Accelerator;
        let reason = match self.is_asleep {
            Some(true) => Failure::Asleep,
            _ if self.is_served => Failure::NotSupported,
            _ => Failure::Disconnected,
        };
        let reason = reason.as_str();
        let power = (is_member && !is_read).then(|| (source, named(Quantity::Power), reason));
        let disagree = State::Disagree.as_str();
        let energy =
            (self.trust == Trust::Disagrees).then(|| (source, named(Quantity::Energy), disagree));
        power.into_iter().chain(energy)
    }
}

/// The families of accelerators, where there are any.
pub(super) fn write(page: &mut Writer, accelerators: &[AcceleratorLine<'_>]) {
    write_info(page, accelerators);
    let power =
        |of: &AcceleratorLine<'_>| of.line(Quantity::Power).and_then(|line| line.verdict.watts);
    write_each(page, &families::ACCELERATOR_WATTS, accelerators, |of| {
        let line = of.line(Quantity::Power)?;
        let more = vec![
            ("socket", line.socket.clone()),
            ("scope", of.scope.as_str().to_owned()),
            ("averaging", line.verdict.averaging.as_str().to_owned()),
        ];
        Some((more, Number::Fixed6(power(of)?)))
    });
    write_each(page, &families::ACCELERATOR_INSTANT_WATTS, accelerators, |of| {
        let watts = of.line(Quantity::Instant)?.verdict.watts?;
        Some((Vec::new(), Number::Fixed6(watts)))
    });
    write_components(page, accelerators);
    write_each(page, &families::ACCELERATOR_JOULES, accelerators, |of| {
        let (joules, _, counter) = of.energy()?;
        Some((of.energy_labels(counter), Number::Fixed6(joules)))
    });
    write_each(page, &families::ACCELERATOR_ENERGY_SINCE, accelerators, |of| {
        let (_, since_s, counter) = of.energy()?;
        Some((of.energy_labels(counter), Number::Fixed6(since_s)))
    });
    write_each(page, &families::ACCELERATOR_SUSPENDED, accelerators, |of| {
        if of.is_lost || of.device.role != Role::Accelerator {
            return None;
        }
        Some((Vec::new(), Number::Integer(of.sleeps()?.into())))
    });
}

impl AcceleratorLine<'_> {
    fn energy_labels(&self, counter: &'static str) -> Vec<(&'static str, String)> {
        vec![("scope", self.scope.as_str().to_owned()), ("counter", counter.to_owned())]
    }
}

fn write_info(page: &mut Writer, accelerators: &[AcceleratorLine<'_>]) {
    write_each(page, &families::ACCELERATOR_INFO, accelerators, |of| {
        if of.is_lost {
            return None;
        }
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let more = vec![
            ("role", of.device.role.as_str().to_owned()),
            ("name", of.device.name.clone()),
            ("index", number(of.index).unwrap_or_default()),
            ("numa_node", number(of.device.numa_node).unwrap_or_default()),
            ("serial", of.device.serial.clone()),
            ("mig", number(of.mig.map(u32::from)).unwrap_or_default()),
        ];
        Some((more, Number::Integer(1)))
    });
}

fn write_components(page: &mut Writer, accelerators: &[AcceleratorLine<'_>]) {
    let components = |of: &AcceleratorLine<'_>| {
        let lines = of.lines.iter().filter_map(|line| match line.cell.sensor.kind {
            Kind::Accelerator(Quantity::Component(part)) => Some((part, line.verdict.watts?)),
            _ => None,
        });
        lines.collect::<Vec<_>>()
    };
    let is_there = accelerators.iter().any(|of| !components(of).is_empty());
    header(page, &families::ACCELERATOR_COMPONENT_WATTS, is_there);
    for of in accelerators {
        for (component, watts) in components(of) {
            let component = ("component", component.as_str());
            let labels = [&of.labels()[..], &[component]].concat();
            page.sample(&labels, Number::Fixed6(watts));
        }
    }
}

/// More labels of a sample, and its value.
type Sample = (Vec<(&'static str, String)>, Number);

/// One sample of each accelerator that has it.
fn write_each(
    page: &mut Writer,
    family: &Family<'_>,
    accelerators: &[AcceleratorLine<'_>],
    sample: impl Fn(&AcceleratorLine<'_>) -> Option<Sample>,
) {
    let samples: Vec<_> = accelerators.iter().filter_map(|of| Some((of, sample(of)?))).collect();
    header(page, family, !samples.is_empty());
    for (of, (more, value)) in samples {
        let more = more.iter().map(|(name, value)| (*name, value.as_str()));
        let labels: Vec<_> = of.labels().into_iter().chain(more).collect();
        page.sample(&labels, value);
    }
}
