//! Placeholder, replaced before the first landing.
