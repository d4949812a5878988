//! Random rule files: some of a family that uses every function, guard and setting.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Rules that stand alone, by what follows their name. `WINDOWS` stands for windows, `GUARD` for what an instant may be
/// withheld for, `REQUIRE` for the members that must report.
const ALONE: [&str; 19] = [
    "function: mean; of: gpu_module_power_watts; by: [node, socket]; GUARD; REQUIRE; boundary: module; unit: W",
    "function: mean; of: gpu_module_power_watts; by: [node]; member: [gpu]; GUARD; boundary: module; unit: W",
    "function: sum; of: 'cpu_power_acpi_watts{type=\"total\"}'; by: [node]; REQUIRE; boundary: socket_total; unit: W",
    "function: sum; of: 'accelerator_power_watts{scope=\"gpu\"}'; by: [node, socket]; REQUIRE; boundary: accelerator; unit: W",
    "function: sum; of: ['cpu_power_acpi_watts{type=\"total\"}', 'accelerator_power_watts{scope=\"gpu\"}']; by: [node]; REQUIRE; boundary: module; unit: W",
    "function: max; of: gpu_module_power_watts; by: [node]; GUARD; boundary: module; unit: W",
    "function: min; of: 'gpu_module_power_watts{socket!=\"1\"}'; by: [node]; REQUIRE; boundary: module; unit: W",
    "function: residual; of: 'cpu_power_acpi_watts{type=\"total\"}'; less: ['cpu_power_acpi_watts{type=\"cpu_rail\"}']; by: [node, socket]; boundary: rest; unit: W",
    "function: ratio; of: tokens_per_second; to: ipmi_dcmi_power_consumption_watts; by: [node]; boundary: node; unit: tokens/J",
    "function: sum; of: ipmi_dcmi_power_consumption_watts; by: [node]; withhold: {above: 101}; boundary: node; unit: W",
    "function: integrate; of: 'accelerator_power_watts{scope=\"gpu\"}'; by: [node]; REQUIRE; WINDOWS; COVERED; boundary: accelerator; unit: J",
    "function: integrate; of: 'cpu_power_acpi_watts{type=\"total\"}'; by: [node, socket]; WINDOWS; boundary: socket_total; unit: J",
    "function: integrate; of: ipmi_dcmi_power_consumption_watts; by: [node]; WINDOWS; COVERED; boundary: node; unit: J",
    "function: quantile; quantile: 0.95; of: gpu_module_power_watts; by: [node, uuid]; WINDOWS; boundary: module; unit: W",
    "function: max; of: gpu_module_power_watts; by: [node, uuid]; WINDOWS; COVERED; boundary: module; unit: W",
    "function: min; of: 'cpu_power_rapl_watts{type=\"package\"}'; by: [node, socket]; WINDOWS; boundary: package; unit: W",
    "function: increase; of: 'cpu_energy_joules_total{type=\"package\"}'; by: [node]; REQUIRE; WINDOWS; boundary: package; unit: J",
    "function: increase; of: 'cpu_energy_joules_total{type=\"package\"}'; by: [node, socket]; WINDOWS; boundary: package; unit: J",
    "function: check; of: 'cpu_power_rapl_watts{type=\"package\"}'; against: 'cpu_energy_joules_total{type=\"package\"}'; by: [node, socket]; WINDOWS; boundary: package; unit: J",
];

/// Rules of a node and those that take its results.
const CHAINS: [&[&str]; 6] = [
    &[
        "name: c:mean:a; function: mean; of: gpu_module_power_watts; by: [node, socket]; GUARD; boundary: module; unit: W",
        "name: c:rest:a; function: residual; of: c:mean:a; less: ['cpu_power_acpi_watts{type=\"total\"}', 'accelerator_power_watts{scope=\"gpu\"}']; by: [node, socket]; boundary: losses; unit: W",
        "name: c:sum:a; function: sum; of: c:mean:a; by: [node]; REQUIRE; boundary: module; unit: W",
        "name: c:fleet:a; function: sum; of: c:mean:a; by: []; REQUIRE; boundary: module; unit: W",
        "name: c:most:a; function: max; of: c:mean:a; by: [socket]; REQUIRE; boundary: module; unit: W",
    ],
    &[
        "name: c:node:b; function: sum; of: 'cpu_power_acpi_watts{type=\"total\"}'; by: [node]; REQUIRE; boundary: socket_total; unit: W",
        "name: c:all:b; function: mean; of: c:node:b; by: []; GUARD; REQUIRE; boundary: socket_total; unit: W",
        "name: c:energy:b; function: integrate; of: c:node:b; by: [node]; WINDOWS; boundary: socket_total; unit: J",
        "name: c:most:b; function: max; of: c:node:b; by: [node]; WINDOWS; boundary: socket_total; unit: W",
    ],
    &[
        "name: c:energy:c; function: integrate; of: 'accelerator_power_watts{scope=\"gpu\"}'; by: [node]; REQUIRE; WINDOWS; boundary: accelerator; unit: J",
        "name: c:fleet:c; function: sum; of: c:energy:c; by: []; REQUIRE; COVERED; boundary: accelerator; unit: J",
    ],
    &[
        "name: c:energy:d; function: integrate; of: 'cpu_power_acpi_watts{type=\"total\"}'; by: [node, socket]; WINDOWS; boundary: socket_total; unit: J",
        "name: c:node:d; function: sum; of: c:energy:d; by: [node]; REQUIRE; boundary: socket_total; unit: J",
        "name: c:fleet:d; function: sum; of: c:node:d; by: []; REQUIRE; boundary: socket_total; unit: J",
    ],
    &[
        "name: c:work:e; function: sum; of: tokens_per_second; by: [node]; boundary: node; unit: tokens/s",
        "name: c:power:e; function: sum; of: ipmi_dcmi_power_consumption_watts; by: [node]; boundary: node; unit: W",
        "name: c:per:e; function: ratio; of: c:work:e; to: c:power:e; by: []; boundary: node; unit: tokens/J",
    ],
    &[
        "name: c:gain:f; function: increase; of: 'cpu_energy_joules_total{type=\"package\"}'; by: [node]; REQUIRE; WINDOWS; boundary: package; unit: J",
        "name: c:fleet:f; function: sum; of: c:gain:f; by: []; REQUIRE; boundary: package; unit: J",
    ],
];

/// Rule files that can be read.
pub(crate) fn files() -> impl Strategy<Value = String> {
    let alone = subsequence(ALONE.to_vec(), 1..6);
    let chains = subsequence(CHAINS.to_vec(), 0..3);
    (settings(), alone, chains, vec(blanks(), 8)).prop_map(|(settings, alone, chains, blanks)| {
        let mut file = format!("wattscribe_rules: 1\n{settings}{INPUTS}rules:\n");
        let named = alone.iter().enumerate().map(|(n, rule)| format!("name: a:rule:n{n}; {rule}"));
        let chained = chains.iter().flat_map(|chain| chain.iter().map(|rule| (*rule).to_owned()));
        for (place, rule) in named.chain(chained).enumerate() {
            let (windows, guard, require, covered) = blanks[place % blanks.len()];
            let rule = rule.replace("WINDOWS", windows).replace("GUARD", guard);
            let rule = rule.replace("REQUIRE", require).replace("COVERED", covered);
            let keys: Vec<&str> = rule.split("; ").filter(|key| !key.is_empty()).collect();
            file += &format!("  - {}\n", keys.join("\n    "));
        }
        file
    })
}

const INPUTS: &str = "inputs:
  - metric: tokens_per_second
    boundary: node
    unit: tokens/s
    averaging: instant
";

fn settings() -> impl Strategy<Value = String> {
    let every = select(vec!["1s", "500ms", "2s", "250ms"]);
    let look_back = select(vec!["5s", "2s", "1500ms"]);
    (every, look_back, select(vec!["2s", "500ms", "0s"]), select(vec!["3s", "2s"])).prop_map(
        |(every, look_back, lateness, gap)| {
            format!("every: {every}\nlook_back: {look_back}\nlateness: {lateness}\ngap: {gap}\n")
        },
    )
}

type Blanks = (&'static str, &'static str, &'static str, &'static str);

fn blanks() -> impl Strategy<Value = Blanks> {
    (
        select(vec![
            "over: {every: 2s}",
            "over: {every: 5s}",
            "over: {every: 1s, length: 4s}",
            "over: {every: 500ms, length: 1s}",
            "over: {every: 3s, length: 5s}",
            "over: named",
        ]),
        select(vec![
            "",
            "withhold: {spread_above: 1%}",
            "withhold: {spread_above: 0.5%, below: 99.5}",
        ]),
        select(vec!["", "require: any", "require: all", "require: at least 2"]),
        select(vec!["", "withhold: {coverage_below: 80%}"]),
    )
}
