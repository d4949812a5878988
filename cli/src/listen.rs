//! The recorder's own page, served by a thread of its own: no scrape waits for whoever looks.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use wattscribe_exporter::serve::{Pages, serve};
use wattscribe_parser::Format;
use wattscribe_rules::rule::RuleSet;
use wattscribe_scraper::newest::Newest;
use wattscribe_scraper::page;
use wattscribe_scraper::status::Status;

/// What the page shows.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The rules that are evaluated.
    pub rules: Option<Arc<RuleSet>>,
    /// Their newest results.
    pub newest: Arc<Newest>,
    /// How the recording stands.
    pub status: Arc<Status>,
}

impl Pages for Shown {
    fn metrics(&self, format: Format) -> String {
        page::render(self.rules.as_deref(), &self.newest, &self.status, format)
    }

    fn ready(&self) -> Result<(), &'static str> {
        if self.status.all_tried() { Ok(()) } else { Err("not every target has been asked\n") }
    }
}

/// A page that is served until this ends.
#[derive(Debug)]
pub(crate) struct Listening {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Takes an address, before anything is recorded.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| format!("cannot listen on {address}: {error}"))?;
    Ok(listener)
}

impl Listening {
    /// Serves on a listener that was bound.
    pub(crate) fn start(listener: TcpListener, shown: Shown) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("page".to_owned()).spawn(move || {
            runtime.block_on(async {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => {
                        // A sender that is gone has stopped as well.
                        let shutdown = async { drop(stopped.await) };
                        serve(listener, Arc::new(shown), shutdown).await;
                    }
                    Err(error) => tracing::error!(%error, "cannot serve the page"),
                }
            });
        })?;
        tracing::info!("the page of the recording is at http://{address}/metrics");
        Ok(Self { stop, thread })
    }

    /// Ends it, once answers in flight are given.
    pub(crate) fn stop(self) {
        // A thread that has ended already needs no word.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread of the page panicked");
        }
    }
}
