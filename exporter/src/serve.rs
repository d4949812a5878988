//! The HTTP side: `/metrics`, `/health`, `/healthz`, `/readyz`, and documents where there are any. No handler touches a sensor, so that a
//! scrape never waits for one, and none blocks.
//!
//! axum routes; hyper is driven directly because `axum::serve` offers no limit on headers, connections
//! or time. Every limit is a constant here with its reason.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
pub use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wattscribe_parser::Format;

use crate::answer_stream::{AnswerStream, Debt};
use crate::board::Board;
use crate::clock::Now;
use crate::page;

/// How long a request's head may take, and an idle connection may stay. Not a usual scrape interval,
/// so that a kept connection is not closed just as its scraper reaches for it.
const HEAD_TIME_MAX: Duration = Duration::from_secs(7);

/// The largest head of a request. Prometheus sends about 500 bytes.
const HEAD_BYTES_MAX: usize = 8192;

/// Connections served at once; more wait in the listener's queue. A node has a handful of scrapers.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take over an answer that does not fit the buffers. A page is some kilobytes, and
/// whoever is slower than this has given it up: scrapers wait ten seconds for all of it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest life of a connection: nobody keeps a place for ever, however diligently it is used.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(300);

/// How long answers in flight may take once the process is asked to stop.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// The pause after an accept that failed, doubled up to [`ACCEPT_PAUSE_MAX`]: running out of file
/// descriptors must not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A smaller page is not worth compressing.
const GZIP_BYTES_MIN: usize = 1024;

/// Who makes the pages. Nothing here may wait: every request does for it.
pub trait Pages: Send + Sync + 'static {
    /// `/metrics` as it is now.
    fn metrics(&self, format: Format) -> String;

    /// Whether `/readyz` says so; else what is missing, as a line.
    fn ready(&self) -> Result<(), &'static str>;

    /// A document of JSON at another path, if there is one; else why it cannot be given yet, as a line.
    fn document(&self, _path: &str) -> Option<Result<Bytes, &'static str>> {
        None
    }
}

impl Pages for Board {
    fn metrics(&self, format: Format) -> String {
        page::render(self, Now::read(), format)
    }

    fn ready(&self) -> Result<(), &'static str> {
        if self.is_ready(Now::read()) { Ok(()) } else { Err("no fresh reading of any socket\n") }
    }
}

/// Serves until `shutdown` resolves, then lets answers in flight end, for [`DRAIN_TIME_MAX`] at most.
pub async fn serve(
    listener: TcpListener,
    pages: Arc<impl Pages>,
    shutdown: impl Future<Output = ()>,
) {
    let router = router(pages);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut accept_pause = ACCEPT_PAUSE;
    tokio::pin!(shutdown);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                accept_pause = ACCEPT_PAUSE;
                let connection = connection(stream, router.clone(), stopped.clone());
                connections.spawn(async move {
                    let _place = place;
                    connection.await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(accept_pause).await;
                accept_pause = (accept_pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
    drop(listener);
    // Nobody listening is fine: then no connection is open.
    let _ = stop.send(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN_TIME_MAX, drained).await.is_err() {
        tracing::warn!("connections still open after {DRAIN_TIME_MAX:?} are cut");
    }
}

/// One connection, until its client is done, its time is over, or the process stops. Then it has as long as an
/// answer takes that is under way; whoever is owed none is cut at once, also in the middle of a request.
async fn connection(stream: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
    let debt = Debt::default();
    let stream = TokioIo::new(AnswerStream::new(stream, ANSWER_TIME_MAX, debt.clone()));
    let (router, asked) = (TowerToHyperService::new(router), debt.clone());
    let service = service_fn(move |request| {
        asked.incur();
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(stream, service);
    tokio::pin!(connection);
    // How a connection ends (a client that went away, a bad head) is the client's affair.
    tokio::select! {
        biased; // a request that is there already is answered
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = sleep(CONNECTION_TIME_MAX) => {}
    }
    connection.as_mut().graceful_shutdown();
    let has_ended = poll_fn(|context| {
        let ended = connection.as_mut().poll(context);
        if ended.is_ready() || !debt.is_owed() { Poll::Ready(()) } else { Poll::Pending }
    });
    let _ = timeout(DRAIN_TIME_MAX, has_ended).await;
}

fn router<P: Pages>(pages: Arc<P>) -> Router {
    Router::new()
        .route("/metrics", get(metrics::<P>).fallback(no_such_method))
        .route("/health", get(health).fallback(no_such_method))
        .route("/healthz", get(health).fallback(no_such_method))
        .route("/readyz", get(ready::<P>).fallback(no_such_method))
        .fallback(document::<P>)
        .with_state(pages)
}

async fn metrics<P: Pages>(State(pages): State<Arc<P>>, request: HeaderMap) -> Response {
    let accept = request.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::negotiate(accept);
    let page = pages.metrics(format);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    if page.len() >= GZIP_BYTES_MIN
        && accepts_gzip(&request)
        && let Some(compressed) = gzip(page.as_bytes())
    {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return (headers, compressed).into_response();
    }
    (headers, page).into_response()
}

/// Says that the process answers. It touches no sensor: whether they live is `/readyz`.
async fn health() -> &'static str {
    "ok\n"
}

async fn ready<P: Pages>(State(pages): State<Arc<P>>) -> (StatusCode, &'static str) {
    match pages.ready() {
        Ok(()) => (StatusCode::OK, "ready\n"),
        Err(missing) => (StatusCode::SERVICE_UNAVAILABLE, missing),
    }
}

/// Any other path: a document, or nothing.
async fn document<P: Pages>(State(pages): State<Arc<P>>, method: Method, uri: Uri) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return no_such_method().await;
    }
    match pages.document(uri.path()) {
        None => (StatusCode::NOT_FOUND, "Not Found\n").into_response(),
        Some(Err(missing)) => (StatusCode::SERVICE_UNAVAILABLE, missing).into_response(),
        Some(Ok(body)) => {
            let json = HeaderValue::from_static("application/json");
            ([(header::CONTENT_TYPE, json)], body).into_response()
        }
    }
}

async fn no_such_method() -> Response {
    let allow = [(header::ALLOW, "GET, HEAD")];
    (StatusCode::METHOD_NOT_ALLOWED, allow, "Method Not Allowed\n").into_response()
}

/// Whether the client takes gzip: named, or by `*`, and not weighted 0 (RFC 9110, section 12.5.3).
fn accepts_gzip(request: &HeaderMap) -> bool {
    let mut by_star = false;
    for value in request.get_all(header::ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let mut parts = item.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
            let is_wanted = weight.is_none_or(|weight| weight > 0.0);
            if coding.eq_ignore_ascii_case("gzip") {
                return is_wanted;
            }
            by_star |= coding == "*" && is_wanted;
        }
    }
    by_star
}

/// The fastest level: on a rack's network a smaller page saves less than the CPU it would cost.
fn gzip(page: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(page.len() / 4), Compression::fast());
    encoder.write_all(page).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_only_for_clients_that_take_it() {
        let cases = [
            ("gzip", true),
            ("GZip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("", false),
        ];
        for (value, expected) in cases {
            let mut request = HeaderMap::new();
            request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&request), expected, "{value:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
