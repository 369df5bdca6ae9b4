//! Creates recorded from kube-apiserver 1.34.4 (`data/recorded.jsonl`): what was sent, what came back.

use std::collections::BTreeSet;

use karmada_kinds::kind::Kind;
use karmada_kinds::{catalogue, table};
use karmada_schema::{FieldError, apply, duplicate_fields};
use serde_json::{Value, json};

use crate::admitted::as_admitted;

fn cases() -> Vec<Value> {
    let text = include_str!("../../data/recorded.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kind_of(sent: &Value) -> Kind<'_> {
    let (group, version) = group_and_version(sent["apiVersion"].as_str().unwrap());
    Kind::builtin(group, version, sent["kind"].as_str().unwrap()).unwrap()
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Takes out what a server makes up, and what the registry's strategies (not defaulting) set.
fn bare(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    object.as_object_mut().unwrap().remove("status");
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    let made: &[&str] = match kind.as_str() {
        "Service" => {
            for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
                port.as_object_mut().unwrap().remove("nodePort");
            }
            &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]
        }
        // Admission plugins: priority and tolerations of every Pod.
        "Pod" => &["preemptionPolicy", "priority", "tolerations"],
        "Node" => &["taints"],
        "Job" => {
            if let Some(metadata) =
                object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut)
            {
                if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                    labels.retain(|key, _| !key.contains("controller-uid") && !key.contains("job-name"));
                }
                if metadata.get("labels") == Some(&json!({})) {
                    metadata.remove("labels");
                }
            }
            if let Some(metadata) = object["metadata"].as_object_mut() {
                if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                    labels.retain(|key, _| !key.contains("controller-uid") && !key.contains("job-name"));
                }
                metadata.retain(|key, value| key != "labels" || *value != json!({}));
            }
            &["selector"]
        }
        _ => &[],
    };
    for field in made {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove(*field);
        }
    }
    object
}

/// Where two values differ, for people.
fn differences(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let none = Value::String("(absent)".into());
                differences(
                    &format!("{path}.{key}"),
                    a.get(key).unwrap_or(&none),
                    b.get(key).unwrap_or(&none),
                    out,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter()
                .zip(b)
                .enumerate()
                .for_each(|(i, (a, b))| differences(&format!("{path}[{i}]"), a, b, out));
        }
        _ if ours == theirs => {}
        _ => out.push(format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

#[test]
fn accepted_objects_come_out_the_same() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| case["code"] == 201) {
        let (sent, got) = (&case["sent"], &case["got"]);
        let kind = kind_of(sent);
        let name = format!("{} {}", kind.kind, sent["metadata"]["name"]);
        let mut ours = sent.clone();
        let unknown = kind.decode(&mut ours).unwrap();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        kind.default(&mut ours);
        differences(&name, &bare(ours.clone()), &bare(got.clone()), &mut wrong);
        let admitted = as_admitted(kind.group, kind.kind, &ours);
        let refused: Vec<String> =
            kind.validate(&admitted, None).unwrap().iter().map(ToString::to_string).collect();
        if !refused.is_empty() {
            wrong.push(format!("{name} is refused: {refused:?}"));
        }
        let mut owned = ours.clone();
        let writer = apply::Writer {
            manager: "recorder",
            api_version: sent["apiVersion"].as_str().unwrap(),
            subresource: "",
            now: "t",
            has_status: catalogue::of_kind(kind.group, kind.version, kind.kind)
                .unwrap()
                .subresource("status")
                .is_some(),
            resets: kind.row.resets,
        };
        apply::update_managed(None, &mut owned, writer, kind.schema);
        let set = |object: &Value| object["metadata"]["managedFields"][0]["fieldsV1"].clone();
        differences(&format!("{name} fields"), &set(&owned), &set(got), &mut wrong);
        let resource = catalogue::of_kind(kind.group, kind.version, kind.kind).unwrap();
        let now = got["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
        let ages = |cells: Value| -> Value {
            let is_age = |text: &str| text.ends_with('s') && text[..text.len() - 1].parse::<u8>().is_ok();
            let cells = cells.as_array().cloned().unwrap_or_default().into_iter();
            cells.map(|cell| if cell.as_str().is_some_and(is_age) { json!("AGE") } else { cell }).collect()
        };
        if case["cells"].is_array() {
            let cells = table::row(kind.row, resource, got, now).into();
            differences(&format!("{name} row"), &ages(cells), &ages(case["cells"].clone()), &mut wrong);
        }
        let columns: Vec<Value> =
            table::columns(resource).iter().map(|c| json!([c.name, c.ty, c.format, c.priority])).collect();
        differences(&format!("{name} columns"), &columns.into(), &case["columns"], &mut wrong);
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn refused_objects_are_refused_in_the_same_words() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| case["code"] != 201) {
        let (sent, got) = (&case["sent"], &case["got"]);
        let kind = kind_of(sent);
        let name = format!("{} {}", kind.kind, sent["metadata"]["name"]);
        let theirs: BTreeSet<String> = match got["details"]["causes"].as_array() {
            Some(causes) => causes
                .iter()
                .map(|c| {
                    format!("{}: {}", c["field"].as_str().unwrap_or_default(), c["message"].as_str().unwrap())
                })
                .collect(),
            None => [got["message"].as_str().unwrap().to_owned()].into(),
        };
        let mut body = sent.clone();
        let ours: BTreeSet<String> = match kind.decode(&mut body) {
            Err(error) => [error.wrap(kind.version, kind.kind)].into(),
            Ok(mut unknown) => {
                unknown.extend(duplicate_fields(sent.to_string().as_bytes()));
                if unknown.is_empty() {
                    kind.default(&mut body);
                    let admitted = as_admitted(kind.group, kind.kind, &body);
                    kind.validate(&admitted, None).unwrap().iter().map(FieldError::to_string).collect()
                } else {
                    let error =
                        karmada_schema::DecodeError(format!("strict decoding error: {}", unknown.join(", ")));
                    [error.wrap(kind.version, kind.kind)].into()
                }
            }
        };
        for missing in theirs.difference(&ours) {
            wrong.push(format!("{name} theirs: {missing}"));
        }
        for extra in ours.difference(&theirs) {
            wrong.push(format!("{name} ours:   {extra}"));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
