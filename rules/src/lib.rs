//! Pure derivations over readings of power and energy: which rail a label names, how far a counter moved, how many
//! joules a window holds and how much of it was measured.
//!
//! This crate touches no file, socket, clock or thread: everything it needs is an argument, so a rule gives the same
//! answer on a node, live on the head node, and offline over files. It withholds rather than guesses: where a number
//! cannot be defended the answer is `None` and a reason from a closed set.
//!
//! The heart is the [`Integrator`], which turns one series of readings into the [`Energy`] of [`Windows`]:
//!
//! ```
//! use wattscribe_rules::{Integrator, Limits, Sample, Verdict, Window, Windows};
//!
//! let run = Window::new(0.5, 2.0)?;
//! let mut integrator = Integrator::new(Windows::list([run]), Limits::default());
//! for (at_s, watts) in [(0.0, 100.0), (1.0, 100.0), (2.0, 300.0)] {
//!     integrator.push(Sample::power(at_s, watts))?;
//! }
//! let (_, energy) = integrator.completed().next().ok_or("the window is not complete")?;
//! assert_eq!(energy.energy_j, Some(50.0 + 200.0));
//! assert_eq!(energy.verdict, Verdict::Full);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

// Windows of energy.
pub mod energy;
pub mod integrator;
pub mod limits;
pub mod quantiles;
pub mod reason;
pub mod sample;
pub mod window;

// Readings.
pub mod averaging;
pub mod counter;
pub mod rail;
pub mod state;

// Readings of several members.
pub mod boundary;
pub mod disagree;
pub mod ledger;
pub mod residual;
pub mod sum;

// Accelerators.
pub mod fleet;

// Rules as data.
pub mod engine;
pub mod promql;
pub mod rule;

mod compensated;
mod counter_edges;
mod open_window;
mod trapezoid;

pub use averaging::Averaging;
pub use boundary::{Boundary, may_add};
pub use counter::{CounterRead, Epochs, Step};
pub use disagree::{ModuleMean, Spread, module_mean};
pub use energy::{Energy, Verdict};
pub use integrator::Integrator;
pub use ledger::{Ledger, NodeKey, Observation, SeriesKey, Statement};
pub use limits::Limits;
pub use rail::{Rail, RailKind, classify};
pub use reason::{Reason, Reasons};
pub use residual::{NoResidual, remainder, residual};
pub use sample::{CounterSample, PushError, Sample};
pub use state::State;
pub use sum::{FleetEnergy, Sum, sum_energy, total};
pub use window::{Window, Windows};
