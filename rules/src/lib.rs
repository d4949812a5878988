//! Pure derivations over readings of power and energy: which rail a label names, how far a counter moved, how many
//! joules a window holds and how much of it was measured.
//!
//! This crate touches no file, socket, clock or thread: everything it needs is an argument, so a rule gives the same
//! answer on a node, live on the head node, and offline over files. It withholds rather than guesses: where a number
//! cannot be defended the answer is `None` and a reason from a closed set.
#![forbid(unsafe_code)]

pub mod averaging;
pub mod counter;
pub mod rail;
pub mod state;

pub use averaging::Averaging;
pub use counter::{CounterRead, Epochs, Step};
pub use rail::{Rail, RailKind, classify};
pub use state::State;
