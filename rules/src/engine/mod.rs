//! Rules over scrapes: what comes in, what comes out. `docs/rules.md` defines every result.
//!
//! Pure and streaming. Equal scrapes give equal rows to the bit, whether they come live or from files, in whatever
//! order those of different targets are handed over.

pub mod derived;
pub mod scrape;

pub use derived::{Derived, Withheld};
pub use scrape::{Answer, Observed, Scrape, SeriesId};
