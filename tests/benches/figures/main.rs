//! The figures of docs/performance.md: `cargo bench -p wattscribe-tests --bench figures [-- PART …]`.
//!
//! Parts: `exporter` (beside node_exporter), `recorder`, `energy` (beside pandas and DuckDB), `rules` (beside DuckDB), `fleet`. Peers
//! that are not installed are named as skipped. Each figure stands beside its peer's from the same run.

#![allow(clippy::print_stdout, reason = "a report is what this program is for")]

mod collector;
mod energy;
mod exporter;
mod fleet;
mod process;
mod recorder;
mod rules;

use std::env;
use std::error::Error;

/// One part of the report.
type Part = fn() -> Result<(), Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let parts: [(&str, Part); 5] = [
        ("exporter", exporter::run),
        ("recorder", recorder::run),
        ("energy", energy::run),
        ("rules", rules::run),
        ("fleet", collector::run),
    ];
    // cargo passes --bench to every benchmark.
    let asked: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    process::build()?;
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|arg| arg == name) {
            println!("\n== {name}");
            part()?;
        }
    }
    Ok(())
}
