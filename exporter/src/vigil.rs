//! What is logged of a library and its sensors: each trouble once when it begins and once when it is over.
//!
//! Pure. A timer looks, not a scrape: what nobody asks for goes wrong just as loudly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wattscribe_rules::ModuleMean;

use crate::cell::{Limits, Verdict};
use crate::clock::Now;
use crate::failure::Failure;
use crate::library::{Refused, Standing, Status};
use crate::module::Module;
use crate::sensor::{Kind, Sensor, Source};

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

impl Vigil {
    /// Looks once at a library, and says what is new.
    pub fn look(
        &mut self,
        library: Source,
        status: &Status,
        seen: &[Seen<'_>],
        modules: &[Module],
        now: Now,
        limits: Limits,
    ) -> Vec<Said> {
        let mut said = Vec::new();
        let name = library.name();
        self.alive.retain(|id| seen.iter().any(|(sensor, _)| sensor.id == *id));
        for (sensor, _) in seen.iter().filter(|(_, verdict)| verdict.watts.is_some()) {
            self.alive.insert(sensor.id.clone());
        }
        let mut troubles = Troubles::new();
        if let Some(trouble) = self.of_library(name, status, now, limits) {
            // Its sensors are silent for its sake: what was said of them stands.
            troubles = self.told.clone();
            troubles.insert(name.to_owned(), trouble);
        } else if status.standing == Standing::Open {
            for seen in seen {
                self.of_sensor(seen, status, &mut troubles, now, limits);
            }
            for Refused { place, reason } in &status.refused {
                let reason = reason.as_str();
                let text = format!("no reading of {place}, which {name} does not name: {reason}");
                troubles.insert(place.clone(), (format!("refused {reason}"), text));
            }
            for module in modules {
                self.of_module(module, &mut troubles);
            }
        } else {
            said.extend(self.of_idle(name, &status.standing));
        }
        if status.standing == Standing::Open && !self.has_been_open {
            self.has_been_open = true;
            // One that was told to be silent is said to be back.
            if !self.told.contains_key(name) {
                let (count, all) = (self.alive.len(), seen.len() + status.refused.len());
                said.push(Said::Info(format!("{name}: {count} of {all} sensors report")));
            }
        }
        said.extend(self.changes(troubles, seen));
        said
    }

    /// Why a library that never served does not: a warning only where somebody named it.
    fn of_idle(&mut self, name: &str, standing: &Standing) -> Option<Said> {
        let (Standing::Absent(reason) | Standing::Missing(reason) | Standing::Down(reason)) =
            standing
        else {
            return None;
        };
        if self.idle.as_ref() == Some(reason) {
            return None;
        }
        self.idle = Some(reason.clone());
        let text = format!("{name} is not read: {reason}");
        let is_missing = matches!(standing, Standing::Missing(_));
        Some(if is_missing { Said::Warn(text) } else { Said::Info(text) })
    }

    fn of_library(
        &self,
        name: &str,
        status: &Status,
        now: Now,
        limits: Limits,
    ) -> Option<(String, String)> {
        let told = self.told.get(name);
        let limit =
            if status.standing == Standing::Open { limits.stale_after } else { OPENING_MAX };
        if status.is_busy_for(now, limit) {
            // Each attempt to open one that does not serve may block: that is no other trouble.
            return Some(told.cloned().unwrap_or_else(|| {
                let text =
                    format!("{name} has not come back within {limit:?}: readings are withheld");
                ("blocked".to_owned(), text)
            }));
        }
        match &status.standing {
            Standing::Absent(reason) | Standing::Missing(reason) | Standing::Down(reason)
                if self.has_been_open || told.is_some() =>
            {
                Some((reason.clone(), format!("{name} does not serve: {reason}")))
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
    fn changes(&mut self, troubles: Troubles, seen: &[Seen<'_>]) -> Vec<Said> {
        let is_told = |subject: &str, kind: &str| {
            self.told.get(subject).is_some_and(|(told, _)| told == kind)
        };
        let new: Vec<&str> = troubles
            .iter()
            .filter(|(subject, (kind, _))| !is_told(subject, kind))
            .map(|(_, (_, text))| text.as_str())
            .collect();
        let over = self.told.iter().filter(|(subject, _)| !troubles.contains_key(*subject));
        // A sensor that was lost for so long that it is forgotten is not back.
        let is_forgotten = |subject: &str, kind: &str| {
            kind == Failure::Gone.as_str() && seen.iter().all(|(sensor, _)| sensor.id != subject)
        };
        let (forgotten, over): (Vec<_>, Vec<_>) = over
            .map(|(subject, (kind, _))| (subject.as_str(), kind.as_str()))
            .partition(|(subject, kind)| is_forgotten(subject, kind));
        let names =
            |of: &[(&str, &str)]| of.iter().map(|(id, _)| *id).collect::<Vec<_>>().join(", ");
        let mut said = Vec::new();
        if !new.is_empty() {
            said.push(Said::Warn(new.join("; ")));
        }
        if !over.is_empty() {
            said.push(Said::Info(format!("back again: {}", names(&over))));
        }
        if !forgotten.is_empty() {
            said.push(Said::Info(format!("gone for long, and forgotten: {}", names(&forgotten))));
        }
        self.told = troubles;
        said
    }

    /// Modules whose power can never stand beside that of a CPU, and GPUs in no module: each told once.
    pub fn look_at_sockets(&mut self, seen: &[Seen<'_>], cpu_sockets: &BTreeSet<u32>) -> Vec<Said> {
        let read = seen.iter().filter(|(_, verdict)| verdict.watts.is_some());
        let gpus = read.map(|(sensor, _)| sensor).filter(|sensor| sensor.kind == Kind::Module);
        let (mut nowhere, mut alone) = (Vec::new(), BTreeSet::new());
        for gpu in gpus {
            match gpu.socket {
                None if self.once.insert(gpu.id.clone()) => nowhere.push(gpu.channel.as_str()),
                Some(socket) if !cpu_sockets.is_empty() && !cpu_sockets.contains(&socket) => {
                    alone.insert(socket);
                }
                _ => {}
            }
        }
        alone.retain(|socket| self.once.insert(format!("socket{socket}")));
        let nowhere = (!nowhere.is_empty()).then(|| {
            let at = nowhere.join(", ");
            format!("sysfs tells no NUMA node of the GPUs at {at}: they are in no module's mean")
        });
        let alone = alone.into_iter().map(|socket| {
            format!("module socket {socket} has no CPU socket: a recorder has no row for it")
        });
        nowhere.into_iter().chain(alone).map(Said::Warn).collect()
    }
}
