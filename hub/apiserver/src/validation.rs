//! kube-apiserver's validation of built-in kinds: the rules that users meet, in its words.
//!
//! In: a decoded and defaulted object, and on update the stored one. Out: field errors, which the caller turns into a
//! 422 with causes. Structure is checked before ([`crate::schema`]); what is here relates fields to each other, and
//! compares an update with what was.

mod addresses;
mod admission_registration;
mod apps;
mod autoscaling;
mod cluster;
mod core;
mod cron_job;
mod devices;
mod disruption_budget;
mod endpoints;
mod flow;
mod job;
mod metadata;
mod names;
mod networking;
mod node;
pub(crate) mod pod;
mod quota;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod selector;
mod service;
mod statuses;
mod storage;
mod volume_sources;
mod volume_update;
mod volumes;
mod warnings;

use serde_json::Value;

use crate::object::extent::Extent;
use crate::schema::FieldError;
use crate::schema::path::Path;

pub(crate) use addresses::parse as parse_address;
pub use metadata::{NameRule, annotations_fit, validate_metadata, validate_metadata_update};
pub(crate) use names::{dns_1035_label, dns_subdomain, path_segment, qualified_name};
pub(crate) use pod::marks::armor;
pub(crate) use service::addresses as service_addresses;
pub(crate) use warnings::{owners as owners_twice, warnings};

#[cfg(test)]
mod tests;

/// What is wrong with the key of a label; several sentences as one.
pub fn label_key_problems(key: &str) -> Option<String> {
    Some(qualified_name(key)).filter(|all| !all.is_empty()).map(|all| all.join("; "))
}

/// What is wrong with the value of a label.
pub fn label_value_problems(value: &str) -> Option<String> {
    Some(names::label_value(value)).filter(|all| !all.is_empty()).map(|all| all.join("; "))
}

/// Everything that is wrong with `new`; on update (`old`), also what may not change.
pub fn validate_builtin(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let rule = NameRule::of(group, kind);
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
            admission_registration::webhooks(new, true, out);
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            admission_registration::webhooks(new, false, out);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            admission_registration::policy(new, out);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            admission_registration::binding(new, out);
        }
        (crate::crd::GROUP, "CustomResourceDefinition") => crate::crd::validate(new, old, out),
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
        ("resource.k8s.io", "ResourceSlice") => devices::resource_slice(new, old, out),
        ("resource.k8s.io", "DeviceClass") => devices::device_class(new, out),
        ("resource.k8s.io", "ResourceClaim") => devices::resource_claim(new, old, out),
        ("resource.k8s.io", "ResourceClaimTemplate") => devices::resource_claim_template(new, old, out),
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
        let again = validate_builtin(group, kind, new, None).split_off(created.len());
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
        ("apiregistration.k8s.io" | "admissionregistration.k8s.io" | crate::crd::GROUP, _)
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
        | ("admissionregistration.k8s.io", _) => &[New],
        ("", "PersistentVolume") | ("storage.k8s.io", "CSINode" | "VolumeAttachment") => &[New, New],
        ("", "PersistentVolumeClaim") => &[New, Changed, New],
        ("rbac.authorization.k8s.io", _) => &[New, New, Changed],
        ("storage.k8s.io", "VolumeAttributesClass") => &[New, Changed, New],
        ("", "ConfigMap" | "Endpoints" | "Pod" | "Secret" | "ServiceAccount")
        | ("apps", "ControllerRevision")
        | ("networking.k8s.io", "Ingress" | "IngressClass") => &[Changed, New],
        ("storage.k8s.io", "CSIDriver")
        | ("networking.k8s.io", "ServiceCIDR")
        | ("resource.k8s.io", "ResourceSlice") => &[Changed],
        (
            "storage.k8s.io"
            | "networking.k8s.io"
            | "node.k8s.io"
            | "resource.k8s.io"
            | "apiregistration.k8s.io"
            | "certificates.k8s.io",
            _,
        )
        | ("batch", "Job")
        | ("", "Namespace" | "Node" | "ReplicationController") => &[New, Changed],
        _ => &[Changed],
    }
}

/// What is wrong with the metadata of a changed object: said as often as kube-apiserver looks at it.
fn metadata_of_changed(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_metadata(NameRule::PathSegment, new, None);
    errors.extend(validate_metadata(NameRule::PathSegment, new, Some(old)));
    let standard = has_standard_finalizers(group, kind);
    let rule = NameRule::of(group, kind);
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
    group == "rbac.authorization.k8s.io"
        || matches!(
            (group, kind),
            ("", "ReplicationController" | "Node" | "PersistentVolume")
                | ("networking.k8s.io", "NetworkPolicy")
                | ("resource.k8s.io", "DeviceClass" | "ResourceClaim" | "ResourceClaimTemplate")
                | ("storage.k8s.io", "CSINode" | "VolumeAttributesClass")
        )
}

/// Everything that is wrong with a part that is written by itself; `None` where the kind has no rules of its own for it.
pub fn validate_part(
    group: &str,
    kind: &str,
    part: &str,
    new: &Value,
    old: &Value,
) -> Option<Vec<FieldError>> {
    let mut errors = validate_metadata_update(new, old);
    statuses::validate(group, kind, part, new, old, &mut errors).then_some(errors)
}

/// The labels of an object inside another.
pub(crate) fn embedded_labels(metadata: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    metadata::labels(&metadata["labels"], &path.child("labels"), errors);
}

/// A new object can have one name alone, and so does what names are made from. Said where names are judged; `besides`: also of
/// names that are wrong otherwise.
pub(crate) fn only_name(
    new: &Value,
    wanted: &str,
    detail: &str,
    besides: bool,
    errors: &mut Vec<FieldError>,
) {
    let mut place = 0;
    for field in ["generateName", "name"] {
        let name = text(&new["metadata"], field);
        let at = Path::field("metadata");
        let at = at.child(field);
        let own = at.to_string();
        let told = errors.iter().rposition(|error| error.field == own);
        place = told.map_or(place, |last| last + 1);
        if !name.is_empty() && name != wanted && (besides || told.is_none()) {
            errors.insert(place, FieldError::invalid(&at, name, detail));
            place += 1;
        }
    }
}

/// Errors being gathered.
type Errors = Vec<FieldError>;

/// About the bytes that errors of one list show of it, all together, where each shows the whole list.
const SHOWN_OF_LISTS: usize = 1 << 20;

/// A turn for each error that shows the whole of `list`. Where the list is long, there are fewer turns than it has entries: each
/// entry telling all of them again would make an answer of gigabytes out of a request that fits.
pub(crate) fn whole_lists(list: &[Value]) -> std::ops::Range<usize> {
    let bytes: usize = list.iter().map(|one| Extent::of(one).bytes).sum();
    0..1 + SHOWN_OF_LISTS / bytes.max(1)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value[field].as_object().into_iter().flatten()
}

/// Whether a list or map is absent or empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

/// An amount as errors show it: as it is written.
fn amount_shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds an error for each message.
fn invalid_each(errors: &mut Errors, path: &Path<'_>, value: &str, messages: Vec<String>) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// A number that must not be negative, where it is there.
fn non_negative(value: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(number) = value[field].as_i64().filter(|number| *number < 0) {
        errors.push(FieldError::invalid(&path.child(field), number, "must be greater than or equal to 0"));
    }
}

/// A field that must stay what it was.
fn immutable(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let same = new == old || (is_empty(new) && is_empty(old) && !new.is_string() && !old.is_string());
    if !same {
        errors.push(FieldError::invalid(path, encoded(new), "field is immutable"));
    }
}

/// A selector as Go's encoder writes it: without its members that were sent empty. Anything else as it is.
fn encoded(value: &Value) -> Value {
    const MEMBERS: [&str; 3] = ["matchLabels", "matchExpressions", "values"];
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, member)| (name.clone(), encoded(member)));
            let is_left_out = |name: &str, member: &Value| MEMBERS.contains(&name) && is_empty(member);
            Value::Object(fields.filter(|(name, member)| !is_left_out(name, member)).collect())
        }
        Value::Array(items) => items.iter().map(encoded).collect(),
        other => other.clone(),
    }
}

/// A text that must be one of `supported`, and must be there.
fn one_of(value: &Value, field: &str, supported: &[&str], path: &Path<'_>, errors: &mut Errors) {
    match text(value, field) {
        "" => errors.push(FieldError::required(&path.child(field), "")),
        other if supported.contains(&other) => {}
        other => errors.push(FieldError::not_supported(&path.child(field), other, supported)),
    }
}

/// An int-or-percent that must not be negative.
fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(percent) => invalid_each(errors, path, percent, names::percent(percent)),
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.push(FieldError::invalid(path, value.clone(), "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

/// A percentage that must not be above 100.
fn at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, value.clone(), "must not be greater than 100%"));
    }
}
