//! Expressions of webhooks and policies: compiled once, run over one request within one budget.
//!
//! In: `matchConditions` and the like, a request. Out: whether all hold, or what failed, in kube-apiserver's words.

use std::sync::Arc;

use karmada_cel::{
    Authorizer as Asked, Decision, Declarations, EvalError, Evaluator, Expected, Limits, Program, Question,
    Value as Cel,
};
use serde_json::Value;

use super::review::Shown;
use crate::authorize::{Attributes, Authorize};
use crate::request::AdmissionRequest;
use crate::user::User;

/// An expression and its source. What does not compile fails whenever it is asked: creation refuses such, but older data may
/// hold it.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    pub(super) program: Result<Program, String>,
}

impl Expression {
    pub(super) fn new(source: &str, names: &Declarations, expected: Expected) -> Expression {
        let program = Program::compile(source, names, expected);
        let program = program.map_err(|error| format!("compilation failed: {error}"));
        Expression { source: source.to_owned(), program }
    }

    /// What it yields.
    pub(super) fn value(&self, evaluator: &Evaluator) -> Result<Cel, String> {
        let failed = |why: String| format!("expression '{}' resulted in error: {why}", self.source);
        let program = self.program.as_ref().map_err(|why| failed(why.clone()))?;
        evaluator.value(program).map_err(|error| match error {
            EvalError::Budget => error.to_string(),
            other => failed(other.to_string()),
        })
    }

    /// Whether it holds.
    pub(super) fn holds(&self, evaluator: &Evaluator) -> Result<bool, String> {
        let value = self.value(evaluator)?;
        let why = || format!("expression '{}' resulted in error: must evaluate to bool", self.source);
        value.as_bool().ok_or_else(why)
    }
}

/// `matchConditions`.
pub(super) fn conditions(from: &Value, names: &Declarations) -> Vec<Expression> {
    let all = from["matchConditions"].as_array().into_iter().flatten();
    let source = |one: &Value| one["expression"].as_str().unwrap_or_default().trim().to_owned();
    all.map(|one| Expression::new(&source(one), names, Expected::Bool)).collect()
}

/// Whether all conditions hold. One that does not hold counts more than one that fails.
pub(super) fn all_hold(conditions: &[Expression], evaluator: &Evaluator) -> Result<bool, String> {
    let mut errors: Vec<String> = Vec::new();
    for condition in conditions {
        match condition.holds(evaluator) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => errors.push(why),
        }
    }
    match errors.len() {
        0 => Ok(true),
        1 => Err(errors.remove(0)),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

/// What every admission expression may name of a request: made once for all that see it in the same version.
pub(super) struct RequestVariables([(&'static str, Cel); 4]);

impl RequestVariables {
    /// Of the objects as they are shown, `request`, and the namespace. Making it counts on the request's budget.
    pub(super) fn of(
        request: &AdmissionRequest<'_>,
        shown: &Shown,
        about: &Value,
        namespace: &Value,
    ) -> RequestVariables {
        let mut counting = Evaluator::within(Limits::default(), &request.budget);
        let all = [
            ("object", &shown.object),
            ("oldObject", &shown.old),
            ("request", about),
            ("namespaceObject", namespace),
        ];
        RequestVariables(all.map(|(name, json)| {
            let value = Cel::from_json(json);
            counting.take(name, value.clone());
            (name, value)
        }))
    }
}

/// An evaluator that knows what every admission expression may name.
pub(super) fn evaluator(
    request: &AdmissionRequest<'_>,
    variables: &RequestVariables,
    authorizer: &Arc<dyn Authorize>,
) -> Evaluator {
    let mut evaluator = Evaluator::within(Limits::default(), &request.budget);
    variables.0.iter().for_each(|(name, value)| evaluator.set(name, value.clone()));
    let asked: Arc<dyn Asked> =
        Arc::new(Requester { authorizer: authorizer.clone(), user: request.user.clone() });
    evaluator.set("authorizer", Cel::authorizer(asked.clone(), Question::default()));
    let own = Question {
        group: request.definition.group.to_string(),
        resource: request.definition.plural.to_string(),
        subresource: request.subresource.to_owned(),
        namespace: request.key.namespace.to_string(),
        name: request.key.name.to_string(),
        ..Question::default()
    };
    evaluator.set("authorizer.requestResource", Cel::authorizer(asked, own));
    evaluator
}

/// Asks for the user of one request.
struct Requester {
    authorizer: Arc<dyn Authorize>,
    user: User,
}

impl Asked for Requester {
    fn check(&self, question: &Question) -> Decision {
        let attributes = Attributes {
            verb: question.verb.clone(),
            group: question.group.clone(),
            version: "*".to_owned(),
            resource: question.resource.clone(),
            subresource: question.subresource.clone(),
            namespace: question.namespace.clone(),
            name: question.name.clone(),
            path: question.path.clone(),
        };
        let account = question.service_account.as_ref();
        let account = account.map(|(namespace, name)| crate::user::service_account_user(namespace, name));
        let decided = self.authorizer.authorize(account.as_ref().unwrap_or(&self.user), &attributes);
        Decision { allowed: decided.allowed, reason: decided.reason, error: String::new() }
    }
}
