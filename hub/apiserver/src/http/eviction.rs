//! Eviction: a Pod's deletion that asks its disruption budget first.
//!
//! In: a Pod, and the Eviction that was posted to it. Out: the Pod deleted, with the condition that says why, and one disruption
//! fewer allowed by its budget; or the 429 that kube-apiserver answers. Nobody on a hub counts a budget's Pods: whoever wants
//! evictions under one writes its status.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::{Cause, Details, Status};
use karmada_registry::{DeleteOptions, Operation, Preconditions, WriteOptions};
use karmada_schema::condition;
use karmada_schema::object::{ObjectKey, Stored, meta};
use karmada_schema::selector::LabelSelector;
use serde_json::{Value, json};

use super::answer_body::Body;
use super::resource_call::ResourceCall;
use super::{ApiServer, respond};

/// Evictions that no controller has confirmed yet: more are not remembered by one budget.
const MOST_DISRUPTED: usize = 2000;

impl ApiServer {
    pub(super) async fn evict(
        &self,
        of: ResourceCall<'_, '_>,
        mut eviction: Value,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let key = ObjectKey::new(&wanted.namespace, &wanted.name);
        let mut options = self.write_options(call, "eviction", &Bytes::new())?;
        let registry = &self.registry;
        registry.admit_unstored(definition, &key, Operation::Create, &mut eviction, &options).await?;
        options.subresource = "status".to_owned();
        let mut delete: DeleteOptions =
            serde_json::from_value(eviction["deleteOptions"].clone()).unwrap_or_default();
        delete.warnings = call.warnings.clone();
        delete.admitted = true;
        options.dry_run = dry_run(options.dry_run, &delete.dry_run)?;
        // What the server itself writes belongs to nobody.
        options.applied = true;
        let pod = self.registry.get(definition, &key.namespace, &key.name)?;
        let value = pod.value();
        match phase(&value) {
            PodPhase::Gone => {}
            PodPhase::Pending => hold(&mut delete, &pod),
            PodPhase::Guarded => {
                if self.ask_budget(&key.namespace, &pod, &value, &options).await? {
                    hold(&mut delete, &pod);
                }
            }
        }
        if options.dry_run {
            delete.dry_run = vec!["All".to_owned()];
        } else {
            self.say_why(definition, &key, &options, &mut delete).await?;
        }
        self.registry.delete(definition, &key, &delete, &call.user).await?;
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(respond::document(StatusCode::CREATED, status.to_string().into(), format))
    }

    /// Takes one disruption from the budget that guards the Pod. True where the Pod may go only as it stands now.
    async fn ask_budget(
        &self,
        namespace: &str,
        pod: &Stored,
        value: &Value,
        options: &WriteOptions,
    ) -> Result<bool, Status> {
        let budgets = self.registry.definition("policy", "v1", "poddisruptionbudgets")?;
        let all = self.registry.cache().of_resource(&budgets.storage).snapshot(namespace).items;
        let guards = |budget: &&Arc<Stored>| {
            LabelSelector::of_json(&budget.value()["spec"]["selector"]).matches(|key| pod.label(key))
        };
        let found: Vec<Arc<Stored>> = all.iter().filter(guards).cloned().collect();
        let [budget] = found.as_slice() else {
            if found.is_empty() {
                return Ok(false);
            }
            return Err(Status::unforeseen(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        };
        let seen = budget.value();
        if !is_ready(value) && spares_unready(&seen) {
            return Ok(true);
        }
        let (key, now) = (ObjectKey::new(namespace, meta::name(&seen)), self.registry.now_text());
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(&budgets, &key.name))?;
            take_one(&budgets, live, meta::name(value), &now)
        };
        self.registry.update(&budgets, &key, options, &mut change).await?;
        Ok(false)
    }

    /// The Pod's condition that tells that it was evicted.
    async fn say_why(
        &self,
        definition: &Arc<ResourceDefinition>,
        key: &ObjectKey,
        options: &WriteOptions,
        delete: &mut DeleteOptions,
    ) -> Result<(), Status> {
        let now = self.registry.now_text();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
        });
        let wanted = delete.preconditions.clone().unwrap_or_default();
        let mut change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Status::not_found(definition, &key.name))?;
            for (field, what, wanted) in [
                ("uid", "UID", &wanted.uid),
                ("resourceVersion", "ResourceVersion", &wanted.resource_version),
            ] {
                let is = meta::text(live, field);
                if let Some(wanted) = wanted.as_deref().filter(|wanted| !wanted.is_empty() && *wanted != is) {
                    return Err(Status::conflict_with_kind(
                        definition,
                        &key.name,
                        &differs(what, wanted, is),
                    ));
                }
            }
            let mut pod = live.clone();
            condition::put(&mut pod, condition.clone());
            Ok(pod)
        };
        let written = self.registry.update(definition, key, options, &mut change).await?;
        if let Some(version) = delete.preconditions.as_mut().and_then(|all| all.resource_version.as_mut()) {
            *version = meta::text(&written.object.value(), "resourceVersion").to_owned();
        }
        Ok(())
    }
}

fn differs(what: &str, wanted: &str, is: &str) -> String {
    let why = match what {
        "UID" => "The object might have been deleted and then recreated",
        _ => "The object might have been modified",
    };
    format!("the {what} in the precondition ({wanted}) does not match the {what} in record ({is}). {why}")
}

/// What an eviction has to ask.
enum PodPhase {
    /// It ended, or is ending: nothing.
    Gone,
    /// It does not run yet: nothing, as long as it stays so.
    Pending,
    /// Its budget.
    Guarded,
}

fn phase(pod: &Value) -> PodPhase {
    match pod["status"]["phase"].as_str().unwrap_or("") {
        _ if meta::deleting(pod) => PodPhase::Gone,
        "Succeeded" | "Failed" => PodPhase::Gone,
        "Pending" => PodPhase::Pending,
        _ => PodPhase::Guarded,
    }
}

/// Deletes the Pod only as it was seen, where the caller named no version.
fn hold(delete: &mut DeleteOptions, pod: &Stored) {
    let preconditions = delete.preconditions.get_or_insert_with(Preconditions::default);
    let version = || meta::text(&pod.value(), "resourceVersion").to_owned();
    preconditions.resource_version.get_or_insert_with(version);
}

fn dry_run(asked: bool, in_body: &[String]) -> Result<bool, Status> {
    match in_body {
        [] => Ok(asked),
        [all] if all == "All" => Ok(true),
        other => Err(Status::bad_request(format!("dryRun: Unsupported value: {other:?}"))),
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Whether a Pod that is not ready may go without counting.
fn spares_unready(budget: &Value) -> bool {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0
}

/// The budget with one disruption fewer, or why there is none to take.
fn take_one(definition: &ResourceDefinition, budget: &Value, pod: &str, now: &str) -> Result<Value, Status> {
    let (name, status) = (meta::name(budget), &budget["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(why, 10));
    }
    let forbidden = |why: &str| Err(Status::forbidden(definition, name, why));
    if number("disruptionsAllowed") < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if status["disruptedPods"].as_object().map_or(0, |all| all.len()) > MOST_DISRUPTED {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if number("disruptionsAllowed") == 0 {
        let (needed, has) = (number("desiredHealthy"), number("currentHealthy"));
        return Err(too_many(
            format!("The disruption budget {name} needs {needed} healthy pods and has {has} currently"),
            0,
        ));
    }
    let mut changed = budget.clone();
    let left = number("disruptionsAllowed") - 1;
    changed["status"]["disruptionsAllowed"] = json!(left);
    changed["status"]["disruptedPods"][pod] = json!(now);
    if left == 0 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": budget["metadata"]["generation"], "lastTransitionTime": now,
        });
        condition::put(&mut changed, condition);
    }
    Ok(changed)
}

fn too_many(why: String, after_seconds: u32) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::too_many_requests(message, after_seconds);
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
    status.details = Some(Box::new(Details {
        retry_after_seconds: after_seconds,
        causes: vec![cause],
        ..Details::default()
    }));
    status
}
