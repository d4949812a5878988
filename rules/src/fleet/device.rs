//! One accelerator as its agent told of it.

use std::collections::BTreeMap;

/// More than any accelerator draws, in watts: what is above is refused, as existing consumers of the fleet's document do.
pub const WATTS_MAX: f64 = 10_000.0;

/// An accelerator.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FleetDevice {
    /// The node that its page says it is of, where it does.
    pub node: Option<String>,
    /// `gpu`, `npu`.
    pub kind: String,
    /// Its PCI address, by which it goes on its node: see [`FleetDevice::canonical_pci`].
    pub pci: String,
    /// Its vendor on PCI, in hexadecimal.
    pub vendor_id: String,
    /// Which of that vendor's devices it is.
    pub device_id: String,
    /// The driver that has it.
    pub driver: String,
    /// Its UUID, empty where nobody tells.
    pub uuid: String,
    /// What its maker calls it, empty where nobody tells.
    pub name: String,
    /// What its power covers: `gpu`, `socket`, `card`, `package`; empty where nobody tells.
    pub scope: String,
    /// How its power stands in time, empty where nobody tells.
    pub averaging: String,
    /// Its power.
    pub reading: Reading,
    /// Power of its parts in watts.
    pub components: BTreeMap<String, f64>,
    /// Its energy.
    pub energy: Option<Joules>,
    /// How old the reading was as the page was made, in seconds; zero where the page does not tell.
    pub age_s: f64,
}

/// The power of an accelerator, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Watts, as they came: they may be no power at all.
    Watts(f64),
    /// It sleeps.
    Suspended,
    /// There is none, for this reason.
    None(String),
}

impl Default for Reading {
    fn default() -> Self {
        Reading::None("unavailable".to_owned())
    }
}

/// A count of energy.
#[derive(Clone, Debug, PartialEq)]
pub struct Joules {
    /// Joules.
    pub joules: f64,
    /// Since when they are counted, in Unix seconds of the node's clock; another number is another count.
    pub since_s: f64,
    /// `hardware` or `integrated`.
    pub counter: String,
}

impl FleetDevice {
    /// The power that can be true, in watts.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn watts(&self) -> Result<f64, &str> {
        match &self.reading {
            Reading::Watts(watts) if (0.0..=WATTS_MAX).contains(watts) => Ok(*watts),
            Reading::Watts(_) => Err("rejected"),
            Reading::Suspended => Err("asleep"),
            Reading::None(reason) => Err(reason),
        }
    }

    /// `00000000:C3:00.0` and `0000:c3:00.0` are one place: lower case, and a domain of four digits unless it needs more.
    pub fn canonical_pci(text: &str) -> String {
        let text = text.to_ascii_lowercase();
        match text.split_once(':') {
            Some((domain, rest)) if rest.contains(':') => {
                format!("{:0>4}:{rest}", domain.trim_start_matches('0'))
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_one_address() {
        let cases = [
            ("0000:c3:00.0", "0000:c3:00.0"),
            ("00000000:C3:00.0", "0000:c3:00.0"),
            ("10000:e1:00.0", "10000:e1:00.0"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(FleetDevice::canonical_pci(text), expected);
        }
    }

    #[test]
    fn a_number_is_power_only_between_its_bounds() {
        let of = |reading| FleetDevice { reading, ..FleetDevice::default() };
        let cases = [
            (Reading::Watts(0.0), Ok(0.0)),
            (Reading::Watts(10_000.0), Ok(10_000.0)),
            (Reading::Watts(10_000.1), Err("rejected")),
            (Reading::Watts(-0.1), Err("rejected")),
            (Reading::Watts(f64::NAN), Err("rejected")),
            (Reading::Watts(f64::INFINITY), Err("rejected")),
            (Reading::Suspended, Err("asleep")),
            (Reading::None("not_supported".to_owned()), Err("not_supported")),
        ];
        for (reading, expected) in cases {
            assert_eq!(of(reading.clone()).watts(), expected, "{reading:?}");
        }
    }
}
