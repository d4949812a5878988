//! Why a scrape gave nothing: a closed set that is at once the column value, the manifest's key and the
//! word on the status line.

use std::fmt;

/// The class of a scrape that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// The whole exchange took longer than the timeout.
    Timeout,
    /// The name does not resolve.
    Resolve,
    /// Nobody listens there, or the host cannot be reached.
    Connect,
    /// TLS could not be agreed on.
    Tls,
    /// An HTTP status other than 200.
    Status,
    /// The answer is of another content type.
    ContentType,
    /// The answer is compressed, which was not asked for.
    Encoding,
    /// The body passes the limit.
    TooLarge,
    /// The connection ended before the body did.
    Truncated,
    /// The body is no exposition.
    Parse,
    /// Another target is the same exporter, and its power would be counted twice.
    Duplicate,
    /// The address leads to several exporters, whose numbers would be mixed under one name.
    Several,
    /// Any other fault of the exchange.
    Exchange,
    /// The writer was behind; the scrape was dropped whole.
    Dropped,
}

impl FailureClass {
    /// The column value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Status => "status",
            Self::ContentType => "content_type",
            Self::Encoding => "encoding",
            Self::TooLarge => "too_large",
            Self::Truncated => "truncated",
            Self::Parse => "parse",
            Self::Duplicate => "duplicate",
            Self::Several => "several",
            Self::Exchange => "exchange",
            Self::Dropped => "dropped",
        }
    }
}

/// One failed scrape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// Which kind.
    pub class: FailureClass,
    /// What was found, in one line.
    pub detail: String,
    /// The HTTP status, when an answer began.
    pub status: Option<u16>,
}

impl Failure {
    /// A failure before any answer.
    pub fn new(class: FailureClass, detail: impl Into<String>) -> Self {
        Self { class, detail: detail.into(), status: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class.as_str(), self.detail)
    }
}
