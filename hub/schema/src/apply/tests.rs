//! Cases of server-side apply.

#![allow(clippy::needless_pass_by_value, reason = "a json! reads best where it is passed")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Schemas, decode_go};

fn schema() -> SchemaRef<'static> {
    Schemas::builtin().of("apps", "v1", "Deployment").unwrap()
}

fn writer<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
    let resets = ResetFields { by_status: &["metadata.labels"], ..ResetFields::GO };
    Writer { manager, api_version: "apps/v1", subresource: "", now, has_status: true, resets }
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}, "spec": spec})
}

fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("u");
    decode_go(schema(), &mut object).unwrap();
    object
}

fn applied(live: Option<&Value>, object: &Value, manager: &str, now: &str) -> Value {
    stored(apply(live, object, writer(manager, now), Conflicts::Refused, schema()).unwrap())
}

fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let list = object["metadata"]["managedFields"].as_array().unwrap();
    &list.iter().find(|entry| entry["manager"] == manager).unwrap_or_else(|| panic!("{manager}: {list:#?}"))["fieldsV1"]
}

fn web(image: &str, replicas: Option<i64>) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "c", "image": image, "ports": [{"containerPort": 80}]}]}}
    });
    if let Some(replicas) = replicas {
        spec["replicas"] = json!(replicas);
    }
    deployment(spec)
}

#[test]
fn an_applier_owns_what_it_says_in_canonical_form() {
    let object = applied(None, &web("nginx:1", Some(2)), "me", "2026-01-01T00:00:00Z");
    let entry = &object["metadata"]["managedFields"][0];
    assert_eq!(entry["operation"], "Apply");
    assert_eq!(entry["apiVersion"], "apps/v1");
    assert_eq!(entry["time"], "2026-01-01T00:00:00Z");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {
            "f:replicas": {}, "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:image": {}, "f:name": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}
                }}}
            }
        }})
    );
}

#[test]
fn conflicts_name_the_manager_and_the_field() {
    let mut live = stored(web("nginx:1", Some(1)));
    let created = live.clone();
    live["metadata"].as_object_mut().unwrap().remove("uid");
    update_managed(None, &mut live, writer("kubectl-client-side-apply", "2026-01-01T00:00:00Z"), schema());
    live["metadata"]["uid"] = created["metadata"]["uid"].clone();
    let error = apply(Some(&live), &web("nginx:1", Some(5)), writer("me", "t"), Conflicts::Refused, schema())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    let ApplyError::Conflicts(found) = error else { panic!() };
    assert_eq!(
        found[0].cause(),
        json!({"reason": "FieldManagerConflict", "field": ".spec.replicas",
               "message": "conflict with \"kubectl-client-side-apply\" using apps/v1"})
    );
    let forced =
        apply(Some(&live), &web("nginx:1", Some(5)), writer("me", "t"), Conflicts::Taken, schema()).unwrap();
    assert_eq!(forced["spec"]["replicas"], 5);
    assert!(fields(&forced, "kubectl-client-side-apply")["f:spec"].get("f:replicas").is_none());
    let two = apply(Some(&live), &web("nginx:2", Some(5)), writer("me", "t"), Conflicts::Refused, schema())
        .unwrap_err();
    assert_eq!(
        two.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-client-side-apply\" using apps/v1:\n\
         - .spec.replicas\n- .spec.template.spec.containers[name=\"c\"].image"
    );
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_owns_it() {
    let first = applied(None, &web("nginx:1", Some(4)), "me", "2026-01-01T00:00:00Z");
    let shared = applied(Some(&first), &web("nginx:1", Some(4)), "other", "2026-01-01T00:00:01Z");
    let kept = applied(Some(&shared), &web("nginx:1", None), "me", "2026-01-01T00:00:02Z");
    assert_eq!(kept["spec"]["replicas"], 4);
    assert!(fields(&kept, "me")["f:spec"].get("f:replicas").is_none());
    let gone =
        apply(Some(&first), &web("nginx:1", None), writer("me", "t"), Conflicts::Refused, schema()).unwrap();
    assert!(gone["spec"].get("replicas").is_none());

    let mut with_sidecar = web("nginx:1", None);
    with_sidecar["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "s", "image": "s"}));
    let both = applied(None, &with_sidecar, "me", "2026-01-01T00:00:00Z");
    let one = applied(Some(&both), &web("nginx:1", None), "me", "2026-01-01T00:00:01Z");
    assert_eq!(one["spec"]["template"]["spec"]["containers"].as_array().unwrap().len(), 1);
}

#[test]
fn the_same_apply_again_changes_nothing() {
    let first = applied(None, &web("nginx:1", Some(4)), "me", "2026-01-01T00:00:00Z");
    let again = applied(Some(&first), &web("nginx:1", Some(4)), "me", "2026-01-01T01:00:00Z");
    assert_eq!(again, first);
}

#[test]
fn a_writer_takes_what_it_changes_and_others_lose_it() {
    let live = applied(None, &web("nginx:1", Some(4)), "me", "2026-01-01T00:00:00Z");
    let mut new = live.clone();
    new["spec"]["replicas"] = json!(7);
    update_managed(Some(&live), &mut new, writer("scaler", "2026-01-01T00:00:01Z"), schema());
    assert_eq!(*fields(&new, "scaler"), json!({"f:spec": {"f:replicas": {}}}));
    assert!(fields(&new, "me")["f:spec"].get("f:replicas").is_none());
    // The same write again moves nothing, times among it.
    let mut same = new.clone();
    update_managed(Some(&new), &mut same, writer("scaler", "2026-01-01T09:00:00Z"), schema());
    assert_eq!(same, new);
}

#[test]
fn status_belongs_to_its_subresource() {
    let live = applied(None, &web("nginx:1", Some(4)), "me", "2026-01-01T00:00:00Z");
    let mut new = live.clone();
    new["status"]["readyReplicas"] = json!(4);
    new["status"]["conditions"] = json!([{"type": "Available", "status": "True"}]);
    let status = Writer { subresource: "status", ..writer("agent", "2026-01-01T00:00:01Z") };
    update_managed(Some(&live), &mut new, status, schema());
    let list = new["metadata"]["managedFields"].as_array().unwrap();
    let entry = list.iter().find(|entry| entry["manager"] == "agent").unwrap();
    assert_eq!(entry["subresource"], "status");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:status": {"f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}},
               "f:readyReplicas": {}}})
    );
    // An apply of the whole object does not own its status.
    let mut config = web("nginx:1", Some(4));
    config["status"] = json!({"readyReplicas": 9});
    let object = apply(Some(&new), &config, writer("me", "t"), Conflicts::Taken, schema()).unwrap();
    assert!(fields(&object, "me").get("f:status").is_none());
}

#[test]
fn ownership_can_be_reset_and_old_objects_stay_untracked() {
    let live = applied(None, &web("nginx:1", Some(4)), "me", "2026-01-01T00:00:00Z");
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    update_managed(Some(&live), &mut new, writer("x", "t"), schema());
    assert!(new["metadata"].get("managedFields").is_none());
    let mut next = new.clone();
    next["spec"]["replicas"] = json!(9);
    update_managed(Some(&new), &mut next, writer("x", "t"), schema());
    assert!(next["metadata"].get("managedFields").is_none());
    // The first apply to such an object remembers what was there.
    let mut config = web("nginx:1", None);
    config["spec"]["paused"] = json!(true);
    let object = apply(Some(&new), &config, writer("me", "t"), Conflicts::Refused, schema()).unwrap();
    assert!(fields(&object, "before-first-apply")["f:spec"].get("f:replicas").is_some());
}

#[test]
fn kubectl_takes_over_from_its_own_client_side_apply() {
    let config = web("nginx:1", Some(1));
    let mut live = stored(config.clone());
    live["metadata"]["annotations"] = json!({LAST_APPLIED: config.to_string()});
    live["metadata"].as_object_mut().unwrap().remove("uid");
    update_managed(None, &mut live, writer("kubectl-client-side-apply", "2026-01-01T00:00:00Z"), schema());
    live["metadata"]["uid"] = json!("u");
    let new = web("nginx:2", Some(1));
    let object = apply(Some(&live), &new, writer("kubectl", "t"), Conflicts::Refused, schema()).unwrap();
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2");
    let last = object["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap(), new);
    assert!(apply(Some(&live), &new, writer("someone", "t"), Conflicts::Refused, schema()).is_err());
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut config = web("nginx:1", None);
    config["spec"]["foo"] = json!(1);
    let error = apply(None, &config, writer("me", "t"), Conflicts::Refused, schema()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (d/web; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema"
    );
    let mut config = web("nginx:1", None);
    config["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "c"}));
    let error =
        apply(None, &config, writer("me", "t"), Conflicts::Refused, schema()).unwrap_err().to_string();
    assert!(
        error.ends_with(".spec.template.spec.containers: duplicate entries for key [name=\"c\"]"),
        "{error}"
    );
    let mut config = web("nginx:1", None);
    config["metadata"]["managedFields"] = json!([]);
    assert!(matches!(
        apply(None, &config, writer("me", "t"), Conflicts::Refused, schema()),
        Err(ApplyError::BadRequest(_))
    ));
    let mut config = web("nginx:1", None);
    config["apiVersion"] = json!("apps/v2");
    assert!(matches!(
        apply(None, &config, writer("me", "t"), Conflicts::Refused, schema()),
        Err(ApplyError::BadRequest(_))
    ));
}

#[test]
fn many_updaters_are_folded() {
    let mut live = stored(web("nginx:1", Some(1)));
    live["metadata"].as_object_mut().unwrap().remove("uid");
    update_managed(None, &mut live, writer("m", "2026-01-01T00:00:00Z"), schema());
    live["metadata"]["uid"] = json!("u");
    for n in 0..15 {
        let mut new = live.clone();
        new["metadata"]["annotations"][format!("a{n}")] = json!("x");
        let (manager, now) = (format!("w{n:02}"), format!("2026-01-01T00:00:{:02}Z", n + 1));
        update_managed(Some(&live), &mut new, writer(&manager, &now), schema());
        live = new;
    }
    let list = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(list.len(), 10);
    assert!(list.iter().any(|entry| entry["manager"] == "ancient-changes"));
}

#[test]
fn applied_elements_keep_their_order_and_live_ones_their_place() {
    let place = MergePlace::Known(schema());
    let list = |names: &[&str]| {
        let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        deployment(json!({"template": {"spec": {"containers": items}}}))
    };
    let order = |live: &[&str], applied: &[&str]| {
        let merged = merge::merge(place, &list(live), &list(applied)).unwrap();
        let items = merged["spec"]["template"]["spec"]["containers"].as_array().unwrap().clone();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!(order(&["a", "b", "c"], &["c", "a"]), "bca");
    assert_eq!(order(&["a", "b"], &["x", "a"]), "xab");
    assert_eq!(order(&["a", "b", "c"], &["a", "x", "c"]), "abxc");
    assert_eq!(order(&[], &["b", "a"]), "ba");
    assert_eq!(order(&["a", "b", "c", "d"], &["d", "c", "b", "a"]), "dcba");
}

fn tree() -> impl Strategy<Value = Set> {
    let element = prop_oneof![
        "[a-c]".prop_map(|name| Element::field(&name)),
        (0i64..3).prop_map(|n| Element::parse(&format!("k:{{\"p\":{n},\"a\":\"x\"}}")).unwrap()),
        (0i64..3).prop_map(|n| Element::parse(&format!("v:{n}")).unwrap()),
        (0i64..3).prop_map(Element::Index),
    ];
    proptest::collection::vec(proptest::collection::vec(element, 1..4), 0..12).prop_map(|paths| {
        let mut set = Set::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

proptest! {
    #[test]
    fn field_sets_survive_their_json(set in tree()) {
        let json = set.to_fields();
        prop_assert_eq!(Set::from_fields(&json).unwrap(), set);
        prop_assert_eq!(Set::from_fields(&json).unwrap().to_fields(), json);
    }

    #[test]
    fn sets_obey_their_algebra(a in tree(), b in tree()) {
        prop_assert!(a.difference(&a).is_empty());
        prop_assert_eq!(a.union(&b).to_fields(), b.union(&a).to_fields());
        prop_assert_eq!(a.intersection(&b).to_fields(), b.intersection(&a).to_fields());
        prop_assert!(a.intersection(&b.difference(&a)).is_empty());
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)).to_fields(), a.to_fields());
    }

    #[test]
    fn applying_twice_changes_nothing(
        replicas in proptest::option::of(0i64..5),
        images in proptest::collection::btree_map("[a-d]", "[x-z]:[0-9]", 1..4),
        live in proptest::collection::btree_map("[a-d]", "[x-z]:[0-9]", 0..4),
    ) {
        let containers = |map: &std::collections::BTreeMap<String, String>| -> Vec<Value> {
            map.iter().map(|(name, image)| json!({"name": name, "image": image})).collect()
        };
        let config = |list: Vec<Value>| {
            let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": list}}});
            if let Some(replicas) = replicas {
                spec["replicas"] = json!(replicas);
            }
            deployment(spec)
        };
        let base = applied(None, &config(containers(&live)), "other", "2026-01-01T00:00:00Z");
        let applies = |live: &Value, now: &str| {
            stored(apply(Some(live), &config(containers(&images)), writer("me", now), Conflicts::Taken, schema()).unwrap())
        };
        let once = applies(&base, "2026-01-01T00:00:01Z");
        prop_assert_eq!(&applies(&once, "2026-01-01T00:00:02Z"), &once);
        for (name, image) in &images {
            let list = once["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            prop_assert_eq!(&list.iter().find(|c| c["name"] == *name).unwrap()["image"], image);
        }
    }
}

#[test]
fn the_annotation_of_client_side_apply_follows_as_go_writes_it_or_goes() {
    let mut live = web("nginx:1", None);
    live["metadata"]["annotations"] = json!({LAST_APPLIED: "{}", "other": "x"});
    let applied_with = |note: &str| {
        let mut object = web("nginx:1", None);
        object["metadata"]["annotations"] = json!({"note": note});
        applied(Some(&stored(live.clone())), &object, "kubectl", "2026-01-01T00:00:00Z")
    };
    let escaped = applied_with("a < b && \u{2028}");
    let last = escaped["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert!(last.contains(r#""note":"a \u003c b \u0026\u0026 \u2028""#), "{last}");
    assert!(last.ends_with("}\n"), "{last}");
    let large = applied_with(&"x".repeat(200 * 1024));
    assert_eq!(large["metadata"]["annotations"].get(LAST_APPLIED), None);
    assert_eq!(large["metadata"]["annotations"]["other"], "x");
}
