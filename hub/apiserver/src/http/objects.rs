//! Create, update and patch of one object, and one object as the answer.
//!
//! In: a call with its resource, and the body. Out: the written object with 200 or 201, in the client's form; the answer to what is not
//! stored (reviews, virtual resources); or a `Status`. The registry does the writing.

use bytes::Bytes;
use http::{Response, StatusCode};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::FieldManager;
use karmada_registry::{Operation, VirtualRequest, WriteOptions, Written};
use karmada_schema::object::{ObjectKey, Stored, meta};
use karmada_schema::yaml::Document;
use serde_json::Value;

use super::answer_body::Body;
use super::negotiation::AnswerFormat;
use super::patching::Patch;
use super::resource_call::ResourceCall;
use super::table::{self, Include};
use super::target::ResourcePath;
use super::write_options::{field_manager, manager_required};
use super::yaml;
use super::{ApiServer, Call, body, respond};

impl ApiServer {
    /// One object as the answer.
    pub(super) fn object(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        object: &Stored,
        format: AnswerFormat,
        code: StatusCode,
    ) -> Response<Body> {
        let include = Include::parse(call.query.get("includeObject"));
        let bytes = table::one(definition, object, format.shape, include, self.registry.now());
        respond::document(code, bytes, format)
    }

    pub(super) fn written(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        written: &Written,
        format: AnswerFormat,
    ) -> Response<Body> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.object(call, definition, &written.object, format, code)
    }

    pub(super) async fn create(
        &self,
        of: ResourceCall<'_, '_>,
        bytes: &Bytes,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let value = object_in(call, definition, bytes)?;
        names_its_type(definition, &value, bytes)?;
        if !definition.is_stored() {
            let mut value = value;
            karmada_kinds::decode(definition, &mut value)?;
            let (name, now) = (field_manager(call)?, self.registry.now_text());
            let manager = FieldManager { name: &name, subresource: "", now: &now, force: false };
            karmada_kinds::update_managed(definition, None, &mut value, manager);
            let options = self.write_options(call, "", &Bytes::new())?;
            let key = ObjectKey::new(&wanted.namespace, "");
            self.registry.admit_unstored(definition, &key, Operation::Create, &mut value, &options).await?;
            let answer = if definition.is_virtual {
                let asked =
                    VirtualRequest { definition, user: &call.user, namespace: &wanted.namespace, name: "" };
                self.registry.answer(&asked, value).await?
            } else {
                self.access.review(definition, &call.user, &wanted.namespace, value).await?
            };
            return Ok(respond::document(StatusCode::CREATED, answer.to_string().into(), format));
        }
        let options = self.write_options(call, "", bytes)?;
        let written = self.registry.create(definition, &wanted.namespace, value, &options).await?;
        Ok(self.written(call, definition, &written, format))
    }

    pub(super) async fn put(
        &self,
        of: ResourceCall<'_, '_>,
        value: Value,
        options: &WriteOptions,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        if meta::name(&value).is_empty() {
            // What cannot be read is refused as that.
            karmada_registry::field_validation::decode(definition, &mut value.clone(), options)?;
            return Err(Status::nameless(&key.name));
        }
        let creates = definition.row.creates_on_update && options.subresource.is_empty();
        let mut change = |_: Option<&Value>| Ok(value.clone());
        let written = if creates {
            self.registry.update_or_create(definition, &key, options, &mut change).await?
        } else {
            self.registry.update(definition, &key, options, &mut change).await?
        };
        Ok(self.written(call, definition, &written, format))
    }

    pub(super) async fn patch(
        &self,
        of: ResourceCall<'_, '_>,
        subresource: &str,
        bytes: &Bytes,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let patch = Patch::read(definition, body::media_type(call.headers), bytes)?;
        if let Patch::Apply(Document { twice: Some(twice), .. }) = &patch {
            match call.query.get("fieldValidation") {
                "Strict" => {
                    let why = format!(
                        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {twice}"
                    );
                    return Err(Status::bad_request(why));
                }
                "Ignore" => {}
                _ => call.warnings.add(twice.clone()),
            }
        }
        let mut options = self.write_options(call, subresource, bytes)?;
        options.applied = patch.is_apply();
        options.patch = patch.shown(|| go_text(bytes));
        if patch.is_apply() && call.query.get("fieldManager").is_empty() {
            return Err(manager_required());
        }
        if !patch.is_apply() && !call.query.all("force").is_empty() {
            let cause = karmada_definitions::status::Cause {
                reason: "FieldValueForbidden".into(),
                message: "Forbidden: may not be specified for non-apply patch".into(),
                field: "force".into(),
            };
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        let (name, now) = (options.field_manager.clone(), self.registry.now_text());
        let manager = FieldManager { name: &name, subresource, now: &now, force: call.query.flag("force") };
        let creates = patch.is_apply() && subresource.is_empty();
        let mut change = |live: Option<&Value>| patch.carry_out(definition, live, &key, manager);
        let written = if creates {
            self.registry.update_or_create(definition, &key, &options, &mut change).await?
        } else {
            self.registry.update(definition, &key, &options, &mut change).await?
        };
        Ok(self.written(call, definition, &written, format))
    }
}

/// A patch as Go's `%+v` prints it, which is how kube-apiserver names it.
fn go_text(patch: &Bytes) -> String {
    serde_json::from_slice(patch).map(|patch| karmada_schema::patch::go_print(&patch)).unwrap_or_default()
}

/// The object in a body. What cannot be told to be one is shown from its beginning.
pub(super) fn object_in(
    call: &Call<'_>,
    definition: &ResourceDefinition,
    raw: &Bytes,
) -> Result<Value, Status> {
    let (media, kind) = (body::media_type(call.headers), &definition.kind);
    let read = match media {
        "application/yaml" | "application/x-yaml" => yaml::read(raw).and_then(|document| match document.twice {
            Some(twice) if call.query.get("fieldValidation") == "Strict" => Err(Status::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: strict decoding error: yaml: unmarshal errors:\n  {twice}",
                definition.version
            ))),
            _ => Ok(document.value),
        }),
        _ => body::parse(media, raw),
    };
    read.map_err(|status| {
        if !status.message.starts_with("couldn't get version/kind") {
            return status;
        }
        let why = &status.message;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            body::summary(raw)
        ))
    })
}

/// A custom kind's body says what it is; a compiled kind's may leave that to the path.
pub(super) fn names_its_type(
    definition: &ResourceDefinition,
    object: &Value,
    raw: &Bytes,
) -> Result<(), Status> {
    if !definition.is_structural() {
        return Ok(());
    }
    let missing = [("kind", "Kind"), ("apiVersion", "apiVersion")]
        .into_iter()
        .find(|(field, _)| object[*field].as_str().is_none_or(str::is_empty));
    let Some((_, named)) = missing else { return Ok(()) };
    let body = String::from_utf8_lossy(raw);
    let short = body::summary(raw);
    Err(Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): Object '{named}' is missing in '{body}' ({short})",
        definition.kind
    )))
}

/// The namespace an object is stored under: none for cluster-scoped kinds (a Namespace's path names itself).
pub(super) fn namespace_of(definition: &ResourceDefinition, wanted: &ResourcePath) -> String {
    if definition.namespaced { wanted.namespace.clone() } else { String::new() }
}
