//! How a call misbehaves: by its error, or by not coming back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Misbehaviour by the name of the C symbol. A symbol that is not here answers as the rest of the script says.
pub type Calls<C> = BTreeMap<String, Behaviour<C>>;

/// What one symbol does instead of answering. It blocks first, then fails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour<C> {
    /// What it returns. Without it the call answers after all, once it has blocked.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub error: Option<C>,
    /// For how long it does not come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
    /// How many calls are left alone, counted from when this behaviour was written, before it begins.
    #[serde(default)]
    pub skip: u64,
}

/// `Option::default` for a type that has no default itself.
fn none<C>() -> Option<C> {
    None
}

/// For how long a call does not come back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Seconds, whatever the script says in the meantime.
    Seconds(f64),
    /// Until the script no longer says this of the call.
    UntilChanged,
    /// It never comes back, not even when the script has changed: the thread is gone.
    ForEver,
}

impl<C> Behaviour<C> {
    /// Fails at once.
    pub fn fails(error: C) -> Self {
        Self { error: Some(error), block: None, skip: 0 }
    }

    /// Answers late, or never.
    pub fn blocks(block: Block) -> Self {
        Self { error: None, block: Some(block), skip: 0 }
    }

    /// Leaves the first calls alone.
    #[must_use]
    pub fn after(mut self, calls: u64) -> Self {
        self.skip = calls;
        self
    }
}
