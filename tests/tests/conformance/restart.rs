//! A hub that stops, is killed, and comes back: nothing acknowledged is lost, nothing goes backwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tests::api::text_at;
use tests::hub::{Hub, HubOptions};
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::{Caller, short};
use tests::subject::is_hub;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn version(object: &Value) -> u64 {
    text_at(object, "/metadata/resourceVersion").parse().unwrap()
}

#[test]
fn a_hub_drains_and_goes_on_where_it_stood() {
    if !is_hub() {
        return;
    }
    let mut hub = Hub::start(HubOptions::default());
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    let before = std::fs::read(hub.kubeconfig()).unwrap();
    let made =
        caller.post(SECRETS, &json!({"metadata": {"name": "kept", "labels": {"a": "b"}}})).is(201).json();
    for n in 0..3 {
        caller.post(SECRETS, &json!({"metadata": {"name": format!("page-{n}")}})).is(201);
    }
    let page = caller.get(&format!("{SECRETS}?limit=1")).is(200).json();
    let watch = caller.watch(&format!("{SECRETS}?watch=1&resourceVersion={}", version(&page)));
    // It ends the watch in order, and itself with status 0, which `stop` checks.
    hub.stop();
    assert!(watch.rest().iter().all(|(kind, _)| kind != "ERROR"), "a drained watch just ends");
    hub.start_again();
    let caller = Caller::of_kubeconfig(&hub.kubeconfig());
    assert_eq!(std::fs::read(hub.kubeconfig()).unwrap(), before, "the administrator's credential is kept");
    assert_eq!(caller.get(&format!("{SECRETS}/kept")).is(200).json(), made);
    let next = caller.post(SECRETS, &json!({"metadata": {"name": "next"}})).is(201).json();
    assert!(version(&next) > version(&page));
    // A place from before: either the watch goes on from it, or it is told to list again; never a silent gap.
    let watch = caller.watch(&format!("{SECRETS}?watch=1&resourceVersion={}", version(&made)));
    let first = watch.next();
    let expired = first.0 == "ERROR" && first.1["code"] == 410 && first.1["reason"] == "Expired";
    assert!(expired || short(&first) == "ADDED page-0", "{first:?}");
    let token = text_at(&page, "/metadata/continue");
    let answer = caller.get(&format!("{SECRETS}?limit=1&continue={token}"));
    if answer.code == 200 {
        assert_eq!(answer.json()["items"][0]["metadata"]["name"], "page-0");
    } else {
        answer.refusal(410, "Expired");
    }
    let answer = caller.get(&format!("{SECRETS}?resourceVersion=1&resourceVersionMatch=Exact"));
    answer.refusal(410, "Expired");
    goes_on_as_things_are(&caller);
    let watch = caller.watch(&format!("{SECRETS}?watch=1&resourceVersion=1"));
    let (kind, status) = watch.next();
    assert_eq!(
        (kind.as_str(), &status["code"], text_at(&status, "/reason")),
        ("ERROR", &json!(410), "Expired")
    );
    assert!(watch.rest().is_empty(), "an expired watch ends");
}

/// What a hub has to tell of nothing but its own starts.
#[test]
fn four_starts_of_an_empty_hub_write_no_more_than_a_handful_of_events() {
    if !is_hub() {
        return;
    }
    let mut hub = Hub::start(HubOptions::default());
    for start in 1..=4 {
        let caller = Caller::of_kubeconfig(&hub.kubeconfig());
        await_rest(&caller);
        let events = caller.get("/api/v1/events").is(200).json();
        let events = events["items"].as_array().unwrap();
        let told: Vec<String> = events
            .iter()
            .map(|event| {
                let object = text_at(event, "/involvedObject/name");
                format!("{} {object}: {}", text_at(event, "/reason"), text_at(event, "/message"))
            })
            .collect();
        let counted: u64 = events.iter().map(|event| event["count"].as_u64().unwrap_or(1)).sum();
        assert!(told.len() <= 5 && counted <= 5, "start {start}: {told:#?}");
        println!("start {start}: {} events", told.len());
        if start < 4 {
            hub.stop();
            hub.start_again();
        }
    }
}

/// Waits until the hub has written nothing for three seconds.
fn await_rest(caller: &Caller) {
    let mut seen = (String::new(), Instant::now());
    eventually("the hub to come to rest", TIMEOUT, || {
        let now = caller.get("/api/v1/namespaces?limit=1").is(200).json();
        let now = text_at(&now, "/metadata/resourceVersion").to_owned();
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        so(seen.1.elapsed() > Duration::from_secs(3), || format!("revision {}", seen.0))
    });
}

/// A page of a time that nobody remembers: the refusal brings a token that goes on where the page would, with what is there now.
fn goes_on_as_things_are(caller: &Caller) {
    let place = json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "default/next\0"}).to_string();
    let token = URL_SAFE_NO_PAD.encode(place);
    let refused = caller.get(&format!("{SECRETS}?limit=2&continue={token}"));
    let message = refused.refusal(410, "Expired");
    assert!(message.contains("use the continue token in this response"), "{message}");
    let token = text_at(&refused.json(), "/metadata/continue").to_owned();
    let mut seen = Vec::new();
    let mut next = token;
    while !next.is_empty() {
        let page = caller.get(&format!("{SECRETS}?limit=2&continue={next}")).is(200).json();
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|o| text_at(o, "/metadata/name").to_owned()),
        );
        next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(seen, ["page-0", "page-1", "page-2"]);
}

/// How often the hub is killed under writes.
const KILLS: usize = 6;

/// Writes of one life of the hub before it is killed.
const BURST: u64 = 60;

#[test]
fn what_was_acknowledged_survives_being_killed() {
    if !is_hub() {
        return;
    }
    let mut hub = Hub::start(HubOptions::default());
    // Name and version of every write that was acknowledged.
    let acknowledged: Arc<Mutex<Vec<(String, u64)>>> = Arc::default();
    let mut highest = 0;
    for life in 0..KILLS {
        let caller = Caller::of_kubeconfig(&hub.kubeconfig());
        let stop = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (caller, stop, count) = (caller.clone(), stop.clone(), count.clone());
                let acknowledged = acknowledged.clone();
                std::thread::spawn(move || {
                    for n in 0.. {
                        let name = format!("w-{life}-{writer}-{n}");
                        let object = json!({"metadata": {"name": name}});
                        match caller.try_post(SECRETS, &object) {
                            Some((201, made)) => acknowledged.lock().unwrap().push((name, version(&made))),
                            _ if stop.load(Ordering::Relaxed) => return,
                            _ => {}
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        eventually("the burst", TIMEOUT, || {
            let now = count.load(Ordering::Relaxed);
            so(now >= BURST, || format!("{now} writes"))
        });
        stop.store(true, Ordering::Relaxed);
        hub.kill();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        hub.start_again();
        let caller = Caller::of_kubeconfig(&hub.kubeconfig());
        let list = caller.get(SECRETS).is(200).json();
        let held: std::collections::BTreeMap<&str, u64> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| (text_at(o, "/metadata/name"), version(o)))
            .collect();
        let acknowledged = acknowledged.lock().unwrap();
        for (name, version) in acknowledged.iter() {
            assert_eq!(held.get(name.as_str()), Some(version), "{name} was acknowledged, life {life}");
        }
        let top = acknowledged.iter().map(|(_, version)| *version).max().unwrap_or(0);
        assert!(version(&list) >= top, "the list's version went back: {} < {top}", version(&list));
        let probe =
            caller.post(SECRETS, &json!({"metadata": {"name": format!("probe-{life}")}})).is(201).json();
        assert!(version(&probe) > top && version(&probe) > highest, "versions rise over lives");
        highest = version(&probe);
    }
    assert!(acknowledged.lock().unwrap().len() as u64 >= BURST, "the writers wrote");
    hub.stop();
}
