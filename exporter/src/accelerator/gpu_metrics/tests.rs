//! Tables as the kernel's structures lay them out, field by field, and what is no table.

use super::*;

/// A table that is built in the order of the structure's fields, with a C compiler's padding.
struct Table {
    bytes: Vec<u8>,
}

impl Table {
    fn new(format: u8, content: u8) -> Self {
        Self { bytes: vec![0, 0, format, content] }
    }

    fn put(mut self, number: u64, width: usize) -> Self {
        // Every field stands at a multiple of its width.
        self.bytes.resize(self.bytes.len().next_multiple_of(width), 0);
        self.bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        self
    }

    fn u16s<const N: usize>(self, numbers: [u16; N]) -> Self {
        numbers.into_iter().fold(self, |table, number| table.put(number.into(), 2))
    }

    fn u32(self, number: u32) -> Self {
        self.put(number.into(), 4)
    }

    fn u64(self, number: u64) -> Self {
        self.put(number, 8)
    }

    /// Filled up to a size, which the header says.
    fn of_size(mut self, size: u16) -> Vec<u8> {
        assert!(self.bytes.len() <= usize::from(size), "{} bytes", self.bytes.len());
        self.bytes.resize(size.into(), 0);
        self.bytes[..2].copy_from_slice(&size.to_le_bytes());
        self.bytes
    }
}

const CLOCK: u64 = 1_234_567_890;
/// 1,000 J in units of 2^-16 J.
const ACCUMULATED: u64 = 1_000 << 16;

/// Format 1, as far as its power and energy go, in the order of each structure.
fn discrete_tables() -> Vec<(&'static str, Vec<u8>, Option<u64>)> {
    let v1_1 = |content| {
        let table = Table::new(1, content).u16s([40, 41, 42, 43, 44, 45]).u16s([90, 91, 92]);
        table.u16s([250]).u64(77).u64(CLOCK).of_size(96)
    };
    let head = |content| Table::new(1, content).u16s([40, 41, 42]).u16s([250]).u16s([90, 91]);
    let joules = Some(1_000_000_000);
    let later = |content, size| {
        (head(content).u64(5_300).u64(ACCUMULATED).u64(CLOCK).of_size(size), joules)
    };
    let (v1_7, v1_8) = (later(7, 1_700), later(8, 2_900));
    vec![
        (
            "1.0",
            Table::new(1, 0)
                .u64(CLOCK)
                .u16s([40, 41, 42, 43, 44, 45])
                .u16s([90, 91, 92])
                .u16s([250])
                .u32(77)
                .of_size(84),
            None,
        ),
        ("1.1", v1_1(1), None),
        ("1.2", v1_1(2), None),
        ("1.3", v1_1(3), None),
        ("1.4", head(4).u16s([1; 4]).u64(ACCUMULATED).u64(CLOCK).of_size(296), joules),
        (
            "1.5",
            head(5).u16s([1; 4]).u16s([2; 32]).u64(ACCUMULATED).u64(CLOCK).of_size(368),
            joules,
        ),
        (
            "1.6, as it was first",
            head(6).u16s([1; 4]).u16s([2; 32]).u64(ACCUMULATED).u64(CLOCK).of_size(384),
            joules,
        ),
        ("1.6, with partitions", head(6).u64(ACCUMULATED).u64(CLOCK).of_size(1_632), joules),
        ("1.7", v1_7.0, v1_7.1),
        ("1.8", v1_8.0, v1_8.1),
    ]
}

#[test]
fn discrete_chips() {
    for (name, bytes, energy_uj) in discrete_tables() {
        let found = GpuMetrics::parse(&bytes).unwrap();
        let expected = GpuMetrics {
            is_apu: false,
            unit: Some(Unit::Watts),
            socket: Some(250.0),
            energy_uj,
            clock_ns: Some(CLOCK),
            ..GpuMetrics::default()
        };
        assert_eq!(found, expected, "{name}");
        assert_eq!(found.in_watts(None), Some(expected), "{name}");
    }
}

/// Format 2: the clock stands before the temperatures in 2.0, and behind the activities later.
fn apu_2(content: u8, power: [u16; 4], cores: [u16; 8]) -> Vec<u8> {
    let table = Table::new(2, content);
    let table = if content == 0 { table.u64(CLOCK) } else { table };
    let table = table.u16s([50, 51]).u16s([52; 8]).u16s([53; 2]).u16s([90, 91]);
    let table = if content == 0 { table } else { table.u64(CLOCK) };
    table.u16s(power).u16s(cores).of_size(if content == 0 { 116 } else { 152 })
}

#[test]
fn apus_whose_table_leaves_the_unit_to_the_chip() {
    let cores = [700, 800, 900, 1_000, u16::MAX, u16::MAX, u16::MAX, u16::MAX];
    for content in 0..=4 {
        let bytes = apu_2(content, [15_000, 4_000, 2_000, 6_000], cores);
        let found = GpuMetrics::parse(&bytes).unwrap();
        assert!(found.is_apu && found.clock_ns == Some(CLOCK), "2.{content}: {found:?}");
        let told = found.in_watts(Some(14.5)).unwrap();
        let parts = (told.socket, told.gfx, told.cpu_cores, told.npu);
        assert_eq!(parts, (Some(15.0), Some(6.0), Some(3.4), None), "2.{content}");
        let alone = found.in_watts(None).map(|told| told.socket);
        assert_eq!(alone, (content == 4).then_some(Some(15.0)), "2.{content}: nothing beside it");
    }
    // Watts, as Renoir has them.
    let bytes = apu_2(1, [15, 4, 2, 6], [1; 8]);
    let told = GpuMetrics::parse(&bytes).unwrap().in_watts(Some(15.4)).unwrap();
    assert_eq!((told.socket, told.gfx, told.cpu_cores), (Some(15.0), Some(6.0), Some(8.0)));
    let strange = GpuMetrics::parse(&bytes).unwrap();
    assert_eq!(strange.in_watts(Some(60.0)), None, "a sensor that says something else");
}

/// Format 3 in the order of its fields: the numbers of an APU with an NPU under load.
fn apu_3(socket: u32, npu: u16, gfx: u32, cores: [u16; 16]) -> Vec<u8> {
    Table::new(3, 0)
        .u16s([50, 51])
        .u16s([52; 16])
        .u16s([53])
        .u16s([100, 0])
        .u16s([0; 8])
        .u16s([10; 16])
        .u16s([1, 2, 3, 4])
        .u64(CLOCK)
        .u32(socket)
        .u16s([npu])
        .u32(139_000)
        .u32(gfx)
        .u32(0)
        .u32(32_000)
        .u16s(cores)
        .u16s([60_000, u16::MAX, u16::MAX])
        .of_size(264)
}

#[test]
fn apus_with_an_npu() {
    let parts = |bytes: &[u8]| {
        let told = GpuMetrics::parse(bytes).unwrap().in_watts(None).unwrap();
        assert!(told.is_apu && told.clock_ns == Some(CLOCK));
        (told.socket, told.npu, told.gfx, told.cpu_cores)
    };
    let loaded = apu_3(140_217, 0, 52_322, [1_000; 16]);
    assert_eq!(parts(&loaded), (Some(140.217), Some(0.0), Some(52.322), Some(16.0)));
    let marked = apu_3(140_217, u16::MAX, u32::MAX, [u16::MAX; 16]);
    assert_eq!(parts(&marked), (Some(140.217), None, None, None), "all ones");
    let more_than_all = apu_3(140_217, 0, 999_999, [1_000; 16]);
    assert_eq!(parts(&more_than_all).2, None, "a part above its whole");
    let absurd = apu_3(u32::MAX - 1, 0, 52_322, [1_000; 16]);
    assert_eq!(parts(&absurd).0, None, "more than any chip draws");
    let one_core = std::array::from_fn(|core| if core == 3 { 2_500 } else { u16::MAX });
    assert_eq!(parts(&apu_3(10_000, 5, 1_000, one_core)).3, Some(2.5));
}

#[test]
fn what_is_no_table_gives_nothing() {
    let whole = apu_3(140_217, 0, 52_322, [1_000; 16]);
    for length in 0..whole.len() {
        assert_eq!(GpuMetrics::parse(&whole[..length]), Err(TableError::Short), "{length} bytes");
    }
    let longer = [whole.as_slice(), &[0; 100]].concat();
    assert_eq!(GpuMetrics::parse(&longer), GpuMetrics::parse(&whole), "a page is longer");
    for (format, content) in [(0, 0), (1, 9), (2, 5), (4, 0), (255, 255)] {
        let found = GpuMetrics::parse(&Table::new(format, content).of_size(264));
        assert_eq!(found, Err(TableError::Unknown { format, content }));
    }
    // A header that says less than its format has.
    let short = Table::new(1, 5).of_size(100);
    assert_eq!(GpuMetrics::parse(&short), Err(TableError::Short));
}
