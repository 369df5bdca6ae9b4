//! What the bindings of one namespace use, kept from one look to the next: a binding is read when its spec changed, and no other.
//!
//! In: all bindings of the namespace, each with what changes when its spec does. Out: what each uses, and all together.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::binding::{BindingSpec, ResourceList};
use karmada_interpreter::pod_request::add;
use karmada_interpreter::usage;
use karmada_quantity::Quantity;

/// A binding as it is taken in.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'b, B> {
    /// `metadata.name`.
    pub name: &'b Arc<str>,
    /// `metadata.uid`: of which life of the name it is.
    pub uid: &'b str,
    /// `metadata.generation`: how often its spec was changed.
    pub generation: i64,
    /// What its spec is read in.
    pub binding: B,
}

/// What was read of a binding, and when.
#[derive(Debug)]
struct Counted {
    uid: Arc<str>,
    generation: i64,
    used: ResourceList,
}

impl Counted {
    fn is_of<B>(&self, seen: &Seen<'_, B>) -> bool {
        self.generation == seen.generation && *self.uid == *seen.uid
    }
}

/// The bindings of one namespace, by name.
#[derive(Debug, Default)]
pub struct Tally {
    bindings: BTreeMap<Arc<str>, Counted>,
    total: ResourceList,
}

/// What a binding uses. What it asks for less than nothing of, nobody else is given.
pub fn used_by(spec: &BindingSpec) -> ResourceList {
    let mut used = usage::of_binding(spec);
    used.retain(|_, amount| *amount > Quantity::ZERO);
    used
}

impl Tally {
    /// Takes in how the namespace stands now: `all` of its bindings, each once. `read` is called for bindings that are new or changed; one that it
    /// cannot read uses nothing. Where nothing was made, changed or deleted, that costs a comparison for each, and nothing is allocated for
    /// them.
    pub fn take_in<'b, B>(
        &mut self,
        all: impl Iterator<Item = Seen<'b, B>> + Clone,
        read: impl Fn(B) -> Option<BindingSpec>,
    ) {
        let known = self.bindings.iter();
        let is_as_counted = |(seen, (name, counted)): (Seen<'b, B>, (&Arc<str>, &Counted))| {
            seen.name == name && counted.is_of(&seen)
        };
        if all.clone().count() == known.len() && all.clone().zip(known).all(is_as_counted) {
            return;
        }
        let mut before = std::mem::take(&mut self.bindings);
        self.total = ResourceList::new();
        for seen in all {
            let counted =
                before.remove(seen.name).filter(|counted| counted.is_of(&seen)).unwrap_or_else(|| Counted {
                    uid: seen.uid.into(),
                    generation: seen.generation,
                    used: read(seen.binding).map(|spec| used_by(&spec)).unwrap_or_default(),
                });
            add(&mut self.total, &counted.used);
            self.bindings.insert(seen.name.clone(), counted);
        }
    }

    /// What one binding uses.
    pub fn of(&self, name: &str) -> ResourceList {
        self.bindings.get(name).map(|counted| counted.used.clone()).unwrap_or_default()
    }

    /// What all of them use.
    pub fn total(&self) -> &ResourceList {
        &self.total
    }
}
