//! Who asks the exporter: scrapers that do it well, over connections that are kept for a while, and clients that ask
//! for half a page, or slowly, or never read what they asked for.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wattscribe_parser::samples;

/// A scrape that takes longer is an error.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// How many scrapes a connection serves before its client hangs up.
const KEPT_FOR: u32 = 50;

/// What a scraper asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Text,
    OpenMetrics,
    Gzip,
}

/// One who scrapes as Prometheus does.
pub(crate) struct Scraper {
    address: SocketAddr,
    wish: Wish,
    connection: Option<(BufReader<TcpStream>, u32)>,
}

impl Scraper {
    pub(crate) fn new(address: SocketAddr, wish: Wish) -> Self {
        Self { address, wish, connection: None }
    }

    /// A page, or why it is none.
    pub(crate) fn scrape(&mut self) -> io::Result<Vec<u8>> {
        // What the server has closed in the meantime says so at the first byte, and is no error.
        let kept = self.connection.take().map(|connection| self.ask(connection));
        let body = match kept {
            Some(Ok(body)) => body,
            Some(Err(error)) if error.kind() != ErrorKind::ConnectionAborted => return Err(error),
            _ => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
                self.ask((BufReader::new(stream), 0))?
            }
        };
        self.check(&body)?;
        Ok(body)
    }

    fn ask(
        &mut self,
        (mut connection, served): (BufReader<TcpStream>, u32),
    ) -> io::Result<Vec<u8>> {
        let wish = match self.wish {
            Wish::Text => "Accept: text/plain;version=0.0.4",
            Wish::OpenMetrics => "Accept: application/openmetrics-text;version=1.0.0",
            Wish::Gzip => "Accept-Encoding: gzip",
        };
        let closed = |_| io::Error::from(ErrorKind::ConnectionAborted);
        let request = format!("GET /metrics HTTP/1.1\r\nHost: node\r\n{wish}\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes()).map_err(closed)?;
        if connection.fill_buf().map_or_else(|error| is_reset(&error), |bytes| bytes.is_empty()) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let body = answer(&mut connection)?;
        if served < KEPT_FOR {
            self.connection = Some((connection, served + 1));
        }
        Ok(body)
    }

    fn check(&self, body: &[u8]) -> io::Result<()> {
        let fault = match self.wish {
            Wish::Gzip => (!body.starts_with(&[0x1f, 0x8b])).then(|| "not gzip".to_owned()),
            Wish::Text => samples(body).err().map(|fault| fault.to_string()),
            Wish::OpenMetrics => match samples(body) {
                Err(fault) => Some(fault.to_string()),
                Ok(_) => (!body.ends_with(b"# EOF\n")).then(|| "without its end".to_owned()),
            },
        };
        fault.map_or(Ok(()), |fault| Err(io::Error::new(ErrorKind::InvalidData, fault)))
    }
}

fn is_reset(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionReset
}

/// Reads one answer of status 200 with a length.
fn answer(connection: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
    let (mut line, mut length) = (String::new(), None);
    connection.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(wrong(&line));
    }
    while line.trim_end() != "" {
        line.clear();
        connection.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let mut body = vec![0; length.ok_or_else(|| wrong("an answer without its length"))?];
    connection.read_exact(&mut body)?;
    Ok(body)
}

/// How a client is a nuisance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Sends half a request.
    HalfOpen,
    /// Sends a byte at a time, and reads the same way.
    Slow,
    /// Asks, and reads nothing.
    Deaf,
}

/// Clients that are a nuisance, each for a while.
pub(crate) struct Nuisances {
    address: SocketAddr,
    open: Vec<Nuisance>,
    /// How many there were.
    pub(crate) count: u32,
}

struct Nuisance {
    manner: Manner,
    stream: TcpStream,
    age: usize,
}

/// How many turns a nuisance lasts: ten seconds, longer than the exporter waits for a request's head.
const TURNS: usize = 200;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n";

impl Nuisances {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, open: Vec::new(), count: 0 }
    }

    /// One more, of the next manner.
    pub(crate) fn join(&mut self) -> io::Result<()> {
        let manners = [Manner::HalfOpen, Manner::Slow, Manner::Deaf];
        let manner = manners[self.count as usize % manners.len()];
        let mut stream = TcpStream::connect(self.address)?;
        let now = match manner {
            Manner::HalfOpen => &REQUEST[..REQUEST.len() / 2],
            Manner::Slow => &[],
            Manner::Deaf => REQUEST,
        };
        stream.write_all(now)?;
        stream.set_nonblocking(true)?;
        self.open.push(Nuisance { manner, stream, age: 0 });
        self.count += 1;
        Ok(())
    }

    /// A turn of each, and the end of those that had theirs. What the exporter makes of them is its affair: it may
    /// have hung up.
    pub(crate) fn take_turn(&mut self) {
        for nuisance in &mut self.open {
            if nuisance.manner == Manner::Slow {
                if let Some(byte) = REQUEST.get(nuisance.age) {
                    let _ = nuisance.stream.write(&[*byte]);
                }
                let _ = nuisance.stream.read(&mut [0; 1]);
            }
            nuisance.age += 1;
        }
        self.open.retain(|nuisance| nuisance.age < TURNS);
    }
}
