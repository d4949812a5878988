//! The exporter over real files and real sockets. One program holds all of it, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod accelerator_faults;
mod accelerators;
mod blocked;
mod cell;
mod dcgm;
mod discovery;
mod fixture;
mod golden;
mod hang;
mod http;
mod hwmon_rows;
mod ladder;
mod library;
mod library_log;
mod machine;
mod names;
mod nvidia_gpus;
mod nvidia_rows;
mod nvml;
mod process;
mod rapl;
mod rapl_rows;
mod reconsider;
mod rediscovery;
mod superchip;
mod twins;
mod vigil;
mod wire;
mod withheld;
