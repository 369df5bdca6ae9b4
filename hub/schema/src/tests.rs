//! Cases of the schema model.

use std::time::Instant;

use serde_json::{Value, json};

use super::*;

#[test]
fn every_shipped_kind_compiles_small_and_fast() {
    let start = Instant::now();
    let schemas = Schemas::builtin();
    let took = start.elapsed();
    assert!(schemas.weight() < 1_500_000, "{} bytes", schemas.weight());
    // 30 ms is the release budget; an unoptimised build may take ten times that.
    assert!(took.as_millis() < if cfg!(debug_assertions) { 900 } else { 60 }, "{took:?}");
    println!("{} bytes, {took:?}", schemas.weight());
}

#[test]
fn navigation_finds_keys_and_types() {
    let pod = Schemas::builtin().of("", "v1", "Pod").unwrap();
    let containers = pod.property("spec").unwrap().property("containers").unwrap();
    assert_eq!(containers.list_type(), ListType::Map);
    assert_eq!(containers.list_keys(), ["name".into()]);
    assert_eq!(containers.merge_key(), Some("name"));
    let ports = containers.items().unwrap().property("ports").unwrap();
    assert_eq!(ports.merge_key(), Some("containerPort"));
    assert_eq!(ports.list_keys(), ["containerPort".into(), "protocol".into()]);
    assert_eq!(ports.items().unwrap().property("protocol").unwrap().default(), Some(&json!("TCP")));
    let deployment = Schemas::builtin().of("apps", "v1", "Deployment").unwrap();
    let strategy = deployment.property("spec").unwrap().property("strategy").unwrap();
    assert!(strategy.retains_keys());
    assert_eq!(deployment.property("spec").unwrap().property("replicas").unwrap().go_type(), Some("int32"));
}

fn decode(group: &str, version: &str, kind: &str, value: &mut Value) -> Result<Vec<String>, String> {
    let schema = Schemas::builtin().of(group, version, kind).unwrap();
    decode_go(schema, value).map_err(|e| e.wrap(version, kind))
}

#[test]
fn a_go_type_mismatch_reads_as_gos() {
    let mut body = json!({"spec": {"replicas": "three"}});
    assert_eq!(
        decode("apps", "v1", "Deployment", &mut body).unwrap_err(),
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go \
         struct field DeploymentSpec.spec.replicas of type int32"
    );
    let mut body = json!({"spec": {"containers": [{"ports": [{"protocol": 3}]}]}});
    assert_eq!(
        decode("", "v1", "Pod", &mut body).unwrap_err(),
        "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field \
         ContainerPort.spec.containers.ports.protocol of type v1.Protocol"
    );
    // Structs that Go embeds are named on the way, though JSON does not show them.
    let mut body = json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": {}}}}]}});
    assert_eq!(
        decode("", "v1", "Pod", &mut body).unwrap_err(),
        "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field \
         HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32"
    );
    let mut body = json!({"spec": {"replicas": 3_000_000_000u64}});
    assert!(decode("apps", "v1", "Deployment", &mut body).unwrap_err().contains("number 3000000000 into"));
    let mut body = json!({"data": {"a": 1}});
    assert!(
        decode("", "v1", "ConfigMap", &mut body)
            .unwrap_err()
            .ends_with("cannot unmarshal number into Go struct field ConfigMap.data of type string")
    );
}

#[test]
fn decoding_leaves_what_a_go_encoder_writes() {
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
        "spec": {
            "minReadySeconds": 0, "paused": false, "foo": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {"containers": [
                {"name": "c", "bar": {}, "resources": {"limits": {"cpu": "1000m", "memory": 1048576}}}
            ]}}
        }
    });
    let unknown = decode("apps", "v1", "Deployment", &mut body).unwrap();
    assert_eq!(
        unknown,
        ["unknown field \"spec.foo\"", "unknown field \"spec.template.spec.containers[0].bar\""]
    );
    assert_eq!(
        body,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}}, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": [
                    {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1048576"}}}
                ]}}
            },
            "status": {}
        })
    );
    let once = body.clone();
    assert!(decode("apps", "v1", "Deployment", &mut body).unwrap().is_empty());
    assert_eq!(body, once);
}

#[test]
fn a_crds_schema_becomes_the_same_model() {
    let schema = Schema::from_openapi(&json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object", "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "name": {"type": "string", "pattern": "^a+$", "maxLength": 3},
                "any": {"x-kubernetes-int-or-string": true},
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                         "items": {"type": "object", "properties": {"k": {"type": "string"}}}}
            }
        }}
    }))
    .unwrap();
    let mut value = json!({"metadata": {"name": "x"}, "spec": {}});
    apply_defaults(schema.root(), &mut value);
    assert_eq!(value["spec"]["size"], 3);
    assert!(schema.root().property("metadata").unwrap().property("ownerReferences").is_some());
    let bad = json!({"spec": {"size": 0, "name": "aaaa", "any": true, "list": [{"k": "a"}, {"k": "a"}]}});
    let errors: Vec<String> =
        validate(schema.root(), &bad, &Default::default()).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.any: Invalid value: \"boolean\": spec.any in body must be of type integer,string: \"boolean\"",
            "spec.name: Too long: may not be more than 3 bytes",
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
            "spec.list[1]: Duplicate value: {\"k\":\"a\"}",
        ]
    );
}

#[test]
fn duplicates_are_found_in_the_bytes() {
    let body = br#"{"metadata":{"labels":{"a":"1","a":"2"}},"spec":{"c":[{"x":1},{"x":1,"x":2}]},"spec":1}"#;
    assert_eq!(
        duplicate_fields(body),
        [
            "duplicate field \"metadata.labels.a\"",
            "duplicate field \"spec.c[1].x\"",
            "duplicate field \"spec\""
        ]
    );
}

#[test]
fn what_is_no_time_is_told_part_by_part() {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    for (text, why) in [
        ("2026-01-02", "cannot parse \"\" as \"T\""),
        ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
        ("2026-1-02T00:00:00Z", "cannot parse \"1-02T00:00:00Z\" as \"01\""),
        ("2026-01-02T00:00:00", "cannot parse \"\" as \"Z07:00\""),
    ] {
        let whole = format!("parsing time {text:?} as {LAYOUT:?}: {why}");
        assert_eq!(time::problem(text, LAYOUT), Some(whole));
    }
    let told = time::problem("2026-13-02T00:00:00Z", LAYOUT);
    assert_eq!(told.as_deref(), Some("parsing time \"2026-13-02T00:00:00Z\": month out of range"));
    assert_eq!(time::problem("2026-01-02T03:04:05.5+01:00", LAYOUT), None);
}

#[test]
fn errors_render_as_text_and_cause() {
    let error =
        FieldError::not_supported(&path::Path::field("spec").child("x"), "X", &["Aggregated", "Weighted"]);
    assert_eq!(
        error.to_string(),
        "spec.x: Unsupported value: \"X\": supported values: \"Aggregated\", \"Weighted\""
    );
    assert_eq!(error.cause()["reason"], "FieldValueNotSupported");
}

#[test]
fn a_type_that_reads_itself_is_told_of_before_a_mismatch() {
    let mut body = json!({"series": {"count": "two", "lastObservedTime": "2026-01-02T03:04:05Z"}});
    let told = decode("events.k8s.io", "v1", "Event", &mut body).unwrap_err();
    assert!(told.contains("cannot parse \"Z\" as \".000000\""), "{told}");
    let mut body = json!({"action": 1, "reason": 2});
    let told = decode("events.k8s.io", "v1", "Event", &mut body).unwrap_err();
    assert!(
        told.ends_with("json: cannot unmarshal number into Go struct field Event.action of type string"),
        "{told}"
    );
}

#[test]
fn bytes_are_read_from_numbers_too() {
    let mut body = json!({"data": {"a": [7, null], "b": null}});
    decode("", "v1", "Secret", &mut body).unwrap();
    assert_eq!(body["data"], json!({"a": "BwA=", "b": ""}));
    let told = decode("", "v1", "Secret", &mut json!({"data": {"a": [300]}})).unwrap_err();
    assert!(
        told.ends_with("cannot unmarshal number 300 into Go struct field Secret.data of type uint8"),
        "{told}"
    );
    let told = decode("", "v1", "Secret", &mut json!({"data": {"a": ["x"]}})).unwrap_err();
    assert!(
        told.ends_with("cannot unmarshal string into Go struct field Secret.data of type uint8"),
        "{told}"
    );
}

#[test]
fn what_may_be_a_schema_or_something_else_reads_itself() {
    let read = |schema: Value| {
        let mut body = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
        let unknown = decode("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &mut body)?;
        assert_eq!(unknown, Vec::<String>::new(), "such types tell of no unknown fields");
        Ok::<Value, String>(body["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
    };
    let told = read(json!({"additionalProperties": "text"})).unwrap_err();
    assert!(told.ends_with(": boolean or JSON schema expected"), "{told}");
    assert_eq!(read(json!({"additionalProperties": false})), Ok(json!({"additionalProperties": false})));
    let nested = json!({"additionalProperties": {"type": "string", "odd": 1}});
    assert_eq!(read(nested), Ok(json!({"additionalProperties": {"type": "string"}})));
    assert_eq!(read(json!({"items": "text"})), Ok(json!({"items": []})));
    let told = read(json!({"dependencies": {"a": [7]}})).unwrap_err();
    assert!(told.contains("cannot unmarshal number into Go struct field JSONSchemaProps."), "{told}");
}

#[test]
fn empty_lists_of_schemas_stand_until_they_are_stored() {
    let kind = Schemas::builtin().of("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
    let schema = json!({"allOf": [], "items": [], "default": []});
    let mut body = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    decode_go(kind, &mut body).unwrap();
    assert_eq!(body["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema);
    forget_empties(kind, &mut body);
    assert_eq!(body["spec"]["versions"][0]["schema"]["openAPIV3Schema"], json!({"default": []}));
}

#[test]
fn defaults_that_multiply_end_where_no_object_could_hold_them() {
    let default = json!({"text": "d".repeat(10_000)});
    let mut schema =
        json!({"type": "object", "default": default, "properties": {"text": {"type": "string"}}});
    schema = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {"one": schema}}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "default": "d".repeat(10_000)}},
    }});
    let schema = Schema::from_openapi(&schema).unwrap();
    // Some hundred kilobytes that ask for a gigabyte each.
    for mut value in [
        json!({"list": vec![json!({}); 100_000]}),
        json!({"map": (0..100_000).map(|n| (n.to_string(), Value::Null)).collect::<serde_json::Map<_, _>>()}),
    ] {
        apply_defaults(schema.root(), &mut value);
        let length = value.to_string().len();
        assert!(
            (3 << 20..6 << 20).contains(&length),
            "{length}: too large for the store, and no larger than need be"
        );
    }
}
