//! What a rule means: whether its inputs may be put together as it says, and whether the result is what it says.
//!
//! A rule that passes here counts nothing twice and adds nothing to what contains it. The checks go from each input alone
//! to all of them together to the result, and the first that fails is the fault of the rule.

use super::breach::{Breach, Covering};
use super::draft::{Draft, Form};
use super::fault::{Fault, Faults, Meant, Place};
use super::input::{Above, Known};
use super::kind::Kind;
use super::selector::{Condition, Selector};
use super::unit::{JOULES, Unit, WATTS};
use super::{From, Function, Over, Rule, Timing};
use crate::averaging::Averaging;
use crate::boundary::{Boundary, may_add};

/// What a rule breaks, and where.
type Broken = (Place, Breach);

/// The rule that a draft means, without its hash; `None` when a fault is noted, here or of a rule that it takes.
pub(super) fn rule(
    draft: &Draft,
    above: &Above<'_>,
    timing: Timing,
    faults: &mut Faults,
) -> Option<Rule> {
    let mut inputs = Vec::new();
    let taken = || draft.of.iter().chain(draft.form.others());
    for taken in taken() {
        let found = above.find(taken);
        inputs.extend(faults.keep(taken.place, found).flatten());
    }
    if inputs.len() < taken().count() {
        return None;
    }
    if let Some(member) = &draft.member {
        for known in &mut inputs {
            known.input.member = with_node(member);
        }
    }
    let meaning = Meaning { draft, inputs: &inputs, timing };
    match meaning.check() {
        Ok(over) => Some(built(draft, inputs, over)),
        Err((place, breach)) => {
            faults.push(place, Fault::Meaning(breach));
            None
        }
    }
}

fn with_node(labels: &[String]) -> Vec<String> {
    let mut labels = labels.to_vec();
    labels.push(Rule::NODE.to_owned());
    labels.sort();
    labels.dedup();
    labels
}

/// Puts the rule together.
fn built(draft: &Draft, inputs: Vec<Known>, over: Option<Over>) -> Rule {
    let function = function(draft, inputs, over);
    let require = draft.require.unwrap_or_else(|| draft.kind.require(over.is_some()));
    Rule {
        name: draft.name.clone(),
        about: draft.about.clone(),
        function,
        by: draft.by.clone(),
        require,
        withhold: draft.withhold,
        boundary: draft.boundary,
        unit: draft.unit.clone(),
        hash: String::new(),
    }
}

/// Puts the function together, of the inputs of the draft in their order: as many as its form has.
fn function(draft: &Draft, inputs: Vec<Known>, over: Option<Over>) -> Function {
    let mut of: Vec<_> = inputs.into_iter().map(|known| known.input).collect();
    let mut others = of.split_off(draft.of.len());
    match draft.form {
        Form::Sum => Function::Sum { of, over },
        Form::Max(_) => Function::Max { of, over },
        Form::Min(_) => Function::Min { of, over },
        Form::Mean => Function::Mean { of: of.remove(0) },
        Form::Residual(_) => Function::Residual { of: of.remove(0), less: others },
        Form::Ratio(_) => Function::Ratio { of: of.remove(0), to: others.remove(0) },
        Form::Quantile(quantile, over) => Function::Quantile { of: of.remove(0), quantile, over },
        Form::Integrate(over) => Function::Integrate { of: of.remove(0), over },
        Form::Increase(over) => Function::Increase { of: of.remove(0), over },
        Form::Check(_, over) => {
            Function::Check { of: of.remove(0), against: others.remove(0), over }
        }
    }
}

struct Meaning<'a> {
    draft: &'a Draft,
    inputs: &'a [Known],
    timing: Timing,
}

impl Meaning<'_> {
    /// The windows of the result.
    fn check(&self) -> Result<Option<Over>, Broken> {
        for known in self.inputs {
            self.levels(known)?;
            self.labels(known)?;
        }
        for known in self.inputs {
            self.counters(known)?;
            self.added(known)?;
        }
        self.units()?;
        let over = self.windows()?;
        self.guards(over.is_some())?;
        self.boundaries()?;
        Ok(over)
    }

    fn function(&self) -> &'static str {
        self.draft.kind.as_str()
    }

    fn of(&self) -> &[Known] {
        &self.inputs[..self.draft.of.len()]
    }

    fn others(&self) -> &[Known] {
        &self.inputs[self.draft.of.len()..]
    }

    /// Rules of the fleet take results of nodes, so that nodes can be computed one by one.
    fn levels(&self, known: &Known) -> Result<(), Broken> {
        let is_fleet = !self.draft.by.iter().any(|label| label == Rule::NODE);
        let is_rule = matches!(known.input.from, From::Rule(_));
        let fits = if is_fleet { known.is_of_nodes } else { known.is_of_nodes || !is_rule };
        let breach = Breach::Level { name: known.name(), is_fleet };
        if fits { Ok(()) } else { Err((known.place, breach)) }
    }

    /// Every label that the rule speaks of is there.
    fn labels(&self, known: &Known) -> Result<(), Broken> {
        let Some(labels) = &known.labels else { return Ok(()) };
        let draft = self.draft;
        let matched = known.input.selector.matchers.iter().map(|m| (known.place, &m.label));
        let kept = draft.by.iter().map(|label| (draft.by_place, label));
        let member = draft.member.iter().flatten().map(|label| (draft.member_place, label));
        for (place, label) in matched.chain(kept).chain(member) {
            if label != Rule::NODE && !labels.contains(label) {
                let is_of_sockets = known.input.from == From::Sockets;
                let (name, label) = (known.name(), label.clone());
                let known = labels.iter().map(String::as_str).filter(|known| *known != Rule::NODE);
                let meant = Meant::of_alike(&label, known.chain([Rule::NODE]));
                return Err((place, Breach::NoLabel { name, label, meant, is_of_sockets }));
            }
        }
        Ok(())
    }

    /// Results of windows go into sums of the same windows and nowhere else.
    fn windows(&self) -> Result<Option<Over>, Broken> {
        let function = self.function();
        if let Some(known) = self.inputs.iter().find(|known| known.over.is_some())
            && self.draft.kind != Kind::Sum
        {
            return Err((known.place, Breach::OfWindows { name: known.name(), function }));
        }
        let first = &self.inputs[0];
        if let Some(other) = self.inputs.iter().find(|known| known.over != first.over) {
            let (one, other_name) = (first.name(), other.name());
            return Err((other.place, Breach::Windows { one, other: other_name }));
        }
        if let Some(Over::Aligned { length, .. }) = self.draft.form.over() {
            for known in self.inputs {
                if let Averaging::Mean { window_s } = known.input.averaging
                    && length.as_secs_f64() < window_s
                {
                    let (name, window_s) = (known.name(), window_s.to_string());
                    return Err((known.place, Breach::Short { name, length, window_s }));
                }
            }
        }
        let Timing { every, gap, .. } = self.timing;
        let results = self.inputs.iter().find(|known| matches!(known.input.from, From::Rule(_)));
        if let Some(known) = results.filter(|_| self.draft.form.over().is_some() && every > gap) {
            return Err((known.place, Breach::Gap { name: known.name(), every, gap }));
        }
        Ok(self.draft.form.over().or(first.over))
    }

    /// Guards that the function can keep.
    fn guards(&self, has_windows: bool) -> Result<(), Broken> {
        let (draft, function) = (self.draft, self.function());
        let guard = |place, key, expected| Err((place, Breach::Guard { key, function, expected }));
        if draft.withhold.spread_above.is_some() && has_windows {
            return guard(
                draft.withhold_place,
                "spread_above",
                "it for an instant, not for windows",
            );
        }
        if draft.withhold.coverage_below.is_some() && !has_windows {
            return guard(draft.withhold_place, "coverage_below", "it with windows only");
        }
        if draft.require.is_some() && !draft.kind.has_require(has_windows) {
            let expected = "none: every member is needed";
            return guard(draft.require_place, "require", expected);
        }
        if draft.kind.takes_several()
            && draft.kind != Kind::Sum
            && has_windows
            && draft.of.len() > 1
        {
            let expected = "one selector with windows";
            return guard(draft.of[1].place, "of", expected);
        }
        Ok(())
    }

    /// Counters go where their movement is taken, and nothing else goes there.
    fn counters(&self, known: &Known) -> Result<(), Broken> {
        let function = self.function();
        let is_against = self.others().iter().any(|other| std::ptr::eq(other, known));
        let needs_counter = match self.draft.kind {
            Kind::Increase => true,
            Kind::Check => is_against,
            _ => false,
        };
        match (needs_counter, known.is_counter) {
            (true, false) => Err((known.place, Breach::NoCounter { name: known.name(), function })),
            (false, true) => Err((known.place, Breach::Counter { name: known.name(), function })),
            _ => Ok(()),
        }
    }

    /// What one input adds up by itself.
    fn added(&self, known: &Known) -> Result<(), Broken> {
        let (name, function, boundary) = (known.name(), self.function(), known.input.boundary);
        if !self.draft.kind.adds() {
            return Ok(());
        }
        if known.repeats {
            return Err((known.place, Breach::Repeats { name, boundary, function }));
        }
        if boundary == Boundary::Rest {
            return Err((known.place, Breach::Rest { name, function }));
        }
        Ok(())
    }

    fn units(&self) -> Result<(), Broken> {
        let first = &self.inputs[0];
        let needed = match self.draft.kind {
            Kind::Residual | Kind::Integrate => Some(WATTS),
            _ => None,
        };
        let of_first = needed.unwrap_or(&first.input.unit);
        let fits =
            |known: &Known| self.draft.kind == Kind::Ratio || same(&known.input.unit, of_first);
        // The counter of a check is a counter already, so in joules.
        let checked = if self.draft.kind == Kind::Check { self.of() } else { self.inputs };
        if let Some(known) = checked.iter().find(|known| !fits(known)) {
            let expected = match needed {
                Some(unit) => unit.to_owned(),
                None => format!("{of_first} as {}", first.name()),
            };
            let (name, unit) = (known.name(), known.input.unit.clone());
            return Err((known.place, Breach::InputUnit { name, unit, expected }));
        }
        if self.draft.kind == Kind::Check && !same(of_first, WATTS) {
            let (name, unit) = (first.name(), first.input.unit.clone());
            return Err((
                first.place,
                Breach::InputUnit { name, unit, expected: WATTS.to_owned() },
            ));
        }
        let result = match self.draft.kind {
            Kind::Integrate | Kind::Increase | Kind::Check => JOULES.to_owned(),
            Kind::Ratio => quotient(of_first, &self.inputs[1].input.unit),
            _ => of_first.to_owned(),
        };
        let stated = self.draft.unit.clone();
        if same(&stated, &result) {
            return Ok(());
        }
        Err((self.draft.unit_place, Breach::Unit { stated, expected: result }))
    }

    fn boundaries(&self) -> Result<(), Broken> {
        let (draft, of) = (self.draft, self.of());
        let first = &of[0];
        match draft.kind {
            Kind::Sum => {
                disjoint(of)?;
                let mut all: Vec<Boundary> = of.iter().map(|known| known.input.boundary).collect();
                all.sort();
                all.dedup();
                if all.len() == 1 {
                    return self.stated(all[0]);
                }
                let stated = draft.boundary;
                if all.iter().all(|part| stated == *part || stated.contains(*part)) {
                    return Ok(());
                }
                let breach = Breach::Boundary { stated, expected: all, contains: true };
                Err((draft.boundary_place, breach))
            }
            Kind::Residual => {
                let whole = first.covering();
                if let Some(known) = self.others().iter().find(|known| !is_part(known, &whole)) {
                    let part = known.covering();
                    return Err((known.place, Breach::NoPart { part, whole }));
                }
                disjoint(self.others())?;
                let parts = self.others().iter().map(|known| known.input.boundary);
                self.stated(Boundary::left_of(whole.boundary, parts))
            }
            // Something by what a thing draws is of that thing.
            Kind::Ratio => self.stated(self.inputs[1].input.boundary),
            _ => {
                let other = self.inputs.iter().find(|k| k.input.boundary != first.input.boundary);
                if let Some(other) = other {
                    let (one, function) = (first.covering(), self.function());
                    let breach = Breach::Different { function, one, other: other.covering() };
                    return Err((other.place, breach));
                }
                self.stated(first.input.boundary)
            }
        }
    }

    fn stated(&self, expected: Boundary) -> Result<(), Broken> {
        let stated = self.draft.boundary;
        if stated == expected {
            return Ok(());
        }
        let breach = Breach::Boundary { stated, expected: vec![expected], contains: false };
        Err((self.draft.boundary_place, breach))
    }
}

fn is_part(known: &Known, whole: &Covering) -> bool {
    whole.boundary.contains(known.input.boundary)
}

/// That no two of them count the same.
fn disjoint(inputs: &[Known]) -> Result<(), Broken> {
    for (at, known) in inputs.iter().enumerate() {
        for before in &inputs[..at] {
            let (a, b) = (before.input.boundary, known.input.boundary);
            // Equal boundaries may be two meters of one thing, unless the matchers keep them apart.
            let is_apart = a != b || are_apart(&before.input.selector, &known.input.selector);
            if !may_add(a, b) || !is_apart {
                let (one, other) = (before.covering(), known.covering());
                return Err((known.place, Breach::Overlap { one, other }));
            }
        }
    }
    Ok(())
}

/// Whether no series can be in both, because one fixes a label to a text that the other refuses.
fn are_apart(a: &Selector, b: &Selector) -> bool {
    let refuses = |fixed: &Selector, other: &Selector| {
        fixed.matchers.iter().any(|one| match &one.condition {
            Condition::Is(text) => other
                .matchers
                .iter()
                .any(|two| two.label == one.label && !two.condition.holds(text)),
            _ => false,
        })
    };
    a.metric == b.metric && (refuses(a, b) || refuses(b, a))
}

/// Whether two texts are one unit.
fn same(a: &str, b: &str) -> bool {
    a == b || matches!((Unit::parse(a), Unit::parse(b)), (Some(a), Some(b)) if a == b)
}

fn quotient(of: &str, to: &str) -> String {
    match (Unit::parse(of), Unit::parse(to)) {
        (Some(of), Some(to)) => of.by(&to).to_string(),
        _ => format!("{of}/{to}"),
    }
}
