//! RuntimeClasses: what Pods of a class cost, and where they may run.
//!
//! In: a part of a class with its path. Out: field errors in kube-apiserver's order.

use std::collections::HashSet;

use karmada_schema::path::Path;
use karmada_schema::{FieldError, Shown};
use serde_json::{Value, json};

use super::metadata::labels;
use super::{Errors, list, resources, text};

/// What Pods of the class cost beside themselves.
pub(super) fn overhead(overhead: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    resources::requirements(&json!({"limits": overhead["podFixed"]}), path, errors);
}

/// The nodes that support the class.
pub(super) fn nodes_of_class(scheduling: &Value, _: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    labels(&scheduling["nodeSelector"], &path.child("nodeSelector"), errors);
    tolerations_of_class(scheduling, &path.child("tolerations"), errors);
}

fn tolerations_of_class(scheduling: &Value, path: &Path<'_>, errors: &mut Errors) {
    super::scheduling::tolerations(&scheduling["tolerations"], None, path, errors);
    let key = |one: &Value| ["key", "operator", "value", "effect"].map(|field| text(one, field).to_owned());
    let mut seen = HashSet::new();
    for (index, one) in list(scheduling, "tolerations").iter().enumerate() {
        let fields = key(one);
        if !seen.insert(fields.clone()) {
            let [key, operator, value, effect] = fields.map(Value::from);
            let shown = format!(
                "{{\"Key\":{key},\"Operator\":{operator},\"Value\":{value},\"Effect\":{effect},\"TolerationSeconds\":{}}}",
                one["tolerationSeconds"]
            );
            errors.push(FieldError::duplicate(&path.index(index), Shown::Raw(shown)));
        }
    }
}
