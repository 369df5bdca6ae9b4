//! One sequence for every kind and verb, made from one sample object per kind.

use std::cell::RefCell;

use base64::Engine;
use serde_json::{Value, json};

use crate::sequence::{Sequence, Step, folder};
use crate::twins::{Resource, Twins};

/// A sample and where it goes.
struct Sample {
    resource: Resource,
    object: Value,
    /// The name a sequence gives it.
    name: String,
    /// The long short name, which is never ambiguous.
    plural: String,
}

/// Every sequence.
pub fn all(twins: &Twins) -> Vec<Sequence> {
    samples(twins).iter().flat_map(of).collect()
}

/// Samples to be mutated: the short name of their resource, the resource, and the object. Built-in kinds alone; where the suite's
/// own file has richer ones of a kind, these.
pub fn mutable(twins: &Twins) -> Vec<(String, Resource, Value)> {
    let rich = samples_of(twins, &folder().join("mutations.yaml"));
    let plain = samples(twins);
    let has_rich = |sample: &Sample| rich.iter().any(|other| other.plural == sample.plural);
    let plain = plain.into_iter().filter(|sample| {
        let version = &sample.resource.api_version;
        !has_rich(sample) && !version.contains("karmada.io") && !version.contains("x-k8s.io")
    });
    let all: Vec<Sample> = plain.collect::<Vec<_>>().into_iter().chain(rich).collect();
    all.into_iter().map(|sample| (sample.plural, sample.resource, sample.object)).collect()
}

/// Samples with names that are the sequence's own (`NS` is put in for `sample`).
fn samples(twins: &Twins) -> Vec<Sample> {
    samples_of(twins, &folder().join("../conformance/samples.yaml"))
}

fn samples_of(twins: &Twins, file: &std::path::Path) -> Vec<Sample> {
    let text = std::fs::read_to_string(file).unwrap();
    let text = text
        // Karmada's webhook marks what is in a Work.
        .replace(
            "{workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}]}}",
            "{workload: {}}",
        )
        .replace("NAMESPACE", "NS")
        .replace("REQUEST", &request())
        .replace("samples", "NS-s")
        .replace("sample", "NS")
        .replace("10.0.0.77", "NS.ADDRESS")
        .replace("drivers: []", "drivers: [{name: example.com, nodeID: node, topologyKeys: [a]}]");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("the samples are YAML");
    let mut samples = Vec::new();
    for mut object in objects {
        let text = |field: &str| object[field].as_str().unwrap().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let found = twins.resources.iter().find(|(name, r)| {
            r.api_version == version
                && r.kind == kind
                && name.contains('.')
                && r.verbs.iter().any(|v| v == "create")
        });
        let Some((plural, resource)) = found else { continue };
        if kind == "Namespace" {
            // The sequence's own is there already.
            object["metadata"]["name"] = json!("NS-own");
        }
        if let Some(selectors) = object.pointer_mut("/spec/resourceSelectors").and_then(Value::as_array_mut)
            && resource.namespaced
        {
            // What Karmada's webhook would lay in.
            selectors.iter_mut().for_each(|selector| selector["namespace"] = json!("NS"));
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["labels"] = json!({"twin": "NS"});
        match kind.as_str() {
            "PropagationPolicy" => {
                object["metadata"]["finalizers"] = json!(["karmada.io/propagation-policy-controller"]);
            }
            "ClusterPropagationPolicy" => {
                object["metadata"]["finalizers"] =
                    json!(["karmada.io/cluster-propagation-policy-controller"]);
            }
            // The defaults that Karmada's webhook would lay in.
            "FederatedHPA" => {
                let target = json!({"type": "Utilization", "averageUtilization": 80});
                object["spec"]["minReplicas"] = json!(1);
                object["spec"]["metrics"] =
                    json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
            }
            // Two that answer one question exclude each other, as Karmada's webhook has it: these answer none.
            "ResourceInterpreterCustomization" => object["spec"]["customizations"] = json!({}),
            _ => {}
        }
        samples.push(Sample { resource: resource.clone(), name, plural: plural.clone(), object });
    }
    samples
}

/// A PKCS#10 request as a CertificateSigningRequest carries it.
pub fn request() -> String {
    static REQUEST: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        // `NS` stands for a sequence's namespace, wherever it stands.
        std::iter::repeat_with(drawn_request).find(|text| !text.contains("NS")).unwrap()
    });
    REQUEST.clone()
}

fn drawn_request() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::new(Vec::new()).unwrap().serialize_request(&key).unwrap();
    base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap())
}

struct Writer<'s> {
    sample: &'s Sample,
    out: RefCell<Vec<Sequence>>,
}

fn step(method: &str, path: String, body: Value) -> Step {
    let (method, media) = match method {
        "MERGE" => ("PATCH", Some("application/merge-patch+json")),
        "JSON" => ("PATCH", Some("application/json-patch+json")),
        "STRATEGIC" => ("PATCH", Some("application/strategic-merge-patch+json")),
        "APPLY" => ("PATCH", Some("application/apply-patch+yaml")),
        other => (other, None),
    };
    Step { method: method.to_owned(), path, body, media: media.map(str::to_owned), ..Step::default() }
}

impl Writer<'_> {
    fn add(&self, verb: &str, mut steps: Vec<Step>) {
        let resource = &self.sample.resource;
        if resource.kind == "CertificateSigningRequest" {
            // The server notes who asks, and administrators are called differently.
            let unnamed = steps.iter_mut().filter(|step| step.who.is_empty());
            unnamed.for_each(|step| step.who = "requester,system:masters".to_owned());
        }
        let name = format!("kinds/{} {} {verb}", resource.api_version, resource.kind);
        self.out.borrow_mut().push(Sequence::new(name, steps));
    }

    fn all(&self, query: &str) -> String {
        format!("{}{query}", self.sample.plural)
    }

    fn one(&self, rest: &str) -> String {
        format!("{}/{}{rest}", self.sample.plural, self.sample.name)
    }

    fn create(&self) -> Step {
        step("POST", self.all(""), self.sample.object.clone())
    }

    fn get(&self) -> Step {
        step("GET", self.one(""), Value::Null)
    }

    fn object_with(&self, path: &str, value: Value) -> Value {
        let mut object = self.sample.object.clone();
        let fields = [(path.to_owned(), value)].into_iter().collect();
        crate::sequence::set_all(&mut object, &fields);
        object
    }
}

fn asking(mut step: Step, accept: &str) -> Step {
    step.headers.push(("accept".to_owned(), accept.to_owned()));
    step
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Kinds that kube-apiserver's own loops change right after each write.
const RESTLESS: [&str; 3] = ["APIService", "CustomResourceDefinition", "FlowSchema"];

fn of(sample: &Sample) -> Vec<Sequence> {
    let to = Writer { sample, out: RefCell::default() };
    if !sample.resource.verbs.iter().any(|verb| verb == "list") {
        return Vec::new();
    }
    refusals(&to);
    if RESTLESS.contains(&sample.resource.kind.as_str()) {
        return to.out.into_inner();
    }
    reads(&to);
    writes(&to);
    patches(&to);
    deletes(&to);
    for part in sample.resource.subresources.clone() {
        match part.as_str() {
            "status" => status(&to),
            "scale" => scale(&to),
            _ => {}
        }
    }
    to.out.into_inner()
}

fn reads(to: &Writer<'_>) {
    to.add("get", vec![to.create(), to.get()]);
    let own = "?labelSelector=twin=NS";
    to.add("list", vec![to.create(), step("GET", to.all(own), Value::Null)]);
    to.add(
        "list as a table",
        vec![to.create(), asking(step("GET", to.all(own), Value::Null), TABLE), asking(to.get(), TABLE)],
    );
    to.add(
        "list metadata",
        vec![
            to.create(),
            asking(step("GET", to.all(own), Value::Null), METADATA_LIST),
            asking(to.get(), METADATA),
        ],
    );
    let mut watch =
        step("WATCH", to.all("?labelSelector=twin=NS&resourceVersion=$1.metadata.resourceVersion"), json!(2));
    let label = json!({"metadata": {"labels": {"more": "x"}}});
    let change = step("MERGE", to.one(""), label);
    let delete = step("DELETE", to.one(""), Value::Null);
    to.add("watch", vec![to.create(), watch.clone(), change.clone(), delete.clone()]);
    watch.headers.push(("accept".to_owned(), TABLE.to_owned()));
    to.add("watch tables", vec![to.create(), watch, change, delete]);
    let missing = format!("{}/nobody", to.sample.plural);
    let method =
        |name: &str| step(name, missing.clone(), if name == "MERGE" { json!({}) } else { Value::Null });
    to.add(
        "of nothing",
        vec![
            method("GET"),
            method("DELETE"),
            method("MERGE"),
            step("PUT", missing.clone(), to.object_with("metadata/name", json!("nobody"))),
        ],
    );
}

fn writes(to: &Writer<'_>) {
    to.add("create twice", vec![to.create(), to.create()]);
    to.add("create dry", vec![step("POST", to.all("?dryRun=All"), to.sample.object.clone()), to.get()]);
    let generated = to.object_with("metadata/name", Value::Null);
    let mut generated = generated;
    generated["metadata"]["generateName"] = json!("NS-");
    // An address is not drawn, only refused.
    if to.sample.resource.kind != "IPAddress" {
        to.add("create with generateName", vec![step("POST", to.all(""), generated)]);
    }
    let update = json!({"$": "$1", "metadata/labels/more": "x"});
    to.add("update", vec![to.create(), step("PUT", to.one(""), update.clone()), to.get()]);
    to.add("update without a change", vec![to.create(), step("PUT", to.one(""), json!({"$": "$1"}))]);
    to.add(
        "update of an older version",
        vec![
            to.create(),
            step("PUT", to.one(""), update),
            step("PUT", to.one(""), json!({"$": "$1", "metadata/labels/more": "y"})),
        ],
    );
    to.add(
        "update without a version",
        vec![to.create(), step("PUT", to.one(""), to.object_with("metadata/labels/more", json!("x")))],
    );
    let strict = |mode: &str| {
        step("POST", to.all(&format!("?fieldValidation={mode}")), to.object_with("unknown", json!({"a": 1})))
    };
    to.add("unknown field strictly", vec![strict("Strict")]);
    to.add("unknown field with a warning", vec![strict("Warn")]);
    let mut manager = to.create();
    manager.path = to.all("?fieldManager=someone");
    to.add(
        "field manager",
        vec![
            manager,
            step("PUT", to.one("?fieldManager=other"), json!({"$": "$1", "metadata/annotations/a": "b"})),
        ],
    );
}

fn patches(to: &Writer<'_>) {
    let label = json!({"metadata": {"labels": {"more": "x"}, "annotations": {"a": "b"}}});
    to.add("patch merge", vec![to.create(), step("MERGE", to.one(""), label.clone()), to.get()]);
    to.add("patch strategic", vec![to.create(), step("STRATEGIC", to.one(""), label)]);
    let add = json!([{"op": "test", "path": "/metadata/labels/twin", "value": "NS"}, {"op": "add", "path": "/metadata/labels/more", "value": "x"}]);
    to.add("patch json", vec![to.create(), step("JSON", to.one(""), add)]);
    let object = |label: &str, value: &str| {
        json!({"apiVersion": to.sample.object["apiVersion"], "kind": to.sample.object["kind"],
            "metadata": {"name": to.sample.name, "labels": {label: value}}})
    };
    let apply = |query: &str, body: Value| step("APPLY", to.one(query), body);
    to.add(
        "apply a label",
        vec![
            to.create(),
            apply("?fieldManager=a", object("more", "x")),
            apply("?fieldManager=b", object("more", "y")),
            apply("?fieldManager=b&force=true", object("more", "y")),
            apply("?fieldManager=b&force=true", object("other", "y")),
        ],
    );
    to.add(
        "apply to create",
        vec![
            apply("?fieldManager=a", to.sample.object.clone()),
            apply("?fieldManager=a", to.sample.object.clone()),
        ],
    );
}

fn deletes(to: &Writer<'_>) {
    to.add("delete", vec![to.create(), step("DELETE", to.one(""), Value::Null), to.get()]);
    to.add("delete dry", vec![to.create(), step("DELETE", to.one("?dryRun=All"), Value::Null), to.get()]);
    to.add(
        "delete in the foreground",
        vec![to.create(), step("DELETE", to.one(""), json!({"propagationPolicy": "Foreground"})), to.get()],
    );
    let mut held = to.sample.object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    held.insert(0, json!("example.com/hold"));
    let held = json!(held);
    to.add(
        "delete what is held",
        vec![
            step("POST", to.all(""), to.object_with("metadata/finalizers", held)),
            step("DELETE", to.one(""), Value::Null),
            to.get(),
            step("MERGE", to.one(""), json!({"metadata": {"finalizers": null}})),
            to.get(),
        ],
    );
    to.add(
        "delete another",
        vec![
            to.create(),
            step(
                "DELETE",
                to.one(""),
                json!({"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}),
            ),
            step("DELETE", to.one(""), json!({"preconditions": {"resourceVersion": "1"}})),
        ],
    );
    let collection = to.all("?labelSelector=twin=NS");
    to.add(
        "deletecollection",
        vec![
            to.create(),
            step("DELETE", collection.clone(), Value::Null),
            step("GET", collection, Value::Null),
        ],
    );
}

fn refusals(to: &Writer<'_>) {
    let post = |object: Value| step("POST", to.all(""), object);
    to.add(
        "another kind",
        vec![
            post(to.object_with("kind", json!("Widget"))),
            post(to.object_with("apiVersion", json!("example.com/v1"))),
        ],
    );
    to.add("a bad name", vec![post(to.object_with("metadata/name", json!("Not A Name")))]);
    to.add("no name", vec![post(to.object_with("metadata/name", Value::Null))]);
    to.add("bad labels", vec![post(to.object_with("metadata/labels", json!({"a b": "c d"})))]);
    let mut patch = step("PATCH", to.one(""), json!({"metadata": {"labels": {"a b": "c"}}}));
    patch.media = Some("application/merge-patch+json".to_owned());
    to.add("bad labels by a patch", vec![to.create(), patch]);
    to.add("another namespace", vec![post(to.object_with("metadata/namespace", json!("elsewhere")))]);
    to.add(
        "another name on the path",
        vec![to.create(), step("PUT", to.one(""), to.object_with("metadata/name", json!("another")))],
    );
    to.add("nothing at all", vec![step("POST", to.all(""), json!({}))]);
    to.add(
        "a spec of another type",
        vec![post(to.object_with("spec", json!("text"))), post(to.object_with("metadata", json!([])))],
    );
    let asked = |method: &str, path: String| {
        let mut step = step(method, path, Value::Null);
        step.who = "nobody".to_owned();
        step
    };
    to.add(
        "without permission",
        vec![
            asked("GET", to.all("")),
            asked("GET", to.one("")),
            asked("DELETE", to.one("")),
            asked("POST", to.all("")),
        ],
    );
    to.add(
        "a method that is not allowed",
        vec![
            step("POST", to.one(""), to.sample.object.clone()),
            step("PUT", to.all(""), to.sample.object.clone()),
        ],
    );
}

fn status(to: &Writer<'_>) {
    let given = to.sample.object["status"].clone();
    let part = |query: &str| to.one(&format!("/status{query}"));
    to.add(
        "status update",
        vec![
            to.create(),
            step("PUT", part(""), json!({"$": "$1", "status": given, "metadata/labels/more": "x"})),
            step("GET", part(""), Value::Null),
        ],
    );
    to.add(
        "status patch",
        vec![
            to.create(),
            step("MERGE", part(""), json!({"status": given, "metadata": {"labels": {"more": "x"}}})),
            to.get(),
        ],
    );
    let applied = json!({"apiVersion": to.sample.object["apiVersion"], "kind": to.sample.object["kind"],
        "metadata": {"name": to.sample.name}, "status": given});
    to.add("status apply", vec![to.create(), step("APPLY", part("?fieldManager=a"), applied)]);
    to.add(
        "status of nothing",
        vec![step("GET", format!("{}/nobody/status", to.sample.plural), Value::Null)],
    );
}

fn scale(to: &Writer<'_>) {
    let part = to.one("/scale");
    to.add(
        "scale",
        vec![
            to.create(),
            step("GET", part.clone(), Value::Null),
            step("PUT", part.clone(), json!({"$": "$2", "spec/replicas": 3})),
            step("MERGE", part.clone(), json!({"spec": {"replicas": 2}})),
            step("MERGE", part.clone(), json!({"spec": {"replicas": -1}})),
            step("PUT", part.clone(), json!({"$": "$2", "spec/replicas": 4})),
            to.get(),
            asking(step("GET", part, Value::Null), TABLE),
        ],
    );
}
