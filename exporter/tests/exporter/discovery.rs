//! Which channels are found, under which names: layouts, labels, links, and neighbours that are no meters.

use std::fs;

use wattscribe_exporter::sensor::{Meter, Sensor, Source};
use wattscribe_exporter::sources;

use crate::fixture::Tree;

/// A channel as a page names it: channel, type, socket, label.
type Named = (&'static str, &'static str, Option<u32>, &'static str);

fn found(tree: &Tree) -> Vec<Sensor> {
    sources::discover(Source::Acpi, &tree.sysfs()).unwrap()
}

fn check(what: &str, tree: &Tree, expected: &[Named]) {
    let sensors = found(tree);
    let named: Vec<_> = sensors
        .iter()
        .map(|s| (s.channel.as_str(), s.kind.as_str(), s.socket, s.label.as_str()))
        .collect();
    assert_eq!(named, expected, "{what}");
    let mut ids: Vec<_> = sensors.iter().map(|sensor| &sensor.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), sensors.len(), "{what}: two sensors of one identity");
}

const TOTAL: Named = ("hwmon0/power1", "total", Some(0), "Grace Power Socket 0");

/// What it is about, the files, and what is found.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [Named]);

const LAYOUTS: [Case; 9] = [
    (
        "attributes in the class node",
        &[
            ("class/hwmon/hwmon0/name", "power_meter\n"),
            ("class/hwmon/hwmon0/power1_average", "98029000\n"),
            ("class/hwmon/hwmon0/power1_oem_info", "Grace Power Socket 0\n"),
        ],
        &[TOTAL],
    ),
    (
        "attributes in the device",
        &[
            ("class/hwmon/hwmon0/device/name", "power_meter\n"),
            ("class/hwmon/hwmon0/device/power1_average", "98029000\n"),
            ("class/hwmon/hwmon0/device/power1_oem_info", "Grace Power Socket 0\n"),
        ],
        &[TOTAL],
    ),
    (
        "the name in the device, the rest in the class node",
        &[
            ("class/hwmon/hwmon0/device/name", "power_meter"),
            ("class/hwmon/hwmon0/power1_average", "98029000"),
            ("class/hwmon/hwmon0/power1_oem_info", "Grace Power Socket 0"),
        ],
        &[TOTAL],
    ),
    (
        "a file in both places, the label in one",
        &[
            ("class/hwmon/hwmon0/name", "power_meter"),
            ("class/hwmon/hwmon0/power1_average", "1"),
            ("class/hwmon/hwmon0/device/power1_average", "2"),
            ("class/hwmon/hwmon0/device/power1_oem_info", "Grace Power Socket 0"),
        ],
        &[TOTAL],
    ),
    (
        "neighbours, and files that only look alike",
        &[
            ("class/hwmon/hwmon0/name", "power_meter"),
            ("class/hwmon/hwmon0/power1_average", "1"),
            ("class/hwmon/hwmon0/power1_oem_info", "Grace Power Socket 0"),
            ("class/hwmon/hwmon0/power1_average_interval", "50"),
            ("class/hwmon/hwmon0/power1_average_max", "50"),
            ("class/hwmon/hwmon0/power_average", "1"),
            ("class/hwmon/hwmon0/powerx_average", "1"),
            ("class/hwmon/hwmon0/temp1_input", "1"),
            ("class/hwmon/hwmon1/name", "nvme"),
            ("class/hwmon/hwmon1/power1_average", "1"),
            ("class/hwmon/hwmon2/name", "BAT0"),
            ("class/hwmon/hwmon2/power1_input", "1"),
            ("class/hwmon/hwmon3/power1_average", "1"),
            ("class/hwmon/other/name", "power_meter"),
            ("class/hwmon/other/power1_average", "1"),
        ],
        &[TOTAL],
    ),
    (
        "equal labels and none",
        &[
            ("class/hwmon/hwmon0/name", "power_meter"),
            ("class/hwmon/hwmon0/power1_average", "1"),
            ("class/hwmon/hwmon0/power1_oem_info", "CPU Power"),
            ("class/hwmon/hwmon0/power2_average", "2"),
            ("class/hwmon/hwmon0/power2_oem_info", "CPU Power"),
            ("class/hwmon/hwmon0/power3_average", "3"),
        ],
        &[
            ("hwmon0/power1", "other", None, "CPU Power"),
            ("hwmon0/power2", "other", None, "CPU Power"),
            ("hwmon0/power3", "other", None, "power3"),
        ],
    ),
    (
        "an empty oem_info gives way to the label",
        &[
            ("class/hwmon/hwmon0/name", "power_meter"),
            ("class/hwmon/hwmon0/power1_input", "1"),
            ("class/hwmon/hwmon0/power1_oem_info", "\n"),
            ("class/hwmon/hwmon0/power1_label", "Grace Power Socket 0\n"),
        ],
        &[TOTAL],
    ),
    (
        "order is that of the text",
        &[
            ("class/hwmon/hwmon2/name", "power_meter"),
            ("class/hwmon/hwmon2/power1_average", "1"),
            ("class/hwmon/hwmon10/name", "power_meter"),
            ("class/hwmon/hwmon10/power1_average", "1"),
            ("class/hwmon/hwmon1/name", "power_meter"),
            ("class/hwmon/hwmon1/power1_average", "1"),
        ],
        &[
            ("hwmon1/power1", "other", None, "power1"),
            ("hwmon10/power1", "other", None, "power1"),
            ("hwmon2/power1", "other", None, "power1"),
        ],
    ),
    (
        "sparse sockets and a firmware module meter",
        &[
            ("class/hwmon/hwmon0/name", "power_meter"),
            ("class/hwmon/hwmon0/power1_average", "1"),
            ("class/hwmon/hwmon0/power1_oem_info", "Grace Power Socket 12"),
            ("class/hwmon/hwmon0/power2_average", "1"),
            ("class/hwmon/hwmon0/power2_oem_info", "Module Power Socket 0"),
        ],
        &[
            ("hwmon0/power1", "total", Some(12), "Grace Power Socket 12"),
            ("hwmon0/power2", "other", None, "Module Power Socket 0"),
        ],
    ),
];

#[test]
fn channels_are_found_where_kernels_put_them() {
    for (what, files, expected) in LAYOUTS {
        check(what, &Tree::new(files), expected);
    }
}

#[test]
fn one_file_under_two_names_is_one_channel() {
    let device = [
        ("devices/ACPI000D:00/name", "power_meter"),
        ("devices/ACPI000D:00/power1_average", "1"),
        ("devices/ACPI000D:00/power1_oem_info", "Grace Power Socket 0"),
    ];
    let tree = Tree::new(&device);
    tree.link("class/hwmon/hwmon0/device", "../../../devices/ACPI000D:00");
    // The class node sorts first and shows the value, but has no label: the one with the label wins.
    tree.link("class/hwmon/hwmon0/power1_average", "device/power1_average");
    check("a link within the node", &tree, &[TOTAL]);

    tree.link("class/hwmon/hwmon1/device", "../../../devices/ACPI000D:00");
    check("two nodes of one device", &tree, &[TOTAL]);
    assert_eq!(found(&tree)[0].id, "ACPI000D:00/power1", "the identity is the device's");
}

#[test]
fn an_average_goes_before_an_input() {
    let cases: [(&[&str], &str); 3] = [
        (&["power1_average", "power1_input"], "power1_average"),
        (&["power1_input"], "power1_input"),
        (&["power1_average"], "power1_average"),
    ];
    for (names, expected) in cases {
        let tree = Tree::new(&[("class/hwmon/hwmon0/name", "power_meter")]);
        for name in names {
            tree.write(&format!("class/hwmon/hwmon0/{name}"), "1");
        }
        let sensors = found(&tree);
        let [Sensor { meter: Meter::Power { value, interval, .. }, .. }] = &sensors[..] else {
            panic!("{names:?}: {sensors:?}")
        };
        assert!(value.ends_with(expected), "{value:?}");
        assert_eq!(interval.is_some(), expected.ends_with("_average"), "{names:?}");
    }
}

#[test]
fn firmware_text_becomes_a_label_that_can_be_printed() {
    let long = "x".repeat(128);
    let cases: [(&[u8], &str, &str); 9] = [
        (b"Grace Power Socket 0\0\0\n", "Grace Power Socket 0", "total"),
        (b"  Grace   Power Socket 0  ", "Grace   Power Socket 0", "total"),
        (b"CPU Power Socket \"x", "CPU Power Socket \"x", "other"),
        (b"a\\b", "a\\b", "other"),
        (b"CPU Power\0Socket 1", "CPU Power Socket 1", "cpu_rail"),
        (b"a\x1b[31mb\rc", "a [31mb c", "other"),
        (b"two\nlines", "two\nlines", "other"),
        (b"SysIO Power Socket 3 \xff\xfe", "SysIO Power Socket 3 \u{fffd}\u{fffd}", "soc"),
        (long.as_bytes(), &long, "other"),
    ];
    for (text, label, kind) in cases {
        let tree = Tree::meters(&[("", "1")]);
        tree.write("class/hwmon/hwmon0/power1_oem_info", text);
        let sensor = &found(&tree)[0];
        assert_eq!((sensor.label.as_str(), sensor.kind.as_str()), (label, kind));
    }
}

#[test]
fn a_root_without_meters_is_told_with_its_reason() {
    let missing = Tree::new::<&str>(&[]);
    let file = Tree::new(&[("class/hwmon", "a file")]);
    let empty = Tree::new::<&str>(&[]);
    fs::create_dir_all(empty.path("class/hwmon")).unwrap();
    let others = Tree::new(&[("class/hwmon/hwmon0/name", "nvme")]);
    let cases = [
        (&missing, "cannot list ", "No such file or directory"),
        (&file, "cannot list ", "Not a directory"),
        (&empty, "no power_meter channel under ", ""),
        (&others, "no power_meter channel under ", ""),
    ];
    for (tree, start, end) in cases {
        let reason = sources::discover(Source::Acpi, &tree.sysfs()).unwrap_err();
        let root = tree.path("class/hwmon").display().to_string();
        assert!(reason.starts_with(&format!("{start}{root}")), "{reason}");
        assert!(reason.contains(end), "{reason}");
    }
}
