//! Work that may never come back, because a file in it blocks: each piece on a thread of its own, whoever
//! asked waits only as long as agreed, and what has not come back is never started a second time. A wedged
//! driver so costs one thread for each thing that is asked of it, however often it is asked.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Now;

/// What is being asked now, and since when.
#[derive(Debug, Default)]
pub struct Probes {
    in_flight: Mutex<BTreeMap<String, Now>>,
}

impl Probes {
    /// Starts `work`, which is known as `subject`, and hands out where its result will come. Nothing comes
    /// where no thread can be started. None while earlier work of that subject has not come back.
    pub fn start<T: Send + 'static>(
        self: &Arc<Self>,
        subject: String,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Receiver<T>> {
        let flight = Flight::begin(Arc::clone(self), subject)?;
        let (sender, receiver) = mpsc::channel();
        let probe = move || {
            let result = work();
            // Before the result: whoever has it may ask again at once.
            drop(flight);
            // Fails only when nobody waits any more.
            sender.send(result).ok();
        };
        // Where no thread can be started the sender is dropped, and the receiver learns of it.
        thread::Builder::new().name("probe".to_owned()).spawn(probe).ok();
        Some(receiver)
    }

    /// Whether work of this subject has been under way for longer than this.
    pub fn is_overdue(&self, subject: &str, now: Now, limit: Duration) -> bool {
        self.in_flight().get(subject).is_some_and(|since| now.since(since) > limit)
    }

    fn in_flight(&self) -> MutexGuard<'_, BTreeMap<String, Now>> {
        // Every change under the lock is one insertion or removal, so a poisoned one is still whole.
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One piece of work, for as long as it takes.
struct Flight {
    probes: Arc<Probes>,
    subject: String,
}

impl Flight {
    fn begin(probes: Arc<Probes>, subject: String) -> Option<Self> {
        let mut in_flight = probes.in_flight();
        if in_flight.contains_key(&subject) {
            return None;
        }
        in_flight.insert(subject.clone(), Now::read());
        drop(in_flight);
        Some(Self { probes, subject })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.probes.in_flight().remove(&self.subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_come_back_is_not_started_again() {
        let probes = Arc::new(Probes::default());
        let (release, released) = mpsc::channel::<()>();
        let start = |subject: &str, result| probes.start(subject.to_owned(), move || result);
        let blocked = probes.start("a".to_owned(), move || released.recv().is_ok()).unwrap();
        assert!(start("a", 1).is_none(), "it has not come back");
        assert_eq!(start("b", 2).unwrap().recv(), Ok(2), "another subject waits for nobody");
        let later = |seconds| {
            let now = Now::read();
            Now { boot: now.boot + Duration::from_secs(seconds), ..now }
        };
        assert!(probes.is_overdue("a", later(60), Duration::from_secs(59)));
        assert!(!probes.is_overdue("a", later(0), Duration::from_secs(59)));
        assert!(!probes.is_overdue("b", later(60), Duration::ZERO));
        release.send(()).unwrap();
        assert_eq!(blocked.recv(), Ok(true));
        assert_eq!(start("a", 3).unwrap().recv(), Ok(3), "it has come back");
    }

    #[test]
    fn work_that_panics_has_come_back() {
        let probes = Arc::new(Probes::default());
        let panics = probes.start("a".to_owned(), || panic!("as asked")).unwrap();
        assert_eq!(panics.recv(), Err::<(), _>(mpsc::RecvError));
        assert!(!probes.is_overdue("a", Now::read(), Duration::ZERO));
    }
}
