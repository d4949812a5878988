//! How much of anything a reader takes, so that one broken target cannot cost more than itself.

/// Longest body: what vmagent takes by default. The largest bodies we know, a node exporter with
/// every collector on, stay under 2 MiB.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Longest line. A line longer than this is a file that is no exposition at all.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Most labels of a sample. Accelerator series carry about ten, Kubernetes information series
/// sometimes a hundred.
const LABELS_MAX: usize = 512;

/// Longest name of a metric or a label. Generated names reach some two hundred bytes.
const NAME_BYTES_MAX: usize = 1 << 10;

/// Longest label value. Some exporters put a command line or a stack trace in a label; a quarter of
/// a line leaves room for those and still stops a file in a label.
const VALUE_BYTES_MAX: usize = 256 << 10;

/// Largest sizes that are read; what is larger is a fault of its own kind. Sizes are of the text as
/// it stands in the body, escapes and all, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The whole body, uncompressed.
    pub body_bytes: usize,
    /// One line without its line feed.
    pub line_bytes: usize,
    /// Labels of one sample.
    pub labels: usize,
    /// Name of a metric or of a label.
    pub name_bytes: usize,
    /// Value of a label.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: BODY_BYTES_MAX,
            line_bytes: LINE_BYTES_MAX,
            labels: LABELS_MAX,
            name_bytes: NAME_BYTES_MAX,
            value_bytes: VALUE_BYTES_MAX,
        }
    }
}
