//! Recordings over real sockets: targets that fail beside one that does not, what is written of each, and the grid.

mod fixture;

use std::collections::BTreeMap;
use std::time::Duration;

use fixture::{
    PAGE, Server, Then, answer, plan, rows, shown, start, start_in, target, until_scraped, write,
};
use wattscribe_scraper::keep::Keep;
use wattscribe_scraper::record::{Plan, RecordError, Recording};
use wattscribe_table::{CpuSample, LongReading, Options, RunWriter, Scrape};

/// The good target's interval. A failing target takes up to five of them.
const INTERVAL: Duration = Duration::from_millis(200);

/// How far a scrape of the good target may be off its grid: what a loaded machine takes to wake a thread, and a
/// fraction of what waiting for any other target would cost.
const TOLERANCE: Duration = Duration::from_millis(120);

fn of_target(scrapes: &[Scrape], name: &str) -> Vec<Scrape> {
    scrapes.iter().filter(|scrape| scrape.target == name).cloned().collect()
}

/// Every scrape is there, worked, and began on the grid.
fn check_grid(scrapes: &[Scrape]) {
    let first_ns = scrapes[0].mono_ns;
    for (number, scrape) in scrapes.iter().enumerate() {
        assert_eq!((scrape.seq, scrape.outcome.as_str(), scrape.rows), (number as u64, "ok", 2));
        assert_eq!(scrape.missed_ticks, 0, "scrape {number}");
        let off_ns = scrape.mono_ns - first_ns - number as i64 * INTERVAL.as_nanos() as i64;
        assert!(
            off_ns.unsigned_abs() < TOLERANCE.as_nanos() as u64,
            "scrape {number}: {off_ns} ns off"
        );
    }
}

#[tokio::test]
async fn five_targets_of_which_one_works() {
    let good = Server::saying(answer(PAGE));
    let hanging = Server::hanging();
    let garbage =
        Server::start(|connection, _| write(connection, b"\x00\xffnonsense\r\n\r\n", Then::Close));
    let broken = Server::saying("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    let targets = vec![
        target("good", &good.url()),
        target("hanging", &hanging.url()),
        target("garbage", &garbage.url()),
        target("broken", &broken.url()),
        target("nobody", "http://127.0.0.1:1/metrics"),
    ];
    let (recording, directory) = start(plan(targets, 200, 1000));
    until_scraped(&recording, "good", 16).await;
    until_scraped(&recording, "hanging", 2).await;
    let status = recording.status().clone();
    let manifest = recording.stop().await.unwrap();
    let scrapes: Vec<Scrape> = rows(&directory);

    // The good one: on its grid, none missing, every row there.
    let of_good = of_target(&scrapes, "good");
    check_grid(&of_good);
    let samples: Vec<CpuSample> = rows(&directory);
    assert_eq!(samples.len(), 2 * of_good.len());
    assert!(samples.iter().all(|row| row.hostname == "good" && row.total_power_w == Some(189.75)));
    let csv = std::fs::read_to_string(directory.path().join("cpu/samples.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + samples.len());

    // The others: in the table, in the status and in the manifest, each with its class and nothing else.
    let cases = [
        ("hanging", "timeout", None),
        ("garbage", "exchange", None),
        ("broken", "status", Some(500)),
        ("nobody", "connect", None),
    ];
    for (name, class, http_status) in cases {
        let failed = of_target(&scrapes, name);
        let count = failed.len() as u64;
        assert!(count >= 2, "{name}");
        for scrape in &failed {
            assert_eq!((scrape.outcome.as_str(), scrape.status), (class, http_status), "{name}");
            assert!(scrape.detail.as_ref().is_some_and(|detail| !detail.is_empty()), "{name}");
        }
        let by_class = BTreeMap::from([(class.to_owned(), count)]);
        let of_status = &status.targets()[name];
        assert_eq!(
            (&of_status.failures, of_status.is_up, of_status.scrapes),
            (&by_class, false, count)
        );
        let of_manifest = &manifest.wattscribe.targets[name];
        assert_eq!(
            (&of_manifest.errors_by_class, of_manifest.scrapes),
            (&by_class, count),
            "{name}"
        );
        assert_eq!(of_manifest.last_error, of_status.last_failure);
        let node = &manifest.nodes[name];
        assert_eq!((node.scrape_count, node.error_count), (count, count), "{name}");
        assert_eq!(node.resolved_mode, "unknown", "{name}");
    }
    let node = &manifest.nodes["good"];
    assert_eq!((node.resolved_mode.as_str(), node.error_count), ("acpi", 0));
    assert_eq!(node.scrape_count, of_good.len() as u64);
    assert_eq!(manifest.wattscribe.simulated.as_deref(), Some("false"));
    let line = status.to_string();
    assert!(
        line.starts_with(&format!("targets 1/5 up  rows {}  watts 189.8", samples.len())),
        "{line}"
    );
    assert!(line.contains("broken: status") && line.contains("and 1 more"), "{line}");
}

#[tokio::test]
async fn a_slow_target_misses_ticks_and_makes_up_for_none() {
    // Every answer takes one and a half intervals, so that every second tick is missed.
    let slow = Server::start(|connection, _| {
        std::thread::sleep(INTERVAL * 3 / 2);
        write(connection, answer(PAGE).as_bytes(), Then::Keep)
    });
    let (recording, directory) = start(plan(vec![target("slow", &slow.url())], 200, 5000));
    until_scraped(&recording, "slow", 6).await;
    let manifest = recording.stop().await.unwrap();
    let scrapes: Vec<Scrape> = rows(&directory);
    assert_eq!(scrapes[0].missed_ticks, 0);
    for pair in scrapes.windows(2) {
        let missed = pair[1].missed_ticks;
        assert!(missed >= 1, "{missed}");
        let gap_ns = pair[1].mono_ns - pair[0].mono_ns;
        let off_ns = gap_ns - (missed as i64 + 1) * INTERVAL.as_nanos() as i64;
        assert!(off_ns.unsigned_abs() < TOLERANCE.as_nanos() as u64, "{off_ns} ns off its grid");
        assert!(
            pair[1].mono_ns >= pair[0].mono_ns + pair[0].duration_us as i64 * 1000,
            "two at once"
        );
    }
    let missed: u64 = scrapes.iter().map(|scrape| scrape.missed_ticks).sum();
    assert_eq!(manifest.wattscribe.targets["slow"].missed_ticks, missed);
}

#[tokio::test]
async fn samples_that_are_asked_for_are_recorded_beside_power() {
    let server = Server::saying(answer(PAGE));
    let keep = Keep::matching("^node_load").unwrap();
    let (recording, directory) =
        start(Plan { keep, ..plan(vec![target("a", &server.url())], 20, 1000) });
    until_scraped(&recording, "a", 3).await;
    recording.stop().await.unwrap();
    let (readings, scrapes): (Vec<LongReading>, Vec<Scrape>) = (rows(&directory), rows(&directory));
    assert_eq!(readings.len(), scrapes.len());
    for (reading, scrape) in readings.iter().zip(&scrapes) {
        assert_eq!(
            (reading.metric.as_str(), reading.labels.as_str()),
            ("node_load1", "host=\"a\"")
        );
        assert_eq!((reading.scrape_seq, reading.timestamp_us), (scrape.seq, scrape.timestamp_us));
        assert_eq!(reading.value, 0.5);
    }
}

#[tokio::test]
async fn an_exporter_that_hangs_up_between_scrapes_loses_none() {
    let server =
        Server::start(|connection, _| write(connection, answer(PAGE).as_bytes(), Then::Close));
    let (recording, directory) = start(plan(vec![target("a", &server.url())], 20, 1000));
    until_scraped(&recording, "a", 20).await;
    recording.stop().await.unwrap();
    let scrapes: Vec<Scrape> = rows(&directory);
    assert!(scrapes.iter().all(|scrape| scrape.outcome == "ok"), "{scrapes:?}");
}

#[tokio::test]
async fn a_target_that_comes_back_goes_on_where_it_was() {
    let server = Server::start({
        let requests = std::sync::atomic::AtomicUsize::new(0);
        move |connection, _| {
            let number = requests.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let bytes = if (2..4).contains(&number) {
                "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned()
            } else {
                answer(PAGE)
            };
            write(connection, bytes.as_bytes(), Then::Keep)
        }
    });
    let (recording, directory) = start(plan(vec![target("a", &server.url())], 20, 1000));
    until_scraped(&recording, "a", 6).await;
    let status = recording.status().clone();
    recording.stop().await.unwrap();
    let outcomes: Vec<String> =
        rows::<Scrape>(&directory).into_iter().map(|scrape| scrape.outcome).collect();
    assert_eq!(outcomes[..6], ["ok", "ok", "status", "status", "ok", "ok"]);
    let target = &status.targets()["a"];
    assert!(target.is_up && target.watts == Some(189.75) && target.failures["status"] == 2);
    let samples: Vec<CpuSample> = rows(&directory);
    assert!(samples.iter().all(|row| ![2, 3].contains(&row.scrape_seq)));
}

#[tokio::test]
async fn a_recording_goes_on_in_its_directory() {
    let server = Server::saying(answer(PAGE));
    let (recording, directory) = start(plan(vec![target("a", &server.url())], 20, 1000));
    until_scraped(&recording, "a", 3).await;
    let first = recording.stop().await.unwrap();
    let recording = start_in(&directory, plan(vec![target("a", &server.url())], 20, 1000));
    until_scraped(&recording, "a", 3).await;
    let second = recording.stop().await.unwrap();

    let mut scrapes: Vec<Scrape> = rows(&directory);
    scrapes.sort_by_key(|scrape| scrape.seq);
    assert!(scrapes.iter().enumerate().all(|(number, scrape)| scrape.seq == number as u64));
    assert_eq!(second.nodes["a"].scrape_count, scrapes.len() as u64);
    assert_eq!((first.wattscribe.resumed, second.wattscribe.resumed), (false, true));
    assert_eq!(first.started_at_unix, second.started_at_unix);
    let samples: Vec<CpuSample> = rows(&directory);
    assert_eq!(samples.len(), 2 * scrapes.len());
    assert_eq!(shown(&samples[0]), "0 acpi 94.5 total 189.75");
}

#[tokio::test]
async fn plans_that_would_record_nonsense_are_refused() {
    let targets =
        |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
    let cases = [
        (
            plan(targets(&["a=http://x:1/", "a=http://x:2/"]), 1000, 500),
            "target name \"a\" is given twice",
        ),
        (
            plan(targets(&["a=http://x:1/", "b=http://x:1/#b"]), 1000, 500),
            "http://x:1/ is given twice",
        ),
        (
            plan(targets(&["a=http://u:p@x/", "b=http://u:p@x"]), 1000, 500),
            "http://u:***@x/ is given twice",
        ),
        (plan(targets(&["a=http://x:1/"]), 0, 500), "interval is 0ns, expected more than nothing"),
    ];
    for (plan, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let (run, recovery) = RunWriter::open(directory.path(), Options::default()).unwrap();
        let refused: Result<Recording, RecordError> = Recording::start(plan, run, recovery);
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}
