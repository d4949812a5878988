//! The table that `amdgpu` shows as `gpu_metrics`: power of the parts of a chip, and its energy. Pure.
//!
//! Layouts are those of the structures in the kernel's drivers/gpu/drm/amd/include/kgd_pp_interface.h, as a C compiler lays
//! them out on 64 bits, little endian. The header says how long a table is, of which format and of which content.

/// 2^-16 J in microjoules, as a fraction: the unit of the energy accumulators that state one.
const ACCUMULATOR_UJ: (u128, u128) = (15_625, 1_024);

/// More than any chip with such a table draws, in watts, by which a mean of rails that is out of all bounds is known.
const PART_WATTS_MAX: f64 = 4_000.0;

/// What a table says. Values that firmware marks as not there, with all ones, are not there.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuMetrics {
    /// Whether the chip is a CPU and a GPU in one package, by the format of its table.
    pub is_apu: bool,
    /// Whether the parts are in milliwatts. Of tables that leave it to the chip, nothing is said.
    pub unit: Option<Unit>,
    /// Power of the package.
    pub socket: Option<f64>,
    /// Power of the graphics part.
    pub gfx: Option<f64>,
    /// Power of all CPU cores.
    pub cpu_cores: Option<f64>,
    /// Power of the NPU, which can truly be zero.
    pub npu: Option<f64>,
    /// Energy of the package in microjoules, where the table states the unit.
    pub energy_uj: Option<u64>,
    /// The driver's time of the table in nanoseconds: a table that is fresh has another one.
    pub clock_ns: Option<u64>,
}

/// What the numbers of power are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Watts.
    Watts,
    /// Milliwatts.
    Milliwatts,
}

/// Why bytes are no such table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableError {
    /// Fewer bytes than the header says, or than its format has.
    Short,
    /// A format and content that we know no layout of.
    Unknown {
        /// The format.
        format: u8,
        /// The content.
        content: u8,
    },
}

/// Where the fields of one layout are.
struct Layout {
    is_apu: bool,
    unit: Option<Unit>,
    /// The shortest table that has all of them.
    bytes: usize,
    socket: Field,
    gfx: Option<Field>,
    /// The first core and how many there are.
    cores: Option<(Field, usize)>,
    npu: Option<Field>,
    energy: Option<usize>,
    clock: Option<usize>,
}

#[derive(Clone, Copy)]
enum Field {
    U16(usize),
    U32(usize),
}

/// Sizes up to this are of the first of two layouts that both call themselves 1.6.
const FIRST_V1_6_BYTES: usize = 384;

/// A discrete chip: nothing but its own power, in watts.
const fn discrete(bytes: usize, socket: usize, energy: Option<usize>, clock: usize) -> Layout {
    Layout {
        is_apu: false,
        unit: Some(Unit::Watts),
        bytes,
        socket: Field::U16(socket),
        gfx: None,
        cores: None,
        npu: None,
        energy,
        clock: Some(clock),
    }
}

/// An APU of format 2, with the package's power at one place and its parts behind it.
const fn apu_2(socket: usize, clock: usize, unit: Option<Unit>) -> Layout {
    Layout {
        is_apu: true,
        unit,
        bytes: socket + 24,
        socket: Field::U16(socket),
        gfx: Some(Field::U16(socket + 6)),
        cores: Some((Field::U16(socket + 8), 8)),
        npu: None,
        energy: None,
        clock: Some(clock),
    }
}

fn layout(format: u8, content: u8, size: usize) -> Option<Layout> {
    Some(match (format, content) {
        // The unit of these accumulators is not stated.
        (1, 0) => discrete(40, 34, None, 8),
        (1, 1..=3) => discrete(40, 22, None, 32),
        (1, 4) => discrete(40, 10, Some(24), 32),
        (1, 5) => discrete(104, 10, Some(88), 96),
        (1, 6) if size <= FIRST_V1_6_BYTES => discrete(104, 10, Some(88), 96),
        (1, 6) => discrete(32, 10, Some(16), 24),
        (1, 7 | 8) => discrete(40, 10, Some(24), 32),
        (2, 0) => apu_2(44, 8, None),
        (2, 1..=3) => apu_2(40, 32, None),
        (2, 4) => apu_2(40, 32, Some(Unit::Milliwatts)),
        (3, _) => Layout {
            is_apu: true,
            unit: Some(Unit::Milliwatts),
            bytes: 264,
            socket: Field::U32(112),
            gfx: Some(Field::U32(124)),
            cores: Some((Field::U16(136), 16)),
            npu: Some(Field::U16(116)),
            energy: None,
            clock: Some(104),
        },
        _ => return None,
    })
}

impl GpuMetrics {
    /// Reads a table.
    ///
    /// # Errors
    /// Bytes that are no table, or one of a layout that is not known here: nothing of it is guessed.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        let size = usize::from(u16_at(bytes, 0).ok_or(TableError::Short)?);
        let [format, content] = [2, 3].map(|at| bytes.get(at).copied().unwrap_or_default());
        let bytes = bytes.get(..size).ok_or(TableError::Short)?;
        let unknown = TableError::Unknown { format, content };
        let layout = layout(format, content, size).ok_or(unknown)?;
        if size < layout.bytes {
            return Err(TableError::Short);
        }
        let power = |field: Field| field.in_table(bytes);
        let socket = power(layout.socket);
        // Of a part that draws more than its whole, one of the two is wrong, and nobody knows which of them.
        let within = |part: &f64| socket.is_none_or(|socket| *part <= socket);
        let gfx = layout.gfx.and_then(power).filter(within);
        let energy = layout.energy.and_then(|at| u64_at(bytes, at)).filter(|raw| *raw != u64::MAX);
        let clock = layout.clock.and_then(|at| u64_at(bytes, at));
        Ok(Self {
            is_apu: layout.is_apu,
            unit: layout.unit,
            socket,
            gfx,
            cpu_cores: layout.cores.and_then(|(first, count)| sum(bytes, first, count)),
            npu: layout.npu.and_then(power),
            energy_uj: energy.map(in_microjoules),
            clock_ns: clock.filter(|clock| *clock != 0 && *clock != u64::MAX),
        })
    }

    /// The same with every power in watts. Of a table that does not say its unit, it is the one in which the package draws
    /// what the driver's own sensor says at the same time, within a third; `None` when that tells nothing.
    pub fn in_watts(mut self, sensor_watts: Option<f64>) -> Option<Self> {
        let unit = self.unit.or_else(|| {
            let (socket, sensor) = (self.socket?, sensor_watts?);
            let fits = |socket: f64| (sensor * 2.0 / 3.0..=sensor * 4.0 / 3.0).contains(&socket);
            match (fits(socket), fits(socket / 1e3)) {
                (true, false) => Some(Unit::Watts),
                (false, true) => Some(Unit::Milliwatts),
                _ => None,
            }
        })?;
        let divisor = if unit == Unit::Watts { 1.0 } else { 1e3 };
        for power in [&mut self.socket, &mut self.gfx, &mut self.cpu_cores, &mut self.npu] {
            *power = power.map(|power| power / divisor).filter(|watts| *watts <= PART_WATTS_MAX);
        }
        self.unit = Some(Unit::Watts);
        Some(self)
    }
}

impl Field {
    /// The number, unless it is firmware's word for none: all ones.
    fn in_table(self, bytes: &[u8]) -> Option<f64> {
        match self {
            Self::U16(at) => u16_at(bytes, at).filter(|raw| *raw != u16::MAX).map(f64::from),
            Self::U32(at) => u32_at(bytes, at).filter(|raw| *raw != u32::MAX).map(f64::from),
        }
    }

    fn plus(self, places: usize) -> Self {
        match self {
            Self::U16(at) => Self::U16(at + 2 * places),
            Self::U32(at) => Self::U32(at + 4 * places),
        }
    }
}

/// The sum of the cores that are there; nothing where none is.
fn sum(bytes: &[u8], first: Field, count: usize) -> Option<f64> {
    let cores = (0..count).filter_map(|core| first.plus(core).in_table(bytes));
    cores.fold(None, |sum, core| Some(sum.unwrap_or(0.0) + core))
}

fn in_microjoules(raw: u64) -> u64 {
    let (numerator, denominator) = ACCUMULATOR_UJ;
    u64::try_from(u128::from(raw) * numerator / denominator).unwrap_or(u64::MAX)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
