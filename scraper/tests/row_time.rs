//! When a row is: read times of a node whose clock is off, on the head's clock, and what happens when they cannot be.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case fails")]

mod fixture;

use fixture::shown;
use wattscribe_scraper::cpu_rows::{ScrapeTime, rows};
use wattscribe_scraper::history::History;
use wattscribe_scraper::offset::Offset;
use wattscribe_scraper::power_page::PowerPage;
use wattscribe_table::CpuSample;

/// The head's clock as the page is made, to the microsecond in a double.
const MADE_S: f64 = 1_788_310_143.5;
/// The middle of the scrape is a little off that.
const MIDDLE_S: f64 = MADE_S + 0.125;

/// A socket's package zone, read `age_s` before the page is made, with its counter at 5000 J.
#[derive(Clone, Copy)]
struct Read {
    socket: u32,
    age_s: f64,
    window_s: Option<f64>,
}

const fn read(socket: u32, age_s: f64, window_s: Option<f64>) -> Read {
    Read { socket, age_s, window_s }
}

/// The page of a node whose clock is ahead of the head's by `ahead_s`, `later_s` after [`MADE_S`].
fn page(reads: &[Read], ahead_s: f64, later_s: f64) -> String {
    let made_s = MADE_S + ahead_s + later_s;
    let mut page = format!("power_exposition_timestamp_seconds {made_s:.6}\n");
    for Read { socket, age_s, window_s } in reads {
        let key = format!("source=\"rapl\",sensor=\"z{socket}\"");
        let zone =
            format!("type=\"package\",zone=\"z{socket}\",socket=\"{socket}\",source=\"rapl\"");
        page += &format!(
            "power_sensor_info{{{key},channel=\"z{socket}\",type=\"package\",socket=\"{socket}\",averaging=\"difference\"}} 1\n\
             cpu_power_rapl_watts{{{zone}}} 100\n\
             cpu_energy_joules_total{{{zone}}} 5000\n\
             power_reading_timestamp_seconds{{{key}}} {:.6}\n",
            made_s - age_s,
        );
        if let Some(window_s) = window_s {
            page += &format!("power_reading_window_seconds{{{key}}} {window_s}\n");
        }
    }
    page
}

fn rows_at(body: &str, history: &mut History, ahead_s: f64, later_s: f64) -> Vec<CpuSample> {
    let offset =
        body.contains("power_exposition").then_some(Offset { offset_s: ahead_s, error_s: 0.001 });
    let time = ScrapeTime { seq: 0, middle_s: MIDDLE_S + later_s, offset };
    rows(&PowerPage::read(body.as_bytes(), |_| {}).unwrap(), "node-a", history, time).rows
}

#[test]
fn a_row_stands_in_the_middle_of_what_it_is_a_mean_over() {
    let cases = [
        ("a mean of a second", vec![read(0, 0.25, Some(1.0))], MADE_S - 0.75),
        ("of one instant", vec![read(0, 0.25, None)], MADE_S - 0.25),
        ("read as the page was made", vec![read(0, 0.0, None)], MADE_S),
        (
            "two sockets share their middle",
            vec![read(0, 0.5, Some(1.0)), read(1, 0.25, None)],
            MADE_S - 0.625,
        ),
        ("too old to be true", vec![read(0, 61.0, None)], MIDDLE_S),
        ("from the future", vec![read(0, -1.0, None)], MIDDLE_S),
        ("one of two from the future", vec![read(0, 0.5, None), read(1, -1.0, None)], MIDDLE_S),
    ];
    for (case, reads, expected) in cases {
        for ahead_s in [0.0, 3.0 * 3600.0, -7.5 * 3600.0] {
            let body = page(&reads, ahead_s, 0.0);
            let rows = rows_at(&body, &mut History::default(), ahead_s, 0.0);
            assert_eq!(rows.len(), reads.len(), "{case}");
            for (row, read) in rows.iter().zip(&reads) {
                assert!((row.timestamp_unix - expected).abs() < 2e-6, "{case}, {ahead_s}: {row:?}");
                // The node's own time is kept as the node said it.
                let sensor_us = ((MADE_S + ahead_s - read.age_s) * 1e6).round() as i64;
                assert_eq!(row.sensor_time_us, Some(sensor_us), "{case}");
                assert_eq!(row.averaging_s, read.window_s, "{case}");
            }
        }
    }
}

#[test]
fn a_counter_has_the_time_of_its_own_read() {
    let reads = [read(0, 0.5, Some(1.0)), read(1, 61.0, Some(1.0))];
    let rows = rows_at(&page(&reads, 7200.0, 0.0), &mut History::default(), 7200.0, 0.0);
    assert_eq!(rows[0].energy_counter_j, Some(5000.0));
    assert!((rows[0].energy_counter_time.unwrap() - (MADE_S - 0.5)).abs() < 2e-6, "{rows:?}");
    // Read when it cannot have been: the counter is true, and nobody knows of when.
    assert_eq!((rows[1].energy_counter_j, rows[1].energy_counter_time), (None, None));
}

#[test]
fn a_page_without_times_gets_the_middle_of_its_scrape() {
    let whole = page(&[read(0, 0.25, Some(1.0))], 0.0, 0.0);
    for dropped in ["power_exposition_timestamp_seconds", "power_reading_timestamp_seconds"] {
        let lines = whole.lines().filter(|line| !line.starts_with(dropped));
        let body: String = lines.map(|line| format!("{line}\n")).collect();
        let rows = rows_at(&body, &mut History::default(), 0.0, 0.0);
        assert_eq!(rows[0].timestamp_unix, MIDDLE_S, "{dropped}");
        assert_eq!(rows[0].energy_counter_j, None, "{dropped}");
    }
}

#[test]
fn a_reading_is_recorded_once() {
    let mut history = History::default();
    let mut shown_rows = |ages: [f64; 2], later_s: f64| -> Vec<String> {
        let body = page(&[read(0, ages[0], None), read(1, ages[1], None)], 0.0, later_s);
        rows_at(&body, &mut history, 0.0, later_s).iter().map(shown).collect()
    };
    let both = ["0 rapl 100 total 200", "1 rapl 100 total 200"];
    assert_eq!(shown_rows([0.5, 0.75], 0.0), both);
    assert_eq!(shown_rows([1.0, 1.25], 0.5), [""; 0], "both were read at the same times as before");
    assert_eq!(
        shown_rows([0.25, 1.75], 1.0),
        ["0 rapl 100"],
        "a sum takes two readings that are new"
    );
    assert_eq!(shown_rows([0.5, 0.25], 2.0), both);
}

#[test]
fn the_sensor_that_counts_gives_the_time() {
    // Two firmware channels for one socket: the first that is described counts, and so does its time alone.
    let sensor = |id: &str, age_s: f64| {
        format!(
            "power_sensor_info{{source=\"acpi\",sensor=\"{id}\",channel=\"ch-{id}\",type=\"total\",socket=\"0\",averaging=\"mean\"}} 1\n\
             power_reading_timestamp_seconds{{source=\"acpi\",sensor=\"{id}\"}} {:.6}\n",
            MADE_S - age_s
        )
    };
    let watts = "cpu_power_acpi_watts{sensor=\"ch-a\",type=\"total\",socket=\"0\",oem_info=\"\",source=\"acpi\"} 94\n";
    let made = format!("power_exposition_timestamp_seconds {MADE_S:.6}\n");
    let body = sensor("a", 0.5) + &sensor("b", 9.0) + watts + &made;
    let row = &rows_at(&body, &mut History::default(), 0.0, 0.0)[0];
    assert!((row.timestamp_unix - (MADE_S - 0.5)).abs() < 2e-6, "{row:?}");
}

#[test]
fn equal_pages_give_equal_rows_to_the_bit() {
    let reads: Vec<Read> =
        (0..7).map(|socket| read(socket, 0.1 * f64::from(socket), Some(0.3))).collect();
    let body = page(&reads, 0.0, 0.0).replace("} 100\n", "} 100.1\n");
    let text = |rows: &[CpuSample]| format!("{rows:?}");
    let first = text(&rows_at(&body, &mut History::default(), 0.0, 0.0));
    assert!(first.contains("100.1"), "{first}");
    for _ in 0..20 {
        // Hash maps of the page are seeded anew each time; nothing of their order may show.
        assert_eq!(text(&rows_at(&body, &mut History::default(), 0.0, 0.0)), first);
    }
}

#[test]
fn a_window_that_no_meter_has_moves_nothing() {
    for window_s in [-100.0, 7200.0] {
        let body = page(&[read(0, 0.25, Some(window_s))], 0.0, 0.0);
        let rows = rows_at(&body, &mut History::default(), 0.0, 0.0);
        assert!((rows[0].timestamp_unix - (MADE_S - 0.25)).abs() < 2e-6, "{window_s}: {rows:?}");
        assert_eq!(rows[0].averaging_s, None, "{window_s}");
    }
}
