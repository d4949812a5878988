//! The stand-in for libnvidia-ml as a program meets it: loaded, called through C, and changed while it is open.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod loaded;
mod misbehaviour;
mod peers;

use tempfile::TempDir;
use wattscribe_standins::NvmlReturn::{
    DriverNotLoaded, GpuIsLost, InsufficientSize, InvalidArgument, NoPermission, NotSupported,
    Uninitialized,
};
use wattscribe_standins::{
    Answer, Device, NvmlReturn, NvmlScript, Script, Series, Stage, ValueType, field, scope,
    unbalanced,
};

use crate::loaded::Nvml;

/// Two GPUs of one GB200 module.
fn gpus() -> [Device; 2] {
    [
        Device::new("GPU-aa", "0008:01:00.0").module_mw(539_000.0).gpu_mw(170_500.0),
        Device::new("GPU-bb", "0009:01:00.0").module_mw(541_000.0).gpu_mw(171_000.0),
    ]
}

/// A script on a stage of its own, and the library loaded from it.
fn staged(script: NvmlScript) -> (TempDir, Stage<NvmlScript>, Nvml) {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), script).unwrap();
    let nvml = Nvml::load(stage.library());
    (folder, stage, nvml)
}

#[test]
fn every_symbol_is_exported() {
    let (_folder, _stage, nvml) = staged(NvmlScript::default());
    for symbol in NvmlScript::SYMBOLS.iter().chain(&["nvmlErrorString"]) {
        assert!(nvml.has(symbol), "{symbol}");
    }
    assert!(!nvml.has("nvmlInit"), "a symbol that is not there must not be found");
    let texts = [(0, "SUCCESS"), (9, "DRIVER_NOT_LOADED"), (31, "not a return code")];
    for (code, expected) in texts {
        assert_eq!(nvml.error_string(code), expected);
    }
}

#[test]
fn devices_are_found_with_their_identity() {
    let (_folder, stage, nvml) = staged(NvmlScript::new(gpus()));
    assert_eq!(nvml.count(), Err(Uninitialized));
    nvml.init().unwrap();
    assert_eq!(nvml.count(), Ok(2));
    assert_eq!(nvml.driver_version(80).unwrap(), "580.126.20");
    let device = nvml.handle(1).unwrap();
    assert_eq!(nvml.uuid(device, 80).unwrap(), "GPU-bb");
    assert_eq!(nvml.uuid(device, 7).unwrap(), "GPU-bb", "six letters and the terminator");
    assert_eq!(nvml.uuid(device, 6), Err(InsufficientSize));
    assert_eq!(nvml.name(device, 96).unwrap(), "NVIDIA GB200");
    let pci = nvml.pci(device).unwrap();
    assert_eq!((pci.domain, pci.bus, pci.device), (9, 1, 0));
    assert_eq!(pci.texts(), ["0009:01:00.0", "00000009:01:00.0"]);
    assert_eq!(nvml.handle(2), Err(InvalidArgument));
    nvml.shutdown().unwrap();
    assert_eq!(nvml.uuid(device, 80), Err(Uninitialized));
    assert_eq!(unbalanced(&stage.calls().unwrap()), Vec::<String>::new());
}

#[test]
fn fields_are_read_by_scope_type_and_return_code() {
    let mut device = Device::new("GPU-aa", "0008:01:00.0");
    let types = [
        ValueType::Double,
        ValueType::Uint32,
        ValueType::UnsignedLong,
        ValueType::Uint64,
        ValueType::Int64,
        ValueType::Int32,
        ValueType::Uint16,
        ValueType::Unheard,
    ];
    for (scope, value_type) in (10..).zip(types) {
        device.set(field::POWER_AVERAGE, scope, Answer::Number(Series::from(500.0)));
        device.fields.last_mut().unwrap().value_type = value_type;
    }
    device.set(field::POWER_AVERAGE, scope::MEMORY, Answer::Error(NoPermission));
    device.set(field::POWER_INSTANT, scope::MODULE, Answer::Number(Series::Steps(vec![])));
    let (_folder, _stage, nvml) = staged(NvmlScript::new([device]));
    nvml.init().unwrap();
    let device = nvml.handle(0).unwrap();
    let junk = 0xa5a5_a5a5_0000_01f4;
    let ok = |value_type, bits| Ok((value_type, bits));
    let cases = [
        (185, 10, ok(0, 500_f64.to_bits())),
        (185, 11, ok(1, junk)),
        (185, 12, ok(2, 500)),
        (185, 13, ok(3, 500)),
        (185, 14, ok(4, 500)),
        (185, 15, ok(5, junk)),
        (185, 16, ok(6, 0xa5a5_a5a5_a5a5_01f4)),
        (185, 17, ok(77, 500)),
        (185, scope::MEMORY, Err(NoPermission)),
        (185, scope::MODULE, Err(NotSupported)),
        (186, scope::MODULE, Err(NvmlReturn::NoData)),
    ];
    let asked: Vec<(u32, u32)> = cases.iter().map(|(field, scope, _)| (*field, *scope)).collect();
    for (found, (field, scope, expected)) in nvml.fields(device, &asked).unwrap().iter().zip(cases)
    {
        assert_eq!(found.reading(), expected, "field {field} scope {scope}");
        assert!(found.timestamp > 1_600_000_000_000_000, "microseconds since 1970");
    }
    assert_eq!(nvml.fields(device, &[]).unwrap_err(), InvalidArgument);
    assert_eq!(nvml.fields(0, &[(185, 0)]).unwrap_err(), InvalidArgument);
}

#[test]
fn power_and_energy_have_calls_of_their_own() {
    let energy = Answer::Number(Series::from(1e13));
    let device = Device::new("GPU-aa", "0008:01:00.0").gpu_mw(170_500.0);
    let device = device.with(field::TOTAL_ENERGY, scope::GPU, energy);
    let (_folder, _stage, nvml) = staged(NvmlScript::new([device, gpus()[1].clone()]));
    nvml.init().unwrap();
    let [first, second] = [0, 1].map(|index| nvml.handle(index).unwrap());
    assert_eq!(nvml.power_usage(first), Ok(170_500));
    assert_eq!(nvml.total_energy(first), Ok(10_000_000_000_000));
    assert_eq!(nvml.total_energy(second), Err(NotSupported));
}

/// Module power of a device in watts.
fn module_w(nvml: &Nvml, device: usize) -> Result<u64, NvmlReturn> {
    let found = nvml.fields(device, &[(185, scope::MODULE)])?[0].reading()?;
    Ok((found.1 & u64::from(u32::MAX)) / 1000)
}

#[test]
fn the_script_is_followed_while_the_library_is_open() {
    let (_folder, mut stage, nvml) = staged(NvmlScript::new(gpus()));
    nvml.init().unwrap();
    let [first, second] = [0, 1].map(|index| nvml.handle(index).unwrap());
    assert_eq!(module_w(&nvml, second), Ok(541));

    // They disagree, and agree again.
    let second_w = |stage: &mut Stage<NvmlScript>, milliwatts: f64| {
        let answer = Answer::Number(Series::from(milliwatts));
        stage.change(|script| script.devices[1].set(185, scope::MODULE, answer)).unwrap();
    };
    second_w(&mut stage, 600_000.0);
    assert_eq!(module_w(&nvml, second), Ok(600));
    second_w(&mut stage, 540_000.0);
    assert_eq!(module_w(&nvml, second), Ok(540));

    // One is lost: the other moves up.
    stage.change(|script| script.devices[0].lost = true).unwrap();
    assert_eq!(nvml.count(), Ok(1));
    assert_eq!(module_w(&nvml, first), Err(GpuIsLost));
    assert_eq!(nvml.handle(0), Ok(second));

    // It is back, under another name.
    stage
        .change(|script| {
            script.devices[0].lost = false;
            script.devices[0].uuid = "GPU-cc".into();
        })
        .unwrap();
    assert_eq!(nvml.uuid(first, 80).unwrap(), "GPU-cc");
}

#[test]
fn a_driver_comes_and_goes() {
    let mut script = NvmlScript::new(gpus());
    script.driver.error = Some(DriverNotLoaded);
    let (_folder, mut stage, nvml) = staged(script);
    assert_eq!(nvml.init(), Err(DriverNotLoaded));
    stage.change(|script| script.driver.error = None).unwrap();
    nvml.init().unwrap();
    let device = nvml.handle(0).unwrap();
    stage.change(|script| script.driver.load += 1).unwrap();
    assert_eq!(module_w(&nvml, device), Err(Uninitialized));
    nvml.shutdown().unwrap();
    nvml.init().unwrap();
    let device = nvml.handle(0).unwrap();
    assert_eq!(module_w(&nvml, device), Ok(539));
    assert_eq!(unbalanced(&stage.calls().unwrap()), ["1 times no nvmlShutdown"]);
}
