//! Which agents there are, what each told last, and whose node is whose.

use std::collections::{BTreeMap, BTreeSet};

use super::device::FleetDevice;

/// How long things count, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetLimits {
    /// A reading older than this is stale.
    pub stale_after_s: f64,
    /// A device that nobody told of for longer than this is forgotten.
    pub forget_after_s: f64,
}

/// An agent that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it answers.
    pub address: String,
    /// The node that it is of, where the operator said so. Its page is then not asked for it.
    pub node: Option<String>,
}

/// What is known of a fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    limits: FleetLimits,
    agents: BTreeMap<String, Agent>,
    /// Devices by node and address on it.
    pub(super) devices: BTreeMap<(String, String), Told>,
    /// Which agent may speak for each node.
    owners: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct Agent {
    node: Option<String>,
    is_found: bool,
    is_up: bool,
    /// When it answered last, in Unix seconds.
    answered_s: Option<f64>,
    /// Nodes that it spoke for and that are another agent's.
    refused: BTreeSet<String>,
}

/// What was told of a device, and when.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) device: FleetDevice,
    /// When its page was asked for, in Unix seconds.
    pub(super) at_s: f64,
}

impl Fleet {
    /// Nobody yet.
    pub fn new(limits: FleetLimits) -> Fleet {
        let (agents, devices, owners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Fleet { limits, agents, devices, owners }
    }

    /// How long things count.
    pub fn limits(&self) -> FleetLimits {
        self.limits
    }

    /// The agents that there are now. One that is no longer among them is asked no more, and what it told grows old.
    pub fn found(&mut self, found: &[Found]) {
        for agent in self.agents.values_mut() {
            agent.is_found = false;
        }
        for Found { address, node } in found {
            let agent = self.agents.entry(address.clone()).or_default();
            agent.is_found = true;
            agent.node.clone_from(node);
        }
        for agent in self.agents.values_mut().filter(|agent| !agent.is_found) {
            agent.is_up = false;
        }
    }

    /// An agent answered. `at_s` is when it was asked, in Unix seconds. Of a device that it tells twice the first counts;
    /// one without an address, or of a node for which another agent speaks, is refused.
    pub fn answered(&mut self, address: &str, at_s: f64, devices: Vec<FleetDevice>) {
        let Some(agent) = self.agents.get_mut(address).filter(|agent| agent.is_found) else {
            return;
        };
        (agent.is_up, agent.answered_s) = (true, Some(at_s));
        agent.refused.clear();
        let given = agent.node.clone();
        let mut told = BTreeSet::new();
        for device in devices {
            let node = given.clone().or_else(|| device.node.clone());
            let node = node.unwrap_or_else(|| address.to_owned());
            if device.pci.is_empty() || !told.insert((node.clone(), device.pci.clone())) {
                continue;
            }
            if self.may_speak(address, &node, at_s) {
                self.devices.insert((node, device.pci.clone()), Told { device, at_s });
            } else if let Some(agent) = self.agents.get_mut(address) {
                agent.refused.insert(node);
            }
        }
    }

    /// Lets go of what nobody told of for so long that no snapshot lists it. To be called now and then.
    pub fn forget(&mut self, at_s: f64) {
        let forgotten = at_s - self.limits.forget_after_s;
        self.devices.retain(|_, told| told.at_s >= forgotten);
        self.agents.retain(|_, agent| {
            agent.is_found || agent.answered_s.is_some_and(|answered_s| answered_s >= forgotten)
        });
        self.owners.retain(|_, owner| self.agents.contains_key(owner));
    }

    /// An agent did not answer, or not with a page.
    pub fn failed(&mut self, address: &str) {
        if let Some(agent) = self.agents.get_mut(address) {
            agent.is_up = false;
        }
    }

    /// Whether an agent speaks for a node. Who did so first goes on until he is gone or silent for so long that what he told
    /// is stale: a second one is another pod of the same node, or one that claims to be.
    fn may_speak(&mut self, address: &str, node: &str, at_s: f64) -> bool {
        let stale_after_s = self.limits.stale_after_s;
        let owner = self.owners.get(node).filter(|owner| {
            self.agents.get(*owner).is_some_and(|agent| {
                let answered = agent.answered_s.is_some_and(|s| at_s - s <= stale_after_s);
                agent.is_found && answered
            })
        });
        match owner {
            Some(owner) if owner != address => false,
            Some(_) => true,
            None => {
                self.owners.insert(node.to_owned(), address.to_owned());
                true
            }
        }
    }

    /// How many agents there are, how many of them answered when they were asked last, and the nodes of which each was
    /// refused to tell.
    pub(super) fn standing(&self) -> (usize, usize, Vec<(String, String)>) {
        let found = || self.agents.iter().filter(|(_, agent)| agent.is_found);
        let refused = found().flat_map(|(address, agent)| {
            agent.refused.iter().map(|node| (address.clone(), node.clone()))
        });
        (found().count(), found().filter(|(_, agent)| agent.is_up).count(), refused.collect())
    }
}
