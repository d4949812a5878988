//! HTTP of the tests' own: a client that asks for a page, servers that answer as they are told, and one that stands
//! between two programs and keeps what passed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What an exporter is asked to answer with by default.
pub const TEXT: &str = "text/plain;version=0.0.4";

/// Longer than any answer takes, shorter than a test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The content type.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A page of the text format.
    pub fn page(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type: TEXT.to_owned(), body: body.into() }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Asks for a path.
///
/// # Errors
/// As the socket has them.
pub fn try_get(address: SocketAddr, path: &str, accept: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // HTTP/1.0 has no chunks: the body is what comes until the end.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let incomplete = || std::io::Error::new(ErrorKind::UnexpectedEof, "no whole answer");
    let end = bytes.windows(4).position(|at| at == b"\r\n\r\n").ok_or_else(incomplete)?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(incomplete)?,
        content_type: header(&head, "content-type").unwrap_or_default(),
        body: bytes[end + 4..].to_vec(),
    })
}

/// Asks for a path that is there.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    let answer = try_get(address, path, TEXT).unwrap();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
    Some(value.trim().to_owned())
}

/// What a server does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answers.
    Answer(Answer),
    /// Never answers, and keeps the connection.
    Hang,
}

/// A server on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what `reply` says; it is given the head of each request.
    pub fn start(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, reply) = (Arc::clone(&is_over), Arc::new(reply));
        let thread = thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), reply) = (stream, Arc::clone(&reply)) else { continue };
                hanging.push(stream.try_clone().unwrap());
                thread::spawn(move || serve(stream, &*reply));
            }
        });
        Self { address, is_over, thread: Some(thread) }
    }

    /// Serves one answer for ever.
    pub fn fixed(answer: Answer) -> Self {
        Self::start(move |_| Reply::Answer(answer.clone()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, reply: &dyn Fn(&str) -> Reply) {
    let mut head = Vec::new();
    let mut block = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut block) {
            Ok(length @ 1..) => head.extend_from_slice(&block[..length]),
            _ => return,
        }
    }
    let Reply::Answer(answer) = reply(&String::from_utf8_lossy(&head)) else { return };
    let (status, length) = (answer.status, answer.body.len());
    let head = format!(
        "HTTP/1.1 {status} status\r\nContent-Type: {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
        answer.content_type
    );
    // Whoever hangs up needs no answer.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&answer.body));
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// A page that passed.
#[derive(Debug, Clone)]
pub struct Passed {
    /// When.
    pub at: Instant,
    /// What.
    pub answer: Answer,
}

/// Stands between an exporter and who asks it, and keeps every page.
#[derive(Debug)]
pub struct Between {
    server: Server,
    passed: Arc<Mutex<Vec<Passed>>>,
}

impl Between {
    /// In front of this address.
    pub fn start(behind: SocketAddr) -> Self {
        let passed = Arc::<Mutex<Vec<Passed>>>::default();
        let kept = Arc::clone(&passed);
        let server = Server::start(move |head| {
            let accept = header(head, "accept").unwrap_or_default();
            let answer = try_get(behind, "/metrics", &accept).unwrap();
            kept.lock().unwrap().push(Passed { at: Instant::now(), answer: answer.clone() });
            Reply::Answer(answer)
        });
        Self { server, passed }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// All that passed so far.
    pub fn passed(&self) -> Vec<Passed> {
        self.passed.lock().unwrap().clone()
    }
}

/// An address that nobody listens at.
pub fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
