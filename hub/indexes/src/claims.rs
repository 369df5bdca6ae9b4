//! Which templates a policy has claimed.
//!
//! In: changes of templates. Out: for a policy, the templates that carry its mark. Read from labels, without the object. A mark is text
//! that anybody may write who may write the template, and so is a policy's permanent id: one of a namespace has claimed nothing beyond it,
//! and one kind of policy nothing of the other's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::labels;
use parking_lot::RwLock;

use karmada_controller_runtime::port::{Change, Object, Resource, TemplateKey};

/// A mark: which label of the two, and the permanent id in it.
type ClaimLabel = (&'static str, Arc<str>);

/// The index.
#[derive(Default)]
pub struct ClaimsIndex(RwLock<State>);

#[derive(Default)]
struct State {
    claims: BTreeMap<ClaimLabel, BTreeSet<TemplateKey>>,
    by_template: BTreeMap<TemplateKey, ClaimLabel>,
}

/// The mark of the policy that claimed an object.
fn claim(object: &Object) -> Option<(&'static str, &str)> {
    [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID].into_iter().find_map(|key| {
        object.labels.get(key).map(String::as_str).filter(|id| !id.is_empty()).map(|id| (key, id))
    })
}

/// The mark by which a policy's claims are found; `None` where it has no permanent id yet.
pub fn claim_label_of(policy: &PropagationPolicy) -> Option<(&'static str, String)> {
    let key = if policy.namespace().is_empty() {
        labels::CLUSTER_PROPAGATION_POLICY_ID
    } else {
        labels::PROPAGATION_POLICY_ID
    };
    policy.label(key).filter(|id| !id.is_empty()).map(|id| (key, id.to_owned()))
}

impl ClaimsIndex {
    /// Takes note of a change.
    pub fn observe(&self, resource: &Resource, change: &Change) {
        let (object, label) = match change {
            Change::Applied(object) => (object, claim(object)),
            Change::Deleted(object) => (object, None),
        };
        let template = TemplateKey { resource: resource.clone(), key: object.key.clone() };
        let held = self.0.read().by_template.get(&template).map(|(key, id)| (*key, id.clone()));
        if held.as_ref().map(|(key, id)| (*key, &**id)) != label {
            self.0.write().set(template, label);
        }
    }

    /// The templates that a policy has.
    pub fn of(&self, policy: &PropagationPolicy) -> Vec<TemplateKey> {
        let Some((key, id)) = claim_label_of(policy) else { return Vec::new() };
        let state = self.0.read();
        let claimed = state.claims.get(&(key, Arc::from(id))).into_iter().flatten();
        let reaches = |template: &&TemplateKey| {
            policy.namespace().is_empty() || *template.key.namespace == *policy.namespace()
        };
        claimed.filter(reaches).cloned().collect()
    }
}

impl State {
    fn set(&mut self, template: TemplateKey, label: Option<(&'static str, &str)>) {
        if let Some(before) = self.by_template.remove(&template)
            && let Some(claimed) = self.claims.get_mut(&before)
        {
            claimed.remove(&template);
            if claimed.is_empty() {
                self.claims.remove(&before);
            }
        }
        let Some((key, id)) = label else { return };
        let label: ClaimLabel = (key, Arc::from(id));
        let label = self.claims.get_key_value(&label).map_or(label.clone(), |(held, _)| held.clone());
        self.claims.entry(label.clone()).or_default().insert(template.clone());
        self.by_template.insert(template, label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_controller_runtime::port::Api;
    use karmada_controller_runtime::port::fake::FakeApi;
    use serde_json::{Value, json};

    #[test]
    fn a_claim_is_known_from_its_mark_until_it_or_the_template_is_gone() {
        let (api, index) = (FakeApi::default(), ClaimsIndex::default());
        let maps = api.resource_of("v1", "ConfigMap").unwrap();
        let map = |labels: Value| {
            api.seed(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", "labels": labels}}))
        };
        let [near, wide] = [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID];
        let policy = |namespace: &str, label: &str, id: &str| -> PropagationPolicy {
            serde_json::from_value(
                json!({"metadata": {"name": "p", "namespace": namespace, "labels": {label: id}},
                "spec": {"resourceSelectors": []}}),
            )
            .unwrap()
        };
        let claimed = |namespace: &str, label: &str, id: &str| index.of(&policy(namespace, label, id)).len();
        index.observe(&maps, &Change::Applied(map(json!({near: "one"}))));
        assert_eq!(claimed("n", near, "one"), 1);
        // The same id, written by somebody who has read it, is no claim on what is another's.
        assert_eq!((claimed("other", near, "one"), claimed("", wide, "one")), (0, 0));
        assert_eq!(claimed("n", wide, "one"), 0);
        index.observe(&maps, &Change::Applied(map(json!({near: "two"}))));
        assert_eq!((claimed("n", near, "one"), claimed("n", near, "two")), (0, 1));
        index.observe(&maps, &Change::Applied(map(json!({}))));
        index.observe(&maps, &Change::Applied(map(json!({near: "two"}))));
        index.observe(&maps, &Change::Deleted(map(json!({near: "two"}))));
        index.observe(&maps, &Change::Applied(map(json!({wide: "two"}))));
        assert_eq!((claimed("", wide, "two"), claimed("n", near, "two")), (1, 0));
        index.observe(&maps, &Change::Deleted(map(json!({}))));
        let state = index.0.read();
        assert!(state.claims.is_empty() && state.by_template.is_empty());
        assert_eq!(api.calls("read", "ConfigMap"), 0);
    }
}
