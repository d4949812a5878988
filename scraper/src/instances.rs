//! Which exporter stands behind each target, so that one with two addresses is counted once.
//!
//! `http://node-1:9405/` and `http://10.0.0.1:9405/` are two texts and may be one exporter. Its page says which it is.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The exporters of a recording by what their pages call them. Who answers first under a name keeps it until he has
/// another one, as after a restart.
#[derive(Debug, Default)]
pub struct Instances {
    targets: Mutex<HashMap<String, String>>,
}

impl Instances {
    /// Notes that a target's page has this name.
    ///
    /// # Errors
    /// The target that has it already.
    pub fn claim(&self, target: &str, instance: &str) -> Result<(), String> {
        // Every change under the lock is complete in itself.
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        match targets.get(instance) {
            Some(owner) if owner == target => Ok(()),
            Some(owner) => Err(owner.clone()),
            None => {
                // One name a target: whatever pages say, there are no more names than targets.
                targets.retain(|_, owner| owner != target);
                targets.insert(instance.to_owned(), target.to_owned());
                Ok(())
            }
        }
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
            assert_eq!(found, expected.map_err(str::to_owned), "{target} claims {instance}");
        }
    }
}
