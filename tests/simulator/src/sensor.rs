//! One power channel of a simulated machine: who it is, what it covers, and the power it follows.

use crate::Waveform;

/// One power channel, as a test refers to it and as the tree writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Identity that survives a renumbering: `ACPI000D:02/power1` or `intel-rapl:0:1`.
    pub id: String,
    /// Socket the channel belongs to.
    pub socket: u32,
    /// What it covers.
    pub rail: Rail,
    /// Its true power.
    pub waveform: Waveform,
    /// What its file shows of that power.
    pub(crate) shows: Shows,
}

/// What a channel covers. `Total` and `Package` are the whole socket, the others are parts of it,
/// except `Dram` of a RAPL package, which is memory outside the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rail {
    /// Whole Grace socket.
    Total,
    /// Its CPU rail.
    CpuRail,
    /// Its SoC (SysIO) rail.
    Soc,
    /// Whole RAPL package.
    Package,
    /// The cores of a package.
    Core,
    /// The memory of a package.
    Dram,
}

/// How the kernel shows the power of a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shows {
    /// `power1_average`: the mean over the last `averaging_ms`, or the power now when that is 0.
    Mean { averaging_ms: u32, cap_max_w: Option<f64> },
    /// `energy_uj`: a counter that starts again from 0 at `range_uj`.
    Counter { at_epoch_uj: u64, range_uj: u64 },
}

/// Energy counted since an origin. A reset moves the origin; the waveform never changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Origin {
    pub(crate) t_s: f64,
    pub(crate) counter_uj: u64,
}

impl Sensor {
    /// Whether the channel is the one that stands for its whole socket.
    pub fn is_whole_socket(&self) -> bool {
        matches!(self.rail, Rail::Total | Rail::Package)
    }

    /// Name of the file that holds the reading.
    pub(crate) fn reading(&self) -> &'static str {
        match self.shows {
            Shows::Mean { .. } => "power1_average",
            Shows::Counter { .. } => "energy_uj",
        }
    }

    /// The counter's origin before any reset.
    pub(crate) fn first_origin(&self) -> Origin {
        match self.shows {
            Shows::Mean { .. } => Origin { t_s: 0.0, counter_uj: 0 },
            Shows::Counter { at_epoch_uj, .. } => Origin { t_s: 0.0, counter_uj: at_epoch_uj },
        }
    }

    /// Text of the reading at `t_s`, as the kernel would print it.
    pub(crate) fn text(&self, t_s: f64, origin: Origin) -> String {
        let value_u = match self.shows {
            Shows::Mean { averaging_ms, .. } => mean_uw(&self.waveform, t_s, averaging_ms),
            Shows::Counter { range_uj, .. } => counter_uj(&self.waveform, t_s, origin, range_uj),
        };
        format!("{value_u}\n")
    }
}

/// Mean power over the last `averaging_ms`, in microwatts, rounded to whole milliwatts: firmware answers
/// `_PMM` in milliwatts and the kernel multiplies by 1000.
fn mean_uw(waveform: &Waveform, t_s: f64, averaging_ms: u32) -> u64 {
    let watts = if averaging_ms == 0 {
        waveform.watts(t_s)
    } else {
        let window_s = f64::from(averaging_ms) / 1e3;
        waveform.joules(t_s - window_s, t_s) / window_s
    };
    // Truncation is safe: powers are finite and not negative (checked with the machine).
    (watts * 1e3).round() as u64 * 1000
}

/// The counter at `t_s`: what it was at the origin plus the energy since, modulo the range.
///
/// Whole microjoules of a growing sum, so the counter never runs backwards but at a wrap.
fn counter_uj(waveform: &Waveform, t_s: f64, origin: Origin, range_uj: u64) -> u64 {
    let since_uj = (waveform.joules(origin.t_s, t_s) * 1e6).floor() as i128;
    let counted = (i128::from(origin.counter_uj) + since_uj).rem_euclid(i128::from(range_uj));
    counted as u64 // below range_uj, which is a u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_over_its_window_in_whole_milliwatts() {
        let step = Waveform::Step { before_w: 100.0, after_w: 200.0, at_s: 1.0 };
        let cases = [
            (step, 0.5, 50, 100_000_000),
            (step, 1.025, 50, 150_000_000),
            (step, 1.05, 50, 200_000_000),
            (step, 1.0, 0, 200_000_000),
            (Waveform::Constant { watts: 53.290_4 }, 9.0, 50, 53_290_000),
            (Waveform::Constant { watts: 53.290_6 }, 9.0, 0, 53_291_000),
            (Waveform::Constant { watts: 0.0 }, 9.0, 50, 0),
        ];
        for (wave, t_s, averaging_ms, expected) in cases {
            assert_eq!(mean_uw(&wave, t_s, averaging_ms), expected, "{wave:?} at {t_s}");
        }
    }

    #[test]
    fn a_counter_is_the_integral_modulo_its_range() {
        let wave = Waveform::Constant { watts: 100.0 };
        let range_uj = 262_143_328_850;
        let cases = [
            ((0.0, 1_000), 0.0, 1_000),
            ((0.0, 1_000), 2.0, 200_001_000),
            ((0.0, range_uj - 100_000_000), 1.0, 0),
            ((0.0, range_uj - 100_000_000), 0.5, range_uj - 50_000_000),
            ((0.0, range_uj - 100_000_000), 1.5, 50_000_000),
            ((0.0, 0), -1.0, range_uj - 100_000_000),
            ((7.0, 0), 7.25, 25_000_000),
            ((0.0, 0), 2_621.433_288_5 * 3.0 + 1.0, 100_000_000),
        ];
        for ((t_s, counter_uj_then), at_s, expected) in cases {
            let origin = Origin { t_s, counter_uj: counter_uj_then };
            let found = counter_uj(&wave, at_s, origin, range_uj);
            assert!(
                found.abs_diff(expected) <= 1,
                "{origin:?} at {at_s}: {found}, expected {expected}"
            );
        }
    }
}
