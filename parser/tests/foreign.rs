//! What another library's encoder prints, we read back equal.
//!
//! `prometheus-client` prints OpenMetrics; for counters, gauges and histograms without exemplars
//! that is also the text format, in which its `# UNIT` and `# EOF` lines are comments. It escapes
//! label values but not HELP texts, so those are plain here.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use wattscribe_parser::{Entry, Exposition};

type LabelSet = Vec<(String, String)>;

const HOSTILE: [&str; 12] = [
    "",
    "plain",
    "a\\b",
    "a\"b",
    "a\nb",
    "\\n",
    "\\\\\"",
    "C:\\new\\",
    "{x=\"y\"} 1",
    "a,b=c # d",
    "é😀",
    "\0\r\t",
];

fn labels(value: &str) -> LabelSet {
    vec![("socket".to_owned(), "0".to_owned()), ("source".to_owned(), value.to_owned())]
}

#[test]
fn prometheus_client_is_read_back() {
    let gauges = Family::<LabelSet, Gauge<f64, AtomicU64>>::default();
    let counters = Family::<LabelSet, Counter>::default();
    let histograms =
        Family::<LabelSet, Histogram>::new_with_constructor(|| Histogram::new([0.5, 2.0]));
    let mut expected = BTreeSet::new();
    let mut expect = |name: &str, labels: &LabelSet, le: Option<&str>, value: f64| {
        let le = le.map(|le| ("le".to_owned(), le.to_owned()));
        // That library writes the bound of a bucket first.
        let labels: LabelSet = le.into_iter().chain(labels.iter().cloned()).collect();
        expected.insert((name.to_owned(), labels, value.to_bits()));
    };
    for (n, hostile) in HOSTILE.iter().enumerate() {
        let labels = labels(hostile);
        let value = n as f64 + 0.1;
        gauges.get_or_create(&labels).set(value);
        expect("power_watts", &labels, None, value);
        counters.get_or_create(&labels).inc_by(n as u64);
        expect("reads_total", &labels, None, n as f64);
        histograms.get_or_create(&labels).observe(value);
        for le in ["0.5", "2.0", "+Inf"] {
            let holds = value <= le.parse().unwrap();
            expect("read_seconds_bucket", &labels, Some(le), f64::from(u8::from(holds)));
        }
        expect("read_seconds_sum", &labels, None, value);
        expect("read_seconds_count", &labels, None, 1.0);
    }

    let mut registry = Registry::default();
    registry.register_with_unit("power", "Power of a socket", Unit::Other("watts".into()), gauges);
    registry.register("reads", "Reads", counters);
    registry.register_with_unit("read", "Time of a read", Unit::Seconds, histograms);
    let mut body = String::new();
    encode(&mut body, &registry).unwrap();

    let mut read = BTreeSet::new();
    let mut types = Vec::new();
    for entry in Exposition::new(body.as_bytes()).unwrap() {
        match entry.unwrap_or_else(|fault| panic!("{fault}\n{body}")) {
            Entry::Sample(sample) => {
                let labels = sample.labels.iter().map(|(n, v)| (n.to_string(), v.to_string()));
                let labels: LabelSet = labels.collect();
                assert!(read.insert((sample.name.to_string(), labels, sample.value.to_bits())));
            }
            Entry::Type { name, kind } => types.push(format!("{name} {}", kind.as_str())),
            Entry::Help { .. } => {}
        }
    }
    assert_eq!(read, expected);
    assert_eq!(types, ["power_watts gauge", "reads counter", "read_seconds histogram"]);
}
