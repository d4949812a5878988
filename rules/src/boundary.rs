//! What a reading covers, and which readings may be added.
//!
//! Boundaries nest: a superchip module contains its sockets and accelerators, a socket's total its rails. Adding a whole
//! to one of its parts counts the part twice, so each boundary is written here as the set of parts that it contains,
//! and only boundaries without a common part may be added.

use std::fmt;
use std::str::FromStr;

/// What a reading of power or energy covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Boundary {
    /// A whole CPU socket as its firmware reports it: cores, the rest of the die, and memory.
    SocketTotal,
    /// The rail of a socket's cores.
    CpuRail,
    /// The rail of the rest of a socket's die.
    Soc,
    /// The memory of a socket.
    Dram,
    /// A powercap `package` zone: the die, without its memory.
    Package,
    /// The cores inside a package.
    Core,
    /// What a package has beside its cores, as a powercap `uncore` zone counts it.
    Uncore,
    /// One accelerator card or chip with its memory.
    Accelerator,
    /// The socket of a processor with built-in graphics: cores, graphics and neural engine.
    ApuSocket,
    /// The graphics part of such a socket.
    Gfx,
    /// The neural engine of such a socket.
    Npu,
    /// A superchip module: its sockets, its accelerators, and the losses of its regulators.
    Module,
    /// The platform meter of a powercap `psys` zone, which may see anything that the board feeds.
    Platform,
    /// A whole node at its power supplies.
    Node,
    /// What a module draws beside its sockets and its accelerators.
    Losses,
    /// What is left of a whole without some parts, where that has no name.
    Rest,
}

/// The parts that boundaries are made of, one bit each.
const CORES: u16 = 1 << 0;
const REST_OF_DIE: u16 = 1 << 1;
const MEMORY: u16 = 1 << 2;
const ACCELERATORS: u16 = 1 << 3;
const GRAPHICS: u16 = 1 << 4;
const NEURAL: u16 = 1 << 5;
const MODULE_LOSSES: u16 = 1 << 6;
const BOARD: u16 = 1 << 7;
const SUPPLIES: u16 = 1 << 8;
const NAMELESS: u16 = 1 << 9;

const DIE: u16 = CORES | REST_OF_DIE | GRAPHICS | NEURAL;
const MODULE: u16 = DIE | MEMORY | ACCELERATORS | MODULE_LOSSES;

impl Boundary {
    /// Every boundary.
    pub const ALL: [Boundary; 16] = [
        Boundary::SocketTotal,
        Boundary::CpuRail,
        Boundary::Soc,
        Boundary::Dram,
        Boundary::Package,
        Boundary::Core,
        Boundary::Uncore,
        Boundary::Accelerator,
        Boundary::ApuSocket,
        Boundary::Gfx,
        Boundary::Npu,
        Boundary::Module,
        Boundary::Platform,
        Boundary::Node,
        Boundary::Losses,
        Boundary::Rest,
    ];

    /// The word used in labels and columns.
    pub const fn as_str(self) -> &'static str {
        match self {
            Boundary::SocketTotal => "socket_total",
            Boundary::CpuRail => "cpu_rail",
            Boundary::Soc => "soc",
            Boundary::Dram => "dram",
            Boundary::Package => "package",
            Boundary::Core => "core",
            Boundary::Uncore => "uncore",
            Boundary::Accelerator => "accelerator",
            Boundary::ApuSocket => "apu_socket",
            Boundary::Gfx => "gfx",
            Boundary::Npu => "npu",
            Boundary::Module => "module",
            Boundary::Platform => "platform",
            Boundary::Node => "node",
            Boundary::Losses => "losses",
            Boundary::Rest => "rest",
        }
    }

    /// What is left of a whole without some of its parts: the losses of a module that lacks everything else, or a rest.
    ///
    /// Nothing else has a name then. What a socket's total leaves of its rails is not its memory: it is whatever the
    /// meters do not see, and their errors.
    pub fn left_of(whole: Boundary, parts: impl IntoIterator<Item = Boundary>) -> Boundary {
        let taken = parts.into_iter().fold(0, |taken, part| taken | part.parts());
        match whole.parts() & !taken {
            MODULE_LOSSES => Boundary::Losses,
            _ => Boundary::Rest,
        }
    }

    /// Whether `inner` lies within this boundary and is less than it.
    pub const fn contains(self, inner: Boundary) -> bool {
        let (outer, inner) = (self.parts(), inner.parts());
        outer != inner && outer & inner == inner
    }

    const fn parts(self) -> u16 {
        match self {
            Boundary::SocketTotal => DIE | MEMORY,
            Boundary::CpuRail | Boundary::Core => CORES,
            // Graphics and neural engine, where there are any, are fed by the rail of the rest of the die.
            Boundary::Soc | Boundary::Uncore => REST_OF_DIE | GRAPHICS | NEURAL,
            Boundary::Dram => MEMORY,
            Boundary::Package | Boundary::ApuSocket => DIE,
            Boundary::Accelerator => ACCELERATORS,
            Boundary::Gfx => GRAPHICS,
            Boundary::Npu => NEURAL,
            Boundary::Module => MODULE,
            Boundary::Platform => MODULE | BOARD,
            Boundary::Node => MODULE | BOARD | SUPPLIES | NAMELESS,
            Boundary::Losses => MODULE_LOSSES,
            Boundary::Rest => NAMELESS,
        }
    }
}

/// Whether readings of two boundaries on one node may be added.
///
/// Equal boundaries may, as readings of different sockets, cards or nodes; that they are different is for the caller to
/// know. Others may when they have no part in common. A rest may never be added: nobody knows what is in it.
pub const fn may_add(a: Boundary, b: Boundary) -> bool {
    let is_rest = matches!(a, Boundary::Rest) || matches!(b, Boundary::Rest);
    !is_rest && (a as u8 == b as u8 || a.parts() & b.parts() == 0)
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Boundary {
    type Err = UnknownBoundary;

    fn from_str(word: &str) -> Result<Boundary, UnknownBoundary> {
        Boundary::ALL
            .into_iter()
            .find(|boundary| boundary.as_str() == word)
            .ok_or_else(|| UnknownBoundary { found: word.to_owned() })
    }
}

/// A word that names no boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBoundary {
    /// The word as it was found.
    pub found: String,
}

impl fmt::Display for UnknownBoundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown boundary {:?}, expected one of", self.found)?;
        Boundary::ALL.iter().try_for_each(|boundary| write!(f, " {boundary}"))
    }
}

impl std::error::Error for UnknownBoundary {}

#[cfg(test)]
mod tests {
    use super::Boundary::*;
    use super::*;

    #[test]
    fn nesting() {
        let cases: &[(Boundary, &[Boundary])] = &[
            (SocketTotal, &[CpuRail, Soc, Dram, Package, Core, Uncore, ApuSocket, Gfx, Npu]),
            (Package, &[CpuRail, Soc, Core, Uncore, Gfx, Npu]),
            (Module, &[SocketTotal, Package, Dram, Accelerator, Losses]),
            (Node, &[Platform, Module, SocketTotal, Accelerator, Dram]),
            (ApuSocket, &[Gfx, Core, Npu]),
        ];
        for (outer, inners) in cases {
            for inner in *inners {
                assert!(outer.contains(*inner), "{outer} contains {inner}");
                assert!(!inner.contains(*outer), "{inner} does not contain {outer}");
                assert!(!may_add(*outer, *inner), "{outer} + {inner}");
            }
        }
        // A powercap package is the die alone; its memory has a zone of its own.
        assert!(!Package.contains(Dram));
    }

    #[test]
    fn what_may_be_added() {
        let disjoint = [
            (SocketTotal, Accelerator),
            (Package, Dram),
            (CpuRail, Soc),
            (CpuRail, Dram),
            (Core, Uncore),
            (Gfx, Npu),
            (Losses, SocketTotal),
            (Losses, Accelerator),
        ];
        for (a, b) in disjoint {
            assert!(may_add(a, b) && may_add(b, a), "{a} + {b}");
        }
        // The same silicon by two meters.
        for (a, b) in [(SocketTotal, Package), (CpuRail, Core), (Package, ApuSocket), (Soc, Gfx)] {
            assert!(!may_add(a, b) && !may_add(b, a), "{a} + {b}");
        }
        for boundary in Boundary::ALL {
            assert_eq!(may_add(boundary, boundary), boundary != Rest, "{boundary} + {boundary}");
            assert!(!may_add(boundary, Rest) && !may_add(Rest, boundary), "{boundary} + rest");
            assert!(!boundary.contains(boundary));
            assert_eq!(boundary.as_str().parse(), Ok(boundary));
            assert!(boundary == Node || Node.contains(boundary), "a node contains {boundary}");
        }
        assert!("socket".parse::<Boundary>().is_err());
    }
    #[test]
    fn what_is_left() {
        let cases: &[(Boundary, &[Boundary], Boundary)] = &[
            (Module, &[SocketTotal, Accelerator], Losses),
            (Module, &[Package, Dram, Accelerator], Losses),
            (Module, &[SocketTotal], Rest),
            (Module, &[Accelerator], Rest),
            (SocketTotal, &[CpuRail, Soc], Rest),
            (SocketTotal, &[CpuRail, Soc, Dram], Rest),
            (Node, &[Module], Rest),
        ];
        for (whole, parts, expected) in cases {
            let found = Boundary::left_of(*whole, parts.iter().copied());
            assert_eq!(found, *expected, "{whole} less {parts:?}");
        }
    }
}
