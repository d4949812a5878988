//! Energy windows of everything that was recorded: sockets, their nodes, and all nodes together.
//!
//! Readings come in any order between series and in order of time within one. A node is the sum of its sockets and
//! the total the sum of the nodes, of one source each: a socket's total, a CPU rail and a package cover different
//! things, and are never added. A member that is known and has nothing to state withholds the sum it belongs to.

use std::collections::{BTreeMap, BTreeSet};

use crate::energy::Energy;
use crate::integrator::Integrator;
use crate::limits::Limits;
use crate::reason::Reason;
use crate::sample::{CounterSample, PushError, Sample};
use crate::state::State;
use crate::sum::{FleetEnergy, sum_energy};
use crate::window::Windows;

/// One series of socket power. Its order is that of the results.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesKey {
    /// What the power comes from; series of different sources are never added.
    pub source: String,
    /// The node.
    pub node: String,
    /// The socket.
    pub socket: u32,
}

/// What one row says of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation {
    /// A reading in state ok.
    Reading(Sample),
    /// A reading that was withheld.
    Withheld {
        /// When, in Unix seconds.
        at_s: f64,
        /// In which state it was.
        state: State,
    },
}

impl Observation {
    /// What a row of a socket says, whose power was published as `watts` or withheld in `state`.
    ///
    /// A socket that is on never draws nothing: a zero stands for what was missing, as older recorders wrote it.
    pub fn of_socket(
        at_s: f64,
        watts: Option<f64>,
        state: State,
        counter: Option<CounterSample>,
    ) -> Observation {
        match watts.filter(|watts| *watts != 0.0) {
            Some(watts) => Observation::Reading(Sample { at_s, watts, counter }),
            None if state.is_ok() => Observation::Withheld { at_s, state: State::Unavailable },
            None => Observation::Withheld { at_s, state },
        }
    }
}

/// Takes rows and gives windows. Holds one integrator a series and the results, and no readings.
#[derive(Debug)]
pub struct Ledger {
    windows: Windows,
    limits: Limits,
    places: BTreeMap<SeriesKey, usize>,
    series: Vec<Series>,
    /// The series of the last row: files are sorted by series, so it is mostly that of the next.
    last: Option<(SeriesKey, usize)>,
    silent: BTreeSet<String>,
}

#[derive(Debug)]
struct Series {
    integrator: Integrator,
    completed: Vec<(usize, Energy)>,
    /// Readings that were left out, and from when to when they are.
    refused: u64,
    refused_s: Option<(f64, f64)>,
}

impl Series {
    fn refuse(&mut self, error: &PushError) {
        self.refused += 1;
        if let PushError::OutOfOrder { at_s, .. } = *error {
            let (from_s, to_s) = self.refused_s.unwrap_or((at_s, at_s));
            self.refused_s = Some((from_s.min(at_s), to_s.max(at_s)));
        }
    }
}

/// The windows of a ledger, each list in the order of its members and then of the windows.
#[derive(Debug, Default, PartialEq)]
pub struct Statement {
    /// Per socket.
    pub sockets: Vec<(SeriesKey, usize, Energy)>,
    /// Per source and node: the sum of the node's sockets.
    pub nodes: Vec<(NodeKey, usize, FleetEnergy)>,
    /// Per source: the sum of all nodes. Its members are nodes.
    pub totals: Vec<(String, usize, FleetEnergy)>,
    /// Nodes that were to be recorded and never gave a row.
    pub silent: Vec<String>,
    /// Readings that contradict an earlier one of their series, or are no power: they were left out.
    pub refused: u64,
}

/// A node, as one source measures it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// What the power comes from.
    pub source: String,
    /// The node.
    pub node: String,
}

impl Ledger {
    /// A ledger of these windows.
    pub fn new(windows: Windows, limits: Limits) -> Ledger {
        Ledger {
            windows,
            limits,
            places: BTreeMap::new(),
            series: Vec::new(),
            last: None,
            silent: BTreeSet::new(),
        }
    }

    /// Names a node that was to be recorded. If no row of it comes, every total lacks it and says so.
    pub fn expect_node(&mut self, node: &str) {
        self.silent.insert(node.to_owned());
    }

    /// Takes one row of one series.
    pub fn push(&mut self, source: &str, node: &str, socket: u32, observation: Observation) {
        let place = self.place(source, node, socket);
        let series = &mut self.series[place];
        let pushed = match observation {
            Observation::Reading(sample) => series.integrator.push(sample),
            Observation::Withheld { at_s, state } => series.integrator.withhold(at_s, state),
        };
        match pushed {
            // A counter out of order costs the counter and not the power, and the windows say so.
            Ok(()) | Err(PushError::Counter { .. } | PushError::CounterOutOfOrder { .. }) => {}
            Err(error) => series.refuse(&error),
        }
        series.completed.extend(series.integrator.completed());
    }

    /// Ends all series and adds them up.
    pub fn finish(mut self) -> Statement {
        let mut statement = Statement::default();
        let places = std::mem::take(&mut self.places);
        let mut series: Vec<Option<Series>> = self.series.into_iter().map(Some).collect();
        for (key, place) in places {
            self.silent.remove(&key.node);
            let Some(Series { integrator, mut completed, refused, refused_s }) =
                series[place].take()
            else {
                continue;
            };
            statement.refused += refused;
            completed.extend(integrator.finish());
            // A window may have been complete before the reading came that it lacks.
            for (_, energy) in &mut completed {
                if refused_s.is_some_and(|(from, to)| energy.start_s <= to && from <= energy.end_s)
                {
                    energy.reasons.insert(Reason::OutOfOrder);
                }
            }
            completed.sort_by_key(|(window, _)| *window);
            statement.sockets.extend(
                completed.into_iter().map(|(window, energy)| (key.clone(), window, energy)),
            );
        }
        statement.silent = self.silent.into_iter().collect();
        statement.nodes = nodes(&statement.sockets);
        let nothing = Integrator::new(self.windows, self.limits).finish().collect();
        statement.totals = totals(&statement, nothing);
        statement
    }

    fn place(&mut self, source: &str, node: &str, socket: u32) -> usize {
        if let Some((key, place)) = &self.last
            && key.socket == socket
            && key.node == node
            && key.source == source
        {
            return *place;
        }
        let key = SeriesKey { source: source.to_owned(), node: node.to_owned(), socket };
        let place = *self.places.entry(key.clone()).or_insert_with(|| {
            let integrator = Integrator::new(self.windows.clone(), self.limits);
            self.series.push(Series {
                integrator,
                completed: Vec::new(),
                refused: 0,
                refused_s: None,
            });
            self.series.len() - 1
        });
        self.last = Some((key, place));
        place
    }
}

/// The sums of each node's sockets.
fn nodes(sockets: &[(SeriesKey, usize, Energy)]) -> Vec<(NodeKey, usize, FleetEnergy)> {
    let mut members: BTreeMap<(NodeKey, usize), Vec<Energy>> = BTreeMap::new();
    for (key, window, energy) in sockets {
        let node = NodeKey { source: key.source.clone(), node: key.node.clone() };
        members.entry((node, *window)).or_default().push(energy.clone());
    }
    let sum = |((node, window), members): ((NodeKey, usize), Vec<Energy>)| {
        // The windows of one number are one window, and no list of members is empty.
        Some((node, window, sum_energy(&members).ok()?))
    };
    members.into_iter().filter_map(sum).collect()
}

/// The sums of all nodes of a source, with a member that states nothing for each silent node.
fn totals(
    statement: &Statement,
    nothing: BTreeMap<usize, Energy>,
) -> Vec<(String, usize, FleetEnergy)> {
    let mut sockets: BTreeMap<(&str, usize), Vec<Energy>> = BTreeMap::new();
    for (key, window, energy) in &statement.sockets {
        sockets.entry((&key.source, *window)).or_default().push(energy.clone());
    }
    let mut nodes: BTreeMap<(&str, usize), Vec<&FleetEnergy>> = BTreeMap::new();
    for (key, window, energy) in &statement.nodes {
        nodes.entry((&key.source, *window)).or_default().push(energy);
    }
    let mut totals = Vec::new();
    for (((source, window), mut members), nodes) in sockets.into_iter().zip(nodes.into_values()) {
        let silent = statement.silent.len();
        members.extend(nothing.get(&window).into_iter().cycle().take(silent).cloned());
        let Ok(mut total) = sum_energy(&members) else { continue };
        total.members_full =
            nodes.iter().filter(|node| node.members_full == node.members_expected).count();
        total.members_reporting = nodes.iter().filter(|node| node.energy_j.is_some()).count();
        total.members_expected = nodes.len() + silent;
        // Its members are nodes, and so is what its coverage is the mean of.
        let covered: f64 = nodes.iter().map(|node| node.coverage).sum();
        total.coverage = covered / total.members_expected as f64;
        totals.push((source.to_owned(), window, total));
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Verdict;
    use crate::window::Window;

    /// 100 W on every socket each second from 0 to 10.
    fn ledger(sockets: &[(&str, &str, u32)]) -> Ledger {
        let windows = Windows::list([Window::new(2.0, 6.0).unwrap()]);
        let mut ledger = Ledger::new(windows, Limits::default());
        for second in 0..=10 {
            for (source, node, socket) in sockets {
                let sample = Sample::power(f64::from(second), 100.0);
                ledger.push(source, node, *socket, Observation::Reading(sample));
            }
        }
        ledger
    }

    #[test]
    fn sockets_add_up_to_nodes_and_nodes_to_a_total_of_their_source() {
        let sockets = [("acpi", "b", 0), ("acpi", "a", 1), ("acpi", "a", 0), ("rapl", "c", 0)];
        let statement = ledger(&sockets).finish();
        let per_socket: Vec<_> = statement
            .sockets
            .iter()
            .map(|(key, _, energy)| (key.node.as_str(), key.socket, energy.energy_j))
            .collect();
        let one = Some(400.0);
        assert_eq!(per_socket, [("a", 0, one), ("a", 1, one), ("b", 0, one), ("c", 0, one)]);
        let per_node: Vec<_> =
            statement.nodes.iter().map(|(key, _, sum)| (key.node.as_str(), sum.energy_j)).collect();
        assert_eq!(per_node, [("a", Some(800.0)), ("b", one), ("c", one)]);
        let totals: Vec<_> = statement
            .totals
            .iter()
            .map(|(source, _, sum)| (source.as_str(), sum.energy_j, sum.members_expected))
            .collect();
        assert_eq!(totals, [("acpi", Some(1200.0), 2), ("rapl", one, 1)]);
    }

    #[test]
    fn a_node_that_never_reported_withholds_the_total() {
        let mut ledger = ledger(&[("acpi", "a", 0)]);
        ledger.expect_node("a");
        ledger.expect_node("dead");
        let statement = ledger.finish();
        assert_eq!(statement.silent, ["dead"]);
        let (_, _, total) = &statement.totals[0];
        assert_eq!(total.energy_j, None);
        assert_eq!(total.verdict, Verdict::None);
        assert_eq!((total.members_reporting, total.members_expected), (1, 2));
        assert_eq!(total.coverage, 0.5, "of two nodes, whatever their sockets");
    }

    #[test]
    fn a_socket_that_is_only_ever_withheld_withholds_its_node() {
        let mut ledger = ledger(&[("acpi", "a", 0)]);
        for second in 0..=10 {
            let stale = Observation::Withheld { at_s: f64::from(second), state: State::Stale };
            ledger.push("acpi", "a", 1, stale);
        }
        let statement = ledger.finish();
        let (_, _, node) = &statement.nodes[0];
        assert_eq!(node.energy_j, None);
        assert_eq!((node.members_reporting, node.members_expected), (1, 2));
    }

    #[test]
    fn a_row_is_a_reading_or_says_why_not() {
        let withheld = |state| Observation::Withheld { at_s: 1.0, state };
        let cases = [
            (Some(5.0), State::Ok, Observation::Reading(Sample::power(1.0, 5.0))),
            (Some(0.0), State::Ok, withheld(State::Unavailable)),
            (None, State::Ok, withheld(State::Unavailable)),
            (None, State::Stale, withheld(State::Stale)),
        ];
        for (watts, state, expected) in cases {
            assert_eq!(
                Observation::of_socket(1.0, watts, state, None),
                expected,
                "{watts:?} {state}"
            );
        }
    }

    #[test]
    fn a_reading_that_is_left_out_marks_the_windows_that_lack_it() {
        let windows = [Window::new(0.0, 10.0).unwrap(), Window::new(12.0, 20.0).unwrap()];
        let reasons = |readings: &[(f64, f64)]| -> Vec<bool> {
            let mut ledger = Ledger::new(Windows::list(windows), Limits::default());
            for (at_s, watts) in readings {
                let reading = Observation::Reading(Sample::power(*at_s, *watts));
                ledger.push("acpi", "a", 0, reading);
            }
            let sockets = ledger.finish().sockets;
            sockets
                .iter()
                .map(|(_, _, energy)| energy.reasons.contains(&Reason::OutOfOrder))
                .collect()
        };
        let line = |seconds: std::ops::Range<u32>| seconds.map(|s| (f64::from(s), 100.0));
        let in_order: Vec<_> = line(0..21).collect();
        assert_eq!(reasons(&in_order), [false, false]);
        // The first window was complete when its second value at 10 s came.
        let twice: Vec<_> = line(0..11).chain([(10.0, 900.0)]).chain(line(11..21)).collect();
        assert_eq!(reasons(&twice), [true, false]);
        let far: Vec<_> = line(0..11).chain([(1000.0, 100.0)]).chain(line(11..21)).collect();
        assert_eq!(reasons(&far), [false, true]);
    }

    #[test]
    fn a_counter_that_is_none_costs_no_power() {
        for (at_s, joules) in [(None, -5.0), (None, f64::INFINITY), (Some(f64::NAN), 5.0)] {
            let windows = Windows::list([Window::new(0.0, 10.0).unwrap()]);
            let mut ledger = Ledger::new(windows, Limits::default());
            for second in 0..=10 {
                let at = f64::from(second);
                let counter = CounterSample { at_s: at_s.unwrap_or(at), joules, since_s: None };
                let sample = Sample { counter: Some(counter), ..Sample::power(at, 100.0) };
                ledger.push("rapl", "a", 0, Observation::Reading(sample));
            }
            let statement = ledger.finish();
            let (_, _, energy) = &statement.sockets[0];
            assert_eq!((energy.energy_j, energy.counter_energy_j), (Some(1000.0), None));
            assert_eq!((energy.verdict, statement.refused), (Verdict::Full, 0));
        }
    }

    #[test]
    fn a_power_beyond_all_meters_is_none() {
        let windows = Windows::list([Window::new(0.0, 10.0).unwrap()]);
        let mut ledger = Ledger::new(windows, Limits::default());
        for second in 0..=10 {
            let sample = Sample::power(f64::from(second), 1e308);
            ledger.push("acpi", "a", 0, Observation::Reading(sample));
        }
        let statement = ledger.finish();
        assert_eq!((statement.sockets[0].2.energy_j, statement.refused), (None, 11));
    }
}
