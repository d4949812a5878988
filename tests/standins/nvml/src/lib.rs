//! A stand-in for libnvidia-ml: a driver and its GPUs that behave as a script says.
//!
//! [`exports`] is the C interface and the only place with `unsafe`; `session` is what lies behind it, without any.
//! The script, its log and its misbehaviour are in `wattscribe-standins`.

pub mod abi;
pub mod exports;
mod session;
