//! `authorizer` in admission expressions: asks whether the requester may do something.
//!
//! In: whoever can answer for the requester ([`Authorizer`]), and the steps of the expression. Out: a value that asks once, at `check`, and
//! tells the decision. The answer is taken as it comes; nothing is decided here.
//!
//! `authorizer.group('apps').resource('deployments').namespace('n').name('x').check('create').allowed()`.

use std::fmt;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as Cel};

/// What an expression asks about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// A path that is no resource; then only the verb counts besides.
    pub path: String,
    /// Group of the resource.
    pub group: String,
    /// Resource.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Namespace and name of a service account that is asked about instead of the requester.
    pub service_account: Option<(String, String)>,
    /// Verb.
    pub verb: String,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong; empty for nothing.
    pub error: String,
}

/// Who knows the answer, for the requester of one request.
pub trait Authorizer: Send + Sync {
    /// Answers one question.
    fn check(&self, question: &Question) -> Decision;
}

/// What asks `authorizer`, beginning from a question.
pub(crate) fn value(authorizer: Arc<dyn Authorizer>, question: Question) -> Cel {
    Cel::Opaque(Arc::new(Asking { authorizer, question }))
}

#[derive(Clone)]
struct Asking {
    authorizer: Arc<dyn Authorizer>,
    question: Question,
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.question.fmt(f)
    }
}

impl PartialEq for Asking {
    fn eq(&self, other: &Self) -> bool {
        self.question == other.question
    }
}

impl Eq for Asking {}

impl Opaque for Asking {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Authorizer"
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Decided(Decision);

impl Opaque for Decided {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }
}

fn asking(name: &'static str, this: &Cel) -> Result<Asking, ExecutionError> {
    let found = match this {
        Cel::Opaque(opaque) => opaque.downcast_ref::<Asking>().cloned(),
        _ => None,
    };
    found.ok_or_else(|| ExecutionError::function_error(name, "no such overload"))
}

fn decided(name: &'static str, this: &Cel) -> Result<Decision, ExecutionError> {
    let found = match this {
        Cel::Opaque(opaque) => opaque.downcast_ref::<Decided>().map(|decided| decided.0.clone()),
        _ => None,
    };
    found.ok_or_else(|| ExecutionError::function_error(name, "no such overload"))
}

fn text(text: &str) -> ResolveResult {
    Ok(Cel::String(Arc::new(text.to_owned())))
}

/// Narrows a question down.
type Step = fn(&mut Question, String);

/// Adds the functions of authorizers and decisions.
pub(crate) fn register(context: &mut Context<'_>) {
    let steps: [(&'static str, Step); 6] = [
        ("path", |q, text| q.path = text),
        ("group", |q, text| q.group = text),
        ("resource", |q, text| q.resource = text),
        ("subresource", |q, text| q.subresource = text),
        ("namespace", |q, text| q.namespace = text),
        ("name", |q, text| q.name = text),
    ];
    for (name, set) in steps {
        let step = move |This(this): This<Cel>, given: Arc<String>| -> ResolveResult {
            let mut asking = asking(name, &this)?;
            set(&mut asking.question, given.to_string());
            Ok(Cel::Opaque(Arc::new(asking)))
        };
        context.add_function(name, step);
    }
    let account = |This(this): This<Cel>, namespace: Arc<String>, name: Arc<String>| -> ResolveResult {
        let mut asking = asking("serviceAccount", &this)?;
        asking.question.service_account = Some((namespace.to_string(), name.to_string()));
        Ok(Cel::Opaque(Arc::new(asking)))
    };
    context.add_function("serviceAccount", account);
    context.add_function("check", |This(this): This<Cel>, verb: Arc<String>| -> ResolveResult {
        let mut asking = asking("check", &this)?;
        asking.question.verb = verb.to_string();
        Ok(Cel::Opaque(Arc::new(Decided(asking.authorizer.check(&asking.question)))))
    });
    context.add_function("allowed", |This(this): This<Cel>| -> ResolveResult {
        Ok(Cel::Bool(decided("allowed", &this)?.allowed))
    });
    context.add_function("errored", |This(this): This<Cel>| -> ResolveResult {
        Ok(Cel::Bool(!decided("errored", &this)?.error.is_empty()))
    });
    context.add_function("reason", |This(this): This<Cel>| -> ResolveResult {
        text(&decided("reason", &this)?.reason)
    });
    context.add_function("error", |This(this): This<Cel>| -> ResolveResult {
        text(&decided("error", &this)?.error)
    });
}
