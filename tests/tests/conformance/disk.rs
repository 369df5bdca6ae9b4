//! A hub whose disk is full, or takes no writes: it says so where monitors look, takes what helps, and comes back by itself.

use std::process::Command;

use http::Method;
use serde_json::json;
use tests::hub::{Hub, HubOptions};
use tests::must_not_skip;
use tests::subject::is_hub;
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::{Answer, Caller};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn ready(caller: &Caller) -> Answer {
    caller.anonymous().get("/readyz")
}

fn map(caller: &Caller, name: &str, bytes: usize) -> Answer {
    caller.post(MAPS, &json!({"metadata": {"name": name}, "data": {"key": "x".repeat(bytes)}}))
}

fn await_ready(caller: &Caller) {
    eventually("a hub that is ready again", TIMEOUT, || {
        let answer = ready(caller);
        so(answer.code == 200 && answer.text == "ok", || format!("{} {}", answer.code, answer.text))
    });
}

/// Whether this system lets a test do something. In CI one that does not is a failure.
fn can(program: &str, args: &[&str]) -> bool {
    let why = match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => format!("{}, {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => error.to_string(),
    };
    let why = format!("{program} {args:?} cannot be done here: {why}");
    assert!(!must_not_skip(), "{why}");
    println!("skipped: {why}");
    false
}

#[test]
fn a_full_disk_is_told_of_takes_deletions_and_is_left_behind() {
    if !is_hub() || !can("unshare", &["-rm", "true"]) {
        return;
    }
    let hub = Hub::start(HubOptions { own_disk: "64m".into(), ..HubOptions::default() });
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    await_ready(&caller);
    let mut names = Vec::new();
    let refused = loop {
        let name = format!("large-{}", names.len());
        let answer = map(&caller, &name, 100_000);
        match answer.code {
            201 => names.push(name),
            _ => break answer,
        }
        assert!(names.len() < 1000, "64 MB are full some day");
    };
    assert_eq!(refused.code, 503, "{}", refused.text);
    assert!(refused.text.contains("the disk is full"), "{}", refused.text);
    // And it goes on saying so, however often it is asked.
    for _ in 0..20 {
        let answer = ready(&caller);
        assert_eq!(answer.code, 500);
        assert!(answer.text.contains("[-]etcd failed: the disk is full"), "{}", answer.text);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(caller.get("/healthz").code, 200, "it lives, and a restart would help nobody");
    // What is there is served, and can be deleted.
    caller.get(&format!("{MAPS}/{}", names[0])).is(200);
    for name in &names {
        caller.send(Method::DELETE, &format!("{MAPS}/{name}"), &[], "").is(200);
    }
    await_ready(&caller);
    eventually("room for what is new", TIMEOUT, || {
        let answer = map(&caller, "again", 100_000);
        so(matches!(answer.code, 201 | 409), || format!("{} {}", answer.code, answer.text))
    });
}

#[test]
fn a_disk_that_takes_no_writes_is_told_of_until_it_does() {
    if !is_hub() {
        return;
    }
    let hub = Hub::start(HubOptions::default());
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    map(&caller, "before", 10).is(201);
    let log = hub.data_dir().join("hub.db-wal").display().to_string();
    let told = hub.data_dir().join("hub.db.acknowledged").display().to_string();
    // To the process with the file open that is what a file system is that was mounted read-only meanwhile.
    if !can("chattr", &["+i", &log, &told]) {
        return;
    }
    let answer = map(&caller, "meanwhile", 10);
    let not_ready = ready(&caller);
    let read = caller.get(&format!("{MAPS}/before"));
    assert!(can("chattr", &["-i", &log, &told]));
    assert_eq!(answer.code, 503, "{}", answer.text);
    assert!(answer.text.contains("the write was not stored"), "{}", answer.text);
    assert_eq!(not_ready.code, 500);
    assert!(not_ready.text.contains("[-]etcd failed: "), "{}", not_ready.text);
    assert!(!not_ready.text.contains("full"), "there is room: {}", not_ready.text);
    read.is(200);
    await_ready(&caller);
    map(&caller, "after", 10).is(201);
    assert_ne!(caller.get(&format!("{MAPS}/meanwhile")).code, 200, "what was refused was not written");
}
