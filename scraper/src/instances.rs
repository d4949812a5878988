//! Which exporter stands behind each target, so that each is counted once and under one name.
//!
//! `http://node-1:9405/` and `http://10.0.0.1:9405/` are two texts and may be one exporter; the address of a load
//! balancer is one text and may be several. Pages say which exporter they are of, by a name that is new with each
//! start.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// So many pages in a row must be of one exporter before a target that led to several is believed again.
const ALONE: u32 = 60;

/// So many former names are remembered for each target.
const FORMER_MAX: usize = 64;

/// Why a page is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// This other target has the same exporter, which would be counted twice.
    SameAs(String),
    /// The target leads to more than one exporter, whose numbers would be mixed under one name.
    Several,
}

/// The exporters of a recording by what their pages call them. Who answers first under a name keeps it until he has
/// another one, as after a restart.
#[derive(Debug, Default)]
pub struct Instances {
    targets: Mutex<HashMap<String, Seen>>,
}

/// What is known of the exporters behind one target.
#[derive(Debug, Default)]
struct Seen {
    current: String,
    /// Names that the target had before, the newest last. A process never has its name again, so one that comes
    /// back was there all the time.
    former: VecDeque<String>,
    /// Pages that the current exporter has yet to answer alone.
    doubt: u32,
}

impl Seen {
    fn answers(&mut self, instance: &str) -> Result<(), Refusal> {
        if self.current != instance {
            let returns = self.former.iter().any(|former| former == instance);
            self.former.retain(|former| former != instance);
            let before = std::mem::replace(&mut self.current, instance.to_owned());
            if !before.is_empty() {
                self.former.push_back(before);
            }
            if self.former.len() > FORMER_MAX {
                self.former.pop_front();
            }
            if returns || self.doubt > 0 {
                self.doubt = ALONE;
            }
        }
        if self.doubt == 0 {
            return Ok(());
        }
        self.doubt -= 1;
        Err(Refusal::Several)
    }
}

impl Instances {
    /// Notes that a target's page has this name.
    ///
    /// # Errors
    /// Why the page is not to be counted.
    pub fn claim(&self, target: &str, instance: &str) -> Result<(), Refusal> {
        // Every change under the lock is complete in itself.
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        // A name that the target has already is nobody else's: the others are looked through when one is new.
        let is_new = targets.get(target).is_none_or(|seen| seen.current != instance);
        if is_new
            && let Some((owner, _)) = targets.iter().find(|(_, seen)| seen.current == instance)
        {
            return Err(Refusal::SameAs(owner.clone()));
        }
        targets.entry(target.to_owned()).or_default().answers(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exporter_belongs_to_the_target_that_had_it_first() {
        let instances = Instances::default();
        let steps = [
            ("a", "1", Ok(())),
            ("b", "1", Err("a")),
            ("a", "1", Ok(())),
            ("b", "2", Ok(())),
            ("a", "2", Err("b")),
            ("a", "3", Ok(())), // restarted
            ("b", "3", Err("a")),
            ("c", "1", Ok(())), // given up by a
            ("a", "1", Err("c")),
        ];
        for (target, instance, expected) in steps {
            let found = instances.claim(target, instance);
            let expected = expected.map_err(|owner| Refusal::SameAs(owner.to_owned()));
            assert_eq!(found, expected, "{target} claims {instance}");
        }
    }

    #[test]
    fn a_target_of_several_exporters_is_refused_from_the_first_that_returns() {
        let instances = Instances::default();
        let claim = |instance: &str| instances.claim("a", instance);
        for restarted in ["1", "2", "2", "3"] {
            assert_eq!(claim(restarted), Ok(()), "{restarted}");
        }
        assert_eq!(claim("2"), Err(Refusal::Several));
        // The other one, and one that was never seen, while it is known that there are several.
        assert_eq!(claim("3"), Err(Refusal::Several));
        assert_eq!(claim("4"), Err(Refusal::Several));
        for page in 1..ALONE {
            assert_eq!(claim("4"), Err(Refusal::Several), "page {page}");
        }
        assert_eq!(claim("4"), Ok(()), "alone for {ALONE} pages");
        assert_eq!(claim("5"), Ok(()), "restarted");
        assert_eq!(claim("3"), Err(Refusal::Several));
    }

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let instances = Instances::default();
        for start in 0..10_000 {
            assert_eq!(instances.claim("a", &start.to_string()), Ok(()));
        }
        assert_eq!(instances.targets.lock().unwrap()["a"].former.len(), FORMER_MAX);
    }
}
