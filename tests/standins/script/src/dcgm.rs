//! The script of the stand-in for libdcgm: engines, CPU entities, and what an engine holds of their fields.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Behaviour, Calls, DcgmReturn, Script, Series};

/// Where an engine of the system listens unless the script says otherwise.
pub const ENGINE_ADDRESS: &str = "127.0.0.1";

/// The port that an address without one means (`DCGM_HE_PORT_NUMBER`).
pub const ENGINE_PORT: &str = "5555";

/// What the library finds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DcgmScript {
    /// Where calls are logged. Nothing is logged without it.
    pub log: Option<PathBuf>,
    /// The engine that runs as a service.
    pub engine: SystemEngine,
    /// What starting an engine inside the process returns. It starts where nothing stands here.
    pub embedded_error: Option<DcgmReturn>,
    /// The CPUs that an engine knows.
    pub entities: Vec<Entity>,
    /// Fields that cannot be watched, and what watching a group that has them returns.
    pub watch_refused: BTreeMap<u16, DcgmReturn>,
    /// Symbols that misbehave.
    pub calls: Calls<DcgmReturn>,
}

/// An engine of the system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemEngine {
    /// Where it listens: an address, with or without a port.
    pub address: String,
    /// Which start of the engine this is. Connections to another one return `CONNECTION_NOT_VALID` for ever.
    pub start: u64,
    /// Whether it runs. While it does not, connecting fails, and connections return `CONNECTION_NOT_VALID`.
    pub running: bool,
}

impl Default for SystemEngine {
    fn default() -> Self {
        Self { address: ENGINE_ADDRESS.into(), start: 1, running: true }
    }
}

/// A CPU (an entity of group `DCGM_FE_CPU`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Entity {
    /// Its id.
    pub id: u32,
    /// What it measures. A watched field that is not here is blank, not supported, with status `OK`.
    pub fields: Vec<EntityField>,
}

/// A field of an entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntityField {
    /// Its id: 1130 is power of the CPU rail, 1132 of SysIO, both in watts.
    pub field: u16,
    /// What it holds.
    pub value: Value,
    /// The status beside the value.
    #[serde(default = "ok")]
    pub status: DcgmReturn,
    /// When the engine says that it was measured.
    #[serde(default)]
    pub stamp: Stamp,
    /// The entity that the value is stamped with, where it is another one than was asked for.
    #[serde(default)]
    pub stamped_entity: Option<u32>,
}

fn ok() -> DcgmReturn {
    DcgmReturn::Ok
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A double. Where the series has none the status is `NO_DATA`.
    Double(Series),
    /// A 64-bit integer.
    Int64(i64),
    /// Text, cut at 255 bytes.
    Text(String),
    /// A placeholder for a value.
    Blank {
        /// Why there is none.
        kind: BlankKind,
        /// Which type's placeholder it is.
        #[serde(default, rename = "as")]
        blank: Blank,
    },
}

/// Why there is no value: the offset from the type's first placeholder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlankKind {
    /// For no reason that is told.
    Blank = 0,
    /// Not found.
    NotFound = 1,
    /// Not supported.
    NotSupported = 2,
    /// Not permitted.
    NotPermitted = 3,
}

/// Whose placeholder stands in the value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blank {
    /// 2^47 and above, as a double.
    #[default]
    Double,
    /// 0x7ffffffffffffff0 and above, as a 64-bit integer.
    Int64,
    /// 0x7ffffff0 and above, in a 64-bit integer.
    Int32,
    /// `<<<NULL>>>` and the like, as text.
    Text,
}

/// When a value says that it was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamp {
    /// When the engine last sampled the field: in the watch's period, and at each demanded update.
    #[default]
    Advancing,
    /// As it last was: an engine whose sampling has stopped. A series stands still with it.
    Still,
    /// Always this, in microseconds since 1970.
    AtUs(i64),
}

impl DcgmScript {
    /// An engine of the system on the usual address with these entities, all of which behaves.
    pub fn new(entities: impl IntoIterator<Item = Entity>) -> Self {
        Self { entities: entities.into_iter().collect(), ..Self::default() }
    }

    /// Without an engine of the system: only one inside the process can be had.
    #[must_use]
    pub fn without_engine(mut self) -> Self {
        self.engine.running = false;
        self
    }

    /// Makes a symbol misbehave.
    #[must_use]
    pub fn call(mut self, symbol: &str, behaviour: Behaviour<DcgmReturn>) -> Self {
        self.set_call(symbol, behaviour);
        self
    }

    /// Makes a symbol misbehave from now on, in this way and no other.
    pub fn set_call(&mut self, symbol: &str, behaviour: Behaviour<DcgmReturn>) {
        self.calls.insert(symbol.into(), behaviour);
    }

    /// Starts the engine of the system anew: what was connected to it is no longer valid.
    pub fn restart(&mut self) {
        self.engine.start += 1;
        self.engine.running = true;
    }

    /// A field of an entity.
    pub fn field_mut(&mut self, entity: u32, field: u16) -> Option<&mut EntityField> {
        let entity = self.entities.iter_mut().find(|at| at.id == entity)?;
        entity.fields.iter_mut().find(|at| at.field == field)
    }
}

impl Entity {
    /// A CPU that measures nothing yet.
    pub fn new(id: u32) -> Self {
        Self { id, fields: Vec::new() }
    }

    /// With a field that holds something.
    #[must_use]
    pub fn with(mut self, field: u16, value: Value) -> Self {
        let stamp = Stamp::default();
        self.fields.push(EntityField { field, value, status: ok(), stamp, stamped_entity: None });
        self
    }

    /// With power of a rail, in watts.
    #[must_use]
    pub fn watts(self, field: u16, watts: impl Into<Series>) -> Self {
        self.with(field, Value::Double(watts.into()))
    }
}

impl Script for DcgmScript {
    type Code = DcgmReturn;
    const VARIABLE: &'static str = "WATTSCRIBE_DCGM_SCRIPT";
    const LIBRARY: &'static str = "libdcgm_standin.so";
    const BROKEN: DcgmReturn = DcgmReturn::GenericError;
    const SYMBOLS: &'static [&'static str] = &[
        "dcgmInit",
        "dcgmShutdown",
        "dcgmConnect",
        "dcgmDisconnect",
        "dcgmStartEmbedded",
        "dcgmStopEmbedded",
        "dcgmGetEntityGroupEntities",
        "dcgmGroupCreate",
        "dcgmGroupAddEntity",
        "dcgmGroupDestroy",
        "dcgmFieldGroupCreate",
        "dcgmFieldGroupDestroy",
        "dcgmWatchFields",
        "dcgmUnwatchFields",
        "dcgmUpdateAllFields",
        "dcgmEntitiesGetLatestValues",
    ];

    fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    fn set_log(&mut self, path: PathBuf) {
        self.log = Some(path);
    }

    fn calls(&self) -> Vec<&Calls<DcgmReturn>> {
        vec![&self.calls]
    }

    fn behaviour(&self, symbol: &str, _subject: Option<&str>) -> Option<Behaviour<DcgmReturn>> {
        self.calls.get(symbol).copied()
    }
}
