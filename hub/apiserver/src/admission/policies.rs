//! ValidatingAdmissionPolicies: rules in CEL that a write must pass, with the bindings that put them in force.
//!
//! In: policies and bindings as configured, a request. Out: warnings, or the refusal in kube-apiserver's words. A policy and a
//! binding must both match the request; the binding says with which parameters and what becomes of a failure. All expressions of
//! one policy over one request share one budget ([`karmada_cel::Limits`]). What `auditAnnotations` yield, and failures that are to
//! be audited, are noted for the audit log. `status.typeChecking` is not written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_cel::{Declarations, Evaluator, Expected, Object, Type, Value as Cel};
use serde_json::{Value, json};

use super::dynamic::{Configured, Dynamic};
use super::expressions::{self, Expression};
use super::review;
use super::rules::Matching;
use crate::object::{ObjectKey, Stored};
use crate::registry::{AdmissionRequest, Registry, storage};
use crate::resource::{ResourceDefinition, StorageId, split_api_version};
use crate::selector::LabelSelector;
use crate::status::{Cause, Status};

/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 << 10;

/// The longest note for the audit log.
const LONGEST_NOTE: usize = 10 << 10;

/// A policy.
#[derive(Debug)]
pub(super) struct Policy {
    name: String,
    matching: Matching,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
    /// apiVersion and kind of its parameters.
    parameters: Option<(String, String)>,
    ignores_failure: bool,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// What puts a policy in force.
#[derive(Debug)]
pub(super) struct Binding {
    name: String,
    policy: String,
    matching: Option<Matching>,
    parameters: Value,
    actions: BTreeSet<String>,
}

/// A rule that was not passed.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    message: String,
    reason: String,
    /// Which of the policy's expressions it was.
    index: usize,
}

/// What one policy found of a request under one binding.
#[derive(Default)]
struct Found {
    failures: Vec<Failure>,
    /// For the audit log, by key.
    notes: Vec<(String, String)>,
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What a policy's expressions may name: `params` where it has some, and the variables before them.
pub(crate) struct Names {
    declared: Declarations,
    /// Shared with who looks at the names now: another variable copies them only where somebody still does.
    variables: Arc<Object>,
    /// Whether there are variables at all.
    composed: bool,
}

impl Names {
    /// Of a policy's spec, without variables yet.
    pub(crate) fn of(spec: &Value) -> Names {
        let mut declared = Declarations::admission();
        if spec["paramKind"].is_object() {
            declared = declared.with("params", Type::Dyn);
        }
        let composed = spec["variables"].as_array().is_some_and(|all| !all.is_empty());
        let variables = Object { name: "kubernetes.variables".into(), ..Object::default() };
        Names { declared, variables: Arc::new(variables), composed }
    }

    /// The same where it is known what is judged, and what its parameters are; without variables yet.
    pub(crate) fn typed(object: &Type, params: Option<&Type>) -> Names {
        let declared =
            Declarations::admission().with("object", object.clone()).with("oldObject", object.clone());
        let declared = params.into_iter().fold(declared, |all, params| all.with("params", params.clone()));
        let variables = Object { name: "kubernetes.variables".into(), ..Object::default() };
        Names { declared, variables: Arc::new(variables), composed: true }
    }

    /// The names as they are now.
    pub(crate) fn now(&self) -> Declarations {
        if !self.composed {
            return self.declared.clone();
        }
        self.declared.clone().with("variables", Type::Object(self.variables.clone()))
    }

    /// One more variable.
    pub(crate) fn add(&mut self, name: &str, yields: &Type) {
        Arc::make_mut(&mut self.variables).fields.insert(name.to_owned(), yields.as_variable());
    }
}

impl Policy {
    pub(super) fn read(object: &Value) -> Arc<Policy> {
        let spec = &object["spec"];
        let list = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
        let mut names = Names::of(spec);
        let conditions = expressions::conditions(spec, &names.declared);
        let mut variables = Vec::new();
        for one in list("variables") {
            let expression = Expression::new(text(&one, "expression").trim(), &names.now(), Expected::Any);
            let yields = expression.program.as_ref().map_or(Type::Dyn, |program| program.yields.clone());
            names.add(text(&one, "name"), &yields);
            variables.push((text(&one, "name").to_owned(), expression));
        }
        let names = names.now();
        let compiled = |source: &str, expected| Expression::new(source.trim(), &names, expected);
        let validation = |one: &Value| Validation {
            expression: compiled(text(one, "expression"), Expected::Bool),
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
                    (text(one, "key").to_owned(), compiled(text(one, "valueExpression"), Expected::Any))
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
    fn failures(&self, evaluator: &mut Evaluator, params: &Value, found: &mut Found) {
        let failed = |message: String, index| Failure { message, reason: "Invalid".to_owned(), index };
        evaluator.set("params", Cel::from_json(params));
        let broken = self.set_variables(evaluator);
        let out = &mut found.failures;
        for (index, validation) in self.validations.iter().enumerate() {
            let source = &validation.expression.source;
            let needs = broken.iter().find(|(name, _)| source.contains(&format!("variables.{name}")));
            let outcome = match needs {
                Some((name, why)) => Err(format!(
                    "expression '{source}' resulted in error: composited variable \"{name}\" fails to evaluate: {why}"
                )),
                None => validation.expression.holds(evaluator),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    let (message, reason) = (validation.told(evaluator), validation.reason.clone());
                    out.push(Failure { message, reason, index });
                }
                Err(why) if !self.ignores_failure => out.push(failed(why, index)),
                Err(_) => {}
            }
        }
        for (index, (key, expression)) in self.annotations.iter().enumerate() {
            match expression.value(evaluator) {
                Ok(value) => {
                    if let Some(text) = value.as_text().map(str::trim).filter(|text| !text.is_empty()) {
                        let text: String = text.chars().take(LONGEST_NOTE).collect();
                        found.notes.push((format!("{}/{key}", self.name), text));
                    }
                }
                Err(why) if !self.ignores_failure => out.push(failed(why, index)),
                Err(_) => {}
            }
        }
    }

    /// Evaluates the variables; those that fail are told apart, as only who names them fails with them.
    fn set_variables(&self, evaluator: &mut Evaluator) -> Vec<(&str, String)> {
        let mut good: Vec<(&str, Cel)> = Vec::new();
        let mut broken: Vec<(&str, String)> = Vec::new();
        for (name, expression) in &self.variables {
            evaluator.set("variables", Cel::map(good.clone()));
            match expression.value(evaluator) {
                Ok(value) => good.push((name, value)),
                Err(why) => broken.push((name, why)),
            }
        }
        evaluator.set("variables", Cel::map(good));
        broken
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

    /// The parameters to judge with, one after the other; `null` for none.
    fn parameters(
        &self,
        policy: &Policy,
        registry: &Registry,
        request: &AdmissionRequest<'_>,
    ) -> Result<Vec<Value>, String> {
        let reference = &self.parameters;
        let (Some((api_version, kind)), true) = (&policy.parameters, reference.is_object()) else {
            return Ok(vec![Value::Null]);
        };
        let catalogue = registry.catalogue();
        let (group, version) = split_api_version(api_version);
        let Some(definition) = catalogue.kind(group, version, kind) else {
            let shown = format!("{api_version}, Kind={kind}");
            return Err(format!("failed to find resource referenced by paramKind: '{shown}'"));
        };
        let namespace = parameter_namespace(definition, reference, request)?;
        let shard = registry.cache().shard(&definition.storage);
        let found: Vec<Arc<Stored>> = match reference["name"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => shard.get(&ObjectKey::new(&namespace, name)).into_iter().collect(),
            None => {
                let selector = LabelSelector::of_json(&reference["selector"]);
                shard.list(&namespace, None, 0, &|object| selector.matches(|key| object.label(key))).0
            }
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(found.iter().map(|object| storage::from_storage(definition, object.value())).collect())
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
fn is_review(definition: &ResourceDefinition) -> bool {
    matches!(&*definition.group, "authentication.k8s.io" | "authorization.k8s.io")
}

impl Dynamic {
    /// Asks the policies.
    ///
    /// # Errors
    /// A rule of one that denies was not passed.
    pub(crate) async fn judge(
        &self,
        registry: &Registry,
        configured: &Configured,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        if configured.bindings().next().is_none() || is_review(request.definition) {
            return Ok(());
        }
        let mut denied: Option<Status> = None;
        for policy in configured.policies() {
            let bindings: Vec<&Binding> =
                configured.bindings().filter(|binding| binding.policy == policy.name).collect();
            if bindings.is_empty() {
                continue;
            }
            let Some(seen) = policy.matching.matches(registry, request)? else { continue };
            let shown = review::shown(registry, request, &seen).await?;
            let about = review::about(request, &seen, "");
            let namespace = namespace_of(registry, request);
            let mut found: Vec<(&Binding, Found)> = Vec::new();
            // The evaluator is made and dropped between two awaits.
            {
                let mut evaluator =
                    expressions::evaluator(request, &shown, &about, &namespace, &self.authorizer);
                for binding in bindings {
                    if let Some(matching) = &binding.matching
                        && matching.matches(registry, request)?.is_none()
                    {
                        continue;
                    }
                    found.push((binding, policy.judge(binding, registry, request, &mut evaluator)));
                }
            }
            if request.warnings.takes_notes() {
                note(policy, &found, request);
            }
            let failures = found.into_iter().flat_map(|(binding, found)| {
                found.failures.into_iter().map(move |failure| (binding, failure))
            });
            for (binding, failure) in failures {
                let who =
                    format!("ValidatingAdmissionPolicy '{}' with binding '{}'", policy.name, binding.name);
                if binding.actions.contains("Warn") {
                    request.warnings.add(format!("Validation failed for {who}: {}", failure.message));
                }
                if binding.actions.contains("Deny") && denied.is_none() {
                    let message = format!("{who} denied request: {}", failure.message);
                    denied = Some(refusal(request, message, failure.reason));
                }
            }
        }
        denied.map_or(Ok(()), Err)
    }
}

impl Policy {
    fn judge(
        &self,
        binding: &Binding,
        registry: &Registry,
        request: &AdmissionRequest<'_>,
        evaluator: &mut Evaluator,
    ) -> Found {
        let broken = |message: String| {
            let failure = Failure { message, reason: "Invalid".to_owned(), index: 0 };
            (!self.ignores_failure).then_some(failure)
        };
        let mut out = Found::default();
        let parameters = match binding.parameters(self, registry, request) {
            Ok(parameters) => parameters,
            Err(why) => {
                out.failures.extend(broken(format!("failed to configure binding: {why}")));
                return out;
            }
        };
        for params in parameters {
            evaluator.set("params", Cel::from_json(&params));
            match expressions::all_hold(&self.conditions, evaluator) {
                Ok(true) => self.failures(evaluator, &params, &mut out),
                Ok(false) => {}
                Err(why) => out.failures.extend(broken(why)),
            }
        }
        out
    }
}

/// Notes for the audit log what a policy's annotations yield, and the failures that are to be audited.
fn note(policy: &Policy, found: &[(&Binding, Found)], request: &AdmissionRequest<'_>) {
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

fn namespace_of(registry: &Registry, request: &AdmissionRequest<'_>) -> Value {
    if !request.definition.namespaced {
        return Value::Null;
    }
    let key = ObjectKey::new("", &request.key.namespace);
    let found = registry.cache().get(&StorageId("core/namespaces".into()), &key);
    found.map_or(Value::Null, |namespace| namespace.value())
}

fn refusal(request: &AdmissionRequest<'_>, message: String, reason: String) -> Status {
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
