//! From a create on the hub to ADDED on every member, one after another and in a burst, beside the same objects created
//! straight on the members in the same run.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{Api as Objects, DynamicObject, ListParams, WatchParams};
use kube::core::{ApiResource, WatchEvent};
use serde_json::{Value, json};
use tests::api::Api;

use crate::site::Site;
use crate::{footprint, processor};
use tests::rows::{Goal, Rows};

/// Where the bench's objects are.
pub const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// When each member's watch told of each name.
#[derive(Default)]
struct Seen {
    at: Mutex<Vec<BTreeMap<String, Instant>>>,
    changed: Condvar,
}

impl Seen {
    fn wait(&self, names: &[String]) {
        let end = Instant::now() + Duration::from_secs(120);
        let mut at = self.at.lock().expect("no watcher panics");
        while !at.iter().all(|member| names.iter().all(|name| member.contains_key(name))) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "objects did not arrive within 120 s");
            at = self.changed.wait_timeout(at, left).expect("no watcher panics").0;
        }
    }

    fn times(&self, name: &str) -> Vec<Instant> {
        self.at.lock().expect("no watcher panics").iter().map(|member| member[name]).collect()
    }

    fn last(&self, names: &[String]) -> Instant {
        names.iter().flat_map(|name| self.times(name)).max().expect("there are names")
    }
}

/// Measures, and adds the rows: `serial` objects one after another, then `rounds` bursts of `burst` objects.
pub fn run(rows: &mut Rows, site: &mut Site, serial: usize, burst: usize, rounds: usize) {
    let seen = Arc::new(Seen::default());
    for (n, member) in site.members.iter().enumerate() {
        seen.at.lock().expect("no watcher panics").push(BTreeMap::new());
        watch(member.api().clone(), n, seen.clone());
    }
    place_everywhere(site);
    let hub = site.hub.api().clone();
    let members: Vec<Api> = site.members.iter().map(|member| member.api().clone()).collect();

    // Turn by turn, so that both meet the same machine.
    let (mut ours, mut direct) = (Vec::new(), Vec::new());
    for n in 0..serial {
        let name = format!("serial-{n}");
        let from = Instant::now();
        hub.create(COLLECTION, &config_map(&name)).expect("the hub creates");
        seen.wait(std::slice::from_ref(&name));
        ours.extend(seen.times(&name).into_iter().map(|at| at - from));
        settle(&hub, Duration::from_millis(400));
        let name = format!("direct-{n}");
        let from = Instant::now();
        create_on_all(&members, &name);
        seen.wait(std::slice::from_ref(&name));
        direct.extend(seen.times(&name).into_iter().map(|at| at - from));
    }
    let (ours, direct) = (median(ours), median(direct));
    rows.add(
        "create on the hub → ADDED on 3 members, p50, as a multiple of creating on the members",
        ours / direct,
        "×",
        &format!("{ours:.1} ms beside {direct:.1} ms; Karmada 44 ×"),
        Goal::AtMost(2.0),
    );

    // The median of a few rounds, turn by turn: one alone says as much of the machine's mood as of anything.
    let mut outcomes = Vec::new();
    for number in 0..rounds {
        outcomes.push(round(site, &seen, &hub, &members, burst, number));
        // After one: the changes of the last minutes are kept for watchers, and more bursts would be counted together.
        if number == 0 {
            footprint::after_burst(rows, site);
        }
    }
    outcomes.sort_by(|a, b| a.share().total_cmp(&b.share()));
    let middle = &outcomes[outcomes.len() / 2];
    let objects = (burst * members.len()) as f64;
    println!("burst through the hub: {}; straight: {}", middle.hub_used, middle.straight_used);
    rows.add(
        &format!("{burst} objects to 3 members, share of the members' own rate"),
        middle.share(),
        "%",
        &format!(
            "{:.0}/s beside {:.0}/s, of {rounds} rounds the middle one; Karmada 3.6 %",
            objects / middle.through_hub.as_secs_f64(),
            objects / middle.straight.as_secs_f64()
        ),
        Goal::AtLeast(80.0),
    );
}

/// One burst through the hub, and the same straight to the members.
struct Round {
    through_hub: Duration,
    straight: Duration,
    hub_used: String,
    straight_used: String,
}

impl Round {
    fn share(&self) -> f64 {
        100.0 * self.straight.as_secs_f64() / self.through_hub.as_secs_f64()
    }
}

fn round(site: &mut Site, seen: &Seen, hub: &Api, members: &[Api], burst: usize, number: usize) -> Round {
    let objects = (burst * members.len()) as f64;
    let names: Vec<String> = (0..burst).map(|n| format!("burst-{number}-{n}")).collect();
    let before = processor::used(site);
    let from = Instant::now();
    for name in &names {
        hub.create(COLLECTION, &config_map(name)).expect("the hub creates");
    }
    seen.wait(&names);
    let through_hub = seen.last(&names) - from;
    let hub_used = processor::used(site).since(before, objects);
    settle(hub, Duration::from_secs(2));
    let names: Vec<String> = (0..burst).map(|n| format!("straight-{number}-{n}")).collect();
    let before = processor::used(site);
    let from = Instant::now();
    std::thread::scope(|scope| {
        for member in members {
            scope.spawn(|| names.iter().for_each(|name| create(member, name)));
        }
    });
    seen.wait(&names);
    let straight = seen.last(&names) - from;
    let straight_used = processor::used(site).since(before, objects);
    Round { through_hub, straight, hub_used, straight_used }
}

/// Waits until the hub has written nothing for `quiet`: statuses and events follow the objects, and what is measured next is
/// not to pay for them.
pub fn settle(hub: &Api, quiet: Duration) {
    let revision = || {
        let list =
            hub.get("/api/v1/namespaces?limit=1").expect("the hub lists").expect("namespaces are served");
        list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
    };
    let (mut last, mut since) = (revision(), Instant::now());
    while since.elapsed() < quiet {
        std::thread::sleep(Duration::from_millis(50));
        let now = revision();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Places every ConfigMap that is labelled for it on all members.
pub fn place_everywhere(site: &Site) {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "bench"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"bench": "hub"}}}],
            "placement": {"clusterAffinity": {"clusterNames": []}},
        },
    });
    let path = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies";
    site.hub.api().create(path, &policy).expect("the hub takes the policy");
}

/// One of the bench's objects.
pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"bench": "hub"}},
        "data": {"payload": "x".repeat(512)}})
}

fn create(api: &Api, name: &str) {
    api.create(COLLECTION, &config_map(name)).expect("the member creates");
}

fn create_on_all(members: &[Api], name: &str) {
    std::thread::scope(|scope| {
        for member in members {
            scope.spawn(|| create(member, name));
        }
    });
}

/// Notes when ConfigMaps of the bench are told as ADDED; returns once the watch is open.
fn watch(api: Api, member: usize, seen: Arc<Seen>) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    tests::runtime().spawn(async move {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
        };
        let objects: Objects<DynamicObject> = Objects::namespaced_with(api.client(), "default", &resource);
        let list = objects.list(&ListParams::default()).await.expect("the member lists");
        let version = list.metadata.resource_version.unwrap_or_default();
        let parameters = WatchParams::default().labels("bench=hub");
        let stream = objects.watch(&parameters, &version).await.expect("the member watches");
        let mut stream = std::pin::pin!(stream);
        ready.send(()).expect("the bench waits");
        while let Some(event) = stream.next().await {
            if let Ok(WatchEvent::Added(object)) = event {
                let name = object.metadata.name.unwrap_or_default();
                seen.at.lock().expect("the bench does not panic")[member]
                    .entry(name)
                    .or_insert_with(Instant::now);
                seen.changed.notify_all();
            }
        }
    });
    is_ready.recv().expect("the watch opens");
}

/// Milliseconds.
pub fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}
