//! Admission webhooks (`admissionregistration.k8s.io/v1`): who is asked about a request, and what becomes of the answers.
//!
//! In: the configured [`Hook`]s, a request. Out: the object as webhooks changed it, warnings, or the refusal in kube-apiserver's
//! words. A webhook that cannot be reached is an error or nothing, as its `failurePolicy` says. In which order they are called, and which
//! of them once more, is decided in `dispatcher`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use karmada_cel::{Crowded, Declarations};
use karmada_definitions::ca_bundle::Trust;
use karmada_definitions::status::{Cause, Details, Status};
use karmada_schema::patch;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::expressions::{self, Expression, RequestVariables};
use super::request_matching::Matching;
use super::review::{self, Shown};
use crate::authorize::Authorize;
use crate::block_in_place::apart;
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Warnings};
use crate::webhook::{self, Purpose, Target};

/// Bytes of a webhook's patch: those of the largest request.
const LONGEST_PATCH: usize = 3 << 20;

/// How many validating webhooks are asked about a request at a time.
pub(crate) const AT_ONCE: usize = 32;

/// One webhook of a configuration.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) name: String,
    /// The name of its configuration.
    pub(super) configuration: String,
    client: Value,
    trust: Trust,
    matching: Matching,
    conditions: Vec<Expression>,
    /// Whether a webhook that cannot be asked is passed over.
    ignores_failure: bool,
    within: Duration,
    /// Whether it may be asked about dry runs.
    dry: bool,
    pub(super) reinvoked: bool,
}

/// What a webhook said.
pub(super) struct Answer {
    pub(super) changed: Option<Value>,
    pub(super) warnings: Vec<String>,
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
    pub(super) fn all(configuration: &Value) -> Arc<[Hook]> {
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
            trust: Trust::of(base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default()),
            matching: Matching::of_webhook(webhook),
            conditions: expressions::conditions(webhook, &Declarations::admission()),
            ignores_failure: text("failurePolicy") == "Ignore",
            within: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30)),
            dry: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
        }
    }

    /// Asks, where the request is the webhook's business. `None` where it is not, or it failed and may.
    pub(crate) async fn ask(
        &self,
        authorizer: &Arc<dyn Authorize>,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
        kind: WebhookKind,
    ) -> Result<Option<(Answer, Arc<karmada_definitions::resource::ResourceDefinition>)>, Status> {
        let Some(seen) = self.matching.matches(context, request)? else { return Ok(None) };
        let shown = review::shown(context, request, &seen).await?;
        let uid = context.new_uid();
        let about = review::about(request, &seen, &uid);
        if !self.conditions_hold(authorizer, request, &shown, &about)? {
            return Ok(None);
        }
        if request.how.dry_run() && !self.dry {
            let why = format!("admission webhook \"{}\" does not support dry run", self.name);
            return Err(Status::bad_request(why));
        }
        match self.call(context, shown, about, (&uid, kind), request.warnings).await {
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
        authorizer: &Arc<dyn Authorize>,
        request: &AdmissionRequest<'_>,
        shown: &Shown,
        about: &Value,
    ) -> Result<bool, Status> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let judged = apart(|| {
            let variables = RequestVariables::of(request, shown, about, &Value::Null);
            let evaluator = expressions::evaluator(request, &variables, authorizer);
            expressions::all_hold(&self.conditions, &evaluator)
        });
        // Before what the webhook makes of failures: a request that nobody has judged is not one that failed, or is not its business.
        if request.budget.is_crowded() {
            return Err(Crowded.into());
        }
        match judged {
            Ok(holds) => Ok(holds),
            Err(_) if self.ignores_failure => Ok(false),
            Err(why) => Err(Status::forbidden(request.definition, &request.key.name, &why)),
        }
    }

    async fn call(
        &self,
        context: &RegistryContext,
        shown: Shown,
        mut about: Value,
        (uid, kind): (&str, WebhookKind),
        notes: &Warnings,
    ) -> Result<Answer, Refusal> {
        let failed = |why: String| Refusal::Failed(format!("failed to call webhook: {why}"));
        let target = Target::of_client(context.cache(), &self.client).map_err(failed)?;
        let target = target.with_timeout(self.within);
        let before = shown.object.clone();
        about["object"] = shown.object;
        about["oldObject"] = shown.old;
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": about});
        let review = review.to_string().into();
        let asked = webhook::post(Purpose::Admission, (&target, &self.trust), review, self.within);
        let answer = asked.await.map_err(failed)?;
        let answer: Review = webhook::parsed(&target, &answer).map_err(failed)?;
        let wrong = |why: String| Refusal::Failed(format!("received invalid webhook response: {why}"));
        let response = verified(answer, uid, kind).map_err(wrong)?;
        for (key, value) in response.audit_annotations {
            notes.note(format!("{}/{key}", self.name), value);
        }
        if !response.allowed {
            return Err(Refusal::Denied(denied(&self.name, response.status.unwrap_or_default())));
        }
        let changed = if kind == WebhookKind::Mutating && !response.patch.is_empty() {
            Some(patched(&before, &response.patch).map_err(|why| Refusal::Denied(Status::internal(why)))?)
        } else {
            None
        };
        Ok(Answer { changed, warnings: response.warnings })
    }
}

/// What a webhook is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebhookKind {
    /// It may change the object.
    Mutating,
    /// It says yes or no.
    Validating,
}

/// What a webhook answers: `admission.k8s.io/v1` AdmissionReview.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Review {
    #[serde(deserialize_with = "null_is_none")]
    api_version: String,
    #[serde(deserialize_with = "null_is_none")]
    kind: String,
    response: Option<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response {
    #[serde(deserialize_with = "null_is_none")]
    uid: String,
    #[serde(deserialize_with = "null_is_none")]
    allowed: bool,
    status: Option<ReviewStatus>,
    #[serde(deserialize_with = "null_is_none")]
    patch: String,
    #[serde(deserialize_with = "null_is_none")]
    patch_type: String,
    #[serde(deserialize_with = "null_is_none")]
    warnings: Vec<String>,
    #[serde(deserialize_with = "null_is_none")]
    audit_annotations: BTreeMap<String, String>,
}

/// Why it says no: what is read of its `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    #[serde(deserialize_with = "null_is_none")]
    message: String,
    #[serde(deserialize_with = "null_is_none")]
    reason: String,
    #[serde(deserialize_with = "null_is_none")]
    code: i64,
    details: Option<ReviewDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReviewDetails {
    #[serde(deserialize_with = "null_is_none")]
    name: String,
    #[serde(deserialize_with = "null_is_none")]
    group: String,
    #[serde(deserialize_with = "null_is_none")]
    kind: String,
    #[serde(deserialize_with = "null_is_none")]
    uid: String,
    #[serde(deserialize_with = "null_is_none")]
    causes: Vec<ReviewCause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReviewCause {
    #[serde(deserialize_with = "null_is_none")]
    reason: String,
    #[serde(deserialize_with = "null_is_none")]
    message: String,
    #[serde(deserialize_with = "null_is_none")]
    field: String,
}

/// A `null` is a field that is not there, as Go reads it.
fn null_is_none<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The response, once it is one to this request.
fn verified(answer: Review, uid: &str, kind: WebhookKind) -> Result<Response, String> {
    let Review { api_version: version, kind: sent, response } = answer;
    if version != "admission.k8s.io/v1" || sent != "AdmissionReview" {
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={sent}"
        ));
    }
    let response = response.ok_or("webhook response was absent")?;
    if response.uid != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{}\"", response.uid));
    }
    match (response.patch.is_empty(), response.patch_type.as_str()) {
        (true, "") => Ok(response),
        _ if kind == WebhookKind::Validating => {
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
    if bytes.len() > LONGEST_PATCH {
        return Err(format!("the webhook's patch is longer than {LONGEST_PATCH} bytes"));
    }
    patch::json_patch(object, &bytes).map_err(|error| match error {
        patch::PatchError::Unprocessable { cause } => cause,
        other => other.to_string(),
    })
}

/// A webhook's no, in its own words where it has any.
fn denied(name: &str, said: ReviewStatus) -> Status {
    let by = format!("admission webhook \"{name}\" denied the request");
    let message = match (said.message.as_str(), said.reason.as_str()) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = u16::try_from(said.code).ok().filter(|code| *code >= 400);
    let details = said.details.map(|details| {
        let causes = details.causes.into_iter().map(|cause| Cause {
            reason: cause.reason.into(),
            message: cause.message,
            field: cause.field,
        });
        Box::new(Details {
            name: details.name,
            group: details.group,
            kind: details.kind,
            uid: details.uid,
            causes: causes.collect(),
            ..Details::default()
        })
    });
    Status { code: code.unwrap_or(400), reason: said.reason.into(), message, details }
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
            let said: Option<ReviewStatus> = serde_json::from_value(status).unwrap();
            let status = denied("x", said.unwrap_or_default());
            assert_eq!((&*status.message, status.code, &*status.reason), (message, code, reason));
        }
    }

    #[test]
    fn an_answer_must_be_to_the_question() {
        let answer = |response: Value| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        let verified = |answer: &Value, uid: &str, kind: WebhookKind| {
            verified(serde_json::from_value(answer.clone()).unwrap(), uid, kind)
        };
        let patch = || json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        assert!(
            verified(&answer(json!({"uid": "u", "allowed": true})), "u", WebhookKind::Validating).is_ok()
        );
        assert!(verified(&answer(patch()), "u", WebhookKind::Mutating).is_ok());
        for (wrong, kind) in [
            (json!({"response": {"uid": "u"}}), WebhookKind::Validating),
            (answer(json!(null)), WebhookKind::Validating),
            (answer(json!({"uid": "v", "allowed": true})), WebhookKind::Validating),
            (answer(patch()), WebhookKind::Validating),
            (answer(json!({"uid": "u", "patch": "W10="})), WebhookKind::Mutating),
            (answer(json!({"uid": "u", "patch": "W10=", "patchType": "Merge"})), WebhookKind::Mutating),
        ] {
            assert!(verified(&wrong, "u", kind).is_err(), "{wrong}");
        }
    }
}
