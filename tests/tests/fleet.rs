//! A fleet of real exporters, an agent of another collector and one that hangs: the document and the page, from the files of
//! a driver to what a consumer reads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use wattscribe_tests::http::{Answer, Reply, Server, get, try_get};
use wattscribe_tests::nodes::{listening, record};
use wattscribe_tests::program::{Running, exporter, run, wattscribe};
use wattscribe_tests::wait::eventually;

const DOCUMENT: &str = "/api/v1/fleet";

/// What docs/fleet.md says is to be recorded.
const KEPT: &str = "^(accelerator_|ergoz_accel_|power_exposition_timestamp_seconds|power_reading_timestamp_seconds|power_sensor_state|power_withheld)";

/// Puts a card of AMD into a tree, and gives back the file of its power.
fn card(root: &Path, pci: &str, microwatts: &str) -> PathBuf {
    let device = root.join("devices").join(pci);
    let hwmon = device.join("hwmon/hwmon0");
    fs::create_dir_all(&hwmon).unwrap();
    fs::create_dir_all(root.join("bus/pci/devices")).unwrap();
    fs::create_dir_all(root.join("bus/pci/drivers/amdgpu")).unwrap();
    for (name, text) in
        [("vendor", "0x1002"), ("device", "0x744c"), ("class", "0x030000"), ("numa_node", "0")]
    {
        fs::write(device.join(name), format!("{text}\n")).unwrap();
    }
    symlink(root.join("bus/pci/drivers/amdgpu"), device.join("driver")).unwrap();
    symlink(&device, root.join("bus/pci/devices").join(pci)).unwrap();
    fs::write(hwmon.join("name"), "amdgpu\n").unwrap();
    let power = hwmon.join("power1_average");
    fs::write(&power, format!("{microwatts}\n")).unwrap();
    power
}

fn node(root: &Path) -> (Running, SocketAddr) {
    let mut command = exporter();
    command.args(["--bind", "127.0.0.1", "--port", "0", "--interval", "100ms", "--no-nvml"]);
    listening(command.arg("--sysfs-root").arg(root))
}

fn document(address: SocketAddr) -> Value {
    let answer = get(address, DOCUMENT);
    assert_eq!(answer.content_type, "application/json");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The device at a place of a node.
fn device<'a>(document: &'a Value, node: &str, pci: &str) -> Option<&'a Value> {
    let devices = document["devices"].as_array().unwrap();
    devices.iter().find(|device| device["node"] == node && device["pci"] == pci)
}

#[test]
fn a_mixed_fleet_is_one_document() {
    let folder = TempDir::new().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let power = card(&first, "0000:03:00.0", "250000000");
    card(&second, "0000:03:00.0", "75500000");
    let (_one, at_one) = node(&first);
    let (two, at_two) = node(&second);
    let labels = "driver=\"amdgpu\",kind=\"gpu\",node=\"old\",pci=\"0000:c3:00.0\",vendor_id=\"1002\",device_id=\"1586\"";
    let foreign = Server::fixed(Answer::page(format!(
        "ergoz_accel_power_watts{{{labels}}} 20.072\nergoz_accel_runtime_suspended{{{labels}}} 0\n"
    )));
    let hangs = Server::start(|_| Reply::Hang);
    let file = folder.path().join("agents.json");
    let targets = format!(
        r#"[{{"targets": ["{at_two}"], "labels": {{"node": "two"}}}}, {{"targets": ["{}", "{}"]}}]"#,
        foreign.address, hangs.address
    );
    fs::write(&file, targets).unwrap();
    let mut command = wattscribe();
    command.args(["fleet", "serve", "--listen", "127.0.0.1:0", "--interval", "200ms"]);
    command.args(["--stale-after", "2s", "--agents-file"]).arg(&file);
    command.arg("--agent").arg(format!("one=http://{at_one}/metrics"));
    let (mut fleet, address) = listening(&mut command);

    eventually("three agents have answered", || {
        let answer = try_get(address, DOCUMENT, "*/*").ok().filter(|answer| answer.status == 200);
        let document: Value = serde_json::from_slice(&answer?.body).ok()?;
        (document["measuredDevices"] == 3).then_some(())
    });
    let whole = document(address);
    assert_eq!((&whole["agentsTotal"], &whole["agentsUp"]), (&4.into(), &3.into()), "{whole}");
    assert_eq!(whole["totalWatts"], 345.572, "{whole}");
    let one = device(&whole, "one", "0000:03:00.0").unwrap();
    assert_eq!(
        (&one["powerWatts"], &one["vendorId"], &one["measured"]),
        (&250.0.into(), &"1002".into(), &true.into())
    );
    assert!(
        one["ageMs"].as_u64().unwrap() < 2_000 && one["energyCounter"] == "integrated",
        "{one}"
    );
    assert_eq!(device(&whole, "old", "0000:c3:00.0").unwrap()["powerWatts"], 20.072);
    assert_eq!(get(address, "/readyz").status, 200);
    let page = get(address, "/metrics").text();
    assert!(
        page.contains("accelerator_power_watts{node=\"one\",kind=\"gpu\",pci=\"0000:03:00.0\""),
        "{page}"
    );

    // However an agent hangs, nobody who asks does.
    let asked = Instant::now();
    (0..50).for_each(|_| drop(document(address)));
    assert!(asked.elapsed() < Duration::from_secs(5), "50 answers in {:?}", asked.elapsed());

    // A sensor that fails is told with its reason at once, and a node that dies grows stale and leaves the total.
    fs::write(&power, "N/A\n").unwrap();
    eventually("its number is gone", || {
        let document = document(address);
        let one = device(&document, "one", "0000:03:00.0")?;
        (one["powerWatts"] == -1.0 && one["reason"] == "malformed" && one["measured"] == false)
            .then_some(())
    });
    two.kill();
    eventually("the other node is stale", || {
        let document = document(address);
        let two = device(&document, "two", "0000:03:00.0")?;
        (two["stale"] == true && two["powerWatts"] == 75.5 && document["totalWatts"] == 20.072)
            .then_some(())
    });
    let page = get(address, "/metrics").text();
    assert!(
        !page.contains("node=\"two\"") && page.contains("fleet_devices{state=\"stale\"} 1\n"),
        "{page}"
    );

    // It leaves the file, too: still listed.
    fs::write(&file, format!(r#"[{{"targets": ["{}"]}}]"#, foreign.address)).unwrap();
    eventually("there are two agents", || (document(address)["agentsTotal"] == 2).then_some(()));
    assert_eq!(device(&document(address), "two", "0000:03:00.0").unwrap()["stale"], true);

    let url = format!("http://{address}{DOCUMENT}");
    let tree = run(wattscribe().args(["fleet", "status", &url])).succeeded().stdout;
    assert!(
        tree.contains("\nold\n  gpu 0000:c3:00.0  amdgpu") && tree.contains("stale (75.5 W)"),
        "{tree}"
    );
    let yaml = run(wattscribe().args(["fleet", "status", &url, "-o", "yaml"])).succeeded().stdout;
    assert!(yaml.contains("agentsTotal: 2\n"), "{yaml}");

    assert!(fleet.is_running());
    fleet.signal(rustix::process::Signal::TERM);
    assert_eq!(fleet.wait().code, 0);
    let gone = run(wattscribe().args(["fleet", "status", &url]));
    assert_eq!(gone.code, 1);
    assert!(gone.stderr.contains("connect: "), "{}", gone.stderr);
}

/// What a recording says of an instant is what a collector would have said then.
#[test]
fn a_recording_gives_the_document_of_any_instant() {
    let folder = TempDir::new().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let power = card(&first, "0000:03:00.0", "250000000");
    card(&second, "0000:03:00.0", "75500000");
    let (_one, at_one) = node(&first);
    let (two, at_two) = node(&second);
    let out = folder.path().join("run");
    let mut command = record([("one", at_one), ("two", at_two)], "200ms", &out);
    command.args(["--keep", KEPT, "--duration", "9s"]);
    let mut recorder = Running::start(&mut command);
    let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let seconds = |path: &str| fs::read_dir(out.join(path)).map_or(0, Iterator::count);
    eventually("it records", || (seconds("journal") > 0).then_some(()));
    sleep(Duration::from_secs(2));
    let both_s = now_s();
    fs::write(&power, "N/A\n").unwrap();
    two.kill();
    sleep(Duration::from_millis(3500));
    let none_s = now_s();
    assert!(recorder.is_running());
    recorder.wait().succeeded();

    let at = |time_s: f64| -> Value {
        let time = format!("{time_s:.3}");
        let mut command = wattscribe();
        command.args(["fleet", "at", "--time", &time, "--stale-after", "2s"]).arg(&out);
        serde_json::from_str(&run(&mut command).succeeded().stdout).unwrap()
    };
    let both = at(both_s);
    assert_eq!(
        (&both["totalWatts"], &both["measuredDevices"], &both["agentsUp"]),
        (&325.5.into(), &2.into(), &2.into()),
        "{both}"
    );
    let one = device(&both, "one", "0000:03:00.0").unwrap();
    assert!(
        one["ageMs"].as_u64().unwrap() < 1_500 && one["energyCounter"] == "integrated",
        "{one}"
    );
    let later = at(none_s);
    let two = device(&later, "two", "0000:03:00.0").unwrap();
    assert_eq!((&two["stale"], &two["powerWatts"]), (&true.into(), &75.5.into()), "{later}");
    let one = device(&later, "one", "0000:03:00.0").unwrap();
    assert_eq!(
        (&one["reason"], &one["powerWatts"]),
        (&"malformed".into(), &(-1.0).into()),
        "{later}"
    );
    assert_eq!((&later["totalWatts"], &later["agentsUp"]), (&0.0.into(), &1.into()));
    let before = run(wattscribe().args(["fleet", "at", "--time", "1700000000"]).arg(&out));
    assert_eq!(before.code, 1);
    assert!(before.stderr.contains("no accelerators up to that time"), "{}", before.stderr);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, said) in [
        (&[][..], "no agents: give --agent, --agents-file or --agents-dns"),
        (
            &["--agent", "a=http://x:1/", "--interval", "10s", "--stale-after", "1s"],
            "in this order",
        ),
        (&["--agents-dns", "name"], "expected NAME:PORT"),
        (&["--agent", "a=http://x:1/", "--interval", "1ms"], "expected 100ms to 3600s"),
    ] {
        let ended = run(wattscribe().args(["fleet", "serve"]).args(args));
        assert_eq!(ended.code, 2, "{args:?}");
        assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
    }
}
