//! What a GPU goes by: its UUID, or the PCI address where it has none.
//!
//! Pure. A driver that stumbles tells one of a GPU's names and not the other. What is known of the GPU then still
//! tells which one it is, and it keeps its name; its power is published only where the library confirms it. One that
//! was never known is refused, and shown by its number: whatever name it got would be gone with the next answer.

use std::collections::BTreeSet;

use crate::failure::Failure;
use crate::library::Refused;
use crate::sensor::Gpu;

/// One GPU of an enumeration: each name as it was told, or why it was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    /// Its number today.
    pub(crate) index: u32,
    /// Its UUID; empty where it has none.
    pub(crate) uuid: Result<String, Failure>,
    /// Its PCI address as sysfs writes it.
    pub(crate) pci: Result<String, Failure>,
    /// Its product name, where it is told.
    pub(crate) product: Option<String>,
    /// Whether it is partitioned, where that is told.
    pub(crate) mig: Option<bool>,
}

/// A GPU with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its place in the enumeration.
    pub(crate) place: usize,
    /// The name: no other GPU of the enumeration has it.
    pub(crate) id: String,
    /// The GPU.
    pub(crate) gpu: Gpu,
    /// Its product name.
    pub(crate) product: String,
}

/// The GPUs of one enumeration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Naming {
    /// Those that are known.
    pub(crate) named: Vec<Named>,
    /// Those that are not.
    pub(crate) refused: Vec<Refused>,
    /// UUIDs that more than one GPU has, where that is news.
    pub(crate) doubles: BTreeSet<String>,
}

/// What was found before.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Vec<Named>,
    /// UUIDs of which it was told that more than one GPU has them.
    doubles: BTreeSet<String>,
}

impl Names {
    /// Names the GPUs of one enumeration.
    pub(crate) fn name(&mut self, described: &[Described]) -> Naming {
        let mut named: Vec<Named> = Vec::new();
        let mut refused = Vec::new();
        for (place, gpu) in described.iter().enumerate() {
            match self.identify(gpu, described) {
                // One that is enumerated twice is one.
                Ok((uuid, pci)) if !is_among(&named, &uuid, &pci) => {
                    let product = gpu.product.clone();
                    let product =
                        product.or_else(|| Some(self.known(&uuid, &pci)?.product.clone()));
                    let gpu = Gpu { index: gpu.index, uuid, pci, mig: gpu.mig };
                    let (id, product) = (String::new(), product.unwrap_or_default());
                    named.push(Named { place, id, gpu, product });
                }
                Ok(_) => {}
                Err(reason) => refused.push(Refused { place: format!("gpu{}", gpu.index), reason }),
            }
        }
        let mut doubles = BTreeSet::new();
        for place in 0..named.len() {
            let Gpu { uuid, pci, .. } = &named[place].gpu;
            let is_double = named.iter().filter(|other| other.gpu.uuid == *uuid).count() > 1;
            named[place].id = match uuid.as_str() {
                "" => pci.clone(),
                uuid if is_double => {
                    doubles.insert(uuid.to_owned());
                    format!("{uuid}@{pci}")
                }
                uuid => uuid.to_owned(),
            };
        }
        doubles.retain(|uuid| self.doubles.insert(uuid.clone()));
        self.known.clone_from(&named);
        Naming { named, refused, doubles }
    }

    /// UUID and PCI address of a GPU, or why nobody tells them.
    fn identify(&self, gpu: &Described, all: &[Described]) -> Result<(String, String), Failure> {
        let (reason, known) = match (&gpu.uuid, &gpu.pci) {
            (Ok(uuid), Ok(pci)) => return Ok((uuid.clone(), pci.clone())),
            (Err(reason), Ok(pci)) => (reason, self.only(|known| known.pci == *pci)),
            (Ok(uuid), Err(reason)) if !uuid.is_empty() => {
                (reason, self.only(|known| known.uuid == *uuid))
            }
            // Nothing but its number: it is the GPU that had that number, unless that one is told elsewhere.
            (_, Err(reason)) => {
                let is_told = |known: &Gpu| {
                    all.iter().any(|other| other.pci.as_ref().is_ok_and(|pci| *pci == known.pci))
                };
                (reason, self.only(|known| known.index == gpu.index && !is_told(known)))
            }
        };
        known.map(|known| (known.uuid.clone(), known.pci.clone())).ok_or(*reason)
    }

    /// The one GPU of which this is true.
    fn only(&self, is_it: impl Fn(&Gpu) -> bool) -> Option<&Gpu> {
        let mut fitting = self.known.iter().map(|known| &known.gpu).filter(|gpu| is_it(gpu));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    fn known(&self, uuid: &str, pci: &str) -> Option<&Named> {
        self.known.iter().find(|known| known.gpu.uuid == uuid && known.gpu.pci == pci)
    }
}

fn is_among(named: &[Named], uuid: &str, pci: &str) -> bool {
    named.iter().any(|known| known.gpu.uuid == uuid && known.gpu.pci == pci)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: Failure = Failure::Io;
    type Told = (Result<&'static str, Failure>, Result<&'static str, Failure>);

    /// Enumerations one after the other, and what they give: ids with their places, `!` before what is refused, and
    /// `2x` before a UUID that is told to be that of two.
    fn check(what: &str, enumerations: &[(&[Told], &str)]) {
        let mut names = Names::default();
        for (number, (gpus, expected)) in enumerations.iter().enumerate() {
            let describe = |(index, (uuid, pci)): (u32, &Told)| Described {
                index,
                uuid: uuid.map(str::to_owned),
                pci: pci.map(str::to_owned),
                product: uuid.is_ok().then(|| "GB200".to_owned()),
                mig: None,
            };
            let described: Vec<Described> = (0..).zip(*gpus).map(describe).collect();
            let naming = names.name(&described);
            assert!(naming.named.iter().all(|named| named.product == "GB200"), "{naming:?}");
            let named = naming.named.iter().map(|named| format!("{}:{}", named.place, named.id));
            let refused =
                naming.refused.iter().map(|one| format!("!{} {}", one.place, one.reason.as_str()));
            let doubles = naming.doubles.iter().map(|uuid| format!("2x{uuid}"));
            let found: Vec<String> = named.chain(refused).chain(doubles).collect();
            assert_eq!(found.join(", "), *expected, "{what}, enumeration {number}");
        }
    }

    const A: Told = (Ok("A"), Ok("8:1"));
    const B: Told = (Ok("B"), Ok("9:1"));

    #[test]
    fn a_gpu_keeps_its_name_while_a_driver_stumbles() {
        let known = (&[A, B] as &[Told], "0:A, 1:B");
        check("no UUID for a while", &[known, (&[A, (Err(IO), Ok("9:1"))], "0:A, 1:B"), known]);
        check("no address for a while", &[known, (&[A, (Ok("B"), Err(IO))], "0:A, 1:B"), known]);
        check("no handle for a while", &[known, (&[A, (Err(IO), Err(IO))], "0:A, 1:B"), known]);
        check(
            "and again",
            &[
                known,
                (&[A, (Err(IO), Err(IO))], "0:A, 1:B"),
                (&[A, (Err(IO), Ok("9:1"))], "0:A, 1:B"),
            ],
        );
        check("they moved up", &[known, (&[B, (Err(IO), Err(IO))], "0:B, !gpu1 io")]);
        check("another address", &[known, (&[A, (Err(IO), Ok("18:1"))], "0:A, !gpu1 io")]);
        check("it went", &[known, (&[A], "0:A"), (&[A, (Err(IO), Ok("9:1"))], "0:A, !gpu1 io")]);
    }

    #[test]
    fn what_was_never_known_has_no_name() {
        check("no UUID", &[(&[A, (Err(IO), Ok("9:1"))], "0:A, !gpu1 io"), (&[A, B], "0:A, 1:B")]);
        check("no address", &[(&[(Ok("A"), Err(IO)), B], "1:B, !gpu0 io")]);
        check(
            "no handle",
            &[(
                &[(Err(Failure::NotPermitted), Err(Failure::NotPermitted)), B],
                "1:B, !gpu0 not_permitted",
            )],
        );
    }

    #[test]
    fn gpus_without_a_uuid_or_with_the_same_are_told_apart() {
        let none = |pci| (Ok(""), Ok(pci));
        let same = |pci| (Ok("A"), Ok(pci));
        check("none", &[(&[none("8:1"), none("9:1")], "0:8:1, 1:9:1")]);
        check("none, and no address", &[(&[none("8:1"), (Ok(""), Err(IO))], "0:8:1, !gpu1 io")]);
        check(
            "the same",
            &[
                (&[same("8:1"), B, same("18:1")], "0:A@8:1, 1:B, 2:A@18:1, 2xA"),
                (&[same("8:1"), B, same("18:1")], "0:A@8:1, 1:B, 2:A@18:1"),
            ],
        );
        check("counted twice", &[(&[A, B, A], "0:A, 1:B")]);
    }
}
