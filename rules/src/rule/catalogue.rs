//! What is known of metrics: what each measures, in which unit, and which labels tell its sensors apart.
//!
//! Our own are those of `docs/metrics.md`. Of other exporters only those are here whose documents say what they measure;
//! the rest is for `inputs` of a rule file to say. `node_rapl_*_joules_total` of the node exporter is left out on purpose:
//! it lists every powercap zone by its name, so a package that has a second zone by MMIO is there twice.

use std::collections::BTreeMap;

use super::From;
use super::unit::{JOULES, WATTS};
use crate::averaging::Averaging;
use crate::boundary::Boundary;

/// What a metric is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metric {
    pub(super) from: From,
    pub(super) covers: Covers,
    pub(super) unit: String,
    pub(super) averaging: Averaging,
    /// The labels that it has; `None` where nobody lists them.
    pub(super) labels: Option<Vec<String>>,
    /// The labels that tell its sensors apart, beside `node`.
    pub(super) member: Vec<String>,
    /// Whether a zero is no reading.
    pub(super) zero_is_missing: bool,
    /// Where several series report one and the same thing: the labels that tell those things apart, beside `node`. A
    /// sum of the series counts each thing several times.
    pub(super) repeats_by: Option<&'static [&'static str]>,
}

/// What the series of a metric cover.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Covers {
    /// All of them the same.
    One(Boundary),
    /// What the value of a label says.
    ByLabel(&'static str, &'static [(&'static str, Boundary)]),
}

impl Metric {
    /// Whether it counts: only counters of energy are in joules on a page.
    pub(super) fn is_counter(&self) -> bool {
        self.unit == JOULES
    }
}

/// A metric that is known here.
struct Known {
    name: &'static str,
    from: From,
    covers: Covers,
    unit: &'static str,
    averaging: Averaging,
    labels: Option<&'static [&'static str]>,
    member: &'static [&'static str],
    repeats_by: Option<&'static [&'static str]>,
}

/// A mean of one second, as NVML has it of the power of a module (`NVML_FI_DEV_POWER_AVERAGE`).
const ONE_SECOND: Averaging = Averaging::Mean { window_s: 1.0 };

/// Sockets as they are recorded: one reading of each kind, whichever sensor or zone it comes from.
const SOCKETS: [Known; 5] = [
    Known {
        name: "cpu_power_acpi_watts",
        from: From::Sockets,
        covers: Covers::ByLabel(
            "type",
            &[
                ("total", Boundary::SocketTotal),
                ("cpu_rail", Boundary::CpuRail),
                ("soc", Boundary::Soc),
                ("dram", Boundary::Dram),
            ],
        ),
        unit: WATTS,
        averaging: Averaging::Unknown,
        labels: Some(&["socket", "source", "type"]),
        member: &["socket", "type"],
        repeats_by: None,
    },
    Known {
        name: "cpu_power_dcgm_watts",
        from: From::Sockets,
        covers: Covers::ByLabel(
            "field_id",
            &[("1130", Boundary::CpuRail), ("1132", Boundary::Soc)],
        ),
        unit: WATTS,
        averaging: Averaging::Unknown,
        labels: Some(&["field_id", "socket", "source"]),
        member: &["field_id", "socket"],
        repeats_by: None,
    },
    Known {
        name: "cpu_power_rapl_watts",
        from: From::Sockets,
        covers: Covers::ByLabel(
            "type",
            &[
                ("package", Boundary::Package),
                ("core", Boundary::Core),
                ("uncore", Boundary::Uncore),
                ("dram", Boundary::Dram),
            ],
        ),
        unit: WATTS,
        averaging: Averaging::Difference,
        labels: Some(&["socket", "source", "type"]),
        member: &["socket", "type"],
        repeats_by: None,
    },
    Known {
        name: "cpu_power_nvml_watts",
        from: From::Sockets,
        covers: Covers::ByLabel("type", &[("module", Boundary::Module)]),
        unit: WATTS,
        averaging: ONE_SECOND,
        labels: Some(&["socket", "source", "type"]),
        member: &["socket", "type"],
        repeats_by: None,
    },
    Known {
        name: "cpu_energy_joules_total",
        from: From::Sockets,
        covers: Covers::ByLabel("type", &[("package", Boundary::Package)]),
        unit: JOULES,
        averaging: Averaging::Instant,
        labels: Some(&["socket", "source", "type"]),
        member: &["socket", "type"],
        repeats_by: None,
    },
];

/// What a `scope` of an accelerator is.
const SCOPES: Covers = Covers::ByLabel(
    "scope",
    &[
        ("gpu", Boundary::Accelerator),
        ("socket", Boundary::ApuSocket),
        ("module", Boundary::Module),
    ],
);

/// Other metrics of our pages.
const PAGES: [Known; 3] = [
    Known {
        name: "gpu_module_power_watts",
        from: From::Page,
        covers: Covers::One(Boundary::Module),
        unit: WATTS,
        averaging: ONE_SECOND,
        labels: Some(&["gpu", "pci", "socket", "source", "uuid"]),
        // A GPU that tells no UUID is known by its address.
        member: &["pci", "uuid"],
        repeats_by: Some(&["socket", "source"]),
    },
    Known {
        name: "accelerator_power_watts",
        from: From::Page,
        covers: SCOPES,
        unit: WATTS,
        averaging: Averaging::Unknown,
        labels: Some(&[
            "averaging",
            "device_id",
            "driver",
            "kind",
            "pci",
            "scope",
            "socket",
            "uuid",
            "vendor_id",
        ]),
        member: &["pci", "uuid"],
        repeats_by: None,
    },
    Known {
        name: "accelerator_energy_joules_total",
        from: From::Page,
        covers: SCOPES,
        unit: JOULES,
        averaging: Averaging::Instant,
        labels: Some(&[
            "counter",
            "device_id",
            "driver",
            "kind",
            "pci",
            "scope",
            "socket",
            "uuid",
            "vendor_id",
        ]),
        member: &["pci", "uuid"],
        repeats_by: None,
    },
];

/// Metrics of other exporters.
const OTHERS: [Known; 4] = [
    // NVIDIA's DCGM exporter, default-counters.csv: "Power draw (in W)". Some GPUs average, others do not.
    of_gpu("DCGM_FI_DEV_POWER_USAGE", &["UUID"], Averaging::Unknown),
    // DCGM's list of fields: the current power, not averaged.
    of_gpu("DCGM_FI_DEV_POWER_USAGE_INSTANT", &["UUID"], Averaging::Instant),
    // utkuozdemir/nvidia_gpu_exporter: nvidia-smi's `power.draw`, whose averaging depends on the GPU.
    of_gpu("nvidia_smi_power_draw_watts", &["uuid"], Averaging::Unknown),
    // prometheus-community/ipmi_exporter, docs/metrics.md: what the machine draws, by its own board controller.
    Known {
        name: "ipmi_dcmi_power_consumption_watts",
        from: From::Page,
        covers: Covers::One(Boundary::Node),
        unit: WATTS,
        averaging: Averaging::Unknown,
        labels: None,
        member: &[],
        repeats_by: None,
    },
];

const fn of_gpu(
    name: &'static str,
    member: &'static [&'static str],
    averaging: Averaging,
) -> Known {
    Known {
        name,
        from: From::Page,
        covers: Covers::One(Boundary::Accelerator),
        unit: WATTS,
        averaging,
        labels: None,
        member,
        repeats_by: None,
    }
}

/// Metrics whose documents say what they measure, but not in a way that a rule could use, and why.
const UNUSABLE: [(&str, &str); 1] = [(
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "counts millijoules, and on some superchips those of the whole module",
)];

/// Every metric that a rule file can name.
#[derive(Debug)]
pub(super) struct Catalogue(BTreeMap<String, Metric>);

impl Catalogue {
    /// Those that are known without `inputs`.
    pub(super) fn known() -> Catalogue {
        let all = SOCKETS.iter().chain(&PAGES).chain(&OTHERS);
        Catalogue(all.map(|known| (known.name.to_owned(), known.metric())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Metric> {
        self.0.get(name)
    }

    /// Why a metric that is known cannot be used.
    pub(super) fn unusable(name: &str) -> Option<&'static str> {
        UNUSABLE.iter().find(|(unusable, _)| *unusable == name).map(|(_, why)| *why)
    }

    /// Adds what `inputs` say of a metric; `false` when it is there already.
    pub(super) fn add(&mut self, name: &str, metric: Metric) -> bool {
        let is_new = !self.0.contains_key(name);
        if is_new {
            self.0.insert(name.to_owned(), metric);
        }
        is_new
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Known {
    fn metric(&self) -> Metric {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Metric {
            from: self.from,
            covers: self.covers.clone(),
            unit: self.unit.to_owned(),
            averaging: self.averaging,
            labels: self.labels.map(owned),
            member: owned(self.member),
            // All of them are powered on when they are read; a counter may stand at zero, and a board controller
            // answers for a machine that is off.
            zero_is_missing: self.unit == WATTS && self.covers != Covers::One(Boundary::Node),
            repeats_by: self.repeats_by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_whole() {
        let catalogue = Catalogue::known();
        assert_eq!(catalogue.0.len(), SOCKETS.len() + PAGES.len() + OTHERS.len());
        for (name, metric) in &catalogue.0 {
            let Some(labels) = &metric.labels else { continue };
            assert!(labels.is_sorted() && metric.member.is_sorted(), "{name}");
            let is_there = |label: &String| labels.contains(label);
            assert!(metric.member.iter().all(is_there), "{name}: {:?}", metric.member);
            if let Covers::ByLabel(label, _) = metric.covers {
                assert!(labels.iter().any(|known| known == label), "{name}: {label}");
            }
        }
    }
}
