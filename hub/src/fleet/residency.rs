//! The gate of ResidencyRules: no Work is stored for a cluster that a rule does not allow for something in it, whoever writes it.
//!
//! In: a write of a Work; a write of a rule. Out: nothing, or a 403 with the rule's name and what to do; for a rule that seems to be mistaken, a
//! warning. Rules are read anew when one changed. A hub without rules pays one look at how many there are; a Work of which no rule covers anything
//! one look for each manifest. Where a rule cannot be read, no Work is stored, as nobody knows what it covers.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::cluster::{Cluster, ClusterSpec};
use karmada_api::residency_rule::ResidencyRule;
use karmada_api::strings::conditions::RESIDENCY_VIOLATED;
use karmada_api::{CLUSTER_GROUP, EDGE_GROUP, WORK_GROUP, names, object};
use karmada_core::residency::{self, Rules, allows};
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_registry::admission::Admission;
use karmada_registry::cache::ResourceCache;
use karmada_registry::{AdmissionRequest, Operation, RegistryContext};
use karmada_schema::object::{ObjectKey, Stored};
use parking_lot::Mutex;
use serde::Deserialize;

/// The gate.
pub struct ResidencyGuard {
    rules: StorageId,
    clusters: StorageId,
    /// The rules as they were at a revision of theirs, or why they cannot be read.
    read: Mutex<Option<(u64, ReadRules)>>,
}

type ReadRules = Result<Arc<Rules>, String>;

/// What is read of a Cluster: what rules look at.
#[derive(Deserialize)]
struct Seen {
    metadata: Named,
    #[serde(default)]
    spec: ClusterSpec,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

fn cluster_of(stored: &Stored) -> Option<Cluster> {
    let Seen { metadata: Named { name, labels }, spec } = serde_json::from_slice(&stored.json()).ok()?;
    let mut cluster = Cluster { spec, ..Cluster::default() };
    (cluster.metadata.name, cluster.metadata.labels) = (Some(name), labels);
    Some(cluster)
}

impl Default for ResidencyGuard {
    fn default() -> Self {
        ResidencyGuard {
            rules: StorageId(format!("{EDGE_GROUP}/residencyrules").into()),
            clusters: StorageId(format!("{CLUSTER_GROUP}/clusters").into()),
            read: Mutex::default(),
        }
    }
}

impl ResidencyGuard {
    /// The rules, as they are stored now.
    fn rules(&self, stored: &ResourceCache) -> ReadRules {
        let now = stored.revision();
        let mut read = self.read.lock();
        if let Some((_, rules)) = read.as_ref().filter(|(at, _)| *at == now) {
            return rules.clone();
        }
        let snapshot = stored.snapshot("");
        let one = |stored: &Arc<Stored>| {
            let rule = serde_json::from_slice::<ResidencyRule>(&stored.json());
            rule.map(Arc::new).map_err(|error| format!("{} cannot be read: {error}", stored.key.name))
        };
        let rules: Result<Vec<Arc<ResidencyRule>>, String> = snapshot.items.iter().map(one).collect();
        let rules = rules.map(|rules| Arc::new(Rules::of(rules)));
        *read = Some((snapshot.revision, rules.clone()));
        rules
    }

    fn judge_work(&self, context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let (cache, stored) = (context.cache(), context.cache().of_resource(&self.rules));
        let unreadable = cache.unreadable_in(&self.rules, "");
        if stored.is_empty() && unreadable.is_none() {
            return Ok(());
        }
        let Some(cluster) = names::cluster_of_execution_namespace(&request.key.namespace) else {
            return Ok(());
        };
        let rules = match unreadable.map_or_else(|| self.rules(&stored), Err) {
            Ok(rules) => rules,
            Err(_) if is_unchanged(request) => return Ok(()),
            Err(why) => {
                let words = format!("no Work is taken until this residency rule is mended or deleted: {why}");
                // Not the rule's own refusal: whoever wrote tries again, as nobody is told when it is readable.
                return Err(Status::unavailable(words));
            }
        };
        let key = ObjectKey::new("", cluster);
        let find = || cache.get(&self.clusters, &key).and_then(|stored| cluster_of(&stored));
        let judged = residency::judge(&rules, cluster, (request.object, request.old), find);
        judged.map_err(|refusal| refused(refusal.to_string()))
    }

    /// What is strange about a rule, and no fault: a kind that is not served here, clusters that are not there.
    fn remark(&self, context: &RegistryContext, request: &AdmissionRequest<'_>) {
        let Ok(rule) = serde_json::from_value::<ResidencyRule>(request.object.clone()) else { return };
        let catalogue = context.catalogue();
        for (at, selector) in rule.spec.resource_selectors.iter().enumerate() {
            let (group, version) = object::group_version(&selector.api_version);
            if catalogue.kind(group, version, &selector.kind).is_none() {
                request.warnings.add(format!(
                    "spec.resourceSelectors[{at}]: {} {} is not served here: if it is misspelt, the rule covers nothing by it",
                    selector.api_version, selector.kind
                ));
            }
        }
        let clusters = context.cache().of_resource(&self.clusters).snapshot("").items;
        if !clusters.iter().filter_map(|stored| cluster_of(stored)).any(|cluster| allows(&rule, &cluster)) {
            request.warnings.add("spec.clusterAffinity: it means no cluster that is there now".to_owned());
        }
    }
}

/// Whether a write leaves what a Work is to hold as it is, and sends nothing that was held back.
fn is_unchanged(request: &AdmissionRequest<'_>) -> bool {
    request.old.is_some_and(|old| old["spec"] == request.object["spec"])
}

fn refused(message: String) -> Status {
    Status { code: 403, reason: RESIDENCY_VIOLATED.into(), message, details: None }
}

impl Admission for ResidencyGuard {
    fn admit(&self, _: &RegistryContext, _: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn judge(&self, context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_write = matches!(request.operation, Operation::Create | Operation::Update);
        if !is_write || !request.subresource.is_empty() {
            return Ok(());
        }
        match (&*request.definition.group, &*request.definition.kind) {
            (WORK_GROUP, "Work") => self.judge_work(context, request),
            (EDGE_GROUP, "ResidencyRule") => {
                self.remark(context, request);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
