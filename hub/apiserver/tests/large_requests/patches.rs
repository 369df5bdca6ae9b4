//! Rows of changes to what is stored: updates, patches of each form, applies.

use serde_json::{Value, json};

use super::rows::{Row, list, map, object, path_of};
use super::server::Ask;
use super::workloads::{deployment, with_container};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Stored objects are no larger than this: what they are made of has a part of it each.
const STORED: usize = 12_000;

/// The kind that a row changes objects of.
#[derive(Clone, Copy)]
struct Of {
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
}

const MAPS: Of = Of { api_version: "v1", plural: "configmaps", kind: "ConfigMap" };
const DEPLOYMENTS: Of = Of { api_version: "apps/v1", plural: "deployments", kind: "Deployment" };
const CRATES: Of = Of { api_version: "example.com/v1", plural: "crates", kind: "Crate" };

impl Of {
    fn object(self, name: &str, mut fields: Value) -> Value {
        fields["metadata"]["name"] = json!(name);
        object(self.api_version, self.kind, fields)
    }

    /// Stores an object by an apply, which takes one that is there already as well.
    fn stored(self, name: &str, fields: Value) -> Ask {
        let path = format!("{}/{name}?fieldManager=first&force=true", path_of(self.api_version, self.plural));
        Ask::new("PATCH", path, APPLY, &self.object(name, fields))
    }

    /// Changes it, but for the writing.
    fn changed(self, name: &str, content: &'static str, body: &Value) -> Ask {
        let method = if content == JSON { "PUT" } else { "PATCH" };
        let more = if content == APPLY { "&fieldManager=second&force=true" } else { "" };
        let path = format!("{}/{name}?dryRun=All{more}", path_of(self.api_version, self.plural));
        Ask::new(method, path, content, body)
    }

    /// A row of a change to an object that holds as many entries.
    fn row(
        self,
        name: &'static str,
        content: &'static str,
        before: fn(usize) -> Value,
        change: fn(usize) -> Value,
    ) -> Row {
        Row::new(name, move |entries| {
            let own: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let own = format!("{}-{entries}", own.to_lowercase());
            let whole = matches!(content, JSON | APPLY);
            let change = if whole { self.object(&own, change(entries)) } else { change(entries) };
            vec![self.stored(&own, before(entries)), self.changed(&own, content, &change)]
        })
        .at_most(STORED)
    }
}

pub fn rows() -> Vec<Row> {
    let mut all = updates();
    all.extend(merges());
    all.extend(strategic());
    all.extend(json_patches());
    all.extend(applies());
    all
}

/// Variables of counted names.
fn variables(entries: usize, prefix: &str) -> Value {
    list(entries, |at| json!({"name": format!("{prefix}{at}")}))
}

fn backwards(entries: usize) -> Value {
    list(entries, |at| json!({"name": format!("E{}", entries - 1 - at), "value": "1"}))
}

fn with_env(env: Value) -> Value {
    deployment(with_container(json!({ "env": env })))
}

fn nothing(_: usize) -> Value {
    json!({})
}

fn finalizers(entries: usize) -> Value {
    json!({"metadata": {"finalizers": list(entries, |at| json!(format!("a.b/{at}")))}})
}

fn data(entries: usize) -> Value {
    json!({"data": map(entries, |at| (format!("k{at}"), json!("")))})
}

fn keyed(entries: usize) -> Value {
    json!({"spec": {"keyed": list(entries, |at| json!({"name": format!("v{at}")}))}})
}

fn set(entries: usize) -> Value {
    json!({"spec": {"set": list(entries, |at| json!(format!("v{at}")))}})
}

fn updates() -> Vec<Row> {
    vec![
        MAPS.row("update of finalizers", JSON, finalizers, |n| {
            json!({"metadata": {"finalizers": list(n, |at| json!(format!("b.c/{at}")))}})
        }),
        MAPS.row("update of data", JSON, data, |n| json!({"data": map(n, |at| (format!("k{at}"), json!("1")))})),
        MAPS.row("update of other data", JSON, data, |n| json!({"data": map(n, |at| (format!("l{at}"), json!("1")))})),
        MAPS.row("update of owners", JSON, nothing, |n| {
            json!({"metadata": {"ownerReferences": list(n, |at| {
                json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{at}"), "uid": format!("u{at}")})
            })}})
        }),
        DEPLOYMENTS.row("update of env", JSON, |n| with_env(variables(n, "E")), |n| with_env(backwards(n))),
        CRATES.row("update of a keyed list", JSON, keyed, |n| {
            json!({"spec": {"keyed": list(n, |at| json!({"name": format!("v{}", n - 1 - at), "value": "w"}))}})
        }),
        CRATES.row("update of a set", JSON, set, |n| {
            json!({"spec": {"set": list(n, |at| json!(format!("v{}", n - 1 - at)))}})
        }),
    ]
}

fn merges() -> Vec<Row> {
    vec![
        MAPS.row(
            "merge of labels",
            MERGE,
            nothing,
            |n| json!({"metadata": {"labels": map(n, |at| (format!("k{at}"), json!("v")))}}),
        ),
        MAPS.row("merge of managed fields", MERGE, nothing, |n| {
            let entry = |at: usize| {
                json!({"manager": format!("m{at}"), "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{at}"): {}}}})
            };
            json!({"metadata": {"managedFields": list(n, entry)}})
        }),
        MAPS.row(
            "merge that takes data away",
            MERGE,
            data,
            |n| json!({"data": map(n, |at| (format!("k{at}"), Value::Null))}),
        ),
    ]
}

fn strategic() -> Vec<Row> {
    fn patch(mut container: Value) -> Value {
        container["name"] = json!("c");
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    }
    let env = |n| with_env(variables(n, "E"));
    vec![
        DEPLOYMENTS.row("strategic merge of env", STRATEGIC, env, |n| patch(json!({"env": backwards(n)}))),
        DEPLOYMENTS.row("strategic merge of other env", STRATEGIC, env, |n| patch(json!({"env": variables(n, "F")}))),
        DEPLOYMENTS
            .row("strategic merge in order", STRATEGIC, env, |n| {
                patch(json!({"env": backwards(n), "$setElementOrder/env": variables(n, "E")}))
            })
            .whole(),
        DEPLOYMENTS.row("strategic merge that deletes", STRATEGIC, env, |n| {
            patch(json!({"env": list(n, |at| json!({"name": format!("E{at}"), "$patch": "delete"}))}))
        }),
        DEPLOYMENTS.row("strategic merge that retains keys", STRATEGIC, env, |n| {
            json!({"metadata": {"labels": {"$retainKeys": list(n, |at| json!(format!("k{at}"))), "k1": "v"}},
                "spec": {"strategy": {"$retainKeys": list(n, |at| json!(format!("k{at}")))}}})
        }),
        DEPLOYMENTS.row("strategic merge of one container", STRATEGIC, env, |n| {
            json!({"spec": {"template": {"spec": {"containers": list(n, |_| json!({"name": "c", "image": "j"}))}}}})
        }),
        DEPLOYMENTS.row("strategic merge of one container's env", STRATEGIC, env, |n| {
            json!({"spec": {"template": {"spec": {"containers":
                list(n, |at| json!({"name": "c", "env": [{"name": format!("E{at}"), "value": "1"}]}))}}}})
        }),
        MAPS.row("strategic merge of finalizers", STRATEGIC, finalizers, |n| {
            json!({"metadata": {"finalizers": list(n, |at| json!(format!("a.b/{}", n - 1 - at)))}})
        }),
        MAPS.row("strategic merge that deletes finalizers", STRATEGIC, finalizers, |n| {
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": list(n, |at| json!(format!("a.b/{at}")))}})
        }),
    ]
}

fn json_patches() -> Vec<Row> {
    let row =
        |name, before, change: fn(usize) -> Value| MAPS.row(name, JSON_PATCH, before, change).at_most(10_000);
    vec![
        row("JSON patch that adds data", data, |n| {
            list(n, |at| json!({"op": "add", "path": format!("/data/l{at}"), "value": ""}))
        }),
        row("JSON patch that takes from the front", finalizers, |n| {
            list(n, |_| json!({"op": "remove", "path": "/metadata/finalizers/0"}))
        }),
        row("JSON patch that adds at the front", finalizers, |n| {
            list(n, |at| json!({"op": "add", "path": "/metadata/finalizers/0", "value": format!("b.c/{at}")}))
        }),
        row("JSON patch that tests a list", finalizers, |n| {
            list(n, |_| json!({"op": "test", "path": "/metadata/finalizers/0", "value": "a.b/0"}))
        }),
        row("JSON patch that moves", data, |n| {
            list(
                n,
                |at| json!({"op": "move", "from": format!("/data/k{at}"), "path": format!("/data/l{at}")}),
            )
        }),
        row("JSON patch that copies", data, |n| {
            list(n, |at| json!({"op": "copy", "from": "/data/k0", "path": format!("/data/l{at}")}))
        }),
        row("JSON patch that fails", data, |n| {
            let mut all = list(n - 1, |at| json!({"op": "add", "path": format!("/data/l{at}"), "value": ""}));
            all.as_array_mut().unwrap().push(json!({"op": "remove", "path": "/what"}));
            all
        }),
        MAPS.row("JSON patch at the front of a longer list", JSON_PATCH, nothing, |n| {
            let mut all =
                vec![json!({"op": "add", "path": "/data", "value": list(50 * n.min(10_000), |_| json!(0))})];
            all.extend((1..n).map(|_| json!({"op": "add", "path": "/data/0", "value": 0})));
            json!(all)
        })
        .at_most(10_000)
        .whole(),
    ]
}

fn applies() -> Vec<Row> {
    vec![
        MAPS.row("apply of finalizers", APPLY, nothing, finalizers).whole(),
        MAPS.row("apply of finalizers again", APPLY, finalizers, |n| {
            json!({"metadata": {"finalizers": list(n, |at| json!(format!("a.b/{}", n - 1 - at)))}})
        }),
        MAPS.row("apply of data", APPLY, nothing, data),
        MAPS.row("apply of data again", APPLY, data, |n| {
            json!({"data": map(n, |at| (format!("k{at}"), json!("1")))})
        }),
        MAPS.row("apply of owners", APPLY, nothing, |n| {
            json!({"metadata": {"ownerReferences": list(n, |at| {
                json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{at}"), "uid": format!("u{at}")})
            })}})
        }),
        DEPLOYMENTS.row("apply of env", APPLY, |_| with_env(json!([])), |n| with_env(variables(n, "E"))),
        DEPLOYMENTS.row("apply of env again", APPLY, |n| with_env(variables(n, "E")), |n| with_env(backwards(n))),
        DEPLOYMENTS.row("apply of other env", APPLY, |n| with_env(variables(n, "E")), |n| with_env(variables(n, "F"))),
        DEPLOYMENTS.row("apply of env of one name", APPLY, |_| with_env(json!([])), |n| {
            with_env(list(n, |_| json!({"name": "E"})))
        }),
        DEPLOYMENTS.row("apply of containers", APPLY, |_| with_env(json!([])), |n| {
            deployment(json!({"containers": list(n, |at| json!({"name": format!("c{at}"), "image": "i"}))}))
        }),
        CRATES.row("apply of a keyed list again", APPLY, keyed, |n| {
            json!({"spec": {"keyed": list(n, |at| json!({"name": format!("v{}", n - 1 - at), "value": "w"}))}})
        }),
        CRATES.row("apply of a set again", APPLY, set, |n| {
            json!({"spec": {"set": list(n, |at| json!(format!("v{}", n - 1 - at)))}})
        }),
        CRATES.row("apply of anything", APPLY, nothing, |n| {
            json!({"spec": {"any": map(n, |at| (format!("k{at}"), json!([at])))}})
        }),
    ]
}
