//! Keeps the FlowSchemas and PriorityLevelConfigurations in place, and says of each schema whether its level exists.
//!
//! In: the registry. Out: what is missing is made; specs that follow their default are set to it, the mandatory ones always;
//! the condition `Dangling`. Level-triggered: each round looks at everything and writes what differs.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::{FieldManager, flow_control};
use karmada_registry::reconciler::{Next, Reconciler};
use karmada_registry::{Registry, User, WriteOptions};
use karmada_schema::object::{ObjectKey, Stored, meta};
use serde_json::{Value, json};

use super::GROUP;

const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";
const STATUS_MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Puts everything in place; called before the first request.
///
/// # Errors
/// The store refuses writes.
pub async fn ensure_flow_control(registry: &Registry) -> Result<(), Status> {
    let catalogue = registry.catalogue();
    let of = |plural| catalogue.resource(GROUP, "v1", plural);
    let (Some(schemas), Some(levels)) = (of("flowschemas"), of("prioritylevelconfigurations")) else {
        return Ok(());
    };
    ensure_all(registry, levels, flow_control::levels(), &flow_control::mandatory_levels()).await?;
    ensure_all(registry, schemas, flow_control::schemas(), &flow_control::mandatory_schemas()).await?;
    let all = registry.cache().of_resource(&schemas.storage).snapshot("").items;
    let told = all.iter().map(|schema| tell(registry, schemas, levels, schema));
    join_all(told).await.into_iter().collect()
}

/// Keeps everything in place.
pub struct FlowControl(pub Arc<Registry>);

#[async_trait]
impl Reconciler for FlowControl {
    fn keeps(&self) -> &'static str {
        "flow control's objects"
    }

    fn reads(&self) -> &'static [&'static str] {
        &[
            "flowcontrol.apiserver.k8s.io/flowschemas",
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        ]
    }

    async fn look(&mut self) -> Result<Next, Status> {
        ensure_flow_control(&self.0).await.map(|()| Next::OnChange)
    }
}

fn options(manager: &str, subresource: &str) -> WriteOptions {
    let user = User::apiserver();
    let (field_manager, subresource) = (manager.to_owned(), subresource.to_owned());
    WriteOptions { user, field_manager, subresource, ..WriteOptions::default() }
}

async fn ensure_all(
    registry: &Registry,
    definition: &ResourceDefinition,
    wanted: Vec<Value>,
    mandatory: &[Value],
) -> Result<(), Status> {
    let each = wanted.into_iter().map(|object| {
        let is_mandatory = mandatory.iter().any(|one| meta::name(one) == meta::name(&object));
        let owner = if is_mandatory { Owner::Server } else { Owner::AnyUser };
        ensure(registry, definition, object, owner)
    });
    join_all(each).await.into_iter().collect()
}

/// Whose an object is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The server's: it is as it must be.
    Server,
    /// Whoever's changes it, from then on.
    AnyUser,
}

async fn ensure(
    registry: &Registry,
    definition: &ResourceDefinition,
    wanted: Value,
    owner: Owner,
) -> Result<(), Status> {
    let name = meta::name(&wanted).to_owned();
    let Some(live) = registry.find(definition, "", &name)? else {
        return match registry.create(definition, "", wanted, &options(MANAGER, "")).await {
            Err(status) if status.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        };
    };
    if corrected(&live.value(), &wanted, owner).is_none() {
        return Ok(());
    }
    let mut change = |live: Option<&Value>| {
        let live = live.cloned().unwrap_or_default();
        Ok(corrected(&live, &wanted, owner).unwrap_or(live))
    };
    let key = ObjectKey::new("", &name);
    match registry.update(definition, &key, &options(MANAGER, ""), &mut change).await {
        Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => Ok(()),
        other => other.map(drop),
    }
}

/// The live object with the spec that it should have; `None` where it has it, or is its user's. Pure.
fn corrected(live: &Value, wanted: &Value, owner: Owner) -> Option<Value> {
    let note = &live["metadata"]["annotations"][flow_control::AUTOUPDATE];
    // Without the annotation, an object that nobody changed since it was made follows its default.
    let follows = match note.as_str() {
        Some(note) => note == "true",
        None => live["metadata"]["generation"] == 1,
    };
    let same = live["spec"] == wanted["spec"];
    let mandatory = owner == Owner::Server;
    if !(mandatory || follows) || same && (note == "true" || !mandatory) {
        return None;
    }
    let mut new = live.clone();
    new["spec"] = wanted["spec"].clone();
    new["metadata"]["annotations"][flow_control::AUTOUPDATE] = json!("true");
    Some(new)
}

/// Says whether the schema's level exists.
async fn tell(
    registry: &Registry,
    schemas: &ResourceDefinition,
    levels: &ResourceDefinition,
    schema: &Stored,
) -> Result<(), Status> {
    let object = schema.value();
    let level = object["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let exists = registry.get(levels, "", level).is_ok();
    let now = registry.now_text();
    let Some(status) = status(&object, level, exists, &now) else { return Ok(()) };
    // Applied, as kube-apiserver does: other conditions are others'.
    let applied = json!({"apiVersion": schemas.api_version(), "kind": &*schemas.kind,
        "metadata": {"name": &*schema.key.name}, "status": status});
    let mut change = |live: Option<&Value>| {
        let manager = FieldManager { name: STATUS_MANAGER, subresource: "status", now: &now, force: true };
        karmada_kinds::apply(schemas, live, &applied, manager)
    };
    let options = WriteOptions { applied: true, ..options(STATUS_MANAGER, "status") };
    let written = registry.update(schemas, &schema.key, &options, &mut change).await;
    match written {
        Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => Ok(()),
        other => other.map(drop),
    }
}

/// The part of its status that the schema lacks; `None` where it has it. Pure.
fn status(schema: &Value, level: &str, exists: bool, now: &str) -> Option<Value> {
    let (value, reason, rest) = if exists {
        ("False", "Found", "and it exists")
    } else {
        ("True", "NotFound", "but there is no such object")
    };
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" {rest}");
    let conditions = schema["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_it = |condition: &&Value| condition["type"] == "Dangling";
    let known = conditions.iter().find(is_it);
    if known.is_some_and(|known| {
        known["status"] == value && known["reason"] == reason && known["message"] == *message
    }) {
        return None;
    }
    let own = json!({"type": "Dangling", "status": value, "lastTransitionTime": now, "reason": reason, "message": message});
    Some(json!({"conditions": [own]}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_follow_their_default_as_long_as_nobody_took_them_over() {
        let wanted = &flow_control::levels()[5];
        let mut live = wanted.clone();
        assert_eq!(corrected(&live, wanted, Owner::AnyUser), None);
        live["spec"]["limited"]["nominalConcurrencyShares"] = json!(1);
        assert_eq!(corrected(&live, wanted, Owner::AnyUser).unwrap()["spec"], wanted["spec"]);
        live["metadata"]["annotations"][flow_control::AUTOUPDATE] = json!("false");
        assert_eq!(corrected(&live, wanted, Owner::AnyUser), None);
        let back = corrected(&live, wanted, Owner::Server).unwrap();
        assert_eq!((&back["spec"], &back["metadata"]), (&wanted["spec"], &wanted["metadata"]));
        assert_eq!(corrected(&back, wanted, Owner::Server), None);
    }

    #[test]
    fn a_schema_says_whether_its_level_exists_and_says_it_once() {
        let mut schema = flow_control::schemas().remove(0);
        let first = status(&schema, "exempt", true, "t1").unwrap();
        assert_eq!(first["conditions"][0]["status"], "False");
        schema["status"] = first;
        assert_eq!(status(&schema, "exempt", true, "t2"), None);
        let gone = status(&schema, "exempt", false, "t3").unwrap();
        assert_eq!(
            (&gone["conditions"][0]["reason"], gone["conditions"].as_array().unwrap().len()),
            (&json!("NotFound"), 1)
        );
    }
}
