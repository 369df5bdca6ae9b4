//! ValidatingAdmissionPolicies: rules in CEL that a write must pass, with the bindings that put them in force.
//!
//! In: policies and bindings as configured, a request. Out: warnings, or the refusal in kube-apiserver's words. A policy and a
//! binding must both match the request; the binding says with which parameters and what becomes of a failure. All expressions of
//! one policy over one request share one budget ([`karmada_cel::Limits`]), and all policies over one request another
//! ([`karmada_cel::Budget`]). What `auditAnnotations` yield, and failures that are to
//! be audited, are noted for the audit log. `status.typeChecking` is written by `type_check`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_cel::PolicyNames;
use karmada_cel::{Crowded, Evaluator, Expected, Type, Value as Cel};
use karmada_definitions::resource::{Catalogue, ResourceDefinition, StorageId};
use karmada_definitions::status::{Cause, Status};
use karmada_definitions::version::split_api_version;
use karmada_schema::fields::text;
use karmada_schema::object::{ObjectKey, Stored};
use karmada_schema::selector::LabelSelector;
use serde_json::{Value, json};

use super::expressions::{self, Expression, RequestVariables};
use super::request_matching::Matching;
use super::variables::{Named, Variables};
use crate::authorize::Authorize;
use crate::registry_context::RegistryContext;
use crate::request::AdmissionRequest;
use crate::storage;

/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 << 10;

/// The most failures of one policy that are told; nothing is judged after them.
const MOST_FAILURES: usize = 100;

/// The most notes of one policy for the audit log: one for each annotation, unless there are many parameters.
const MOST_NOTES: usize = 100;

/// The longest note for the audit log.
const LONGEST_NOTE: usize = 10 << 10;

/// A policy.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) matching: Matching,
    conditions: Vec<Expression>,
    variables: Variables,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression, Named)>,
    /// apiVersion and kind of its parameters.
    parameters: Option<(String, String)>,
    ignores_failure: bool,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    /// The variables that the expression, or its message, names.
    named: Named,
    named_by_message: Named,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// What puts a policy in force.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) matching: Option<Matching>,
    parameters: Value,
    pub(super) actions: BTreeSet<String>,
}

/// Objects that a policy judges with, and their kind.
type Parameters<'c> = (&'c ResourceDefinition, Vec<Arc<Stored>>);

/// A rule that was not passed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) reason: String,
    /// Which of the policy's expressions it was.
    pub(super) index: usize,
}

/// What one policy found of a request under one binding.
#[derive(Default)]
pub(crate) struct Found {
    pub(super) failures: Vec<Failure>,
    /// For the audit log, by key.
    notes: Vec<(String, String)>,
}

impl Policy {
    pub(super) fn read(object: &Value) -> Arc<Policy> {
        let spec = &object["spec"];
        let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
        let mut names = PolicyNames::of(spec);
        let conditions = expressions::conditions(spec, names.without_variables());
        let mut variables = Variables::default();
        for one in list("variables") {
            let expression = Expression::new(text(&one, "expression").trim(), &names.now(), Expected::Any);
            let yields = expression.program.as_ref().map_or(Type::Dyn, |program| program.yields.clone());
            names.add(text(&one, "name"), &yields);
            variables.add(text(&one, "name"), expression);
        }
        let names = names.now();
        let compiled = |source: &str, expected| Expression::new(source.trim(), &names, expected);
        let validation = |one: &Value| Validation {
            expression: compiled(text(one, "expression"), Expected::Bool),
            named: Named::by(text(one, "expression")),
            named_by_message: Named::by(text(one, "messageExpression")),
            message: text(one, "message").trim().to_owned(),
            message_expression: one["messageExpression"]
                .as_str()
                .filter(|source| !source.trim().is_empty())
                .map(|source| compiled(source, Expected::Text)),
            reason: one["reason"].as_str().unwrap_or("Invalid").to_owned(),
        };
        let kind = &spec["paramKind"];
        Arc::new(Policy {
            name: text(&object["metadata"], "name").to_owned(),
            matching: Matching::of_resources(&spec["matchConstraints"]),
            conditions,
            validations: list("validations").iter().map(validation).collect(),
            annotations: list("auditAnnotations")
                .iter()
                .map(|one| {
                    let source = text(one, "valueExpression");
                    (text(one, "key").to_owned(), compiled(source, Expected::Any), Named::by(source))
                })
                .collect(),
            variables,
            parameters: kind
                .is_object()
                .then(|| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            ignores_failure: text(spec, "failurePolicy") == "Ignore",
        })
    }

    /// The rules that one set of parameters does not let the request pass.
    fn failures(&self, evaluator: &mut Evaluator, found: &mut Found) {
        let failed = |message: String, index| Failure { message, reason: "Invalid".to_owned(), index };
        let variables = self.variables.evaluate(evaluator);
        let out = &mut found.failures;
        for (index, validation) in self.validations.iter().enumerate() {
            if out.len() >= MOST_FAILURES {
                return;
            }
            let source = &validation.expression.source;
            variables.show(evaluator, &validation.named);
            let outcome = match variables.broken(&validation.named) {
                Some((name, why)) => Err(format!(
                    "expression '{source}' resulted in error: composited variable \"{name}\" fails to evaluate: {why}"
                )),
                None => validation.expression.holds(evaluator),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    variables.show(evaluator, &validation.named_by_message);
                    let (message, reason) = (validation.told(evaluator), validation.reason.clone());
                    out.push(Failure { message, reason, index });
                }
                Err(why) if !self.ignores_failure => out.push(failed(why, index)),
                Err(_) => {}
            }
        }
        for (index, (key, expression, named)) in self.annotations.iter().enumerate() {
            variables.show(evaluator, named);
            match expression.value(evaluator) {
                Ok(value) => {
                    let text = value.as_text().map(str::trim).filter(|text| !text.is_empty());
                    if let Some(text) = text.filter(|_| found.notes.len() < MOST_NOTES) {
                        let text: String = text.chars().take(LONGEST_NOTE).collect();
                        found.notes.push((format!("{}/{key}", self.name), text));
                    }
                }
                Err(why) if !self.ignores_failure => out.push(failed(why, index)),
                Err(_) => {}
            }
        }
    }
}

impl Validation {
    /// What a person is told: the message made, the message given, or the expression itself.
    fn told(&self, evaluator: &Evaluator) -> String {
        let made = self.message_expression.as_ref().and_then(|made| made.value(evaluator).ok());
        let made = made.as_ref().and_then(Cel::as_text).map(str::trim);
        match made.filter(|made| !made.is_empty() && !made.contains('\n') && made.len() <= LONGEST_MESSAGE) {
            Some(made) => made.to_owned(),
            None if !self.message.is_empty() => self.message.clone(),
            None => format!("failed expression: {}", self.expression.source),
        }
    }
}

impl Binding {
    pub(super) fn read(object: &Value) -> Arc<Binding> {
        let spec = &object["spec"];
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        let resources = &spec["matchResources"];
        Arc::new(Binding {
            name: text(&object["metadata"], "name").to_owned(),
            policy: text(spec, "policyName").to_owned(),
            matching: resources.is_object().then(|| Matching::of_resources(resources)),
            parameters: spec["paramRef"].clone(),
            actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// The parameters to judge with, one after the other; `None` for none.
    fn parameters<'c>(
        &self,
        policy: &Policy,
        context: &RegistryContext,
        catalogue: &'c Catalogue,
        request: &AdmissionRequest<'_>,
    ) -> Result<Option<Parameters<'c>>, String> {
        let reference = &self.parameters;
        let (Some((api_version, kind)), true) = (&policy.parameters, reference.is_object()) else {
            return Ok(None);
        };
        let (group, version) = split_api_version(api_version);
        let Some(definition) = catalogue.kind(group, version, kind) else {
            let shown = format!("{api_version}, Kind={kind}");
            return Err(format!("failed to find resource referenced by paramKind: '{shown}'"));
        };
        let namespace = parameter_namespace(definition, reference, request)?;
        let resource_cache = context.cache().of_resource(&definition.storage);
        let found: Vec<Arc<Stored>> = match reference["name"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => resource_cache.get(&ObjectKey::new(&namespace, name)).into_iter().collect(),
            None => {
                let selector = LabelSelector::of_json(&reference["selector"]);
                resource_cache
                    .list(&namespace, None, 0, &|object| selector.matches(|key| object.label(key)))
                    .0
            }
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(Some((definition, found)))
    }
}

fn parameter_namespace(
    definition: &ResourceDefinition,
    reference: &Value,
    request: &AdmissionRequest<'_>,
) -> Result<String, String> {
    let given = text(reference, "namespace");
    if !definition.namespaced {
        if given.is_empty() {
            return Ok(String::new());
        }
        return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
    }
    match (given, &*request.key.namespace) {
        ("", "") => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                .to_owned())
        }
        ("", own) => Ok(own.to_owned()),
        (given, _) => Ok(given.to_owned()),
    }
}

/// Reviews are asked and forgotten; their kinds are nobody's business.
pub(crate) fn is_review(definition: &ResourceDefinition) -> bool {
    matches!(&*definition.group, "authentication.k8s.io" | "authorization.k8s.io")
}

impl Policy {
    /// What the policy finds of a request, under each of its bindings that match it.
    pub(super) fn judge_all<'b>(
        &self,
        bindings: &[&'b Binding],
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
        variables: &RequestVariables,
        authorizer: &Arc<dyn Authorize>,
    ) -> Result<Vec<(&'b Binding, Found)>, Status> {
        let mut evaluator = expressions::evaluator(request, variables, authorizer);
        let mut found: Vec<(&Binding, Found)> = Vec::new();
        let (mut failures, mut notes) = (0, 0);
        for binding in bindings {
            if let Some(matching) = &binding.matching
                && matching.matches(context, request)?.is_none()
            {
                continue;
            }
            let mut one = self.judge(binding, context, request, &mut evaluator);
            one.notes.truncate(MOST_NOTES.saturating_sub(notes));
            (failures, notes) = (failures + one.failures.len(), notes + one.notes.len());
            // Before what a policy makes of failures: a write that nobody has judged does not pass for one that failed.
            if evaluator.is_crowded() {
                return Err(Crowded.into());
            }
            found.push((*binding, one));
            if failures >= MOST_FAILURES {
                break;
            }
        }
        Ok(found)
    }

    fn judge(
        &self,
        binding: &Binding,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
        evaluator: &mut Evaluator,
    ) -> Found {
        let broken = |message: String| {
            let failure = Failure { message, reason: "Invalid".to_owned(), index: 0 };
            (!self.ignores_failure).then_some(failure)
        };
        let mut out = Found::default();
        let catalogue = context.catalogue();
        let parameters = match binding.parameters(self, context, &catalogue, request) {
            Ok(parameters) => parameters,
            Err(why) => {
                out.failures.extend(broken(format!("failed to configure binding: {why}")));
                return out;
            }
        };
        let mut judge = |evaluator: &mut Evaluator| {
            match expressions::all_hold(&self.conditions, evaluator) {
                Ok(true) => self.failures(evaluator, &mut out),
                Ok(false) => {}
                Err(why) => out.failures.extend(broken(why)),
            }
            out.failures.len() < MOST_FAILURES
        };
        let Some((definition, objects)) = parameters else {
            evaluator.set("params", Cel::null());
            judge(evaluator);
            return out;
        };
        // One after the other: there may be many, and large ones.
        for object in objects {
            let params = storage::from_storage(definition, object.value());
            evaluator.take("params", Cel::from_json(&params));
            if !judge(evaluator) {
                break;
            }
        }
        out
    }
}

/// Notes for the audit log what a policy's annotations yield, and the failures that are to be audited.
pub(crate) fn note(policy: &Policy, found: &[(&Binding, Found)], request: &AdmissionRequest<'_>) {
    let mut notes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in found.iter().flat_map(|(_, found)| &found.notes) {
        let values = notes.entry(key).or_default();
        if !values.contains(&value.as_str()) {
            values.push(value);
        }
    }
    notes.into_iter().for_each(|(key, values)| request.warnings.note(key, values.join(", ")));
    let audited = found.iter().filter(|(binding, _)| binding.actions.contains("Audit"));
    let failures: Vec<Value> = audited
        .flat_map(|(binding, found)| {
            found.failures.iter().map(|failure| {
                json!({
                    "message": failure.message, "policy": policy.name, "binding": binding.name,
                    "expressionIndex": failure.index, "validationActions": binding.actions,
                })
            })
        })
        .collect();
    if !failures.is_empty() {
        request.warnings.append_note("validation.policy.admission.k8s.io/validation_failure", failures);
    }
}

pub(crate) fn namespace_of(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Value {
    if !request.definition.namespaced {
        return Value::Null;
    }
    let key = ObjectKey::new("", &request.key.namespace);
    let found = context.cache().get(&StorageId("core/namespaces".into()), &key);
    found.map_or(Value::Null, |namespace| namespace.value())
}

pub(crate) fn refusal(request: &AdmissionRequest<'_>, message: String, reason: String) -> Status {
    let mut status = Status::forbidden(request.definition, &request.key.name, &message);
    status.code = match reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    status.reason = reason.into();
    if let Some(details) = status.details.as_mut() {
        details.causes.push(Cause { reason: "".into(), message, field: String::new() });
    }
    status
}
