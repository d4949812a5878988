//! The live fleet: agents are found, asked on schedules of their own, and their pages become what
//! `wattscribe_rules::fleet` knows of each accelerator.

pub mod agent_page;
pub mod discovery;
pub mod gathered;
pub mod watch;
