//! The bindings of templates: by kind, namespace and name.
//!
//! In: bindings with their templates, as they come and go; selectors of a policy or a rule. Out: keys of the bindings whose templates have a
//! kind, a namespace and a name that are selected; no other binding is looked at. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::binding::ObjectReference;
use karmada_api::policy::ResourceSelector;
use karmada_controller_runtime::port::Key;

/// By the template's name, and that by its namespace.
type OfKind = BTreeMap<String, BTreeMap<String, BTreeSet<Arc<Key>>>>;

/// The index.
#[derive(Default)]
pub(crate) struct BindingsByTemplate(BTreeMap<Kind, OfKind>);

/// A kind of templates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    api_version: String,
    kind: String,
}

/// Which templates a selector may mean, as far as kind and place tell; what is empty is any. Labels and versions are left to who looks at them.
#[derive(Clone, Copy, Debug)]
struct Selection<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// What these selectors mean within these namespaces: without selectors every template, without namespaces those of all.
fn selections<'a>(selectors: &'a [ResourceSelector], namespaces: &[&'a str]) -> Vec<Selection<'a>> {
    let any = Selection { kind: "", namespace: "", name: "" };
    let of = |selector: &'a ResourceSelector| Selection {
        kind: &selector.kind,
        namespace: &selector.namespace,
        name: &selector.name,
    };
    let mut all: Vec<Selection<'a>> = selectors.iter().map(of).collect();
    if selectors.is_empty() {
        all.push(any);
    }
    let within = |selection: Selection<'a>| match selection.namespace {
        "" if !namespaces.is_empty() => {
            namespaces.iter().map(|namespace| Selection { namespace, ..selection }).collect()
        }
        own if namespaces.is_empty() || namespaces.contains(&own) => vec![selection],
        _ => Vec::new(),
    };
    all.into_iter().flat_map(within).collect()
}

/// What stands under a key, or everything where the key is empty.
fn under<'a, T>(all: &'a BTreeMap<String, T>, key: &str) -> Vec<&'a T> {
    if key.is_empty() { all.values().collect() } else { all.get(key).into_iter().collect() }
}

impl BindingsByTemplate {
    /// Takes a binding in.
    pub(crate) fn put(&mut self, template: &ObjectReference, key: &Arc<Key>) {
        let ObjectReference { api_version, kind, namespace, name, .. } = template;
        let kind = Kind { api_version: api_version.clone(), kind: kind.clone() };
        let of_namespace = self.0.entry(kind).or_default().entry(namespace.clone()).or_default();
        of_namespace.entry(name.clone()).or_default().insert(key.clone());
    }

    /// Takes a binding out.
    pub(crate) fn remove(&mut self, template: &ObjectReference, key: &Key) {
        let ObjectReference { api_version, kind, namespace, name, .. } = template;
        let kind = Kind { api_version: api_version.clone(), kind: kind.clone() };
        let Some(of_kind) = self.0.get_mut(&kind) else { return };
        if let Some(of_namespace) = of_kind.get_mut(namespace) {
            if let Some(keys) = of_namespace.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    of_namespace.remove(name);
                }
            }
            if of_namespace.is_empty() {
                of_kind.remove(namespace);
            }
        }
        if of_kind.is_empty() {
            self.0.remove(&kind);
        }
    }

    /// The bindings whose templates selectors may mean within these namespaces, each once.
    pub(crate) fn selected(
        &self,
        selectors: &[ResourceSelector],
        namespaces: &[&str],
    ) -> BTreeSet<&Arc<Key>> {
        let mut keys = BTreeSet::new();
        for selection in selections(selectors, namespaces) {
            // There are few kinds.
            let is_meant = |kind: &Kind| selection.kind.is_empty() || kind.kind == selection.kind;
            for of_kind in self.0.iter().filter(|(kind, _)| is_meant(kind)).map(|(_, of_kind)| of_kind) {
                for of_namespace in under(of_kind, selection.namespace) {
                    keys.extend(under(of_namespace, selection.name).into_iter().flatten());
                }
            }
        }
        keys
    }

    /// The bindings of all templates of the kinds that are meant, by apiVersion and kind.
    pub(crate) fn of_kinds(&self, is_meant: impl Fn(&str, &str) -> bool) -> BTreeSet<&Arc<Key>> {
        let meant = self.0.iter().filter(|(kind, _)| is_meant(&kind.api_version, &kind.kind));
        meant.flat_map(|(_, of_kind)| of_kind.values().flat_map(BTreeMap::values).flatten()).collect()
    }

    /// The kinds of all templates, as apiVersion and kind.
    pub(crate) fn kinds(&self) -> BTreeSet<(String, String)> {
        self.0.keys().cloned().map(|Kind { api_version, kind }| (api_version, kind)).collect()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
