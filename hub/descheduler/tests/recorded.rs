//! Replicas without room, as the reference implementation gives them up: recorded cases.
#![allow(clippy::unwrap_used)]

#[path = "../../../proto/api/tests/recorded/mod.rs"]
mod recorded;
#[path = "../../core/tests/lifecycle/without_nulls.rs"]
mod without_nulls;

use karmada_api::binding::ResourceBinding;
use karmada_descheduler::unschedulable::{Unschedulable, asked, considers, deschedule};
use serde_json::json;

use crate::recorded::compare;
use crate::without_nulls::without_nulls;

#[test]
fn replicas_without_room_are_given_up() {
    recorded::run("descheduler.json", "replicas_without_room_are_given_up", &[], |case| {
        let labels = json!({"propagationpolicy.karmada.io/permanent-id": "p-1"});
        let mut object = json!({"metadata": {"labels": labels}, "spec": {"resource": {"apiVersion": case["apiVersion"], "kind": case["objectKind"]},
            "placement": case["placement"], "clusters": case["clusters"]}, "status": {"aggregatedStatus": case["aggregatedStatus"]}});
        object = without_nulls(object);
        let binding: ResourceBinding = serde_json::from_value(object).unwrap();
        if case["kind"] == "considered" {
            return compare(&case["considered"], &json!(considers(&binding, "default-scheduler")));
        }
        let mut names = asked(&binding);
        names.sort_unstable();
        let answers: Unschedulable = match case["estimatorFails"] == true {
            true => Unschedulable::new(),
            false => serde_json::from_value(case["unschedulable"].clone()).unwrap(),
        };
        let result = deschedule(&binding, &answers).unwrap_or_else(|| binding.spec.clusters.clone());
        compare(&json!([case["asked"], case["result"]]), &json!([names, result]))
    });
}
