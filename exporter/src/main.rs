//! `cpu-power-exporter`: the exporter as a program of its own, small enough for every node.

use std::process::ExitCode;

use clap::Parser;
use wattscribe_exporter::args::ExporterArgs;

/// Publishes the power of this node's CPU sockets for Prometheus.
#[derive(Debug, Parser)]
#[command(name = "cpu-power-exporter", version)]
struct Args {
    #[command(flatten)]
    exporter: ExporterArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    wattscribe_exporter::program::run(args.exporter)
}
