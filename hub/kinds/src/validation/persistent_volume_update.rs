//! What may change of a PersistentVolume.
//!
//! In: the spec as it shall be, and as it stands. Out: field errors.

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::Value;

use super::devices::shown_term;
use super::{Errors, immutable, list, text};

/// Every source, in the order they are looked at.
pub(super) const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Labels of nodes by the names that they had once, and have.
const RENAMED: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];

pub(super) fn update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let sources = |spec: &Value| -> Vec<Value> {
        SOURCES
            .iter()
            .map(|field| {
                let mut source = spec[*field].clone();
                // A secret that was not there may be added.
                if *field == "csi"
                    && old["csi"]["controllerExpandSecretRef"].is_null()
                    && let Some(source) = source.as_object_mut()
                {
                    source.remove("controllerExpandSecretRef");
                }
                source
            })
            .collect()
    };
    if sources(new) != sources(old) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden(&path.child("persistentvolumesource"), detail));
    }
    immutable(&new["volumeMode"], &old["volumeMode"], &Path::field("volumeMode"), errors);
    affinity(&new["nodeAffinity"], &old["nodeAffinity"], errors);
    if old["volumeAttributesClassName"].is_string() && new["volumeAttributesClassName"].is_null() {
        let at = path.child("volumeAttributesClassName");
        errors.push(FieldError::forbidden(&at, "update from non-nil value to nil is forbidden"));
    }
}

/// Where a volume can be reached may be said once, and then only in newer words.
fn affinity(new: &Value, old: &Value, errors: &mut Errors) {
    if !old.is_object() || *new == renamed(old, new) {
        return;
    }
    let shown = match (&new["required"], new.is_object()) {
        (_, false) => "null".to_owned(),
        (Value::Null, true) => "{\"Required\":null}".to_owned(),
        (required, true) => {
            let terms: Vec<String> = list(required, "nodeSelectorTerms").iter().map(shown_term).collect();
            format!("{{\"Required\":{{\"NodeSelectorTerms\":[{}]}}}}", terms.join(","))
        }
    };
    let detail = "field is immutable, except for updating from beta label to GA";
    errors.push(FieldError::invalid(&Path::field("nodeAffinity"), Shown::Raw(shown), detail));
}

/// What was asked for, with the newer names of labels where `new` uses them in the same place.
fn renamed(old: &Value, new: &Value) -> Value {
    let mut old = old.clone();
    let terms = old.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    for (index, term) in terms.into_iter().flatten().enumerate() {
        let now = &new["required"]["nodeSelectorTerms"][index]["matchExpressions"];
        let all = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        for (index, expression) in all.into_iter().flatten().enumerate() {
            let key = &mut expression["key"];
            let newer = RENAMED.iter().find(|(before, _)| *key == *before).map(|(_, after)| *after);
            // A name that has no newer one has an empty one: so kube-apiserver looks it up.
            if text(&now[index], "key") == newer.unwrap_or_default() {
                *key = now[index]["key"].clone();
            }
        }
    }
    old
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_of_nodes_may_get_their_newer_names() {
        let zone = |key: &str, value: &str| {
            json!({"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
            ]}})
        };
        let (beta, stable) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
        let refused = |new: &Value, old: &Value| {
            let mut errors = Errors::new();
            affinity(new, old, &mut errors);
            errors.len()
        };
        assert_eq!(refused(&zone(stable, "a"), &zone(beta, "a")), 0);
        assert_eq!(refused(&zone(stable, "b"), &zone(beta, "a")), 1, "the same zone");
        assert_eq!(refused(&zone(beta, "a"), &zone(stable, "a")), 1, "never back");
        assert_eq!(refused(&zone(stable, "a"), &Value::Null), 0, "said for the first time");
    }
}
