//! A patch request, read once and carried out on whatever the live object is when its turn comes.
//!
//! In: a body with its media type; then, at each try, the live object and who patches. Out: the object as the patch makes it, still to be
//! defaulted and validated; or a `Status`. Pure.

use bytes::Bytes;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::FieldManager;
use karmada_registry::PatchShown;
use karmada_schema::object::{ObjectKey, meta};
use karmada_schema::patch::{self, PatchError};
use karmada_schema::yaml::Document;
use serde_json::Value;

use super::yaml;

/// A patch of one of Kubernetes' patch types.
pub(super) enum Patch {
    Json(Bytes),
    Merge(Bytes),
    Strategic(Bytes),
    Apply(Document),
}

const CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Patch {
    /// Reads a patch body by its media type; a type that the kind does not take is a 415 that lists those it does.
    pub(super) fn read(definition: &ResourceDefinition, media: &str, bytes: &Bytes) -> Result<Patch, Status> {
        let strategic = definition.schema().is_some() && !definition.is_structural();
        match media {
            "application/json-patch+json" => Ok(Patch::Json(bytes.clone())),
            "application/merge-patch+json" => Ok(Patch::Merge(bytes.clone())),
            "application/strategic-merge-patch+json" if strategic => Ok(Patch::Strategic(bytes.clone())),
            "application/apply-patch+yaml" => yaml::read(bytes).map(Patch::Apply).map_err(|mut status| {
                status.message.insert_str(0, "error decoding YAML: ");
                status
            }),
            _ if definition.is_structural() => Err(Status::unsupported_media_type(CUSTOM)),
            _ => Err(Status::routed(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
        }
    }

    pub(super) fn is_apply(&self) -> bool {
        matches!(self, Patch::Apply(_))
    }

    /// How refusals show the patch; `text` is its own, as Go prints it.
    pub(super) fn shown(&self, text: impl FnOnce() -> String) -> PatchShown {
        match self {
            Patch::Apply(_) => PatchShown::None,
            Patch::Strategic(_) => PatchShown::Itself(text()),
            Patch::Json(_) | Patch::Merge(_) => PatchShown::Outcome,
        }
    }

    /// What the patch makes of the live object.
    pub(super) fn carry_out(
        &self,
        definition: &ResourceDefinition,
        live: Option<&Value>,
        key: &ObjectKey,
        manager: FieldManager<'_>,
    ) -> Result<Value, Status> {
        match (self, live) {
            (Patch::Apply(document), live) => {
                let mut object = document.value.clone();
                named(definition, key, &mut object)?;
                if live.is_none() && meta::name(&object).is_empty() {
                    return Err(Status::nameless(&key.name));
                }
                let uid = meta::text(&object, "uid").to_owned();
                if live.is_none() && !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Status::conflict_because(definition, &key.name, &why));
                }
                if live.is_none() {
                    meta::of(&mut object).remove("resourceVersion");
                }
                karmada_kinds::apply(definition, live, &object, manager)
            }
            (_, None) => Err(Status::not_found(definition, &key.name)),
            (Patch::Json(bytes), Some(live)) => patch::json_patch(live, bytes).map_err(refused),
            (Patch::Merge(bytes), Some(live)) => merge(live, bytes),
            (Patch::Strategic(bytes), Some(live)) => {
                let schema = definition.schema().ok_or_else(Status::no_resource)?;
                patch::strategic_patch(schema, live, bytes).map_err(refused)
            }
        }
    }
}

/// Carries out a merge patch.
pub(super) fn merge(live: &Value, body: &Bytes) -> Result<Value, Status> {
    patch::merge_patch(live, body).map_err(refused)
}

fn refused(error: PatchError) -> Status {
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

/// An applied object names itself as the path does, or not at all.
fn named(definition: &ResourceDefinition, key: &ObjectKey, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        let what = karmada_schema::go_kind(object);
        if !object.is_null() {
            return Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
            )));
        }
        *object = serde_json::json!({});
    }
    let (kind, version) =
        (object["kind"].as_str().unwrap_or(""), object["apiVersion"].as_str().unwrap_or(""));
    if version != definition.api_version() || *kind != *definition.kind {
        let slash = if version.contains('/') { "" } else { "/" };
        return Err(Status::bad_request(format!("invalid object type: {slash}{version}, Kind={kind}")));
    }
    let name = meta::name(object);
    if !name.is_empty() && *name != *key.name {
        return Err(Status::misnamed(name, &key.name));
    }
    let metadata = meta::of(object);
    if metadata.contains_key("managedFields") {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}
