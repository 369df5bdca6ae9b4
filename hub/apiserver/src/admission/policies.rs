//! ValidatingAdmissionPolicies: rules in CEL that a write must pass, with the bindings that put them in force.
//!
//! In: policies and bindings as configured, a request. Out: warnings, or the refusal in kube-apiserver's words. A policy and a
//! binding must both match the request; the binding says with which parameters and what becomes of a failure. All expressions of
//! one policy over one request share one budget ([`karmada_cel::Limits`]). `auditAnnotations` are checked when a policy is made;
//! what they would yield is not kept, nor is `status.typeChecking` written.

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_cel::{Declarations, Evaluator, Expected, Object, Type, Value as Cel};
use serde_json::Value;

use super::dynamic::{Configured, Dynamic};
use super::expressions::{self, Expression};
use super::review;
use super::rules::Matching;
use crate::object::{ObjectKey, Stored};
use crate::registry::{AdmissionRequest, Registry, prepare};
use crate::resource::{ResourceDefinition, StorageId, split_api_version};
use crate::selector::LabelSelector;
use crate::status::{Cause, Status};

/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 << 10;

/// A policy.
#[derive(Debug)]
pub(super) struct Policy {
    name: String,
    matching: Matching,
    conditions: Vec<Expression>,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
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
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What a policy's expressions may name: `params` where it has some, and the variables before them.
pub(crate) struct Names {
    declared: Declarations,
    variables: Object,
}

impl Names {
    /// Of a policy's spec, without variables yet.
    pub(crate) fn of(spec: &Value) -> Names {
        let mut declared = Declarations::admission();
        if spec["paramKind"].is_object() {
            declared = declared.with("params", Type::Dyn);
        }
        Names { declared, variables: Object { name: "kubernetes.variables".into(), ..Object::default() } }
    }

    /// The names as they are now.
    pub(crate) fn now(&self) -> Declarations {
        let fields = self.variables.fields.clone();
        if fields.is_empty() {
            return self.declared.clone();
        }
        let variables = Object { name: self.variables.name.clone(), fields };
        self.declared.clone().with("variables", Type::Object(Arc::new(variables)))
    }

    /// One more variable.
    pub(crate) fn add(&mut self, name: &str, yields: Type) {
        self.variables.fields.insert(name.to_owned(), yields);
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
            names.add(text(&one, "name"), yields);
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
            variables,
            parameters: kind
                .is_object()
                .then(|| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            ignores_failure: text(spec, "failurePolicy") == "Ignore",
        })
    }

    /// The rules that one set of parameters does not let the request pass.
    fn failures(&self, evaluator: &mut Evaluator, params: &Value) -> Vec<Failure> {
        let failed = |message: String| Failure { message, reason: "Invalid".to_owned() };
        evaluator.set("params", Cel::from_json(params));
        let broken = self.set_variables(evaluator);
        let mut out = Vec::new();
        for validation in &self.validations {
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
                Ok(false) => out
                    .push(Failure { message: validation.told(evaluator), reason: validation.reason.clone() }),
                Err(why) if !self.ignores_failure => out.push(failed(why)),
                Err(_) => {}
            }
        }
        out
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
        Ok(found.iter().map(|object| prepare::from_storage(definition, object.value())).collect())
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
            let mut found: Vec<(&Binding, Failure)> = Vec::new();
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
                    let failures = policy.judge(binding, registry, request, &mut evaluator);
                    found.extend(failures.into_iter().map(|failure| (binding, failure)));
                }
            }
            for (binding, failure) in found {
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
    ) -> Vec<Failure> {
        let broken = |message: String| {
            if self.ignores_failure {
                return Vec::new();
            }
            vec![Failure { message, reason: "Invalid".to_owned() }]
        };
        let parameters = match binding.parameters(self, registry, request) {
            Ok(parameters) => parameters,
            Err(why) => return broken(format!("failed to configure binding: {why}")),
        };
        let mut out = Vec::new();
        for params in parameters {
            evaluator.set("params", Cel::from_json(&params));
            match expressions::all_hold(&self.conditions, evaluator) {
                Ok(true) => out.extend(self.failures(evaluator, &params)),
                Ok(false) => {}
                Err(why) => out.extend(broken(why)),
            }
        }
        out
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
