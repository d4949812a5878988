//! What a superchip module draws beside its sockets and its accelerators: regulators, memory, the rest of the board.
//!
//! The module's power is one meter, its parts are others, and the residual is their difference. It means something only
//! when the whole and every part are there, so it is withheld otherwise, and says what is missing.

use std::fmt;

use crate::compensated::Compensated;
use crate::disagree::ModuleMean;
use crate::sum::{Members, total};

/// A module's power less that of its sockets and its accelerators, in watts.
///
/// `sockets` and `gpus` have an entry for every part that the module is made of, and `None` for one without a reading.
/// Both are whole: a rail is no socket ([`SocketTotal`](crate::Boundary::SocketTotal)), and a report of the module is no
/// accelerator. As of the module itself, a zero is no reading, nor is a value that is negative or not finite.
///
/// The difference is what it is and is never clamped: the meters average over different times, so while the load changes
/// it may be far off, and even below zero.
///
/// # Errors
/// [`NoResidual`], with the first thing that is missing: the module, then sockets, then accelerators.
pub fn residual(
    module: ModuleMean,
    sockets: &[Option<f64>],
    gpus: &[Option<f64>],
) -> Result<f64, NoResidual> {
    let module_w = match module {
        ModuleMean::Mean { watts, .. } => watts,
        ModuleMean::Disagree { mean_w, spread_w, .. } => {
            return Err(NoResidual::ModuleDisagrees { mean_w, spread_w });
        }
        ModuleMean::NoReading => return Err(NoResidual::NoModule),
    };
    let sockets_w = whole(sockets).map_err(NoResidual::Sockets)?;
    let gpus_w = whole(gpus).map_err(NoResidual::Gpus)?;
    Ok(remainder(module_w, [sockets_w, gpus_w]))
}

/// A whole less its parts, in their unit.
pub fn remainder(whole: f64, parts: impl IntoIterator<Item = f64>) -> f64 {
    let taken = parts.into_iter().map(|part| -part);
    std::iter::once(whole).chain(taken).collect::<Compensated>().total()
}

/// The sum of all parts in watts, or how many of them there are.
fn whole(parts: &[Option<f64>]) -> Result<f64, Members> {
    let parts: Vec<Option<f64>> = parts.iter().map(|part| part.filter(|w| *w > 0.0)).collect();
    let sum = total(&parts);
    sum.value.ok_or(sum.members)
}

/// Why a module has no residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoResidual {
    /// Nobody reports the module's power.
    NoModule,
    /// Its accelerators report powers that differ too much, so there is no whole to take parts from.
    ModuleDisagrees {
        /// The mean that is not published, in watts.
        mean_w: f64,
        /// The greatest report less the least, in watts.
        spread_w: f64,
    },
    /// Not every socket reports, or none is known.
    Sockets(Members),
    /// Not every accelerator reports, or none is known.
    Gpus(Members),
}

impl fmt::Display for NoResidual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, members) = match self {
            NoResidual::NoModule => return f.write_str("nobody reports the module's power"),
            NoResidual::ModuleDisagrees { mean_w, spread_w } => {
                return write!(
                    f,
                    "reports of the module's power are {spread_w} W apart around {mean_w} W, expected one power"
                );
            }
            NoResidual::Sockets(members) => ("sockets", members),
            NoResidual::Gpus(members) => ("accelerators", members),
        };
        let Members { expected, reporting } = members;
        write!(f, "{reporting} of {expected} {part} report, expected all of at least one")
    }
}

impl std::error::Error for NoResidual {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disagree::module_mean;

    /// Reports of the module, its sockets, its accelerators, and what is left of it.
    type Case<'a> =
        (&'a [Option<f64>], &'a [Option<f64>], &'a [Option<f64>], Result<f64, NoResidual>);

    #[test]
    fn residuals() {
        let (pair, cpu) = ([Some(539.0), Some(534.0)], [Some(96.0)]);
        let gpus = [Some(204.0), Some(198.0)];
        let of = |reporting, expected| Members { expected, reporting };
        let differ = NoResidual::ModuleDisagrees { mean_w: 500.0, spread_w: 25.5 };
        let cases: &[Case<'_>] = &[
            (&pair, &cpu, &gpus, Ok(38.5)),
            // One report is the module's mean; a module of one GPU has no more.
            (&[Some(560.0)], &cpu, &[Some(420.0)], Ok(44.0)),
            (&[Some(539.0), None], &cpu, &gpus, Ok(41.0)),
            // Exactly at the limit of the mean, and past it.
            (&[Some(487.5), Some(512.5)], &cpu, &gpus, Ok(2.0)),
            (&[Some(487.25), Some(512.75)], &cpu, &gpus, Err(differ)),
            (&[None, Some(0.0)], &cpu, &gpus, Err(NoResidual::NoModule)),
            (&[], &[], &[], Err(NoResidual::NoModule)),
            // Every part has to be there; a part without a number is none.
            (&pair, &[], &gpus, Err(NoResidual::Sockets(of(0, 0)))),
            (&pair, &[None], &gpus, Err(NoResidual::Sockets(of(0, 1)))),
            (&pair, &[Some(96.0), None], &gpus, Err(NoResidual::Sockets(of(1, 2)))),
            (&pair, &[Some(0.0)], &gpus, Err(NoResidual::Sockets(of(0, 1)))),
            (&pair, &cpu, &[], Err(NoResidual::Gpus(of(0, 0)))),
            (&pair, &cpu, &[Some(204.0), None], Err(NoResidual::Gpus(of(1, 2)))),
            (&pair, &cpu, &[Some(204.0), Some(f64::NAN)], Err(NoResidual::Gpus(of(1, 2)))),
            (&pair, &cpu, &[Some(204.0), Some(f64::INFINITY)], Err(NoResidual::Gpus(of(1, 2)))),
            (&pair, &cpu, &[Some(204.0), Some(-1.0)], Err(NoResidual::Gpus(of(1, 2)))),
            // Parts that were read before the load fell.
            (&[Some(400.0)], &cpu, &[Some(200.0), Some(200.0)], Ok(-96.0)),
        ];
        for (reports, sockets, gpus, expected) in cases {
            let found = residual(module_mean(reports), sockets, gpus);
            assert_eq!(found, *expected, "{reports:?} less {sockets:?} less {gpus:?}");
        }
    }

    #[test]
    fn the_order_of_the_parts_is_nothing() {
        let parts = [204.1, 198.2, 0.3, 1e-6, 731.123_456].map(Some);
        let mut turned = parts;
        let expected = residual(module_mean(&[Some(2_000.7)]), &[Some(96.1), Some(98.7)], &parts);
        for _ in 0..parts.len() {
            turned.rotate_left(1);
            let found = residual(module_mean(&[Some(2_000.7)]), &[Some(98.7), Some(96.1)], &turned);
            assert_eq!(found, expected, "{turned:?}");
        }
    }

    #[test]
    fn a_reason_says_what_was_found_and_expected() {
        let members = Members { expected: 2, reporting: 1 };
        let cases = [
            (NoResidual::NoModule, "nobody reports the module's power"),
            (
                NoResidual::ModuleDisagrees { mean_w: 513.0, spread_w: 26.0 },
                "reports of the module's power are 26 W apart around 513 W, expected one power",
            ),
            (NoResidual::Sockets(members), "1 of 2 sockets report, expected all of at least one"),
            (NoResidual::Gpus(members), "1 of 2 accelerators report, expected all of at least one"),
        ];
        for (reason, expected) in cases {
            assert_eq!(reason.to_string(), expected);
        }
    }
}
