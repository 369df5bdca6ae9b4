//! Sequences of writes recorded from kube-apiserver 1.34.4 (`data/recorded_writes.jsonl`): each step on what the real
//! server had before it, its object, owners and errors compared.

use std::collections::BTreeMap;

use karmada_kinds::catalogue;
use karmada_kinds::kind::Kind;
use karmada_schema::apply::{Conflicts, Writer, apply, update_managed};
use karmada_schema::patch::{PatchError, json_patch, merge_patch, strategic_patch};
use serde_json::{Value, json};

/// What a step comes to: the object, or the message.
fn carry_out(kind: &Kind<'_>, live: Option<&Value>, step: &Value) -> Result<Value, String> {
    let subresource = step["sub"].as_str().unwrap();
    let resource = catalogue::of_kind(kind.group, kind.version, kind.kind).unwrap();
    let api_version = kind.api_version();
    let writer = Writer {
        manager: step["manager"].as_str().unwrap(),
        api_version: &api_version,
        subresource,
        now: "2026-01-01T00:00:00Z",
        has_status: resource.subresource("status").is_some(),
        resets: kind.row.resets,
    };
    let body = step["body"].to_string();
    let conflicts = if step["verb"] == "force" { Conflicts::Taken } else { Conflicts::Refused };
    let patched = |result: Result<Value, PatchError>| result.map_err(|error| error.to_string());
    let verb = step["verb"].as_str().unwrap();
    let mut new = match (verb, live) {
        ("create" | "put", _) => step["body"].clone(),
        ("apply" | "force", _) => {
            apply(live, &step["body"], writer, conflicts, kind.schema).map_err(|error| error.to_string())?
        }
        ("application/json-patch+json", Some(live)) => patched(json_patch(live, body.as_bytes()))?,
        ("application/merge-patch+json", Some(live)) => patched(merge_patch(live, body.as_bytes()))?,
        (_, Some(live)) => patched(strategic_patch(kind.schema, live, body.as_bytes()))?,
        _ => unreachable!("a patch has something to patch"),
    };
    kind.decode(&mut new).map_err(|error| error.to_string())?;
    kind.default(&mut new);
    let managed = new["metadata"].get("managedFields").cloned();
    if let Some(live) = live {
        if subresource == "status" {
            let status = new["status"].clone();
            new = live.clone();
            new["status"] = status;
        } else {
            new["status"] = live["status"].clone();
        }
        for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
            new["metadata"][field] = live["metadata"][field].clone();
        }
        if let Some(managed) = managed {
            new["metadata"]["managedFields"] = managed;
        }
    }
    if !matches!(verb, "apply" | "force") {
        update_managed(live, &mut new, writer, kind.schema);
    }
    let errors = kind.validate(&crate::admitted::as_admitted(kind.group, kind.kind, &new), live).unwrap();
    if errors.is_empty() { Ok(new) } else { Err(karmada_schema::FieldError::aggregate(&errors)) }
}

/// Owners by who they are.
fn owners(object: &Value) -> BTreeMap<String, Value> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| {
            let who = [&entry["manager"], &entry["operation"], &entry["subresource"], &entry["apiVersion"]];
            (format!("{who:?}"), entry["fieldsV1"].clone())
        })
        .collect()
}

/// What the writer can see of an object, without what a server makes up.
fn seen(object: &Value) -> Value {
    let mut metadata = object["metadata"].clone();
    for field in ["managedFields", "uid", "creationTimestamp", "resourceVersion", "generation"] {
        metadata.as_object_mut().unwrap().remove(field);
    }
    let mut spec = object["spec"].clone();
    let made: &[&str] = match object["kind"].as_str() {
        Some("Service") => &["clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        Some("Pod") => &["preemptionPolicy", "priority", "tolerations"],
        _ => &[],
    };
    for field in made {
        if let Some(spec) = spec.as_object_mut() {
            spec.remove(*field);
        }
    }
    json!({"metadata": metadata, "spec": spec, "data": object["data"]})
}

#[test]
fn writes_come_out_as_kube_apiservers() {
    let mut wrong = Vec::new();
    let mut steps = 0;
    for line in include_str!("../../data/recorded_writes.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (group, version) = {
            let api_version = case["apiVersion"].as_str().unwrap();
            api_version.split_once('/').unwrap_or(("", api_version))
        };
        let kind = Kind::builtin(group, version, case["kind"].as_str().unwrap()).unwrap();
        let mut live: Option<Value> = None;
        for (index, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            steps += 1;
            let name = format!("{}[{index}] {}", case["name"], step["verb"]);
            let got = &step["got"];
            match (carry_out(&kind, live.as_ref(), step), step["code"].as_u64().unwrap() < 300) {
                (Ok(ours), true) => {
                    if seen(&ours) != seen(got) {
                        wrong.push(format!(
                            "{name} object\n  ours   {}\n  theirs {}",
                            seen(&ours),
                            seen(got)
                        ));
                    }
                    let (mine, theirs) = (owners(&ours), owners(got));
                    for who in mine.keys().chain(theirs.keys()).collect::<std::collections::BTreeSet<_>>() {
                        if mine.get(who) != theirs.get(who) {
                            let show = |map: &BTreeMap<String, Value>| map.get(who).map(ToString::to_string);
                            wrong.push(format!(
                                "{name} {who}\n  ours   {:?}\n  theirs {:?}",
                                show(&mine),
                                show(&theirs)
                            ));
                        }
                    }
                }
                (Err(ours), false) => {
                    let theirs = got["message"].as_str().unwrap();
                    if !theirs.ends_with(&ours) {
                        wrong.push(format!("{name}\n  ours   {ours}\n  theirs {theirs}"));
                    }
                }
                (Ok(_), false) => wrong.push(format!("{name} is accepted; theirs {}", got["message"])),
                (Err(ours), true) => wrong.push(format!("{name} is refused: {ours}")),
            }
            if step["code"].as_u64().unwrap() < 300 {
                live = Some(got.clone());
            }
        }
    }
    assert!(steps > 50, "{steps}");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
