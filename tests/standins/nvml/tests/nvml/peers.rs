//! Readers that others wrote, on the stand-in: they know the interface from the header and not from us.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::Command;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde_json::{Value, json};
use wattscribe_standins::{NvmlReturn, NvmlScript, Stage, unbalanced};

use crate::gpus;

#[test]
fn nvml_wrapper_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(folder.path(), NvmlScript::new(gpus())).unwrap();
    let load = || Nvml::builder().lib_path(stage.library().as_os_str()).init();
    let nvml = load().unwrap();
    assert_eq!(nvml.device_count().unwrap(), 2);
    let device = nvml.device_by_index(1).unwrap();
    assert_eq!(device.uuid().unwrap(), "GPU-bb");
    assert_eq!(device.name().unwrap(), "NVIDIA GB200");
    assert_eq!(device.pci_info().unwrap().bus_id, "00000009:01:00.0");
    assert_eq!(device.power_usage().unwrap(), 171_000);
    assert!(device.is_in_persistent_mode().unwrap());
    stage.change(|script| script.devices[1].persistence_mode = false).unwrap();
    assert!(!device.is_in_persistent_mode().unwrap());
    nvml.shutdown().unwrap();
    assert_eq!(unbalanced(&stage.calls().unwrap()), Vec::<String>::new());

    let lost = |script: &mut NvmlScript| script.driver.error = Some(NvmlReturn::DriverNotLoaded);
    stage.change(lost).unwrap();
    let refused = Nvml::builder().lib_path(stage.library().as_os_str()).init();
    assert!(matches!(refused, Err(NvmlError::DriverNotLoaded)), "{:?}", refused.err());
}

/// What is asked of pynvml: the sizes of its structures, and what it reads of both GPUs.
const PYNVML: &str = r#"
import ctypes, json, pynvml as n
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
fields = lambda h: [
    [v.fieldId, v.scopeId, v.nvmlReturn, v.valueType, v.value.uiVal]
    for v in n.nvmlDeviceGetFieldValues(h, [(185, 0), (185, 1), (186, 1)])
]
text = lambda v: v.decode() if isinstance(v, bytes) else v
print(json.dumps({
    "sizes": [ctypes.sizeof(n.c_nvmlFieldValue_t), ctypes.sizeof(n.nvmlPciInfo_t)],
    "offsets": [getattr(n.c_nvmlFieldValue_t, f).offset for f in ("scopeId", "valueType", "nvmlReturn", "value")],
    "driver": text(n.nvmlSystemGetDriverVersion()),
    "uuid": [text(n.nvmlDeviceGetUUID(h)) for h in handles],
    "pci": [[text(p.busIdLegacy), p.domain, p.bus, p.device, text(p.busId)]
            for p in map(n.nvmlDeviceGetPciInfo, handles)],
    "power": [n.nvmlDeviceGetPowerUsage(h) for h in handles],
    "fields": [fields(h) for h in handles],
}))
n.nvmlShutdown()
"#;

#[test]
fn pynvml_reads_it() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), NvmlScript::new(gpus())).unwrap();
    // It loads the library by the name of the real one, so the script has to be told by the variable.
    std::fs::copy(stage.library(), folder.path().join("libnvidia-ml.so.1")).unwrap();
    let (variable, script) = stage.environment();
    let output = Command::new(python)
        .args(["-c", PYNVML])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(variable, script)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let read: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let expected = json!({
        "sizes": [40, 68],
        "offsets": [4, 24, 28, 32],
        "driver": "580.126.20",
        "uuid": ["GPU-aa", "GPU-bb"],
        "pci": [
            ["0008:01:00.0", 8, 1, 0, "00000008:01:00.0"],
            ["0009:01:00.0", 9, 1, 0, "00000009:01:00.0"],
        ],
        "power": [170_500, 171_000],
        "fields": [
            [[185, 0, 0, 1, 170_500], [185, 1, 0, 1, 539_000], [186, 1, 3, 0, 0]],
            [[185, 0, 0, 1, 171_000], [185, 1, 0, 1, 541_000], [186, 1, 3, 0, 0]],
        ],
    });
    assert_eq!(read, expected);
    let calls = stage.calls().unwrap();
    assert_eq!(calls[0].symbol, "nvmlInitWithFlags");
    assert_eq!(unbalanced(&calls), Vec::<String>::new());
}

/// A Python that has pynvml (`nvidia-ml-py` of PyPI): the one that `WATTSCRIBE_PYTHON` names, or that of the tests, or
/// the first on the path. Where none has it that is said, and with `CI` set in the environment it is a failure.
fn python() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let named = std::env::var_os("WATTSCRIBE_PYTHON").map(PathBuf::from);
    let candidates = [named, Some(root.join(".venv/bin/python")), Some("python3".into())];
    let has_pynvml = |python: &PathBuf| {
        let check = Command::new(python).args(["-c", "import pynvml"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().flatten().find(has_pynvml);
    if found.is_none() {
        let missing = "no Python has pynvml (pip install nvidia-ml-py)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        // Not with println, which libtest keeps to itself for a test that passes.
        stdout().write_all(format!("skipped: {missing}\n").as_bytes()).unwrap();
    }
    found
}
