//! Binding: a Pod is given its node.
//!
//! In: a Binding that was posted, to the Pod or to the collection of bindings. Out: the Pod with its node and the condition that
//! says so, or the refusal of kube-apiserver.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::form::Form;
use super::respond::{self, Body};
use super::{ApiServer, Call};
use crate::object::{ObjectKey, meta};
use crate::resource::ResourceDefinition;
use crate::status::{Cause, Status};

impl ApiServer {
    /// Gives a Pod its node, whoever schedules it: once.
    pub(super) async fn bind(
        &self,
        call: &Call<'_>,
        definition: &Arc<ResourceDefinition>,
        namespace: &str,
        form: Form,
        binding: &Value,
    ) -> Result<Response<Body>, Status> {
        let (name, target) = (meta::name(binding), &binding["target"]);
        let mut causes = Vec::new();
        let text = |field: &str| target[field].as_str().unwrap_or_default();
        if !matches!(text("kind"), "" | "Node") {
            let shown = Value::from(text("kind"));
            causes.push(Cause {
                reason: "FieldValueNotSupported".into(),
                message: format!("Unsupported value: {shown}: supported values: \"Node\", \"<empty>\""),
                field: "target.kind".into(),
            });
        }
        if text("name").is_empty() {
            causes.push(Cause {
                reason: "FieldValueRequired".into(),
                message: "Required value".into(),
                field: "target.name".into(),
            });
        }
        if !causes.is_empty() {
            return Err(Status::invalid("", "Binding", name, causes));
        }
        let mut options = self.write_options(call, "binding", &Bytes::new())?;
        // Nobody owns a Pod's place.
        options.applied = true;
        let key = ObjectKey::new(namespace, name);
        let now = self.registry.now_text();
        let mut change = |live: Option<&Value>| {
            let mut pod = live.cloned().ok_or_else(|| Status::not_found(definition, name))?;
            let refuse = |why: String| Err(Status::conflict_because(definition, name, &why));
            if meta::deleting(&pod) {
                return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
            }
            if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                return refuse(format!("pod {name} is already assigned to node {node:?}"));
            }
            pod["spec"]["nodeName"] = text("name").into();
            let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": now});
            let mut all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.retain(|one| one["type"] != "PodScheduled");
            all.push(condition);
            pod["status"]["conditions"] = Value::Array(all);
            Ok(pod)
        };
        self.registry.update(definition, &key, &options, false, &mut change).await?;
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(respond::document(StatusCode::CREATED, status.to_string().into(), form))
    }
}
