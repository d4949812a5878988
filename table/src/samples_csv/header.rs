//! The headers of samples.csv: which versions there are and where each column stands.

/// A version that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsvVersion {
    /// Without `module_w`, for readers that know no later version.
    V2,
    /// With `module_w`.
    #[default]
    V3,
}

impl CsvVersion {
    /// The number in the first cell of every row.
    pub const fn number(self) -> u32 {
        match self {
            CsvVersion::V2 => 2,
            CsvVersion::V3 => 3,
        }
    }

    /// The layout of its lines.
    pub(super) const fn layout(self) -> Layout {
        match self {
            CsvVersion::V2 => Layout::V2,
            CsvVersion::V3 => Layout::V3,
        }
    }
}

/// A layout that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One row per rail.
    V1,
    V2,
    V3,
    /// Written on the node itself, with a local time and the socket's utilisation, which are not read.
    HostV4,
}

impl Layout {
    pub(super) const ALL: [Layout; 4] = [Layout::V1, Layout::V2, Layout::V3, Layout::HostV4];

    /// The first line, which must match exactly.
    pub(super) const fn header(self) -> &'static str {
        match self {
            Layout::V1 => {
                "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,total_power_w"
            }
            Layout::V2 => {
                "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,total_power_w"
            }
            Layout::V3 => {
                "schema_version,timestamp_unix,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,module_w,total_power_w"
            }
            Layout::HostV4 => {
                "schema_version,timestamp_unix,timestamp_local,hostname,source,sensor,socket_id,power_w,cpu_rail_w,soc_w,dram_w,total_power_w,cpu_util_total,cpu_util_user,cpu_util_nice,cpu_util_sys,cpu_util_irq"
            }
        }
    }

    /// The number that every row must repeat.
    pub(super) const fn number(self) -> u32 {
        match self {
            Layout::V1 => 1,
            Layout::V2 => 2,
            Layout::V3 => 3,
            Layout::HostV4 => 4,
        }
    }

    /// Cells in a row.
    pub(super) fn width(self) -> usize {
        self.header().split(',').count()
    }

    /// Where a column stands, in layouts that have it.
    pub(super) fn position(self, column: &str) -> Option<usize> {
        self.header().split(',').position(|name| name == column)
    }

    /// The layout with this header.
    pub(super) fn of(header: &[u8]) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.header().as_bytes() == header)
    }
}
