//! The worked example of docs/energy.md, computed by the engine that it explains.

use wattscribe_rules::{Integrator, Limits, Sample, Window, Windows};

use crate::markdown::{code, section, table};
use crate::repository::text;

#[test]
fn the_example_comes_out_as_it_is_written() {
    let page = text("docs/energy.md");
    // The results are the second table of the section.
    let example = section(&page, "An example");
    let results = &example[example.find("| result |").expect("results")..];
    let results = table(&format!("# results\n{results}"), "results");
    assert!(example.contains("Gap limit 3 s, window from 1 s to 8 s"), "the example has moved");

    let windows = Windows::list([Window::new(1.0, 8.0).unwrap()]);
    let mut integrator = Integrator::new(windows, Limits::new(3.0).unwrap());
    for row in table(&page, "An example") {
        let number = |cell: &str| cell.parse::<f64>().unwrap();
        integrator.push(Sample::power(number(&row[0]), number(&row[1]))).unwrap();
    }
    let (_, energy) = integrator.finish().next().unwrap();
    let reasons: Vec<String> = energy.reasons.iter().map(ToString::to_string).collect();
    let number = |value: Option<f64>| ((value.unwrap() * 1e6).round() / 1e6).to_string();
    let computed = [
        ("energy_j", number(energy.energy_j)),
        ("covered_s", number(Some(energy.covered_s))),
        ("coverage", number(Some(energy.coverage))),
        ("avg_w", number(energy.avg_w)),
        ("energy_low_j", number(energy.energy_low_j)),
        ("energy_high_j", number(energy.energy_high_j)),
        ("samples", energy.samples.to_string()),
        ("largest_gap_s", number(Some(energy.largest_gap_s))),
        ("min_w", number(energy.min_w)),
        ("max_w", number(energy.max_w)),
        ("p50_w", number(energy.p50_w)),
        ("verdict", energy.verdict.to_string()),
        ("reasons", reasons.join(";")),
    ];
    let written: Vec<(String, String)> =
        results.iter().map(|row| (code(&row[0]).concat(), row[1].clone())).collect();
    assert_eq!(written, computed.map(|(name, value)| (name.to_owned(), value)));
}
