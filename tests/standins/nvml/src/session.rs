//! What a process has of the library: initialisations, and handles to devices.

use std::collections::BTreeMap;

use wattscribe_standins::{Answer, Device, Field, NvmlReturn, NvmlScript};

/// The library's state. A script is handed to each call, since it may have changed.
#[derive(Debug)]
pub(crate) struct Session {
    /// Initialisations that have had no shutdown yet.
    inits: u32,
    /// Which load of the driver the first of them met.
    load: u64,
    /// PCI addresses by handle.
    handles: BTreeMap<usize, String>,
    /// How many handles there were, in all sessions: none is given out twice.
    given: usize,
}

/// Handles look like addresses, as the real ones are. None is ever followed.
const HANDLE_BASE: usize = 0x5747_0000;
const HANDLE_STEP: usize = 0x40;

impl Session {
    /// Nothing initialised yet.
    pub(crate) const fn new() -> Self {
        Self { inits: 0, load: 0, handles: BTreeMap::new(), given: 0 }
    }

    pub(crate) fn init(&mut self, script: &NvmlScript) -> Result<(), NvmlReturn> {
        script.driver.error.map_or(Ok(()), Err)?;
        if self.inits == 0 {
            self.load = script.driver.load;
        }
        self.inits += 1;
        Ok(())
    }

    /// Works while the driver is away too: it gives back what is the process's own.
    pub(crate) fn shutdown(&mut self) -> Result<(), NvmlReturn> {
        self.inits = self.inits.checked_sub(1).ok_or(NvmlReturn::Uninitialized)?;
        if self.inits == 0 {
            self.handles.clear();
        }
        Ok(())
    }

    /// Whether calls can be answered at all.
    pub(crate) fn check(&self, script: &NvmlScript) -> Result<(), NvmlReturn> {
        if self.inits == 0 {
            return Err(NvmlReturn::Uninitialized);
        }
        script.driver.error.map_or(Ok(()), Err)?;
        if self.load == script.driver.load { Ok(()) } else { Err(NvmlReturn::Uninitialized) }
    }

    pub(crate) fn count(&self, script: &NvmlScript) -> Result<usize, NvmlReturn> {
        self.check(script)?;
        Ok(present(script).count())
    }

    /// The handle of a device, the same as before if it had one in this session.
    pub(crate) fn handle(&mut self, script: &NvmlScript, index: u32) -> Result<usize, NvmlReturn> {
        self.check(script)?;
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let device = present(script).nth(index).ok_or(NvmlReturn::InvalidArgument)?;
        if let Some((handle, _)) = self.handles.iter().find(|(_, pci)| **pci == device.pci) {
            return Ok(*handle);
        }
        self.given += 1;
        let handle = HANDLE_BASE + self.given * HANDLE_STEP;
        self.handles.insert(handle, device.pci.clone());
        Ok(handle)
    }

    /// The PCI address that a handle stands for.
    pub(crate) fn pci(&self, handle: usize) -> Option<&str> {
        self.handles.get(&handle).map(String::as_str)
    }

    /// The device behind a handle.
    pub(crate) fn device<'s>(
        &self,
        script: &'s NvmlScript,
        handle: usize,
    ) -> Result<&'s Device, NvmlReturn> {
        self.check(script)?;
        let pci = self.pci(handle).ok_or(NvmlReturn::InvalidArgument)?;
        let device = present(script).find(|device| device.pci == pci);
        device.ok_or(NvmlReturn::GpuIsLost)
    }
}

/// The devices that are on the bus, in the order of their indices.
fn present(script: &NvmlScript) -> impl Iterator<Item = &Device> {
    script.devices.iter().filter(|device| !device.lost)
}

/// What a field of a device holds at a time.
pub(crate) fn reading(
    device: &Device,
    field: u32,
    scope: u32,
    seconds: f64,
) -> Result<(&Field, f64), NvmlReturn> {
    let here = device.fields.iter().find(|at| (at.field, at.scope) == (field, scope));
    let here = here.ok_or(NvmlReturn::NotSupported)?;
    match &here.answer {
        Answer::Number(series) => Ok((here, series.at(seconds).ok_or(NvmlReturn::NoData)?)),
        Answer::Error(error) => Err(*error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> NvmlScript {
        let devices = [("a", "0008:01:00.0"), ("b", "0009:01:00.0"), ("c", "0018:01:00.0")];
        NvmlScript::new(devices.map(|(uuid, pci)| Device::new(uuid, pci)))
    }

    #[test]
    fn nothing_works_without_initialisation() {
        let mut session = Session::new();
        assert_eq!(session.count(&script()), Err(NvmlReturn::Uninitialized));
        assert_eq!(session.shutdown(), Err(NvmlReturn::Uninitialized));
        session.init(&script()).unwrap();
        session.init(&script()).unwrap();
        session.shutdown().unwrap();
        assert_eq!(session.count(&script()), Ok(3));
        session.shutdown().unwrap();
        assert_eq!(session.count(&script()), Err(NvmlReturn::Uninitialized));
    }

    #[test]
    fn a_lost_device_is_not_counted_and_its_handle_says_so() {
        let (mut session, mut script) = (Session::new(), script());
        session.init(&script).unwrap();
        let handles = [0, 1, 2].map(|index| session.handle(&script, index).unwrap());
        assert_eq!(session.handle(&script, 3), Err(NvmlReturn::InvalidArgument));
        script.devices[1].lost = true;
        assert_eq!(session.count(&script), Ok(2));
        assert_eq!(session.handle(&script, 1), Ok(handles[2]));
        assert_eq!(session.device(&script, handles[1]).unwrap_err(), NvmlReturn::GpuIsLost);
        assert_eq!(session.device(&script, handles[2]).unwrap().uuid, "c");
        assert_eq!(session.device(&script, 0).unwrap_err(), NvmlReturn::InvalidArgument);
    }

    #[test]
    fn a_handle_belongs_to_an_address_and_a_session() {
        let (mut session, mut script) = (Session::new(), script());
        session.init(&script).unwrap();
        let handle = session.handle(&script, 0).unwrap();
        script.devices[0].uuid = "d".into();
        assert_eq!(session.device(&script, handle).unwrap().uuid, "d");
        session.shutdown().unwrap();
        session.init(&script).unwrap();
        assert_eq!(session.device(&script, handle).unwrap_err(), NvmlReturn::InvalidArgument);
        assert_ne!(session.handle(&script, 0), Ok(handle));
    }

    #[test]
    fn a_driver_that_was_loaded_anew_wants_a_session_of_its_own() {
        let (mut session, mut script) = (Session::new(), script());
        session.init(&script).unwrap();
        script.driver.error = Some(NvmlReturn::DriverNotLoaded);
        assert_eq!(session.count(&script), Err(NvmlReturn::DriverNotLoaded));
        assert_eq!(session.init(&script), Err(NvmlReturn::DriverNotLoaded));
        script.driver.error = None;
        script.driver.load += 1;
        assert_eq!(session.count(&script), Err(NvmlReturn::Uninitialized));
        session.init(&script).unwrap();
        assert_eq!(session.count(&script), Err(NvmlReturn::Uninitialized), "the old one is open");
        session.shutdown().unwrap();
        session.shutdown().unwrap();
        session.init(&script).unwrap();
        assert_eq!(session.count(&script), Ok(3));
    }

    #[test]
    fn a_field_holds_what_the_script_says() {
        let device = Device::new("a", "b")
            .module_mw(539_000.0)
            .with(185, 2, Answer::Error(NvmlReturn::NoPermission))
            .gpu_mw(wattscribe_standins::Series::steps([(2.0, 300_000.0)]));
        let cases = [
            (1, 0.0, Ok(539_000.0)),
            (2, 0.0, Err(NvmlReturn::NoPermission)),
            (0, 1.0, Err(NvmlReturn::NoData)),
            (0, 2.0, Ok(300_000.0)),
            (3, 0.0, Err(NvmlReturn::NotSupported)),
        ];
        for (scope, seconds, expected) in cases {
            let found = reading(&device, 185, scope, seconds).map(|(_, number)| number);
            assert_eq!(found, expected, "scope {scope} at {seconds} s");
        }
    }
}
