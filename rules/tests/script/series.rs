//! One token for each scrape.

use wattscribe_rules::rule::From;

use super::number;
use crate::history::{Labels, Reading, Target, Told};

/// What is recorded per socket, whatever else is on the page.
const OF_SOCKETS: [&str; 5] = [
    "cpu_power_acpi_watts",
    "cpu_power_dcgm_watts",
    "cpu_power_rapl_watts",
    "cpu_power_nvml_watts",
    "cpu_energy_joules_total",
];

/// Changes scrapes by tokens such as `ok`, `okx5` (six of them, as in promtool), and any of these joined by `/`:
/// `fail`, `dup` (it has the number of the one before), `old` (a number before that), `restart` (a new recording begins with it), `+1.5` (it began so
/// much later, `-1.5` earlier). Scrapes behind the last token are `ok`.
pub(crate) fn scrapes(scrapes: &mut [Told], tokens: &str) {
    let tokens: Vec<String> = tokens.split_whitespace().flat_map(repeat).collect();
    assert!(tokens.len() <= scrapes.len(), "{} tokens for {} scrapes", tokens.len(), scrapes.len());
    for (place, token) in tokens.iter().enumerate() {
        for word in token.split('/') {
            match word {
                "ok" => {}
                "fail" => scrapes[place].page = None,
                "restart" => scrapes[place].begins_session = true,
                "dup" => scrapes[place].seq = scrapes[place - 1].seq,
                "old" => scrapes[place].seq = scrapes[place - 1].seq - 1,
                moved => {
                    let start_s = scrapes[place].start_s + number(moved);
                    scrapes[place].start_s = (start_s * 1e6).round() / 1e6;
                }
            }
        }
    }
}

/// Puts a series on pages: `500`, `500x3` (four times), `500+1x3` (500 501 502 503), `_` (not there), `_x3` (three times
/// not there), a state such as `stale` (there, without a number), `NaN`, `Inf`. Behind a value, `@7.5` is when it was
/// read, in seconds, `~-0.5` the same from the beginning of the scrape, and `^3` since when a counter counts. A value
/// without these was read when its scrape began.
pub(crate) fn readings(target: &mut Target, line: &str) {
    let (series, tokens) = match line.split_once("} ") {
        Some((series, tokens)) => (series, tokens),
        None => line.split_once(' ').unwrap_or_else(|| panic!("{line:?}")),
    };
    let (metric, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = parse_labels(labels);
    let from = if OF_SOCKETS.contains(&metric) { From::Sockets } else { From::Page };
    let tokens: Vec<String> = tokens.split_whitespace().flat_map(repeat).collect();
    assert!(tokens.len() <= target.scrapes.len(), "{line:?} has {} tokens", tokens.len());
    for (told, token) in target.scrapes.iter_mut().zip(&tokens) {
        let Some(page) = &mut told.page else {
            assert_eq!(token, "_", "{line:?}: a scrape that failed has no page");
            continue;
        };
        if token == "_" {
            continue;
        }
        let (token, since) = cut(token, '^');
        let (token, at) = cut(token, '@');
        let (value, moved) = cut(token, '~');
        let at_s = at.map_or_else(
            || ((told.start_s + moved.map_or(0.0, number)) * 1e6).round() / 1e6,
            number,
        );
        let value = match value.parse() {
            Ok(state) => Err(state),
            Err(_) => Ok(number(value)),
        };
        let (metric, labels) = (metric.to_owned(), labels.clone());
        page.push(Reading { from, metric, labels, at_s, value, since_s: since.map(number) });
    }
}

fn cut(token: &str, mark: char) -> (&str, Option<&str>) {
    token.split_once(mark).map_or((token, None), |(token, rest)| (token, Some(rest)))
}

/// Writes `500+1x3` out. What stands behind a time mark belongs to every token.
fn repeat(token: &str) -> Vec<String> {
    let marked = token.find(['~', '@', '^']).unwrap_or(token.len());
    let (value, marks) = token.split_at(marked);
    let times =
        value.rsplit_once('x').and_then(|(value, times)| Some((value, times.parse().ok()?)));
    let Some((value, times)) = times else { return vec![token.to_owned()] };
    let times: usize = times;
    if value == "_" {
        return vec!["_".to_owned(); times];
    }
    let step = value[1..].rfind(['+', '-']).map(|place| place + 1);
    let stepped = step.and_then(|at| Some((value[..at].parse().ok()?, value[at..].parse().ok()?)));
    let written = |place: usize| match stepped {
        Some((first, step)) => {
            let (first, step): (f64, f64) = (first, step);
            format!("{}{marks}", first + step * place as f64)
        }
        None => format!("{value}{marks}"),
    };
    (0..=times).map(written).collect()
}

/// Labels as they stand on a page, without the closing brace.
pub(crate) fn parse_labels(text: &str) -> Labels {
    let mut labels = Labels::new();
    let mut rest = text.trim_end_matches('}');
    while let Some((name, tail)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut signs = tail.char_indices();
        let end = loop {
            match signs.next() {
                Some((place, '"')) => break place,
                Some((_, '\\')) => match signs.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, sign)) => value.push(sign),
                    None => panic!("{text:?} ends in a backslash"),
                },
                Some((_, sign)) => value.push(sign),
                None => panic!("{text:?} has no closing quote"),
            }
        };
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        rest = &tail[end + 1..];
    }
    labels
}
