//! Answers of every kind over real sockets: what counts as a page, and which class what does not count has.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case fails")]

mod fixture;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixture::{Server, Then, answer, wait_for_hangup, write};
use wattscribe_scraper::failure::{Failure, FailureClass};
use wattscribe_scraper::fetch::{BODY_BYTES_MAX, Fetcher};

const TIMEOUT: Duration = Duration::from_millis(400);
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";

async fn fetch(url: &str) -> Result<Vec<u8>, Failure> {
    Fetcher::new(TIMEOUT, false).unwrap().fetch(&url.parse().unwrap()).await
}

/// What a server that says this and hangs up gives.
async fn fetch_saying(bytes: impl Into<Vec<u8>>) -> Result<Vec<u8>, Failure> {
    let bytes = bytes.into();
    let server = Server::start(move |connection, _| write(connection, &bytes, Then::Close));
    fetch(&server.url()).await
}

#[tokio::test]
async fn whole_answers_are_pages() {
    let cases = [
        ("a length", answer("a 1\n"), "a 1\n"),
        ("no line feed, but a length", answer("a 1"), "a 1"),
        ("empty", answer(""), ""),
        (
            "chunks",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n2\r\na \r\n2\r\n1\n\r\n0\r\n\r\n"),
            "a 1\n",
        ),
        ("until the end", format!("{OK}\r\na 1\n"), "a 1\n"),
        ("until the end, empty", format!("{OK}\r\n"), ""),
        (
            "HTTP/1.0",
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\na 1\n".to_owned(),
            "a 1\n",
        ),
        (
            "parameters and case",
            "HTTP/1.1 200 OK\r\ncontent-type: Text/Plain ; version=0.0.4; charset=utf-8\r\n\
             content-encoding: identity\r\ncontent-length: 0\r\n\r\n"
                .to_owned(),
            "",
        ),
    ];
    for (case, bytes, body) in cases {
        let found = fetch_saying(bytes).await;
        assert_eq!(found, Ok(body.as_bytes().to_vec()), "{case}");
    }
}

#[tokio::test]
async fn what_is_no_whole_page_has_its_class() {
    use FailureClass::{ContentType, Encoding, Exchange, Status, Truncated};
    let head = |status: &str, fields: &str| format!("HTTP/1.1 {status}\r\n{fields}\r\n");
    let large = format!("X-Large: {}\r\n", "x".repeat(1 << 20));
    let many: String = (0..1000).map(|number| format!("X-{number}: 1\r\n")).collect();
    let cases = [
        (Status, Some(500), head("500 Internal Server Error", "Content-Length: 3\r\n") + "no\n"),
        (Status, Some(404), head("404 Not Found", "Content-Length: 0\r\n")),
        (Status, Some(204), head("204 No Content", "")),
        (Status, Some(302), head("302 Found", "Location: /other\r\nContent-Length: 0\r\n")),
        (ContentType, Some(200), head("200 OK", "Content-Type: text/html\r\n") + "<html>"),
        (ContentType, Some(200), head("200 OK", "Content-Length: 4\r\n") + "a 1\n"),
        (ContentType, Some(200), head("200 OK", "Content-Type: application/openmetrics-text\r\n")),
        (ContentType, Some(200), head("200 OK", "Content-Type: text/plainer\r\n")),
        (
            Encoding,
            Some(200),
            format!("{OK}Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\na 1\n"),
        ),
        (
            Encoding,
            Some(200),
            format!("{OK}Content-Encoding: zstd\r\nContent-Length: 4\r\n\r\na 1\n"),
        ),
        (Truncated, Some(200), format!("{OK}Content-Length: 100\r\n\r\na 1\n")),
        (Truncated, Some(200), format!("{OK}Content-Length: 100\r\n\r\n")),
        (Truncated, Some(200), format!("{OK}Transfer-Encoding: chunked\r\n\r\n4\r\na 1\n\r\n")),
        (Truncated, Some(200), format!("{OK}Transfer-Encoding: chunked\r\n\r\n9\r\na 1\n")),
        // 94.5 W, cut: a smaller number that looks as true.
        (Truncated, Some(200), format!("{OK}\r\ncpu_power_dcgm_watts{{socket=\"0\"}} 9")),
        (Exchange, None, "sensors: fine\r\n\r\n".to_owned()),
        (Exchange, None, String::new()),
        (Exchange, None, head("200 OK", &large)),
        (Exchange, None, head("200 OK", &many)),
    ];
    for (class, status, bytes) in cases {
        let shown: String = bytes.chars().take(120).collect();
        let failure = fetch_saying(bytes).await.expect_err(&shown);
        assert_eq!((failure.class, failure.status), (class, status), "{failure}: {shown:?}");
        assert!(!failure.detail.is_empty() && !failure.detail.contains('\n'), "{failure}");
    }
}

#[tokio::test]
async fn a_body_is_bounded_whether_its_length_is_told_or_not() {
    let body = |length: usize| "#\n".repeat(length / 2 + 1)[..length].to_owned();
    let chunked = |length: usize| {
        format!("{OK}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{}\r\n0\r\n\r\n", body(length))
    };
    let most = BODY_BYTES_MAX;
    let cases = [
        ("told", answer(&body(most)), true),
        ("told, one more", answer(&body(most + 1)), false),
        ("chunked", chunked(most), true),
        ("chunked, one more", chunked(most + 1), false),
        ("until the end, one more", format!("{OK}\r\n{}", body(most + 1)), false),
        ("told only", format!("{OK}Content-Length: {}\r\n\r\n", 1_u64 << 40), false),
    ];
    let fetcher = Fetcher::new(Duration::from_secs(10), false).unwrap();
    for (case, bytes, is_read) in cases {
        let server = Server::saying(bytes);
        match fetcher.fetch(&server.url().parse().unwrap()).await {
            Ok(body) => assert!(is_read && body.len() == most, "{case}: {} bytes", body.len()),
            Err(failure) => {
                assert!(!is_read && failure.class == FailureClass::TooLarge, "{case}: {failure}");
            }
        }
    }
}

/// Bytes one by one, each well within the timeout, and never the last.
fn dribble(connection: &mut TcpStream, bytes: &str) -> Then {
    for byte in bytes.bytes().cycle() {
        if write(connection, &[byte], Then::Keep) == Then::Close {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Then::Close
}

#[tokio::test]
async fn the_timeout_covers_the_whole_exchange() {
    let servers = [
        ("no answer", Server::hanging(), None),
        (
            "a head without end",
            Server::start(|connection, _| dribble(connection, "HTTP/1.1 200 OK\r\nA: b\r\n")),
            None,
        ),
        (
            "a head and no body",
            Server::start(|connection, _| {
                write(connection, format!("{OK}Content-Length: 4\r\n\r\n").as_bytes(), Then::Keep);
                wait_for_hangup(connection);
                Then::Close
            }),
            Some(200),
        ),
        (
            "a body without end",
            Server::start(|connection, _| {
                write(connection, format!("{OK}\r\n").as_bytes(), Then::Keep);
                dribble(connection, "a 1\n")
            }),
            Some(200),
        ),
    ];
    for (case, server, status) in servers {
        let begin = Instant::now();
        let failure = fetch(&server.url()).await.expect_err(case);
        assert_eq!((failure.class, failure.status), (FailureClass::Timeout, status), "{case}");
        let took = begin.elapsed();
        assert!((TIMEOUT..TIMEOUT * 4).contains(&took), "{case}: {took:?}");
    }
}

/// A server that takes whatever comes first for a bad request, as one without TLS does.
fn plain_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let _ = connection.read(&mut [0; 512]).unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        wait_for_hangup(&mut connection);
    });
    url
}

#[tokio::test]
async fn who_cannot_be_reached_has_a_class() {
    let tls = plain_server().replace("http:", "https:");
    let cases = [
        // Port 1 is below what any system hands out, and tcpmux is dead.
        ("http://127.0.0.1:1/metrics", FailureClass::Connect),
        // RFC 6761: this top-level domain never resolves.
        ("http://node-a.invalid:9405/metrics", FailureClass::Resolve),
        (&tls, FailureClass::Tls),
    ];
    let fetcher = Fetcher::new(Duration::from_secs(10), true).unwrap();
    for (url, class) in cases {
        let failure = fetcher.fetch(&url.parse().unwrap()).await.expect_err(url);
        assert_eq!((failure.class, failure.status), (class, None), "{url}: {failure}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Server::saying(answer("a 1\n"));
    let location = format!("Location: {}\r\nContent-Length: 0\r\n\r\n", other.url());
    for status in ["301 Moved Permanently", "307 Temporary Redirect"] {
        let failure = fetch_saying(format!("HTTP/1.1 {status}\r\n{location}")).await;
        assert_eq!(failure.expect_err(status).class, FailureClass::Status, "{status}");
    }
    assert_eq!(other.requests(), 0);
}

#[tokio::test]
async fn the_request_says_what_it_takes_and_how_long() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let server = Server::start(move |connection, head| {
        seen.lock().unwrap().push(head.to_owned());
        write(connection, answer("").as_bytes(), Then::Keep)
    });
    let url = server.url().replace("/metrics", "/metrics?collect%5B%5D=x");
    fetch(&url).await.unwrap();
    let head = heads.lock().unwrap().concat();
    assert!(head.starts_with("GET /metrics?collect%5B%5D=x HTTP/1.1\r\n"), "{head}");
    let head = head.to_lowercase();
    for line in ["accept: text/plain;version=0.0.4", "x-prometheus-scrape-timeout-seconds: 0.4\r\n"]
    {
        assert!(head.contains(line), "{line}: {head}");
    }
    assert!(!head.contains("accept-encoding"), "{head}");
}

#[tokio::test]
async fn a_connection_lasts_as_long_as_both_want() {
    let url = |server: &Server| server.url().parse().unwrap();
    let fetcher = Fetcher::new(Duration::from_secs(10), false).unwrap();

    let keeping = Server::saying(answer("a 1\n"));
    for _ in 0..20 {
        fetcher.fetch(&url(&keeping)).await.unwrap();
    }
    assert_eq!((keeping.requests(), keeping.connections()), (20, 1));

    // Hangs up after every answer without a word: what a restarted exporter looks like.
    let closing =
        Server::start(|connection, _| write(connection, answer("a 1\n").as_bytes(), Then::Close));
    for round in 0..200 {
        let page = fetcher.fetch(&url(&closing)).await;
        assert_eq!(page, Ok(b"a 1\n".to_vec()), "round {round}");
    }
}
