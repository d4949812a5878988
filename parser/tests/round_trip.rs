//! Properties: what the writer prints reads back equal, whatever stands in it; and no input,
//! however broken, makes the reader panic, stall or contradict itself.

use proptest::prelude::*;
use wattscribe_parser::{Entry, Exposition, Family, Format, Kind, Number, Sample, Writer, samples};

/// One sample with its own copy of everything.
type Owned = (String, Vec<(String, String)>, u64);

fn owned(sample: &Sample<'_>) -> Owned {
    let labels = sample.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    (sample.name.to_string(), labels.collect(), sample.value.to_bits())
}

/// Text made of what writers and readers stumble over.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "\\", "\"", "\n", "\\n", "\0", "\r", "\t", " ", "{", "}", ",", "=", "#", "# EOF", "n",
            "😀", "\u{feff}", "\u{301}",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// A name: hostile ones must not be empty and, as in the format, hold no NUL.
fn name() -> impl Strategy<Value = String> {
    let bare = prop::sample::select(vec!["a", "b_total", "le", "_", "A9", "gpu_uuid"]);
    prop_oneof![
        bare.prop_map(str::to_owned),
        hostile().prop_map(|text| format!("x{}", text.replace('\0', ""))),
    ]
}

fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::btree_map(name(), hostile(), 0..6)
        .prop_map(|map| map.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        any::<u64>().prop_map(f64::from_bits),
        (0..100_000_u32).prop_map(f64::from)
    ]
}

fn borrowed(labels: &[(String, String)]) -> Vec<(&str, &str)> {
    labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// The value as it can be read: a NaN loses its bits.
fn readable(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0001 } else { value.to_bits() }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        families in prop::collection::vec(
            (name(), hostile(), prop::collection::vec((labels(), value()), 0..4)),
            0..4,
        ),
    ) {
        let mut writer = Writer::new(Format::Text);
        let mut expected = Vec::new();
        for (name, help, samples) in &families {
            // A HELP text has no quotes to keep a blank at its start, a carriage return at its end.
            let help = help.trim();
            writer.family(&Family { name, kind: Kind::Gauge, help });
            if !help.is_empty() {
                expected.push(format!("{name:?} {help:?}"));
            }
            expected.push(format!("{name:?} gauge"));
            for (labels, value) in samples {
                writer.sample(&borrowed(labels), *value);
                expected.push(format!("{:?}", (name, labels, readable(*value))));
            }
        }
        let body = writer.finish();
        let read: Vec<String> = Exposition::new(body.as_bytes()).unwrap().map(|entry| {
            match entry.unwrap_or_else(|fault| panic!("{fault}\n{body}")) {
                Entry::Sample(sample) => format!("{:?}", owned(&sample)),
                Entry::Type { name, kind } => format!("{name:?} {}", kind.as_str()),
                Entry::Help { name, text } => format!("{name:?} {text:?}"),
            }
        }).collect();
        prop_assert_eq!(read, expected, "{}", body);
    }

    #[test]
    fn histograms_read_back(
        labels in labels(),
        counts in prop::collection::vec(any::<u32>(), 1..9),
        sum in value(),
    ) {
        let labels: Vec<_> = labels.into_iter().filter(|(name, _)| name != "le").collect();
        let bounds: Vec<f64> = (1..counts.len()).map(|n| n as f64 * 0.3).collect();
        let cumulative: Vec<u64> = counts.iter().map(|&count| u64::from(count)).collect();
        let mut writer = Writer::new(Format::Text);
        writer.family(&Family { name: "h", kind: Kind::Histogram, help: "" });
        writer.histogram(&borrowed(&labels), &bounds, &cumulative, sum);
        let body = writer.finish();
        let read = samples(body.as_bytes()).unwrap();

        let (buckets, rest) = read.split_at(counts.len());
        for (n, bucket) in buckets.iter().enumerate() {
            let le: f64 = bucket.labels.get("le").unwrap().parse().unwrap();
            prop_assert_eq!(le, bounds.get(n).copied().unwrap_or(f64::INFINITY));
            prop_assert_eq!(bucket.value, cumulative[n] as f64);
            prop_assert_eq!(owned(bucket).1[..labels.len()].to_vec(), labels.clone());
        }
        let count = (cumulative[counts.len() - 1] as f64).to_bits();
        let rest: Vec<Owned> = rest.iter().map(owned).collect();
        prop_assert_eq!(rest, [
            ("h_sum".to_owned(), labels.clone(), readable(sum)),
            ("h_count".to_owned(), labels, count),
        ]);
    }

    #[test]
    fn six_decimals_are_the_nearest(value in -1e6..1e6_f64) {
        let mut writer = Writer::new(Format::Text);
        writer.family(&Family { name: "w", kind: Kind::Gauge, help: "" });
        writer.sample(&[], Number::Fixed6(value));
        let body = writer.finish();
        prop_assert!((samples(body.as_bytes()).unwrap()[0].value - value).abs() <= 0.501e-6);
    }

    #[test]
    fn any_bytes_end_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(entries) = Exposition::new(&body) {
            prop_assert!(entries.count() <= body.len());
        }
    }

    #[test]
    fn nearly_right_lines_end_without_a_panic(pieces in prop::collection::vec(
        prop::sample::select(vec![
            "a", "b_1", "{", "}", "\"", "=", ",", " ", "\t", "\n", "\\", "1", "-Inf", "NaN", "1e9",
            "# TYPE ", "# HELP ", "gauge", "#", "__name__", "é", "\r", "\0", "{a=\"b\"} 1\n",
        ]),
        0..40,
    )) {
        let body = pieces.concat();
        let mut line = 0;
        for entry in Exposition::new(body.as_bytes()).unwrap() {
            let (at, labels) = match entry {
                Ok(Entry::Sample(sample)) => (sample.line, Some(sample.labels)),
                Ok(_) => (line + 1, None),
                Err(fault) => (fault.line, None),
            };
            prop_assert!(at > line, "each line gives one entry at most");
            line = at;
            if let Some(labels) = labels {
                prop_assert_eq!(labels.iter().count(), labels.len());
            }
        }
    }
}
