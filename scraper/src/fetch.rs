//! The recorder's one door to the network: asks one target for its page.
//!
//! The timeout covers the whole exchange, the body is bounded while it arrives, and an answer counts
//! only when it is whole: a page cut in the middle must not pass for a page with fewer sensors.

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, TRANSFER_ENCODING};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};

use crate::failure::{Failure, FailureClass};

/// The largest body that is read, the default of vmagent. Real pages stay below 2 MiB.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// What is asked for. Compression is not: on a rack's network it costs more than it saves.
const ACCEPTED: &str = "text/plain;version=0.0.4,text/plain;q=0.5";

/// How a client is told how long it has (prometheus.io, "Writing exporters").
const TIMEOUT_HEADER: &str = "X-Prometheus-Scrape-Timeout-Seconds";

/// A client for all targets. Connections are kept between scrapes, one per target.
#[derive(Debug, Clone)]
pub struct Fetcher {
    client: Client,
    timeout: Duration,
}

impl Fetcher {
    /// A client whose every exchange ends within `timeout`. `with_tls` loads the system's certificates,
    /// which a machine without https targets need not have.
    pub fn new(timeout: Duration, with_tls: bool) -> Result<Self, reqwest::Error> {
        // Fails only when a provider is installed already, which then serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            // A target that sends us elsewhere is not the node it was said to be.
            .redirect(redirect::Policy::none())
            .no_proxy()
            .http1_only()
            .pool_max_idle_per_host(1)
            .tcp_nodelay(true);
        let client = if with_tls { client } else { client.tls_certs_only([]) };
        Ok(Self { client: client.build()?, timeout })
    }

    /// The body of the target's page.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn fetch(&self, url: &Url) -> Result<Vec<u8>, Failure> {
        self.fetch_as(url, ACCEPTED, "text/plain").await
    }

    /// A document of JSON.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn fetch_json(&self, url: &Url) -> Result<Vec<u8>, Failure> {
        self.fetch_as(url, "application/json", "application/json").await
    }

    async fn fetch_as(
        &self,
        url: &Url,
        accepted: &'static str,
        media_type: &str,
    ) -> Result<Vec<u8>, Failure> {
        let begin = Instant::now();
        let mut sent = self.request(url, accepted, self.timeout).send().await;
        if sent.as_ref().is_err_and(is_lost) {
            // A target may hang up on a kept connection just as it is used again. Asked anew, it answers on
            // a connection of its own, in what is left of the time.
            let left = self.timeout.saturating_sub(begin.elapsed());
            sent = self.request(url, accepted, left).send().await;
        }
        let mut response = sent.map_err(|error| classify(&error))?;
        let status = response.status();
        let with_status = |failure: Failure| Failure { status: Some(status.as_u16()), ..failure };
        check_head(status, response.headers(), media_type).map_err(with_status)?;
        read_body(&mut response).await.map_err(with_status)
    }

    fn request(&self, url: &Url, accepted: &'static str, timeout: Duration) -> RequestBuilder {
        self.client
            .get(url.clone())
            .timeout(timeout)
            .header(ACCEPT, accepted)
            .header(TIMEOUT_HEADER, timeout.as_secs_f64().to_string())
    }
}

fn check_head(status: StatusCode, headers: &HeaderMap, expected: &str) -> Result<(), Failure> {
    if status != StatusCode::OK {
        return Err(Failure::new(FailureClass::Status, format!("expected 200, found {status}")));
    }
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content_type = text(CONTENT_TYPE).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(expected) {
        let detail = format!("expected {expected}, found {content_type:?}");
        return Err(Failure::new(FailureClass::ContentType, detail));
    }
    match text(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let detail = format!("expected no content encoding, found {encoding:?}");
            Err(Failure::new(FailureClass::Encoding, detail))
        }
        _ => Ok(()),
    }
}

async fn read_body(response: &mut Response) -> Result<Vec<u8>, Failure> {
    let too_large = || {
        let detail = format!("expected at most {BODY_BYTES_MAX} bytes");
        Failure::new(FailureClass::TooLarge, detail)
    };
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    if announced.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(announced.unwrap_or_default());
    while let Some(chunk) = response.chunk().await.map_err(|error| classify(&error))? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    // A body that lasts until the connection ends (HTTP/1.0) may have been cut anywhere, also within a
    // number. All that tells is the line feed with which an exposition ends.
    let is_framed = announced.is_some() || response.headers().contains_key(TRANSFER_ENCODING);
    if !is_framed && body.last().is_some_and(|last| *last != b'\n') {
        let detail = "expected a line feed at the end of a body of no stated length";
        return Err(Failure::new(FailureClass::Truncated, detail));
    }
    Ok(body)
}

/// Whether a request ended because the connection did, before anything of an answer came.
fn is_lost(error: &reqwest::Error) -> bool {
    let is_end = |cause: &&(dyn Error + 'static)| {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        let io_kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(io_kind, Some(BrokenPipe | ConnectionAborted | ConnectionReset))
            || cause.downcast_ref().is_some_and(hyper::Error::is_incomplete_message)
    };
    !error.is_connect() && causes(error).iter().any(is_end)
}

/// The class of a client's error, from its chain of causes.
fn classify(error: &reqwest::Error) -> Failure {
    let causes = causes(error);
    let mut texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
    // An I/O error shows the error inside of it as its own.
    texts.dedup();
    let text = texts.join(": ");
    let io_kind =
        causes.iter().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let is_tls = causes.iter().any(|cause| cause.is::<rustls::Error>());
    let class = if error.is_timeout() {
        FailureClass::Timeout
    } else if is_tls {
        FailureClass::Tls
    } else if text.contains("dns error") {
        FailureClass::Resolve
    } else if error.is_connect() {
        FailureClass::Connect
    } else if error.is_body() || error.is_decode() || io_kind == Some(io::ErrorKind::UnexpectedEof)
    {
        FailureClass::Truncated
    } else {
        FailureClass::Exchange
    };
    let detail =
        if class == FailureClass::Timeout { "no whole answer in time".to_owned() } else { text };
    Failure::new(class, detail)
}

/// What lies behind an error, outermost first. An I/O error hides the error that it was made of from
/// [`Error::source`], so it is opened here.
fn causes(error: &reqwest::Error) -> Vec<&(dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside),
            None => cause.source(),
        };
    }
    causes
}
