//! Kubernetes' texts on its own kinds and their fields, as the k8s-openapi crate carries them (Apache-2.0).
//!
//! In: the schemas that the crate generates of the kinds listed here. Out: one text, a line for each component. A kind that is not listed
//! here is served without texts.

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use k8s_openapi::schemars::SchemaGenerator;
use serde_json::{Map, Value};

/// One component a line: its name, tab, a JSON object with the text of each field, and under the empty name its own.
pub fn published() -> String {
    let mut generator = SchemaGenerator::default();
    served(&mut generator);
    let mut lines = String::new();
    for (name, schema) in generator.take_definitions(false) {
        let text = |schema: &Value| schema.get("description").filter(|text| text.is_string()).cloned();
        let mut texts = Map::new();
        texts.extend(text(&schema).map(|text| (String::new(), text)));
        for (field, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            texts.extend(text(property).map(|text| (field.clone(), text)));
        }
        lines.push_str(&format!("{name}\t{}\n", Value::Object(texts)));
    }
    lines
}

/// Has every served kind, and all that it is made of, written into `generator`.
fn served(generator: &mut SchemaGenerator) {
    macro_rules! kinds {
        ($group:path { $($kind:ident)* }) => {{
            use $group as group;
            $( generator.subschema_for::<group::$kind>(); )*
        }};
    }
    kinds!(api::core::v1 {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
        ServiceAccount
    });
    kinds!(api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview });
    kinds!(api::autoscaling::v1 { HorizontalPodAutoscaler Scale });
    kinds!(api::policy::v1 { Eviction PodDisruptionBudget });
    kinds!(api::admissionregistration::v1 {
        MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingWebhookConfiguration
    });
    kinds!(apiextensions::v1 { CustomResourceDefinition });
    kinds!(apiregistration::v1 { APIService });
    kinds!(api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet });
    kinds!(api::authorization::v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    });
    kinds!(api::autoscaling::v2 { HorizontalPodAutoscaler });
    kinds!(api::batch::v1 { CronJob Job });
    kinds!(api::certificates::v1 { CertificateSigningRequest });
    kinds!(api::coordination::v1 { Lease });
    kinds!(api::discovery::v1 { EndpointSlice });
    kinds!(api::events::v1 { Event });
    kinds!(api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration });
    kinds!(api::networking::v1 { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR });
    kinds!(api::node::v1 { RuntimeClass });
    kinds!(api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding });
    kinds!(api::resource::v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice });
    kinds!(api::scheduling::v1 { PriorityClass });
    kinds!(api::storage::v1 {
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
    });
    // Of subresources, and what Karmada's kinds use.
    kinds!(meta::v1 { Condition DeleteOptions LabelSelector ObjectMeta Status });
}
