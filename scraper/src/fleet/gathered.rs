//! The page of a fleet: its accelerators under the names that exporters have for them, with their node, and how the
//! watch itself stands. What is not measured now has no series.

use wattscribe_parser::{Family, Format, Kind, Number, Writer};
use wattscribe_rules::fleet::{Listed, Snapshot, Standing};

use super::watch::Watched;

const fn gauge(name: &'static str, help: &'static str) -> Family<'static> {
    Family { name, kind: Kind::Gauge, help }
}

/// The families, in the order of the page.
pub const FAMILIES: [Family<'static>; 11] = [
    POWER, COMPONENT, ENERGY, SUSPENDED, STATE, AGENTS, AGENTS_UP, TOTAL, REFUSED, FAILURES, BUILD,
];

const POWER: Family<'static> = gauge(
    "accelerator_power_watts",
    "Power of one accelerator of the fleet that is measured now, in watts.",
);
const COMPONENT: Family<'static> = gauge(
    "accelerator_component_power_watts",
    "Power of a part of one accelerator, in watts; parts lie within the accelerator's power.",
);
const ENERGY: Family<'static> = Family {
    name: "accelerator_energy_joules_total",
    kind: Kind::Counter,
    help: "Energy of one accelerator in joules, as its node counts it.",
};
const SUSPENDED: Family<'static> =
    gauge("accelerator_suspended", "1 for an accelerator that sleeps, 0 for one that is measured.");
const STATE: Family<'static> =
    gauge("fleet_devices", "Accelerators of the fleet by how they stand.");
const AGENTS: Family<'static> = gauge("fleet_agents", "Agents that were found.");
const AGENTS_UP: Family<'static> =
    gauge("fleet_agents_up", "Agents that answered when they were asked last.");
const TOTAL: Family<'static> = gauge(
    "fleet_power_watts",
    "Power of all accelerators that are measured, in watts, by what it covers.",
);
const REFUSED: Family<'static> = gauge(
    "fleet_agent_refused",
    "1 for an agent that tells of a node for which another one speaks.",
);
const FAILURES: Family<'static> = Family {
    name: "fleet_agent_failures_total",
    kind: Kind::Counter,
    help: "Questions to agents that had no page for an answer, by class.",
};
const BUILD: Family<'static> = gauge("fleet_build_info", "Version of the collector; always 1.");

/// Renders the page.
pub fn render(snapshot: &Snapshot, watched: &Watched, format: Format) -> String {
    let mut page = Writer::with_capacity(format, 4096 + 512 * snapshot.devices.len());
    let fresh = || snapshot.devices.iter().filter(|of| of.measured_watts().is_some());
    page.family(&POWER);
    for of in fresh() {
        let (labels, device) = (labels(of), &of.device);
        let more = [("scope", device.scope.as_str()), ("averaging", &device.averaging)];
        let watts = of.measured_watts().unwrap_or_default();
        page.sample(&[&labels[..], &more].concat(), Number::Fixed6(watts));
    }
    page.family(&COMPONENT);
    for of in fresh() {
        for (component, watts) in &of.device.components {
            let more = [("component", component.as_str())];
            page.sample(&[&labels(of)[..], &more].concat(), Number::Fixed6(*watts));
        }
    }
    page.family(&ENERGY);
    for of in fresh() {
        let energy = of.device.energy.as_ref().filter(|of| of.joules.is_finite());
        let Some(energy) = energy else { continue };
        let more = [("scope", of.device.scope.as_str()), ("counter", &energy.counter)];
        page.sample(&[&labels(of)[..], &more].concat(), Number::Fixed6(energy.joules));
    }
    page.family(&SUSPENDED);
    for of in &snapshot.devices {
        let sleeps = match of.standing {
            Standing::Suspended => 1,
            Standing::Measured(_) => 0,
            Standing::Stale(_) | Standing::Unmeasured => continue,
        };
        page.sample(&labels(of), Number::Integer(sleeps));
    }
    write_standing(&mut page, snapshot, watched);
    page.finish()
}

fn labels(of: &Listed) -> [(&'static str, &str); 7] {
    let device = &of.device;
    [
        ("node", &of.node),
        ("kind", &device.kind),
        ("pci", &device.pci),
        ("uuid", &device.uuid),
        ("vendor_id", &device.vendor_id),
        ("device_id", &device.device_id),
        ("driver", &device.driver),
    ]
}

fn write_standing(page: &mut Writer, snapshot: &Snapshot, watched: &Watched) {
    page.family(&STATE);
    type State = (&'static str, fn(&Standing) -> bool);
    let states: [State; 4] = [
        ("measured", |of| matches!(of, Standing::Measured(_))),
        ("suspended", |of| matches!(of, Standing::Suspended)),
        ("stale", |of| matches!(of, Standing::Stale(_))),
        ("unmeasured", |of| matches!(of, Standing::Unmeasured)),
    ];
    for (state, is) in states {
        let count = snapshot.devices.iter().filter(|of| is(&of.standing)).count();
        page.sample(&[("state", state)], Number::Integer(count as u64));
    }
    for (family, count) in [(&AGENTS, snapshot.agents_total), (&AGENTS_UP, snapshot.agents_up)] {
        page.family(family);
        page.sample(&[], Number::Integer(count as u64));
    }
    page.family(&TOTAL);
    for (scope, watts) in &snapshot.watts_by_scope {
        page.sample(&[("scope", scope)], Number::Fixed6(*watts));
    }
    page.family(&REFUSED);
    for (agent, node) in &snapshot.refused {
        page.sample(&[("agent", agent), ("node", node)], Number::Integer(1));
    }
    page.family(&FAILURES);
    for (class, count) in watched.failures() {
        page.sample(&[("class", class)], Number::Integer(count));
    }
    page.family(&BUILD);
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], Number::Integer(1));
}
