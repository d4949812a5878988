//! A stand-in for libdcgm: engines, inside the process and outside, that behave as a script says.
//!
//! [`exports`] is the C interface and the only place with `unsafe`; `client` is what lies behind it, without any.
//! The script, its log and its misbehaviour are in `wattscribe-standins`.

pub mod abi;
mod client;
pub mod exports;
mod session;
