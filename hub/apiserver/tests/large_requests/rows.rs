//! The table: which lists of which kinds can be long, and how a row of it is made.

use serde_json::{Value, json};

use super::server::Ask;
use super::{cluster_kinds, custom_kinds, patches, workloads};

/// A kind of large request.
pub struct Row {
    pub name: &'static str,
    /// The requests of a run with that many entries; the last is measured, those before it must succeed.
    pub asks: Box<dyn Fn(usize) -> Vec<Ask> + Send + Sync>,
    /// More entries than these are not asked for: kube-apiserver and the hub take no more.
    pub most: usize,
    /// Whether the largest that is taken is asked for too.
    pub whole: bool,
}

impl Row {
    pub fn new(name: &'static str, asks: impl Fn(usize) -> Vec<Ask> + Send + Sync + 'static) -> Row {
        Row { name, asks: Box::new(asks), most: usize::MAX, whole: false }
    }

    /// Whose largest is asked for too.
    pub fn whole(mut self) -> Row {
        self.whole = true;
        self
    }

    /// Of which no more than so many entries are asked for.
    pub fn at_most(mut self, entries: usize) -> Row {
        self.most = entries;
        self
    }
}

/// Where objects of a kind are.
pub fn path_of(api_version: &str, plural: &str) -> String {
    let root = if api_version.contains('/') { "/apis/" } else { "/api/" };
    format!("{root}{api_version}/namespaces/shop/{plural}")
}

/// An object of a namespace that is created, but not stored.
pub fn create(
    name: &'static str,
    api_version: &'static str,
    (plural, kind): (&'static str, &'static str),
    fields: impl Fn(usize) -> Value + Send + Sync + 'static,
) -> Row {
    create_at(name, path_of(api_version, plural), (api_version, kind), fields)
}

/// The same of an object of no namespace.
pub fn create_wide(
    name: &'static str,
    api_version: &'static str,
    (plural, kind): (&'static str, &'static str),
    fields: impl Fn(usize) -> Value + Send + Sync + 'static,
) -> Row {
    let path = path_of(api_version, plural).replace("/namespaces/shop", "");
    create_at(name, path, (api_version, kind), fields)
}

fn create_at(
    name: &'static str,
    path: String,
    (api_version, kind): (&'static str, &'static str),
    fields: impl Fn(usize) -> Value + Send + Sync + 'static,
) -> Row {
    Row::new(name, move |entries| {
        let path = format!("{path}?dryRun=All");
        vec![Ask::new("POST", path, "application/json", &object(api_version, kind, fields(entries)))]
    })
}

/// An object of these fields, named `large` where they name it no other way.
pub fn object(api_version: &str, kind: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = json!(api_version);
    fields["kind"] = json!(kind);
    if fields["metadata"]["name"].is_null() {
        fields["metadata"]["name"] = json!("large");
    }
    fields
}

/// So many values.
pub fn list(entries: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..entries).map(one).collect()
}

/// So many members.
pub fn map(entries: usize, one: impl Fn(usize) -> (String, Value)) -> Value {
    Value::Object((0..entries).map(one).collect())
}

/// Every row.
pub fn all() -> Vec<Row> {
    let mut all = metadata();
    all.extend(workloads::rows());
    all.extend(cluster_kinds::rows());
    all.extend(custom_kinds::rows());
    all.extend(patches::rows());
    all
}

fn metadata() -> Vec<Row> {
    const CONFIG_MAP: (&str, &str) = ("configmaps", "ConfigMap");
    let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{at}"), "uid": format!("u{at}")});
    let of = |field: &'static str, name: &'static str, one: fn(usize) -> Value| {
        create(name, "v1", CONFIG_MAP, move |n| json!({"metadata": {field: list(n, one)}}))
    };
    let with = |field: &'static str, name: &'static str, one: fn(usize) -> (String, Value)| {
        create(name, "v1", CONFIG_MAP, move |n| json!({"metadata": {field: map(n, one)}}))
    };
    vec![
        of("ownerReferences", "owners", owner).whole(),
        of(
            "ownerReferences",
            "owners of one uid",
            |at| json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{at}"), "uid": "u"}),
        ),
        of(
            "ownerReferences",
            "one owner again and again",
            |_| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}),
        ),
        of(
            "ownerReferences",
            "owners that all control",
            |at| json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{at}"), "uid": format!("u{at}"), "controller": true}),
        ),
        of("finalizers", "finalizers", |at| json!(format!("a.b/{at}"))),
        of("finalizers", "finalizers that are wrong", |at| json!(format!("!{at}"))),
        of("managedFields", "managed fields", |at| {
            json!({"manager": format!("m{at}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {"f:a": {}}}})
        }),
        of("managedFields", "managed fields of many versions", |at| {
            json!({"manager": "m", "operation": "Apply", "apiVersion": format!("v{at}"), "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {}}})
        }),
        with("labels", "labels", |at| (format!("k{at}"), json!("v"))),
        with("labels", "labels that are wrong", |at| (format!("!{at}"), json!("!"))),
        with("annotations", "annotations", |at| (format!("k{at}"), json!(""))),
        create("data", "v1", CONFIG_MAP, |n| json!({"data": map(n, |at| (format!("k{at}"), json!("")))})),
        create(
            "binary data",
            "v1",
            CONFIG_MAP,
            |n| json!({"binaryData": map(n, |at| (format!("k{at}"), json!("")))}),
        ),
        create("data and binary data", "v1", CONFIG_MAP, |n| {
            json!({"data": map(n, |at| (format!("k{at}"), json!(""))),
                "binaryData": map(n, |at| (format!("k{at}"), json!("")))})
        }),
        create(
            "data with wrong keys",
            "v1",
            CONFIG_MAP,
            |n| json!({"data": map(n, |at| (format!("!{at}"), json!("")))}),
        ),
        create("unknown fields", "v1", CONFIG_MAP, |n| map(n, |at| (format!("k{at}"), json!("")))),
        create("unknown fields of entries", "v1", CONFIG_MAP, |n| {
            json!({"metadata": {"ownerReferences": list(n, |at| json!({"apiVersion": "v1", "kind": "Node",
                "name": format!("n{at}"), "uid": format!("u{at}"), "what": 1}))}})
        }),
        create("secret data", "v1", ("secrets", "Secret"), |n| {
            json!({"data": map(n, |at| (format!("k{at}"), json!(""))),
                "stringData": map(n, |at| (format!("k{at}"), json!("a")))})
        }),
    ]
}
