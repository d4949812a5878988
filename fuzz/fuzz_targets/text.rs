//! Any bytes as an exposition in the text format.
//!
//! Promises checked: no panic; reading ends, with one entry a line at most and in order; strict and
//! lenient reading agree; and what was read without a fault reads back equal after it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wattscribe_parser::{
    Entry, Exposition, Family, Format, Kind, Limits, Number, Sample, Writer, samples,
};

fuzz_target!(|body: &[u8]| {
    let mut line = 0;
    let mut read = 0;
    let mut faults = 0;
    for entry in Exposition::new(body).into_iter().flatten() {
        match entry {
            Ok(Entry::Sample(sample)) => {
                assert!(sample.line > line, "samples are in order");
                assert_eq!(sample.labels.iter().count(), sample.labels.len());
                line = sample.line;
                read += 1;
            }
            Ok(Entry::Type { .. } | Entry::Help { .. }) => {}
            Err(fault) => {
                assert!(fault.line > line && fault.column > 0, "{fault}");
                line = fault.line;
                faults += 1;
            }
        }
    }
    if let Ok(samples) = samples(body) {
        assert_eq!((samples.len(), faults), (read, 0));
        check_round_trip(&samples);
    }
});

/// An escape that nobody asked for is written with one more byte, so a text may outgrow its limit.
const UNLIMITED: Limits = Limits {
    body_bytes: usize::MAX,
    line_bytes: usize::MAX,
    labels: usize::MAX,
    name_bytes: usize::MAX,
    value_bytes: usize::MAX,
};

/// Writes the samples and reads them back. A timestamp is not written, so it is not compared.
fn check_round_trip(samples: &[Sample<'_>]) {
    let mut writer = Writer::new(Format::Text);
    for sample in samples {
        let name = sample.name.unescape();
        writer.family(&Family { name: &name, kind: Kind::Untyped, help: "" });
        let labels = content(sample);
        let labels: Vec<_> = labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        writer.sample(&labels, Number::Float(sample.value));
    }
    let written = writer.finish();
    let again: Vec<Sample<'_>> = Exposition::with_limits(written.as_bytes(), UNLIMITED)
        .into_iter()
        .flatten()
        .filter_map(|entry| match entry {
            Ok(Entry::Sample(sample)) => Some(sample),
            Ok(_) => None,
            Err(fault) => panic!("{fault}\n{written}"),
        })
        .collect();
    assert_eq!(again.len(), samples.len());
    for (again, sample) in again.iter().zip(samples) {
        assert_eq!(again.name, sample.name);
        assert_eq!(content(again), content(sample));
        assert_eq!(again.value.to_bits(), sample.value.to_bits());
    }
}

fn content(sample: &Sample<'_>) -> Vec<(String, String)> {
    sample.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
