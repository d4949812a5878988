//! What is logged of a library and its sensors: each trouble once when it begins and once when it is over.
//!
//! Pure. A timer looks, not a scrape: what nobody asks for goes wrong just as loudly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wattscribe_rules::ModuleMean;

use crate::cell::{Limits, Verdict};
use crate::clock::Now;
use crate::failure::Failure;
use crate::library::{Standing, Status};
use crate::module::Module;
use crate::sensor::{Kind, Sensor};

/// Initialising takes a fraction of a second. One that takes longer than this is told.
pub const OPENING_MAX: Duration = Duration::from_secs(3);

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Something is wrong from now on.
    Warn(String),
    /// Something is right again, or good to know.
    Info(String),
}

/// A sensor and what may be published of it now.
pub type Seen<'a> = (&'a Sensor, &'a Verdict);

/// What it is about, and which trouble; the text may change while the trouble stays.
type Troubles = BTreeMap<String, (String, String)>;

/// What has been said.
#[derive(Debug, Default)]
pub struct Vigil {
    has_been_open: bool,
    /// Troubles that were told and are not over.
    told: Troubles,
    /// Why a library that never served does not.
    idle: Option<String>,
    /// Sensors that had a reading.
    alive: BTreeSet<String>,
    /// What is told once and never over.
    once: BTreeSet<String>,
}

/// The subject of what is wrong with the library itself.
const LIBRARY: &str = "library";

impl Vigil {
    /// Looks once, and says what is new.
    pub fn look(
        &mut self,
        status: &Status,
        seen: &[Seen<'_>],
        modules: &[Module],
        now: Now,
        limits: Limits,
    ) -> Vec<Said> {
        let mut said = Vec::new();
        for (sensor, _) in seen.iter().filter(|(_, verdict)| verdict.watts.is_some()) {
            self.alive.insert(sensor.id.clone());
        }
        let mut troubles = Troubles::new();
        if let Some(trouble) = self.of_library(status, now, limits) {
            // Its sensors are silent for its sake: what was said of them stands.
            troubles = self.told.clone();
            troubles.insert(LIBRARY.to_owned(), trouble);
        } else if status.standing == Standing::Open {
            for seen in seen {
                self.of_sensor(seen, status, &mut troubles, now, limits);
            }
            for module in modules {
                self.of_module(module, &mut troubles);
            }
        } else if let Standing::Absent(reason) | Standing::Down(reason) = &status.standing
            && self.idle.as_ref() != Some(reason)
        {
            said.push(Said::Info(format!("not read: {reason}")));
            self.idle = Some(reason.clone());
        }
        if status.standing == Standing::Open && !self.has_been_open {
            self.has_been_open = true;
            // One that was told to be silent is said to be back.
            if !self.told.contains_key(LIBRARY) {
                let count = self.alive.len();
                said.push(Said::Info(format!("is read: {count} of {} sensors report", seen.len())));
            }
        }
        said.extend(self.changes(troubles));
        said
    }

    fn of_library(&self, status: &Status, now: Now, limits: Limits) -> Option<(String, String)> {
        let told = self.told.get(LIBRARY);
        let limit =
            if status.standing == Standing::Open { limits.stale_after } else { OPENING_MAX };
        if status.is_busy_for(now, limit) {
            // Each attempt to open one that does not serve may block: that is no other trouble.
            return Some(told.cloned().unwrap_or_else(|| {
                let text = format!("has not come back within {limit:?}: readings are withheld");
                ("blocked".to_owned(), text)
            }));
        }
        match &status.standing {
            Standing::Absent(reason) | Standing::Down(reason)
                if self.has_been_open || told.is_some() =>
            {
                Some((reason.clone(), format!("does not serve: {reason}")))
            }
            _ => None,
        }
    }

    fn of_sensor(
        &self,
        (sensor, verdict): &Seen<'_>,
        status: &Status,
        troubles: &mut Troubles,
        now: Now,
        limits: Limits,
    ) {
        let Some(reason) = verdict.reason else { return };
        let is = |failure: Failure| reason == failure.as_str();
        let is_late = reason == "stale" || is(Failure::Timeout);
        // The next look knows more: the first read is on its way, or the library is about to be blocked.
        let is_open = is(Failure::FirstRead)
            || is(Failure::Disconnected)
            || (is_late && status.is_busy_for(now, limits.read_deadline));
        let is_none =
            is(Failure::Busy) || (is(Failure::NotSupported) && !self.alive.contains(&sensor.id));
        if is_open {
            let before = self.told.get_key_value(&sensor.id);
            troubles.extend(before.map(|(id, trouble)| (id.clone(), trouble.clone())));
        } else if !is_none {
            let text = format!("no reading of {} ({}): {reason}", sensor.id, sensor.channel);
            troubles.insert(sensor.id.clone(), (reason.to_owned(), text));
        }
    }

    fn of_module(&self, module: &Module, troubles: &mut Troubles) {
        match module.mean {
            ModuleMean::Mean { .. } => {}
            ModuleMean::Disagree { mean_w, spread_w, .. } => {
                let text = format!(
                    "the module power of socket {} is withheld: GPUs {} differ by {spread_w:.3} W, {:.2} % of their mean {mean_w:.3} W",
                    module.socket,
                    module.gpu_list(),
                    100.0 * spread_w / mean_w,
                );
                troubles.insert(module.id(), ("disagree".to_owned(), text));
            }
            // Nobody reports: whether they would agree is not known.
            ModuleMean::NoReading => {
                let before = self.told.get_key_value(&module.id());
                troubles.extend(before.map(|(id, trouble)| (id.clone(), trouble.clone())));
            }
        }
    }

    /// One line for all troubles that are new, one for all that are over.
    fn changes(&mut self, troubles: Troubles) -> Vec<Said> {
        let is_told = |subject: &str, kind: &str| {
            self.told.get(subject).is_some_and(|(told, _)| told == kind)
        };
        let new: Vec<&str> = troubles
            .iter()
            .filter(|(subject, (kind, _))| !is_told(subject, kind))
            .map(|(_, (_, text))| text.as_str())
            .collect();
        let over: Vec<&str> = self
            .told
            .keys()
            .filter(|subject| !troubles.contains_key(*subject))
            .map(String::as_str)
            .collect();
        let mut said = Vec::new();
        if !new.is_empty() {
            said.push(Said::Warn(new.join("; ")));
        }
        if !over.is_empty() {
            said.push(Said::Info(format!("back again: {}", over.join(", "))));
        }
        self.told = troubles;
        said
    }

    /// Modules whose power can never stand beside that of a CPU, and GPUs in no module: each told once.
    pub fn look_at_sockets(&mut self, seen: &[Seen<'_>], cpu_sockets: &BTreeSet<u32>) -> Vec<Said> {
        let mut said = Vec::new();
        for (sensor, verdict) in seen {
            if sensor.kind != Kind::Module || verdict.watts.is_none() {
                continue;
            }
            let (subject, text) = match sensor.socket {
                None => (
                    sensor.id.clone(),
                    format!(
                        "sysfs tells no NUMA node of the GPU at {}: it is in no module's mean",
                        sensor.channel
                    ),
                ),
                Some(socket) if !cpu_sockets.is_empty() && !cpu_sockets.contains(&socket) => (
                    format!("socket{socket}"),
                    format!(
                        "module socket {socket} has no CPU socket: a recorder has no row for it"
                    ),
                ),
                Some(_) => continue,
            };
            if self.once.insert(subject) {
                said.push(Said::Warn(text));
            }
        }
        said
    }
}
