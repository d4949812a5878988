//! Accelerators through files of their drivers: what is published of each, and what never is.

use std::sync::Arc;
use std::time::Duration;

use wattscribe_exporter::board::Board;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::ladder::{Ground, SourceChoice};
use wattscribe_exporter::page;
use wattscribe_parser::Format;

use crate::fixture::{LIMITS, Served, Tree, config, eventually, free, samples};
use crate::machine::{self, DISPLAY, Pci};

/// A node on which nothing but accelerators is measured.
pub(crate) fn alone(tree: &Tree) -> Arc<Board> {
    let ground = Ground::of(&config(tree.sysfs(), SourceChoice::Auto));
    let board = Board::start(None, ground, None, LIMITS).unwrap();
    eventually("every accelerator was looked at", || {
        board
            .accelerators()
            .live()
            .iter()
            .all(|live| live.cells().iter().all(|cell| cell.has_been_read()))
    });
    board
}

pub(crate) fn page(board: &Board) -> String {
    page::render(board, Now::read(), Format::Text)
}

/// The values of a family, by the address of the device.
pub(crate) fn values(page: &str, family: &str) -> Vec<(String, f64)> {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let pci = series.split("pci=\"").nth(1)?.split('"').next()?;
        Some((pci.to_owned(), value.parse().ok()?))
    };
    samples(page, family).into_iter().filter_map(of).collect()
}

/// Why the values of a sensor are not published, and the state that it is in.
pub(crate) fn withheld(page: &str, sensor: &str) -> (Option<String>, Option<String>) {
    let label = |family: &str, label: &str| {
        let samples = samples(page, family);
        let mark = format!("sensor=\"{sensor}\"");
        let line = samples.iter().find(|line| line.contains(&mark))?;
        Some(line.split(&format!("{label}=\"")).nth(1)?.split('"').next()?.to_owned())
    };
    (label("power_withheld", "reason"), label("power_sensor_state", "state"))
}

pub(crate) fn reason(reason: &str, state: &str) -> (Option<String>, Option<String>) {
    (Some(reason.to_owned()), Some(state.to_owned()))
}

#[test]
fn an_apu_is_a_socket_and_its_parts_lie_within() {
    let tree = machine::strix_halo();
    let board = alone(&tree);
    let page = page(&board);
    assert_eq!(values(&page, "accelerator_power_watts"), [("0000:c3:00.0".to_owned(), 25.05)]);
    let power = &samples(&page, "accelerator_power_watts")[0];
    assert!(
        power.contains("scope=\"socket\"") && power.contains("averaging=\"instant\""),
        "{power}"
    );
    let parts = samples(&page, "accelerator_component_power_watts");
    let of = |component: &str| {
        let mark = format!("component=\"{component}\"");
        parts.iter().find(|line| line.contains(&mark)).map(|line| line.rsplit_once(' ').unwrap().1)
    };
    let expected = [
        ("socket", "25.502000"),
        ("gfx", "8.245000"),
        ("npu", "0.000000"),
        ("cpu_cores", "10.368000"),
    ];
    for (component, watts) in expected {
        assert_eq!(of(component), Some(watts), "{component}");
    }
    let asleep = [("0000:c3:00.0".to_owned(), 0.0), ("0000:c4:00.1".to_owned(), 1.0)];
    assert_eq!(values(&page, "accelerator_suspended"), asleep);
    assert_eq!(withheld(&page, "0000:c4:00.1/power"), reason("asleep", "suspended"));
}

#[test]
fn partitions_and_displays_are_no_accelerators() {
    let tree = machine::mi300x();
    // A virtual function of the first one.
    let ids = ["0x1002", "0x74b5", machine::ACCELERATOR];
    let function = tree.pci(Pci { at: "0000:05:02.0", ids, driver: "vfio-pci", node: "" });
    tree.link(&format!("{function}/physfn"), "../0000:05:00.0");
    let page = page(&alone(&tree));
    let expected: Vec<(String, f64)> = (0..8)
        .map(|number| (format!("0000:{:02x}:00.0", 5 + 16 * number), 140.0 + f64::from(number)))
        .collect();
    assert_eq!(values(&page, "accelerator_power_watts"), expected);
    let info = samples(&page, "accelerator_info");
    let role =
        |role: &str| info.iter().filter(|line| line.contains(&format!("role=\"{role}\""))).count();
    assert_eq!((role("accelerator"), role("display"), role("virtual_function")), (8, 1, 1));
    assert!(!page.contains("0000:02:00.0/power") && !page.contains("0000:05:02.0/power"), "{page}");
    assert!(info[1].contains("serial=\"000000000000abc0\""), "{}", info[1]);
}

#[test]
fn the_die_that_measures_nothing_is_no_zero() {
    let page = page(&alone(&machine::mi250()));
    assert_eq!(values(&page, "accelerator_power_watts"), [("0000:2f:00.0".to_owned(), 320.0)]);
    assert_eq!(withheld(&page, "0000:30:00.0/power"), reason("zero", "unavailable"));
}

#[test]
fn an_average_is_preferred_and_the_other_stands_beside_it() {
    let tree = machine::two_cards();
    let board = alone(&tree);
    let (first, second) = ("0000:03:00.0".to_owned(), "0000:0a:00.0".to_owned());
    let page_now = page(&board);
    assert_eq!(
        values(&page_now, "accelerator_power_watts"),
        [(first.clone(), 34.0), (second.clone(), 61.0)]
    );
    assert_eq!(values(&page_now, "accelerator_instant_power_watts"), [(second.clone(), 63.5)]);
    // The average is given up by the driver: what is left is the moment, and is called so.
    let average = "devices/pci0000:00/0000:0a:00.0/hwmon/hwmon1/power1_average";
    tree.write(average, "0\n");
    eventually("the moment stands in for it", || {
        values(&page(&board), "accelerator_power_watts")
            == [(first.clone(), 34.0), (second.clone(), 63.5)]
    });
    let page_now = page(&board);
    let power = &samples(&page_now, "accelerator_power_watts")[1];
    assert!(power.contains("averaging=\"instant\""), "{power}");
}

#[test]
fn a_device_without_a_sensor_is_unsupported() {
    let page = page(&alone(&machine::lunar_lake()));
    assert!(samples(&page, "accelerator_power_watts").is_empty(), "{page}");
    for sensor in ["0000:00:02.0/power", "0000:00:0b.0/power"] {
        assert_eq!(withheld(&page, sensor), reason("not_supported", "unsupported"), "{sensor}");
    }
    assert_eq!(samples(&page, "accelerator_info").len(), 2);
    assert_eq!(values(&page, "accelerator_suspended").len(), 2);
}

/// A counter that goes up by what 75 W are, read after read.
fn count(tree: &Tree, file: &str, from_uj: u64) -> u64 {
    let started = Now::read();
    let mut at_uj = from_uj;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        at_uj = from_uj + (Now::read().awake_since(&started).as_secs_f64() * 75e6) as u64;
        tree.write(file, format!("{at_uj}\n"));
    }
    at_uj
}

#[test]
fn the_power_of_intels_cards_is_what_they_count() {
    let counters = [
        ("energy1_input", "5000000"),
        ("energy1_label", "card"),
        ("energy2_input", "4000000"),
        ("energy2_label", "pkg"),
    ];
    // Driver, its files, the one that counts, and its scope.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);
    let cases: [Case<'_>; 3] = [
        ("i915", &[("energy1_input", "5000000")], "energy1_input", "card"),
        ("xe", &counters, "energy1_input", "card"),
        // Some cards have one that never counts: it is waited for before the other is taken.
        (
            "xe",
            &[
                ("energy1_input", "0"),
                ("energy1_label", "card"),
                ("energy2_input", "4000000"),
                ("energy2_label", "pkg"),
            ],
            "energy2_input",
            "package",
        ),
    ];
    for (driver, files, counting, scope) in cases {
        let (tree, gpu) = machine::arc(driver, files);
        let board = alone(&tree);
        let file = format!("{gpu}/hwmon/hwmon5/{counting}");
        if counting == "energy2_input" {
            let read = || {
                withheld(&page(&board), "0000:03:00.0/power") != reason("no_data", "unavailable")
            };
            eventually("the one that never counts is given up", read);
        }
        count(&tree, &file, 5_000_000);
        let page = page(&board);
        let power = samples(&page, "accelerator_power_watts");
        let [line] = power.as_slice() else { panic!("{driver}: {page}") };
        assert!(
            line.contains(&format!("scope=\"{scope}\""))
                && line.contains("averaging=\"difference\""),
            "{line}"
        );
        let watts: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        // The file is refreshed every 20 ms, and read every 50 ms.
        assert!((25.0..150.0).contains(&watts), "{line}");
        let energy = samples(&page, "accelerator_energy_joules_total");
        assert!(energy[0].contains("counter=\"hardware\""), "{energy:?}");
        let joules: f64 = energy[0].rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!((10.0..45.0).contains(&joules), "75 W for 0.4 s and more: {joules}");
    }
}

#[test]
fn energy_of_a_gauge_is_added_up() {
    let tree = machine::mi250();
    let board = alone(&tree);
    let started = Now::read();
    let joules = || values(&page(&board), "accelerator_energy_joules_total");
    eventually("it was read for a while", || {
        joules().first().is_some_and(|(_, joules)| *joules > 100.0)
    });
    let (_, found) = joules()[0];
    let most = 320.0 * (Now::read().awake_since(&started).as_secs_f64() + 1.0);
    assert!(found <= most, "{found} J, of {most} J at the most");
    let page = page(&board);
    let line = &samples(&page, "accelerator_energy_joules_total")[0];
    assert!(line.contains("counter=\"integrated\""), "{line}");
    assert_eq!(samples(&page, "accelerator_energy_since_timestamp_seconds").len(), 1);
}

/// A file that would wake the device is a FIFO: whoever opens it hangs, and is seen.
#[test]
fn a_device_that_sleeps_is_not_touched() {
    let tree = Tree::new::<&str>(&[]);
    let ids = ["0x1002", "0x7480", DISPLAY];
    let gpu = tree.pci(Pci { at: "0000:03:00.0", ids, driver: "amdgpu", node: "drm/card0" });
    tree.runtime_status(&gpu, "suspended");
    tree.sensors(&gpu, 1, "amdgpu", &[("power1_average", "8000000")]);
    let [power, table] =
        ["hwmon/hwmon1/power1_average", "gpu_metrics"].map(|file| format!("{gpu}/{file}"));
    let fifos = [&power, &table].map(|file| tree.hang(file));
    let board = alone(&tree);
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(withheld(&page(&board), "0000:03:00.0/power"), reason("asleep", "suspended"));
        for fifo in &fifos {
            // A writer that does not wait is refused as long as nobody reads.
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            let opened = rustix::fs::open(fifo, flags, rustix::fs::Mode::empty());
            assert!(opened.is_err(), "somebody reads {fifo:?}");
        }
    }
    let expected = [("0000:03:00.0".to_owned(), 1.0)];
    assert_eq!(values(&page(&board), "accelerator_suspended"), expected);
    // It wakes by itself, and sleeps again: its number goes with it.
    free(&tree, &power, "8000000\n");
    free(&tree, &table, "");
    tree.runtime_status(&gpu, "active");
    eventually("it is read", || !values(&page(&board), "accelerator_power_watts").is_empty());
    tree.runtime_status(&gpu, "suspended");
    eventually("it is left alone", || values(&page(&board), "accelerator_power_watts").is_empty());
    assert!(values(&page(&board), "accelerator_energy_joules_total").is_empty());
}

#[test]
fn what_nobody_tells_is_awake() {
    let tree = machine::two_cards();
    let card = "devices/pci0000:00/0000:03:00.0";
    for status in ["", "unsupported", "error", "resuming", "active"] {
        tree.runtime_status(card, status);
        let page = page(&alone(&tree));
        assert_eq!(values(&page, "accelerator_power_watts").len(), 2, "{status:?}: {page}");
    }
    tree.runtime_status(card, "suspending");
    assert_eq!(values(&page(&alone(&tree)), "accelerator_power_watts").len(), 1, "about to sleep");
}

#[test]
fn one_that_hangs_holds_up_no_other() {
    let tree = machine::two_cards();
    let power = "devices/pci0000:00/0000:03:00.0/hwmon/hwmon0/power1_average";
    tree.hang(power);
    let ground = Ground::of(&config(tree.sysfs(), SourceChoice::Auto));
    let board = Board::start(None, ground, None, LIMITS).unwrap();
    eventually("the other one is read", || {
        values(&page(&board), "accelerator_power_watts") == [("0000:0a:00.0".to_owned(), 61.0)]
    });
    eventually("the hang is told", || {
        withheld(&page(&board), "0000:03:00.0/power") == reason("timeout", "stale")
    });
    free(&tree, power, "34000000\n");
    eventually("it goes on", || values(&page(&board), "accelerator_power_watts").len() == 2);
}

#[test]
fn devices_that_come_and_go_are_noticed() {
    let tree = machine::two_cards();
    let board = alone(&tree);
    tree.remove("bus/pci/devices/0000:0a:00.0");
    tree.remove("class/drm/card1");
    board.rediscover_accelerators().unwrap();
    assert_eq!(withheld(&page(&board), "0000:0a:00.0/power"), reason("gone", "lost"));
    assert_eq!(samples(&page(&board), "accelerator_info").len(), 1);
    // It is back, and another driver has the first one.
    tree.link("bus/pci/devices/0000:0a:00.0", "../../../devices/pci0000:00/0000:0a:00.0");
    tree.remove("devices/pci0000:00/0000:03:00.0/driver");
    tree.write("bus/pci/drivers/vfio-pci/new_id", "");
    tree.link("devices/pci0000:00/0000:03:00.0/driver", "../../../bus/pci/drivers/vfio-pci");
    board.rediscover_accelerators().unwrap();
    eventually("it is read again", || {
        values(&page(&board), "accelerator_power_watts") == [("0000:0a:00.0".to_owned(), 61.0)]
    });
    eventually("the other one has no sensor any more", || {
        withheld(&page(&board), "0000:03:00.0/power") == reason("not_supported", "unsupported")
    });
}

/// The kernel's header tells no unit for these, and some chips have watts (A03).
#[test]
fn a_counter_that_disagrees_with_the_power_is_not_believed() {
    let tree = machine::mi300x();
    let board = alone(&tree);
    let table = "devices/pci0000:00/0000:05:00.0/gpu_metrics";
    let since = Now::read();
    let mut clock = 2;
    // 140 W, as its sensor says; the others stand still.
    eventually("the first one is believed, and one that stands still is not", || {
        let joules = Now::read().awake_since(&since).as_secs_f64() * 140.0;
        clock += 1;
        tree.write(table, machine::table_1_4(140, (1 << 32) + (joules * 65_536.0) as u64, clock));
        board.watch(Now::read());
        let page = page(&board);
        let energy = samples(&page, "accelerator_energy_joules_total");
        let is = |pci: &str, counter: &str| {
            let marks = [format!("pci=\"{pci}\""), format!("counter=\"{counter}\"")];
            energy.iter().any(|line| marks.iter().all(|mark| line.contains(mark)))
        };
        is("0000:05:00.0", "hardware") && is("0000:15:00.0", "integrated")
    });
}

#[test]
fn a_node_of_accelerators_alone_is_measured_and_ready() {
    let tree = machine::strix_halo();
    let served = Served::start(&config(tree.sysfs(), SourceChoice::Auto));
    assert_eq!(served.get("/readyz").status, 200);
    let page = served.page();
    assert_eq!(values(&page, "accelerator_power_watts").len(), 1);
    assert!(samples(&page, "power_source_selected").is_empty());
    // What was asked for by name is not there.
    let named = config(tree.sysfs(), SourceChoice::Rapl);
    assert!(wattscribe_exporter::Exporter::start(&named).is_err());
}
