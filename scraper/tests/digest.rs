//! Exchanges of one target in, batches out: what failed, what carries on over failures, and what is kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case fails")]

mod fixture;

use std::time::Duration;

use fixture::{PAGE, shown, target};
use wattscribe_scraper::digest::{Batch, Digest, Exchange};
use wattscribe_scraper::failure::{Failure, FailureClass};
use wattscribe_scraper::keep::Keep;
use wattscribe_table::Recovery;

const URL: &str = "http://reader:secret@10.0.0.1:9405/metrics";

/// An exchange that begins `at_s` after the recorder and takes a quarter of a second.
fn exchange(at_s: u64, outcome: Result<&str, Failure>) -> Exchange {
    let start = Duration::from_secs(at_s);
    let start_s = 1_788_310_000.0 + start.as_secs_f64();
    Exchange {
        start,
        start_s,
        end_s: start_s + 0.25,
        wall_ahead_us: 0,
        missed: 0,
        outcome: outcome.map(|body| body.as_bytes().to_vec()),
    }
}

fn digest() -> Digest {
    Digest::new(target("node-a", URL), &Recovery::default())
}

fn keep(pattern: &str) -> Keep {
    Keep::matching(pattern).unwrap()
}

fn shown_rows(batch: &Batch) -> Vec<String> {
    batch.cpu.iter().map(shown).collect()
}

const WHOLE: [&str; 2] = ["0 acpi 94.5 total 189.75", "1 acpi 95.25 total 189.75"];

#[test]
fn a_page_becomes_a_scrape_and_its_rows() {
    let batch = digest().digest(exchange(7, Ok(PAGE)), &Keep::nothing());
    assert_eq!(shown_rows(&batch), WHOLE);
    assert!(batch.has_power && batch.readings.is_empty());
    let scrape = &batch.scrape;
    assert_eq!(scrape.timestamp_us, 1_788_310_007_000_000);
    assert_eq!((scrape.mono_ns, scrape.duration_us), (7_000_000_000, 250_000));
    assert_eq!((scrape.status, scrape.outcome.as_str(), &scrape.detail), (Some(200), "ok", &None));
    assert_eq!((scrape.bytes, scrape.samples, scrape.rows), (Some(PAGE.len() as u64), 3, 2));
    assert_eq!((scrape.clock_offset_us, scrape.clock_error_us), (None, None));
    assert_eq!(
        scrape.url, "http://reader:***@10.0.0.1:9405/metrics",
        "passwords stay out of files"
    );
    assert!(batch.cpu.iter().all(|row| row.timestamp_unix == 1_788_310_007.125));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let batch = digest().digest(exchange(0, Ok("")), &keep("."));
    let scrape = &batch.scrape;
    assert_eq!((scrape.outcome.as_str(), scrape.bytes, scrape.samples), ("ok", Some(0), 0));
    assert!(batch.cpu.is_empty() && batch.readings.is_empty() && !batch.has_power);
}

#[test]
fn a_failure_is_a_scrape_without_rows() {
    let mut digest = digest();
    digest.digest(exchange(0, Ok(PAGE)), &Keep::nothing());
    let failure = Failure {
        class: FailureClass::Status,
        detail: "expected 200, found 503".to_owned(),
        status: Some(503),
    };
    let batch = digest.digest(exchange(1, Err(failure)), &Keep::nothing());
    let scrape = &batch.scrape;
    assert_eq!((scrape.seq, scrape.status, scrape.outcome.as_str()), (1, Some(503), "status"));
    assert_eq!(scrape.detail.as_deref(), Some("expected 200, found 503"));
    assert_eq!((scrape.bytes, scrape.samples, scrape.rows), (None, 0, 0));
    assert!(batch.cpu.is_empty() && !batch.has_power);
}

#[test]
fn a_page_with_one_bad_line_is_not_believed_at_all() {
    let mut digest = digest();
    let bad = format!("{PAGE}cpu_power_acpi_watts 94.5W\n");
    let batch = digest.digest(exchange(0, Ok(&bad)), &keep("node_load"));
    let scrape = &batch.scrape;
    assert_eq!((scrape.status, scrape.outcome.as_str()), (Some(200), "parse"));
    let detail = scrape.detail.as_deref().unwrap();
    assert!(detail.starts_with("4:22: ") && detail.contains("94.5W"), "{detail}");
    assert_eq!((scrape.bytes, scrape.samples, scrape.rows), (Some(bad.len() as u64), 0, 0));
    assert!(batch.cpu.is_empty() && batch.readings.is_empty() && !batch.has_power);
    // It left no trace in what is known of the node.
    let batch = digest.digest(exchange(1, Ok(PAGE)), &keep("node_load"));
    assert_eq!(
        (shown_rows(&batch).as_slice(), batch.readings.len()),
        (WHOLE.map(String::from).as_slice(), 1)
    );
}

#[test]
fn numbers_go_on_over_failures_and_restarts() {
    for (last, first) in [(None, 0), (Some(0), 1), (Some(41), 42)] {
        let last_seq = last.map(|last| ("node-a".to_owned(), last)).into_iter().collect();
        let before = Recovery { last_seq, ..Recovery::default() };
        let mut digest = Digest::new(target("node-a", URL), &before);
        let outcomes =
            [Ok(PAGE), Err(Failure::new(FailureClass::Timeout, "late")), Ok("bad"), Ok(PAGE)];
        for (offset, outcome) in outcomes.into_iter().enumerate() {
            let batch = digest.digest(exchange(0, outcome), &Keep::nothing());
            assert_eq!(batch.scrape.seq, first + offset as u64);
            assert!(batch.cpu.iter().all(|row| row.scrape_seq == batch.scrape.seq));
        }
    }
}

#[test]
fn a_resumed_recording_knows_what_is_recorded_and_who_is_a_member() {
    const TIMED: &str = "\
cpu_power_acpi_watts{sensor=\"h/p1\",type=\"total\",socket=\"0\",oem_info=\"\",source=\"acpi\"} 94.5
cpu_power_acpi_watts{sensor=\"h/p2\",type=\"total\",socket=\"1\",oem_info=\"\",source=\"acpi\"} 95.25
power_sensor_info{source=\"acpi\",sensor=\"a\",channel=\"h/p1\",type=\"total\",socket=\"0\",label=\"\",averaging=\"mean\"} 1
power_sensor_info{source=\"acpi\",sensor=\"b\",channel=\"h/p2\",type=\"total\",socket=\"1\",label=\"\",averaging=\"mean\"} 1
power_reading_timestamp_seconds{source=\"acpi\",sensor=\"a\"} 1788310000.5
power_reading_timestamp_seconds{source=\"acpi\",sensor=\"b\"} 1788310000.5
";
    let known = |sockets: &[(u32, Option<i64>)]| {
        let node = |&(socket, read)| (("node-a".to_owned(), socket), read);
        let before =
            Recovery { sockets: sockets.iter().map(node).collect(), ..Recovery::default() };
        let batch = Digest::new(target("node-a", URL), &before)
            .digest(exchange(1, Ok(TIMED)), &Keep::nothing());
        shown_rows(&batch)
    };
    let recorded = Some(1_788_310_000_500_000);
    let (first, second) = ("0 acpi 94.5 total 189.75", "1 acpi 95.25 total 189.75");
    assert_eq!(known(&[]), [first, second]);
    assert_eq!(known(&[(0, Some(1)), (1, None)]), [first, second], "read since");
    assert_eq!(known(&[(0, recorded), (1, recorded)]), [""; 0], "nothing new");
    assert_eq!(known(&[(0, recorded)]), ["1 acpi 95.25"], "a total of one socket is none");
    let with_a_silent_one = known(&[(7, None)]);
    assert_eq!(with_a_silent_one, ["0 acpi 94.5", "1 acpi 95.25", "7 acpi unavailable"]);
}

#[test]
fn a_step_of_the_wall_clock_is_recorded_once() {
    let mut digest = digest();
    let steps = [(0, 0), (3_600_000_000, 3_600_000_000), (3_600_000_000, 0), (-5, -3_600_000_005)];
    for (wall_ahead_us, expected) in steps {
        let exchange = Exchange { wall_ahead_us, missed: 3, ..exchange(0, Ok("")) };
        let scrape = digest.digest(exchange, &Keep::nothing()).scrape;
        assert_eq!((scrape.wall_step_us, scrape.missed_ticks), (expected, 3));
    }
}

#[test]
fn a_node_whose_clock_is_off_has_its_rows_in_our_time() {
    let mut digest = digest();
    for at_s in 0..5_u32 {
        // Made in the middle of the exchange by a clock that is a day ahead, a quarter second after the read.
        let made_s = 1_788_310_000.125 + 86_400.0 + f64::from(at_s);
        let page = format!(
            "power_sensor_info{{source=\"acpi\",sensor=\"s\",channel=\"c\",type=\"total\",socket=\"0\",averaging=\"mean\"}} 1\n\
             cpu_power_acpi_watts{{sensor=\"c\",type=\"total\",socket=\"0\",oem_info=\"\",source=\"acpi\"}} 94.5\n\
             power_reading_timestamp_seconds{{source=\"acpi\",sensor=\"s\"}} {:.6}\n\
             power_exposition_timestamp_seconds {made_s:.6}\n",
            made_s - 0.25
        );
        let batch = digest.digest(exchange(u64::from(at_s), Ok(&page)), &Keep::nothing());
        assert_eq!(batch.scrape.clock_offset_us, Some(86_400_000_000));
        assert_eq!(batch.scrape.clock_error_us, Some(125_000));
        let off_s = batch.cpu[0].timestamp_unix - (1_788_310_000.125 - 0.25 + f64::from(at_s));
        assert!(off_s.abs() < 2e-6, "{off_s}");
    }
}

#[test]
fn kept_samples_stand_as_they_were_whatever_their_labels_hold() {
    let page = "\
up 1
kept{b=\"x,y=\\\"z\\\"\",a=\"line\\nfeed\"} NaN
kept{a=\"back\\\\slash\",e=\"\"} -Inf 1788310143461
kept{u=\"\u{1f50c}\r\t'{}\"} 1e-300
kept_too 5
{\"kept.dots\",\"label.dots\"=\"v\"} 2
";
    let batch = digest().digest(exchange(0, Ok(page)), &keep("^kept"));
    let kept: Vec<_> = batch
        .readings
        .iter()
        .map(|reading| {
            (reading.metric.as_str(), reading.labels.as_str(), reading.sample_timestamp_ms)
        })
        .collect();
    let expected = [
        ("kept", "a=\"line\\nfeed\",b=\"x,y=\\\"z\\\"\"", None),
        ("kept", "a=\"back\\\\slash\",e=\"\"", Some(1_788_310_143_461)),
        ("kept", "u=\"\u{1f50c}\r\t'{}\"", None),
        ("kept_too", "", None),
        ("kept.dots", "label.dots=\"v\"", None),
    ];
    assert_eq!(kept, expected);
    let values: Vec<f64> = batch.readings.iter().map(|reading| reading.value).collect();
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [f64::NEG_INFINITY, 1e-300, 5.0, 2.0]);
    assert!(batch.readings.iter().all(|reading| {
        reading.target == "node-a"
            && reading.scrape_seq == 0
            && reading.timestamp_us == batch.scrape.timestamp_us
    }));
    assert_eq!((batch.scrape.samples, batch.scrape.rows), (6, 0));
}

#[test]
fn a_kept_sample_stands_where_its_sensor_was_read() {
    // Made in the middle of the exchange by a clock that is a day ahead.
    const PAGE: &str = "\
w{source=\"nvml\",uuid=\"GPU-1\"} 500
w{source=\"nvml\",pci=\"0009:01:00.0\",uuid=\"GPU-2\"} 501
w{source=\"rapl\",zone=\"intel-rapl:0\"} 90
w{source=\"acpi\",sensor=\"old\"} 91
w{source=\"acpi\",sensor=\"ahead\"} 92
w{source=\"acpi\",sensor=\"nobody\"} 93
w{sensor=\"instant\"} 94
w{source=\"acpi\",sensor=\"instant\"} 95
power_sensor_state{source=\"acpi\",sensor=\"instant\",state=\"ok\"} 1
power_reading_timestamp_seconds{source=\"nvml\",sensor=\"GPU-1\"} 1788396399.5
power_reading_window_seconds{source=\"nvml\",sensor=\"GPU-1\"} 1
power_reading_timestamp_seconds{source=\"nvml\",sensor=\"0009:01:00.0\"} 1788396399.5
power_reading_window_seconds{source=\"nvml\",sensor=\"0009:01:00.0\"} 3600
power_reading_timestamp_seconds{source=\"rapl\",sensor=\"intel-rapl:0\"} 1788396400
power_reading_window_seconds{source=\"rapl\",sensor=\"intel-rapl:0\"} 0.25
power_reading_timestamp_seconds{source=\"acpi\",sensor=\"old\"} 1788396330
power_reading_timestamp_seconds{source=\"acpi\",sensor=\"ahead\"} 1788396401
power_reading_timestamp_seconds{source=\"acpi\",sensor=\"instant\"} 1788396399.25
";
    let stands = |page: &str| -> Vec<Option<i64>> {
        let batch = digest().digest(exchange(0, Ok(page)), &keep("^w$|^power_sensor_state$"));
        let after_us = |at_us| at_us - batch.scrape.timestamp_us;
        batch.readings.iter().map(|reading| reading.read_at_us.map(after_us)).collect()
    };
    let made = "power_exposition_timestamp_seconds 1788396400\n";
    // The exchange took from 0 s to 0.25 s, and the page was made at 0.125 s.
    let expected =
        [Some(-875_000), Some(-375_000), Some(0), None, None, None, None, Some(-625_000), None];
    assert_eq!(stands(&format!("{PAGE}{made}")), expected);
    assert_eq!(stands(&format!("{made}{PAGE}")), expected, "wherever on the page it is said");
    assert_eq!(stands(PAGE), [None; 9], "a page that does not say when it was made");
}

/// Samples of accelerators name no source: the device and the family tell the sensor.
#[test]
fn a_sample_of_an_accelerator_stands_where_its_sensor_was_read() {
    const PAGE: &str = "\
accelerator_power_watts{pci=\"0000:18:00.0\",scope=\"gpu\"} 300
accelerator_instant_power_watts{pci=\"0000:18:00.0\"} 310
accelerator_component_power_watts{pci=\"0000:18:00.0\",component=\"memory\"} 60
accelerator_energy_joules_total{pci=\"0000:18:00.0\",counter=\"hardware\"} 5
accelerator_energy_joules_total{pci=\"0000:28:00.0\",counter=\"hardware\"} 5
accelerator_energy_joules_total{pci=\"0000:18:00.0\",counter=\"integrated\"} 5
accelerator_power_watts{pci=\"0000:38:00.0\",scope=\"gpu\"} 300
accelerator_suspended{pci=\"0000:18:00.0\"} 0
power_reading_timestamp_seconds{source=\"nvml\",sensor=\"0000:18:00.0/power\"} 1788396399.5
power_reading_window_seconds{source=\"nvml\",sensor=\"0000:18:00.0/power\"} 1
power_reading_timestamp_seconds{source=\"nvml\",sensor=\"0000:18:00.0/instant\"} 1788396399.75
power_reading_timestamp_seconds{source=\"nvml\",sensor=\"0000:18:00.0/component/memory\"} 1788396399.625
power_reading_timestamp_seconds{source=\"nvml\",sensor=\"0000:18:00.0/energy\"} 1788396399.875
power_reading_timestamp_seconds{source=\"xe\",sensor=\"0000:28:00.0/power\"} 1788396399.5
power_reading_window_seconds{source=\"xe\",sensor=\"0000:28:00.0/power\"} 1
power_exposition_timestamp_seconds 1788396400
";
    let batch = digest().digest(exchange(0, Ok(PAGE)), &keep("^accelerator_"));
    let after_us = |at_us: i64| at_us - batch.scrape.timestamp_us;
    let stands: Vec<Option<i64>> =
        batch.readings.iter().map(|reading| reading.read_at_us.map(after_us)).collect();
    // The page was made at 0.125 s. A mean of a second stands in its middle, and a count where it was read.
    let expected = [
        Some(-875_000),
        Some(-125_000),
        Some(-250_000),
        Some(0),
        Some(-375_000),
        Some(-375_000),
        None,
        None,
    ];
    assert_eq!(stands, expected);
}

#[test]
fn a_page_with_more_to_keep_than_a_record_holds_is_refused() {
    let page: String = (0..60_000).map(|number| format!("a{number} 1\n")).collect();
    let name = "n".repeat(1000);
    let mut digest = Digest::new(target(&name, URL), &Recovery::default());
    let batch = digest.digest(exchange(0, Ok(&(page + PAGE))), &keep("."));
    assert_eq!((batch.scrape.outcome.as_str(), batch.scrape.status), ("too_large", Some(200)));
    assert!(batch.cpu.is_empty() && batch.readings.is_empty());
}

#[test]
fn a_target_is_recorded_until_its_last_rows() {
    let mut digest = digest();
    let mut until = |at_s, outcome| {
        digest.digest(exchange(at_s, outcome), &Keep::nothing());
        digest.recorded_until_s().map(|until_s| until_s - 1_788_310_000.0)
    };
    let down = || Err(Failure::new(FailureClass::Connect, "refused"));
    let withheld = PAGE.replace("94.5", "0");
    assert_eq!(until(0, down()), None);
    assert_eq!(
        until(1, Ok("node_load1 1\n")),
        Some(1.0),
        "without sockets, the scrape itself counts"
    );
    assert_eq!(until(2, Ok(PAGE)), Some(2.125));
    assert_eq!(until(3, down()), Some(2.125));
    assert_eq!(until(4, Ok(&withheld)), Some(4.125), "nobody waits for a socket that is withheld");
    assert_eq!(until(5, Ok("")), Some(5.0), "nor when all are");
}
