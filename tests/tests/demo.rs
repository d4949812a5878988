//! The demo, as somebody sees it who runs it for the first time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::time::{Duration, Instant};

use tempfile::TempDir;
use wattscribe_tests::program::{run, wattscribe};

/// What every screen says.
const NOTICE: &str = "SIMULATED HARDWARE";

/// What the README promises is less; a busy machine may add to it.
const DURATION_MAX: Duration = Duration::from_secs(30);

#[test]
fn the_demo_holds_and_says_that_it_is_simulated() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let mut command = wattscribe();
    command.arg("demo").arg("--out").arg(&out);
    // The programs are built by now.
    let begin = Instant::now();
    let demo = run(&mut command).succeeded();
    assert!(begin.elapsed() < DURATION_MAX, "{:?}", begin.elapsed());
    // The machines, then the windows beside the truth: the notice opens each screen and closes the last.
    let screens: Vec<&str> = demo.stdout.split(NOTICE).collect();
    assert_eq!(screens.len(), 4, "{}", demo.stdout);
    assert!(screens[0].is_empty() && screens[1].contains("grace-a/socket0"), "{}", demo.stdout);
    assert!(
        screens[2].contains("before the step") && screens[2].contains("holds"),
        "{}",
        demo.stdout
    );
    assert!(!demo.stdout.contains(" NO"), "{}", demo.stdout);

    assert!(demo.stdout.contains("22 windows, all hold"), "{}", demo.stdout);

    // Into a recording that is there, simulated rows must not go.
    let mut again = wattscribe();
    let refused = run(again.arg("demo").arg("--out").arg(&out));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("not empty"), "{}", refused.stderr);

    for format in ["table", "json"] {
        let mut command = wattscribe();
        command.arg("energy").arg(&out).args(["--every", "2s", "--format", format]);
        let report = run(&mut command).succeeded().stdout;
        let said = if format == "table" { NOTICE } else { "\"simulated\": true" };
        assert!(report.contains(said), "{report}");
    }
}
