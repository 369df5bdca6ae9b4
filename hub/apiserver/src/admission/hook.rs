//! Admission webhooks (`admissionregistration.k8s.io/v1`): who is asked about a request, and what becomes of the answers.
//!
//! In: the configured [`Hook`]s, a request. Out: the object as webhooks changed it, warnings, or the refusal in kube-apiserver's
//! words. Mutating webhooks are called one after the other in the order of their configurations' names; those that ask for it a
//! second time where the object changed after them. Validating ones are called at once. A webhook that cannot be reached is an
//! error or nothing, as its `failurePolicy` says.

use std::time::Duration;

use base64::Engine as _;
use futures::future::join_all;
use karmada_cel::Declarations;
use serde_json::{Value, json};

use super::dynamic::{Configured, Dynamic};
use super::expressions::{self, Expression};
use super::review::{self, Shown};
use super::rules::Matching;
use crate::patch;
use crate::registry::{AdmissionRequest, Registry, Warnings};
use crate::status::{Cause, Details, Status};
use crate::webhook::{self, Target};

/// One webhook of a configuration.
#[derive(Debug)]
pub(super) struct Hook {
    name: String,
    /// The name of its configuration.
    configuration: String,
    client: Value,
    ca_pem: Vec<u8>,
    matching: Matching,
    conditions: Vec<Expression>,
    /// Whether a webhook that cannot be asked is passed over.
    ignores_failure: bool,
    within: Duration,
    /// Whether it may be asked about dry runs.
    dry: bool,
    reinvoked: bool,
}

/// What a webhook said.
struct Answer {
    changed: Option<Value>,
    warnings: Vec<String>,
}

/// Why there is no permission.
enum Refusal {
    /// It said no, or may not be asked.
    Denied(Status),
    /// It could not be asked.
    Failed(String),
}

impl Hook {
    /// The webhooks of a configuration.
    pub(super) fn all(configuration: &Value) -> std::sync::Arc<[Hook]> {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        configuration["webhooks"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|webhook| Hook::read(name, webhook))
            .collect()
    }

    fn read(configuration: &str, webhook: &Value) -> Hook {
        let text = |field: &str| webhook[field].as_str().unwrap_or_default();
        let bundle = webhook["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        Hook {
            name: text("name").to_owned(),
            configuration: configuration.to_owned(),
            client: webhook["clientConfig"].clone(),
            ca_pem: base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default(),
            matching: Matching::of_webhook(webhook),
            conditions: expressions::conditions(webhook, &Declarations::admission()),
            ignores_failure: text("failurePolicy") == "Ignore",
            within: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30)),
            dry: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
        }
    }

    /// Asks, where the request is the webhook's business. `None` where it is not, or it failed and may.
    async fn ask(
        &self,
        dynamic: &Dynamic,
        registry: &Registry,
        request: &AdmissionRequest<'_>,
        mutating: bool,
    ) -> Result<Option<(Answer, std::sync::Arc<crate::resource::ResourceDefinition>)>, Status> {
        let Some(seen) = self.matching.matches(registry, request)? else { return Ok(None) };
        let shown = review::shown(registry, request, &seen).await?;
        let uid = registry.new_uid();
        let about = review::about(request, &seen, &uid);
        if !self.conditions_hold(dynamic, request, &shown, &about)? {
            return Ok(None);
        }
        if request.how.dry_run() && !self.dry {
            let why = format!("admission webhook \"{}\" does not support dry run", self.name);
            return Err(Status::bad_request(why));
        }
        match self.call(registry, shown, about, (&uid, mutating), request.warnings).await {
            Ok(answer) => Ok(Some((answer, seen))),
            Err(Refusal::Denied(status)) => Err(status),
            Err(Refusal::Failed(why)) if self.ignores_failure => {
                tracing::warn!(webhook = self.name, %why, "a webhook failed and is passed over");
                Ok(None)
            }
            Err(Refusal::Failed(why)) => {
                Err(Status::internal(format!("failed calling webhook \"{}\": {why}", self.name)))
            }
        }
    }

    fn conditions_hold(
        &self,
        dynamic: &Dynamic,
        request: &AdmissionRequest<'_>,
        shown: &Shown,
        about: &Value,
    ) -> Result<bool, Status> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let evaluator = expressions::evaluator(request, shown, about, &Value::Null, &dynamic.authorizer);
        match expressions::all_hold(&self.conditions, &evaluator) {
            Ok(holds) => Ok(holds),
            Err(_) if self.ignores_failure => Ok(false),
            Err(why) => Err(Status::forbidden(request.definition, &request.key.name, &why)),
        }
    }

    async fn call(
        &self,
        registry: &Registry,
        shown: Shown,
        mut about: Value,
        (uid, mutating): (&str, bool),
        notes: &Warnings,
    ) -> Result<Answer, Refusal> {
        let failed = |why: String| Refusal::Failed(format!("failed to call webhook: {why}"));
        let target = Target::of_client(registry.cache(), &self.client).map_err(failed)?;
        let target = target.with_timeout(self.within);
        let before = shown.object.clone();
        about["object"] = shown.object;
        about["oldObject"] = shown.old;
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": about});
        let answer = webhook::post(&target, &self.ca_pem, &review, self.within).await.map_err(failed)?;
        let wrong = |why: String| Refusal::Failed(format!("received invalid webhook response: {why}"));
        let response = verified(&answer, uid, mutating).map_err(wrong)?;
        for (key, value) in response["auditAnnotations"].as_object().into_iter().flatten() {
            notes.note(format!("{}/{key}", self.name), value.as_str().unwrap_or_default());
        }
        if response["allowed"] != true {
            return Err(Refusal::Denied(denied(&self.name, &response["status"])));
        }
        let patch = response["patch"].as_str().unwrap_or_default();
        let changed = if mutating && !patch.is_empty() {
            Some(patched(&before, patch).map_err(|why| Refusal::Denied(Status::internal(why)))?)
        } else {
            None
        };
        let warnings = response["warnings"].as_array().into_iter().flatten();
        let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Answer { changed, warnings })
    }
}

/// The response, once it is one to this request.
fn verified<'a>(answer: &'a Value, uid: &str, mutating: bool) -> Result<&'a Value, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
        ));
    }
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let got = text(&response["uid"]);
    if got != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{got}\""));
    }
    let (patch, patch_type) = (text(&response["patch"]), text(&response["patchType"]));
    match (patch.is_empty(), patch_type.as_str()) {
        (true, "") => Ok(response),
        _ if !mutating => {
            Err("validating webhook may not return response.patch or response.patchType".to_owned())
        }
        (true, _) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (false, "JSONPatch") => Ok(response),
        (false, "") => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (false, other) => Err(format!("webhook returned invalid response.patchType of \"{other}\"")),
    }
}

fn patched(object: &Value, patch: &str) -> Result<Value, String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(patch);
    let bytes = bytes.map_err(|error| format!("the webhook's patch is no base64: {error}"))?;
    patch::json_patch(object, &bytes).map_err(|error| match error {
        patch::PatchError::Unprocessable { cause } => cause,
        other => other.to_string(),
    })
}

/// A webhook's no, in its own words where it has any.
fn denied(name: &str, status: &Value) -> Status {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let by = format!("admission webhook \"{name}\" denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    Status {
        code: code.unwrap_or(400),
        reason: text("reason").to_owned().into(),
        message,
        details: details(&status["details"]),
    }
}

fn details(details: &Value) -> Option<Box<Details>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    details.as_object()?;
    let causes = details["causes"].as_array().into_iter().flatten().map(|cause| Cause {
        reason: text(&cause["reason"]).into(),
        message: text(&cause["message"]),
        field: text(&cause["field"]),
    });
    Some(Box::new(Details {
        name: text(&details["name"]),
        group: text(&details["group"]),
        kind: text(&details["kind"]),
        uid: text(&details["uid"]),
        causes: causes.collect(),
        ..Details::default()
    }))
}

impl Dynamic {
    /// Lets the mutating webhooks change the object.
    ///
    /// # Errors
    /// One said no, or could not be asked and must.
    pub(crate) async fn mutate(
        &self,
        registry: &Registry,
        configured: &Configured,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        // Which webhooks want to see the object again, and how it was when they last saw it.
        let mut asked: Vec<(&Hook, Value)> = Vec::new();
        let mut changed = false;
        for (index, hook) in configured.mutating().enumerate() {
            let Some(did) = self.mutate_by(registry, hook, request).await? else { continue };
            if request.warnings.takes_notes() {
                let told = json!({"configuration": hook.configuration, "webhook": hook.name, "mutated": did});
                let key = format!("mutation.webhook.admission.k8s.io/round_0_index_{index}");
                request.warnings.note(key, told.to_string());
            }
            changed |= did;
            if hook.reinvoked {
                asked.push((hook, request.object.clone()));
            }
        }
        if !changed {
            return Ok(());
        }
        registry.readmit(request)?;
        let mut again = false;
        for (hook, seen) in asked {
            if seen != *request.object {
                again |= self.mutate_by(registry, hook, request).await?.unwrap_or_default();
            }
        }
        if again { registry.readmit(request) } else { Ok(()) }
    }

    /// Whether the webhook changed the object; `None` where it was not asked.
    async fn mutate_by(
        &self,
        registry: &Registry,
        hook: &Hook,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<Option<bool>, Status> {
        let Some((answer, seen)) = hook.ask(self, registry, request, true).await? else { return Ok(None) };
        request.warnings.extend(answer.warnings);
        let Some(new) = answer.changed else { return Ok(Some(false)) };
        let before = request.object.clone();
        review::take(registry, request, &seen, new).await?;
        Ok(Some(before != *request.object))
    }

    /// Asks the validating webhooks.
    ///
    /// # Errors
    /// One said no, or could not be asked and must.
    pub(crate) async fn validate(
        &self,
        registry: &Registry,
        configured: &Configured,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        let asking = configured.validating().map(|hook| hook.ask(self, registry, request, false));
        let answers = join_all(asking).await;
        let mut refused = None;
        for answer in answers {
            match answer {
                Ok(Some((answer, _))) => request.warnings.extend(answer.warnings),
                Ok(None) => {}
                Err(status) => {
                    refused.get_or_insert(status);
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_is_told_in_its_own_words() {
        for (status, message, code, reason) in [
            (json!(null), "admission webhook \"x\" denied the request without explanation", 400, ""),
            (
                json!({"message": "no", "code": 403, "reason": "Forbidden"}),
                "admission webhook \"x\" denied the request: no",
                403,
                "Forbidden",
            ),
            (
                json!({"reason": "Busy", "code": 200}),
                "admission webhook \"x\" denied the request: Busy",
                400,
                "Busy",
            ),
        ] {
            let status = denied("x", &status);
            assert_eq!((&*status.message, status.code, &*status.reason), (message, code, reason));
        }
    }

    #[test]
    fn an_answer_must_be_to_the_question() {
        let answer = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        let patch = || json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        assert!(verified(&answer(json!({"uid": "u", "allowed": true})), "u", false).is_ok());
        assert!(verified(&answer(patch()), "u", true).is_ok());
        for (wrong, mutating) in [
            (json!({"response": {"uid": "u"}}), false),
            (answer(json!(null)), false),
            (answer(json!({"uid": "v", "allowed": true})), false),
            (answer(patch()), false),
            (answer(json!({"uid": "u", "patch": "W10="})), true),
            (answer(json!({"uid": "u", "patch": "W10=", "patchType": "Merge"})), true),
        ] {
            assert!(verified(&wrong, "u", mutating).is_err(), "{wrong}");
        }
    }
}
