//! The exact text the writer makes, in both formats; and promtool's opinion of it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use wattscribe_parser::Format::{OpenMetrics, Text};
use wattscribe_parser::{Family, Format, Kind, Number, Writer};

const WATTS: Family<'_> =
    Family { name: "socket_watts", kind: Kind::Gauge, help: "Power, \"mean\"\nof a C:\\socket." };
const JOULES: Family<'_> =
    Family { name: "socket_joules_total", kind: Kind::Counter, help: "Energy since the start." };
const READS: Family<'_> =
    Family { name: "read_seconds", kind: Kind::Histogram, help: "Time of a read." };

fn check(format: Format, write: impl FnOnce(&mut Writer), expected: &str) {
    let mut writer = Writer::new(format);
    write(&mut writer);
    assert_eq!(writer.finish(), expected, "{format:?}");
}

/// A bit of everything.
fn write_all(writer: &mut Writer) {
    writer.family(&WATTS);
    writer.sample(&[("socket", "0"), ("source", "a\\b\"c\nd")], Number::Fixed6(150.0));
    writer.sample(&[], f64::NAN);
    writer.family(&JOULES);
    writer.sample(&[("socket", "0")], 12_u64);
    writer.family(&READS);
    writer.histogram(&[("source", "rapl")], &[0.001, 1.0], &[2, 3, 4], 5.5);
}

#[test]
fn text() {
    let expected = r#"# HELP socket_watts Power, "mean"\nof a C:\\socket.
# TYPE socket_watts gauge
socket_watts{socket="0",source="a\\b\"c\nd"} 150.000000
socket_watts NaN
# HELP socket_joules_total Energy since the start.
# TYPE socket_joules_total counter
socket_joules_total{socket="0"} 12
# HELP read_seconds Time of a read.
# TYPE read_seconds histogram
read_seconds_bucket{source="rapl",le="0.001"} 2
read_seconds_bucket{source="rapl",le="1.0"} 3
read_seconds_bucket{source="rapl",le="+Inf"} 4
read_seconds_sum{source="rapl"} 5.5
read_seconds_count{source="rapl"} 4
"#;
    check(Text, write_all, expected);
    check(Text, |_| {}, "");
}

#[test]
fn open_metrics() {
    let expected = r#"# HELP socket_watts Power, \"mean\"\nof a C:\\socket.
# TYPE socket_watts gauge
socket_watts{socket="0",source="a\\b\"c\nd"} 150.000000
socket_watts NaN
# HELP socket_joules Energy since the start.
# TYPE socket_joules counter
socket_joules_total{socket="0"} 12
# HELP read_seconds Time of a read.
# TYPE read_seconds histogram
read_seconds_bucket{source="rapl",le="0.001"} 2
read_seconds_bucket{source="rapl",le="1.0"} 3
read_seconds_bucket{source="rapl",le="+Inf"} 4
read_seconds_sum{source="rapl"} 5.5
read_seconds_count{source="rapl"} 4
# EOF
"#;
    check(OpenMetrics, write_all, expected);
    check(OpenMetrics, |_| {}, "# EOF\n");
}

#[test]
fn kinds_that_the_formats_name_differently() {
    let write =
        |name, kind| move |writer: &mut Writer| writer.family(&Family { name, kind, help: "" });
    check(Text, write("a", Kind::Untyped), "# TYPE a untyped\n");
    check(OpenMetrics, write("a", Kind::Untyped), "# TYPE a unknown\n# EOF\n");
    check(OpenMetrics, write("a", Kind::Counter), "# TYPE a unknown\n# EOF\n");
    check(OpenMetrics, write("a_total", Kind::Gauge), "# TYPE a_total gauge\n# EOF\n");
}

#[test]
fn names_out_of_the_ordinary_are_quoted() {
    let family = Family { name: "my.\"m\"", kind: Kind::Histogram, help: "" };
    let write = |writer: &mut Writer| {
        writer.family(&family);
        writer.histogram(&[("l:x", "1"), ("9", "2")], &[], &[7], 0.0);
    };
    let expected = r#"# TYPE "my.\"m\"" histogram
{"my.\"m\"_bucket","l:x"="1","9"="2",le="+Inf"} 7
{"my.\"m\"_sum","l:x"="1","9"="2"} 0
{"my.\"m\"_count","l:x"="1","9"="2"} 7
"#;
    check(Text, write, expected);
}

/// Prometheus' own checker, where it is installed; where tests run unattended it must be.
#[test]
fn promtool_has_nothing_to_say() {
    let mut writer = Writer::new(Text);
    write_all(&mut writer);
    let body = writer.finish();

    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Ok(child) => child,
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("skipped: promtool cannot be run: {error}");
            return;
        }
        Err(error) => panic!("promtool cannot be run: {error}"),
    };
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}\n{body}", String::from_utf8_lossy(&said));
    assert_eq!(String::from_utf8_lossy(&said), "");
}
