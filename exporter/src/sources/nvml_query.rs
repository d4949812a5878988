//! What a GPU is asked for through NVML, and what its answers mean.
//!
//! GPUs differ in which fields they have in which scope. Each is asked once for all of them, and then for what it has: a
//! narrower scope never stands in for a wider one.

use wattscribe_rules::Averaging;

use crate::accelerator::quantity::{Component, Quantity};
use crate::failure::Failure;
use crate::nvml_lib::FieldValue;
use crate::plausible::power;
use crate::sensor::{Kind, Measure};

/// NVML_FI_DEV_POWER_AVERAGE: power in milliwatts, averaged over one second (NVIDIA: nvml.h).
const POWER_AVERAGE: u32 = 185;

/// NVML_FI_DEV_POWER_INSTANT: power in milliwatts now.
const POWER_INSTANT: u32 = 186;

/// NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: energy in millijoules since the driver was loaded.
const TOTAL_ENERGY: u32 = 83;

/// NVML_POWER_SCOPE_GPU, _MODULE (the whole superchip) and _MEMORY.
const SCOPE_GPU: u32 = 0;
const SCOPE_MODULE: u32 = 1;
const SCOPE_MEMORY: u32 = 2;

/// What the average is over, in seconds.
const WINDOW_S: f64 = 1.0;

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    /// A field in a scope.
    Field {
        /// Its number.
        field: u32,
        /// Its scope.
        scope: u32,
    },
    /// `nvmlDeviceGetPowerUsage`: what it averages over depends on the GPU.
    PowerUsage,
    /// `nvmlDeviceGetTotalEnergyConsumption`.
    TotalEnergy,
}

/// A call, and what it is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Question {
    /// What it is about.
    pub(crate) kind: Kind,
    /// The call.
    pub(crate) query: Query,
    /// What the answer is an average over.
    pub(crate) averaging: Averaging,
}

const fn question(quantity: Quantity, query: Query, averaging: Averaging) -> Question {
    Question { kind: Kind::Accelerator(quantity), query, averaging }
}

const MEAN: Averaging = Averaging::Mean { window_s: WINDOW_S };

impl Question {
    /// The power of the whole superchip module.
    pub(crate) const MODULE: Question = Question {
        kind: Kind::Module,
        query: Query::Field { field: POWER_AVERAGE, scope: SCOPE_MODULE },
        averaging: MEAN,
    };

    /// What may be asked of a GPU itself. Of questions about one thing, the first that it has an answer to.
    pub(crate) const OF_GPU: [Question; 8] = [
        question(Quantity::Power, Query::Field { field: POWER_AVERAGE, scope: SCOPE_GPU }, MEAN),
        question(Quantity::Power, Query::PowerUsage, Averaging::Unknown),
        question(
            Quantity::Power,
            Query::Field { field: POWER_INSTANT, scope: SCOPE_GPU },
            Averaging::Instant,
        ),
        question(
            Quantity::Instant,
            Query::Field { field: POWER_INSTANT, scope: SCOPE_GPU },
            Averaging::Instant,
        ),
        question(
            Quantity::Energy,
            Query::Field { field: TOTAL_ENERGY, scope: SCOPE_GPU },
            Averaging::Difference,
        ),
        question(Quantity::Energy, Query::TotalEnergy, Averaging::Difference),
        question(
            Quantity::Component(Component::Memory),
            Query::Field { field: POWER_AVERAGE, scope: SCOPE_MEMORY },
            MEAN,
        ),
        question(
            Quantity::Component(Component::Memory),
            Query::Field { field: POWER_INSTANT, scope: SCOPE_MEMORY },
            Averaging::Instant,
        ),
    ];

    /// What an answer means: milliwatts, or millijoules.
    pub(crate) fn measure(&self, value: FieldValue) -> Result<Measure, Failure> {
        let milli = number(value)?;
        if self.kind == Kind::Accelerator(Quantity::Energy) {
            // Up to 2^53 mJ, 285 years of a megawatt, a double counts every one.
            let count = Some(milli).filter(|milli| (0.0..9e15).contains(milli));
            let count = count.map(|milli| Measure::MicroJoules(milli as u64 * 1_000));
            return count.ok_or(Failure::SensorUnknown);
        }
        power(milli / 1e3, self.kind.can_read_zero()).map(Measure::Watts)
    }
}

/// The questions that a GPU has answers to: the first of each kind. One that it stumbled over this time is one it knows.
pub(crate) fn supported(mut ask: impl FnMut(Query) -> Result<(), Failure>) -> Vec<Question> {
    let mut found: Vec<Question> = Vec::new();
    for question in Question::OF_GPU {
        let is_known = found.iter().any(|known| known.kind == question.kind);
        // Beside an average there is the moment; beside the moment there is nothing more.
        let is_double = found.iter().any(|known| known.query == question.query);
        if !is_known && !is_double && ask(question.query) != Err(Failure::NotSupported) {
            found.push(question);
        }
    }
    found
}

/// The number of an answer, by `nvmlValueType_t` (NVIDIA: nvml.h). The other types are signed or short, and hold no power.
fn number(value: FieldValue) -> Result<f64, Failure> {
    let [a, b, c, d, ..] = value.bytes;
    match value.kind {
        0 => Ok(f64::from_ne_bytes(value.bytes)),
        1 => Ok(f64::from(u32::from_ne_bytes([a, b, c, d]))),
        2 | 3 => Ok(u64::from_ne_bytes(value.bytes) as f64),
        _ => Err(Failure::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliwatts_of_every_type_become_watts_or_a_reason() {
        let wide = |value: u64| value.to_ne_bytes();
        let double = |value: f64| value.to_ne_bytes();
        let narrow = |value: u32| {
            let [a, b, c, d] = value.to_ne_bytes();
            [a, b, c, d, 0, 0, 0, 0]
        };
        let cases = [
            (0, double(498_720.0), Ok(498.72)),
            (1, narrow(500_000), Ok(500.0)),
            (2, wide(500_000), Ok(500.0)),
            (3, wide(1), Ok(0.001)),
            (4, wide(500_000), Err(Failure::Malformed)),
            (5, wide(500_000), Err(Failure::Malformed)),
            (99, wide(500_000), Err(Failure::Malformed)),
            (0, double(f64::NAN), Err(Failure::Malformed)),
            (0, double(f64::INFINITY), Err(Failure::Malformed)),
            (0, double(-1.0), Err(Failure::Negative)),
            (0, double(0.0), Err(Failure::Zero)),
            (1, narrow(0), Err(Failure::Zero)),
            (0, double(0.000_1), Err(Failure::Zero)),
            (1, narrow(20_000_001), Err(Failure::OverLimit)),
            (1, narrow(i32::MAX as u32), Err(Failure::OverLimit)),
            (1, narrow(u32::MAX - 1), Err(Failure::SensorUnknown)),
            (1, narrow(u32::MAX), Err(Failure::SensorUnknown)),
            (3, wide(u64::MAX), Err(Failure::SensorUnknown)),
        ];
        for (kind, bytes, expected) in cases {
            let found = Question::MODULE.measure(FieldValue { kind, bytes });
            assert_eq!(found, expected.map(Measure::Watts), "type {kind}, {bytes:?}");
        }
    }

    #[test]
    fn millijoules_become_microjoules() {
        let energy = Question::OF_GPU[4];
        let cases = [
            (0_u64, Ok(0)),
            (1_234_567, Ok(1_234_567_000)),
            (u64::MAX, Err(Failure::SensorUnknown)),
        ];
        for (millijoules, expected) in cases {
            let found = energy.measure(FieldValue { kind: 3, bytes: millijoules.to_ne_bytes() });
            assert_eq!(found, expected.map(Measure::MicroJoules), "{millijoules} mJ");
        }
    }

    #[test]
    fn a_gpu_is_asked_for_what_it_has() {
        let average = Query::Field { field: POWER_AVERAGE, scope: SCOPE_GPU };
        let instant = Query::Field { field: POWER_INSTANT, scope: SCOPE_GPU };
        let memory = Query::Field { field: POWER_INSTANT, scope: SCOPE_MEMORY };
        let cases: [(&[Query], &[Query]); 5] = [
            (&[average, instant, Query::TotalEnergy], &[average, instant, Query::TotalEnergy]),
            // A GPU from before the fields.
            (&[Query::PowerUsage], &[Query::PowerUsage]),
            (&[Query::PowerUsage, instant], &[Query::PowerUsage, instant]),
            // The moment alone is its power, and is not told twice.
            (&[instant, memory], &[instant, memory]),
            (&[], &[]),
        ];
        for (has, expected) in cases {
            let ask =
                |query| if has.contains(&query) { Ok(()) } else { Err(Failure::NotSupported) };
            let found: Vec<Query> = supported(ask).iter().map(|of| of.query).collect();
            assert_eq!(found, expected, "{has:?}");
        }
        let stumbles = supported(|query| {
            if query == average { Err(Failure::Timeout) } else { Err(Failure::NotSupported) }
        });
        assert_eq!(stumbles.len(), 1, "it is known, and will be asked again");
    }
}
