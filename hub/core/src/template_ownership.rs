//! Whether a binding may have the template that it names, and still belongs to the one that it was made for.
//!
//! In: a binding, and the object that has its template's name now. Out: whether it is within reach; whether it is that object's, another's, or
//! nobody's.

use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use serde_json::Value;

use crate::skipped_resources;

/// Why a binding places nothing of what it names, and tells nothing of it: whoever may write bindings in one namespace has no right to
/// another's objects, nor to those of the whole cluster; and what the hub made for itself, or keeps as its own state, goes nowhere.
pub fn out_of_reach(binding: &ResourceBinding) -> Option<String> {
    let (own, resource) = (binding.namespace(), &binding.spec.resource);
    if own != resource.namespace {
        let place = |namespace: &str| match namespace {
            "" => "the whole cluster".to_owned(),
            namespace => format!("namespace {namespace}"),
        };
        let (own, other) = (place(own), place(&resource.namespace));
        return Some(format!("a binding of {own} places no object of {other}"));
    }
    let never = skipped_resources::skips_kind(&resource.api_version, &resource.kind);
    never.then(|| format!("objects of {} {} are never propagated", resource.api_version, resource.kind))
}

/// Whether the hub made `template` for itself, so that no binding places it.
pub fn is_the_hubs_own(template: &Value) -> bool {
    skipped_resources::is_the_hubs_own(template)
}

/// Whether a binding was made for another object than the one that has the template's name now. It places nothing of the newer one: what
/// cannot be changed in a member (a Job) must be removed there first, and made anew for a binding of its own.
pub fn is_of_another(binding: &ResourceBinding, template: &Value) -> bool {
    let uid = &binding.spec.resource.uid;
    !uid.is_empty() && uid != object::uid(template)
}

/// Whether a binding places objects of another group or kind than this, in whatever version. A binding's name has the kind of what it places and not the
/// group, and `Service` is a kind of more than one: such a binding is somebody else's, whoever owns it.
pub fn is_of_another_kind(binding: &ResourceBinding, api_version: &str, kind: &str) -> bool {
    let placed = &binding.spec.resource;
    let group = |api_version| object::group_version(api_version).0;
    !placed.kind.is_empty() && (group(&placed.api_version), &*placed.kind) != (group(api_version), kind)
}

/// Whether nothing but this decision will end a binding whose template is gone, or is another by now (`template` is what has its name):
/// nobody owns it, though it was made for an object. With an owner it is the garbage collector's, and one by hand, without a uid, is
/// its maker's.
pub fn is_left_over(binding: &ResourceBinding, template: Option<&Value>) -> bool {
    let owned =
        binding.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let gone = template.is_none_or(|template| is_of_another(binding, template));
    !owned && !binding.spec.resource.uid.is_empty() && gone
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_binding_reaches_what_is_in_its_own_namespace() {
        let why = |own: &str, namespace: &str, api_version: &str, kind: &str| {
            let binding = json!({"metadata": {"name": "b", "namespace": own},
                "spec": {"resource": {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": "x"}}});
            out_of_reach(&serde_json::from_value(binding).unwrap())
        };
        assert_eq!(why("a", "a", "v1", "Secret"), None);
        assert_eq!(why("", "", "v1", "Namespace"), None);
        assert_eq!(
            why("a", "b", "v1", "Secret").unwrap(),
            "a binding of namespace a places no object of namespace b"
        );
        assert_eq!(
            why("a", "", "rbac.authorization.k8s.io/v1", "ClusterRole").unwrap(),
            "a binding of namespace a places no object of the whole cluster"
        );
        assert!(why("", "b", "v1", "Secret").is_some());
        assert!(why("a", "a", "work.karmada.io/v1alpha1", "Work").is_some());
    }
}
