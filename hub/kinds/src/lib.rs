//! What differs from kind to kind, gathered behind functions of a [`ResourceDefinition`]: decoding, defaults, first status,
//! rules, field ownership. The registry calls these and knows no kind by name.
//!
//! In: the definition of a kind, and objects of it as JSON. Out: the objects changed in place or anew, and what is wrong with them as
//! causes of a 422. No IO; [`validate`] may compute for long while patterns and expressions are compiled and run ([`may_take_long`]).

pub mod api_service;
pub mod catalogue;
mod certificate_status;
pub mod conversion;
pub mod defaults;
pub mod disabled_fields;
pub mod field_selector;
pub mod flow_control;
pub mod kind;
mod label_keys;
mod namespace;
mod pod_status;
mod rows;
pub mod scale;
pub mod strategy;
pub mod table;
pub mod validation;
mod volume_status;

use karmada_cel::Crowded;
use karmada_definitions::description::{Resource, Style};
use karmada_definitions::resource::{Family, ResourceDefinition};
use karmada_definitions::status::{Cause, Status};
use karmada_schema::apply::{self, ApplyError, Conflicts, Writer};
use karmada_schema::object::{Stored, meta};
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
            row: definition.row,
            scale: custom.resource.subresource("scale").and_then(|sub| {
                let (wanted, there, selector) = sub.scale.as_ref()?;
                Some((wanted.as_str(), there.as_str(), selector.as_str()))
            }),
        });
    }
    Some(Kind {
        group: &definition.group,
        version: &definition.version,
        kind: &definition.kind,
        style: definition.shipped?.resource.style,
        schema: definition.shipped?.schema?,
        row: definition.row,
        scale: None,
    })
}

/// Reads the body into the kind: types checked, fields that the kind does not have dropped. Returns a sentence for each of those.
///
/// # Errors
/// 400: its types do not fit the kind's.
pub fn decode(definition: &ResourceDefinition, object: &mut Value) -> Result<Vec<String>, Status> {
    Ok(read(definition, object)?.unknown)
}

/// The same, with what was sent empty told too.
///
/// # Errors
/// As of [`decode`].
pub fn read(definition: &ResourceDefinition, object: &mut Value) -> Result<Read, Status> {
    let Some(kind) = kind(definition) else { return Ok(Read::default()) };
    kind.read(object).map_err(|error| Status::bad_request(error.wrap(&definition.version, &definition.kind)))
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

/// Whether to judge an object of the kind may take a while, as patterns are compiled or expressions run: an asynchronous caller gives its
/// thread away meanwhile.
pub fn may_take_long(definition: &ResourceDefinition) -> bool {
    kind(definition).is_some_and(|kind| kind.may_take_long())
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
    if let (false, false, Some(old)) = (part.is_empty(), definition.is_structural(), old)
        && let Some(errors) = validation::validate_part(definition.row, part, new, old)
    {
        return Ok(karmada_schema::findings::bounded(errors).iter().map(cause).collect());
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
    if definition.family == Family::Builtin {
        let old = old.map(|(old, _)| old);
        let mut all: Vec<String> = validation::owners_twice(new).into_iter().collect();
        (definition.row.warn)(new, old, &mut all);
        return all;
    }
    if definition.custom.is_none() {
        let old = old.map(|(old, _)| old);
        return karmada_api::ignored_fields::warnings(&definition.group, &definition.kind, new, old);
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

/// Whether a Service of this spec has a port at which nodes tell of its health.
pub fn has_health_port(service_spec: &Value) -> bool {
    validation::has_health_port(service_spec)
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
    fn conflicts(&self) -> Conflicts {
        if self.force { Conflicts::Taken } else { Conflicts::Refused }
    }

    fn writer(&self, definition: &ResourceDefinition, api_version: &'a str) -> Writer<'a> {
        Writer {
            manager: self.name,
            api_version,
            subresource: self.subresource,
            now: self.now,
            has_status: definition.subresource("status").is_some(),
            resets: definition.row.resets,
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
    if let Some(old) = old {
        (definition.row.disown)(old, new, &definition.version);
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
    let resets = kind.row.resets;
    let writer =
        Writer { manager, api_version: &api_version, subresource: "token", now, has_status: true, resets };
    apply::update_managed(None, request, writer, kind.schema);
}

/// Server-side apply of `applied` on the live object, or of a new one.
///
/// # Errors
/// Another manager has a field of it and `manager` does not force (409, each field named), or it cannot be merged by the kind's schema.
pub fn apply(
    definition: &ResourceDefinition,
    live: Option<&Value>,
    applied: &Value,
    manager: FieldManager<'_>,
) -> Result<Value, Status> {
    let kind = kind(definition).ok_or_else(Status::no_resource)?;
    let api_version = definition.api_version();
    let writer = manager.writer(definition, &api_version);
    apply::apply(live, applied, writer, manager.conflicts(), kind.schema).map_err(not_applied)
}

/// Applies a Scale to the one that stands, with who owns its replicas.
pub(crate) fn apply_scale(live: &Value, applied: &Value, manager: FieldManager<'_>) -> Result<Value, Status> {
    let kind = Kind::builtin("autoscaling", "v1", "Scale").ok_or_else(Status::no_resource)?;
    let conflicts = manager.conflicts();
    let FieldManager { name: manager, subresource, now, .. } = manager;
    let resets = kind.row.resets;
    let writer =
        Writer { manager, api_version: "autoscaling/v1", subresource, now, has_status: false, resets };
    let mut applied = applied.clone();
    kind.decode(&mut applied).map_err(|error| Status::bad_request(error.wrap("v1", "Scale")))?;
    apply::apply(Some(live), &applied, writer, conflicts, kind.schema).map_err(not_applied)
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
            let mut cells = table::row(definition.row, resource, object, now);
            cells.extend(definition.live.get().map(|live| (live.cells)(object)).unwrap_or_default());
            (cells, (definition.row.row_conditions)(object))
        }
        None => (vec![object["metadata"]["name"].clone()], None),
    }
}

pub(crate) fn catalogue_entry(definition: &ResourceDefinition) -> Option<&Resource> {
    if let Some(custom) = &definition.custom {
        return Some(&custom.resource);
    }
    definition.shipped.map(|shipped| shipped.resource)
}
