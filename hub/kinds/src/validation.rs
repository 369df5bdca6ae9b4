//! kube-apiserver's validation of built-in kinds: the rules that users meet, in its words.
//!
//! In: a decoded and defaulted object, and on update the stored one. Out: field errors, which the caller turns into a
//! 422 with causes. Structure is checked before ([`karmada_schema`]); what is here relates fields to each other, and
//! compares an update with what was.

mod admission_registration;
mod apps;
mod autoscaling;
mod cluster;
mod core;
mod cron_job;
mod device_slices;
mod devices;
mod disruption_budget;
mod endpoints;
mod flow;
mod job;
mod networking;
mod node;
pub(crate) mod pod;
pub mod policy_names;
mod quota;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod selector;
mod service;
mod statuses;
mod storage;
mod volume_fields;
mod volume_sources;
mod volume_update;
mod volumes;
mod warnings;

use std::sync::Arc;

use karmada_cel::{Compiling, apart};
use karmada_schema::fields::{
    Errors, amount_shown, at_most_all, encoded, entries, immutable, int_or_percent, invalid_each, is_empty,
    list, non_negative, one_of, only_name, text, whole_lists,
};
use karmada_schema::metadata::{self, NameRule, validate_metadata, validate_metadata_update};
use karmada_schema::path::Path;
use karmada_schema::{FieldError, addresses, names};
use serde_json::Value;

pub(crate) use pod::marks::armor;
pub(crate) use service::addresses as service_addresses;
pub use warnings::{owners as owners_twice, warnings};

/// What objects of a kind may be called.
fn name_rule(group: &str, kind: &str) -> NameRule {
    match (group, kind) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => NameRule::Label,
        ("rbac.authorization.k8s.io", _) | ("apiregistration.k8s.io", _) => NameRule::PathSegment,
        ("certificates.k8s.io", _) => NameRule::Any,
        ("networking.k8s.io", "IPAddress") => NameRule::Address,
        ("" | "events.k8s.io", "Event") | ("policy", "PodDisruptionBudget") => NameRule::Late,
        _ => NameRule::Subdomain,
    }
}

/// Everything that is wrong with `new`; on update (`old`), also what may not change. `compiling`: what the request compiles. Where that
/// finds itself crowded in the end, nothing is known.
pub(crate) fn validate_builtin(
    group: &str,
    kind: &str,
    new: &Value,
    old: Option<&Value>,
    compiling: &Arc<Compiling>,
) -> Vec<FieldError> {
    let rule = name_rule(group, kind);
    // Where the kind's own rules say nothing of metadata, it is judged only if they find nothing.
    let mut errors = match old {
        None if rule.is_late() => Vec::new(),
        None => validate_metadata(rule, new, None),
        Some(old) => metadata_of_changed(group, kind, new, old),
    };
    let out = &mut errors;
    if old.is_none() && !rule.is_late() && has_standard_finalizers(group, kind) {
        metadata::standard_finalizers(new, out);
    }
    match (group, kind) {
        ("", "Pod") => pod::pod(new, old, out),
        ("", "PodTemplate") => pod::template(&new["template"], &Path::field("template"), out),
        ("", "ReplicationController") => apps::replication_controller(new, out),
        ("apps", "Deployment") => apps::deployment(new, old, out),
        ("apps", "ReplicaSet") => apps::replica_set(new, old, out),
        ("apps", "StatefulSet") => apps::stateful_set(new, old, out),
        ("apps", "DaemonSet") => apps::daemon_set(new, old, out),
        ("batch", "Job") => job::job(new, old, out),
        ("batch", "CronJob") => cron_job::cron_job(new, old, out),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let whole = |object: &Value| {
                let mut object = object.clone();
                if object["apiVersion"] == "autoscaling/v1" {
                    crate::conversion::autoscaler_v2(&mut object);
                }
                object
            };
            autoscaling::horizontal_pod_autoscaler(&whole(new), old.map(whole).as_ref(), out);
        }
        ("autoscaling", "Scale") => autoscaling::scale(new, out),
        ("policy", "PodDisruptionBudget") => disruption_budget::pod_disruption_budget(new, out),
        ("", "Service") => service::service(new, old, out),
        ("", "ConfigMap") => core::config_map(new, old, out),
        ("", "Secret") => core::secret(new, old, out),
        ("", "Namespace") => core::namespace(new, out),
        ("", "PersistentVolumeClaim") => core::persistent_volume_claim(new, old, out),
        ("", "PersistentVolume") => volume_sources::persistent_volume(new, old, out),
        ("", "ResourceQuota") => quota::resource_quota(new, old, out),
        ("", "LimitRange") => quota::limit_range(new, out),
        ("", "Node") => node::node(new, old, out),
        ("storage.k8s.io", "StorageClass") => core::storage_class(new, old, out),
        ("scheduling.k8s.io", "PriorityClass") => core::priority_class(new, old, out),
        ("coordination.k8s.io", "Lease") => core::lease(new, out),
        ("networking.k8s.io", "Ingress") => networking::ingress(new, old, out),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(new, old, out),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(new, old, out),
        ("rbac.authorization.k8s.io", "Role") => rbac::role(new, true, out),
        ("rbac.authorization.k8s.io", "ClusterRole") => rbac::role(new, false, out),
        ("rbac.authorization.k8s.io", "RoleBinding") => rbac::binding(new, old, true, out),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => rbac::binding(new, old, false, out),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            apart(|| admission_registration::webhooks(new, true, compiling, out));
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            apart(|| admission_registration::webhooks(new, false, compiling, out));
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            apart(|| admission_registration::policy(new, compiling, out));
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            admission_registration::binding(new, out);
        }
        (karmada_definitions::crd::GROUP, "CustomResourceDefinition") => {
            apart(|| karmada_definitions::crd::validate(new, old, compiling, out));
        }
        ("", "Endpoints") => endpoints::endpoints(new, old, out),
        ("", "Event") => endpoints::event(new, old, false, out),
        ("events.k8s.io", "Event") => endpoints::event(new, old, true, out),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::endpoint_slice(new, old, out),
        ("apps", "ControllerRevision") => cluster::controller_revision(new, old, out),
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class(new, old, out),
        ("networking.k8s.io", "IPAddress") => cluster::ip_address(new, old, out),
        ("networking.k8s.io", "ServiceCIDR") => cluster::service_cidr(new, old, out),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow::flow_schema(new, out),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flow::priority_level(new, out),
        ("apiregistration.k8s.io", "APIService") => cluster::api_service(new, out),
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::certificate_request(new, old, out),
        ("resource.k8s.io", "ResourceSlice") => device_slices::resource_slice(new, old, out),
        ("resource.k8s.io", "DeviceClass") => apart(|| devices::device_class(new, compiling, out)),
        ("resource.k8s.io", "ResourceClaim") => apart(|| devices::resource_claim(new, old, compiling, out)),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            apart(|| devices::resource_claim_template(new, old, compiling, out));
        }
        ("storage.k8s.io", "VolumeAttributesClass") => storage::volume_attributes_class(new, old, out),
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(new, old, out),
        ("storage.k8s.io", "CSINode") => storage::csi_node(new, old, out),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::csi_storage_capacity(new, old, out),
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment(new, old, out),
        _ => {}
    }
    if old.is_some() && is_judged_twice(group, kind) {
        // Once as if it were new, once as a change.
        let metadata = metadata_of_changed(group, kind, new, old.unwrap_or(&Value::Null)).len();
        let mut created = validate_metadata(rule, new, None);
        if has_standard_finalizers(group, kind) {
            metadata::standard_finalizers(new, &mut created);
        }
        let again = validate_builtin(group, kind, new, None, compiling).split_off(created.len());
        errors.splice(metadata..metadata, again);
    }
    if errors.is_empty() && matches!(rule, NameRule::Late | NameRule::Any) && old.is_none() {
        errors = validate_metadata(NameRule::PathSegment, new, old);
    }
    errors
}

/// Kinds whose finalizers are Kubernetes' own, or have a domain: those that are judged by the rules of the core group.
fn has_standard_finalizers(group: &str, kind: &str) -> bool {
    !matches!(
        (group, kind),
        ("apiregistration.k8s.io" | "admissionregistration.k8s.io" | karmada_definitions::crd::GROUP, _)
            | ("coordination.k8s.io", "Lease")
            | ("node.k8s.io", "RuntimeClass")
    )
}

/// A look at the metadata of a changed object.
#[derive(Clone, Copy)]
enum Look {
    /// As if the object were new.
    New,
    /// Against what is stored.
    Changed,
}

/// How a kind's own rules look at the metadata of a changed object, and how often, after those of all kinds did.
fn looks(group: &str, kind: &str) -> &'static [Look] {
    use Look::{Changed, New};
    match (group, kind) {
        ("", "Event") | ("policy", "PodDisruptionBudget") => &[],
        ("", "LimitRange")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("admissionregistration.k8s.io", _)
        | ("storage.k8s.io", "CSINode" | "VolumeAttachment") => &[New],
        ("", "PersistentVolume") => &[New, New],
        ("", "ConfigMap" | "Endpoints" | "PersistentVolumeClaim" | "Pod" | "Secret" | "ServiceAccount")
        | ("apps", "ControllerRevision")
        | ("networking.k8s.io", "Ingress" | "IngressClass")
        | ("storage.k8s.io", "VolumeAttributesClass") => &[Changed, New],
        ("storage.k8s.io", "CSIDriver")
        | ("networking.k8s.io", "NetworkPolicy" | "ServiceCIDR")
        | ("resource.k8s.io", "ResourceSlice") => &[Changed],
        (
            "storage.k8s.io"
            | "networking.k8s.io"
            | "node.k8s.io"
            | "resource.k8s.io"
            | "apiregistration.k8s.io"
            | "certificates.k8s.io"
            | "rbac.authorization.k8s.io",
            _,
        )
        | ("batch", "Job")
        | ("", "Namespace" | "Node") => &[New, Changed],
        _ => &[Changed],
    }
}

/// What is wrong with the metadata of a changed object: said as often as kube-apiserver looks at it.
fn metadata_of_changed(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata(NameRule::PathSegment, new, None);
    errors.extend(validate_metadata(NameRule::PathSegment, new, Some(old)));
    let standard = has_standard_finalizers(group, kind);
    let rule = name_rule(group, kind);
    for look in looks(group, kind) {
        errors.extend(match look {
            Look::New => validate_metadata(rule, new, None),
            Look::Changed => validate_metadata(rule, new, Some(old)),
        });
        if standard {
            metadata::standard_finalizers(new, &mut errors);
        }
    }
    errors
}

/// Kinds of which an update is judged by the rules of a create too, besides its own, which hold those again.
fn is_judged_twice(group: &str, kind: &str) -> bool {
    matches!((group, kind), ("", "Node" | "PersistentVolume"))
}

/// Everything that is wrong with a part that is written by itself; `None` where the kind has no rules of its own for it.
pub(crate) fn validate_part(
    group: &str,
    kind: &str,
    part: &str,
    new: &Value,
    old: &Value,
) -> Option<Vec<FieldError>> {
    let mut errors = validate_metadata_update(new, old);
    statuses::validate(group, kind, part, new, old, &mut errors).then_some(errors)
}
