//! Accelerators whose files fail, hang, lie or change while they are read.

use std::time::Duration;

use wattscribe_exporter::board::Board;
use wattscribe_exporter::clock::Now;
use wattscribe_exporter::ladder::{Ground, SourceChoice};

use crate::accelerators::{alone, page, reason, values, withheld};
use crate::fixture::{LIMITS, config, eventually, free, samples};
use crate::machine;

/// Nothing of firmware's words for unknown is a number (A02, A04, H01, H07).
#[test]
fn what_is_no_power_has_a_reason() {
    let tree = machine::mi250();
    let board = alone(&tree);
    let power = "devices/pci0000:00/0000:2f:00.0/hwmon/hwmon0/power1_average";
    let cases = [
        ("-5000000", reason("negative", "implausible")),
        ("4294967295000", reason("sensor_unknown", "unavailable")),
        ("N/A", reason("malformed", "transient")),
        ("", reason("malformed", "transient")),
        ("65535000000", reason("over_limit", "implausible")),
        ("nan", reason("malformed", "transient")),
    ];
    for (text, expected) in cases {
        tree.write(power, format!("{text}\n"));
        eventually(text, || withheld(&page(&board), "0000:2f:00.0/power") == expected);
        assert!(values(&page(&board), "accelerator_power_watts").is_empty(), "{text}");
    }
    tree.write(power, "250000000\n");
    // It was asked less and less often, and never given up (A06).
    eventually("it is back", || !values(&page(&board), "accelerator_power_watts").is_empty());
}

#[test]
fn a_table_that_stands_still_is_not_fresh() {
    let tree = machine::strix_halo();
    let table = "devices/pci0000:00/0000:c3:00.0/gpu_metrics";
    let board = alone(&tree);
    let gfx = "0000:c3:00.0/component/gfx";
    eventually("the firmware has stopped", || {
        withheld(&page(&board), gfx) == reason("frozen", "stale")
    });
    assert!(samples(&page(&board), "accelerator_component_power_watts").is_empty());
    assert_eq!(values(&page(&board), "accelerator_power_watts").len(), 1, "the sensor is another");
    tree.write(table, machine::table_3(20_000, 0, 5_000, 100, 2));
    eventually("it goes on", || {
        samples(&page(&board), "accelerator_component_power_watts").len() == 4
    });
}

/// A table that hangs is the reader's affair: neither discovery nor the page waits for it.
#[test]
fn a_table_that_hangs_holds_up_nobody() {
    let tree = machine::mi300x();
    let board = alone(&tree);
    let table = "devices/pci0000:00/0000:05:00.0/gpu_metrics";
    tree.hang(table);
    let started = Now::read();
    for _ in 0..3 {
        board.rediscover_accelerators().unwrap();
        assert_eq!(samples(&page(&board), "accelerator_info").len(), 9);
    }
    assert!(Now::read().awake_since(&started) < LIMITS.read_deadline * 3, "it was waited for");
    eventually("the hang is told", || {
        withheld(&page(&board), "0000:05:00.0/energy") == reason("timeout", "stale")
    });
    // Also where it hangs from the start.
    let again =
        Board::start(None, Ground::of(&config(tree.sysfs(), SourceChoice::Auto)), None, LIMITS);
    let again = again.unwrap();
    eventually("the others are read", || {
        values(&page(&again), "accelerator_power_watts").len() == 7
    });
    free(&tree, table, "");
}

/// A package of which nobody knows whether it holds a CPU is in no sum of GPUs.
#[test]
fn a_chip_whose_table_cannot_be_read_may_be_an_apu() {
    let tree = machine::strix_halo();
    let table = "devices/pci0000:00/0000:c3:00.0/gpu_metrics";
    tree.write(table, [0; 264]);
    let board = alone(&tree);
    let scope = |page: &str| {
        samples(page, "accelerator_power_watts")[0]
            .split("scope=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(scope(&page(&board)), "unknown");
    tree.write(table, machine::table_3(25_502, 0, 8_245, 648, 7));
    eventually("its table tells", || scope(&page(&board)) == "socket");
    assert_eq!(samples(&page(&board), "accelerator_component_power_watts").len(), 4);
}

/// What a passing fault takes away for a moment is no other device: what was counted goes on.
#[test]
fn a_table_that_fails_for_a_moment_ends_no_count() {
    let tree = machine::mi250();
    let board = alone(&tree);
    let since = || values(&page(&board), "accelerator_energy_since_timestamp_seconds");
    eventually("it is counted", || !since().is_empty());
    let before = since();
    tree.write("devices/pci0000:00/0000:2f:00.0/product_name", "AMD Instinct MI250X\n");
    board.rediscover_accelerators().unwrap();
    assert!(samples(&page(&board), "accelerator_info")[0].contains("name=\"AMD Instinct MI250X\""));
    assert_eq!(since(), before);
}

#[test]
fn a_device_that_slept_between_two_looks_is_counted_anew() {
    let tree = machine::mi250();
    let board = alone(&tree);
    let since = || values(&page(&board), "accelerator_energy_since_timestamp_seconds");
    let slept = "devices/pci0000:00/0000:2f:00.0/power/runtime_suspended_time";
    tree.write(slept, "1000\n");
    eventually("it is counted", || !since().is_empty());
    std::thread::sleep(Duration::from_millis(200));
    let before = since();
    tree.write(slept, "1400\n");
    eventually("the count began anew", || since() != before);
}

/// EBUSY of a device that is awake is no sleep.
#[test]
fn one_that_sensors_contradict_is_not_said_to_sleep() {
    let tree = machine::two_cards();
    tree.write("devices/pci0000:00/0000:0a:00.0/device", "0x13c0\n");
    let page = page(&alone(&tree));
    let wrong = withheld(&page, "0000:0a:00.0/power");
    assert_eq!(wrong, reason("not_supported", "unsupported"), "a sensor that is known to be wrong");
    assert_eq!(values(&page, "accelerator_instant_power_watts"), []);
}
