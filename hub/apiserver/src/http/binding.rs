//! Binding: a Pod is given its node.
//!
//! In: a Binding that was posted, to the Pod or to the collection of bindings. Out: the Pod with its node and the condition that
//! says so, or the refusal of kube-apiserver.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_registry::preconditions;
use karmada_schema::object::{ObjectKey, meta};
use karmada_schema::path::Path;
use karmada_schema::{FieldError, condition};
use serde_json::{Value, json};

use super::answer_body::Body;
use super::negotiation::AnswerFormat;
use super::{ApiServer, Call, respond};

impl ApiServer {
    /// Gives a Pod its node, whoever schedules it: once.
    pub(super) async fn bind(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        namespace: &str,
        format: AnswerFormat,
        binding: &Value,
    ) -> Result<Response<Body>, Status> {
        judge_target(binding)?;
        let name = meta::name(binding);
        let mut options = self.write_options(call, "binding", &Bytes::new())?;
        // Nobody owns a Pod's place.
        options.applied = true;
        let key = ObjectKey::new(namespace, name);
        // What refusals call it.
        let bindings = ResourceDefinition { plural: "pods/binding".into(), ..(**definition).clone() };
        let dry_run = options.dry_run;
        let now = self.registry.now_text();
        let mut change = |live: Option<&Value>| {
            let mut pod = live.cloned().ok_or_else(|| Status::not_found(definition, name))?;
            let asked = meta::text(binding, "uid");
            if !asked.is_empty() && asked != meta::text(&pod, "uid") {
                let uid = meta::text(&pod, "uid");
                return Err(preconditions::another_uid(definition, &key, asked, uid, dry_run));
            }
            if let Some(why) = not_bindable(name, &pod) {
                return Err(Status::conflict_because(&bindings, name, &why));
            }
            assign(&mut pod, binding, &now);
            Ok(pod)
        };
        self.registry.update(definition, &key, &options, &mut change).await?;
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(respond::document(StatusCode::CREATED, status.to_string().into(), format))
    }
}

/// What a Binding names must be a node.
fn judge_target(binding: &Value) -> Result<(), Status> {
    let text = |field: &str| binding["target"][field].as_str().unwrap_or_default();
    let (path, mut errors) = (Path::field("target"), Vec::new());
    if !matches!(text("kind"), "" | "Node") {
        errors.push(FieldError::not_supported(&path.child("kind"), text("kind"), &["Node", "<empty>"]));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    // No object is named: so kube-apiserver answers.
    Err(Status::unforeseen(FieldError::aggregate(&errors)))
}

/// Why the Pod of this name is given no node now.
fn not_bindable(name: &str, pod: &Value) -> Option<String> {
    if meta::deleting(pod) {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Some(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    None
}

/// Gives the Pod its node and what the Binding marks it with, and says so in a condition.
fn assign(pod: &mut Value, binding: &Value, now: &str) {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for marks in ["annotations", "labels"] {
        for (mark, said) in binding["metadata"][marks].as_object().into_iter().flatten() {
            pod["metadata"][marks][mark.as_str()] = said.clone();
        }
    }
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now});
    condition::put(pod, condition);
}
