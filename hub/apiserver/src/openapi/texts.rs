//! What fields mean, in words: for `kubectl explain`. In: which group version. Out: texts for its components, made when
//! a document is asked for and dropped with it, so that a hub that nobody asks holds none.
//!
//! Kubernetes' own kinds: the descriptions that the k8s-openapi crate carries (Kubernetes' texts, Apache-2.0). Karmada's
//! kinds: `data/texts.tsv`, our own sentences, found by the end of a field's path.

use std::collections::BTreeMap;

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use k8s_openapi::schemars::SchemaGenerator;
use serde_json::{Map, Value};

const OWN: &str = include_str!("../../data/texts.tsv");

/// The texts of one document.
pub(super) struct Texts {
    published: Map<String, Value>,
    own: BTreeMap<&'static str, &'static str>,
}

impl Texts {
    /// Texts for what is served at `location` (`api/v1`, `apis/apps/v1`).
    pub(super) fn of(location: &str) -> Texts {
        let mut generator = SchemaGenerator::default();
        published(location, &mut generator);
        let own = OWN.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
        Texts { published: generator.take_definitions(false), own: own.collect() }
    }

    /// Puts what is known into a component's schema, beside each property.
    pub(super) fn describe(&self, component: &str, schema: &mut Map<String, Value>) {
        match self.published.get(component) {
            Some(known) => published_texts(known, schema),
            None if component.contains("karmada") || component.contains("multicluster") => {
                let kind = component.rsplit('.').next().unwrap_or_default();
                put(schema, self.own.get(kind).copied());
                self.describe_fields(&mut vec![kind.to_owned()], schema);
            }
            None => {}
        }
    }

    fn describe_fields(&self, path: &mut Vec<String>, schema: &mut Map<String, Value>) {
        for inner in ["items", "additionalProperties"] {
            if let Some(Value::Object(inner)) = schema.get_mut(inner) {
                self.describe_fields(path, inner);
            }
        }
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for (name, property) in properties {
            let Value::Object(property) = property else { continue };
            path.push(name.clone());
            self.describe_fields(path, property);
            put(property, self.own_text(path));
            path.pop();
        }
    }

    /// Of the longest known end of a path.
    fn own_text(&self, path: &[String]) -> Option<&'static str> {
        (0..path.len()).find_map(|from| self.own.get(path[from..].join(".").as_str()).copied())
    }
}

/// A text that is there already stays: it is the schema's own.
fn put(schema: &mut Map<String, Value>, text: Option<&str>) {
    if let Some(text) = text {
        schema.entry("description").or_insert_with(|| Value::from(text));
    }
}

fn published_texts(known: &Value, schema: &mut Map<String, Value>) {
    put(schema, known["description"].as_str());
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        if let Value::Object(property) = property {
            put(property, known["properties"][name.as_str()]["description"].as_str());
        }
    }
}

/// Has the kinds of a group version, and all they are made of, written into `generator`.
fn published(location: &str, generator: &mut SchemaGenerator) {
    macro_rules! kinds {
        ($group:path { $($kind:ident)* }) => {{
            use $group as group;
            $( generator.subschema_for::<group::$kind>(); )*
        }};
    }
    match location {
        "api/v1" => {
            kinds!(api::core::v1 {
                Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
                PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service
                ServiceAccount
            });
            // Of subresources.
            kinds!(api::authentication::v1 { TokenRequest });
            kinds!(api::autoscaling::v1 { Scale });
            kinds!(api::policy::v1 { Eviction });
        }
        "apis/admissionregistration.k8s.io/v1" => kinds!(api::admissionregistration::v1 {
            MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration
        }),
        "apis/apiextensions.k8s.io/v1" => kinds!(apiextensions::v1 { CustomResourceDefinition }),
        "apis/apiregistration.k8s.io/v1" => kinds!(apiregistration::v1 { APIService }),
        "apis/apps/v1" => {
            kinds!(api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet });
            kinds!(api::autoscaling::v1 { Scale });
        }
        "apis/authentication.k8s.io/v1" => kinds!(api::authentication::v1 { SelfSubjectReview TokenReview }),
        "apis/authorization.k8s.io/v1" => kinds!(api::authorization::v1 {
            LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
        }),
        "apis/autoscaling/v1" => kinds!(api::autoscaling::v1 { HorizontalPodAutoscaler }),
        "apis/autoscaling/v2" => kinds!(api::autoscaling::v2 { HorizontalPodAutoscaler }),
        "apis/batch/v1" => kinds!(api::batch::v1 { CronJob Job }),
        "apis/certificates.k8s.io/v1" => kinds!(api::certificates::v1 { CertificateSigningRequest }),
        "apis/coordination.k8s.io/v1" => kinds!(api::coordination::v1 { Lease }),
        "apis/discovery.k8s.io/v1" => kinds!(api::discovery::v1 { EndpointSlice }),
        "apis/events.k8s.io/v1" => kinds!(api::events::v1 { Event }),
        "apis/flowcontrol.apiserver.k8s.io/v1" => {
            kinds!(api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration });
        }
        "apis/networking.k8s.io/v1" => kinds!(api::networking::v1 {
            IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
        }),
        "apis/node.k8s.io/v1" => kinds!(api::node::v1 { RuntimeClass }),
        "apis/policy/v1" => kinds!(api::policy::v1 { PodDisruptionBudget }),
        "apis/rbac.authorization.k8s.io/v1" => {
            kinds!(api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding });
        }
        "apis/resource.k8s.io/v1" => kinds!(api::resource::v1 {
            DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
        }),
        "apis/scheduling.k8s.io/v1" => kinds!(api::scheduling::v1 { PriorityClass }),
        "apis/storage.k8s.io/v1" => kinds!(api::storage::v1 {
            CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
        }),
        // What all kinds have in common, for those whose own texts are not published.
        _ => generator_of_metadata(generator),
    }
}

fn generator_of_metadata(generator: &mut SchemaGenerator) {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
    generator.subschema_for::<meta::ObjectMeta>();
    generator.subschema_for::<meta::Condition>();
    generator.subschema_for::<meta::LabelSelector>();
}
