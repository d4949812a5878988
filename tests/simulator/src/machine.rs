//! What a simulated node is made of: its sockets, their power, and the kernel interface that shows it.
//!
//! A description is data (serde) so that a scenario can be stored beside its results.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::sensor::{Rail, Sensor, Shows};
use crate::{SimulatorError, Waveform};

/// One simulated node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Host name; also the name of its folder, so without `/`.
    pub name: String,
    /// Its kind of processor and the interface that measures it.
    pub kind: Kind,
}

/// A kind of processor, with its sockets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// NVIDIA Grace: three ACPI power meters a socket, each its own hwmon device.
    Grace {
        /// Where the kernel puts the attributes.
        layout: HwmonLayout,
        /// Window of `power1_average`, in milliseconds; 0 shows the power of the moment.
        averaging_ms: u32,
        /// The sockets, in the order in which their meters are numbered.
        sockets: Vec<GraceSocket>,
    },
    /// x86 with RAPL energy counters under powercap: a package zone a socket, `core` and `dram` below it.
    Rapl {
        /// The packages, in the order of their zones.
        packages: Vec<RaplPackage>,
    },
}

/// Where `acpi_power_meter` puts its attributes: the driver moved them in 2025.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HwmonLayout {
    /// `class/hwmon/hwmonN/power1_average`.
    New,
    /// `class/hwmon/hwmonN/device/power1_average`.
    Old,
}

/// One Grace socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraceSocket {
    /// Number in the labels; sockets may be sparse.
    pub socket: u32,
    /// Power of the whole socket.
    pub total: Waveform,
    /// Part of the total that the CPU rail carries.
    pub cpu_rail_fraction: f64,
    /// Part of the total that the SoC rail carries.
    pub soc_fraction: f64,
    /// `power1_cap_max` of the total, in watts; none leaves the file out.
    pub cap_max_w: Option<f64>,
}

/// One RAPL package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaplPackage {
    /// Number in the zone's name, `package-N`.
    pub socket: u32,
    /// Power of the package.
    pub package: Waveform,
    /// Part of the package's power that its cores use.
    pub core_fraction: f64,
    /// Power of the memory, as a fraction of the package's, beside it and not inside it.
    pub dram_fraction: f64,
    /// Range of the package's and the cores' counters, in microjoules.
    pub range_uj: u64,
    /// What the package's counter shows at the epoch, in microjoules.
    pub at_epoch_uj: u64,
}

/// Ranges of two counters on real machines, in microjoules: a package, and a memory zone.
const RANGE_PACKAGE_UJ: u64 = 262_143_328_850;
const RANGE_DRAM_UJ: u64 = 65_532_610_987;

impl GraceSocket {
    /// A socket whose rails carry what was seen on idle GB200 nodes: about half, and a twentieth.
    pub fn new(socket: u32, total: Waveform) -> GraceSocket {
        let (cpu_rail_fraction, soc_fraction) = (0.49, 0.06);
        GraceSocket { socket, total, cpu_rail_fraction, soc_fraction, cap_max_w: None }
    }
}

impl RaplPackage {
    /// A package with counters of the usual range, starting a little above 0.
    pub fn new(socket: u32, package: Waveform) -> RaplPackage {
        RaplPackage {
            socket,
            package,
            core_fraction: 0.7,
            dram_fraction: 0.1,
            range_uj: RANGE_PACKAGE_UJ,
            at_epoch_uj: 1_000_000_000,
        }
    }

    /// The same package with its counter started so that it wraps `wrap_s` after the epoch.
    #[must_use]
    pub fn wrapping_at(mut self, wrap_s: f64) -> RaplPackage {
        let range_uj = self.range_uj.max(1); // a range of 0 is refused later, by name
        let until_wrap_uj = (self.package.joules(0.0, wrap_s) * 1e6).ceil() as u64;
        self.at_epoch_uj = (range_uj - until_wrap_uj % range_uj) % range_uj;
        self
    }
}

impl Machine {
    /// A Grace node with the present layout and the 50 ms window that Grace firmware states.
    pub fn grace(name: impl Into<String>, totals: &[Waveform]) -> Machine {
        let sockets = (0..).zip(totals).map(|(n, total)| GraceSocket::new(n, *total)).collect();
        let kind = Kind::Grace { layout: HwmonLayout::New, averaging_ms: 50, sockets };
        Machine { name: name.into(), kind }
    }

    /// A RAPL node with one package for each waveform.
    pub fn rapl(name: impl Into<String>, packages: &[Waveform]) -> Machine {
        let packages = (0..).zip(packages).map(|(n, wave)| RaplPackage::new(n, *wave)).collect();
        Machine { name: name.into(), kind: Kind::Rapl { packages } }
    }

    /// Every power channel, in the order of its numbering.
    pub fn sensors(&self) -> Vec<Sensor> {
        match &self.kind {
            Kind::Grace { averaging_ms, sockets, .. } => {
                let meters = sockets.iter().flat_map(|socket| socket.meters(*averaging_ms));
                let numbered = (0_u32..).zip(meters);
                numbered
                    .map(|(n, meter)| Sensor { id: format!("ACPI000D:{n:02X}/power1"), ..meter })
                    .collect()
            }
            Kind::Rapl { packages } => {
                (0_u32..).zip(packages).flat_map(|(n, package)| package.zones(n)).collect()
            }
        }
    }

    /// True energy of one whole socket between two times since the epoch, in joules; none if there is no
    /// such socket.
    pub fn socket_joules(&self, socket: u32, start_s: f64, end_s: f64) -> Option<f64> {
        let sensors = self.sensors();
        let whole =
            sensors.iter().find(|sensor| sensor.socket == socket && sensor.is_whole_socket());
        whole.map(|sensor| sensor.waveform.joules(start_s, end_s))
    }

    /// Refuses a description that no machine can have, naming the part that is wrong.
    ///
    /// # Errors
    /// [`SimulatorError::Description`].
    pub fn check(&self) -> Result<(), SimulatorError> {
        let wrong = |what: String, found: String, expected: &'static str| {
            Err(SimulatorError::Description { machine: self.name.clone(), what, found, expected })
        };
        if self.name.is_empty() || self.name.starts_with('.') || self.name.contains('/') {
            return wrong(
                "name".into(),
                format!("{:?}", self.name),
                "a file name without a leading dot",
            );
        }
        let mut sockets = BTreeSet::new();
        for sensor in self.sensors() {
            let place = format!("socket {} {:?}", sensor.socket, sensor.rail);
            if let Some((parameter, found, expected)) = sensor.waveform.fault() {
                return wrong(format!("{place} {parameter}"), found.to_string(), expected);
            }
            if sensor.is_whole_socket() && !sockets.insert(sensor.socket) {
                return wrong(place, "there twice".into(), "one of each socket");
            }
            match sensor.shows {
                Shows::Counter { at_epoch_uj, range_uj } if at_epoch_uj >= range_uj => {
                    let what = format!("{place} at_epoch_uj");
                    return wrong(what, at_epoch_uj.to_string(), "a value below its range");
                }
                Shows::Mean { cap_max_w: Some(cap_w), .. }
                    if !(cap_w.is_finite() && cap_w >= 0.0) =>
                {
                    return wrong(
                        format!("{place} cap_max_w"),
                        cap_w.to_string(),
                        "a finite power",
                    );
                }
                _ => {}
            }
        }
        for (what, found) in self.fractions() {
            if !(0.0..=1.0).contains(&found) {
                return wrong(what.into(), found.to_string(), "a fraction from 0 to 1");
            }
        }
        Ok(())
    }

    fn fractions(&self) -> Vec<(&'static str, f64)> {
        match &self.kind {
            Kind::Grace { sockets, .. } => sockets
                .iter()
                .flat_map(|s| {
                    [("cpu_rail_fraction", s.cpu_rail_fraction), ("soc_fraction", s.soc_fraction)]
                })
                .collect(),
            Kind::Rapl { packages } => packages
                .iter()
                .flat_map(|p| {
                    [("core_fraction", p.core_fraction), ("dram_fraction", p.dram_fraction)]
                })
                .collect(),
        }
    }
}

impl GraceSocket {
    /// The three meters, still without the identity that their number gives them.
    fn meters(&self, averaging_ms: u32) -> [Sensor; 3] {
        let meter = |rail, fraction, cap_max_w| Sensor {
            id: String::new(),
            socket: self.socket,
            rail,
            waveform: self.total.scaled(fraction),
            shows: Shows::Mean { averaging_ms, cap_max_w },
        };
        [
            meter(Rail::Total, 1.0, self.cap_max_w),
            meter(Rail::CpuRail, self.cpu_rail_fraction, None),
            meter(Rail::Soc, self.soc_fraction, None),
        ]
    }
}

impl RaplPackage {
    fn zones(&self, number: u32) -> [Sensor; 3] {
        let zone = |id, rail, fraction, at_epoch_uj, range_uj| Sensor {
            id,
            socket: self.socket,
            rail,
            waveform: self.package.scaled(fraction),
            shows: Shows::Counter { at_epoch_uj, range_uj },
        };
        let (package, range_uj) = (format!("intel-rapl:{number}"), self.range_uj);
        [
            zone(package.clone(), Rail::Package, 1.0, self.at_epoch_uj, range_uj),
            zone(format!("{package}:0"), Rail::Core, self.core_fraction, 0, range_uj),
            zone(format!("{package}:1"), Rail::Dram, self.dram_fraction, 0, RANGE_DRAM_UJ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: Waveform = Waveform::Constant { watts: 100.0 };

    #[test]
    fn sensors_carry_stable_identities() {
        let ids = |machine: &Machine| {
            machine.sensors().into_iter().map(|s| (s.id, s.socket, s.rail)).collect::<Vec<_>>()
        };
        let expect = |expected: [(&str, u32, Rail); 6]| {
            expected.map(|(id, n, rail)| (id.to_owned(), n, rail))
        };
        assert_eq!(
            ids(&Machine::grace("g", &[STEADY, STEADY])),
            expect([
                ("ACPI000D:00/power1", 0, Rail::Total),
                ("ACPI000D:01/power1", 0, Rail::CpuRail),
                ("ACPI000D:02/power1", 0, Rail::Soc),
                ("ACPI000D:03/power1", 1, Rail::Total),
                ("ACPI000D:04/power1", 1, Rail::CpuRail),
                ("ACPI000D:05/power1", 1, Rail::Soc),
            ])
        );
        assert_eq!(
            ids(&Machine::rapl("r", &[STEADY, STEADY])),
            expect([
                ("intel-rapl:0", 0, Rail::Package),
                ("intel-rapl:0:0", 0, Rail::Core),
                ("intel-rapl:0:1", 0, Rail::Dram),
                ("intel-rapl:1", 1, Rail::Package),
                ("intel-rapl:1:0", 1, Rail::Core),
                ("intel-rapl:1:1", 1, Rail::Dram),
            ])
        );
    }

    #[test]
    fn the_truth_of_a_socket_is_its_whole_and_never_a_sum_of_rails() {
        for machine in [Machine::grace("g", &[STEADY]), Machine::rapl("r", &[STEADY])] {
            assert_eq!(machine.socket_joules(0, 1.0, 3.0), Some(200.0), "{}", machine.name);
            assert_eq!(machine.socket_joules(1, 1.0, 3.0), None, "{}", machine.name);
        }
    }

    #[test]
    fn a_package_wraps_when_it_was_told_to() {
        let package = RaplPackage::new(0, STEADY).wrapping_at(2.5);
        let machine = Machine { name: "r".into(), kind: Kind::Rapl { packages: vec![package] } };
        let zone = &machine.sensors()[0];
        let read = |t_s| zone.text(t_s, zone.first_origin()).trim().parse::<u64>().unwrap();
        assert_eq!((read(2.499), read(2.5)), (RANGE_PACKAGE_UJ - 100_000, 0));
    }

    #[test]
    fn impossible_descriptions_are_refused() {
        let broken = |change: fn(&mut GraceSocket)| {
            let mut socket = GraceSocket::new(0, STEADY);
            change(&mut socket);
            let sockets = vec![GraceSocket::new(1, STEADY), socket];
            Machine {
                name: "g".into(),
                kind: Kind::Grace { layout: HwmonLayout::New, averaging_ms: 50, sockets },
            }
        };
        let full = RaplPackage { at_epoch_uj: RANGE_PACKAGE_UJ, ..RaplPackage::new(0, STEADY) };
        let cases = [
            (Machine::grace("a/b", &[STEADY]), r#"name is "a/b", expected a file name"#),
            (broken(|s| s.socket = 1), "socket 1 Total is there twice"),
            (broken(|s| s.cpu_rail_fraction = 1.2), "cpu_rail_fraction is 1.2"),
            (
                broken(|s| s.total = Waveform::Constant { watts: -5.0 }),
                "socket 0 Total watts is -5",
            ),
            (
                Machine { name: "r".into(), kind: Kind::Rapl { packages: vec![full] } },
                "at_epoch_uj is 262143328850",
            ),
        ];
        for (machine, expected) in cases {
            let error = machine.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} does not say {expected:?}");
        }
    }

    #[test]
    fn a_stored_machine_reads_back_the_same() {
        for machine in [Machine::grace("g", &[STEADY]), Machine::rapl("r", &[STEADY])] {
            let text = serde_json::to_string(&machine).unwrap();
            assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine, "{text}");
        }
    }
}
