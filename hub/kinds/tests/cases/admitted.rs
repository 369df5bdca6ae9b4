//! An object as validation meets it.

use karmada_kinds::kind::Kind;
use serde_json::Value;

/// An object as validation meets it: with what the registry's strategies have set before. For tests that have no registry.
pub fn as_admitted(group: &str, kind: &str, object: &Value) -> Value {
    let mut object = object.clone();
    if kind == "Job" {
        object["metadata"]["uid"] = "u".into();
        let job = Kind::builtin(group, "v1", kind).expect("Jobs are shipped");
        (job.row.finish_create)(&mut object);
    }
    let address = object["spec"]["clusterIP"].clone();
    if kind == "Service"
        && object["spec"]["clusterIPs"].is_null()
        && address.as_str().is_some_and(|a| !a.is_empty())
    {
        object["spec"]["clusterIPs"] = Value::Array(vec![address]);
    }
    object
}
