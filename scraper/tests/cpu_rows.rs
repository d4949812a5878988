//! Pages of ACPI, DCGM and NVML families in, rows out: with the readings that other readers of these families make of
//! the same pages, except that a partial sum is none.

mod fixture;

use fixture::{cpu_rows, shown_rows};
use wattscribe_scraper::history::History;

/// An ACPI sample as exporters print it.
fn acpi(kind: &str, socket: &str, oem_info: &str, watts: &str) -> String {
    let sensor = format!("hwmon1/{kind}{socket}");
    format!(
        "cpu_power_acpi_watts{{sensor=\"{sensor}\",type=\"{kind}\",socket=\"{socket}\",\
         oem_info=\"{oem_info}\",source=\"acpi\"}} {watts}\n"
    )
}

fn dcgm(socket: &str, field: &str, watts: &str) -> String {
    let labels = format!("socket=\"{socket}\",field_id=\"{field}\",source=\"dcgm\"");
    format!("cpu_power_dcgm_watts{{{labels}}} {watts}\n")
}

fn nvml(socket: &str, kind: &str, watts: &str) -> String {
    let labels = format!("type=\"{kind}\",socket=\"{socket}\",gpus=\"0,1\",source=\"nvml\"");
    format!("cpu_power_nvml_watts{{{labels}}} {watts}\n")
}

/// The rows of one page on a node that nothing is known of.
#[track_caller]
fn check(samples: &[String], expected: &str) {
    let body = samples.concat();
    assert_eq!(shown_rows(&[&body]), [expected], "{body}");
}

#[test]
fn acpi_rails_stand_beside_their_total() {
    let (rail, soc) = (acpi("cpu_rail", "0", "", "48.1"), acpi("soc", "0", "", "5.2"));
    let (total, other) = (acpi("total", "0", "", "93.4"), acpi("other", "", "", "1.0"));
    let page = [rail.clone(), soc.clone(), total.clone(), other.clone()];
    check(&page, "0 acpi 93.4 cpu 48.1 soc 5.2 total 93.4");
    check(std::slice::from_ref(&total), "0 acpi 93.4 total 93.4");
    check(&[acpi("dram", "0", "", "7"), total], "0 acpi 93.4 dram 7 total 93.4");
    check(&[other], "");
    // Rails do not add up to a socket. That it is there is known, and that it has no power.
    check(&[rail, soc], "0 acpi unavailable");
}

#[test]
fn older_words_and_labels_name_the_same_rails() {
    let legacy = [("grace", "94"), ("cpu", "49"), ("sysio", "5")];
    let page = legacy.map(|(kind, watts)| acpi(kind, "0", "", watts));
    check(&page, "0 acpi 94 cpu 49 soc 5 total 94");

    let labels = [
        ("Total Input Power in uW Socket 0", "94"),
        ("CPU Rail Input Power in uW Socket 0", "49"),
        ("SoC Rail Input Power in uW Socket 0", "5"),
        ("CPU Rail Output Power in uW socket 0", "44"),
    ];
    let page = labels.map(|(label, watts)| acpi("other", "", label, watts));
    check(&page, "0 acpi 94 cpu 49 soc 5 total 94");

    let half_known = [acpi("total", "", "Total Power Socket 1", "94")];
    check(&half_known, "1 acpi 94 total 94");
    let unlabelled = "cpu_power_acpi_watts{type=\"grace\",socket=\"0\",source=\"acpi\"} 94\n";
    check(&[unlabelled.to_owned()], "0 acpi 94 total 94");
    for (kind, socket) in [("total", "-1"), ("total", "0.5"), ("total", "4000000000"), ("x", "0")] {
        check(&[acpi(kind, socket, "", "94")], "");
    }
}

#[test]
fn dcgm_fields_are_the_cpu_rail_and_sysio() {
    let bare = |socket: &str, watts: &str| {
        format!("cpu_power_dcgm_watts{{socket=\"{socket}\",source=\"dcgm\"}} {watts}\n")
    };
    let total = 43.878 + 52.35;
    let sum =
        format!("0 dcgm 43.878 cpu 43.878 total {total} | 1 dcgm 52.35 cpu 52.35 total {total}");
    check(&[bare("0", "43.878"), bare("1", "52.35")], &sum);
    check(
        &[dcgm("0", "1130", "50.5"), dcgm("0", "1132", "6.125")],
        "0 dcgm 50.5 cpu 50.5 soc 6.125 total 50.5",
    );
    check(&[dcgm("0", "", "50.5"), dcgm("0", "1133", "500")], "0 dcgm 50.5 cpu 50.5 total 50.5");
    check(&[dcgm("0", "1132", "6.125")], "0 dcgm unavailable");
    check(&[dcgm("0", "1133", "500"), dcgm("0", "x", "1")], "");
}

/// What an exporter that describes its sensors says of a CPU's rail.
fn described(socket: &str, state: &str) -> String {
    let key = format!("source=\"dcgm\",sensor=\"cpu{socket}/1130\"");
    format!(
        "power_sensor_info{{{key},channel=\"cpu{socket}/1130\",type=\"cpu_rail\",socket=\"{socket}\",\
         label=\"DCGM field 1130\",averaging=\"unknown\"}} 1\n\
         power_sensor_state{{{key},state=\"{state}\"}} 1\n\
         power_reading_timestamp_seconds{{{key}}} 1788310143.5\n"
    )
}

#[test]
fn a_dcgm_that_describes_its_sensors_tells_why_one_is_missing() {
    let both = [described("0", "ok"), described("1", "stale"), dcgm("0", "1130", "50")].concat();
    // The engine has not sampled again: the second page has no reading that is new.
    let repeated = [both.clone(), both];
    let pages: Vec<&str> = repeated.iter().map(String::as_str).collect();
    assert_eq!(shown_rows(&pages), ["0 dcgm 50 cpu 50 | 1 dcgm stale", "1 dcgm stale"]);
}

#[test]
fn one_source_makes_a_page() {
    let (total, rail) = (acpi("total", "0", "", "94"), dcgm("0", "1130", "50"));
    check(&[rail.clone(), total], "0 acpi 94 total 94");
    // ACPI without a total is still ACPI: 50 W would be another quantity in the same column.
    check(&[rail, acpi("cpu_rail", "0", "", "49")], "0 acpi unavailable");
}

#[test]
fn the_module_joins_the_socket_that_has_power() {
    let module = nvml("0", "module", "539.5");
    let total = acpi("total", "0", "", "94");
    check(&[module.clone(), total.clone()], "0 acpi 94 module 539.5 total 94");
    check(&[dcgm("0", "", "50"), module.clone()], "0 dcgm 50 cpu 50 module 539.5 total 50");
    check(std::slice::from_ref(&module), "");
    check(&[module, acpi("total", "1", "", "94")], "1 acpi 94 total 94");
    check(&[total.clone(), nvml("0", "gpu", "400")], "0 acpi 94 total 94");
    check(
        &[total, nvml("0", "module", "0"), nvml("0", "module", "540")],
        "0 acpi 94 module 540 total 94",
    );
}

#[test]
fn the_first_of_two_samples_counts() {
    let twice = |kind| [acpi(kind, "0", "", "94"), acpi(kind, "0", "", "95")].concat();
    check(&[twice("total")], "0 acpi 94 total 94");
    check(&[acpi("total", "0", "", "0"), acpi("total", "0", "", "95")], "0 acpi 95 total 95");
    check(&[dcgm("0", "1130", "50"), dcgm("0", "", "51")], "0 dcgm 50 cpu 50 total 50");
}

#[test]
fn a_number_that_is_no_power_is_missing() {
    let sound = acpi("total", "0", "", "94");
    for watts in ["0", "0.000000", "-5", "NaN", "+Inf", "-Inf", "4294967.295"] {
        let page = [sound.clone(), acpi("total", "1", "", watts)].concat();
        assert_eq!(shown_rows(&[&page]), ["0 acpi 94 | 1 acpi unavailable"], "{watts}");
    }
    // What DCGM calls blank, as 32 and 64 bit integers and as a double.
    for watts in ["2147483632", "9223372036854775792", "140737488355328.000000"] {
        let page = [dcgm("0", "1130", watts), dcgm("1", "1130", "50")].concat();
        assert_eq!(shown_rows(&[&page]), ["0 dcgm unavailable | 1 dcgm 50 cpu 50"], "{watts}");
    }
    check(&[sound.clone(), acpi("soc", "0", "", "0")], "0 acpi 94 total 94");
    check(&[sound, nvml("0", "module", "NaN")], "0 acpi 94 total 94");
}

#[test]
fn a_total_needs_every_socket_that_was_ever_seen() {
    let both = [acpi("total", "0", "", "94.5"), acpi("total", "1", "", "95.25")].concat();
    let first = acpi("total", "0", "", "94.5");
    let whole = "0 acpi 94.5 total 189.75 | 1 acpi 95.25 total 189.75";
    let part = "0 acpi 94.5 | 1 acpi unavailable";
    assert_eq!(shown_rows(&[&both, &first, &both]), [whole, part, whole]);
    assert_eq!(shown_rows(&[&first, &both]), ["0 acpi 94.5 total 94.5", whole]);
    // A page without any power is a page of sockets without power.
    let gone = "0 acpi unavailable | 1 acpi unavailable";
    assert_eq!(shown_rows(&[&both, "", "node_load1 1\n"]), [whole, gone, gone]);
    assert_eq!(shown_rows(&["", "node_load1 1\n"]), ["", ""]);
}

#[test]
fn a_described_sensor_without_a_reading_says_why() {
    let info = |id: &str, socket: u32| {
        let labels = format!(
            "source=\"acpi\",sensor=\"{id}\",channel=\"{id}\",type=\"total\",socket=\"{socket}\""
        );
        format!("power_sensor_info{{{labels},label=\"\",averaging=\"mean\"}} 1\n")
    };
    let state = |id: &str, state: &str, value: u8| {
        format!("power_sensor_state{{source=\"acpi\",sensor=\"{id}\",state=\"{state}\"}} {value}\n")
    };
    let described = [info("a", 0), info("hwmon1/total1", 1), acpi("total", "1", "", "95")].concat();
    let cases = [
        (state("a", "denied", 1), "0 acpi denied | 1 acpi 95"),
        (state("a", "ok", 0) + &state("a", "stale", 1), "0 acpi stale | 1 acpi 95"),
        // It says ok and shows nothing, or a word that there is not.
        (state("a", "ok", 1), "0 acpi unavailable | 1 acpi 95"),
        (state("a", "fine", 1), "0 acpi unavailable | 1 acpi 95"),
        (String::new(), "0 acpi unavailable | 1 acpi 95"),
    ];
    for (states, expected) in cases {
        assert_eq!(shown_rows(&[&(described.clone() + &states)]), [expected], "{states}");
    }
}

#[test]
fn power_that_is_there_is_told_from_power_that_is_not() {
    let cases = [
        (acpi("total", "0", "", "94"), true),
        (acpi("total", "0", "", "94") + &acpi("total", "1", "", "0"), true),
        (acpi("total", "0", "", "0"), false),
        (acpi("cpu_rail", "0", "", "49"), false),
        (nvml("0", "module", "539"), false),
        (String::new(), false),
    ];
    for (body, expected) in cases {
        assert_eq!(cpu_rows(&body, &mut History::default()).has_power, expected, "{body}");
    }
}

#[test]
fn sensors_that_are_simulated_say_so_in_every_row() {
    let total = acpi("total", "0", "", "94") + &acpi("total", "1", "", "0");
    for (line, expected) in
        [("power_simulated 1\n", true), ("power_simulated 0\n", false), ("", false)]
    {
        let rows = cpu_rows(&(total.clone() + line), &mut History::default()).rows;
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.simulated == expected), "{line}");
    }
}

#[test]
fn the_time_of_a_sample_changes_nothing() {
    let stamped = acpi("total", "0", "", "94 1788310143461");
    let rows = cpu_rows(&stamped, &mut History::default()).rows;
    assert_eq!((rows[0].power_w, rows[0].timestamp_unix), (Some(94.0), 1000.0));
}

#[test]
fn a_broken_page_of_many_sockets_is_bounded_in_time_and_rows() {
    let body: String = (0..20_000).map(|socket| dcgm(&socket.to_string(), "1130", "50")).collect();
    let rows = cpu_rows(&body, &mut History::default()).rows;
    assert_eq!(rows.len(), 1024);
    let body: String = (0..20_000)
        .map(|zone| {
            format!("cpu_power_rapl_watts{{type=\"package\",zone=\"{zone}\",socket=\"0\"}} 1\n")
        })
        .collect();
    assert_eq!(cpu_rows(&body, &mut History::default()).rows.len(), 1);
}

#[test]
fn a_second_meter_of_one_socket_does_not_stand_in_for_the_first_unseen() {
    let reading = |channel: &str, watts: &str| {
        format!(
            "cpu_power_acpi_watts{{sensor=\"{channel}\",type=\"total\",socket=\"0\",\
             oem_info=\"\",source=\"acpi\"}} {watts}\n"
        )
    };
    let described: String = [("a", "hwmon1/power1"), ("b", "hwmon2/power1")]
        .map(|(sensor, channel)| {
            format!(
                "power_sensor_info{{source=\"acpi\",sensor=\"{sensor}\",channel=\"{channel}\",\
                 type=\"total\",socket=\"0\",label=\"\",averaging=\"mean\"}} 1\n"
            )
        })
        .concat();
    let both = [reading("hwmon1/power1", "100"), reading("hwmon2/power1", "300")];
    check(&[both.concat(), described.clone()], "0 acpi 100 total 100");
    check(&[both[1].clone(), described], "0 acpi unavailable");
    // A page that describes nothing cannot tell: its first reading counts, as for other readers of it.
    check(&both[1..], "0 acpi 300 total 300");
}
