//! What scripts may take of an agent, which is installed with a limit of 128 MiB and has two threads that run scripts.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use jiff::Timestamp;
use karmada_interpreter::{Interpreter as _, Native};
use karmada_lua::{Customization, Customized};
use serde_json::json;

/// The most memory that this process had, in MiB.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn two_scripts_leave_an_agent_room_to_live() {
    let script = "function ReflectStatus(o) local t, s = {}, 'x' for i = 1, 19 do s = s .. s end for i = 1, 100 do t[i] = s .. i end return {n = #t} end";
    // A kind each: a script that a slow machine took long for rests before it is asked for the next object.
    let kinds = ["ConfigMap", "Secret"];
    let customization = |kind: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": kind}, "spec": {
            "target": {"apiVersion": "v1", "kind": kind}, "customizations": {"statusReflection": {"luaScript": script}}}})
    };
    let customized = Arc::new(Customized::new(Arc::new(Native), Arc::new(|| Timestamp::UNIX_EPOCH)));
    customized.replace(kinds.map(|kind| Customization::of(&customization(kind))).into());
    let before = most();
    let threads = kinds.map(|kind| {
        let customized = customized.clone();
        std::thread::spawn(move || {
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
            let said = customized.reflect_status(&object);
            said.map(|status| status.map_or(0, |status| status.to_string().len()))
                .map_err(|error| error.to_string())
        })
    });
    let said = threads.map(|thread| thread.join().unwrap());
    let took = most() - before;
    assert!(took < 64 && said.iter().all(Result::is_ok), "two scripts took {took} MiB: {said:?}");
}
