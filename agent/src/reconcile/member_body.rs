//! What is sent to the member for a manifest, and whether the member has it already. Pure.
//!
//! In: a manifest, the object that the member has, the cluster's names. Out: the body to send, a patch, or an answer to whose the object
//! is.
//!
//! Server-side apply owns what its body holds. What Retain keeps (replicas that an autoscaler sets, a claim's
//! volume) therefore stays out of the body, so that its owner keeps it; unless nobody else owns it: then leaving
//! it out would remove it, and it is sent as it is.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use karmada_api::object;
use karmada_api::strings::{annotations, labels, namespaces};
use karmada_interpreter::{InterpretError, Interpreter};
use karmada_quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::member::FIELD_MANAGER;

/// Metadata that only a server sets.
const SERVER_SET: [&str; 7] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "selfLink",
    "deletionTimestamp",
];

/// The names of the agent's cluster: what is written is marked with the one of now, and what bears one of those before is the agent's own
/// still.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterNames {
    /// Its name on the hub.
    pub now: String,
    /// Those that it had under the same ledger.
    pub before: Vec<String>,
}

impl From<&str> for ClusterNames {
    fn from(now: &str) -> Self {
        Self { now: now.to_owned(), before: Vec::new() }
    }
}

impl ClusterNames {
    /// Whether the mark `namespace` is of this cluster's Works.
    pub fn has_works_in(&self, namespace: &str) -> bool {
        let name = namespace.strip_prefix(namespaces::EXECUTION_PREFIX);
        name.is_some_and(|name| name == self.now || self.before.iter().any(|before| before == name))
    }
}

/// A manifest as it is to be in the member: marked as ours and as this Work's, without what servers set.
pub fn stamped(manifest: &Value, cluster: &str, key: &str) -> Value {
    let mut desired = manifest.clone();
    object::set_label(&mut desired, labels::MANAGED, labels::MANAGED_VALUE);
    let namespace = format!("{}{cluster}", namespaces::EXECUTION_PREFIX);
    object::set_annotation(&mut desired, annotations::WORK_NAMESPACE, &namespace);
    object::set_annotation(&mut desired, annotations::WORK_NAME, key);
    let metadata = object::metadata(&mut desired);
    for field in SERVER_SET {
        metadata.remove(field);
    }
    object::root(&mut desired).remove("status");
    desired
}

/// `manifest` in place of the stamped manifest `stamped`: with its marks, and without what servers set.
///
/// # Errors
/// It is another object than that.
pub fn stamped_as(manifest: &Value, stamped: &Value) -> Result<Value, InterpretError> {
    if object::identity(manifest) != object::identity(stamped) {
        let [_, kind, namespace, name] = object::identity(stamped);
        return Err(InterpretError::Object(format!(
            "what is to stay of {kind} {namespace}/{name} was answered with another object"
        )));
    }
    let cluster = object::annotation(stamped, annotations::WORK_NAMESPACE).unwrap_or_default();
    let cluster = cluster.strip_prefix(namespaces::EXECUTION_PREFIX).unwrap_or_default();
    let key = object::annotation(stamped, annotations::WORK_NAME).unwrap_or_default();
    Ok(self::stamped(manifest, cluster, key))
}

/// Whether `observed` is managed by Work `key` of `cluster`.
pub fn is_ours(observed: &Value, cluster: &str, key: &str) -> bool {
    object::label(observed, labels::MANAGED) == Some(labels::MANAGED_VALUE)
        && owning_work(observed, &cluster.into()) == Some(key)
}

/// The Work of this cluster that `observed` names as where it came from: somebody may have taken the label off.
pub fn owning_work<'a>(observed: &'a Value, cluster: &ClusterNames) -> Option<&'a str> {
    let namespace = object::annotation(observed, annotations::WORK_NAMESPACE)?;
    object::annotation(observed, annotations::WORK_NAME).filter(|_| cluster.has_works_in(namespace))
}

/// Whether `observed` is what Work `key` of this cluster brought: it names the Work, or the agent wrote it last, as `written` tells, and it
/// names no other Work: somebody took our marks off, or the cluster had another name then.
pub fn belongs(observed: &Value, cluster: &ClusterNames, key: &str, written: Option<u64>) -> bool {
    let names_another = object::annotation(observed, annotations::WORK_NAME).is_some_and(|name| name != key);
    owning_work(observed, cluster) == Some(key)
        || (!names_another && written == Some(last_write_digest(observed)))
}

/// The merge patch that makes an object one of Work `key`.
pub fn hand_over_patch(cluster: &ClusterNames, key: &str) -> Value {
    let namespace = format!("{}{}", namespaces::EXECUTION_PREFIX, cluster.now);
    json!({"metadata": {
        "labels": {labels::MANAGED: labels::MANAGED_VALUE},
        "annotations": {annotations::WORK_NAMESPACE: namespace, annotations::WORK_NAME: key},
    }})
}

/// The body to apply over `observed`.
///
/// # Errors
/// As of [`Interpreter::retain`], save for a kind without a hook: nothing of it is retained.
pub fn over(
    desired: &Value,
    observed: &Value,
    interpreter: &dyn Interpreter,
) -> Result<Value, InterpretError> {
    let mut retained = desired.clone();
    match interpreter.retain(&mut retained, observed) {
        Ok(()) | Err(InterpretError::NoHook { .. }) => {}
        Err(error) => return Err(error),
    }
    let mut body = desired.clone();
    withhold(&mut body, &retained, observed, &mut Vec::new());
    Ok(body)
}

/// Takes out of `body`, at each path where Retain decided otherwise, what somebody else owns. What is ours alone is put in
/// as it is, though the hub does not say it: left out, it would be removed.
fn withhold(body: &mut Value, retained: &Value, observed: &Value, path: &mut Vec<String>) {
    let (Value::Object(fields), Value::Object(kept)) = (&mut *body, retained) else { return };
    let keys: BTreeSet<String> = fields.keys().chain(kept.keys()).cloned().collect();
    for key in keys {
        path.push(key.clone());
        match (fields.get_mut(&key), kept.get(&key)) {
            (Some(wanted), Some(keeps)) if wanted == keeps => {}
            (Some(wanted @ Value::Object(_)), Some(keeps @ Value::Object(_)))
                if !is_atomic(observed, path) =>
            {
                withhold(wanted, keeps, observed, path);
            }
            // Lists merge by their keys in the server; the kept one changes nothing there.
            (Some(wanted), Some(keeps @ Value::Array(_))) => *wanted = keeps.clone(),
            (wanted, Some(keeps)) if solely_ours(observed, path) => match wanted {
                Some(wanted) => *wanted = keeps.clone(),
                None => drop(fields.insert(key, keeps.clone())),
            },
            _ => {
                fields.remove(&key);
            }
        }
        path.pop();
    }
}

/// Fields of the built-in kinds that Retain keeps and that the API server takes as one: there is no leaving out a part of
/// them. (`x-kubernetes-map-type: atomic` in their schemas.)
const ATOMIC: [(&str, &str, &[&str]); 1] = [("batch/v1", "Job", &["spec", "selector"])];

/// Whether the map at `path` is one value for its owners: known of its kind, or seen in who owns it, where a map of single
/// fields is listed field by field.
fn is_atomic(observed: &Value, path: &[String]) -> bool {
    let (version, kind) = (object::api_version(observed), object::kind(observed));
    let known = ATOMIC.iter().any(|(v, k, at)| (*v, *k) == (version, kind) && path.iter().eq(at.iter()));
    known || owners(observed, path).any(|(_, fields)| fields.as_object().is_some_and(Map::is_empty))
}

/// Who owns the field at `path`, and what is listed of it.
fn owners<'a>(observed: &'a Value, path: &'a [String]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let managers = observed.pointer("/metadata/managedFields").and_then(Value::as_array);
    managers.into_iter().flatten().filter_map(move |entry| {
        let mut at = entry.get("fieldsV1")?;
        for key in path {
            at = at.get(format!("f:{key}"))?;
        }
        Some((entry.get("manager").and_then(Value::as_str).unwrap_or_default(), at))
    })
}

/// Whether the agent owns the field at `path` and nobody else does.
fn solely_ours(observed: &Value, path: &[String]) -> bool {
    let mut owners = owners(observed, path).peekable();
    owners.peek().is_some() && owners.all(|(manager, _)| manager == FIELD_MANAGER)
}

/// Who changed `observed` last, beside the agent itself and who writes its status: the field manager's name, or `somebody`.
pub fn changed_by(observed: &Value) -> String {
    let managers = observed.pointer("/metadata/managedFields").and_then(Value::as_array);
    let text =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let others = managers
        .into_iter()
        .flatten()
        .filter(|entry| text(entry, "manager") != FIELD_MANAGER && text(entry, "subresource").is_empty());
    let last = others.max_by_key(|entry| text(entry, "time")).map(|entry| text(entry, "manager"));
    last.filter(|manager| !manager.is_empty()).unwrap_or_else(|| "somebody".to_owned())
}

/// A digest of the agent's own last write of `observed`, as the member noted it in `managedFields`: its time, which moves when the agent
/// changes a field, and not when others do. Another digest than after the last application means that the object is as another body
/// said, though it may hold all that this one says: the member was restored, or the ledger is an older copy. What the other body
/// added goes when this one is applied again. The same in every process.
pub fn last_write_digest(observed: &Value) -> u64 {
    let mut words = object::uid(observed).to_owned();
    let managers = observed.pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in managers.into_iter().flatten() {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("manager") == FIELD_MANAGER && text("subresource").is_empty() {
            words.extend(["\n", text("operation"), " ", text("apiVersion"), " ", text("time")]);
        }
    }
    let hash = karmada_proto::body::hash(words.as_bytes());
    hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// The merge patch that makes the fields which we own by having created or updated `observed` ours by apply: only then
/// does leaving a field out of a later body remove it. `None` where there are none. It holds the resource version, so
/// that ownership which changed meanwhile is not put back.
pub fn adoption(observed: &Value) -> Option<Value> {
    let managers = observed.pointer("/metadata/managedFields")?.as_array()?;
    let text =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let ours =
        |entry: &Value| text(entry, "manager") == FIELD_MANAGER && text(entry, "subresource").is_empty();
    let (written, mut kept): (Vec<Value>, Vec<Value>) =
        managers.iter().cloned().partition(|entry| ours(entry) && text(entry, "operation") == "Update");
    for mut entry in written {
        let version = text(&entry, "apiVersion");
        entry["operation"] = "Apply".into();
        let applied = kept.iter_mut().find(|kept| {
            ours(kept) && text(kept, "operation") == "Apply" && text(kept, "apiVersion") == version
        });
        match applied {
            Some(applied) => unite(&mut applied["fieldsV1"], &entry["fieldsV1"]),
            None => kept.push(entry),
        }
    }
    (kept != *managers).then(|| {
        let version = object::resource_version(observed);
        json!({"metadata": {"managedFields": kept, "resourceVersion": version}})
    })
}

/// Adds the fields of one set to another; both are trees of field names, as in `fieldsV1`.
fn unite(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (name, fields) in from {
        match into.get_mut(name) {
            Some(known) => unite(known, fields),
            None => drop(into.insert(name.clone(), fields.clone())),
        }
    }
}

/// The object for a plain update, where server-side apply cannot merge it.
///
/// # Errors
/// As of [`Interpreter::retain`], save for a kind without a hook: nothing more of it is retained.
pub fn for_update(
    desired: &Value,
    observed: &Value,
    interpreter: &dyn Interpreter,
) -> Result<Value, InterpretError> {
    let mut next = desired.clone();
    match interpreter.retain(&mut next, observed) {
        Ok(()) | Err(InterpretError::NoHook { .. }) => {}
        Err(error) => return Err(error),
    }
    karmada_interpreter::retain_metadata::retain_common(&mut next, observed);
    Ok(next)
}

/// Whether everything in `body` is in `observed`. May say no where the server would change nothing (it writes a
/// quantity differently, say): the apply that follows is then a no-op there.
pub fn covers(observed: &Value, body: &Value) -> bool {
    covered(Some(observed), body, false)
}

fn covered(observed: Option<&Value>, body: &Value, quantity: bool) -> bool {
    match (observed, body) {
        (None, Value::Null) => true,
        (None, Value::Object(fields)) => fields.is_empty(),
        (None, Value::Array(items)) => items.is_empty(),
        (None, _) => false,
        (Some(Value::Object(has)), Value::Object(wants)) => wants.iter().all(|(key, value)| {
            let quantity = quantity || matches!(key.as_str(), "limits" | "requests");
            covered(has.get(key), value, quantity)
        }),
        (Some(Value::Array(has)), Value::Array(wants)) => list_covered(has, wants, quantity),
        (Some(has), wants) => has == wants || (quantity && same_quantity(has, wants)),
    }
}

/// Lists of named objects by name, others position by position.
fn list_covered(has: &[Value], wants: &[Value], quantity: bool) -> bool {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    if wants.iter().all(|want| name(want).is_some()) {
        return wants.iter().all(|want| {
            let same = has.iter().find(|have| name(have) == name(want));
            same.is_some_and(|have| covered(Some(have), want, quantity))
        });
    }
    has.len() == wants.len() && has.iter().zip(wants).all(|(have, want)| covered(Some(have), want, quantity))
}

fn same_quantity(a: &Value, b: &Value) -> bool {
    let parse = |value: &Value| match value {
        Value::String(text) => text.parse::<Quantity>().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    matches!((parse(a), parse(b)), (Some(a), Some(b)) if a == b)
}

/// A digest of all that a person or a controller could have changed: everything but status and what servers
/// count. The same within one process only.
pub fn digest(object: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Value::Object(fields) = object {
        for (key, value) in fields.iter().filter(|(key, _)| *key != "status") {
            key.hash(&mut hasher);
            match value {
                Value::Object(metadata) if key == "metadata" => hash_metadata(metadata, &mut hasher),
                value => value.hash(&mut hasher),
            }
        }
    }
    hasher.finish()
}

fn hash_metadata(metadata: &Map<String, Value>, hasher: &mut DefaultHasher) {
    for (key, value) in metadata.iter().filter(|(key, _)| !SERVER_SET.contains(&key.as_str())) {
        key.hash(hasher);
        value.hash(hasher);
    }
}

/// A merge patch that takes Karmada's marks off `observed`, for an object that outlives its Work. What stays is the uid of its
/// template, by which it is known again.
pub fn strip_patch(observed: &Value) -> Value {
    let ours = |key: &str| {
        key.split('/').next().is_some_and(|domain| domain == "karmada.io" || domain.ends_with(".karmada.io"))
    };
    let nulls = |map: std::collections::BTreeMap<String, String>| -> Map<String, Value> {
        map.into_keys().filter(|key| ours(key)).map(|key| (key, Value::Null)).collect()
    };
    let (labels, mut annotations) = (nulls(object::labels(observed)), nulls(object::annotations(observed)));
    if let Some(template) = object::annotation(observed, annotations::TEMPLATE_UID) {
        annotations.insert(annotations::KEPT_FROM.to_owned(), template.into());
    }
    serde_json::json!({"metadata": {"labels": labels, "annotations": annotations}})
}

/// Whether `observed` was kept when an earlier Work of the same template went: it may be taken up again.
pub fn was_kept(desired: &Value, observed: &Value) -> bool {
    let template = object::annotation(desired, annotations::TEMPLATE_UID).filter(|uid| !uid.is_empty());
    template.is_some() && object::annotation(observed, annotations::KEPT_FROM) == template
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_interpreter::Native;

    #[test]
    fn what_was_kept_is_known_again_by_its_template() {
        let marked = |uid: &str| {
            json!({"metadata": {"labels": {"karmada.io/managed": "true", "app": "web"},
                "annotations": {"resourcetemplate.karmada.io/uid": uid, "work.karmada.io/name": "w", "note": "theirs"}}})
        };
        let patch = strip_patch(&marked("u1"));
        assert_eq!(patch["metadata"]["labels"], json!({"karmada.io/managed": null}));
        let left = json!({"work.karmada.io/name": null, "resourcetemplate.karmada.io/uid": null, "edge.karmada.io/kept-from": "u1"});
        assert_eq!(patch["metadata"]["annotations"], left);
        let kept =
            json!({"metadata": {"annotations": {"edge.karmada.io/kept-from": "u1", "note": "theirs"}}});
        assert!(was_kept(&marked("u1"), &kept) && !was_kept(&marked("u2"), &kept));
        assert!(!was_kept(&json!({}), &json!({})) && !was_kept(&marked(""), &json!({})));
    }

    fn deployment(replicas: i64, retain: bool) -> Value {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "d"}, "spec": {"replicas": replicas, "paused": false}});
        if retain {
            object::set_label(&mut object, labels::RETAIN_REPLICAS, "true");
        }
        object
    }

    fn owned(mut object: Value, managers: &[&str]) -> Value {
        let fields = json!({"f:spec": {"f:replicas": {}}});
        let entries: Vec<_> = managers.iter().map(|m| json!({"manager": m, "fieldsV1": fields})).collect();
        object::metadata(&mut object).insert("managedFields".into(), entries.into());
        object
    }

    #[test]
    fn retained_fields_stay_with_their_owner_or_are_sent_as_they_are() {
        let cases = [
            ("not retained", false, &["hpa"][..], Some(3)),
            ("an autoscaler's", true, &["hpa"], None),
            ("both own it", true, &["karmada-agent", "hpa"], None),
            ("ours alone: leaving it out would remove it", true, &["karmada-agent"], Some(5)),
        ];
        for (what, retain, managers, expect) in cases {
            let body =
                over(&deployment(3, retain), &owned(deployment(5, retain), managers), &Native).unwrap();
            assert_eq!(body.pointer("/spec/replicas").and_then(Value::as_i64), expect, "{what}");
            assert_eq!(body.pointer("/spec/paused"), Some(&json!(false)), "{what}");
        }
    }

    #[test]
    fn what_is_one_value_is_withheld_as_one() {
        let job = |selector: Value| {
            let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "d"},
                "spec": {"template": {"metadata": {"labels": {"app": "j"}}}}});
            if !selector.is_null() {
                job["spec"]["selector"] = selector;
            }
            job
        };
        let made = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
        let mut observed = job(made.clone());
        observed["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = json!("u");
        let with = |managers: &[&str]| {
            let mut observed = observed.clone();
            let fields = json!({"f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {"f:app": {}}}}}});
            let entries: Vec<_> =
                managers.iter().map(|m| json!({"manager": m, "fieldsV1": fields})).collect();
            object::metadata(&mut observed).insert("managedFields".into(), entries.into());
            observed
        };
        // What the hub's own Job has is stripped of what only its API server knows, more or less of it.
        for desired in [json!({}), json!({"matchLabels": {}}), Value::Null] {
            let of = |observed: &Value| over(&job(desired.clone()), observed, &Native).unwrap();
            for (what, observed, expect) in [
                ("the server's alone", &observed, None),
                ("another's", &with(&["kubectl"]), None),
                ("also another's", &with(&["karmada-agent", "kubectl"]), None),
                ("ours: left out, it would be removed", &with(&["karmada-agent"]), Some(&made)),
            ] {
                let body = of(observed);
                assert_eq!(body.pointer("/spec/selector"), expect, "{what}: {desired}");
                assert_eq!(
                    body.pointer("/spec/template/metadata/labels"),
                    Some(&json!({"app": "j"})),
                    "{what}"
                );
            }
        }
        // Whatever kind it is: a map that its owner has as one value is one.
        let custom = |value: &str| json!({"apiVersion": "example.org/v1", "kind": "Mill", "spec": {"place": {"at": value}}});
        let mut observed = custom("hill");
        observed["metadata"] =
            json!({"managedFields": [{"manager": "miller", "fieldsV1": {"f:spec": {"f:place": {}}}}]});
        let mut body = custom("river");
        withhold(&mut body, &custom("hill"), &observed, &mut Vec::new());
        assert_eq!(body["spec"], json!({}));
    }

    #[test]
    fn what_was_created_is_adopted_into_what_is_applied() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let with =
            |entries: &[Value]| json!({"metadata": {"resourceVersion": "7", "managedFields": entries}});
        let theirs = entry("kubectl", "Update", json!({"f:data": {"f:x": {}}}));
        let created = entry("karmada-agent", "Update", json!({"f:data": {".": {}, "f:a": {}}}));
        let applied = entry("karmada-agent", "Apply", json!({"f:data": {"f:b": {}}}));
        let mut status = created.clone();
        status["subresource"] = "status".into();

        assert_eq!(adoption(&with(&[theirs.clone(), applied.clone(), status])), None);
        assert_eq!(adoption(&json!({"metadata": {}})), None);
        let alone = entry("karmada-agent", "Apply", json!({"f:data": {".": {}, "f:a": {}}}));
        let patch = adoption(&with(&[created.clone(), theirs.clone()])).unwrap();
        assert_eq!(patch, with(&[theirs.clone(), alone]));
        let both = entry("karmada-agent", "Apply", json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}}));
        assert_eq!(adoption(&with(&[created, applied, theirs.clone()])), Some(with(&[both, theirs])));
    }

    #[test]
    fn the_mark_of_a_write_moves_with_the_agents_writes_alone() {
        let entry = |manager: &str, time: &str, subresource: &str| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": "v1", "time": time,
            "subresource": subresource, "fieldsV1": {"f:spec": {}}})
        };
        let object = |uid: &str, entries: &[Value]| json!({"metadata": {"uid": uid, "managedFields": entries}, "spec": {"replicas": 1}});
        let ours = entry(FIELD_MANAGER, "2026-01-01T00:00:00Z", "");
        let mark = last_write_digest(&object("u", std::slice::from_ref(&ours)));
        let mut taken_over = ours.clone();
        taken_over["fieldsV1"] = json!({});
        let theirs = entry("hpa", "2026-01-02T00:00:00Z", "scale");
        let status = entry(FIELD_MANAGER, "2026-01-02T00:00:00Z", "status");
        assert_eq!(last_write_digest(&object("u", &[theirs, taken_over, status])), mark);
        let mut later = ours.clone();
        later["time"] = json!("2026-01-01T00:00:01Z");
        for other in [object("u", &[later]), object("u2", &[ours]), object("u", &[]), json!({})] {
            assert_ne!(last_write_digest(&other), mark);
        }
    }

    #[test]
    fn a_stamped_manifest_is_ours_and_this_works() {
        let mut manifest = deployment(1, false);
        object::metadata(&mut manifest).insert("resourceVersion".into(), "7".into());
        object::root(&mut manifest).insert("status".into(), json!({"x": 1}));
        let desired = stamped(&manifest, "site1", "a-123");
        assert!(is_ours(&desired, "site1", "a-123"));
        assert!(!is_ours(&desired, "site2", "a-123") && !is_ours(&desired, "site1", "b"));
        assert!(!is_ours(&manifest, "site1", "a-123"));
        assert_eq!((object::resource_version(&desired), desired.get("status")), ("", None));
        let patch = strip_patch(&desired);
        assert_eq!(patch.pointer("/metadata/labels"), Some(&json!({"karmada.io/managed": null})));
        assert_eq!(patch.pointer("/metadata/annotations").unwrap().as_object().unwrap().len(), 2);
    }

    #[test]
    fn covering_allows_what_others_add_and_sees_what_they_change() {
        let body = json!({"spec": {"replicas": 2, "empty": {}, "none": null,
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1000m"}}}], "args": ["x", "y"]}});
        let same = json!({"spec": {"replicas": 2, "default": true,
            "containers": [{"name": "sidecar"}, {"name": "a", "image": "i", "resources": {"limits": {"cpu": "1"}}}], "args": ["x", "y"]}});
        assert!(covers(&same, &body));
        for (path, value) in [
            ("/spec/replicas", json!(3)),
            ("/spec/args", json!(["x"])),
            ("/spec/args", json!(["y", "x"])),
            ("/spec/containers", json!([{"name": "a"}])),
            ("/spec/containers", json!([])),
        ] {
            let mut changed = same.clone();
            *changed.pointer_mut(path).unwrap() = value;
            assert!(!covers(&changed, &body), "{path}");
        }
    }

    #[test]
    fn the_last_other_manager_is_who_changed_an_object() {
        let entry = |manager: &str, time: &str, subresource: &str| json!({"manager": manager, "time": time, "subresource": subresource});
        let object = |managers: Vec<Value>| json!({"metadata": {"managedFields": managers}});
        assert_eq!(changed_by(&object(vec![])), "somebody");
        let managers = vec![
            entry("kubectl-edit", "2026-01-02T00:00:00Z", ""),
            entry("helm", "2026-01-01T00:00:00Z", ""),
            entry(FIELD_MANAGER, "2026-01-03T00:00:00Z", ""),
            entry("kube-controller-manager", "2026-01-04T00:00:00Z", "status"),
        ];
        assert_eq!(changed_by(&object(managers)), "kubectl-edit");
    }

    #[test]
    fn a_digest_ignores_status_and_counters_only() {
        let base = deployment(1, false);
        let mut counted = owned(base.clone(), &["x"]);
        object::metadata(&mut counted).insert("resourceVersion".into(), "9".into());
        object::root(&mut counted).insert("status".into(), json!({"ready": 1}));
        assert_eq!(digest(&base), digest(&counted));
        assert_ne!(digest(&base), digest(&deployment(2, false)));
        let mut labelled = base.clone();
        object::set_label(&mut labelled, "a", "b");
        assert_ne!(digest(&base), digest(&labelled));
    }
}
