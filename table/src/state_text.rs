//! Serde form of a state: its word, in the journal as everywhere else.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use wattscribe_rules::State;

pub(crate) fn serialize<S: Serializer>(state: &State, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(state.as_str())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<State, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
