//! What the server answers, to whom, and whom it does not wait for.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use rustix::net::sockopt::set_socket_send_buffer_size;
use wattscribe_exporter::sensor::Source;

use crate::fixture::{Answer, Served, Tree, ask, board, connect, eventually, read_to_end, samples};

/// Longer than a request's head may take, and than an idle connection is kept.
const HEAD_TIME_BOUND: Duration = Duration::from_secs(12);

/// Longer than an answer may wait for its client.
const ANSWER_TIME_BOUND: Duration = Duration::from_secs(12);

fn served() -> (Tree, Served) {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let board = board(tree.sysfs(), Source::Acpi);
    eventually("the sensor is read", || board.cells()[0].has_been_read());
    (tree, Served::board(board))
}

#[test]
fn paths_and_methods() {
    let (_tree, served) = served();
    let page = "# HELP cpu_power_acpi_watts";
    let cases = [
        ("GET", "/metrics", 200, page),
        ("GET", "/metrics?collect%5B%5D=x", 200, page),
        ("GET", "/health", 200, "ok\n"),
        ("GET", "/healthz", 200, "ok\n"),
        ("GET", "/health?verbose", 200, "ok\n"),
        ("GET", "/readyz", 200, "ready\n"),
        ("GET", "/", 404, "Not Found\n"),
        ("GET", "/metrics/", 404, "Not Found\n"),
        ("GET", "/nope", 404, "Not Found\n"),
        ("POST", "/metrics", 405, "Method Not Allowed\n"),
        ("DELETE", "/health", 405, "Method Not Allowed\n"),
        ("PUT", "/readyz", 405, "Method Not Allowed\n"),
        ("OPTIONS", "/healthz", 405, "Method Not Allowed\n"),
        ("POST", "/nope", 405, "Method Not Allowed\n"),
        ("BREW", "/metrics", 405, "Method Not Allowed\n"),
    ];
    for (method, path, status, start) in cases {
        let answer = ask(served.address, method, path, &[]);
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.text().starts_with(start), "{method} {path}: {}", answer.text());
        let allow = (status == 405).then_some("GET, HEAD");
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
        let length = answer.header("content-length").map(str::to_owned);
        assert_eq!(length, Some(answer.body.len().to_string()), "{method} {path}");
    }
}

#[test]
fn a_head_is_the_answer_without_its_body() {
    let (_tree, served) = served();
    for path in ["/metrics", "/health", "/healthz", "/readyz", "/nope"] {
        let relevant = |answer: Answer| {
            let headers = answer.headers.into_iter().filter(|(name, _)| name != "date");
            (answer.status, headers.collect::<Vec<_>>())
        };
        // The page grows by a digit when a counter does, so two answers may differ by chance.
        eventually(path, || {
            let head = ask(served.address, "HEAD", path, &[]);
            assert!(head.body.is_empty(), "{path}");
            relevant(head) == relevant(served.get(path))
        });
    }
}

#[test]
fn readiness_follows_the_sensors() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "0"), ("CPU Power Socket 0", "5000000")]);
    let served = Served::board(board(tree.sysfs(), Source::Acpi));
    eventually("the rail is read", || !samples(&served.page(), "cpu_power_acpi_watts").is_empty());
    let answer = served.get("/readyz");
    assert_eq!((answer.status, answer.text().as_str()), (503, "no fresh reading of any socket\n"));
    tree.write("devices/ACPI000D:00/hwmon/hwmon0/power1_average", "98029000");
    eventually("ready", || served.get("/readyz").status == 200);
    tree.write("devices/ACPI000D:00/hwmon/hwmon0/power1_average", "0");
    eventually("no longer ready", || served.get("/readyz").status == 503);
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn a_page_is_compressed_for_those_who_ask() {
    let (_tree, served) = served();
    for (accept, is_compressed) in [("gzip", true), ("identity", false), ("gzip;q=0", false)] {
        let header = format!("Accept-Encoding: {accept}");
        let answer = ask(served.address, "GET", "/metrics", &[&header]);
        assert_eq!(answer.header("vary"), Some("Accept, Accept-Encoding"));
        let expected = is_compressed.then_some("gzip");
        assert_eq!(answer.header("content-encoding"), expected, "{accept}");
        let mut page = String::new();
        if is_compressed {
            GzDecoder::new(&answer.body[..]).read_to_string(&mut page).unwrap();
        } else {
            page = answer.text();
        }
        let series = |page: &str| -> Vec<String> {
            let lines = page.lines();
            lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
        };
        assert_eq!(series(&page), series(&served.page()), "{accept}");
    }
    let small = ask(served.address, "GET", "/health", &["Accept-Encoding: gzip"]);
    assert_eq!((small.header("content-encoding"), small.text().as_str()), (None, "ok\n"));
}

#[test]
fn a_head_may_come_in_pieces() {
    let (_tree, served) = served();
    let mut stream = connect(served.address);
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /health HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(Answer::parse(&read_to_end(&mut stream).unwrap()).text(), "ok\n");
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let (_tree, served) = served();
    let mut stream = connect(served.address);
    let expected = b"\r\n\r\nok\n";
    for _ in 0..3 {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(expected) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let (_tree, served) = served();
    let large = format!("GET /health HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
    let cases: [(&[u8], &str); 3] = [
        (large.as_bytes(), "HTTP/1.1 431 "),
        (b"\x16\x03\x01\x02\x00\x01\x00", "HTTP/1.1 400 "),
        (b"GET /health\r\n\r\n", "HTTP/1.1 400 "),
    ];
    for (request, expected) in cases {
        let mut stream = connect(served.address);
        stream.write_all(request).unwrap();
        let mut start = [0; 13];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(String::from_utf8_lossy(&start), expected);
    }
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn nobody_who_dawdles_keeps_the_others_out() {
    let (_tree, served) = served();
    let started = Instant::now();
    // All places are taken: half by clients that say nothing, half by clients that never finish.
    let mut dawdlers: Vec<_> = (0..64).map(|_| connect(served.address)).collect();
    for stream in dawdlers.iter_mut().step_by(2) {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHos").unwrap();
    }
    assert_eq!(served.get("/health").status, 200, "the next client waits, and is served");
    for mut stream in dawdlers {
        // Closed, with or without a word.
        read_to_end(&mut stream).ok();
    }
    let took = started.elapsed();
    assert!(took < HEAD_TIME_BOUND, "the dawdlers were closed after {took:?}");
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn clients_that_never_read_give_their_places_back() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let board = board(tree.sysfs(), Source::Acpi);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    // Connections inherit it: a few pages fill it, and the client's buffer with it.
    set_socket_send_buffer_size(&listener, 4096).unwrap();
    let served = Served::on(listener, board);
    let started = Instant::now();
    let request = "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n".repeat(200);
    let mut deaf: Vec<_> = (0..64).map(|_| connect(served.address)).collect();
    for stream in &mut deaf {
        stream.write_all(request.as_bytes()).unwrap();
    }
    // Clients that stay connected: each needs a place of its own.
    let mut others: Vec<_> = (0..64).map(|_| connect(served.address)).collect();
    for stream in &mut others {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    }
    for stream in &mut others {
        let mut start = [0; 15];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
    }
    let took = started.elapsed();
    assert!(took < ANSWER_TIME_BOUND, "the places were given back after {took:?}");
    for mut stream in deaf {
        let mut taken = Vec::new();
        stream.read_to_end(&mut taken).ok();
        let answers = String::from_utf8_lossy(&taken).matches("HTTP/1.1 200 OK").count();
        assert!(answers < 200, "{answers} answers: it was cut before the last");
    }
}

#[test]
fn an_answer_in_flight_is_given_in_full_at_the_end() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    set_socket_send_buffer_size(&listener, 4096).unwrap();
    let mut served = Served::on(listener, board(tree.sysfs(), Source::Acpi));
    let mut client = connect(served.address);
    let request = "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n".repeat(200);
    client.write_all(request.as_bytes()).unwrap();
    // Served after the other was: that one has filled its buffers, and waits in the middle of an answer.
    assert_eq!(served.get("/health").status, 200);
    served.stop();
    let taken = read_to_end(&mut client).unwrap();
    let mut rest = taken.as_slice();
    let mut answers = 0;
    while !rest.is_empty() {
        let length: usize = Answer::parse(rest).header("content-length").unwrap().parse().unwrap();
        let head = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(rest.len() >= head + length, "answer {answers} is cut: {} of {length}", rest.len());
        rest = &rest[head + length..];
        answers += 1;
    }
    assert!((1..200).contains(&answers), "{answers} answers");
}

#[test]
fn many_scrapers_are_served_from_the_same_readings() {
    let (_tree, served) = served();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let page = served.page();
                assert_eq!(samples(&page, "cpu_power_acpi_watts").len(), 1, "{page}");
            });
        }
    });
}
