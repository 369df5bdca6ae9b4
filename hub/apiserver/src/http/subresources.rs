//! Parts of objects: status, scale, finalize, token, approval, and those that need a node, of which there is none here.
//!
//! In: a call with its resource and subresource, and the body. Out: the object, a Scale or a token; or a `Status`, 400 among them for what
//! only a node could answer.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::{ResourceDefinition, Subresource};
use karmada_definitions::status::Status;
use karmada_kinds::{FieldManager, conversion, scale};
use karmada_registry::Operation;
use karmada_schema::object::{ObjectKey, meta};
use serde_json::Value;

use super::answer_body::Body;
use super::body::Received;
use super::negotiation::{AnswerFormat, Shape};
use super::objects::namespace_of;
use super::patching::{self, Patch};
use super::request_checks::{check_type, require_namespace, require_namespace_of_update};
use super::resource_call::ResourceCall;
use super::target::ResourcePath;
use super::{ApiServer, Call, body, respond};

impl ApiServer {
    pub(super) async fn subresource(
        &self,
        of: ResourceCall<'_, '_>,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let known = definition.subresource(&wanted.subresource).ok_or_else(Status::no_resource)?;
        let verb = verb(call, known)?;
        if !wanted.rest.is_empty() && &*wanted.subresource != "proxy" {
            return Err(Status::no_resource());
        }
        if verb != "update" {
            require_namespace(wanted)?;
        }
        let bytes = body::read(body).await?;
        if verb == "update" {
            require_namespace_of_update(call, wanted, &bytes)?;
        }
        match (&*wanted.subresource, verb) {
            ("scale", _) => self.scale(of, &bytes).await,
            ("token", "create") => self.token(of, &bytes).await,
            ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "get") => {
                let object =
                    self.registry.get(definition, &namespace_of(definition, wanted), &wanted.name)?;
                let object = self.registry.view(definition, vec![object]).await?.remove(0);
                Ok(self.object(call, definition, &object, format, StatusCode::OK))
            }
            ("status" | "finalize" | "approval" | "ephemeralcontainers" | "resize", "update") => {
                let value = body::parse(body::media_type(call.headers), &bytes)?;
                let options = self.write_options(call, &wanted.subresource, &bytes)?;
                self.put(of, value, &options).await
            }
            ("status" | "approval" | "ephemeralcontainers" | "resize", "patch") => {
                self.patch(of, &wanted.subresource, &bytes).await
            }
            ("eviction", "create") => {
                let eviction = part(call, definition, wanted, "Eviction", "policy", &bytes)?;
                self.evict(of, eviction).await
            }
            ("binding", "create") => self.bound(of, &bytes).await,
            ("exec" | "attach" | "portforward" | "proxy", _) => {
                self.admit_connection(call, definition, wanted).await?;
                self.on_a_node(call, definition, wanted)
            }
            _ => self.on_a_node(call, definition, wanted),
        }
    }

    /// A token of a ServiceAccount, as asked for.
    async fn token(&self, of: ResourceCall<'_, '_>, bytes: &Bytes) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let mut request = body::parse(body::media_type(call.headers), bytes)?;
        let manager = super::write_options::field_manager(call)?;
        karmada_kinds::prepare_token_request(&mut request, &manager, &self.registry.now_text());
        let options = self.write_options(call, "token", &Bytes::new())?;
        let key = ObjectKey::new(&wanted.namespace, &wanted.name);
        self.registry.admit_unstored(definition, &key, Operation::Create, &mut request, &options).await?;
        let answer = self.access.token(&wanted.namespace, &wanted.name, request)?;
        Ok(respond::document(StatusCode::CREATED, answer.to_string().into(), format))
    }

    /// A Binding that was posted to its Pod.
    async fn bound(&self, of: ResourceCall<'_, '_>, bytes: &Bytes) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let mut binding = part(call, definition, wanted, "Binding", "core", bytes)?;
        let options = self.write_options(call, "binding", &Bytes::new())?;
        let key = ObjectKey::new(&wanted.namespace, &wanted.name);
        let registry = &self.registry;
        registry.admit_unstored(definition, &key, Operation::Create, &mut binding, &options).await?;
        self.bind(call, definition, &wanted.namespace, format, &binding).await
    }

    async fn scale(&self, of: ResourceCall<'_, '_>, bytes: &Bytes) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let paths = scale::scale_paths(definition).ok_or_else(Status::no_resource)?;
        if call.method == Method::GET || call.method == Method::HEAD {
            let object = self.registry.get(definition, &wanted.namespace, &wanted.name)?;
            let object = self.registry.view(definition, vec![object]).await?.remove(0);
            let value = conversion::from_storage(definition, object.value());
            if let Some(problem) = scale::unscalable(definition, &value) {
                return Err(Status::internal(problem));
            }
            return Ok(self.scale_answer(&scale::scale_of(&paths, &value), format));
        }
        let media = body::media_type(call.headers);
        let patch = match call.method {
            Method::PATCH => Some(Patch::read(definition, media, bytes)?),
            _ => None,
        };
        let sent = match &patch {
            None => {
                let sent = body::parse(media, bytes)?;
                is_a(&sent, "Scale", "autoscaling")?;
                let name = meta::name(&sent);
                if !name.is_empty() && *name != *wanted.name {
                    return Err(Status::misnamed(name, &wanted.name));
                }
                sent
            }
            Some(_) => Value::Null,
        };
        let mut options = self.write_options(call, "scale", &Bytes::new())?;
        options.applied = patch.as_ref().is_some_and(Patch::is_apply);
        if options.applied && call.query.get("fieldManager").is_empty() {
            return Err(super::write_options::manager_required());
        }
        let key = ObjectKey::new(&wanted.namespace, &wanted.name);
        let (name, now) = (options.field_manager.clone(), self.registry.now_text());
        let force = call.query.flag("force");
        let manager = FieldManager { name: &name, subresource: "scale", now: &now, force };
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(definition, &wanted.name))?;
            let scale = match &patch {
                None => sent.clone(),
                Some(Patch::Apply(applied)) => {
                    return scale::apply(definition, &paths, live, &applied.value, manager);
                }
                Some(Patch::Strategic(bytes)) => patching::merge(&scale::scale_of(&paths, live), bytes)?,
                Some(patch) => {
                    patch.carry_out(definition, Some(&scale::scale_of(&paths, live)), &key, manager)?
                }
            };
            scale::set(definition, &paths, live, &scale)
        };
        let written = self.registry.update(definition, &key, &options, &mut change).await?;
        let value = conversion::from_storage(definition, written.object.value());
        Ok(self.scale_answer(&scale::scale_of(&paths, &value), format))
    }

    fn scale_answer(&self, scale: &Value, format: AnswerFormat) -> Response<Body> {
        let answer = match format.shape {
            Shape::Table(meta) => super::scale_table::table(scale, meta, self.registry.now()),
            _ => scale.clone(),
        };
        respond::document(StatusCode::OK, answer.to_string().into(), format)
    }

    /// Asks webhooks and policies about a connection, with its options as they see them.
    pub(super) async fn admit_connection(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        wanted: &ResourcePath,
    ) -> Result<(), Status> {
        let Some(part) = definition.subresource(&wanted.subresource) else { return Ok(()) };
        let mut options = serde_json::json!({"kind": &*part.kind, "apiVersion": "v1"});
        for flag in ["stdin", "stdout", "stderr", "tty"] {
            if !call.query.all(flag).is_empty() {
                options[flag] = Value::from(call.query.flag(flag));
            }
        }
        if !call.query.get("container").is_empty() {
            options["container"] = Value::from(call.query.get("container"));
        }
        let command: Vec<Value> = call.query.all("command").into_iter().map(Value::from).collect();
        if !command.is_empty() {
            options["command"] = Value::from(command);
        }
        if &*wanted.subresource == "proxy" && !wanted.rest.is_empty() {
            options["path"] = Value::from(format!("/{}", wanted.rest));
        }
        let mut write = self.write_options(call, &wanted.subresource, &Bytes::new())?;
        write.dry_run = false;
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        self.registry.admit_unstored(definition, &key, Operation::Connect, &mut options, &write).await
    }

    /// Logs, exec and the like need the node that runs the Pod; a hub has none, and says what kube-apiserver says of a Pod
    /// that is not scheduled.
    fn on_a_node(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        wanted: &ResourcePath,
    ) -> Result<Response<Body>, Status> {
        let object = self.registry.get(definition, &namespace_of(definition, wanted), &wanted.name)?;
        let object = object.value();
        let name = meta::name(&object).to_owned();
        let scheduled = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if definition.row.known == BuiltinKind::Pod && &*wanted.subresource == "log" {
            contained(&object, call.query.get("container"))?;
            if !scheduled {
                let mut response = respond::text("");
                *response.status_mut() = StatusCode::NO_CONTENT;
                response.headers_mut().remove(http::header::CONTENT_TYPE);
                response.headers_mut().remove("x-content-type-options");
                return Ok(response);
            }
        }
        if definition.row.known == BuiltinKind::Pod
            && !scheduled
            && matches!(&*wanted.subresource, "exec" | "attach" | "portforward")
        {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        Err(Status::bad_request(format!(
            "{} {name} is not scheduled on a node that this server reaches: ask the cluster that runs it",
            definition.singular
        )))
    }
}

/// The verb of a request to a part of an object, where it has that verb.
pub(super) fn verb(call: &Call<'_>, part: &Subresource) -> Result<&'static str, Status> {
    let verb = match call.method {
        Method::GET | Method::HEAD => "get",
        Method::OPTIONS if &*part.name == "proxy" => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::POST => "create",
        Method::DELETE => "delete",
        _ => return Err(Status::method_not_allowed()),
    };
    match part.verbs.iter().any(|known| &**known == verb) {
        true => Ok(verb),
        false => Err(Status::method_not_allowed()),
    }
}

/// The object that is posted to a part, which names the object it is a part of.
fn part(
    call: &Call<'_>,
    definition: &ResourceDefinition,
    wanted: &ResourcePath,
    kind: &str,
    package: &str,
    bytes: &Bytes,
) -> Result<Value, Status> {
    let mut sent = super::objects::object_in(call, definition, bytes)?;
    is_a(&sent, kind, package)?;
    check_type(&mut sent, kind, if package == "core" { "" } else { package })?;
    if *meta::name(&sent) != *wanted.name {
        return Err(Status::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    Ok(sent)
}

/// Refuses an object of another kind.
fn is_a(sent: &Value, wanted: &str, package: &str) -> Result<(), Status> {
    let (kind, version) = (sent["kind"].as_str().unwrap_or(""), sent["apiVersion"].as_str().unwrap_or(""));
    if kind.is_empty() || kind == wanted {
        return Ok(());
    }
    let version = version.rsplit('/').next().unwrap_or("");
    Err(Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {wanted}: converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
    )))
}

/// Whether the container whose log is wanted is one of the Pod's; the only one need not be named.
fn contained(pod: &Value, wanted: &str) -> Result<(), Status> {
    let names = |field: &str| -> Vec<&str> {
        let all = pod["spec"][field].as_array().into_iter().flatten();
        all.filter_map(|container| container["name"].as_str()).collect()
    };
    let (name, main) = (meta::name(pod), names("containers"));
    if wanted.is_empty() {
        if main.len() == 1 {
            return Ok(());
        }
        return Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            main.join(" ")
        )));
    }
    let known =
        ["initContainers", "ephemeralContainers"].into_iter().any(|field| names(field).contains(&wanted));
    if known || main.contains(&wanted) {
        return Ok(());
    }
    Err(Status::bad_request(format!("container {wanted} is not valid for pod {name}")))
}
