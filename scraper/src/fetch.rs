//! The recorder's one door to the network: asks one target for its page.
//!
//! The timeout covers the whole exchange, the body is bounded while it arrives, and an answer counts
//! only when it is whole: a page cut in the middle must not pass for a page with fewer sensors.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response, StatusCode, Url, redirect};

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
            .timeout(timeout)
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
    pub async fn fetch(&self, url: &Url) -> Result<Vec<u8>, Failure> {
        let request = self
            .client
            .get(url.clone())
            .header(ACCEPT, ACCEPTED)
            .header(TIMEOUT_HEADER, self.timeout.as_secs_f64().to_string());
        let mut response = request.send().await.map_err(|error| classify(&error))?;
        let status = response.status();
        let with_status = |failure: Failure| Failure { status: Some(status.as_u16()), ..failure };
        check_head(status, response.headers()).map_err(with_status)?;
        read_body(&mut response).await.map_err(with_status)
    }
}

fn check_head(status: StatusCode, headers: &HeaderMap) -> Result<(), Failure> {
    if status != StatusCode::OK {
        return Err(Failure::new(FailureClass::Status, format!("expected 200, found {status}")));
    }
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content_type = text(CONTENT_TYPE).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("text/plain") {
        let detail = format!("expected text/plain, found {content_type:?}");
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
    Ok(body)
}

/// The class of a client's error, from its chain of causes.
fn classify(error: &reqwest::Error) -> Failure {
    let mut causes = Vec::new();
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        causes.push(error);
        cause = error.source();
    }
    let text = causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(": ");
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
