//! Get, create, update, patch and delete of one object, and delete of many.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::body;
use super::form::Form;
use super::patching::Patch;
use super::respond::{self, Body};
use super::table::{self, Include};
use super::target::Wanted;
use super::{ApiServer, Call, list};
use crate::kinds;
use crate::object::{ObjectKey, Stored};
use crate::registry::strategy;
use crate::registry::{
    DeleteOptions, Deleted, FieldValidation, Operation, PatchShown, WriteOptions, Written,
};
use crate::resource::ResourceDefinition;
use crate::status::Status;

/// An apply names who applies.
pub(super) fn manager_required() -> Status {
    required("PatchOptions", "fieldManager", "is required for apply patch")
}

impl ApiServer {
    /// Any request on a resource.
    pub(super) async fn resource<B>(
        &self,
        call: &Call<'_>,
        wanted: &Wanted,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let catalogue = self.registry.catalogue();
        let definition = catalogue.resource(&wanted.group, &wanted.version, &wanted.plural);
        let definition = definition.ok_or_else(|| super::discovery::unserved(&catalogue, &wanted.group))?;
        if wanted.name.contains('/') {
            return Err(Status::no_resource());
        }
        if call.method == Method::HEAD && !definition.is_structural() {
            return Err(Status::method_not_allowed());
        }
        check_scope(definition, wanted)?;
        if let Some(warning) = definition.custom.as_ref().and_then(|custom| custom.warning.clone()) {
            call.warnings.add(warning);
        }
        let is_list = wanted.name.is_empty() && matches!(call.method, Method::GET | Method::HEAD);
        let form = Form::choose(call.headers).map_err(|status| match definition.is_structural() {
            true => status,
            false => super::form::routed(call.headers, is_list).unwrap_or(status),
        })?;
        if form.shape == super::form::Shape::Table {
            Include::check(call.query.get("includeObject"))?;
        }
        if !wanted.subresource.is_empty() {
            return self.subresource(call, definition, wanted, form, body).await;
        }
        let one = !wanted.name.is_empty();
        if definition.namespaced
            && wanted.namespace.is_empty()
            && !matches!(call.method, Method::GET | Method::HEAD)
        {
            // Across namespaces there is only looking.
            return match definition.is_structural() && call.method == Method::POST {
                true => Err(Status::no_page()),
                false => Err(Status::method_not_allowed()),
            };
        }
        // One object is got, whatever the query says: a watch of it is a watch of the collection with a field selector.
        let watch = (call.query.flag("watch") && !one) || wanted.watch;
        let verb = match call.method {
            Method::GET | Method::HEAD if watch => "watch",
            Method::GET | Method::HEAD => {
                if one {
                    "get"
                } else {
                    "list"
                }
            }
            // A custom kind's path may name an object all the same.
            Method::POST if !one || definition.is_structural() => "create",
            Method::PUT if one => "update",
            Method::PATCH if one => "patch",
            Method::DELETE => {
                if one {
                    "delete"
                } else {
                    "deletecollection"
                }
            }
            // Their handler knows no collection where one object is replaced.
            Method::PUT if definition.is_structural() => {
                return Err(Status::bad_request("name must be provided"));
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let ending = definition.custom.as_ref().is_some_and(|custom| custom.crd.terminating);
        if ending && verb == "create" {
            let value = body::parse(body::media_type(call.headers), &body::read(body).await?)?;
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(definition, crate::object::meta::name(&value), why));
        }
        // At its end a kind announces less than it still takes: whoever holds an object must be able to let it go.
        if !definition.allows(verb) && !ending {
            return Err(Status::method_not_allowed());
        }
        let old = strategy::deprecation(&wanted.group, &wanted.version, &wanted.plural);
        old.into_iter().for_each(|text| call.warnings.add(text.to_owned()));
        if matches!(verb, "get" | "list") && form.of_list.is_some() {
            if verb == "get" {
                self.registry.get(definition, &namespace_of(definition, wanted), &wanted.name)?;
            }
            let go_type = match definition.is_structural() {
                true => "unstructured.Unstructured".to_owned(),
                false => format!("{}.{}", strategy::package(definition), definition.kind),
            };
            form.fits(verb == "list", &go_type)?;
        }
        if verb == "create" && definition.group.is_empty() && &*definition.plural == "bindings" {
            let binding = object_in(call, definition, &body::read(body).await?)?;
            let pods = catalogue.resource("", "v1", "pods").ok_or_else(Status::no_resource)?;
            return self.bind(call, pods, &wanted.namespace, form, &binding).await;
        }
        match verb {
            "watch" => self.watch(call, definition, wanted, form).await,
            "list" => self.list(call, definition, wanted, form).await,
            "get" => {
                super::options::version(&call.query)?;
                let object =
                    self.registry.get(definition, &namespace_of(definition, wanted), &wanted.name)?;
                let object = self.registry.view(definition, vec![object]).await?.remove(0);
                Ok(self.object(call, definition, &object, form, StatusCode::OK))
            }
            "create" => self.create(call, definition, wanted, form, body).await,
            "update" => {
                let bytes = body::read(body).await?;
                let value = object_in(call, definition, &bytes)?;
                names_its_type(definition, &value, &bytes)?;
                let options = self.write_options(call, "", &bytes)?;
                self.put(call, definition, wanted, form, value, &options).await
            }
            "patch" => {
                let bytes = body::read(body).await?;
                self.patch(call, definition, wanted, form, "", &bytes).await
            }
            "delete" => self.delete(call, definition, wanted, form, body).await,
            _ => self.delete_collection(call, definition, wanted, form, body).await,
        }
    }

    /// One object as the answer.
    pub(super) fn object(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        object: &Stored,
        form: Form,
        code: StatusCode,
    ) -> Response<Body> {
        let include = Include::parse(call.query.get("includeObject"));
        let bytes = table::one(definition, object, form.shape, include, self.registry.now());
        respond::document(code, bytes, form)
    }

    pub(super) fn written(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        written: &Written,
        form: Form,
    ) -> Response<Body> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.object(call, definition, &written.object, form, code)
    }

    /// Reads how a write is to be made from the query, and problems of the raw body.
    pub(super) fn write_options(
        &self,
        call: &Call<'_>,
        subresource: &str,
        raw: &Bytes,
    ) -> Result<WriteOptions, Status> {
        let field_validation = match call.query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let shown = format!("\"{other}\"");
                let known = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                return Err(unsupported(options_kind(call), "fieldValidation", &shown, known));
            }
        };
        let dry_run = dry_run(call)?;
        let body_problems = match field_validation {
            FieldValidation::Ignore => Vec::new(),
            _ => kinds::duplicate_fields(raw),
        };
        Ok(WriteOptions {
            user: call.user.clone(),
            field_manager: field_manager(call)?,
            dry_run,
            field_validation,
            subresource: subresource.to_owned(),
            body_problems,
            patch: PatchShown::None,
            applied: false,
            warnings: call.warnings.clone(),
        })
    }

    async fn create<B>(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let bytes = body::read(body).await?;
        let value = object_in(call, definition, &bytes)?;
        names_its_type(definition, &value, &bytes)?;
        if !definition.is_stored() {
            let mut value = value;
            kinds::decode(definition, &mut value)?;
            let (manager, now) = (field_manager(call)?, self.registry.now_text());
            kinds::update_managed(definition, None, &mut value, &manager, "", &now);
            let options = self.write_options(call, "", &Bytes::new())?;
            let key = ObjectKey::new(&wanted.namespace, "");
            self.registry.admit_unstored(definition, &key, Operation::Create, &mut value, &options).await?;
            let answer = self.access.review(definition, &call.user, &wanted.namespace, value).await?;
            return Ok(respond::document(StatusCode::CREATED, answer.to_string().into(), form));
        }
        let options = self.write_options(call, "", &bytes)?;
        let written = self.registry.create(definition, &wanted.namespace, value, &options).await?;
        Ok(self.written(call, definition, &written, form))
    }

    pub(super) async fn put(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
        value: Value,
        options: &WriteOptions,
    ) -> Result<Response<Body>, Status> {
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        let creates = strategy::creates_on_update(definition) && options.subresource.is_empty();
        let written =
            self.registry.update(definition, &key, options, creates, &mut |_| Ok(value.clone())).await?;
        Ok(self.written(call, definition, &written, form))
    }

    pub(super) async fn patch(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
        subresource: &str,
        bytes: &Bytes,
    ) -> Result<Response<Body>, Status> {
        let patch = Patch::read(definition, body::media_type(call.headers), bytes)?;
        let mut options = self.write_options(call, subresource, bytes)?;
        options.applied = patch.is_apply();
        options.patch = patch.shown(|| go_text(bytes));
        if patch.is_apply() && call.query.get("fieldManager").is_empty() {
            return Err(manager_required());
        }
        if !patch.is_apply() && !call.query.all("force").is_empty() {
            let cause = crate::status::Cause {
                reason: "FieldValueForbidden".into(),
                message: "Forbidden: may not be specified for non-apply patch".into(),
                field: "force".into(),
            };
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        let force = call.query.flag("force");
        let (manager, now) = (options.field_manager.clone(), self.registry.now_text());
        let creates = patch.is_apply() && subresource.is_empty();
        let mut change = |live: Option<&Value>| {
            patch.carry_out(definition, live, &key, &manager, force, subresource, &now)
        };
        let written = self.registry.update(definition, &key, &options, creates, &mut change).await?;
        Ok(self.written(call, definition, &written, form))
    }

    async fn delete<B>(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let mut options = delete_options(call, body).await?;
        options.warnings = call.warnings.clone();
        warn_of_pods(call, definition, &options);
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        let dry = !options.dry_run.is_empty();
        match self.registry.delete(definition, &key, &options, &call.user, dry).await? {
            Deleted::Pending(object) => {
                let object = self.registry.view(definition, vec![object]).await?.remove(0);
                Ok(self.object(call, definition, &object, form, StatusCode::OK))
            }
            Deleted::Gone(object) if strategy::returns_deleted(definition) => {
                Ok(self.object(call, definition, &object, form, StatusCode::OK))
            }
            Deleted::Gone(object) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details(definition, &object),
                });
                Ok(respond::document(StatusCode::OK, status.to_string().into(), form))
            }
        }
    }

    async fn delete_collection<B>(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
        body: B,
    ) -> Result<Response<Body>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: std::fmt::Display,
    {
        let mut options = delete_options(call, body).await?;
        options.warnings = call.warnings.clone();
        warn_of_pods(call, definition, &options);
        let selector = list::selector(definition, &call.query)?;
        let dry = !options.dry_run.is_empty();
        let shard = self.registry.cache().shard(&definition.storage);
        let revision = self.registry.cache().revision();
        let (found, _) = shard.list(&wanted.namespace, None, 0, &|object| selector.matches(object));
        for object in &found {
            match self.registry.delete(definition, &object.key, &options, &call.user, dry).await {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        // The answer is what was found, as it was found.
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if definition.is_structural() {
            metadata["continue"] = json!("");
        }
        Ok(self.render(call, definition, &found, &metadata, form))
    }
}

const JOB_PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                             remove them or set propagationPolicy=Orphan to suppress this warning";

/// Who deletes a Job and does not say what becomes of its Pods is told.
fn warn_of_pods(call: &Call<'_>, definition: &ResourceDefinition, options: &DeleteOptions) {
    let is_job = &*definition.group == "batch" && &*definition.plural == "jobs";
    if is_job && options.propagation_policy.is_none() && options.orphan_dependents.is_none() {
        call.warnings.add(JOB_PODS_STAY.to_owned());
    }
}

/// A patch as Go's `%+v` prints it, which is how kube-apiserver names it.
fn go_text(patch: &Bytes) -> String {
    serde_json::from_slice(patch).map(|patch| crate::patch::go_print(&patch)).unwrap_or_default()
}

/// A custom kind's body says what it is; a compiled kind's may leave that to the path.
/// The object in a body. What cannot be told to be one is shown from its beginning.
pub(super) fn object_in(
    call: &Call<'_>,
    definition: &ResourceDefinition,
    raw: &Bytes,
) -> Result<Value, Status> {
    body::parse(body::media_type(call.headers), raw).map_err(|status| {
        if !status.message.starts_with("couldn't get version/kind") {
            return status;
        }
        let kind = &definition.kind;
        let why = &status.message;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            body::summary(raw)
        ))
    })
}

fn names_its_type(definition: &ResourceDefinition, object: &Value, raw: &Bytes) -> Result<(), Status> {
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

/// Namespaced paths are for namespaced resources, and one object of those is reached through its namespace only.
fn check_scope(definition: &ResourceDefinition, wanted: &Wanted) -> Result<(), Status> {
    let is_namespace = definition.group.is_empty() && *definition.plural == *"namespaces";
    let in_namespace = !wanted.namespace.is_empty();
    let fits = match (definition.namespaced, in_namespace) {
        (true, true) => true,
        (true, false) => wanted.name.is_empty(),
        (false, true) => is_namespace,
        (false, false) => true,
    };
    if fits { Ok(()) } else { Err(Status::no_resource()) }
}

/// The namespace an object is stored under: none for cluster-scoped kinds (a Namespace's path names itself).
pub(super) fn namespace_of(definition: &ResourceDefinition, wanted: &Wanted) -> String {
    if definition.namespaced { wanted.namespace.clone() } else { String::new() }
}

/// The longest name of a field manager.
const MAX_MANAGER: usize = 128;

/// Who writes: as named, or the first word of the client's own name.
pub(super) fn field_manager(call: &Call<'_>) -> Result<String, Status> {
    let named = call.query.get("fieldManager");
    if named.chars().count() > MAX_MANAGER {
        let cause = crate::status::Cause {
            reason: "FieldValueTooLong".into(),
            message: format!("Too long: may not be more than {MAX_MANAGER} bytes"),
            field: "fieldManager".into(),
        };
        return Err(Status::invalid("meta.k8s.io", options_kind(call), "", vec![cause]));
    }
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let agent = call.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("unknown");
    Ok(agent.split('/').next().unwrap_or(agent).chars().take(MAX_MANAGER).collect())
}

/// What the query's options are called of this method.
fn options_kind(call: &Call<'_>) -> &'static str {
    match call.method {
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => "DeleteOptions",
        _ => "CreateOptions",
    }
}

fn dry_run(call: &Call<'_>) -> Result<bool, Status> {
    match call.query.all("dryRun").as_slice() {
        [] => Ok(false),
        all if all.iter().all(|one| *one == "All") => Ok(true),
        other => Err(unsupported(options_kind(call), "dryRun", &json!(other).to_string(), "\"All\"")),
    }
}

fn unsupported(kind: &str, field: &str, value: &str, known: &str) -> Status {
    let cause = crate::status::Cause {
        reason: "FieldValueNotSupported".into(),
        message: format!("Unsupported value: {value}: supported values: {known}"),
        field: field.to_owned(),
    };
    Status::invalid("meta.k8s.io", kind, "", vec![cause])
}

fn required(kind: &str, field: &str, why: &str) -> Status {
    let cause = crate::status::Cause {
        reason: "FieldValueRequired".into(),
        message: format!("Required value: {why}"),
        field: field.to_owned(),
    };
    Status::invalid("meta.k8s.io", kind, "", vec![cause])
}

async fn delete_options<B>(call: &Call<'_>, body: B) -> Result<DeleteOptions, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let bytes = body::read(body).await?;
    let mut options: DeleteOptions = if bytes.is_empty() {
        DeleteOptions::default()
    } else {
        // What cannot be read at all is nobody's fault in particular: so kube-apiserver has it.
        let value =
            body::parse(body::media_type(call.headers), &bytes).map_err(|status| match status.code {
                400 => Status { code: 500, reason: "".into(), ..status },
                _ => status,
            })?;
        if value["kind"].as_str().is_some_and(|kind| kind != "DeleteOptions") {
            return Err(Status::unforeseen(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:110\"",
                value["kind"], value["apiVersion"]
            )));
        }
        serde_json::from_value(value).map_err(|error| unread_options(&bytes, &error))?
    };
    if !bytes.is_empty() {
        // A body says it all: the query is not looked at.
        return Ok(options);
    }
    let query = &call.query;
    if dry_run(call)? {
        options.dry_run = vec!["All".to_owned()];
    }
    if let Some(seconds) = super::options::number(query, "gracePeriodSeconds")? {
        options.grace_period_seconds = Some(seconds);
    }
    if !query.get("propagationPolicy").is_empty() {
        options.propagation_policy = Some(query.get("propagationPolicy").to_owned());
    }
    if !query.all("orphanDependents").is_empty() {
        options.orphan_dependents = Some(query.flag("orphanDependents"));
    }
    Ok(options)
}

/// Options that cannot be read: kube-apiserver passes on its decoder's words.
fn unread_options(raw: &Bytes, error: &serde_json::Error) -> Status {
    let value: Value = serde_json::from_slice(raw).unwrap_or(Value::Null);
    let wrong =
        [("gracePeriodSeconds", "int64"), ("propagationPolicy", "string"), ("orphanDependents", "bool")]
            .into_iter()
            .find(|(field, go)| match (&value[*field], *go) {
                (Value::Null, _) => false,
                (found, "int64") => !found.is_i64(),
                (found, "bool") => !found.is_boolean(),
                (found, _) => !found.is_string(),
            });
    Status::unforeseen(match wrong {
        Some((field, go)) => {
            let what = crate::schema::go_kind(&value[field]);
            let go = if field == "propagationPolicy" { "v1.DeletionPropagation" } else { go };
            format!("json: cannot unmarshal {what} into Go struct field DeleteOptions.{field} of type {go}")
        }
        None => error.to_string(),
    })
}

fn details(definition: &ResourceDefinition, object: &Stored) -> Value {
    let mut details = json!({"name": &*object.key.name, "kind": &*definition.plural, "uid": &*object.uid});
    if !definition.group.is_empty() {
        details["group"] = json!(&*definition.group);
    }
    details
}
