//! Whether a binding still belongs to the template that it was made for.
//!
//! In: a binding, and the object that has its template's name now. Out: whether it is that object's, another's, or nobody's.

use karmada_api::binding::ResourceBinding;
use karmada_api::object;
use serde_json::Value;

/// Whether a binding was made for another object than the one that has the template's name now. It places nothing of the newer one: what
/// cannot be changed in a member (a Job) must be removed there first, and made anew for a binding of its own.
pub fn is_of_another(binding: &ResourceBinding, template: &Value) -> bool {
    let uid = &binding.spec.resource.uid;
    !uid.is_empty() && uid != object::uid(template)
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
