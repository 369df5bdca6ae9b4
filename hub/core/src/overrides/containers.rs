//! Where containers stand in the kinds that image, command and args overriders know, and the changes of words. In: a manifest, and an
//! overrider. Out: the manifest, changed in place; a container or kind that is not there changes nothing. Pure.

use karmada_api::object;
use karmada_api::override_policy::{CommandArgsOverrider, Operator};
use serde_json::{Map, Value};

use crate::kind_facts;

/// The containers (not the init containers) of a Pod, or of a workload with a pod template; none of other kinds.
pub fn containers(manifest: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let path = kind_facts::of_name(object::kind(manifest)).containers;
    let list = path.and_then(|path| object::get_mut(manifest, path)).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Adds words to a container's command or args, or removes them wherever they stand in it. To replace is no operation of words, and does
/// nothing.
pub fn apply(manifest: &mut Value, overrider: &CommandArgsOverrider, field: &str) {
    for container in containers(manifest) {
        if container.get("name").and_then(Value::as_str) != Some(&overrider.container_name) {
            continue;
        }
        let mut words = container.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        match overrider.operator {
            Operator::Add => words.extend(overrider.value.iter().map(|word| Value::from(word.as_str()))),
            Operator::Remove => {
                words.retain(|word| !overrider.value.iter().any(|w| word.as_str() == Some(w)));
            }
            Operator::Replace => continue,
        }
        container.insert(field.to_owned(), Value::Array(words));
    }
}
