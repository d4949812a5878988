//! The scripts of the README are scripts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use wattscribe_standins::{
    Block, DcgmReturn, DcgmScript, NvmlReturn, NvmlScript, Stamp, Value, ValueType,
};

/// The JSON of a section.
fn json(heading: &str) -> &'static str {
    let page = include_str!("../../README.md");
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, block) = section.split_once("```json\n").unwrap();
    block.split_once("```").unwrap().0
}

#[test]
fn the_script_of_nvml_is_read_as_it_is_explained() {
    let script: NvmlScript = serde_json::from_str(json("NVML")).unwrap();
    let device = &script.devices[0];
    let types: Vec<ValueType> = device.fields.iter().map(|field| field.value_type).collect();
    assert_eq!(types, [ValueType::Uint32, ValueType::Double, ValueType::Uint32]);
    let blocks = device.calls["nvmlDeviceGetFieldValues"];
    assert_eq!((blocks.block, blocks.error), (Some(Block::Seconds(60.0)), None));
    let fails = script.calls["nvmlDeviceGetCount_v2"];
    assert_eq!((fails.error, fails.skip), (Some(NvmlReturn::Timeout), 3));
    let again = serde_json::to_string(&script).unwrap();
    assert_eq!(serde_json::from_str::<NvmlScript>(&again).unwrap(), script);
}

#[test]
fn the_script_of_dcgm_is_read_as_it_is_explained() {
    let mut script: DcgmScript = serde_json::from_str(json("DCGM")).unwrap();
    assert_eq!(script.watch_refused[&1132], DcgmReturn::NotSupported);
    assert_eq!(script.calls["dcgmUpdateAllFields"].block, Some(Block::ForEver));
    let last = script.field_mut(0, 1133).unwrap();
    let expected = (DcgmReturn::StaleData, Stamp::AtUs(0), Some(9));
    assert_eq!((last.status, last.stamp, last.stamped_entity), expected);
    assert_eq!(last.value, Value::Int64(180));
    // A NaN is not equal to itself, so what is written is compared as text.
    let again = serde_json::to_string(&script).unwrap();
    let read: DcgmScript = serde_json::from_str(&again).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), again);

    let empty: DcgmScript = serde_json::from_str("{}").unwrap();
    assert!(empty.engine.running && empty.entities.is_empty());
}
