//! Waiting for what is said to happen: looked at again and again, and a failure when it does not come in time.

use std::thread;
use std::time::{Duration, Instant};

/// Far above what anything here takes, also on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Until the next look.
const PAUSE: Duration = Duration::from_millis(20);

/// What `look` finds, as soon as it finds something. Panics with `what` when that takes longer than [`PATIENCE`].
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened within {PATIENCE:?}: {what}");
        thread::sleep(PAUSE);
    }
}
