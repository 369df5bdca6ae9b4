//! ResourceQuota: no write makes a namespace use more than its quotas allow.
//!
//! In: a create or update in a namespace that has quotas. Out: a 403 that says what does not fit; or a guard to be held until the
//! write is done. What is used is counted in the cache, not read off a quota's status: writes that a quota is about come one after
//! the other within their namespace, so that the count is exact, and it moves on by what happened since ([`tally`]). Namespaces
//! without quotas pay one look at a map.

mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_resource_quota as quota;
use karmada_schema::object::ObjectKey;
use karmada_store::Revision;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as Turn;

use self::tally::Tallies;
use super::{SerializedAdmission, WriteGuard};
use crate::cache::{Cache, ResourceCache};
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};
use crate::user::Origin;

/// Whose turn it is, by namespace, and what was counted last.
pub struct Quotas {
    quotas: Arc<ResourceCache>,
    turns: Mutex<BTreeMap<Arc<str>, Arc<Turn<()>>>>,
    tallies: Tallies,
    /// The change of quotas after which everything that belongs to none was forgotten.
    trimmed: Mutex<Revision>,
}

impl Quotas {
    /// Over the quotas in `cache`.
    pub fn new(cache: &Cache) -> Quotas {
        let quotas = cache.of_resource(&StorageId("core/resourcequotas".into()));
        Quotas { quotas, turns: Mutex::default(), tallies: Tallies::default(), trimmed: Mutex::default() }
    }

    /// Forgets what belongs to quotas that are no more, once after each change of quotas.
    fn trim(&self) {
        let now = self.quotas.revision();
        if std::mem::replace(&mut *self.trimmed.lock(), now) == now {
            return;
        }
        let quotas = self.quotas.snapshot("").items;
        self.tallies.keep(&quotas.iter().map(|quota| &quota.key).collect());
        let namespaces: BTreeSet<&str> = quotas.iter().map(|quota| &*quota.key.namespace).collect();
        // Whoever waits for a turn holds it, too.
        self.turns
            .lock()
            .retain(|namespace, turn| namespaces.contains(&**namespace) || Arc::strong_count(turn) > 1);
    }
}

#[async_trait::async_trait]
impl SerializedAdmission for Quotas {
    /// Refuses with 403 `exceeded quota: …` what does not fit.
    async fn admit(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<WriteGuard, Status> {
        if self.quotas.is_empty()
            || !request.definition.namespaced
            || request.operation == Operation::Delete
            || !request.subresource.is_empty() && request.subresource != "resize"
            || request.user.origin == Origin::Hub
        {
            return Ok(None);
        }
        let namespace = &request.key.namespace;
        self.trim();
        if self.quotas.snapshot(namespace).items.is_empty() {
            return Ok(None);
        }
        let turn = self.turns.lock().entry(namespace.clone()).or_default().clone();
        let held = turn.lock_owned().await;
        let quotas = self.quotas.snapshot(namespace).items;
        let quotas: Vec<(ObjectKey, Value)> =
            quotas.iter().map(|quota| (quota.key.clone(), quota.value())).collect();
        refuse_what_exceeds(request, &quotas, |key, quota| self.tallies.used(context.cache(), key, quota))?;
        Ok(Some(Box::new(held)))
    }
}

fn refuse_what_exceeds(
    request: &AdmissionRequest<'_>,
    quotas: &[(ObjectKey, Value)],
    used: impl Fn(&ObjectKey, &Value) -> quota::Amounts,
) -> Result<(), Status> {
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
    for (key, one) in quotas.iter().filter(|(_, one)| quota::covers(one, group, plural, request.object)) {
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        let is_pod = definition.row.known == BuiltinKind::Pod;
        if let Some(unsaid) = quota::unsaid(one, request.object).filter(|_| is_pod && request.old.is_none()) {
            return Err(refused(format!("failed quota: {name}: must specify {unsaid}")));
        }
        let hard = quota::hard(one);
        if !asked.keys().any(|resource| hard.contains_key(resource)) {
            continue;
        }
        if let Some(why) = quota::exceeded(name, &hard, &used(key, one), &asked) {
            return Err(refused(why));
        }
    }
    Ok(())
}
