//! Puts aggregated ClusterRoles together: the rules of a role with an `aggregationRule` are those of the roles that it selects.
//!
//! In: ClusterRoles. Out: the `rules` of the aggregated ones. Roles are selected by label, in name order, each rule once. There
//! may be a role for every agent: a change wakes the aggregated roles only where it may concern one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_schema::selector::LabelSelector;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{find, mentions, resource};
use karmada_controller_runtime::informer::Informers;
use karmada_controller_runtime::port::{Api, Change, Key, Object};
use karmada_controller_runtime::queue::Queue;
use karmada_controller_runtime::runner::{self, Action, Controller, Error, Source};

const GROUP: &str = "rbac.authorization.k8s.io/v1";

/// Who owns the rules of aggregated roles.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Between two looks at whether all is put together.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the controller until told to stop.
pub async fn run(informers: impl Into<Informers>, stop: CancellationToken) {
    let informers: Informers = informers.into();
    let api = informers.api().clone();
    let interest: Arc<Mutex<Interest>> = Arc::default();
    let controller = Arc::new(Aggregation { api: api.clone(), interest: interest.clone() });
    let sources = vec![Source::new(GROUP, "ClusterRole", move |change| interest.lock().woken_by(change))];
    runner::run(informers, controller, Arc::new(Queue::default()), sources, 1, stop).await;
}

/// Resolves once every aggregated role holds what it selects: a hub that starts lets nobody in before.
pub async fn wait_until_aggregated(api: &dyn Api) {
    while !is_aggregated(api).await.unwrap_or(false) {
        tokio::time::sleep(LOOK).await;
    }
}

async fn is_aggregated(api: &dyn Api) -> Result<bool, Error> {
    let roles = api.list(&resource(api, GROUP, "ClusterRole")?, "").await?;
    for object in roles.iter().filter(|object| mentions(object, "\"aggregationRule\"")) {
        let role = object.value()?;
        let selectors = selectors(&role);
        if selectors.is_empty() || object.deleting {
            continue;
        }
        let wanted = gathered(&selected(&object.key.name, &selectors, &roles))?;
        if role["rules"].as_array().map_or(&[][..], Vec::as_slice) != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Which roles are aggregated, from what, and which roles took part.
#[derive(Default)]
struct Interest {
    selectors: BTreeMap<Key, Vec<Value>>,
    parts: BTreeSet<Key>,
}

impl Interest {
    /// The aggregated roles that a change may concern.
    fn woken_by(&mut self, change: &Change) -> Vec<Key> {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        let selectors = match change {
            Change::Applied(object) if mentions(object, "\"aggregationRule\"") => {
                object.value().map(|role| selectors(&role)).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        self.selectors.remove(&object.key);
        if !selectors.is_empty() {
            self.selectors.insert(object.key.clone(), selectors);
        }
        let alive = matches!(change, Change::Applied(_));
        let takes_part = alive && self.selectors.values().flatten().any(|s| matches(s, &object.labels));
        let took_part = self.parts.remove(&object.key);
        if takes_part {
            self.parts.insert(object.key.clone());
        }
        if takes_part || took_part {
            return self.selectors.keys().cloned().collect();
        }
        let own = self.selectors.contains_key(&object.key);
        if own { vec![object.key.clone()] } else { Vec::new() }
    }
}

struct Aggregation {
    api: Arc<dyn Api>,
    interest: Arc<Mutex<Interest>>,
}

#[async_trait::async_trait]
impl Controller for Aggregation {
    type Key = Key;

    fn name(&self) -> &'static str {
        "clusterrole-aggregation"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let roles = resource(&*self.api, GROUP, "ClusterRole")?;
        let Some(object) = find(&*self.api, &roles, "", &key.name).await? else { return Ok(Action::Done) };
        let role = object.value()?;
        let selectors = selectors(&role);
        if selectors.is_empty() || object.deleting {
            return Ok(Action::Done);
        }
        let parts = selected(&key.name, &selectors, &self.api.list(&roles, "").await?);
        // What takes part now may stop to: its next change must wake this role even if it no longer matches.
        self.interest.lock().parts.extend(parts.iter().map(|part| part.key.clone()));
        let rules = gathered(&parts)?;
        if role["rules"].as_array() != Some(&rules) {
            let of = &key.name;
            let applied =
                json!({"apiVersion": GROUP, "kind": "ClusterRole", "metadata": {"name": of}, "rules": rules});
            self.api.apply(&roles, applied, MANAGER).await?;
        }
        Ok(Action::Done)
    }
}

fn selectors(role: &Value) -> Vec<Value> {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().cloned().unwrap_or_default()
}

/// The roles selected, in the order of their selectors and then of their names; a role does not gather itself.
fn selected(own: &str, selectors: &[Value], roles: &[Arc<Object>]) -> Vec<Arc<Object>> {
    let others = || roles.iter().filter(|role| &*role.key.name != own);
    let by = |selector| others().filter(move |role| matches(selector, &role.labels)).cloned();
    selectors.iter().flat_map(by).collect()
}

/// Whether a role's labels meet the selector. An empty one meets all, as in Kubernetes; what is none meets nothing.
fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    selector.is_object() && LabelSelector::of_json(selector).matches(|key| labels.get(key))
}

/// The rules of these roles, each once.
fn gathered(roles: &[Arc<Object>]) -> Result<Vec<Value>, Error> {
    let mut rules: Vec<Value> = Vec::new();
    for role in roles {
        for rule in role.value()?["rules"].as_array().into_iter().flatten() {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{api, settle};
    use super::*;
    use karmada_controller_runtime::port::fake::FakeApi;

    fn role(name: &str, label: &str, verbs: &[&str]) -> Value {
        let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
        json!({"apiVersion": GROUP, "kind": "ClusterRole", "metadata": {"name": name, "labels": {label: "true"}}, "rules": rules})
    }

    fn aggregate(name: &str, label: &str, own_label: &str) -> Value {
        let mut role = role(name, own_label, &[]);
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        role
    }

    fn verbs(api: &FakeApi, name: &str) -> Vec<String> {
        let role = api.value(GROUP, "ClusterRole", "", name).unwrap();
        role["rules"].as_array().unwrap().iter().map(|r| r["verbs"][0].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_no_selector_gathers_nothing() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let near = json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["1"]}]});
        for (selector, expected) in [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"a": "1"}}), true),
            (near, false),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn roles_flow_into_those_that_select_them_step_by_step() {
        let api = api();
        api.seed_all([
            aggregate("edit", "to-edit", "to-admin"),
            aggregate("view", "to-view", "to-edit"),
            role("a-part", "to-view", &["get", "list"]),
            role("b-part", "to-edit", &["update", "get"]),
            role("agent", "system", &["watch"]),
        ]);
        let stop = CancellationToken::new();
        let acts = async {
            let pause = || tokio::time::sleep(Duration::from_secs(1));
            assert!(!is_aggregated(&*api).await.unwrap());
            wait_until_aggregated(&*api).await;
            assert_eq!(
                (verbs(&api, "view"), verbs(&api, "edit")),
                (vec!["get".into(), "list".into()], vec!["update".into(), "get".into(), "list".into()],)
            );
            let quiet = api.revision();
            api.seed(role("another-agent", "system", &["watch"]));
            pause().await;
            assert_eq!(api.revision(), quiet + 1);
            let mut part = api.value(GROUP, "ClusterRole", "", "a-part").unwrap();
            part["metadata"]["labels"] = json!({});
            let roles = api.resource_of(GROUP, "ClusterRole").unwrap();
            api.update(&roles, part).await.unwrap();
            pause().await;
            assert!(verbs(&api, "view").is_empty(), "what takes part no longer is taken back");
            assert_eq!(verbs(&api, "edit"), ["update", "get"]);
        };
        tokio::join!(settle(run(api.clone(), stop.clone()), stop), acts);
    }
}
