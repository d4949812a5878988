//! Every metric family that the exporter publishes, declared once. The page, the documentation, the
//! dashboards and the rules are held to this list by tests.

use wattscribe_parser::{Family, Kind};

const fn gauge(name: &'static str, help: &'static str) -> Family<'static> {
    Family { name, kind: Kind::Gauge, help }
}

const fn counter(name: &'static str, help: &'static str) -> Family<'static> {
    Family { name, kind: Kind::Counter, help }
}

/// Labels: sensor, type, socket, oem_info, source. Names, order and six decimals are a wire contract.
pub const ACPI_WATTS: Family<'static> = gauge(
    "cpu_power_acpi_watts",
    "Power of one firmware power channel of a CPU socket, read through hwmon, in watts.",
);

/// Labels: type, zone, socket, source.
pub const RAPL_WATTS: Family<'static> = gauge(
    "cpu_power_rapl_watts",
    "Mean power of one powercap zone between its last two reads, in watts.",
);

/// Labels: type, zone, socket, source.
pub const ENERGY_JOULES: Family<'static> = counter(
    "cpu_energy_joules_total",
    "Energy counted by one powercap zone, corrected for wraps, in joules; from zero at the exporter's start and after a break in the count.",
);

/// Labels: type, zone, socket, source. What OpenMetrics calls the created time; text 0.0.4 has no place for it.
pub const ENERGY_SINCE: Family<'static> = gauge(
    "cpu_energy_since_timestamp_seconds",
    "Unix time from which the zone's energy is counted; it changes when the counter begins anew.",
);

/// Labels: type, zone, socket, source.
pub const ENERGY_WRAPS: Family<'static> = counter(
    "cpu_energy_wraps_total",
    "How often the zone's own counter passed its range; the energy is corrected for it.",
);

/// Labels: socket, field_id, source. Names, order and six decimals are a wire contract. No field covers a
/// whole socket.
pub const DCGM_WATTS: Family<'static> = gauge(
    "cpu_power_dcgm_watts",
    "Power of one rail of a CPU socket, read through DCGM, in watts: field 1130 is the rail of the cores, 1132 SysIO; neither covers the whole socket.",
);

/// Labels: type, socket, gpus, source. Names, order and six decimals are a wire contract.
pub const NVML_WATTS: Family<'static> = gauge(
    "cpu_power_nvml_watts",
    "Power of the whole superchip module of a socket, read through NVML, in watts: its CPU, its GPUs, the memory of both, and regulators. The mean of what its GPUs report.",
);

/// Labels: gpu, uuid, pci, socket, source.
pub const MODULE_WATTS: Family<'static> = gauge(
    "gpu_module_power_watts",
    "Power of the whole superchip module as one of its GPUs reports it, in watts; mean of one second.",
);

/// Labels: socket, source.
pub const MODULE_SPREAD: Family<'static> = gauge(
    "gpu_module_spread_ratio",
    "Highest less lowest report of one module's power as a fraction of their mean; above 0.05 the mean is withheld.",
);

/// Labels: kind, pci, uuid, vendor_id, device_id, driver, role, name, index, numa_node, serial, mig.
pub const ACCELERATOR_INFO: Family<'static> =
    gauge("accelerator_info", "An accelerator, or what looks like one and is none; always 1.");

/// Labels: kind, pci, uuid, vendor_id, device_id, driver, socket, scope, averaging.
pub const ACCELERATOR_WATTS: Family<'static> = gauge(
    "accelerator_power_watts",
    "Power of one accelerator, in watts: one series for each, whose scope says what it covers.",
);

/// Labels: kind, pci, uuid, vendor_id, device_id, driver.
pub const ACCELERATOR_INSTANT_WATTS: Family<'static> = gauge(
    "accelerator_instant_power_watts",
    "Power of one accelerator at the moment, in watts, where its power is an average.",
);

/// Labels: kind, pci, uuid, vendor_id, device_id, driver, component.
pub const ACCELERATOR_COMPONENT_WATTS: Family<'static> = gauge(
    "accelerator_component_power_watts",
    "Power of a part of one accelerator, in watts; parts lie within the accelerator's power and are never added to it.",
);

/// Labels: kind, pci, uuid, vendor_id, device_id, driver, scope, counter.
pub const ACCELERATOR_JOULES: Family<'static> = counter(
    "accelerator_energy_joules_total",
    "Energy of one accelerator in joules, from zero at the exporter's start and after a break: by its own counter (hardware), or its power added up (integrated).",
);

/// Labels: kind, pci, uuid, vendor_id, device_id, driver, scope, counter.
pub const ACCELERATOR_ENERGY_SINCE: Family<'static> = gauge(
    "accelerator_energy_since_timestamp_seconds",
    "Unix time from which the accelerator's energy is counted; it changes when the count begins anew.",
);

/// Labels: kind, pci, uuid, vendor_id, device_id, driver.
pub const ACCELERATOR_SUSPENDED: Family<'static> = gauge(
    "accelerator_suspended",
    "1 while runtime power management holds the accelerator asleep, and it is not woken to be measured; else 0.",
);

/// Labels: source, sensor.
pub const READING_TIMESTAMP: Family<'static> = gauge(
    "power_reading_timestamp_seconds",
    "Unix time at which the sensor was read for the value on this page.",
);

/// Labels: source, sensor.
pub const READING_WINDOW: Family<'static> = gauge(
    "power_reading_window_seconds",
    "Length of the time that the value is a mean over, ending at its read; absent where unknown.",
);

/// Labels: source, sensor. A fact and no verdict: nothing says which of the sensors is wrong.
pub const PARTS_RATIO: Family<'static> = gauge(
    "power_parts_ratio",
    "Power of all parts of a whole as a fraction of the power of the whole; above 1 its sensors contradict each other.",
);

/// Labels: source, sensor, state.
pub const SENSOR_STATE: Family<'static> =
    gauge("power_sensor_state", "1 for the state that the sensor's reading is in now.");

/// Labels: source, sensor, channel, type, socket, label, averaging.
pub const SENSOR_INFO: Family<'static> =
    gauge("power_sensor_info", "What a sensor measures and where it stands; always 1.");

/// Labels: source, sensor, reason.
pub const WITHHELD: Family<'static> =
    gauge("power_withheld", "1 for each sensor whose value is not published, with the reason.");

/// Labels: source, sensor, twin.
pub const SENSOR_TWIN: Family<'static> = gauge(
    "power_sensor_twin",
    "1 for each sensor of a socket that has given the same number as another socket's for 60 reads in a row and more: one meter may stand for both.",
);

/// Labels: source, rung.
pub const SOURCE_SELECTED: Family<'static> =
    gauge("power_source_selected", "1 for the source that this node is measured with.");

/// Labels: source, engine. Only where an engine stands between the library and the sensors.
pub const ENGINE_INFO: Family<'static> = gauge(
    "power_engine_info",
    "The DCGM engine that answers: its address, or embedded for one inside the exporter; always 1.",
);

/// Labels: source, reason.
pub const READ_ERRORS: Family<'static> =
    counter("power_read_errors_total", "Reads of sensors that gave no value, by reason.");

/// Labels: source.
pub const READ_DURATION: Family<'static> = Family {
    name: "power_read_duration_seconds",
    kind: Kind::Histogram,
    help: "How long reads of sensors took, in seconds.",
};

/// No labels.
pub const SIMULATED: Family<'static> = gauge(
    "power_simulated",
    "1 when the sensors are simulated: nothing on this page was measured.",
);

/// No labels. With it, a reader tells a reading's age without trusting that two clocks agree.
pub const EXPOSITION_TIMESTAMP: Family<'static> =
    gauge("power_exposition_timestamp_seconds", "Unix time of this node as the page was made.");

/// Labels: version.
pub const BUILD_INFO: Family<'static> =
    gauge("power_exporter_build_info", "Version of the exporter; always 1.");

/// Labels: instance_id.
pub const INSTANCE_INFO: Family<'static> = gauge(
    "power_exporter_instance_info",
    "A random name of this exporter, new with each start, by which one that is scraped twice is noticed; always 1.",
);

/// All of them.
pub const ALL: [&Family<'static>; 31] = [
    &ACPI_WATTS,
    &DCGM_WATTS,
    &RAPL_WATTS,
    &ENERGY_JOULES,
    &ENERGY_SINCE,
    &ENERGY_WRAPS,
    &NVML_WATTS,
    &MODULE_WATTS,
    &MODULE_SPREAD,
    &ACCELERATOR_INFO,
    &ACCELERATOR_WATTS,
    &ACCELERATOR_INSTANT_WATTS,
    &ACCELERATOR_COMPONENT_WATTS,
    &ACCELERATOR_JOULES,
    &ACCELERATOR_ENERGY_SINCE,
    &ACCELERATOR_SUSPENDED,
    &READING_TIMESTAMP,
    &READING_WINDOW,
    &PARTS_RATIO,
    &SENSOR_STATE,
    &SENSOR_INFO,
    &WITHHELD,
    &SENSOR_TWIN,
    &SOURCE_SELECTED,
    &ENGINE_INFO,
    &READ_ERRORS,
    &READ_DURATION,
    &SIMULATED,
    &EXPOSITION_TIMESTAMP,
    &BUILD_INFO,
    &INSTANCE_INFO,
];
