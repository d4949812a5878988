//! The house rules: what the code may do and where, and that the documents say what the code does.
//!
//! One program, so that it links once. Each check works on text or lists that are handed to it, and is shown a broken
//! one as well: a check that cannot fail proves nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod cargo;
mod dependencies;
mod energy;
mod files;
mod links;
mod markdown;
mod metrics;
mod names;
mod operations;
mod repository;
mod setup;
mod source;
mod words;
mod world;
