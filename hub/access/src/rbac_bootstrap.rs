//! Puts the default roles in place at start, as kube-apiserver's RBAC post-start hook does.
//!
//! In: the registry. Out: what is missing is created; rules, subjects, labels and selectors that are missing are added, unless
//! the object's `autoupdate` annotation is `"false"`. Nothing that a user added is taken away; of the rules that an earlier
//! version gave, those are that gave too much.

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_definitions::version::split_api_version;
use karmada_registry::{Registry, User, WriteOptions};
use karmada_schema::object::{ObjectKey, meta};
use serde_json::{Value, json};

use crate::default_roles::{OwnRoles, bootstrap_roles};
use crate::policy_rule::{Rule, compact, missing};

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const TRIES: usize = 4;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Objects made.
    pub created: usize,
    /// Objects that got something added.
    pub updated: usize,
}

/// Puts every default role and binding in place, kube-apiserver's and `own`, and the namespaces that they stand in.
///
/// # Errors
/// One of them could not be written; those after it are not looked at.
pub async fn reconcile(registry: &Registry, own: &OwnRoles) -> Result<Reconciled, Status> {
    let mut done = Reconciled::default();
    for wanted in bootstrap_roles().iter().chain(&own.roles) {
        ensure_namespace(registry, meta::namespace(wanted)).await?;
        let retired = own.retired.get(meta::name(wanted)).map_or(&[][..], Vec::as_slice);
        ensure(registry, (wanted, retired), &mut done).await?;
    }
    for class in karmada_registry::admission::system_classes() {
        ensure_present(registry, class).await?;
    }
    Ok(done)
}

fn options() -> WriteOptions {
    let user = User::apiserver();
    WriteOptions { user, field_manager: "karmada-hub".into(), ..WriteOptions::default() }
}

async fn ensure_namespace(registry: &Registry, name: &str) -> Result<(), Status> {
    if name.is_empty() {
        return Ok(());
    }
    ensure_present(registry, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .await
}

/// Creates what is not there; what is stays as it is.
async fn ensure_present(registry: &Registry, wanted: Value) -> Result<(), Status> {
    let definition = definition(registry, &wanted)?;
    if registry.get(&definition, "", meta::name(&wanted)).is_ok() {
        return Ok(());
    }
    match registry.create(&definition, "", wanted, &options()).await {
        Err(status) if status.reason == "AlreadyExists" => Ok(()),
        other => other.map(drop),
    }
}

/// Makes one role or binding what it is to be; of the rules that are there, those that are `retired` go.
async fn ensure(
    registry: &Registry,
    (wanted, retired): (&Value, &[Value]),
    done: &mut Reconciled,
) -> Result<(), Status> {
    let definition = definition(registry, wanted)?;
    let key = ObjectKey::new(meta::namespace(wanted), meta::name(wanted));
    for _ in 0..TRIES {
        let Some(live) = registry.find(&definition, &key.namespace, &key.name)? else {
            match registry.create(&definition, &key.namespace, wanted.clone(), &options()).await {
                Err(status) if status.reason == "AlreadyExists" => continue,
                other => return other.map(|_| done.created += 1),
            }
        };
        let Some(completed) = completed(&live.value(), wanted, retired) else { return Ok(()) };
        let mut change = |_: Option<&Value>| Ok(completed.clone());
        match registry.update(&definition, &key, &options(), &mut change).await {
            Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => {}
            other => return other.map(|_| done.updated += 1),
        }
    }
    Err(Status::conflict(&definition, &key.name))
}

fn definition(registry: &Registry, object: &Value) -> Result<std::sync::Arc<ResourceDefinition>, Status> {
    let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap_or(""));
    let kind = object["kind"].as_str().unwrap_or("");
    let found = registry.catalogue().kind(group, version, kind).cloned();
    found.ok_or_else(|| Status::internal(format!("{kind} is not served")))
}

/// The live object with what it lacks; `None` where it lacks nothing or must be left alone. Pure.
fn completed(live: &Value, wanted: &Value, retired: &[Value]) -> Option<Value> {
    if live["metadata"]["annotations"][AUTOUPDATE] == "false" {
        return None;
    }
    let mut new = live.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            if new["metadata"][field].get(key).is_none() {
                new["metadata"][field][key] = value.clone();
            }
        }
    }
    add_missing(&mut new["subjects"], &wanted["subjects"]);
    if let Some(selectors) = wanted["aggregationRule"].get("clusterRoleSelectors") {
        add_missing(&mut new["aggregationRule"]["clusterRoleSelectors"], selectors);
    } else if wanted["rules"].is_array() {
        if let Some(rules) = new["rules"].as_array_mut() {
            rules.retain(|rule| !retired.contains(rule));
        }
        add_rules(&mut new["rules"], &wanted["rules"]);
    }
    drop_nulls(&mut new, live);
    (new != *live).then_some(new)
}

fn add_missing(live: &mut Value, wanted: &Value) {
    for item in wanted.as_array().into_iter().flatten() {
        if !live.as_array().is_some_and(|have| have.contains(item)) {
            push(live, item.clone());
        }
    }
}

fn add_rules(live: &mut Value, wanted: &Value) {
    // A role that somebody made too large to be compared stays as it is.
    let lacking = missing(&Rule::list(live), &Rule::list(wanted)).unwrap_or_default();
    for rule in compact(&lacking) {
        push(live, rule.to_json());
    }
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// Indexing a JSON object makes its members: those that only came so go again.
fn drop_nulls(new: &mut Value, live: &Value) {
    for field in ["subjects", "rules"] {
        if new[field].is_null()
            && live.get(field).is_none()
            && let Some(members) = new.as_object_mut()
        {
            members.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the hub adds.
    fn own_roles() -> OwnRoles {
        serde_json::from_str(include_str!("../../data/default_roles.json")).unwrap()
    }

    fn hubs_roles() -> Vec<Value> {
        bootstrap_roles().into_iter().chain(own_roles().roles).collect()
    }

    #[test]
    fn what_is_missing_is_added_and_a_users_additions_stay() {
        let rule =
            |verb: &str, resource: &str| json!({"apiGroups": [""], "resources": [resource], "verbs": [verb]});
        let wanted = json!({"kind": "ClusterRole", "metadata": {"name": "r", "labels": {"a": "1"}},
            "rules": [rule("get", "pods"), rule("list", "pods")]});
        let live = json!({"kind": "ClusterRole", "metadata": {"name": "r", "labels": {"a": "mine"}},
            "rules": [rule("get", "pods"), rule("delete", "nodes")]});
        let new = completed(&live, &wanted, &[]).unwrap();
        assert_eq!(new["rules"], json!([rule("get", "pods"), rule("delete", "nodes"), rule("list", "pods")]));
        assert_eq!(new["metadata"]["labels"]["a"], "mine");
        assert_eq!(completed(&new, &wanted, &[]), None, "the second run changes nothing");
        let mut left = live;
        left["metadata"]["annotations"] = json!({AUTOUPDATE: "false"});
        assert_eq!(completed(&left, &wanted, &[]), None);
    }

    #[test]
    fn only_an_administrator_reads_works_by_default() {
        let reads_works = |rules: &Value| {
            Rule::list(rules).iter().any(|rule| {
                let group = rule.api_groups.iter().any(|group| group == "*" || group == "work.karmada.io");
                group
                    && rule
                        .resources
                        .iter()
                        .any(|r| r == "*" || r == "*/*" || r == "works" || r == "works/status")
            })
        };
        let all = hubs_roles();
        let readers: Vec<&str> = all.iter().filter(|o| reads_works(&o["rules"])).map(meta::name).collect();
        assert_eq!(readers, ["cluster-admin"], "a Work holds the manifest of a Secret");

        let gone = own_roles().retired.remove("karmada-view").unwrap();
        let wanted = all.iter().find(|object| meta::name(object) == "karmada-view").unwrap();
        let mut older = wanted.clone();
        let own = json!({"apiGroups": ["work.karmada.io"], "resources": ["works"], "verbs": ["get"], "resourceNames": ["mine"]});
        older["rules"] = json!(gone);
        older["rules"].as_array_mut().unwrap().push(own.clone());
        let new = completed(&older, wanted, &gone).unwrap();
        assert!(new["rules"].as_array().unwrap().contains(&own), "what a person gave stays");
        let mut rest = new["rules"].clone();
        rest.as_array_mut().unwrap().retain(|rule| *rule != own);
        assert!(!reads_works(&rest), "an upgrade takes it away: {rest}");
        assert_eq!(completed(&new, wanted, &gone), None);
    }

    #[test]
    fn rules_of_an_aggregated_role_are_not_touched() {
        let selector = |label: &str| json!({"matchLabels": {label: "true"}});
        let wanted = json!({"metadata": {"name": "view"}, "rules": null,
            "aggregationRule": {"clusterRoleSelectors": [selector("a")]}});
        let mut live = wanted.clone();
        live["rules"] = json!([{"verbs": ["get"]}]);
        live["aggregationRule"]["clusterRoleSelectors"] = json!([selector("mine")]);
        let new = completed(&live, &wanted, &[]).unwrap();
        assert_eq!(new["rules"], live["rules"]);
        assert_eq!(new["aggregationRule"]["clusterRoleSelectors"], json!([selector("mine"), selector("a")]));
    }

    #[test]
    fn every_default_is_whole_and_no_secret_leaks_into_karmadas_roles() {
        let all = hubs_roles();
        let mut names = std::collections::BTreeSet::new();
        for object in &all {
            assert!(names.insert((object["kind"].to_string(), meta::namespace(object), meta::name(object))));
            assert_eq!(completed(object, object, &[]), None);
            assert!(
                object["roleRef"].is_object()
                    || object["rules"].is_array()
                    || object["aggregationRule"].is_object()
            );
        }
        for object in all.iter().filter(|o| meta::name(o).starts_with("karmada-")) {
            let reads = Rule::list(&object["rules"]);
            assert!(reads.iter().all(|r| !r.api_groups.iter().any(|g| g.is_empty() || g == "*")), "{object}");
        }
    }
}
