//! Where the time of one object goes: when each step of its way shows, seen by watches on the hub and on the members, one object
//! at a time on a quiet site.
//!
//! In: a [`Site`] with the bench's policy. Out: one JSON line a stage (`{"stage","ms"}`), the median over the objects of the time
//! from sending the create until the last cluster's event of that stage was told. A step that is told later than its cause by a
//! millisecond spent that on a write, its commit to disk and a watch event; the watches themselves cost everybody a little.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{Api as Objects, DynamicObject, ListParams, WatchParams};
use kube::core::{ApiResource, WatchEvent};
use serde_json::{Value, json};
use tests::api::Api;

use crate::propagation::{COLLECTION, config_map, median, settle};
use crate::site::Site;

/// What is waited for, in the order in which it happens.
const STAGES: [&str; 7] = [
    "the create is answered",
    "template told",
    "binding told",
    "binding's clusters told",
    "last Work told",
    "last member's object told",
    "last Work told as Applied",
];

/// When each stage was told of each object, once per cluster.
#[derive(Default)]
struct Told {
    at: Mutex<BTreeMap<(usize, String), Vec<Instant>>>,
    changed: Condvar,
}

impl Told {
    fn note(&self, stage: usize, name: &str) {
        self.at
            .lock()
            .expect("no watcher panics")
            .entry((stage, name.to_owned()))
            .or_default()
            .push(Instant::now());
        self.changed.notify_all();
    }

    /// When the `count`th event of a stage was told.
    fn wait(&self, stage: usize, name: &str, count: usize) -> Instant {
        let end = Instant::now() + Duration::from_secs(60);
        let key = (stage, name.to_owned());
        let mut at = self.at.lock().expect("no watcher panics");
        loop {
            if let Some(instant) = at.get(&key).and_then(|told| told.get(count - 1)) {
                return *instant;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{:?} of {name} was not told within 60 s", STAGES[stage]);
            at = self.changed.wait_timeout(at, left).expect("no watcher panics").0;
        }
    }
}

/// Measures `count` objects, one after another.
pub fn run(site: &Site, count: usize) {
    let told = Arc::new(Told::default());
    watch_hub(site, &told);
    for member in &site.members {
        watch(member.api(), ("", "v1", "ConfigMap", "configmaps"), "default", &told, |object| {
            (object.metadata.name.clone(), vec![5])
        });
    }
    let hub = site.hub.api();
    let sites = site.members.len();
    let expected = [1, 1, 1, 1, sites, sites, sites];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); STAGES.len()];
    for n in 0..count {
        let name = format!("stage-{n}");
        let from = Instant::now();
        hub.create(COLLECTION, &config_map(&name)).expect("the hub creates");
        told.note(0, &name);
        for (stage, expected) in expected.into_iter().enumerate() {
            times[stage].push(told.wait(stage, &name, expected).saturating_duration_since(from));
        }
        settle(hub, Duration::from_millis(400));
    }
    for (stage, times) in STAGES.into_iter().zip(times) {
        println!("{}", json!({"stage": stage, "ms": (median(times) * 10.0).round() / 10.0}));
    }
}

fn watch_hub(site: &Site, told: &Arc<Told>) {
    let hub = site.hub.api();
    watch(hub, ("", "v1", "ConfigMap", "configmaps"), "default", told, |object| {
        (object.metadata.name.clone(), vec![1])
    });
    let bindings = ("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings");
    watch(hub, bindings, "default", told, |object| {
        let spec = &object.data["spec"];
        let placed = spec["clusters"].as_array().is_some_and(|clusters| !clusters.is_empty());
        (text(&spec["resource"]["name"]), if placed { vec![2, 3] } else { vec![2] })
    });
    for member in &site.members {
        let works = ("work.karmada.io", "v1alpha1", "Work", "works");
        watch(hub, works, &format!("karmada-es-{}", member.name()), told, |object| {
            let name = text(&object.data["spec"]["workload"]["manifests"][0]["metadata"]["name"]);
            let conditions = object.data["status"]["conditions"].as_array();
            let applied = conditions
                .is_some_and(|all| all.iter().any(|one| one["type"] == "Applied" && one["status"] == "True"));
            (name, if applied { vec![4, 6] } else { vec![4] })
        });
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Notes the stages that `read` finds in each event of one collection, each once for each object; returns once the watch is open.
fn watch(
    api: &Api,
    (group, version, kind, plural): (&str, &str, &str, &str),
    namespace: &str,
    told: &Arc<Told>,
    read: impl Fn(&DynamicObject) -> (Option<String>, Vec<usize>) + Send + 'static,
) {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let objects: Objects<DynamicObject> = Objects::namespaced_with(api.client(), namespace, &resource);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let told = told.clone();
    tests::runtime().spawn(async move {
        let list = objects.list(&ListParams::default()).await.expect("the list is served");
        let version = list.metadata.resource_version.unwrap_or_default();
        let stream = objects.watch(&WatchParams::default(), &version).await.expect("the watch is served");
        let mut stream = std::pin::pin!(stream);
        ready.send(()).expect("the bench waits");
        let mut noted = std::collections::BTreeSet::new();
        while let Some(event) = stream.next().await {
            let Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
            let (Some(name), stages) = read(&object) else { continue };
            for stage in stages {
                if noted.insert((stage, name.clone())) {
                    told.note(stage, &name);
                }
            }
        }
    });
    is_ready.recv().expect("the watch opens");
}
