//! Which templates a policy has claimed.
//!
//! In: changes of templates. Out: for a policy's permanent id, the templates that carry its mark. Read from labels, without the object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::strings::labels;
use parking_lot::RwLock;

use crate::port::{Change, Object, Resource, TemplateKey};

/// The index.
#[derive(Default)]
pub struct ClaimsIndex(RwLock<State>);

#[derive(Default)]
struct State {
    claims: BTreeMap<Arc<str>, BTreeSet<TemplateKey>>,
    by_template: BTreeMap<TemplateKey, Arc<str>>,
}

/// The permanent id of the policy that claimed an object.
fn claim(object: &Object) -> Option<&str> {
    let label = |key: &str| object.labels.get(key).map(String::as_str).filter(|id| !id.is_empty());
    label(labels::PROPAGATION_POLICY_ID).or_else(|| label(labels::CLUSTER_PROPAGATION_POLICY_ID))
}

impl ClaimsIndex {
    /// Takes note of a change.
    pub fn observe(&self, resource: &Resource, change: &Change) {
        let (object, id) = match change {
            Change::Applied(object) => (object, claim(object)),
            Change::Deleted(object) => (object, None),
        };
        let template = TemplateKey { resource: resource.clone(), key: object.key.clone() };
        if self.0.read().by_template.get(&template).map(|held| &**held) != id {
            self.0.write().set(template, id);
        }
    }

    /// The templates that a policy has.
    pub fn of(&self, policy_id: &str) -> Vec<TemplateKey> {
        let state = self.0.read();
        state.claims.get(policy_id).map(|claimed| claimed.iter().cloned().collect()).unwrap_or_default()
    }
}

impl State {
    fn set(&mut self, template: TemplateKey, id: Option<&str>) {
        if let Some(before) = self.by_template.remove(&template)
            && let Some(claimed) = self.claims.get_mut(&before)
        {
            claimed.remove(&template);
            if claimed.is_empty() {
                self.claims.remove(&before);
            }
        }
        let Some(id) = id else { return };
        let id = self.claims.get_key_value(id).map_or_else(|| Arc::from(id), |(held, _)| held.clone());
        self.claims.entry(id.clone()).or_default().insert(template.clone());
        self.by_template.insert(template, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Api;
    use crate::port::fake::FakeApi;
    use serde_json::{Value, json};

    #[test]
    fn a_claim_is_known_from_its_mark_until_it_or_the_template_is_gone() {
        let (api, index) = (FakeApi::default(), ClaimsIndex::default());
        let maps = api.resource_of("v1", "ConfigMap").unwrap();
        let map = |labels: Value| {
            api.seed(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "labels": labels}}))
        };
        let near = "propagationpolicy.karmada.io/permanent-id";
        index.observe(&maps, &Change::Applied(map(json!({near: "one"}))));
        assert_eq!(index.of("one").len(), 1);
        index.observe(&maps, &Change::Applied(map(json!({near: "two"}))));
        assert_eq!((index.of("one").len(), index.of("two").len()), (0, 1));
        index.observe(&maps, &Change::Applied(map(json!({}))));
        index.observe(&maps, &Change::Applied(map(json!({near: "two"}))));
        index.observe(&maps, &Change::Deleted(map(json!({near: "two"}))));
        let state = index.0.read();
        assert!(state.claims.is_empty() && state.by_template.is_empty());
        assert_eq!(api.calls("read", "ConfigMap"), 0);
    }
}
