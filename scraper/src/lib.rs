//! The scraper: on the head node, targets become scrapes, and scrapes become rows.
//!
//! [`poll`] runs one loop per [`target`] on its own [`schedule`]; [`fetch`] asks; [`power_page`] reads
//! what came, [`reading_time`] when it stands; [`cpu_rows`], with the node's [`history`], and [`digest`] make rows of it;
//! [`mod@write`] hands them to a run on disk, and behind them what [`live_rules`] make of them;
//! [`record`] holds it all together; [`status`] says how it stands, and [`page`] shows it beside the [`newest`] results.
//!
//! What never happens here: a target that waits for another, a body that is believed in part, a sum of
//! fewer sockets than the node has, a reading that is counted twice.

pub mod clock;
pub mod cpu_rows;
pub mod digest;
pub mod failure;
pub mod fetch;
pub mod fleet;
pub mod history;
pub mod instances;
pub mod keep;
pub mod live_rules;
pub mod manifest;
pub mod newest;
pub mod offset;
pub mod page;
pub mod poll;
pub mod power_page;
pub mod reading_time;
pub mod record;
mod results;
pub mod schedule;
pub mod status;
pub mod target;
pub mod write;
