//! Cases of kinds as they are read, defaulted and checked.

use karmada_schema::Schemas;
use karmada_schema::protobuf::has_form;
use serde_json::json;

use karmada_definitions::description::Style;
use karmada_kinds::catalogue;
use karmada_kinds::kind::Kind;

#[test]
fn every_resource_that_is_served_has_a_schema() {
    for resource in catalogue::resources() {
        assert!(
            Schemas::builtin().of(&resource.group, &resource.version, &resource.kind).is_some(),
            "{} {} {} has no schema",
            resource.group,
            resource.version,
            resource.kind
        );
    }
}

#[test]
fn crd_kinds_are_pruned_defaulted_and_checked() {
    let kind = Kind::builtin("policy.karmada.io", "v1alpha1", "PropagationPolicy").unwrap();
    assert_eq!(kind.style, Style::Crd);
    let mut body = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "nope": 1},
        "spec": {"zap": 1, "priority": "x", "resourceSelectors": [{"apiVersion": "apps/v1"}],
                 "placement": {"replicaScheduling": {"replicaSchedulingType": "X"}}}
    });
    let unknown = kind.decode(&mut body).unwrap();
    assert_eq!(unknown, ["unknown field \"spec.zap\"", "unknown field \"metadata.nope\""]);
    kind.default(&mut body);
    assert_eq!(body["spec"]["conflictResolution"], "Abort");
    let errors: Vec<String> = kind.validate(&body, None).unwrap().iter().map(ToString::to_string).collect();
    assert!(errors.contains(&"spec.resourceSelectors[0].kind: Required value".to_owned()), "{errors:#?}");
    assert!(
        errors.contains(
            &"spec.priority: Invalid value: \"string\": spec.priority in body must be of type integer: \"string\""
                .to_owned()
        ),
        "{errors:#?}"
    );
    assert!(
        errors.iter().any(|e| e
            == "spec.placement.replicaScheduling.replicaSchedulingType: Unsupported value: \"X\": supported values: \
                \"Duplicated\", \"Divided\""),
        "{errors:#?}"
    );
}

/// Go's own codec judges what is read and written (`tests/tests/clients/protobuf.rs`), of the kinds that have the form.
#[test]
fn every_kind_of_kubernetes_that_is_served_has_the_form() {
    for served in catalogue::resources().iter().filter(|resource| resource.style == Style::Go) {
        assert!(has_form(&served.api_version(), &served.kind), "{served:?}");
    }
    assert!(has_form("v1", "Status") && has_form("meta.k8s.io/v1", "PartialObjectMetadata"));
    assert!(!has_form("apps.example.org/v1", "Deployment"), "a group that only begins like another");
}
