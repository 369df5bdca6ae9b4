//! Recorded cases of the reference implementation: which bindings a change of a cluster or of themselves brings to the scheduler.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

#[path = "../../../proto/api/tests/recorded/mod.rs"]
mod recorded;

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_controller_runtime::port::fake::FakeApi;
use karmada_controller_runtime::port::{Change, Key};
use karmada_controller_runtime::typed::Transition;
use karmada_indexes::bindings::BindingsIndex;
use recorded::{BESIDE, Differences, Verdict, compare};
use serde_json::{Value, json};

/// A binding as an API server has it.
fn stored(binding: &Value) -> Value {
    let mut binding = binding.clone();
    binding["metadata"]["uid"] = json!("u");
    binding["apiVersion"] = json!("work.karmada.io/v1alpha2");
    if binding.get("kind").is_none() {
        binding["kind"] = json!("ResourceBinding");
    }
    binding
}

fn key(binding: &Value) -> Key {
    let text = |field: &str| binding["metadata"][field].as_str().unwrap_or_default().into();
    Key { namespace: text("namespace"), name: text("name") }
}

/// A key as the recordings have it.
fn told(index: &BindingsIndex, key: &Key) -> String {
    let namespace = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
    format!("{namespace}{}@{}", key.name, index.priority(key))
}

const OF_OTHERS: &str = "one that is another scheduler's, held back or going is found out when it is looked at: it is woken in vain";
const ANY_GROUP: &str = "each of its groups counts, not the one alone that holds now";
const QUEUED: &str = "one that was not scheduled since it changed is in the queue by its change";

const CLUSTERS: Differences = &[
    (484, OF_OTHERS),
    (487, ANY_GROUP),
    (493, OF_OTHERS),
    (495, OF_OTHERS),
    (496, OF_OTHERS),
    (501, QUEUED),
    (502, ANY_GROUP),
    (509, OF_OTHERS),
    (513, OF_OTHERS),
    (516, OF_OTHERS),
    (520, OF_OTHERS),
    (521, OF_OTHERS),
    (524, OF_OTHERS),
    (529, OF_OTHERS),
    (530, OF_OTHERS),
    (534, OF_OTHERS),
    (537, OF_OTHERS),
    (539, OF_OTHERS),
    (543, QUEUED),
    (545, OF_OTHERS),
    (550, OF_OTHERS),
    (552, OF_OTHERS),
    (558, ANY_GROUP),
    (559, OF_OTHERS),
    (561, OF_OTHERS),
    (566, OF_OTHERS),
    (567, ANY_GROUP),
    (569, OF_OTHERS),
    (572, OF_OTHERS),
];

#[test]
fn recorded_changes_of_clusters() {
    recorded::run("trigger.json", "recorded_changes_of_clusters", CLUSTERS, |case| {
        if case["kind"] != "clusterChange" {
            return Verdict::Skip(BESIDE);
        }
        let index = BindingsIndex::default();
        index.observe(&Change::Applied(FakeApi::default().seed(stored(&case["binding"]))));
        let mut cluster = case["cluster"].clone();
        cluster["spec"]["syncMode"] = json!("Pull");
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let key = Key { namespace: "".into(), name: cluster.name().into() };
        let came = Transition { key, before: None, now: Some(Arc::new(cluster)) };
        let woken: Vec<String> = index.to_schedule(&came).iter().map(|key| told(&index, key)).collect();
        compare(&case["queued"], &json!(woken))
    });
}

const BACKWARDS: &str = "a binding of an earlier generation than the one that was seen is older news";

const UPDATES: Differences = &[(473, BACKWARDS), (474, BACKWARDS), (475, BACKWARDS)];

/// What is brought to the queue has the urgency that it has now; of what changed in nothing that counts, the new one is not even read.
#[test]
fn recorded_changes_of_bindings() {
    recorded::run("trigger.json", "recorded_changes_of_bindings", UPDATES, |case| {
        if case["kind"] != "updateEvent" {
            return Verdict::Skip(BESIDE);
        }
        let (index, api) = (BindingsIndex::default(), FakeApi::default());
        let key = key(&case["old"]);
        index.observe(&Change::Applied(api.seed(stored(&case["old"]))));
        let before = told(&index, &key);
        index.observe(&Change::Applied(api.seed(stored(&case["new"]))));
        let wanted = case["queued"][0].as_str().unwrap_or(&before);
        compare(&json!(wanted), &json!(told(&index, &key)))
    });
}
