//! What the tests share: small sysfs trees, an exporter that is being served, a client that shows every byte.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, mkfifoat, renameat_with};
use tempfile::TempDir;
use tokio::sync::oneshot;
use wattscribe_exporter::args::Config;
use wattscribe_exporter::board::Board;
use wattscribe_exporter::cell::Limits;
use wattscribe_exporter::ladder::{Chosen, Ground, Rung, SourceChoice};
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::sysfs::Sysfs;
use wattscribe_exporter::{Exporter, serve, sources};

/// Short times, so that tests are quick, yet far above what a busy machine adds to them.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);
pub(crate) const LIMITS: Limits =
    Limits { stale_after: Duration::from_millis(1500), read_deadline: Duration::from_millis(300) };

/// Polls until something holds, and fails when it never does.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A sysfs tree of the test's own making.
#[derive(Debug)]
pub(crate) struct Tree {
    dir: TempDir,
}

impl Tree {
    /// A tree with these files: a path below the root, and what it holds.
    pub(crate) fn new<C: AsRef<[u8]>>(files: &[(&str, C)]) -> Self {
        let tree = Self { dir: TempDir::new().unwrap() };
        for (path, content) in files {
            tree.write(path, content);
        }
        tree
    }

    /// A Grace node as present kernels show it: for each label and text of `power1_average`, one device.
    pub(crate) fn meters(meters: &[(&str, &str)]) -> Self {
        let tree = Self::new::<&str>(&[]);
        for (number, (label, value)) in meters.iter().enumerate() {
            let device = format!("devices/ACPI000D:{number:02X}");
            let hwmon = format!("{device}/hwmon/hwmon{number}");
            for (name, content) in
                [("name", "power_meter"), ("power1_oem_info", label), ("power1_average", value)]
            {
                tree.write(&format!("{hwmon}/{name}"), format!("{content}\n"));
            }
            tree.link(&format!("{hwmon}/device"), &format!("../../../ACPI000D:{number:02X}"));
            tree.link(&format!("class/hwmon/hwmon{number}"), &format!("../../{hwmon}"));
        }
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn sysfs(&self) -> Sysfs {
        Sysfs::new(self.root(), None)
    }

    /// Puts a file in place in one step, so that no reader finds half of it.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.with_parents(path);
        let staged = self.path(".staged");
        fs::write(&staged, content).unwrap();
        fs::rename(staged, path).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        symlink(target, self.with_parents(path)).unwrap();
    }

    /// A link in place of a file, in one step.
    pub(crate) fn replace_by_link(&self, path: &str, target: impl AsRef<Path>) {
        let staged = self.path(".staged");
        symlink(target, &staged).unwrap();
        fs::rename(staged, self.path(path)).unwrap();
    }

    /// A FIFO in place of a file: whoever opens it waits for a writer.
    pub(crate) fn hang(&self, path: &str) -> PathBuf {
        let path = self.with_parents(path);
        let staged = self.path(".staged");
        mkfifoat(CWD, &staged, Mode::from_raw_mode(0o644)).unwrap();
        fs::rename(staged, &path).unwrap();
        path
    }

    pub(crate) fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    /// What stands at two places changes places, in one step.
    pub(crate) fn swap(&self, one: &str, other: &str) {
        let (one, other) = (self.path(one), self.path(other));
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }

    /// Takes a file's permissions away. Root reads such a file all the same: for root, it becomes a link
    /// to one that the kernel refuses to everybody. False where there is no such file either.
    pub(crate) fn deny(&self, path: &str) -> bool {
        let refused = |path: &Path| {
            File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
        };
        let file = self.path(path);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        if !refused(&file) {
            // Write-only settings: /proc/sys honours their mode, not the capabilities of the reader.
            let settings = ["/proc/sys/vm/compact_memory", "/proc/sys/net/ipv4/route/flush"];
            if let Some(setting) = settings.iter().find(|setting| refused(Path::new(setting))) {
                self.replace_by_link(path, setting);
            }
        }
        let is_denied = refused(&file);
        if !is_denied {
            eprintln!("skipped: nothing here is denied to this user");
        }
        is_denied
    }

    fn with_parents(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
}

/// Ends a hang: an ordinary file takes the place of the FIFO, and whoever waits for that reads nothing.
pub(crate) fn free(tree: &Tree, path: &str, content: &str) {
    let fifo = File::options().read(true).write(true).open(tree.path(path)).unwrap();
    tree.write(path, content);
    drop(fifo); // only now: nobody can come to wait after the others have left
}

/// Answers every reader of a FIFO: after `delay`, with the next of `values`. Ends when they are used up.
pub(crate) fn feed(
    fifo: PathBuf,
    delay: Duration,
    values: impl Iterator<Item = String> + Send + 'static,
) {
    thread::spawn(move || {
        for value in values {
            let Ok(mut writer) = File::options().write(true).open(&fifo) else { return };
            thread::sleep(delay);
            if writer.write_all(value.as_bytes()).is_err() {
                continue;
            }
            drop(writer);
            // The next value is for the next reader: wait for this one to leave.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            while rustix::fs::open(&fifo, flags, Mode::empty()).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
}

/// How to run over a tree.
pub(crate) fn config(sysfs: Sysfs, source: SourceChoice) -> Config {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Config { interval: INTERVAL, limits: LIMITS, ..Config::of_files(address, source, sysfs) }
}

/// A board over all sensors of a source, without asking whether they are alive.
pub(crate) fn board(sysfs: Sysfs, source: Source) -> Arc<Board> {
    let sensors = sources::discover(source, &sysfs).unwrap();
    let rung = if source == Source::Rapl { Rung::Rapl } else { Rung::Acpi };
    let ground = Ground::of(&config(sysfs, SourceChoice::Auto));
    Board::start(Some(Chosen::Files { rung, sensors }), ground, None, LIMITS).unwrap()
}

/// An exporter that answers on a port of its own until it is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start(config: &Config) -> Self {
        let exporter = Exporter::start(config).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Self::spawn(listener, async move |listener, stopped| {
            exporter.serve(listener, stopped).await;
        })
    }

    pub(crate) fn board(board: Arc<Board>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Self::on(listener, board)
    }

    /// A board on a listener of the test's own making.
    pub(crate) fn on(listener: TcpListener, board: Arc<Board>) -> Self {
        Self::spawn(listener, async move |listener, stopped| {
            serve::serve(listener, board, stopped).await;
        })
    }

    fn spawn<S>(listener: TcpListener, serve: S) -> Self
    where
        S: AsyncFnOnce(tokio::net::TcpListener, std::pin::Pin<Box<dyn Future<Output = ()>>>)
            + Send
            + 'static,
    {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let stopped = async {
                    stopped.await.ok();
                };
                serve(listener, Box::pin(stopped)).await;
            });
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        ask(self.address, "GET", path, &[])
    }

    /// The page, as a Prometheus that asks for nothing special sees it.
    pub(crate) fn page(&self) -> String {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200);
        answer.text()
    }
}

impl Served {
    /// Asks it to end, and returns once nobody listens any more.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        eventually("nobody listens", || TcpStream::connect(self.address).is_err());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Takes an answer's bytes apart.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Sends one request and reads the answer to its end.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &[&str]) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n");
    for header in headers {
        request += header;
        request += "\r\n";
    }
    request += "\r\n";
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    Answer::parse(&read_to_end(&mut stream).unwrap())
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    stream
}

pub(crate) fn read_to_end(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The lines of one family's samples.
pub(crate) fn samples<'a>(page: &'a str, family: &str) -> Vec<&'a str> {
    let of_family = |line: &&str| {
        line.strip_prefix(family).is_some_and(|rest| rest.starts_with([' ', '{', '_']))
    };
    page.lines().filter(of_family).collect()
}

/// The value of the one sample of a family whose labels hold all of these texts.
pub(crate) fn value(page: &str, family: &str, labels: &[&str]) -> Option<f64> {
    let lines = samples(page, family);
    let mut fitting = lines.iter().filter(|line| labels.iter().all(|label| line.contains(label)));
    let line = fitting.next()?;
    assert!(fitting.next().is_none(), "{family} {labels:?} is there twice:\n{page}");
    line.rsplit(' ').next()?.parse().ok()
}

/// Whether a program can be run here. Where it cannot, the caller skips, but never in CI.
pub(crate) fn is_installed(program: impl AsRef<OsStr>) -> bool {
    let program = program.as_ref();
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "{program:?} is missing in CI");
    if !found {
        eprintln!("skipped: {program:?} is not installed");
    }
    found
}
