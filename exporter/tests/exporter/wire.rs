//! The page, byte by byte: lines that existing readers know, the two formats, and what promtool says of it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use wattscribe_exporter::board::Board;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::failure::Failure;
use wattscribe_exporter::sensor::Source;
use wattscribe_exporter::{families, page};
use wattscribe_parser::{Exposition, Format};

use crate::fixture::{Served, Tree, ask, board, eventually, is_installed, samples};

fn text(board: &Board) -> String {
    page::render(board, Now::read(), Format::Text)
}

/// A board over these meters, each of which has been read.
fn read_board(tree: &Tree) -> Arc<Board> {
    let board = board(tree.sysfs(), Source::Acpi);
    eventually("every sensor is read", || board.cells().iter().all(|cell| cell.has_been_read()));
    board
}

/// These meters give exactly these lines of the compatibility family.
fn check(meters: &[(&str, &str)], expected: &[&str]) {
    let tree = Tree::meters(meters);
    let page = text(&read_board(&tree));
    assert_eq!(samples(&page, "cpu_power_acpi_watts"), expected, "{page}");
    let mut lines = page.lines();
    assert!(lines.next().unwrap().starts_with("# HELP cpu_power_acpi_watts "));
    assert_eq!(lines.next(), Some("# TYPE cpu_power_acpi_watts gauge"));
}

#[test]
fn lines_are_those_that_readers_know() {
    check(
        &[("CPU Power Socket 0", "150000000")],
        &[
            r#"cpu_power_acpi_watts{sensor="hwmon0/power1",type="cpu_rail",socket="0",oem_info="CPU Power Socket 0",source="acpi"} 150.000000"#,
        ],
    );
    check(
        &[
            ("Grace Power Socket 1", "98029000"),
            ("SysIO Power Socket 1", "1"),
            (r#"CPU "Power" \ Socket"#, "123456789"),
            ("two\nlines", "1500000"),
        ],
        &[
            r#"cpu_power_acpi_watts{sensor="hwmon0/power1",type="total",socket="1",oem_info="Grace Power Socket 1",source="acpi"} 98.029000"#,
            r#"cpu_power_acpi_watts{sensor="hwmon1/power1",type="soc",socket="1",oem_info="SysIO Power Socket 1",source="acpi"} 0.000001"#,
            r#"cpu_power_acpi_watts{sensor="hwmon2/power1",type="other",socket="",oem_info="CPU \"Power\" \\ Socket",source="acpi"} 123.456789"#,
            r#"cpu_power_acpi_watts{sensor="hwmon3/power1",type="other",socket="",oem_info="two\nlines",source="acpi"} 1.500000"#,
        ],
    );
}

#[test]
fn a_reading_that_is_no_power_has_no_line() {
    check(
        &[
            ("Grace Power Socket 0", "0"),
            ("CPU Power Socket 0", "50000000"),
            ("SysIO Power Socket 0", "not-a-number"),
        ],
        &[
            r#"cpu_power_acpi_watts{sensor="hwmon1/power1",type="cpu_rail",socket="0",oem_info="CPU Power Socket 0",source="acpi"} 50.000000"#,
        ],
    );
    check(&[("Grace Power Socket 0", "0")], &[]);
}

#[test]
fn each_family_is_declared_once_and_owns_its_samples() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000"), ("x", "0")]);
    let page = text(&read_board(&tree));
    for word in ["HELP", "TYPE"] {
        let mut names: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("# {word} "))?.split(' ').next())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a family has two {word} lines:\n{page}");
        for name in names {
            assert!(families::ALL.iter().any(|family| family.name == name), "{name}");
        }
    }
    let mut series: Vec<&str> =
        page.lines().filter(|line| !line.starts_with('#')).map(series_of).collect();
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all, "a series is there twice:\n{page}");
    assert!(!page.contains(" NaN\n") && !page.contains("Inf\n"), "{page}");
}

fn series_of(line: &str) -> &str {
    line.rsplit_once(' ').unwrap().0
}

#[test]
fn our_own_reader_reads_every_sample_back() {
    let labels = ["Grace Power Socket 0", "\"\\\n{}", "\u{fffd}\u{2028}, x=\"1\""];
    let tree = Tree::meters(&labels.map(|label| (label, "98029000")));
    let board = read_board(&tree);
    let page = text(&board);
    let mut oem_infos = Vec::new();
    let mut count = 0;
    for entry in Exposition::new(page.as_bytes()).unwrap() {
        if let wattscribe_parser::Entry::Sample(sample) = entry.unwrap() {
            count += 1;
            if let Some(label) = sample.labels.get("oem_info") {
                oem_infos.push(label.into_owned());
            }
        }
    }
    assert_eq!(oem_infos, labels);
    assert_eq!(count, page.lines().filter(|line| !line.starts_with('#')).count());
}

/// What Prometheus 3 sends when it scrapes.
const PROMETHEUS_3: &str = "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
     application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
     text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[test]
fn the_format_is_the_one_that_was_asked_for() {
    let tree = Tree::meters(&[("Grace Power Socket 0", "98029000")]);
    let served = Served::board(read_board(&tree));
    let cases: [(&[&str], &str); 4] = [
        (&[], TEXT),
        (&["Accept: */*"], TEXT),
        (&["Accept: text/plain;version=0.0.4;q=1,*/*;q=0.1"], TEXT),
        (&[PROMETHEUS_3], OPEN_METRICS),
    ];
    for (headers, expected) in cases {
        let answer = ask(served.address, "GET", "/metrics", headers);
        assert_eq!(answer.header("content-type"), Some(expected), "{headers:?}");
        let page = answer.text();
        let is_open_metrics = expected == OPEN_METRICS;
        assert_eq!(page.ends_with("\n# EOF\n"), is_open_metrics, "{page}");
        assert_eq!(page.matches("# EOF").count(), usize::from(is_open_metrics));
        let counter = if is_open_metrics { "power_read_errors" } else { "power_read_errors_total" };
        assert!(page.contains(&format!("# TYPE {counter} counter\n")), "{page}");
        let reasons = Failure::ALL.into_iter().filter(|failure| failure.is_error()).count();
        assert_eq!(samples(&page, "power_read_errors_total").len(), reasons, "{page}");
        assert!(page.contains(r#"source="acpi"} 98.029000"#), "{page}");
    }
}

#[test]
fn promtool_has_nothing_to_say() {
    if !is_installed("promtool") {
        return;
    }
    let zones = Tree::new(&[
        ("class/powercap/intel-rapl:0/name", "package-0"),
        ("class/powercap/intel-rapl:0/energy_uj", "5000000"),
        ("class/powercap/intel-rapl:0/intel-rapl:0:0/name", "weird name!"),
        ("class/powercap/intel-rapl:0/intel-rapl:0:0/energy_uj", "N/A"),
    ]);
    let meters = Tree::meters(&[
        ("Grace Power Socket 0", "98029000"),
        ("Grace Power Socket 1", "N/A"),
        ("\"\\\n\u{1}é", "5"),
    ]);
    let nothing = Tree::meters(&[("Grace Power Socket 0", "0")]);
    for (tree, source) in
        [(&zones, Source::Rapl), (&meters, Source::Acpi), (&nothing, Source::Acpi)]
    {
        let board = board(tree.sysfs(), source);
        promtool(&text(&board)); // before the first read is back, too
        eventually("the sensors are read", || {
            board.cells().iter().all(|cell| cell.has_been_read())
        });
        promtool(&text(&board));
    }
}

fn promtool(page: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "{}\n{page}",
        String::from_utf8_lossy(&said)
    );
}
