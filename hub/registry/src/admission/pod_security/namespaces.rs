//! What Pod security says to a namespace whose labels are written.
//!
//! In: the labels before and after. Out: a refusal of labels that cannot be read; or warnings of Pods that are there already and
//! would be refused now. They stay: nothing is done about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::{Cause, Status};
use karmada_schema::object::Stored;
use karmada_schema::quote;
use serde_json::Value;

use super::policy::{Level, Policy, Standard};
use super::standards::{in_brief, violations};
use crate::block_in_place::apart;
use crate::registry_context::RegistryContext;
use crate::request::AdmissionRequest;

/// How many Pods one change of labels has looked at.
const MOST_PODS: usize = 3000;

/// How long that may take.
const LONGEST: SignedDuration = SignedDuration::from_secs(1);

/// Judges a namespace that is made or changed, and warns of the Pods in it.
///
/// # Errors
/// 422 where labels of a policy cannot be read and could be before.
pub(super) fn admit(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let (policy, wrong) = policy_of(request.object);
    let before = request.old.map(policy_of);
    let known = before.as_ref().is_some_and(|(_, before)| *before == wrong);
    if !wrong.is_empty() && !known {
        let definition = request.definition;
        return Err(Status::invalid(&definition.group, &definition.kind, &request.key.name, wrong));
    }
    if before.is_some_and(|(before, _)| is_tighter(before.enforce, policy.enforce)) {
        let found = apart(|| look(context, &request.key.name, policy.enforce));
        request.warnings.extend(found.told(&request.key.name, policy.enforce));
    }
    Ok(())
}

fn policy_of(namespace: &Value) -> (Policy, Vec<Cause>) {
    let labels = &namespace["metadata"]["labels"];
    Policy::read(|key| labels.get(key).and_then(Value::as_str).map(str::to_owned))
}

/// Whether what passed may not pass now.
fn is_tighter(before: Standard, now: Standard) -> bool {
    now != before
        && now.level != Level::Privileged
        && (now.version != before.version || now.level > before.level)
}

/// Looks at the Pods of a namespace: those first that no other Pod stands for, as those of one controller are alike.
fn look(context: &RegistryContext, namespace: &str, standard: Standard) -> Found {
    let pods = context.cache().of_resource(&StorageId("core/pods".into())).snapshot(namespace).items;
    let mut found = Found { there: pods.len(), ..Found::default() };
    let until = context.now().checked_add(LONGEST).unwrap_or(Timestamp::MAX);
    let (mut controllers, mut alike): (BTreeSet<String>, Vec<Arc<Stored>>) = Default::default();
    for pod in pods {
        let object = pod.value();
        if controller(&object).is_some_and(|uid| !controllers.insert(uid.to_owned())) {
            alike.push(pod);
        } else {
            found.judge(&object, standard);
        }
        if found.is_enough() || context.now() > until {
            return found;
        }
    }
    for pod in alike {
        found.judge(&pod.value(), standard);
        if found.is_enough() || context.now() > until {
            break;
        }
    }
    found
}

/// The uid of the controller that a Pod is one of.
fn controller(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

/// What was found of a namespace's Pods.
#[derive(Debug, Default)]
struct Found {
    there: usize,
    looked_at: usize,
    /// By what they violate, how many, and the first of their names.
    violating: BTreeMap<String, (usize, String)>,
}

impl Found {
    fn judge(&mut self, pod: &Value, standard: Standard) {
        self.looked_at += 1;
        let Some(why) = in_brief(&violations(standard, &pod["metadata"], &pod["spec"])) else { return };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let (count, first) = self.violating.entry(why).or_insert_with(|| (0, name.to_owned()));
        *count += 1;
        if name < first.as_str() {
            name.clone_into(first);
        }
    }

    fn is_enough(&self) -> bool {
        self.looked_at >= MOST_PODS
    }

    /// What was found, as warnings for whoever sets the level.
    fn told(&self, namespace: &str, standard: Standard) -> Vec<String> {
        let Found { there, looked_at, violating } = self;
        let mut told = Vec::new();
        if looked_at < there {
            told.push(format!(
                "new PodSecurity enforce level only checked against the first {looked_at} of {there} existing pods"
            ));
        }
        if !violating.is_empty() {
            told.push(format!(
                "existing pods in namespace {} violate the new PodSecurity enforce level {}",
                quote(namespace),
                quote(&standard.to_string())
            ));
        }
        let mut each: Vec<String> =
            violating.iter().map(|(why, (count, first))| sentence(why, *count, first)).collect();
        each.sort_unstable();
        told.extend(each);
        told
    }
}

fn sentence(why: &str, count: usize, first: &str) -> String {
    match count {
        1 => format!("{first}: {why}"),
        2 => format!("{first} (and 1 other pod): {why}"),
        _ => format!("{first} (and {} other pods): {why}", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::policy::Version;
    use super::*;

    #[test]
    fn pods_that_violate_the_same_are_told_of_together() {
        let standard = Standard { level: Level::Baseline, version: Version::Latest };
        let mut found = Found { there: 5, ..Found::default() };
        for (name, spec) in [
            ("b", json!({"hostPID": true})),
            ("a", json!({"hostPID": true})),
            ("c", json!({"hostPID": true})),
            ("z", json!({"volumes": [{"name": "v", "hostPath": {}}]})),
        ] {
            found.judge(&json!({"metadata": {"name": name}, "spec": spec}), standard);
        }
        assert_eq!(
            found.told("n", standard),
            [
                "new PodSecurity enforce level only checked against the first 4 of 5 existing pods",
                "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "a (and 2 other pods): host namespaces",
                "z: hostPath volumes",
            ]
        );
    }
}
