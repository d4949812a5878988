//! The player of a library for as long as the library is loaded.
//!
//! A library that is unloaded gives back what it holds. A program that loads it anew again and again then grows by
//! nothing but what is its own, and a checker of leaks finds only that.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Player, Script};

/// The place of a library's player.
#[derive(Debug)]
pub struct Loaded<S: Script>(Mutex<Option<Arc<Player<S>>>>);

impl<S: Script> Loaded<S> {
    /// A library that was not called yet.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The player of the library that has `address` in its code, made at the library's first call.
    pub fn player(&self, address: usize) -> Arc<Player<S>> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(place.get_or_insert_with(|| Arc::new(Player::new(address))))
    }

    /// Lets go of the player, as soon as the calls that have not come back let go of it, too.
    pub fn unload(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl<S: Script> Default for Loaded<S> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NvmlScript;

    #[test]
    fn a_player_lives_until_the_library_is_unloaded_and_its_calls_are_back() {
        let loaded = Loaded::<NvmlScript>::new();
        let of_a_call = loaded.player(1);
        assert!(Arc::ptr_eq(&of_a_call, &loaded.player(1)));
        let weak = Arc::downgrade(&of_a_call);
        loaded.unload();
        assert!(weak.upgrade().is_some(), "a call has not come back");
        drop(of_a_call);
        assert!(weak.upgrade().is_none());
        assert_eq!(Arc::strong_count(&loaded.player(1)), 2, "another one, and its place");
    }
}
