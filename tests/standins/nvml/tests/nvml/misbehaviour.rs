//! Calls that fail, come late or never, and what is left of them in the log.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use wattscribe_standins::NvmlReturn::{GpuIsLost, Memory, Timeout, Unknown};
use wattscribe_standins::{Behaviour, Block, Call, NvmlScript, Stage, StageError};

use crate::{gpus, module_w, staged};

/// Waits for a call that fits, which is in the log as soon as it has begun. Half a minute is for a loaded machine.
fn call(stage: &Stage<NvmlScript>, fits: impl Fn(&Call) -> bool) -> Call {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let calls = stage.calls().unwrap();
        match calls.iter().find(|call| fits(call)) {
            Some(call) => return call.clone(),
            None => assert!(Instant::now() < deadline, "no such call in {calls:?}"),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_call_fails_after_those_that_are_left_alone() {
    let fails = Behaviour::fails(Timeout).after(2);
    let (_folder, mut stage, nvml) =
        staged(NvmlScript::new(gpus()).call("nvmlDeviceGetCount_v2", fails));
    nvml.init().unwrap();
    let counted = [(); 4].map(|()| nvml.count());
    assert_eq!(counted, [Ok(2), Ok(2), Err(Timeout), Err(Timeout)]);
    // Written differently it begins anew.
    let fails = Behaviour::fails(Memory).after(1);
    stage.change(|script| script.set_call("nvmlDeviceGetCount_v2", fails)).unwrap();
    assert_eq!([nvml.count(), nvml.count()], [Ok(2), Err(Memory)]);
    stage.change(|script| script.calls.clear()).unwrap();
    assert_eq!(nvml.count(), Ok(2));
}

#[test]
fn one_device_misbehaves_and_the_other_does_not() {
    let [first, mut second] = gpus();
    second.calls.insert("nvmlDeviceGetFieldValues".into(), Behaviour::fails(GpuIsLost));
    let (_folder, _stage, nvml) = staged(NvmlScript::new([first, second]));
    nvml.init().unwrap();
    let [first, second] = [0, 1].map(|index| nvml.handle(index).unwrap());
    assert_eq!(module_w(&nvml, first), Ok(539));
    assert_eq!(module_w(&nvml, second), Err(GpuIsLost));
    assert_eq!(nvml.uuid(second, 80).unwrap(), "GPU-bb");
}

#[test]
fn a_call_comes_late() {
    let late = Behaviour::blocks(Block::Seconds(0.2));
    let (_folder, stage, nvml) = staged(NvmlScript::new(gpus()).call("nvmlInit_v2", late));
    let began = Instant::now();
    nvml.init().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    assert!(stage.calls().unwrap()[0].succeeded());
}

#[test]
fn a_blocked_call_holds_up_no_other_and_comes_back_when_it_may() {
    let (_folder, mut stage, nvml) = staged(NvmlScript::new(gpus()));
    let nvml = Arc::new(nvml);
    nvml.init().unwrap();
    let [first, second] = [0, 1].map(|index| nvml.handle(index).unwrap());
    let blocks = Behaviour::blocks(Block::UntilChanged);
    stage
        .change(|script| {
            script.devices[0].calls.insert("nvmlDeviceGetFieldValues".into(), blocks);
        })
        .unwrap();
    let blocked = thread::spawn({
        let nvml = Arc::clone(&nvml);
        move || module_w(&nvml, first)
    });
    let begun = call(&stage, |call| call.symbol == "nvmlDeviceGetFieldValues");
    assert_eq!((begun.args["pci"].as_str(), &begun.outcome), (Some("0008:01:00.0"), &None));
    assert_eq!(begun.args["fields"], json!([[185, 1]]));
    assert_eq!(module_w(&nvml, second), Ok(541));
    assert!(!blocked.is_finished());

    stage.change(|script| script.devices[0].calls.clear()).unwrap();
    assert_eq!(blocked.join().unwrap(), Ok(539));
    let ended = call(&stage, |call| call.thread == begun.thread && call.outcome.is_some());
    assert_eq!(ended.outcome, Some((0, json!({"results": [0]}))));
}

#[test]
fn a_call_that_never_comes_back_stays_in_the_log_without_a_result() {
    let blocks = Behaviour::blocks(Block::ForEver);
    let (_folder, mut stage, nvml) =
        staged(NvmlScript::new(gpus()).call("nvmlDeviceGetCount_v2", blocks));
    let nvml = Arc::new(nvml);
    nvml.init().unwrap();
    let gone = thread::spawn({
        let nvml = Arc::clone(&nvml);
        move || nvml.count()
    });
    let begun = call(&stage, |call| call.symbol == "nvmlDeviceGetCount_v2");
    stage.change(|script| script.calls.clear()).unwrap();
    assert_eq!(nvml.count(), Ok(2), "another call of it comes back");
    let again = call(&stage, |call| call.thread == begun.thread && call.symbol == begun.symbol);
    assert_eq!(again.outcome, None);
    assert!(!gone.is_finished());
}

#[test]
fn a_script_that_cannot_be_followed_fails_every_call_and_says_why() {
    let (_folder, mut stage, nvml) = staged(NvmlScript::new(gpus()));
    nvml.init().unwrap();
    let wrong = Behaviour::fails(Timeout);
    stage.change(|script| script.set_call("nvmlDeviceGetCount", wrong)).unwrap();
    assert_eq!(nvml.count(), Err(Unknown));
    match stage.calls() {
        Err(StageError::Refused(why)) => assert!(why.contains("\"nvmlDeviceGetCount\""), "{why}"),
        other => panic!("{other:?}"),
    }
}
