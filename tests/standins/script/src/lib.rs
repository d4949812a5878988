//! Stand-ins for libnvidia-ml and libdcgm: what both have in common, and how a test directs them.
//!
//! A stand-in exports the C symbols of the library that it stands for, and answers them as a script says. The script is
//! a JSON file that is read again at each call, so a test changes it while the program under test runs: a GPU is lost,
//! the driver is loaded anew, a call no longer comes back. Each call is logged with its arguments and its result.
//!
//! - [`Stage`] is for tests: it puts a library and its script into a folder, changes the script, reads the log.
//! - [`NvmlScript`] and [`DcgmScript`] are the scripts, with builders; the README describes their JSON.
//! - [`Call`] is a call of the log, [`unbalanced`] finds what was taken and not given back.
//! - [`Player`] is for the libraries: it reads the script, writes the log, blocks and fails as it is told. [`Loaded`] is
//!   its place.
//!
//! There is no `unsafe` here. A fault in a script makes every call fail and is kept for [`Stage::calls`] to report.

mod balance;
mod behaviour;
mod call;
mod code;
mod dcgm;
mod loaded;
mod nvml;
mod player;
mod series;
mod source;
mod stage;

pub use balance::unbalanced;
pub use behaviour::{Behaviour, Block, Calls};
pub use call::{Call, LogError};
pub use code::{Code, DcgmReturn, NvmlReturn};
pub use dcgm::{
    Blank, BlankKind, DcgmScript, ENGINE_ADDRESS, ENGINE_PORT, Entity, EntityField, Stamp,
    SystemEngine, Value,
};
pub use loaded::Loaded;
pub use nvml::{Answer, Device, Driver, Field, NvmlScript, ValueType, field, scope};
pub use player::{Player, Scene, Script};
pub use series::{Number, Series};
pub use source::ScriptError;
pub use stage::{Stage, StageError};
