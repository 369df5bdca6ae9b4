//! Customizations: when they are asked, and scripts that take all the time that they get.

use super::*;

/// They are asked as soon as they are told, also of what was there before; an agent that starts anew asks them without its hub.
#[tokio::test(start_paused = true)]
async fn customizations_are_asked_of_what_is_there_and_of_what_comes() {
    let told = |script: &str| {
        let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"},
            "customizations": {
                "statusReflection": {"luaScript": "function ReflectStatus(o) return {said = o.data.k} end"},
                "healthInterpretation": {"luaScript": script}}}}]);
        let body = Bytes::from(all.to_string());
        Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body }
    };
    let health = |rig: &Rig, key: &str| {
        let statuses = rig.shared.outbox.lock().report(key)?.manifest_statuses.clone()?;
        let statuses: Value = serde_json::from_slice(&statuses).ok()?;
        let word = |at: &str| statuses.pointer(at).and_then(Value::as_str).map(str::to_owned);
        Some((word("/0/health")?, word("/0/status/said")))
    };
    let is = |wanted: &'static str| (wanted.to_owned(), Some("1".to_owned()));
    let rig = Rig::fresh();
    rig.commit(&[put("old", 5, &[config("old", "1")], false)]);
    rig.until("it is known without a script", |rig| {
        health(rig, "old").is_some_and(|(_, said)| said.is_none())
    })
    .await;
    let commit = |rig: &Rig, script: &str| rig.shared.ledger.commit(&[told(script)]).unwrap();
    commit(&rig, "function InterpretHealth(o) return true end");
    rig.until("what was there is read again", |rig| health(rig, "old") == Some(is("Healthy"))).await;
    rig.commit(&[put("new", 6, &[config("new", "1")], false)]);
    rig.until("what comes is", |rig| health(rig, "new") == Some(is("Healthy"))).await;
    let broken = Change::Document { table: 2, hash: vec![7; 16].into(), body: Bytes::from_static(b"{") };
    rig.shared.ledger.commit(&[broken]).unwrap();
    commit(&rig, "function InterpretHealth(o) return o.data.k == 'no' end");
    rig.until("and again", |rig| health(rig, "old") == Some(is("Unhealthy"))).await;
    let (member, shared) = rig.end().await;
    let again = Rig::over(member, shared);
    again.commit(&[put("later", 7, &[config("later", "1")], false)]);
    again.until("it is kept", |rig| health(rig, "later") == Some(is("Unhealthy"))).await;
    again.end().await;
}

/// Who wrote a script that fails at a site looks for the reason at the hub: it is an event of the Work, and only one.
#[tokio::test(start_paused = true)]
async fn a_script_that_fails_is_an_event_of_the_work() {
    let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"},
        "customizations": {"healthInterpretation": {"luaScript": "function InterpretHealth(o) return o.spec.none.at end"}}}}]);
    let body = Bytes::from(all.to_string());
    let told = Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body };
    let rig = Rig::fresh();
    rig.shared.ledger.commit(&[told]).unwrap();
    rig.commit(&[put("a", 5, &[config("a", "1")], false)]);
    rig.until("applied", |rig| rig.applied("a")).await;
    for at in 0..3 {
        rig.member.edit(&id("a"), |o| karmada_api::object::set_label(o, "site", &at.to_string()));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let told = std::iter::from_fn(|| rig.shared.outbox.lock().next_prompt());
    let failed: Vec<_> = told
        .filter_map(|frame| match frame {
            agent_frame::Body::Event(event) => Some(event),
            _ => None,
        })
        .filter(|event| event.reason == "InterpretHealthFailed")
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let event = &failed[0];
    assert_eq!((event.key.as_str(), event.uid.as_str(), event.r#type.as_str()), ("a", "u-a", "Warning"));
    let words = "ConfigMap default/a, in cluster m: the InterpretHealth script of ResourceInterpreterCustomization c: ";
    assert!(event.message.starts_with(words), "{}", event.message);
    rig.end().await;
}

/// A script that takes all its time is put right by its author: what he wrote must not wait behind what it is to put right. Real time: scripts
/// are timed by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_hangs_can_be_taken_back() {
    let told = |script: &str| {
        let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"},
            "customizations": {"statusReflection": {"luaScript": script}}}}]);
        let body = Bytes::from(all.to_string());
        Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body }
    };
    let rig = Rig::fresh();
    let objects: Vec<String> = (0..20).map(|at| format!("o{at}")).collect();
    for (at, name) in objects.iter().enumerate() {
        rig.commit(&[put(name, at as u64 + 1, &[config(name, "1")], false)]);
    }
    rig.until("applied", |rig| objects.iter().all(|name| rig.applied(name))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.shared.ledger.commit(&[told("function ReflectStatus(o) while true do end end")]).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Each object changes a little, as objects do.
    for name in &objects {
        rig.member.edit(&id(name), |o| karmada_api::object::set_label(o, "site", "note"));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = std::time::Instant::now();
    rig.shared.ledger.commit(&[told("function ReflectStatus(o) return {said = 'new'} end")]).unwrap();
    let healthy = |rig: &Rig| {
        objects.iter().any(|name| {
            let outbox = rig.shared.outbox.lock();
            let statuses = outbox.report(name).and_then(|report| report.manifest_statuses.clone());
            statuses.is_some_and(|s| String::from_utf8_lossy(&s).contains(r#""said":"new""#))
        })
    };
    rig.until("the new script is asked", healthy).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(15), "the new script was asked after {took:?}, for 20 objects");
}

/// The link, its tunnels and `/readyz` run on the agent's two threads: whatever scripts do, each gets its turn. Real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_leave_the_link_its_turn() {
    let all = json!([{"metadata": {"name": "c"}, "spec": {"target": {"apiVersion": "v1", "kind": "ConfigMap"}, "customizations": {
        "retention": {"luaScript": "function Retain(d, o) while true do end end"},
        "statusReflection": {"luaScript": "function ReflectStatus(o) while true do end end"}}}}]);
    let body = Bytes::from(all.to_string());
    let told = Change::Document { table: 2, hash: karmada_proto::body::hash(&body), body };
    let rig = Rig::fresh();
    let objects: Vec<String> = (0..40).map(|at| format!("o{at}")).collect();
    for (at, name) in objects.iter().enumerate() {
        rig.commit(&[put(name, at as u64 + 1, &[config(name, "1")], false)]);
    }
    rig.until("applied", |rig| objects.iter().all(|name| rig.applied(name))).await;
    rig.shared.ledger.commit(&[told]).unwrap();
    // New bodies for all, as one release brings them.
    for (at, name) in objects.iter().enumerate() {
        rig.commit(&[put(name, at as u64 + 101, &[config(name, "2")], false)]);
    }
    let link = tokio::spawn(async {
        let (begun, mut last, mut longest) =
            (std::time::Instant::now(), std::time::Instant::now(), Duration::ZERO);
        while begun.elapsed() < Duration::from_secs(8) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            longest = longest.max(last.elapsed());
            last = std::time::Instant::now();
        }
        longest
    });
    let longest = link.await.unwrap();
    assert!(longest < Duration::from_secs(5), "the link waited {longest:?} for its turn");
}
