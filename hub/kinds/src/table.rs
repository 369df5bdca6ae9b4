//! Server-side tables (`meta.k8s.io/v1` Table): what `kubectl get` shows.
//!
//! In: a resource of the catalogue and an object. Out: column definitions and cells; the caller assembles the
//! envelope. Built-in kinds print as kube-apiserver's own printers do, always with the wide columns (the client hides
//! them by priority); structural kinds print by their columns' JSONPaths.

mod cells;
mod cluster;
mod core;
mod duration;
mod jsonpath;
mod policy;
mod storage;
mod work;
mod workloads;

use jiff::Timestamp;
use karmada_definitions::description::{Column, Resource, Style};
use karmada_definitions::resource::LiveColumn;
use karmada_schema::object::extent::Extent;
use serde_json::{Value, json};

pub use duration::human_duration;
pub use jsonpath::JsonPath;

#[cfg(test)]
mod tests;

/// One object and the time to count ages to.
#[derive(Clone, Copy)]
struct Row<'a> {
    object: &'a Value,
    now: Timestamp,
}

type Printer = fn(Row<'_>) -> Vec<Value>;

fn printer(group: &str, kind: &str) -> Option<Printer> {
    Some(match (group, kind) {
        ("", "Pod") => workloads::pod,
        ("", "PodTemplate") => workloads::pod_template,
        ("", "ReplicationController") => workloads::replication_controller,
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "ReplicaSet") => workloads::replica_set,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("apps", "ControllerRevision") => workloads::controller_revision,
        ("batch", "Job") => workloads::job,
        ("batch", "CronJob") => workloads::cron_job,
        ("autoscaling", "HorizontalPodAutoscaler") => workloads::horizontal_pod_autoscaler,
        ("autoscaling", "Scale") => workloads::scale,
        ("policy", "PodDisruptionBudget") => workloads::pod_disruption_budget,
        ("", "ConfigMap") => core::config_map,
        ("", "Secret") => core::secret,
        ("", "ServiceAccount") => core::service_account,
        ("", "Namespace") => core::namespace,
        ("", "Node") => core::node,
        ("", "ComponentStatus") => core::component_status,
        ("", "ResourceQuota") => core::resource_quota,
        ("", "Service") => core::service,
        ("", "Endpoints") => core::endpoints,
        ("discovery.k8s.io", "EndpointSlice") => core::endpoint_slice,
        ("" | "events.k8s.io", "Event") => core::event,
        ("networking.k8s.io", "Ingress") => core::ingress,
        ("networking.k8s.io", "IngressClass") => core::ingress_class,
        ("networking.k8s.io", "NetworkPolicy") => core::network_policy,
        ("networking.k8s.io", "IPAddress") => core::ip_address,
        ("networking.k8s.io", "ServiceCIDR") => core::service_cidr,
        ("", "PersistentVolume") => storage::persistent_volume,
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim,
        ("storage.k8s.io", "StorageClass") => storage::storage_class,
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver,
        ("storage.k8s.io", "CSINode") => storage::csi_node,
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment,
        ("storage.k8s.io", "VolumeAttributesClass") => storage::volume_attributes_class,
        ("resource.k8s.io", "ResourceClaim") => storage::resource_claim,
        ("resource.k8s.io", "ResourceSlice") => storage::resource_slice,
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => cells::name_and_age,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policy::role_binding,
        ("certificates.k8s.io", "CertificateSigningRequest") => policy::certificate_signing_request,
        ("coordination.k8s.io", "Lease") => policy::lease,
        ("node.k8s.io", "RuntimeClass") => policy::runtime_class,
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class,
        ("apiregistration.k8s.io", "APIService") => policy::api_service,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policy::admission_policy,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            policy::admission_policy_binding
        }
        ("admissionregistration.k8s.io", _) => policy::webhook_configuration,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => policy::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => policy::priority_level,
        ("cluster.karmada.io", "Cluster") => cluster::cluster,
        _ => return None,
    })
}

fn column(name: &str, ty: &str, format: &str) -> Column {
    Column {
        name: name.into(),
        ty: ty.into(),
        format: format.into(),
        priority: 0,
        json_path: None,
        description: String::new(),
    }
}

/// The columns of a resource's table.
pub fn columns(resource: &Resource) -> Vec<Column> {
    let name = column("Name", "string", "name");
    match (resource.style, resource.columns.is_empty()) {
        (Style::Crd, true) => vec![name, column("Age", "date", "")],
        (Style::Crd, false) => std::iter::once(name).chain(resource.columns.iter().cloned()).collect(),
        (_, true) => vec![name, column("Created At", "date", "")],
        (_, false) => resource.columns.clone(),
    }
}

/// One column as a Table's `columnDefinitions` entry.
pub(crate) fn column_definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.ty, "format": column.format, "description": column.description, "priority": column.priority,
    })
}

/// The same for a column whose cells are in no object: shown with the wide ones.
pub(crate) fn live_column_definition(column: &LiveColumn) -> Value {
    json!({"name": column.name, "type": "string", "format": "", "description": column.description, "priority": 1})
}

/// The cells of one object, one for each column.
pub fn row(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    if resource.style == Style::Crd {
        return structural_row(resource, row);
    }
    match printer(&resource.group, &resource.kind) {
        Some(print) => print(row),
        None => cells::name_and_created(row),
    }
}

/// The conditions of one object's row: `Completed` for Pods that ran to an end, none otherwise.
pub(crate) fn row_conditions(resource: &Resource, object: &Value) -> Option<Value> {
    if resource.kind != "Pod" || !resource.group.is_empty() {
        return None;
    }
    let (reason, message) = match object["status"]["phase"].as_str() {
        Some("Succeeded") => ("Succeeded", "The pod has completed successfully."),
        Some("Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

/// What the cells of a custom object may hold together; those beyond are empty. A definition may have thousands of columns that all
/// show the whole object.
const ROW_BYTES: usize = 256 << 10;

/// How many values are looked at for the cells of one row: columns, elements and filters multiply.
const ROW_STEPS: usize = 100_000;

fn structural_row(resource: &Resource, row: Row<'_>) -> Vec<Value> {
    let mut out = vec![row.name()];
    if resource.columns.is_empty() {
        out.push(row.age());
    }
    let (mut room, mut steps) = (ROW_BYTES, ROW_STEPS);
    for column in &resource.columns {
        let path = column.json_path.as_deref().filter(|_| room > 0 && steps > 0).and_then(JsonPath::parse);
        let found = path.and_then(|path| path.first(row.object, &mut steps));
        let found = found.filter(|value| {
            let bytes = Extent::of(value).bytes;
            room = room.saturating_sub(bytes);
            room > 0
        });
        let cell = found.map_or(Value::Null, |value| structural_cell(&column.ty, value, row.now));
        let overtaken = column.name == "APPLIED" && resource.kind == "Work" && work::is_overtaken(row.object);
        out.push(if overtaken { "False".into() } else { cell });
    }
    out
}

fn structural_cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(_)) => value.clone(),
        ("string", other) => Value::String(other.to_string()),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().map_or(Value::Null, |float| (float as i64).into()),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match karmada_schema::time::parse(text) {
            Some(time) => cells::since(Some(time), now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
