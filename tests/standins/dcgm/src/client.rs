//! What a process has of the library: initialisations, connections, and the engine inside it.

use std::collections::BTreeMap;

use wattscribe_standins::{DcgmReturn, DcgmScript, ENGINE_PORT};

use crate::abi::EMBEDDED_HANDLE;
use crate::session::Session;

/// The library's state. A script is handed to each call, since it may have changed.
#[derive(Debug)]
pub(crate) struct Client {
    /// Initialisations that have had no shutdown yet.
    inits: u32,
    /// What is connected or started, by handle.
    engines: BTreeMap<usize, Engine>,
    /// How many connections there were: no handle is given out twice.
    connections: usize,
    /// How many groups of both kinds there were: no id is given out twice.
    groups: usize,
}

#[derive(Debug)]
struct Engine {
    /// Which start of the system's engine this is a connection to; none for the one inside the process.
    start: Option<u64>,
    session: Session,
}

impl Client {
    /// Nothing initialised yet.
    pub(crate) const fn new() -> Self {
        Self { inits: 0, engines: BTreeMap::new(), connections: 0, groups: 0 }
    }

    pub(crate) fn init(&mut self) {
        self.inits += 1;
    }

    /// The last one ends what is connected and started.
    pub(crate) fn shutdown(&mut self) -> Result<(), DcgmReturn> {
        self.inits = self.inits.checked_sub(1).ok_or(DcgmReturn::Uninitialized)?;
        if self.inits == 0 {
            self.engines.clear();
        }
        Ok(())
    }

    /// A connection to the system's engine.
    pub(crate) fn connect(
        &mut self,
        script: &DcgmScript,
        address: &str,
    ) -> Result<usize, DcgmReturn> {
        self.check()?;
        if !script.engine.running || !is_same(address, &script.engine.address) {
            return Err(DcgmReturn::ConnectionNotValid);
        }
        self.connections += 1;
        let start = Some(script.engine.start);
        self.engines.insert(self.connections, Engine { start, session: Session::default() });
        Ok(self.connections)
    }

    /// Ends a connection. One whose engine is gone can be ended too.
    pub(crate) fn disconnect(&mut self, handle: usize) -> Result<(), DcgmReturn> {
        self.end(handle, handle != EMBEDDED_HANDLE)
    }

    /// The engine inside the process. There is one at most: starting it again gives the same.
    pub(crate) fn start_embedded(&mut self, script: &DcgmScript) -> Result<usize, DcgmReturn> {
        self.check()?;
        script.embedded_error.map_or(Ok(()), Err)?;
        let engine = || Engine { start: None, session: Session::default() };
        self.engines.entry(EMBEDDED_HANDLE).or_insert_with(engine);
        Ok(EMBEDDED_HANDLE)
    }

    pub(crate) fn stop_embedded(&mut self, handle: usize) -> Result<(), DcgmReturn> {
        self.end(handle, handle == EMBEDDED_HANDLE)
    }

    /// What a handle has of an engine, with the next id for a group, while the engine is the one it was.
    pub(crate) fn session(
        &mut self,
        script: &DcgmScript,
        handle: usize,
    ) -> Result<(&mut Session, &mut usize), DcgmReturn> {
        self.check()?;
        let engine = self.engines.get_mut(&handle).ok_or(DcgmReturn::ConnectionNotValid)?;
        let is_there =
            engine.start.is_none_or(|start| script.engine.running && script.engine.start == start);
        if is_there {
            Ok((&mut engine.session, &mut self.groups))
        } else {
            Err(DcgmReturn::ConnectionNotValid)
        }
    }

    fn check(&self) -> Result<(), DcgmReturn> {
        if self.inits == 0 { Err(DcgmReturn::Uninitialized) } else { Ok(()) }
    }

    fn end(&mut self, handle: usize, is_of_this_kind: bool) -> Result<(), DcgmReturn> {
        self.check()?;
        let ended = if is_of_this_kind { self.engines.remove(&handle) } else { None };
        ended.map(drop).ok_or(DcgmReturn::BadParam)
    }
}

/// Whether two addresses are one. The default port may be left out.
fn is_same(one: &str, other: &str) -> bool {
    let host = |address: &str| {
        let port = address.strip_suffix(ENGINE_PORT).and_then(|rest| rest.strip_suffix(':'));
        port.unwrap_or(address).to_owned()
    };
    host(one) == host(other)
}

#[cfg(test)]
mod tests {
    use wattscribe_standins::DcgmReturn::{
        BadParam, ConnectionNotValid, RequiresRoot, Uninitialized,
    };

    use super::*;

    fn initialised() -> Client {
        let mut client = Client::new();
        client.init();
        client
    }

    #[test]
    fn nothing_works_without_initialisation() {
        let (mut client, script) = (Client::new(), DcgmScript::default());
        assert_eq!(client.connect(&script, "127.0.0.1"), Err(Uninitialized));
        assert_eq!(client.start_embedded(&script), Err(Uninitialized));
        assert_eq!(client.session(&script, 1).unwrap_err(), Uninitialized);
        assert_eq!(client.shutdown(), Err(Uninitialized));
        client.init();
        let handle = client.connect(&script, "127.0.0.1").unwrap();
        client.shutdown().unwrap();
        client.init();
        assert_eq!(client.session(&script, handle).unwrap_err(), ConnectionNotValid);
    }

    #[test]
    fn an_engine_is_where_it_listens() {
        let mut script = DcgmScript::default();
        let cases = [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1:5555", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.1:5556", false),
            ("127.0.0.1:5556", "127.0.0.1:5556", true),
            ("10.0.0.1", "127.0.0.1", false),
            ("", "127.0.0.1", false),
        ];
        for (asked, listens, expected) in cases {
            script.engine.address = listens.into();
            let connected = initialised().connect(&script, asked);
            assert_eq!(connected.is_ok(), expected, "{asked:?} for {listens}");
        }
        assert_eq!(initialised().connect(&script.without_engine(), ""), Err(ConnectionNotValid));
    }

    #[test]
    fn a_connection_ends_with_its_engine() {
        let (mut client, mut script) = (initialised(), DcgmScript::default());
        let first = client.connect(&script, "127.0.0.1").unwrap();
        script.engine.running = false;
        assert_eq!(client.session(&script, first).unwrap_err(), ConnectionNotValid);
        script.restart();
        assert_eq!(client.session(&script, first).unwrap_err(), ConnectionNotValid);
        let second = client.connect(&script, "127.0.0.1").unwrap();
        assert_ne!(first, second);
        assert!(client.session(&script, second).is_ok());
        assert_eq!(client.disconnect(first), Ok(()));
        assert_eq!(client.disconnect(first), Err(BadParam));
    }

    #[test]
    fn the_engine_inside_needs_none_outside() {
        let (mut client, script) = (initialised(), DcgmScript::default().without_engine());
        let handle = client.start_embedded(&script).unwrap();
        assert!(client.session(&script, handle).is_ok());
        assert_eq!(client.disconnect(handle), Err(BadParam));
        assert_eq!(client.stop_embedded(handle), Ok(()));
        let refused = DcgmScript { embedded_error: Some(RequiresRoot), ..script };
        assert_eq!(client.start_embedded(&refused), Err(RequiresRoot));
    }
}
