//! The Prometheus text exposition format, read and written.
//!
//! Reading takes the bytes of one scrape and yields samples that borrow from them; it makes one
//! pass, allocates nothing per sample, and either consumes every byte of a line or says where it
//! stopped and what it had expected there. Writing produces the same format for an exporter, or
//! OpenMetrics 1.0 when the client prefers it. There is no I/O and no clock in this crate.
//!
//! ```
//! use wattscribe_parser::samples;
//!
//! let body = b"# TYPE node_power_watts gauge\nnode_power_watts{socket=\"0\"} 151.5\n";
//! let read = samples(body)?;
//! assert_eq!(read[0].name, "node_power_watts");
//! assert_eq!(read[0].labels.get("socket").as_deref(), Some("0"));
//! assert_eq!(read[0].value, 151.5);
//!
//! let fault = samples(b"node_power_watts 151.5W\n").unwrap_err();
//! assert_eq!(fault.to_string(), "1:18: expected a number, found `151.5W`");
//! # Ok::<(), wattscribe_parser::Fault>(())
//! ```
//!
//! One bad line need not cost the others. The iterator goes on after a fault, so that the caller
//! chooses between stopping and skipping:
//!
//! ```
//! use wattscribe_parser::{Entry, Exposition};
//!
//! let mut watts = 0.0;
//! let mut faults = Vec::new();
//! for entry in Exposition::new(b"a 1\nb one\nc 3\n")? {
//!     match entry {
//!         Ok(Entry::Sample(sample)) => watts += sample.value,
//!         Ok(Entry::Type { .. } | Entry::Help { .. }) => {}
//!         Err(fault) => faults.push(fault.to_string()),
//!     }
//! }
//! assert_eq!(watts, 4.0);
//! assert_eq!(faults, ["2:3: expected a number, found `one`"]);
//! # Ok::<(), wattscribe_parser::Fault>(())
//! ```
//!
//! # The grammar
//!
//! Text format 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>), with the
//! quoted UTF-8 names of Prometheus 3. A body is UTF-8 and every line ends in LF; the last LF may be
//! missing, and [`Exposition::is_terminated`] tells. Blank means a space or a tab.
//!
//! ```text
//! line       = blanks [ sample | metadata | comment ] blanks
//! sample     = series blanks value [ blank blanks timestamp ]
//! series     = metric blank | [ metric ] blanks braces       exactly one metric name
//! braces     = "{" [ element { "," element } [ "," ] ] "}"    blanks between any two tokens
//! element    = label "=" string | string                      a string alone is the metric name
//! metric     = [a-zA-Z_:] { [a-zA-Z0-9_:] }
//! label      = [a-zA-Z_] { [a-zA-Z0-9_] } | string            each once; never __name__
//! string     = '"' { any character but '"', "\" and LF | "\" any character but LF } '"'
//! value      = decimal number | inf | infinity | nan          inf may have a sign, nan may not
//! timestamp  = whole milliseconds, 64 bits, signed
//! metadata   = "#" blank "TYPE" name kind | "#" blank "HELP" name text
//! name       = metric | string
//! kind       = "counter" | "gauge" | "histogram" | "summary" | "untyped"
//! comment    = "#" anything else
//! ```
//!
//! In a string `\\`, `\"` and `\n` are escapes, in a HELP text `\\` and `\n`; before anything
//! else a backslash stands for itself, as Prometheus has it. A carriage return may stand inside a
//! string or a HELP text, though never at the end of a line; a NUL byte inside a label value or a
//! HELP text.
//!
//! What belongs to a whole family (one TYPE per name, no series twice, ordered buckets) is not
//! judged here: a reader that wants it sees every line in order.

mod exposition;
mod grammar;
mod labels;
mod text;
mod value;

mod fault;
mod limits;

mod format;
mod kind;
mod number;
mod write;

pub use exposition::{Entry, Exposition, Sample, samples};
pub use fault::{Fault, FaultKind};
pub use format::Format;
pub use kind::Kind;
pub use labels::{Labels, LabelsIter};
pub use limits::Limits;
pub use number::Number;
pub use text::Text;
pub use write::{Family, Writer};
