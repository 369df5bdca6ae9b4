//! Roles, storage, admission, priorities, CRDs: what concerns the cluster as a whole.

use serde_json::{Value, json};

use super::{Fields, is_empty, object, set, set_text, text};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn rule(type_name: &str, fields: &mut Fields) {
    match type_name {
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding" => {
            set_text(object(fields, "roleRef"), "apiGroup", RBAC);
        }
        "rbac.v1.Subject" if matches!(text(fields, "kind"), "User" | "Group") => {
            set_text(fields, "apiGroup", RBAC);
        }
        "storage.v1.StorageClass" => {
            set(fields, "reclaimPolicy", json!("Delete"));
            set(fields, "volumeBindingMode", json!("Immediate"));
        }
        "storage.v1.CSIDriver" => csi_driver(object(fields, "spec")),
        "scheduling.v1.PriorityClass" => set(fields, "preemptionPolicy", json!("PreemptLowerPriority")),
        "admissionregistration.v1.ValidatingWebhook" => webhook(fields),
        "admissionregistration.v1.MutatingWebhook" => {
            webhook(fields);
            set(fields, "reinvocationPolicy", json!("Never"));
        }
        "admissionregistration.v1.RuleWithOperations"
        | "admissionregistration.v1.NamedRuleWithOperations" => {
            set(fields, "scope", json!("*"));
        }
        "admissionregistration.v1.ServiceReference"
        | "apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference"
        | "kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference" => set(fields, "port", json!(443)),
        "admissionregistration.v1.ValidatingAdmissionPolicySpec" => {
            set(fields, "failurePolicy", json!("Fail"));
        }
        "admissionregistration.v1.MatchResources" => match_resources(fields),
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" => definition(fields),
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => {
            set_text(fields, "allocationMode", "ExactCount");
            if text(fields, "allocationMode") == "ExactCount" {
                set(fields, "count", json!(1));
            }
        }
        "resource.v1.DeviceToleration" => set_text(fields, "operator", "Equal"),
        "flowcontrol.v1.FlowSchemaSpec" => set_number(fields, "matchingPrecedence", 1000),
        "flowcontrol.v1.ExemptPriorityLevelConfiguration" => {
            set(fields, "nominalConcurrencyShares", json!(0));
            set(fields, "lendablePercent", json!(0));
        }
        "flowcontrol.v1.LimitedPriorityLevelConfiguration" => {
            set(fields, "nominalConcurrencyShares", json!(30));
            set(fields, "lendablePercent", json!(0));
        }
        "flowcontrol.v1.QueuingConfiguration" => {
            set_number(fields, "handSize", 8);
            set_number(fields, "queues", 64);
            set_number(fields, "queueLengthLimit", 50);
        }
        _ => {}
    }
}

fn set_number(fields: &mut Fields, name: &str, default: i64) {
    if fields.get(name).is_none_or(|value| value.as_i64().unwrap_or(0) == 0) {
        fields.insert(name.to_owned(), default.into());
    }
}

fn csi_driver(spec: &mut Fields) {
    set(spec, "attachRequired", json!(true));
    for off in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        set(spec, off, json!(false));
    }
    set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
    if is_empty(spec, "volumeLifecycleModes") {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

fn webhook(fields: &mut Fields) {
    set(fields, "failurePolicy", json!("Fail"));
    match_resources(fields);
    set(fields, "timeoutSeconds", json!(10));
}

fn match_resources(fields: &mut Fields) {
    set(fields, "matchPolicy", json!("Equivalent"));
    set(fields, "namespaceSelector", json!({}));
    set(fields, "objectSelector", json!({}));
}

/// A CRD's names, conversion and stored versions.
fn definition(fields: &mut Fields) {
    let spec = object(fields, "spec");
    let names = object(spec, "names");
    let kind = text(names, "kind").to_owned();
    set_text(names, "singular", &kind.to_lowercase());
    if !kind.is_empty() {
        set_text(names, "listKind", &format!("{kind}List"));
    }
    set(spec, "conversion", json!({"strategy": "None"}));
    let stored = spec.get("versions").and_then(Value::as_array).and_then(|versions| {
        versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone())
    });
    let status = object(fields, "status");
    if let Some(stored) = stored
        && is_empty(status, "storedVersions")
    {
        status.insert("storedVersions".to_owned(), json!([stored]));
    }
}
