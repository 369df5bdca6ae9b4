//! What the expressions of an admission policy may name.
//!
//! In: a policy's spec, or the types of what it judges; then each variable in turn. Out: the declarations that the next expression is
//! compiled against. Pure.

use std::sync::Arc;

use crate::{Declarations, Object, Type};
use serde_json::Value;

/// What a policy's expressions may name: `params` where it has some, and the variables before them.
pub struct PolicyNames {
    declared: Declarations,
    /// Shared with who looks at the names now: another variable copies them only where somebody still does.
    variables: Arc<Object>,
    /// Whether there are variables at all.
    composed: bool,
}

impl PolicyNames {
    /// Of a policy's spec, without variables yet.
    pub fn of(spec: &Value) -> PolicyNames {
        let mut declared = Declarations::admission();
        if spec["paramKind"].is_object() {
            declared = declared.with("params", Type::Dyn);
        }
        let composed = spec["variables"].as_array().is_some_and(|all| !all.is_empty());
        let variables = Object { name: "kubernetes.variables".into(), ..Object::default() };
        PolicyNames { declared, variables: Arc::new(variables), composed }
    }

    /// The same where it is known what is judged, and what its parameters are; without variables yet.
    pub fn typed(object: &Type, params: Option<&Type>) -> PolicyNames {
        let declared =
            Declarations::admission().with("object", object.clone()).with("oldObject", object.clone());
        let declared = params.into_iter().fold(declared, |all, params| all.with("params", params.clone()));
        let variables = Object { name: "kubernetes.variables".into(), ..Object::default() };
        PolicyNames { declared, variables: Arc::new(variables), composed: true }
    }

    /// The names without the variables.
    pub fn without_variables(&self) -> &Declarations {
        &self.declared
    }

    /// The names as they are now.
    pub fn now(&self) -> Declarations {
        if !self.composed {
            return self.declared.clone();
        }
        self.declared.clone().with("variables", Type::Object(self.variables.clone()))
    }

    /// One more variable.
    pub fn add(&mut self, name: &str, yields: &Type) {
        Arc::make_mut(&mut self.variables).fields.insert(name.to_owned(), yields.as_variable());
    }
}
