//! Asks the agents of a fleet, each on a schedule of its own, and keeps what is known of it.
//!
//! An agent that hangs holds up nobody: the fleet is changed only when an answer is whole, and whoever wants a snapshot
//! waits for no agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::sleep;
use wattscribe_rules::fleet::{Fleet, FleetLimits, Found, Snapshot};

use super::agent_page;
use super::discovery::{Agent, Places};
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};
use crate::fetch::Fetcher;
use crate::schedule::Schedule;

/// What is known of a fleet, while it is watched.
#[derive(Debug)]
pub struct Watched {
    fleet: Mutex<Fleet>,
    clock: Clock,
    /// Why agents did not answer, by class.
    failures: Mutex<BTreeMap<&'static str, u64>>,
    /// Whether discovery worked the last time, and whether it ever did.
    discovery: Mutex<Discovery>,
}

/// How discovery stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discovery {
    /// Whether agents were looked for at all.
    pub is_over: bool,
    /// Whether a part of the answer was missing the last time.
    pub is_failing: bool,
}

/// How a fleet is watched.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where agents are looked for.
    pub places: Places,
    /// The time between two questions to one agent, and between two looks for agents.
    pub interval: Duration,
    /// How long things count.
    pub limits: FleetLimits,
}

impl Watched {
    /// Nothing yet.
    pub fn new(limits: FleetLimits) -> Arc<Self> {
        Arc::new(Self {
            fleet: Mutex::new(Fleet::new(limits)),
            clock: Clock::start(),
            failures: Mutex::default(),
            discovery: Mutex::default(),
        })
    }

    /// The fleet now.
    pub fn snapshot(&self) -> Snapshot {
        let now_s = self.clock.unix_s(self.clock.elapsed());
        self.fleet().snapshot(now_s)
    }

    /// How often agents did not answer since the start, by class.
    pub fn failures(&self) -> BTreeMap<&'static str, u64> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How discovery stands.
    pub fn discovery(&self) -> Discovery {
        *self.discovery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        // Every change under the lock is complete in itself.
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, address: &str, asked: Duration, answer: Result<Vec<u8>, Failure>) {
        let devices = answer.and_then(|body| {
            agent_page::read(&body)
                .map_err(|fault| Failure::new(FailureClass::Parse, fault.to_string()))
        });
        match devices {
            Ok(devices) => self.fleet().answered(address, self.clock.unix_s(asked), devices),
            Err(failure) => {
                self.fleet().failed(address);
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                *failures.entry(failure.class.as_str()).or_default() += 1;
                tracing::debug!(agent = address, "{failure}");
            }
        }
    }
}

/// Watches a fleet until this is dropped.
pub async fn watch(plan: Plan, watched: Arc<Watched>, fetcher: Fetcher) {
    let mut asked: BTreeMap<String, Asking> = BTreeMap::new();
    let mut said: Vec<String> = Vec::new();
    loop {
        let (agents, faults) = plan.places.look().await;
        let is_failing = !faults.is_empty();
        if faults != said {
            for fault in &faults {
                tracing::warn!("agents cannot be looked up: {fault}");
            }
            said = faults;
        }
        let mut found: Vec<Found> = agents.iter().map(Agent::found).collect();
        if is_failing {
            // Who was there goes on being asked: that nobody can be looked up does not mean that he is gone.
            let kept = asked.values().map(|asking| asking.found.clone());
            let kept: Vec<Found> =
                kept.filter(|kept| found.iter().all(|new| new.address != kept.address)).collect();
            found.extend(kept);
        } else {
            asked.retain(|address, _| found.iter().any(|found| found.address == *address));
        }
        watched.fleet().found(&found);
        for agent in agents {
            let found = agent.found();
            asked.entry(found.address.clone()).or_insert_with(|| {
                let task = ask(agent, plan.interval, Arc::clone(&watched), fetcher.clone());
                Asking { found, task: tokio::spawn(task).abort_handle() }
            });
        }
        *watched.discovery.lock().unwrap_or_else(PoisonError::into_inner) =
            Discovery { is_over: true, is_failing };
        sleep(plan.interval).await;
        watched.fleet().forget(watched.clock.unix_s(watched.clock.elapsed()));
    }
}

/// An agent that is being asked, until this is dropped.
struct Asking {
    found: Found,
    task: AbortHandle,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Asks one agent again and again.
async fn ask(agent: Agent, interval: Duration, watched: Arc<Watched>, fetcher: Fetcher) {
    let address = agent.found().address;
    let schedule = Schedule::new(&address, interval);
    let begun = watched.clock.elapsed();
    let mut tick = schedule.first();
    loop {
        sleep(watched.clock.until(begun + tick.due)).await;
        let asked = watched.clock.elapsed();
        let answer = fetcher.fetch(&agent.url).await;
        watched.take(&address, asked, answer);
        tick = schedule.next(tick, watched.clock.elapsed().saturating_sub(begun));
    }
}
