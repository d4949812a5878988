//! How a recording ends: soon, or once every target has shown what comes after a window, and never without saying
//! that something was lost.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its case fails")]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fixture::{PAGE, Server, Then, answer, plan, rows, start, target, until, until_scraped, write};
use wattscribe_scraper::record::Recording;
use wattscribe_table::{CpuSample, Options, RunReader, RunWriter, Scrape};

/// What ending may take beside waiting for targets: sealing the run, on a machine under load.
const CLOSING: Duration = Duration::from_secs(2);

#[tokio::test]
async fn stopping_waits_for_no_target_longer_than_its_timeout() {
    let (good, hanging) = (Server::saying(answer(PAGE)), Server::hanging());
    let targets = vec![target("good", &good.url()), target("hanging", &hanging.url())];
    // The interval is so long that who waited for the next tick would be seen.
    let timeout = Duration::from_millis(700);
    let (recording, directory) = start(plan(targets, 20, 700));
    until_scraped(&recording, "good", 3).await;
    until("a request to the hanging target", || hanging.requests() > 0).await;
    let begin = Instant::now();
    recording.stop().await.unwrap();
    assert!(begin.elapsed() < timeout + CLOSING, "{:?}", begin.elapsed());
    // What was in flight is recorded as what it became.
    let scrapes: Vec<Scrape> = rows(&directory);
    let hung = scrapes.iter().rfind(|scrape| scrape.target == "hanging").unwrap();
    assert_eq!(hung.outcome, "timeout");
}

#[tokio::test]
async fn stopping_does_not_wait_for_a_tick() {
    let server = Server::saying(answer(PAGE));
    let (recording, _directory) = start(plan(vec![target("a", &server.url())], 3_600_000, 500));
    let begin = Instant::now();
    recording.stop().await.unwrap();
    assert!(begin.elapsed() < CLOSING, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn every_target_that_works_shows_a_row_after_the_window() {
    let servers = [(); 4].map(|()| Server::saying(answer(PAGE)));
    let bare = Server::saying(answer("node_load1 1\n"));
    let mut targets: Vec<_> = servers
        .iter()
        .enumerate()
        .map(|(number, server)| target(&format!("n{number}"), &server.url()))
        .collect();
    targets.push(target("bare", &bare.url()));
    let (recording, directory) = start(plan(targets, 400, 1000));
    until("all tried", || recording.status().all_tried()).await;
    let window_end_s = recording.now_s() + 0.3;
    let begin = Instant::now();
    recording.stop_after(window_end_s).await.unwrap();
    // The end and two intervals: had any target used up the patience, it would be three seconds.
    assert!(begin.elapsed() < Duration::from_millis(1100) + CLOSING / 2, "{:?}", begin.elapsed());

    let samples: Vec<CpuSample> = rows(&directory);
    for number in 0..4 {
        let name = format!("n{number}");
        let of_target = samples.iter().filter(|row| row.hostname == name);
        let last_s = of_target.map(|row| row.timestamp_unix).fold(0.0, f64::max);
        assert!(last_s >= window_end_s, "{name} ends {} s early", window_end_s - last_s);
    }
    let scrapes: Vec<Scrape> = rows(&directory);
    let last_us = scrapes
        .iter()
        .filter(|scrape| scrape.target == "bare")
        .map(|scrape| scrape.timestamp_us)
        .max();
    assert!(
        last_us.unwrap() as f64 / 1e6 >= window_end_s,
        "a target without power is bracketed by its scrapes"
    );
}

#[tokio::test]
async fn a_dead_target_holds_the_end_no_longer_than_the_patience() {
    let (good, hanging) = (Server::saying(answer(PAGE)), Server::hanging());
    let targets = vec![
        target("good", &good.url()),
        target("hanging", &hanging.url()),
        target("nobody", "http://127.0.0.1:1/metrics"),
    ];
    let (recording, directory) = start(plan(targets, 100, 300));
    until("all tried", || recording.status().all_tried()).await;
    let window_end_s = recording.now_s();
    let begin = Instant::now();
    recording.stop_after(window_end_s).await.unwrap();
    // Three seconds and a timeout until no scrape begins, a timeout for the last.
    let patience = Duration::from_millis(3000 + 300);
    let took = begin.elapsed();
    assert!(took >= patience && took < patience + Duration::from_millis(300) + CLOSING, "{took:?}");
    let samples: Vec<CpuSample> = rows(&directory);
    assert!(samples.iter().any(|row| row.timestamp_unix >= window_end_s));
    // The good target was done, and was left alone while the others had their time.
    let last_s = samples.iter().map(|row| row.timestamp_unix).fold(0.0, f64::max);
    assert!(last_s < window_end_s + 1.5, "{}", last_s - window_end_s);
}

#[tokio::test]
async fn a_target_that_wakes_up_in_time_is_still_waited_for() {
    let is_awake = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_awake);
    let server = Server::start(move |connection, _| {
        let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned();
        let bytes = if seen.load(Ordering::SeqCst) { answer(PAGE) } else { busy };
        write(connection, bytes.as_bytes(), Then::Keep)
    });
    let (recording, directory) = start(plan(vec![target("a", &server.url())], 50, 1000));
    let status = Arc::clone(recording.status());
    until_scraped(&recording, "a", 1).await;
    let window_end_s = recording.now_s();
    let ending = tokio::spawn(recording.stop_after(window_end_s));
    until("failures while ending", || status.targets()["a"].failures["status"] >= 4).await;
    is_awake.store(true, Ordering::SeqCst);
    ending.await.unwrap().unwrap();
    let samples: Vec<CpuSample> = rows(&directory);
    assert_eq!(samples.len(), 2);
    assert!(samples[0].timestamp_unix >= window_end_s);
}

#[tokio::test]
async fn a_disk_that_refuses_for_a_while_costs_nothing_that_it_had_taken() {
    let server = Server::saying(answer(PAGE));
    let directory = tempfile::tempdir().unwrap();
    let in_the_way = directory.path().join("cpu_samples");
    // A segment is full at once, so that the first part is written, and refused, while it records.
    let options = Options { segment_bytes: 1, ..Options::default() };
    let (run, recovery) = RunWriter::open(directory.path(), options).unwrap();
    std::fs::write(&in_the_way, "a file stands where the rows are to go").unwrap();
    let plan = plan(vec![target("a", &server.url())], 20, 1000);
    let recording = Recording::start(plan, run, recovery).unwrap();
    let segments = || std::fs::read_dir(directory.path().join("journal")).unwrap().count();
    until("a segment that cannot be sealed", || segments() > 1).await;
    let scrapes_then = recording.status().targets()["a"].scrapes;
    let status = Arc::clone(recording.status());
    until("scrapes that go on", || status.targets()["a"].scrapes > scrapes_then + 10).await;
    assert!(!recording.has_failed());

    std::fs::remove_file(&in_the_way).unwrap();
    let manifest = recording.stop().await.unwrap();
    let rows = RunReader::open(directory.path()).unwrap().rows::<Scrape>().unwrap();
    let seqs: Vec<u64> = rows.map(|scrape| scrape.unwrap().seq).collect();
    let scrapes = manifest.nodes["a"].scrape_count;
    assert_eq!(seqs, (0..scrapes).collect::<Vec<_>>(), "every scrape is there once");
}

#[tokio::test]
async fn a_disk_that_refuses_at_the_end_is_an_error() {
    let server = Server::saying(answer(PAGE));
    let (recording, directory) = start(plan(vec![target("a", &server.url())], 20, 1000));
    until_scraped(&recording, "a", 2).await;
    std::fs::write(directory.path().join("scrapes"), "in the way").unwrap();
    let error = recording.stop().await.unwrap_err().to_string();
    assert!(error.contains("scrapes"), "{error}");
    assert!(!directory.path().join("cpu/cpu_manifest.json").exists());
}
