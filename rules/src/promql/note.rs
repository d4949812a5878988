//! What the comments say: by how much an answer of Prometheus may differ from ours, and why.

use crate::promql::Options;
use crate::promql::over_time::{Gathers, Windows};
use crate::promql::refusal::Refusal;
use crate::rule::{From, Function, Over, Require, Rule, RuleSet, duration};

/// What holds for every rule of the file.
pub(super) fn heading(set: &RuleSet, options: &Options) -> Vec<String> {
    let text = duration::text;
    let (interval, remember) = (text(options.scrape_interval), text(options.remember));
    let mut heading = vec![
        "Written by `wattscribe rules export`: change the rule file and write it again. Beside it are unit tests, for \
         `promtool test rules`."
            .to_owned(),
        String::new(),
        format!(
            "For a Prometheus that scrapes every {interval}, with the target in the label `{}`. Compare it with a rule file of \
             every: {}, gap: {}, look_back: {}.",
            options.node_label,
            text(set.timing.every),
            text(set.timing.gap),
            text(set.timing.look_back)
        ),
        String::new(),
        "Where a value stands here, Wattscribe has it too, but for what each rule says below and for these:".to_owned(),
        format!(
            "- A value stands at its scrape, and with Wattscribe where its sensor was read. It may be as old as {interval} and \
             the exporter's own interval together, and differs by what the power changed in that time."
        ),
        "- A scrape that is under way at an evaluation counts from the next one on.".to_owned(),
        format!(
            "- Members are expected for {remember} after they were seen last, with Wattscribe to the end of the recording. From \
             then on a sum has fewer members. A Prometheus that is down for more than 15m forgets them at once."
        ),
        "- A reading is seen until the next scrape of its target, and not for a time that the file says.".to_owned(),
        "- Two series of one member are no reading. The recorder takes the first of two meters of a socket.".to_owned(),
        "- Sums are plain and not compensated: 1 part in 10^12.".to_owned(),
    ];
    heading.push(String::new());
    heading.push(
        "member:...:reading has each member that reports, member:...:expected when each was seen last; both help the rules below \
         them, and so do series:..."
            .to_owned(),
    );
    heading
}

/// What stands above a rule.
pub(super) fn of_rule(
    rule: &Rule,
    set: &RuleSet,
    options: &Options,
    refusal: Option<&Refusal>,
) -> Vec<String> {
    let about = match rule.about.as_str() {
        "" => rule.function.as_str(),
        about => about,
    };
    let mut lines = vec![format!("{} [{}], {about} ({})", rule.name, rule.unit, rule.boundary)];
    match refusal {
        Some(refusal) => lines.push(format!("Not here: {refusal}.")),
        None => lines.extend(differences(rule, set, options)),
    }
    lines
}

/// How far the answer may differ, in numbers.
fn differences(rule: &Rule, set: &RuleSet, options: &Options) -> Vec<String> {
    let mut lines = Vec::new();
    if !rule.is_of_node() && rule.require == Require::All {
        lines.push(format!(
            "Withheld while a target of the job {} never answered: it may be a node with anything.",
            options.jobs
        ));
    }
    let Some(Over::Aligned { every, .. }) = rule.over().copied() else { return lines };
    let step = |from: From| match from {
        From::Rule(_) => set.timing.every,
        From::Sockets | From::Page => options.scrape_interval,
    };
    let Some(input) = rule.inputs().into_iter().next() else { return lines };
    let windows = Windows::of(rule, step(input.from), set.timing.gap);
    let Some((windows, gathers)) = windows.zip(Gathers::of(rule, 0)) else {
        return lines;
    };
    let text = duration::text;
    let (step, length, edge) = (text(windows.step), text(windows.length), text(windows.edge));
    lines.push(format!(
        "The window is the last whole one that was over {} before the evaluation; its value is recorded up to {} after its end.",
        text(windows.gap),
        text(every + windows.gap)
    ));
    if gathers != Gathers::Gain {
        lines.push(format!(
            "Withheld where fewer than {} readings of a series are in the window{}; Wattscribe has what is covered, and its coverage. \
             Readings are counted and not the time between them: of the window up to {step} more may be open than is asked for, and \
             up to {} where scrapes fall on its edges. A scrape that is late past an edge is missing in its window.",
            windows.readings_min,
            if input.zero_is_missing { ", or one of them is zero" } else { "" },
            text(windows.step * 2)
        ));
    }
    lines.extend(match gathers {
        Gathers::Energy => Some(format!(
            "The mean of the readings by {length}, and not the area below the line through them. It differs by at most (highest - lowest \
             reading of the window and its neighbours) x {step}, once more for each reading that is missing, and has what \
             Wattscribe says is not covered too, at the mean."
        )),
        Gathers::Gain => Some(format!(
            "The last reading before the end less the last before the beginning, and not the counter at the edges: it differs by at most \
             what the counter moves in {edge} at either edge. Withheld where such a reading is older than {edge}, and where the counter \
             began anew in the window or up to {edge} before it; Wattscribe withholds where the readings around an edge are more than {} \
             apart, or the counter began anew between them. increase() would extrapolate.",
            text(windows.gap)
        )),
        Gathers::Quantile(_) | Gathers::Greatest | Gathers::Least => {
            matches!(input.from, From::Rule(_)).then(|| {
                format!(
                    "Of results as they were recorded here, every {step}: one more or less at either edge than with Wattscribe."
                )
            })
        }
    });
    if let Function::Check { .. } = rule.function {
        lines.push(format!(
            "Compared with 5 % of the counter. Wattscribe adds what the readings leave open between them, and so withholds less. The \
             counter is that of the last scrape before each edge: where {step} do not divide {length}, it is of up to {step} more or \
             less than the window."
        ));
    }
    lines
}
