//! The energy of windows over one series of readings, as the readings arrive.
//!
//! Feed it every reading of one series in the order of time and collect what is complete. It holds the latest reading
//! and the windows that are open, never the readings themselves; what is complete waits only to be collected. The same
//! readings give the same results whether they arrive live or from a file.

use std::collections::VecDeque;
use std::iter::Peekable;

use crate::energy::Energy;
use crate::limits::Limits;
use crate::open_window::OpenWindow;
use crate::reason::Reason;
use crate::sample::{CounterSample, PushError, Sample};
use crate::state::State;
use crate::trapezoid::Reading;
use crate::window::Windows;

/// Integrates one series over any number of windows at once.
#[derive(Debug)]
pub struct Integrator {
    windows: Peekable<Windows>,
    limits: Limits,
    open: Vec<OpenWindow>,
    completed: VecDeque<(usize, Energy)>,
    latest: Option<Reading>,
    latest_counter: Option<CounterSample>,
    /// The latest time that power was read or withheld at.
    now_s: f64,
    out_of_order: u64,
}

impl Integrator {
    /// An integrator over these windows, none of which has begun.
    pub fn new(windows: Windows, limits: Limits) -> Integrator {
        Integrator {
            windows: windows.peekable(),
            limits,
            open: Vec::new(),
            completed: VecDeque::new(),
            latest: None,
            latest_counter: None,
            now_s: f64::NEG_INFINITY,
            out_of_order: 0,
        }
    }

    /// Takes the next reading in state `ok`.
    ///
    /// A repeat, that is the latest time and value again, is counted once; a counter that comes with it is taken still.
    ///
    /// # Errors
    /// When something was left out, with what it was. The integrator stays usable, and windows that lost a reading say
    /// so themselves, so a caller may count the error and go on.
    pub fn push(&mut self, sample: Sample) -> Result<(), PushError> {
        sample.check()?;
        // Adding zero turns a negative zero into a plain one.
        let reading = Reading { at_s: sample.at_s, watts: sample.watts + 0.0 };
        self.take(reading)?;
        // A counter that is none costs the counter and not the power.
        let counter = sample
            .counter
            .map_or(Ok(()), |counter| counter.check().and_then(|()| self.take_counter(counter)));
        self.close_settled();
        counter
    }

    /// Notes that the series was read at this time without a number, and why: `stale`, `denied` and so on.
    ///
    /// It contributes nothing, but the windows that it falls in tell the reason, and time passes: windows that no
    /// reading can reach any more are completed.
    ///
    /// # Errors
    /// When the time is not finite, or the state is one that carries a number.
    pub fn withhold(&mut self, at_s: f64, state: State) -> Result<(), PushError> {
        if !at_s.is_finite() {
            return Err(PushError::Time { at_s });
        }
        if state.is_ok() {
            return Err(PushError::NotWithheld { at_s, state });
        }
        self.now_s = self.now_s.max(at_s);
        self.open_until(at_s);
        self.note(at_s, Reason::Withheld(state));
        self.close_settled();
        Ok(())
    }

    /// Takes out the windows completed so far, each with its place in the list that it came from. They come in the
    /// order of their completion. Call it often: only this keeps the memory small.
    pub fn completed(&mut self) -> impl Iterator<Item = (usize, Energy)> + '_ {
        self.completed.drain(..)
    }

    /// Ends the series: completes the open windows with what is known, and those that never began without anything.
    pub fn finish(mut self) -> impl Iterator<Item = (usize, Energy)> {
        let (latest, limits) = (self.latest, self.limits);
        let counted = self.latest_counter.is_some();
        let open = std::mem::take(&mut self.open);
        let never_begun = self.windows.map(|(index, window)| OpenWindow::new(index, window));
        self.completed.into_iter().chain(
            open.into_iter()
                .chain(never_begun)
                .map(move |open| open.close(latest, counted, limits)),
        )
    }

    /// How many readings, of power or of the counter, were left out for contradicting those before them.
    pub const fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    fn take(&mut self, reading: Reading) -> Result<(), PushError> {
        let at_s = reading.at_s;
        match self.latest {
            Some(latest) if latest == reading => return Ok(()),
            Some(latest) if at_s <= latest.at_s => {
                self.out_of_order += 1;
                self.note(at_s, Reason::OutOfOrder);
                return Err(PushError::OutOfOrder { at_s, latest_s: latest.at_s });
            }
            Some(_) | None => {}
        }
        self.now_s = self.now_s.max(at_s);
        self.open_until(at_s);
        for open in &mut self.open {
            open.take(self.latest, reading, self.limits);
        }
        self.latest = Some(reading);
        Ok(())
    }

    fn take_counter(&mut self, counter: CounterSample) -> Result<(), PushError> {
        let at_s = counter.at_s;
        match self.latest_counter {
            Some(latest) if latest == counter => return Ok(()),
            Some(latest) if at_s <= latest.at_s => {
                self.out_of_order += 1;
                self.note(at_s, Reason::OutOfOrder);
                return Err(PushError::CounterOutOfOrder { at_s, latest_s: latest.at_s });
            }
            Some(_) | None => {}
        }
        self.open_until(at_s);
        for open in &mut self.open {
            open.take_counter(self.latest_counter, counter, self.limits);
        }
        self.latest_counter = Some(counter);
        Ok(())
    }

    /// Opens the windows that begin by this time. A window is always open before anything that touches it is taken.
    fn open_until(&mut self, at_s: f64) {
        while let Some((index, window)) =
            self.windows.next_if(|(_, window)| window.start_s() <= at_s)
        {
            self.open.push(OpenWindow::new(index, window));
        }
    }

    /// Adds a reason to the open windows that this time falls in.
    fn note(&mut self, at_s: f64, reason: Reason) {
        for open in self.open.iter_mut().filter(|open| open.window.contains(at_s)) {
            open.note(reason);
        }
    }

    /// Completes the windows that nothing can change any more: those read past their end, the counter included where
    /// there is one, and those so long past that no later reading could bracket their end.
    fn close_settled(&mut self) {
        let (latest, limits, now_s) = (self.latest, self.limits, self.now_s);
        let counter_s = self.latest_counter.map(|counter| counter.at_s);
        let settled = |open: &mut OpenWindow| {
            let end_s = open.window.end_s();
            let read = latest.is_some_and(|latest| latest.at_s >= end_s);
            let counted = counter_s.is_none_or(|counter_s| counter_s >= end_s);
            let (reached, out_of_reach) = (read && counted, !limits.bridges(now_s - end_s));
            reached || out_of_reach
        };
        let closed = self.open.extract_if(.., settled);
        self.completed.extend(closed.map(|open| open.close(latest, counter_s.is_some(), limits)));
    }
}
