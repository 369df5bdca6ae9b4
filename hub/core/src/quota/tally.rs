//! What the bindings of one namespace use, kept from one look to the next: a binding is read when its spec changed, and no other.
//!
//! In: all bindings of the namespace, each with a stamp that changes when its spec does. Out: what each uses, and all together.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::binding::{BindingSpec, ResourceList};
use karmada_interpreter::pod_request::add;
use karmada_interpreter::usage;
use karmada_quantity::Quantity;

/// Of which life of a name a binding is, and how often its spec was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
}

/// The bindings of one namespace, by name.
#[derive(Debug, Default)]
pub struct Tally {
    bindings: BTreeMap<Arc<str>, (Stamp, ResourceList)>,
    total: ResourceList,
}

/// What a binding uses. What it asks for less than nothing of, nobody else is given.
pub fn used_by(spec: &BindingSpec) -> ResourceList {
    let mut used = usage::of_binding(spec);
    used.retain(|_, amount| *amount > Quantity::ZERO);
    used
}

impl Tally {
    /// Takes in how the namespace stands now. `read` is called for bindings that are new or changed; one that it cannot read uses nothing.
    pub fn take_in<B>(
        &mut self,
        all: impl IntoIterator<Item = (Arc<str>, Stamp, B)>,
        read: impl Fn(B) -> Option<BindingSpec>,
    ) {
        let mut before = std::mem::take(&mut self.bindings);
        self.total = ResourceList::new();
        for (name, stamp, binding) in all {
            let used = match before.remove(&name).filter(|(seen, _)| *seen == stamp) {
                Some((_, used)) => used,
                None => read(binding).map(|spec| used_by(&spec)).unwrap_or_default(),
            };
            add(&mut self.total, &used);
            self.bindings.insert(name, (stamp, used));
        }
    }

    /// What one binding uses.
    pub fn of(&self, name: &str) -> ResourceList {
        self.bindings.get(name).map(|(_, used)| used.clone()).unwrap_or_default()
    }

    /// What all of them use.
    pub fn total(&self) -> &ResourceList {
        &self.total
    }
}
