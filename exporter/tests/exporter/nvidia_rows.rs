//! What users of other exporters met with NVIDIA's libraries, row by row: what goes in, and what our page
//! says. A row that cannot arise here says why.

use wattscribe_exporter::ladder::SourceChoice;
use wattscribe_standins::{
    Answer, Behaviour, Blank, BlankKind, DcgmReturn, DcgmScript, Device, Number, NvmlReturn, Value,
};

use crate::fixture::{Served, Tree, eventually, samples, value};
use crate::superchip::{Engines, PCI, Superchip, module_lines, uuid};

/// One GPU of four answers like this; this is its state and the reason.
const OF_A_GPU: [(&str, NvmlReturn, &str, &str); 9] = [
    ("N02", NvmlReturn::NotSupported, "unsupported", "not_supported"),
    ("N02", NvmlReturn::InvalidArgument, "unsupported", "not_supported"),
    ("N13", NvmlReturn::Unknown, "transient", "io"),
    ("N13", NvmlReturn::NoData, "unavailable", "no_data"),
    ("N13", NvmlReturn::NoPermission, "denied", "not_permitted"),
    ("N13", NvmlReturn::NotFound, "unavailable", "not_found"),
    ("N13", NvmlReturn::Timeout, "stale", "timeout"),
    ("N16", NvmlReturn::NotSupported, "unsupported", "not_supported"),
    ("N19", NvmlReturn::GpuIsLost, "lost", "gone"),
];

#[test]
fn a_gpu_that_does_not_answer_says_why_and_the_others_go_on() {
    for (id, code, state, reason) in OF_A_GPU {
        let mut node = Superchip::gb200([500_000.0; 4]);
        let served = node.served(4);
        node.answer(2, Answer::Error(code));
        let labels = format!(r#"sensor="{}",reason="{reason}""#, uuid(2));
        eventually(&format!("{id} {code:?}"), || {
            value(&served.page(), "power_withheld", &[&labels]).is_some()
        });
        let page = served.page();
        let state = format!(r#"sensor="{}",state="{state}""#, uuid(2));
        assert_eq!(value(&page, "power_sensor_state", &[&state]), Some(1.0), "{id}: {page}");
        assert_eq!(value(&page, "power_sensor_info", &[&uuid(2)]), Some(1.0), "{id}: {page}");
        assert_eq!(module_lines(&page).len(), 3, "{id}: {page}");
        assert!(!page.contains("} 0.000000\ngpu_module"), "{id}: never a zero: {page}");
    }
}

/// What DCGM has of field 1132 of a CPU whose rail is alive; this is the reason. `None`: it is a reading.
fn of_a_field() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let mut rows = Vec::new();
    for blank in [Blank::Double, Blank::Int64, Blank::Int32, Blank::Text] {
        for (kind, reason) in [
            (BlankKind::Blank, "blank"),
            (BlankKind::NotFound, "not_found"),
            (BlankKind::NotSupported, "not_supported"),
            (BlankKind::NotPermitted, "not_permitted"),
        ] {
            rows.push(("N01", Value::Blank { kind, blank }, Some(reason)));
        }
    }
    // The blanks of integers, which somebody has made doubles of.
    for (number, reason) in [
        (140_737_488_355_328.0, "blank"),
        (140_737_488_355_330.0, "not_supported"),
        (9_223_372_036_854_775_792.0, "blank"),
        (2_147_483_632.0, "blank"),
        (2_147_483_634.0, "not_supported"),
    ] {
        rows.push(("N01", Value::Double(number.into()), Some(reason)));
    }
    // All ones in 32 bits of milliwatts, and what is no power of any CPU.
    for (number, reason) in [
        (4_294_967.295, "sensor_unknown"),
        (2_147_483_631.0, "sensor_unknown"),
        (2_147_483.647, "over_limit"),
        (20_001.0, "over_limit"),
        (1e-9, "zero"),
    ] {
        rows.push(("N13", Value::Double(number.into()), Some(reason)));
    }
    rows.push(("N13", Value::Double(f64::NAN.into()), Some("malformed")));
    rows.push(("N13", Value::Double(f64::INFINITY.into()), Some("malformed")));
    rows.push(("N13", Value::Double((-5.0).into()), Some("negative")));
    rows.push(("N13", Value::Double(0.0.into()), Some("zero")));
    rows.push(("N13", Value::Text("[N/A]".into()), Some("malformed")));
    rows.push(("N13", Value::Int64(5), Some("malformed")));
    rows.push(("N13", Value::Double(Number(6.125).0.into()), None));
    rows
}

#[test]
fn a_blank_is_known_as_what_it_is() {
    for (id, held, reason) in of_a_field() {
        let mut engines = Engines::of(&[(50.0, 6.0)]);
        let text = format!("{id} {held:?}");
        engines
            .dcgm
            .change(|script: &mut DcgmScript| script.field_mut(0, 1132).unwrap().value = held)
            .unwrap();
        let served = Served::start(&engines.config(&Tree::new::<&str>(&[]), SourceChoice::Dcgm));
        let page = served.page();
        let found = samples(&page, "power_withheld");
        let expected: Vec<String> = reason
            .into_iter()
            .map(|reason| {
                format!(r#"power_withheld{{source="dcgm",sensor="cpu0/1132",reason="{reason}"}} 1"#)
            })
            .collect();
        assert_eq!(found, expected, "{text}: {page}");
        let readings = 2 - expected.len();
        assert_eq!(samples(&page, "cpu_power_dcgm_watts").len(), readings, "{text}: {page}");
    }
}

#[test]
fn a_status_beside_a_value_is_known_as_what_it_is() {
    let cases = [
        (DcgmReturn::NotSupported, "not_supported"),
        (DcgmReturn::GpuNotSupported, "not_supported"),
        (DcgmReturn::UnknownField, "not_found"),
        (DcgmReturn::NoData, "blank"),
        (DcgmReturn::StaleData, "blank"),
        (DcgmReturn::NotWatched, "blank"),
        (DcgmReturn::NoPermission, "not_permitted"),
        (DcgmReturn::RequiresRoot, "not_permitted"),
        (DcgmReturn::Timeout, "timeout"),
        (DcgmReturn::GpuIsLost, "gone"),
        (DcgmReturn::GenericError, "io"),
    ];
    for (status, reason) in cases {
        let mut engines = Engines::of(&[(50.0, 6.0)]);
        let set = |script: &mut DcgmScript| script.field_mut(0, 1132).unwrap().status = status;
        engines.dcgm.change(set).unwrap();
        let config = engines.config(&Tree::new::<&str>(&[]), SourceChoice::Dcgm);
        let served = Served::start(&config);
        let labels = format!(r#"sensor="cpu0/1132",reason="{reason}""#);
        eventually(&format!("{status:?}"), || {
            value(&served.page(), "power_withheld", &[&labels]).is_some()
        });
        assert_eq!(samples(&served.page(), "cpu_power_dcgm_watts").len(), 1, "{status:?}");
    }
}

#[test]
fn a_gpu_that_sleeps_is_not_woken() {
    // N10: a GPU that runtime power management holds asleep. N11: one of which nothing is known is awake.
    let files = [
        ("power/runtime_status", "suspended", true),
        ("power_state", "D3cold", true),
        ("power/runtime_status", "unsupported", false),
        ("power_state", "D0", false),
    ];
    for (name, word, is_asleep) in files {
        let node = Superchip::gb200([500_000.0; 4]);
        let served = node.served(4);
        let file = format!("bus/pci/devices/{}/{name}", PCI[1]);
        node.tree.write(&file, word);
        let labels = format!(r#"sensor="{}",reason="asleep""#, uuid(1));
        if !is_asleep {
            let reads = |page: &str| {
                value(page, "power_read_duration_seconds_count", &[r#"source="nvml""#]).unwrap()
            };
            let before = reads(&served.page());
            eventually("it is read on", || reads(&served.page()) > before + 8.0);
            assert_eq!(module_lines(&served.page()).len(), 4, "{name} {word}");
            continue;
        }
        eventually("it is left asleep", || {
            value(&served.page(), "power_withheld", &[&labels]).is_some()
        });
        let asked = || {
            let calls = node.nvml.calls().unwrap().into_iter();
            calls.filter(|call| call.symbol == "nvmlDeviceGetFieldValues").count()
        };
        let before = asked();
        eventually("the others are read on", || asked() > before + 9);
        assert_eq!(module_lines(&served.page()).len(), 3, "{name} {word}");
        node.tree.remove(&file);
        eventually("it is awake", || module_lines(&served.page()).len() == 4);
    }
    // And where one sleeps before NVML is initialised, it is not initialised at all.
    let node = Superchip::gb200([500_000.0; 4]);
    let device = format!("bus/pci/devices/{}", PCI[0]);
    for (name, text) in
        [("vendor", "0x10de"), ("class", "0x030200"), ("power/runtime_status", "suspended")]
    {
        node.tree.write(&format!("{device}/{name}"), text);
    }
    let served = Served::start(&node.config());
    let down = &[r#"source="nvml",sensor="library",reason="disconnected""#];
    eventually("it is left alone", || value(&served.page(), "power_withheld", down).is_some());
    assert!(node.nvml.calls().unwrap().is_empty());
}

#[test]
fn gpus_are_known_by_uuid_however_they_are_counted() {
    // N20: the order of enumeration changes. N29: one GPU is enumerated twice.
    let mut node = Superchip::gb200([510_000.0, 500_000.0, 600_000.0, 605_000.0]);
    let served = node.served(4);
    node.nvml.change(|script| script.devices.reverse()).unwrap();
    let moved = [r#"gpu="3""#, &uuid(0)];
    eventually("the new order is known", || {
        let page = served.page();
        let of_first = value(&page, "gpu_module_power_watts", &[&uuid(0)]);
        assert!(of_first.is_none_or(|watts| watts == 510.0), "{page}");
        value(&page, "gpu_module_power_watts", &moved).is_some()
    });
    drop(served);
    let twice = |script: &mut wattscribe_standins::NvmlScript| {
        let device: Device = script.devices[0].clone();
        script.devices.push(device);
    };
    node.nvml.change(twice).unwrap();
    let page = node.served(4).page();
    assert_eq!(samples(&page, "power_sensor_info").len(), 2 + 4, "{page}");
}

#[test]
fn a_driver_that_is_not_there_is_a_state_and_no_end() {
    // N31: no driver, or one of another version than the library.
    for code in [NvmlReturn::DriverNotLoaded, NvmlReturn::LibRmVersionMismatch, NvmlReturn::Memory]
    {
        let node = Superchip::gb200([500_000.0; 4]);
        let script = node.nvml.script().clone();
        let mut node = node;
        node.nvml
            .change(|changed| *changed = script.call("nvmlInit_v2", Behaviour::fails(code)))
            .unwrap();
        let served = Served::start(&node.config());
        let down = &[r#"source="nvml",sensor="library",reason="disconnected""#];
        eventually(&format!("{code:?}"), || {
            value(&served.page(), "power_withheld", down).is_some()
        });
        assert_eq!(samples(&served.page(), "cpu_power_acpi_watts").len(), 2);
        node.nvml.change(|script| script.calls.clear()).unwrap();
        eventually("it is there", || module_lines(&served.page()).len() == 4);
    }
}

/// Every row, and where it is held: a test of this program, or why it cannot arise. The numbers are those of our list of
/// what users of other exporters met; those of rows that were found to be of other sources are left out.
const ROWS: [(&str, &str); 32] = [
    ("N01", "a_blank_is_known_as_what_it_is"),
    ("N02", "a_gpu_that_does_not_answer_says_why_and_the_others_go_on"),
    ("N03", "a_gpu_that_does_not_answer_says_why_and_the_others_go_on"),
    (
        "N04",
        "never: NVML is asked for physical GPUs by index; an instance has no handle of its own there",
    ),
    ("N05", "never: AMD devices are not read"),
    ("N06", "an_engine_that_restarts_is_connected_to_again"),
    ("N07", "a_library_that_never_answers_leaves_one_thread_behind"),
    ("N08", "never: no process is started"),
    ("N09", "one_handle_serves_all_scrapes_and_is_given_back"),
    ("N09", "persistence_mode_that_is_off_is_told_once"),
    ("N10", "a_gpu_that_sleeps_is_not_woken"),
    ("N11", "a_gpu_that_sleeps_is_not_woken"),
    ("N13", "a_gpu_that_does_not_answer_says_why_and_the_others_go_on"),
    ("N14", "never: fields are asked for by number, and no text of another program is read"),
    ("N15", "one_handle_serves_all_scrapes_and_is_given_back"),
    ("N16", "a_gpu_that_does_not_answer_says_why_and_the_others_go_on"),
    ("N17", "never: the memory scope is not asked for"),
    ("N18", "lines_are_those_that_readers_know"),
    ("N19", "a_gpu_that_is_lost_leaves_the_others_alone_and_keeps_its_name"),
    ("N20", "gpus_are_known_by_uuid_however_they_are_counted"),
    ("N23", "an_engine_that_has_one_number_for_two_cpus_is_noticed"),
    ("N23", "lines_are_those_that_readers_know"),
    ("N24", "never: entities of sockets are asked for, not those of cores"),
    ("N25", "arguments_without_sense_end_it_with_code_2"),
    ("N26", "never: one read a second unless somebody asks for more, and of one field"),
    ("N27", "an_engines_own_time_is_that_of_the_reading"),
    ("N28", "never: a page of a whole rack's node is some kilobytes"),
    ("N29", "gpus_are_known_by_uuid_however_they_are_counted"),
    ("N30", "never: no event is published; errors are counters"),
    ("N31", "a_driver_that_is_not_there_is_a_state_and_no_end"),
    ("N32", "a_library_that_never_answers_leaves_one_thread_behind"),
    ("N33", "never: no profiling field is asked for"),
];

#[test]
fn every_row_is_held_by_a_test_or_cannot_arise() {
    let sources = [
        include_str!("nvidia_rows.rs"),
        include_str!("nvml.rs"),
        include_str!("dcgm.rs"),
        include_str!("library.rs"),
        include_str!("library_log.rs"),
        include_str!("process.rs"),
        include_str!("twins.rs"),
    ];
    for (id, held) in ROWS {
        let is_test = sources.iter().any(|source| source.contains(&format!("fn {held}()")));
        assert!(is_test || held.starts_with("never: "), "{id}: {held}");
    }
    assert!(ROWS.is_sorted());
}
