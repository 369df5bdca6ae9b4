//! Cases of the OpenAPI documents.

use std::time::Instant;

use serde_json::Value;

use super::*;

fn parse(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Every `$ref` below `value`.
fn references(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, item) in fields {
                match item.as_str() {
                    Some(text) if name == "$ref" => {
                        out.insert(text.rsplit('/').next().unwrap().to_owned());
                    }
                    _ => references(item, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        _ => {}
    }
}

fn closed(document: &Value, components: &Value) {
    let mut refs = BTreeSet::new();
    references(document, &mut refs);
    for name in refs {
        assert!(components.get(&name).is_some(), "{name} is referred to and not there");
    }
}

#[test]
fn the_index_names_every_group_version() {
    let served = shipped();
    let index = parse(&v3_index(&served));
    let address = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert!(address.starts_with("/openapi/v3/apis/apps/v1?hash="), "{address}");
    assert!(index["paths"].get("api/v1").is_some());
    assert_eq!(parse(&v3_index(&served)), index);
    for location in index["paths"].as_object().unwrap().keys() {
        let document = parse(&v3_document(&served, location).unwrap());
        closed(&document, &document["components"]["schemas"]);
    }
    assert!(v3_document(&served, "apis/none/v1").is_none());
}

#[test]
fn a_document_tells_what_kubectl_looks_for() {
    let document = parse(&v3_document(&shipped(), "apis/apps/v1").unwrap());
    let item = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].clone();
    assert_eq!(item["get"]["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert_eq!(item["patch"]["x-kubernetes-action"], "patch");
    let names: Vec<&str> =
        item["patch"]["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"));
    assert!(item["patch"]["requestBody"]["content"].get(paths_strategic()).is_some());
    assert!(item["get"].get("parameters").is_none(), "what has none of its own does not name them");
    let mut document = document;
    without_texts(&mut document);
    let schemas = &document["components"]["schemas"];
    let spec = &schemas["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["required"], json!(["selector", "template"]));
    assert_eq!(spec["properties"]["strategy"]["x-kubernetes-patch-strategy"], "retainKeys");
    assert_eq!(
        spec["properties"]["template"],
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}], "default": {}})
    );
    let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    assert_eq!(
        schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    assert!(item["get"]["responses"]["200"]["content"]["application/json"]["schema"].is_object());
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"];
    assert_eq!(scale["get"]["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

fn paths_strategic() -> &'static str {
    "application/strategic-merge-patch+json"
}

/// A reference alone may be wrapped in `allOf` or not: with or without a text beside it.
fn unwrap_references(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let (1, Some([only])) =
                (fields.len(), fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice))
            {
                *value = only.clone();
                return;
            }
            fields.values_mut().for_each(unwrap_references);
        }
        Value::Array(items) => items.iter_mut().for_each(unwrap_references),
        _ => {}
    }
}

/// The facts hold no texts. (A property may be called `description`: that is no text.)
fn without_texts(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.values_mut().for_each(without_texts);
        }
        Value::Array(items) => items.iter_mut().for_each(without_texts),
        _ => {}
    }
}

/// The facts do not tell which values a field may have.
fn without_values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("enum").is_some_and(Value::is_array) {
                fields.remove("enum");
            }
            fields.values_mut().for_each(without_values);
        }
        Value::Array(items) => items.iter_mut().for_each(without_values),
        _ => {}
    }
}

#[test]
fn the_facts_come_out_as_they_went_in() {
    // What was recorded of a kube-apiserver of this version.
    let recorded = include_str!("../../../schema/data/schemas.tsv");
    let facts: BTreeMap<&str, Value> = recorded
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(name, _)| name.starts_with("io.k8s."))
        .map(|(name, schema)| (name, as_published(serde_json::from_str(schema).unwrap())))
        .collect();
    let served = shipped();
    let mut compared = 0;
    for location in parse(&v3_index(&served))["paths"].as_object().unwrap().keys() {
        let document = parse(&v3_document(&served, location).unwrap());
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let Some(fact) = facts.get(name.as_str()) else { continue };
            let mut fact = fact.clone();
            fact.as_object_mut().unwrap().remove("x-kubernetes-unions");
            let mut got = schema.clone();
            without_texts(&mut got);
            for side in [&mut fact, &mut got] {
                unwrap_references(side);
                without_values(side);
                if let Some(required) = side.get_mut("required").and_then(Value::as_array_mut) {
                    required.sort_by_key(ToString::to_string);
                }
            }
            assert_eq!(got, fact, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

/// A recorded schema without what Go's types add to it, its references as a document has them.
fn as_published(schema: Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(key, _)| key != "x-go");
            let published = kept.map(|(key, value)| match value {
                Value::String(name) if key == "$ref" => (key, format!("#/components/schemas/{name}").into()),
                value => (key, as_published(value)),
            });
            Value::Object(published.collect())
        }
        Value::Array(items) => items.into_iter().map(as_published).collect(),
        plain => plain,
    }
}

#[test]
fn structural_kinds_are_published_with_their_lists() {
    let document = parse(&v3_document(&shipped(), "apis/policy.karmada.io/v1alpha1").unwrap());
    let schemas = &document["components"]["schemas"];
    let policy = &schemas["io.karmada.policy.v1alpha1.PropagationPolicy"];
    assert_eq!(policy["x-kubernetes-group-version-kind"][0]["kind"], "PropagationPolicy");
    assert_eq!(policy["properties"]["spec"]["properties"]["conflictResolution"]["default"], "Abort");
    assert_eq!(
        schemas["io.karmada.policy.v1alpha1.PropagationPolicyList"]["properties"]["items"]["items"]["$ref"],
        "#/components/schemas/io.karmada.policy.v1alpha1.PropagationPolicy"
    );
    let patch = &document["paths"]["/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies/{name}"]
        ["patch"];
    assert!(patch["requestBody"]["content"].get(paths_strategic()).is_none());
}

#[test]
fn v2_is_one_closed_document_in_both_forms() {
    let served = shipped();
    let start = Instant::now();
    let document = parse(&v2_json(&served, &More::default()));
    println!("v2 JSON in {:?}", start.elapsed());
    closed(&document, &document["definitions"]);
    assert_eq!(
        document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"],
        json!({"type": "string"})
    );
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    let proto = v2_protobuf(&served, &More::default());
    assert_eq!(&proto[..5], [0x0a, 3, b'2', b'.', b'0']);
    if let Ok(folder) = std::env::var("OPENAPI_OUT") {
        std::fs::write(format!("{folder}/v2.pb"), &proto).unwrap();
        std::fs::write(format!("{folder}/v2.json"), v2_json(&served, &More::default())).unwrap();
    }
    // Top-level fields come whole: tag by tag to the end.
    let (mut rest, mut fields) = (&proto[..], Vec::new());
    while !rest.is_empty() {
        let key = prost::encoding::decode_varint(&mut rest).unwrap();
        let length = prost::encoding::decode_varint(&mut rest).unwrap() as usize;
        fields.push(key >> 3);
        rest = &rest[length..];
    }
    assert_eq!(fields, [1, 2, 8, 9]);
}

/// Every field below, as a path: `spec.replicas`.
fn described(schema: &Value, path: &str, out: &mut Vec<(String, Option<String>)>) {
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            described(&schema[inner], path, out);
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        out.push((path.clone(), property["description"].as_str().map(str::to_owned)));
        described(property, &path, out);
    }
}

#[test]
fn every_field_of_the_kinds_that_people_write_is_told_in_words() {
    let served = shipped();
    for (location, component) in [
        ("apis/apps/v1", "io.k8s.api.apps.v1.DeploymentSpec"),
        ("apis/apps/v1", "io.k8s.api.core.v1.Container"),
        ("apis/apps/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("api/v1", "io.k8s.api.core.v1.ServiceSpec"),
        (
            "apis/apiextensions.k8s.io/v1",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec",
        ),
        ("apis/policy.karmada.io/v1alpha1", "io.karmada.policy.v1alpha1.PropagationPolicy"),
        ("apis/policy.karmada.io/v1alpha1", "io.karmada.policy.v1alpha1.ClusterPropagationPolicy"),
        ("apis/policy.karmada.io/v1alpha1", "io.karmada.policy.v1alpha1.OverridePolicy"),
        ("apis/policy.karmada.io/v1alpha1", "io.karmada.policy.v1alpha1.ClusterOverridePolicy"),
        ("apis/policy.karmada.io/v1alpha1", "io.karmada.policy.v1alpha1.ClusterTaintPolicy"),
        ("apis/policy.karmada.io/v1alpha1", "io.karmada.policy.v1alpha1.FederatedResourceQuota"),
        ("apis/policy.karmada.io/v1alpha1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
        ("apis/work.karmada.io/v1alpha2", "io.karmada.work.v1alpha2.ResourceBinding"),
        ("apis/work.karmada.io/v1alpha2", "io.karmada.work.v1alpha2.ClusterResourceBinding"),
        ("apis/work.karmada.io/v1alpha1", "io.karmada.work.v1alpha1.Work"),
        ("apis/apps.karmada.io/v1alpha1", "io.karmada.apps.v1alpha1.WorkloadRebalancer"),
        ("apis/autoscaling.karmada.io/v1alpha1", "io.karmada.autoscaling.v1alpha1.CronFederatedHPA"),
        ("apis/edge.karmada.io/v1alpha1", "io.karmada.edge.v1alpha1.ClusterLink"),
        ("apis/edge.karmada.io/v1alpha1", "io.karmada.edge.v1alpha1.LinkPolicy"),
        ("apis/edge.karmada.io/v1alpha1", "io.karmada.edge.v1alpha1.ResidencyRule"),
        ("apis/remedy.karmada.io/v1alpha1", "io.karmada.remedy.v1alpha1.Remedy"),
    ] {
        let document = parse(&v3_document(&served, location).unwrap());
        let schema = &document["components"]["schemas"][component];
        let mut fields = Vec::new();
        described(schema, "", &mut fields);
        let bare: Vec<&String> =
            fields.iter().filter(|(_, text)| text.is_none()).map(|(path, _)| path).collect();
        assert!(fields.len() > 5 && bare.is_empty(), "{component}: no text for {bare:?}");
        assert!(schema["description"].is_string(), "{component}");
    }
    let document = parse(&v3_document(&served, "apis/cluster.karmada.io/v1alpha1").unwrap());
    let all = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in all.iter().filter(|(name, _)| name.contains("karmada") && !name.ends_with("List")) {
        let mut fields = Vec::new();
        described(schema, "", &mut fields);
        let bare: Vec<&String> =
            fields.iter().filter(|(_, text)| text.is_none()).map(|(path, _)| path).collect();
        assert!(bare.is_empty(), "{name}: no text for {bare:?}");
    }
}

#[test]
fn every_published_component_has_its_texts_and_every_own_text_its_field() {
    let served = shipped();
    let mut ends = BTreeSet::new();
    for location in parse(&v3_index(&served))["paths"].as_object().unwrap().keys() {
        let document = parse(&v3_document(&served, location).unwrap());
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let kubernetes = name.starts_with("io.k8s.") && !name.ends_with("List");
            if kubernetes && !name.contains(".meta.v1.") && !location.contains("karmada") {
                assert!(schema["description"].is_string(), "{location}: {name} has no text");
            }
            let mut fields = Vec::new();
            let kind = name.rsplit('.').next().unwrap();
            described(schema, kind, &mut fields);
            ends.insert(kind.to_owned());
            for (path, _) in fields {
                let parts: Vec<&str> = path.split('.').collect();
                ends.extend((0..parts.len()).map(|from| parts[from..].join(".")));
            }
        }
    }
    let lines = include_str!("../../data/texts.tsv").lines().filter(|line| !line.starts_with('#'));
    let unused: Vec<&str> = lines
        .filter_map(|line| line.split_once('\t'))
        .filter(|(name, _)| name.starts_with("io.k8s."))
        .map(|(path, _)| path)
        .filter(|path| !ends.contains(*path))
        .collect();
    assert!(unused.is_empty(), "texts of no field: {unused:?}");
}
