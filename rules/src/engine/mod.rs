//! Rules over scrapes: what comes in, what comes out. `docs/rules.md` defines every result.
//!
//! Pure and streaming. Equal scrapes give equal rows to the bit, whether they come live or from files, in whatever
//! order those of different targets are handed over.
//!
//! [`Engine`] is nodes and fleet together. Whoever works on many nodes at once takes a [`NodeEngine`] for each and one
//! [`FleetEngine`] over their results, and gets the same.

pub mod derived;
pub mod explain;
pub mod fleet;
pub mod node;
pub mod scrape;
pub mod sockets;
pub mod whole;

pub(crate) mod clock;

mod bench;
mod group;
mod labels;
mod ordered;
mod outcome;
mod plan;
mod series;
mod sheet;
mod stream;
mod stretches;
mod work;

#[cfg(test)]
mod tests;

pub use derived::{Derived, Withheld};
pub use explain::{Explanation, Found, Part};
pub use fleet::{FleetEngine, TargetId};
pub use node::{NodeEngine, Progress};
pub use plan::NamedWindow;
pub use scrape::{Answer, Observed, Scrape, SeriesId};
pub use series::LeftOut;
pub use sockets::{SocketRow, SocketSeries};
pub use whole::Engine;
