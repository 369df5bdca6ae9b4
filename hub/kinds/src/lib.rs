//! What differs from kind to kind, gathered behind functions of a [`ResourceDefinition`]: decoding, defaults, first status,
//! rules, field ownership. The registry calls these and knows no kind by name.

pub mod api_service;
pub mod catalogue;
pub mod conversion;
pub mod defaults;
pub mod dropped;
pub mod field_selector;
pub mod flow_control;
pub mod kind;
mod label_keys;
mod pod_status;
pub mod scale;
pub mod strategy;
pub mod table;
pub mod validation;

use bytes::Bytes;
use karmada_cel::Crowded;
use karmada_definitions::crd;
use karmada_definitions::description::{Resource, Style};
use karmada_definitions::resource::{Family, ResourceDefinition};
use karmada_definitions::status::{Cause, Status};
use karmada_schema::apply::{self, ApplyError, Writer};
use karmada_schema::object::{Stored, meta};
use karmada_schema::patch::{self, PatchError};
use karmada_schema::path::Path;
use karmada_schema::{FieldError, Read};
use serde_json::{Value, json};

use crate::kind::Kind;

fn kind(definition: &ResourceDefinition) -> Option<Kind<'_>> {
    if let Some(custom) = &definition.custom {
        return Some(Kind {
            group: &definition.group,
            version: &definition.version,
            kind: &definition.kind,
            style: Style::Crd,
            schema: custom.schema().root(),
            scale: custom.resource.subresource("scale").and_then(|sub| {
                let (wanted, there, selector) = sub.scale.as_ref()?;
                Some((wanted.as_str(), there.as_str(), selector.as_str()))
            }),
        });
    }
    Kind::builtin(&definition.group, &definition.version, &definition.kind)
}

/// Reads the body into the kind: types checked (400 where they do not fit), fields that the kind does not have dropped. Returns
/// a sentence for each of those.
pub fn decode(definition: &ResourceDefinition, object: &mut Value) -> Result<Vec<String>, Status> {
    Ok(read(definition, object)?.unknown)
}

/// The same, with what was sent empty told too.
pub fn read(definition: &ResourceDefinition, object: &mut Value) -> Result<Read, Status> {
    let Some(kind) = kind(definition) else { return Ok(Read::default()) };
    kind.read(object).map_err(|error| Status::bad_request(error.wrap(&definition.version, &definition.kind)))
}

/// Fields that appear twice in the body, a sentence for each.
pub fn duplicate_fields(raw: &Bytes) -> Vec<String> {
    karmada_schema::duplicate_fields(raw)
}

/// Leaves the object as it comes back from storage: empty lists as none.
pub fn forget_empties(definition: &ResourceDefinition, object: &mut Value) {
    if let Some(kind) = kind(definition).filter(|_| definition.family == Family::Builtin) {
        karmada_schema::forget_empties(kind.schema, object);
    }
}

/// Fills in defaults.
pub fn default(definition: &ResourceDefinition, object: &mut Value) {
    if let Some(kind) = kind(definition) {
        kind.default(object);
    }
}

/// Fills in since when devices have the taints that do not say it.
pub fn date_taints(definition: &ResourceDefinition, object: &mut Value, now: impl FnOnce() -> String) {
    if (&*definition.group, &*definition.plural) == ("resource.k8s.io", "resourceslices") {
        defaults::date_taints(object, now);
    }
}

/// Fills in what follows from the object's new uid, a Job's selector and labels, and what annotations say of fields, a Pod's
/// profiles and its quality of service. Answers what to tell the client.
pub fn finish_create(definition: &ResourceDefinition, object: &mut Value) -> Vec<String> {
    defaults::finish_create(&definition.group, &definition.kind, object);
    match (&*definition.group, &*definition.kind) {
        ("", "Pod") => {
            // What it asks for may have been filled in since it was decoded.
            object["status"] = pod_status::first(object);
            validation::armor(object)
        }
        _ => Vec::new(),
    }
}

/// Fills in what a change says by itself, before it is judged: a CustomResourceDefinition remembers what it stored.
pub fn prepare_update(definition: &ResourceDefinition, object: &mut Value) {
    if crd::is_definition(definition) {
        crd::remember_storage_version(object);
    }
}

/// Fills in what follows from a change: a DaemonSet's template generation.
pub fn finish_update(definition: &ResourceDefinition, object: &mut Value, old: &Value) {
    defaults::finish_update(&definition.group, &definition.kind, object, old);
}

/// Every rule that the object, or its change, breaks. `part`: the subresource that is written, empty for the whole.
///
/// # Errors
/// Too many long expressions are being evaluated for the rules in it to be.
pub fn validate(
    definition: &ResourceDefinition,
    part: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<Cause>, Crowded> {
    if let (false, false, Some(old)) = (part.is_empty(), definition.is_structural(), old) {
        let (group, kind) = (&definition.group, &definition.kind);
        if let Some(errors) = validation::validate_part(group, kind, part, new, old) {
            return Ok(karmada_schema::findings::bounded(errors).iter().map(cause).collect());
        }
    }
    let found = kind(definition).map(|kind| kind.validate(new, old)).transpose()?.unwrap_or_default();
    let mut errors = karmada_schema::findings::bounded(found);
    if definition.namespaced && meta::namespace(new).is_empty() {
        errors.insert(0, FieldError::required(&Path::field("metadata").child("namespace"), ""));
    }
    let mut causes: Vec<Cause> = errors.iter().map(cause).collect();
    if part == "status" {
        // A status is judged by itself: what is in it is named from there.
        for cause in &mut causes {
            if let Some(own) = cause.field.strip_prefix("status.") {
                cause.message =
                    cause.message.replace(&format!("status.{own} in body"), &format!("{own} in body"));
            }
        }
    }
    Ok(causes)
}

/// What is taken, but not as its writer may think: formats that nobody knows in a definition, fields of Karmada's kinds that
/// nothing acts on yet, and what a custom kind's rules would refuse of a change, had it not been so before. `live` is the object as stored.
pub fn remarks(definition: &ResourceDefinition, new: &Value, old: Option<(&Value, &Stored)>) -> Vec<String> {
    if crd::is_definition(definition) {
        let old = old.map(|(old, _)| old);
        let mut all = validation::warnings(&definition.group, &definition.kind, new, old);
        all.extend(crd::unknown_formats(new, old));
        return all;
    }
    if definition.family == Family::Builtin {
        let old = old.map(|(old, _)| old);
        return validation::warnings(&definition.group, &definition.kind, new, old);
    }
    if definition.custom.is_none() {
        let old = old.map(|(old, _)| old);
        return karmada_api::inert::warnings(&definition.group, &definition.kind, new, old);
    }
    // Only an object that was written under another schema can be wrong already.
    let (Some(custom), Some((old, live))) = (&definition.custom, old) else { return Vec::new() };
    if custom.shows_as_stored(live) {
        return Vec::new();
    }
    tolerated(definition, new, old)
}

/// What a custom kind's rules would refuse of a change, had it not been so before.
pub fn tolerated(definition: &ResourceDefinition, new: &Value, old: &Value) -> Vec<String> {
    let kind = kind(definition);
    kind.map(|kind| kind.tolerated(new, old)).unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// What is wrong with the cluster addresses of a Service, which is asked before any is chosen.
pub fn service_addresses(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    validation::service_addresses(new, old).iter().map(cause).collect()
}

/// An error as an answer's `details.causes` has it.
pub fn cause(error: &FieldError) -> Cause {
    Cause { reason: error.kind.reason().into(), message: error.body(), field: error.field.clone() }
}

/// Who writes the fields of an object, through which part of it, and when.
#[derive(Clone, Copy, Debug)]
pub struct FieldManager<'a> {
    /// The manager's name, as `managedFields` has it.
    pub name: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339, whole seconds.
    pub now: &'a str,
    /// Whether an apply takes fields that others own; no other write asks.
    pub force: bool,
}

impl<'a> FieldManager<'a> {
    fn writer(&self, definition: &ResourceDefinition, api_version: &'a str) -> Writer<'a> {
        Writer {
            manager: self.name,
            api_version,
            subresource: self.subresource,
            now: self.now,
            has_status: definition.subresource("status").is_some(),
        }
    }
}

/// Records which manager owns what a write changed.
pub fn update_managed(
    definition: &ResourceDefinition,
    old: Option<&Value>,
    new: &mut Value,
    manager: FieldManager<'_>,
) {
    let Some(kind) = kind(definition) else { return };
    let api_version = definition.api_version();
    apply::update_managed(old, new, manager.writer(definition, &api_version), kind.schema);
    if let (Some(old), "autoscaling", "HorizontalPodAutoscaler") =
        (old, &*definition.group, &*definition.kind)
    {
        conversion::disown_changed(old, new, &definition.version);
    }
}

/// Fills in what a TokenRequest leaves out, and records who asks.
pub fn prepare_token_request(request: &mut Value, manager: &str, now: &str) {
    let (group, version, name) = ("authentication.k8s.io", "v1", "TokenRequest");
    let Some(kind) = Kind::builtin(group, version, name) else { return };
    if !matches!(request["kind"].as_str(), None | Some("" | "TokenRequest")) {
        return;
    }
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = json!(3600);
    }
    let api_version = kind.api_version();
    let writer = Writer { manager, api_version: &api_version, subresource: "token", now, has_status: true };
    apply::update_managed(None, request, writer, kind.schema);
}

/// Server-side apply of `applied` on the live object, or of a new one.
pub fn apply(
    definition: &ResourceDefinition,
    live: Option<&Value>,
    applied: &Value,
    manager: FieldManager<'_>,
) -> Result<Value, Status> {
    let kind = kind(definition).ok_or_else(Status::no_resource)?;
    let api_version = definition.api_version();
    let writer = manager.writer(definition, &api_version);
    apply::apply(live, applied, writer, manager.force, kind.schema).map_err(not_applied)
}

/// Applies a Scale to the one that stands, with who owns its replicas.
pub(crate) fn apply_scale(live: &Value, applied: &Value, manager: FieldManager<'_>) -> Result<Value, Status> {
    let kind = Kind::builtin("autoscaling", "v1", "Scale").ok_or_else(Status::no_resource)?;
    let FieldManager { name: manager, subresource, now, force } = manager;
    let writer = Writer { manager, api_version: "autoscaling/v1", subresource, now, has_status: false };
    let mut applied = applied.clone();
    kind.decode(&mut applied).map_err(|error| Status::bad_request(error.wrap("v1", "Scale")))?;
    apply::apply(Some(live), &applied, writer, force, kind.schema).map_err(not_applied)
}

fn not_applied(error: ApplyError) -> Status {
    let message = error.to_string();
    match error {
        ApplyError::BadRequest(_) => Status::bad_request(message),
        // As kube-apiserver's: an error that nothing gives a reason to.
        ApplyError::Typed(_) => Status { code: 500, reason: "".into(), message, details: None },
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {}", conflict.manager),
                field: conflict.field.clone(),
            });
            Status::apply_conflict(message, causes.collect())
        }
    }
}

/// Whether strategic merge patches are understood.
pub fn has_strategic_merge(definition: &ResourceDefinition) -> bool {
    kind(definition).is_some_and(|kind| kind.has_strategic_merge())
}

/// Carries out a JSON patch.
pub fn json_patch(live: &Value, body: &Bytes) -> Result<Value, Status> {
    patch::json_patch(live, body).map_err(patch_refused)
}

/// Carries out a merge patch.
pub fn merge_patch(live: &Value, body: &Bytes) -> Result<Value, Status> {
    patch::merge_patch(live, body).map_err(patch_refused)
}

/// Carries out a strategic merge patch.
pub fn strategic_patch(definition: &ResourceDefinition, live: &Value, body: &Bytes) -> Result<Value, Status> {
    let kind = kind(definition).ok_or_else(Status::no_resource)?;
    patch::strategic_patch(kind.schema, live, body).map_err(patch_refused)
}

fn patch_refused(error: PatchError) -> Status {
    match error {
        PatchError::BadRequest(message) => Status::bad_request(message),
        PatchError::TooLarge(message) => {
            let mut status = Status::too_large(0);
            status.message = message;
            status
        }
        PatchError::Unprocessable { cause } => {
            tracing::debug!(%cause, "a patch does not apply");
            let mut status =
                Status::unprocessable("the server rejected our request due to an error in our request");
            status.details = Some(Box::default());
            status
        }
        PatchError::Internal(message) => Status::unforeseen(message),
    }
}

/// Marks what the kind's deletion leaves to be done: a CustomResourceDefinition waits for its instances.
pub fn mark_deleted(definition: &ResourceDefinition, object: &mut Value, now: &str) {
    if crd::is_definition(definition) {
        crd::mark_deleted(object, now);
    }
}

/// Column definitions of the kind's tables.
pub fn columns(definition: &ResourceDefinition) -> Value {
    let columns = catalogue_entry(definition).map(table::columns).unwrap_or_default();
    let live = definition.live.get().map(|live| live.columns).unwrap_or_default();
    columns
        .iter()
        .map(table::column_definition)
        .chain(live.iter().map(table::live_column_definition))
        .collect()
}

/// Cells of one object's row, and the conditions that a row may carry (a finished Pod's).
pub fn cells(
    definition: &ResourceDefinition,
    object: &Value,
    now: jiff::Timestamp,
) -> (Vec<Value>, Option<Value>) {
    match catalogue_entry(definition) {
        Some(resource) => {
            let mut cells = table::row(resource, object, now);
            cells.extend(definition.live.get().map(|live| (live.cells)(object)).unwrap_or_default());
            (cells, table::row_conditions(resource, object))
        }
        None => (vec![object["metadata"]["name"].clone()], None),
    }
}

pub(crate) fn catalogue_entry(definition: &ResourceDefinition) -> Option<&Resource> {
    if let Some(custom) = &definition.custom {
        return Some(&custom.resource);
    }
    catalogue::find(&definition.group, &definition.version, &definition.plural)
}

/// Whether the kind counts generations.
pub fn has_generation(definition: &ResourceDefinition) -> bool {
    if definition.family == Family::Custom {
        return true;
    }
    matches!(
        (&*definition.group, &*definition.plural),
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets")
            | ("", "replicationcontrollers" | "pods" | "podtemplates")
            | ("storage.k8s.io", "csidrivers")
            | ("batch", "jobs" | "cronjobs")
            | ("networking.k8s.io", "ingresses" | "networkpolicies" | "ingressclasses")
            | ("policy", "poddisruptionbudgets")
            | ("flowcontrol.apiserver.k8s.io" | "admissionregistration.k8s.io" | "apiextensions.k8s.io", _)
            | ("scheduling.k8s.io", "priorityclasses")
            | ("resource.k8s.io", "resourceslices" | "deviceclasses")
            | ("discovery.k8s.io", "endpointslices")
    )
}

/// Whether a create may bring its status: a kubelet registers its Node with one.
pub fn created_with_status(definition: &ResourceDefinition) -> bool {
    (&*definition.group, &*definition.plural) == ("", "nodes")
}

/// The status a new object starts with, as the kind's Go type prints when empty; `None` for none.
pub fn first_status(definition: &ResourceDefinition, object: &Value) -> Option<Value> {
    if definition.family == Family::Custom {
        return None;
    }
    Some(match (&*definition.group, &*definition.plural) {
        ("", "namespaces") => json!({"phase": "Active"}),
        ("", "pods") => pod_status::first(object),
        ("", "persistentvolumeclaims" | "persistentvolumes") => json!({"phase": "Pending"}),
        ("", "services") | ("networking.k8s.io", "ingresses") => json!({"loadBalancer": {}}),
        ("apps", "daemonsets") => {
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0})
        }
        ("apps", "statefulsets") => json!({"availableReplicas": 0, "replicas": 0}),
        ("apps", "replicasets") | ("", "replicationcontrollers") => json!({"replicas": 0}),
        ("autoscaling", "horizontalpodautoscalers") => match &*definition.version {
            "v1" => json!({"currentReplicas": 0, "desiredReplicas": 0}),
            _ => json!({"currentMetrics": null, "desiredReplicas": 0}),
        },
        ("policy", "poddisruptionbudgets") => {
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
        }
        ("apiextensions.k8s.io", _) => crd::first_status(object),
        ("storage.k8s.io", "volumeattachments") => json!({"attached": false}),
        _ => json!({}),
    })
}
