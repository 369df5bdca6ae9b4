//! Parts of objects: status, scale, finalize, token, approval, and those that need a node and so a member cluster.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::Value;

use super::form::{Form, Shape};
use super::objects::namespace_of;
use super::patching::Patch;
use super::respond::{self, Body};
use super::target::Wanted;
use super::{ApiServer, Call, body, scale};
use crate::conversion;
use crate::kinds;
use crate::object::{ObjectKey, meta};
use crate::resource::ResourceDefinition;
use crate::status::Status;

impl ApiServer {
    pub(super) async fn subresource<B>(
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
        let known = definition.subresource(&wanted.subresource).ok_or_else(Status::no_resource)?;
        let verb = match call.method {
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::POST => "create",
            Method::DELETE => "delete",
            _ => return Err(Status::method_not_allowed()),
        };
        if !known.verbs.iter().any(|v| &**v == verb) {
            return Err(Status::method_not_allowed());
        }
        let bytes = body::read(body).await?;
        match (&*wanted.subresource, verb) {
            ("scale", _) => self.scale(call, definition, wanted, form, &bytes).await,
            ("token", "create") => {
                let request = body::parse(body::media_type(call.headers), &bytes)?;
                let answer = self.access.token(&wanted.namespace, &wanted.name, request)?;
                Ok(respond::document(StatusCode::CREATED, answer.to_string().into(), form))
            }
            ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "get") => {
                let object =
                    self.registry.get(definition, &namespace_of(definition, wanted), &wanted.name)?;
                let object = self.registry.view(definition, vec![object]).await?.remove(0);
                Ok(self.object(call, definition, &object, form, StatusCode::OK))
            }
            ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "update") => {
                let value = body::parse(body::media_type(call.headers), &bytes)?;
                let options = self.write_options(call, &wanted.subresource, &bytes)?;
                self.put(call, definition, wanted, form, value, &options).await
            }
            ("status" | "approval" | "ephemeralcontainers" | "resize", "patch") => {
                self.patch(call, definition, wanted, form, &wanted.subresource, &bytes).await
            }
            ("eviction", "create") => self.evict(call, definition, wanted, form).await,
            _ => self.on_a_node(definition, wanted),
        }
    }

    async fn scale(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
        bytes: &Bytes,
    ) -> Result<Response<Body>, Status> {
        let paths = kinds::scale_paths(definition).ok_or_else(Status::no_resource)?;
        if call.method == Method::GET || call.method == Method::HEAD {
            let object = self.registry.get(definition, &wanted.namespace, &wanted.name)?;
            let object = self.registry.view(definition, vec![object]).await?.remove(0);
            let value = conversion::from_storage(definition, object.value());
            if let Some(problem) = kinds::unscalable(definition, &value) {
                return Err(Status::internal(problem));
            }
            return Ok(self.scale_answer(&scale::of(&paths, &value), form));
        }
        let media = body::media_type(call.headers);
        let patch = match call.method {
            Method::PATCH => Some(Patch::read(definition, media, bytes)?),
            _ => None,
        };
        let sent = if patch.is_none() { body::parse(media, bytes)? } else { Value::Null };
        let options = self.write_options(call, "scale", &Bytes::new())?;
        let key = ObjectKey::new(&wanted.namespace, &wanted.name);
        let (manager, now) = (options.field_manager.clone(), self.registry.now_text());
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(definition, &wanted.name))?;
            let scale = match &patch {
                None => sent.clone(),
                Some(Patch::Apply(_)) => {
                    return Err(Status::unsupported_media_type("application/merge-patch+json"));
                }
                Some(Patch::Strategic(bytes)) => kinds::merge_patch(&scale::of(&paths, live), bytes)?,
                Some(patch) => patch.carry_out(
                    definition,
                    Some(&scale::of(&paths, live)),
                    &key,
                    &manager,
                    false,
                    "scale",
                    &now,
                )?,
            };
            scale::set(definition, &paths, live, &scale)
        };
        let written = self.registry.update(definition, &key, &options, false, &mut change).await?;
        let value = conversion::from_storage(definition, written.object.value());
        Ok(self.scale_answer(&scale::of(&paths, &value), form))
    }

    fn scale_answer(&self, scale: &Value, form: Form) -> Response<Body> {
        let answer = match form.shape {
            Shape::Table => scale::table(scale, self.registry.now()),
            _ => scale.clone(),
        };
        respond::document(StatusCode::OK, answer.to_string().into(), form)
    }

    /// An eviction is a delete that asks first; on a hub no disruption budget counts Pods, so there is nothing to ask.
    async fn evict(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        wanted: &Wanted,
        form: Form,
    ) -> Result<Response<Body>, Status> {
        let key = ObjectKey::new(&wanted.namespace, &wanted.name);
        let options = self.write_options(call, "", &Bytes::new())?;
        let delete = crate::registry::DeleteOptions::default();
        self.registry.delete(definition, &key, &delete, &call.user, options.dry_run).await?;
        let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(respond::document(StatusCode::CREATED, status.to_string().into(), form))
    }

    /// Logs, exec and the like need the node that runs the Pod; a hub has none, and says what kube-apiserver says of a Pod
    /// that is not scheduled.
    fn on_a_node(&self, definition: &ResourceDefinition, wanted: &Wanted) -> Result<Response<Body>, Status> {
        let object = self.registry.get(definition, &namespace_of(definition, wanted), &wanted.name)?;
        let name = meta::name(&object.value()).to_owned();
        Err(Status::bad_request(format!(
            "{} {name} is not scheduled on a node of the hub: ask the member cluster that runs it",
            definition.singular
        )))
    }
}
