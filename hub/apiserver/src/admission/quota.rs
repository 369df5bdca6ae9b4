//! ResourceQuota: no write makes a namespace use more than its quotas allow.
//!
//! In: a create or update in a namespace that has quotas. Out: a 403 that says what does not fit; or a guard to be held until the
//! write is done. What is used is counted in the cache, not read off a quota's status: writes that a quota is about come one after
//! the other within their namespace, so that the count is exact. Namespaces without quotas pay one look at a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::quota::{self, Objects};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use crate::cache::{Cache, Shard};
use crate::registry::{AdmissionRequest, Operation, Registry, Standing};
use crate::resource::StorageId;
use crate::status::Status;

/// Whose turn it is, by namespace.
pub struct Quotas {
    quotas: Arc<Shard>,
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn<()>>>>,
}

/// Held while a counted write is under way.
pub(crate) type Held = Option<OwnedMutexGuard<()>>;

struct Cached<'a> {
    registry: &'a Registry,
    namespace: &'a str,
}

impl Cached<'_> {
    fn list(&self, group: &str, plural: &str) -> Vec<Arc<crate::object::Stored>> {
        let group = if group.is_empty() { "core" } else { group };
        let shard = self.registry.cache().shard(&StorageId(format!("{group}/{plural}").into()));
        shard.snapshot(self.namespace).items
    }
}

impl Objects for Cached<'_> {
    fn count(&self, group: &str, plural: &str) -> usize {
        self.list(group, plural).len()
    }

    fn all(&self, group: &str, plural: &str) -> Vec<Value> {
        self.list(group, plural).iter().map(|object| object.value()).collect()
    }
}

impl Quotas {
    /// Over the quotas in `cache`.
    pub fn new(cache: &Cache) -> Quotas {
        let quotas = cache.shard(&StorageId("core/resourcequotas".into()));
        Quotas { quotas, turns: Mutex::default() }
    }

    /// Refuses what does not fit; otherwise the guard is to be held until the write is done.
    ///
    /// # Errors
    /// 403 `exceeded quota: …`.
    pub(crate) async fn admit(
        &self,
        registry: &Registry,
        request: &AdmissionRequest<'_>,
    ) -> Result<Held, Status> {
        if self.quotas.is_empty()
            || !request.definition.namespaced
            || request.operation == Operation::Delete
            || !request.subresource.is_empty() && request.subresource != "resize"
            || request.user.standing == Standing::Hub
        {
            return Ok(None);
        }
        let namespace = &request.key.namespace;
        if self.quotas.snapshot(namespace).items.is_empty() {
            return Ok(None);
        }
        let turn = self.turns.lock().entry(namespace.clone()).or_default().clone();
        let held = turn.lock_owned().await;
        let quotas: Vec<Value> =
            self.quotas.snapshot(namespace).items.iter().map(|quota| quota.value()).collect();
        judge(registry, request, &quotas)?;
        Ok(Some(held))
    }
}

fn judge(registry: &Registry, request: &AdmissionRequest<'_>, quotas: &[Value]) -> Result<(), Status> {
    let definition = request.definition;
    let (group, plural) = (&*definition.storage_group, &*definition.plural);
    let refused = |why: String| Status::forbidden(definition, &request.key.name, &why);
    let mut asked = quota::usage(group, plural, request.object);
    if let Some(old) = request.old {
        for (name, before) in quota::usage(group, plural, old) {
            let more = asked.entry(name).or_default();
            *more = more.minus(before);
        }
    }
    let objects = Cached { registry, namespace: &request.key.namespace };
    for one in quotas.iter().filter(|one| quota::covers(one, group, plural, request.object)) {
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        let is_pod = group.is_empty() && plural == "pods";
        if let Some(unsaid) = quota::unsaid(one, request.object).filter(|_| is_pod && request.old.is_none()) {
            return Err(refused(format!("failed quota: {name}: must specify {unsaid}")));
        }
        let hard = quota::hard(one);
        if !asked.keys().any(|resource| hard.contains_key(resource)) {
            continue;
        }
        let used = quota::used(one, &objects);
        if let Some(why) = quota::exceeded(name, &hard, &used, &asked) {
            return Err(refused(why));
        }
    }
    Ok(())
}
