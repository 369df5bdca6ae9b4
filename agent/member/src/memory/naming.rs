//! Under which name the member in memory keeps an object, and how it shows it: versions of a kind are views of the same objects, and
//! what is in no namespace has none, whatever a request says.
//!
//! In: an object's name as a request says it. Out: the name that it is kept under, or why there can be none such. Pure.

use serde_json::Value;

use super::State;
use crate::{Gvk, MemberError, ObjectId};

impl State {
    /// Whether the kind of `id` is in namespaces; an error where it is not served, or where nothing of it can have this name.
    pub(super) fn named(&self, id: &ObjectId) -> Result<bool, MemberError> {
        if let Some(fault) = id.fault() {
            return Err(MemberError::NoObject(fault));
        }
        let Some((_, namespaced)) = self.kinds.get(&id.gvk) else {
            return Err(MemberError::NoKind(id.gvk.clone()));
        };
        if *namespaced && id.namespace.is_empty() {
            let words = format!("{id} needs a namespace, and its manifest says none");
            return Err(MemberError::NoObject(words));
        }
        Ok(*namespaced)
    }

    /// The name under which the object `id` is kept, or would be.
    pub(super) fn kept_as(&self, id: &ObjectId) -> ObjectId {
        let mut id = id.clone();
        let kinds = self.kinds.iter().chain(&self.unserved);
        let mut versions = kinds.filter(|(gvk, _)| gvk.group == id.gvk.group && gvk.kind == id.gvk.kind);
        if versions.clone().any(|(_, (_, namespaced))| !namespaced) {
            id.namespace.clear();
        }
        if self.objects.contains_key(&id) {
            return id;
        }
        let kept = versions.find_map(|(gvk, _)| {
            let other = ObjectId { gvk: gvk.clone(), ..id.clone() };
            self.objects.contains_key(&other).then_some(other)
        });
        kept.unwrap_or(id)
    }
}

/// Shows `object` in the version of `gvk`.
pub(super) fn as_version(object: &mut Value, gvk: &Gvk) {
    if let Value::Object(fields) = object {
        fields.insert("apiVersion".into(), gvk.api_version().into());
    }
}
