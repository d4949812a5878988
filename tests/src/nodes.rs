//! Nodes: the real exporter as a process over each of some simulated machines.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::SystemTime;

use tempfile::TempDir;
use wattscribe_simulator::{Machine, Simulation};

use crate::http::{self, Server};
use crate::program::{Running, exporter, wattscribe};

/// Nodes that run until this is dropped.
#[derive(Debug)]
pub struct Nodes {
    /// The machines, to break and to heal.
    pub simulation: Simulation,
    nodes: Vec<Node>,
    _trees: TempDir,
}

#[derive(Debug)]
struct Node {
    name: String,
    address: SocketAddr,
    _exporter: Running,
}

/// How often the exporters read: ten times as often as on a node, so that tests last a tenth as long.
pub const INTERVAL: &str = "100ms";

impl Nodes {
    /// Starts an exporter over each machine, side by side, and waits until all listen.
    pub fn start(machines: &[Machine]) -> Self {
        let trees = memory();
        let simulation = Simulation::start(trees.path(), machines, SystemTime::now()).unwrap();
        let nodes = thread::scope(|scope| {
            let started: Vec<_> = machines
                .iter()
                .map(|machine| {
                    let root = simulation.sysfs_root(&machine.name).unwrap();
                    scope.spawn(|| Node::start(&machine.name, root))
                })
                .collect();
            started.into_iter().map(|node| node.join().unwrap()).collect()
        });
        Self { simulation, nodes, _trees: trees }
    }

    /// Where a node's exporter listens.
    pub fn address(&self, name: &str) -> SocketAddr {
        self.nodes.iter().find(|node| node.name == name).unwrap().address
    }

    /// A node's page as it is now.
    pub fn page(&self, name: &str) -> String {
        http::get(self.address(name), "/metrics").text()
    }

    /// `wattscribe record` of all nodes into a directory, five times a second.
    pub fn record(&self, out: &Path) -> Command {
        record(self.nodes.iter().map(|node| (node.name.as_str(), node.address)), "200ms", out)
    }
}

impl Node {
    fn start(name: &str, root: &Path) -> Self {
        let mut command = exporter();
        command.args(["--bind", "127.0.0.1", "--port", "0", "--interval", INTERVAL]);
        let (exporter, address) = listening(command.arg("--sysfs-root").arg(root));
        Self { name: name.to_owned(), address, _exporter: exporter }
    }
}

/// An exporter once it listens, and where.
pub fn listening(command: &mut Command) -> (Running, SocketAddr) {
    let mut exporter = Running::start(command);
    let address = exporter.says("listening", |log| {
        let (_, after) = log.split_once("listening addr=")?;
        // Only once the line is whole is the port.
        after.split_once('\n')?.0.trim().parse().ok()
    });
    (exporter, address)
}

/// `wattscribe record` of these targets into a directory.
pub fn record<'a>(
    targets: impl IntoIterator<Item = (&'a str, SocketAddr)>,
    interval: &str,
    out: &Path,
) -> Command {
    let mut command = wattscribe();
    command.arg("record").arg("--out").arg(out).args(["--interval", interval]);
    for (name, address) in targets {
        command.arg("--target").arg(format!("{name}=http://{address}/metrics"));
    }
    command
}

/// A server that stands for a node: one page for ever.
pub fn standing_in(page: &str) -> Server {
    Server::fixed(http::Answer::page(page))
}

/// A folder in memory where there is one: simulated machines write a hundred times a second.
fn memory() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { TempDir::new_in(shm).unwrap() } else { TempDir::new().unwrap() }
}
