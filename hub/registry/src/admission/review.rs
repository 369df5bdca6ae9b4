//! A request as admission sees it: the `request` of an AdmissionReview and of expressions, the objects in the version that was
//! asked for.
//!
//! In: an [`AdmissionRequest`], the version it is shown in. Out: JSON; and the way back, from a changed object to the request's
//! own version.

use std::sync::Arc;

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::scale;
use karmada_schema::object::{Stored, encode, meta};
use serde_json::{Value, json};

use super::request_matching::operation;
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, How, Operation};
use crate::{prepare, storage};

/// What is shown: both objects, `null` where there is none.
pub(super) struct Shown {
    /// The object as it would be.
    pub(super) object: Value,
    /// The object as it is.
    pub(super) old: Value,
}

fn same_version(a: &ResourceDefinition, b: &ResourceDefinition) -> bool {
    a.group == b.group && a.version == b.version
}

/// An object of one version in another.
async fn convert(
    context: &RegistryContext,
    from: &ResourceDefinition,
    to: &ResourceDefinition,
    object: &Value,
) -> Result<Value, Status> {
    if same_version(from, to) {
        return Ok(object.clone());
    }
    let revision = meta::text(object, "resourceVersion").parse().unwrap_or(0);
    let stored = storage::store(context, from, object.clone()).await?;
    let bytes = encode(&stored, &from.kind, &from.storage_api_version());
    let stored = Stored::read(&bytes, revision).map(Arc::new).map_err(Status::internal)?;
    let viewed = context.view(to, vec![stored]).await?.remove(0);
    let mut out = storage::from_storage(to, viewed.value());
    if revision == 0 {
        meta::of(&mut out).remove("resourceVersion");
    }
    Ok(out)
}

/// The objects of a request as `seen` shows them; of a scale subresource, the Scales.
pub(super) async fn shown(
    context: &RegistryContext,
    request: &AdmissionRequest<'_>,
    seen: &ResourceDefinition,
) -> Result<Shown, Status> {
    if request.subresource == "scale"
        && let Some(paths) = scale::scale_paths(request.definition)
    {
        let old = request.old.map_or(Value::Null, |old| scale::scale_of(&paths, old));
        return Ok(Shown { object: scale::scale_of(&paths, request.object), old });
    }
    let now = convert(context, request.definition, seen, request.object).await?;
    if request.operation == Operation::Delete {
        return Ok(Shown { object: Value::Null, old: now });
    }
    let old = match request.old {
        Some(old) => convert(context, request.definition, seen, old).await?,
        None => Value::Null,
    };
    Ok(Shown { object: now, old })
}

/// Takes over an object that was changed in the version `seen`.
pub(super) async fn take(
    context: &RegistryContext,
    request: &mut AdmissionRequest<'_>,
    seen: &ResourceDefinition,
    changed: Value,
) -> Result<(), Status> {
    let definition = request.definition;
    let new = if request.subresource == "scale"
        && let Some(paths) = scale::scale_paths(definition)
    {
        scale::set(definition, &paths, request.object, &changed)?
    } else {
        convert(context, seen, definition, &changed).await?
    };
    let before = std::mem::replace(request.object, new);
    let is_part = definition.subresource(request.subresource).is_some_and(|sub| sub.kind != definition.kind);
    if is_part && request.subresource != "scale" {
        // What is posted to a part is of another kind, and nobody's to complete.
        return Ok(());
    }
    karmada_kinds::decode(definition, request.object)?;
    let metadata = meta::of(request.object);
    for kept in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        match before["metadata"].get(kept) {
            Some(value) => metadata.insert(kept.to_owned(), value.clone()),
            None => metadata.remove(kept),
        };
    }
    prepare::defaults(context, definition, request.object);
    if !definition.is_stored() {
        return Ok(());
    }
    match request.old {
        None => prepare::new_object(context, definition, request.object, request.user),
        Some(old) => {
            prepare::changed_object(
                definition,
                request.subresource,
                old,
                request.object,
                &context.now_text(),
            );
        }
    }
    Ok(())
}

/// Group, version and kind of what a request carries: its resource's, or its subresource's own.
fn kind_of(definition: &ResourceDefinition, subresource: &str) -> Value {
    match definition.subresource(subresource) {
        Some(sub) => json!({"group": &*sub.group, "version": &*sub.version, "kind": &*sub.kind}),
        None => {
            json!({"group": &*definition.group, "version": &*definition.version, "kind": &*definition.kind})
        }
    }
}

fn resource_of(definition: &ResourceDefinition) -> Value {
    json!({"group": &*definition.group, "version": &*definition.version, "resource": &*definition.plural})
}

/// `request`: all but the objects.
pub(super) fn about(request: &AdmissionRequest<'_>, seen: &ResourceDefinition, uid: &str) -> Value {
    let user = request.user;
    let mut who = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        who["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        who["extra"] = json!(user.extra);
    }
    let mut out = json!({
        "uid": uid,
        "kind": kind_of(seen, request.subresource),
        "resource": resource_of(seen),
        "requestKind": kind_of(request.definition, request.subresource),
        "requestResource": resource_of(request.definition),
        "name": &*request.key.name,
        "operation": operation(request.operation),
        "userInfo": who,
        "dryRun": request.how.dry_run(),
        "options": options(request),
    });
    if !request.subresource.is_empty() {
        out["subResource"] = json!(request.subresource);
        out["requestSubResource"] = json!(request.subresource);
    }
    let is_namespace = request.definition.row.known == BuiltinKind::Namespace;
    let namespace = if is_namespace { &request.key.name } else { &request.key.namespace };
    if !namespace.is_empty() {
        out["namespace"] = json!(&**namespace);
    }
    out
}

fn options(request: &AdmissionRequest<'_>) -> Value {
    if request.operation == Operation::Connect {
        return Value::Null;
    }
    let api_version = "meta.k8s.io/v1";
    let mut out = match request.how {
        How::Write(options) => {
            // A patch is an update by then, as in kube-apiserver.
            let created = request.operation == Operation::Create;
            let kind = if created { "CreateOptions" } else { "UpdateOptions" };
            let mut out = json!({"kind": kind, "apiVersion": api_version});
            if !options.field_manager.is_empty() {
                out["fieldManager"] = json!(options.field_manager);
            }
            out
        }
        How::Delete(options) => {
            let mut out = json!({"kind": "DeleteOptions", "apiVersion": api_version});
            if let Some(seconds) = options.grace_period_seconds {
                out["gracePeriodSeconds"] = json!(seconds);
            }
            if let Some(policy) = &options.propagation_policy {
                out["propagationPolicy"] = json!(policy);
            }
            out
        }
    };
    if request.how.dry_run() {
        out["dryRun"] = json!(["All"]);
    }
    out
}
