//! What users put between a request and the store: admission webhooks and admission policies, as configured now.
//!
//! In: the configurations in the cache. Out: [`Configured`], compiled once for each version of each object. With none of them a
//! write pays three looks at whether a map is empty.
//!
//! Who passes by: the configurations themselves, so that a webhook that refuses everything can be taken away (as in
//! kube-apiserver); what the process itself lays down at start and what is reported to it, so that it starts and shows what is
//! whatever a webhook does; and what its controllers write of their own machinery (Leases, events, and the groups that were named to be
//! exempt), which people do not write and it cannot be without. All else that controllers write passes like a user's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use karmada_definitions::resource::StorageId;

use super::policies::{Binding, Policy};
use super::webhooks::Hook;
use crate::authorize::Authorize;
use crate::block_in_place::apart;
use crate::cache::{Cache, ResourceCache};
use crate::request::AdmissionRequest;
use crate::user::Origin;

/// Group of the configurations.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// The configurations of one kind by name, each with the revision it was read at.
type Read<T> = BTreeMap<Arc<str>, (u64, T)>;

/// What is configured now.
#[derive(Default)]
pub(crate) struct Configured {
    revisions: [u64; 4],
    mutating: Read<Arc<[Hook]>>,
    validating: Read<Arc<[Hook]>>,
    policies: Read<Arc<Policy>>,
    bindings: Read<Arc<Binding>>,
}

impl Configured {
    /// Mutating webhooks in the order they are called: by name of their configuration.
    pub(super) fn mutating(&self) -> impl Iterator<Item = &Hook> {
        self.mutating.values().flat_map(|(_, hooks)| hooks.iter())
    }

    /// Policies by name.
    pub(super) fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values().map(|(_, policy)| &**policy)
    }

    /// Bindings by name.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.values().map(|(_, binding)| &**binding)
    }

    /// Validating webhooks.
    pub(super) fn validating(&self) -> impl Iterator<Item = &Hook> {
        self.validating.values().flat_map(|(_, hooks)| hooks.iter())
    }
}

/// Follows the configurations.
pub struct DynamicAdmission {
    /// Mutating and validating webhooks, policies, bindings.
    resource_caches: [Arc<ResourceCache>; 4],
    now: ArcSwapOption<Configured>,
    /// Held while the configurations are read.
    reading: Mutex<()>,
    /// Answers what expressions ask of `authorizer`.
    pub(crate) authorizer: Arc<dyn Authorize>,
    /// Groups of which nobody judges what controllers write.
    pub(crate) exempt: &'static [&'static str],
}

impl DynamicAdmission {
    /// Over the configurations in `cache`.
    pub fn new(cache: &Arc<Cache>, authorizer: Arc<dyn Authorize>) -> DynamicAdmission {
        let kinds = [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ];
        let resource_caches =
            kinds.map(|plural| cache.of_resource(&StorageId(format!("{GROUP}/{plural}").into())));
        DynamicAdmission {
            resource_caches,
            now: ArcSwapOption::empty(),
            reading: Mutex::new(()),
            authorizer,
            exempt: &[],
        }
    }

    /// What is configured for a request; `None` where nothing is, or nothing may stand in this request's way.
    pub(crate) fn for_request(&self, request: &AdmissionRequest<'_>) -> Option<Arc<Configured>> {
        let [mutating, validating, _, bindings] = &self.resource_caches;
        if mutating.is_empty() && validating.is_empty() && bindings.is_empty() || self.passes_by(request) {
            return None;
        }
        let revisions = [0, 1, 2, 3].map(|at: usize| self.resource_caches[at].revision());
        if let Some(now) = self.now.load_full().filter(|now| now.revisions == revisions) {
            return Some(now);
        }
        Some(apart(|| self.read(revisions)))
    }

    fn passes_by(&self, request: &AdmissionRequest<'_>) -> bool {
        let (group, plural) = (&*request.definition.group, &*request.definition.plural);
        if group == GROUP {
            return true;
        }
        match request.user.origin {
            Origin::Client => false,
            Origin::Controller => {
                plural == "events" || group == "coordination.k8s.io" || self.exempt.contains(&group)
            }
            Origin::Hub => true,
        }
    }

    /// Reads the configurations anew: by one request, while the others that need it wait.
    fn read(&self, revisions: [u64; 4]) -> Arc<Configured> {
        let _one_reads = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.now.load_full().unwrap_or_default();
        if before.revisions == revisions {
            return before;
        }
        let [mutating, validating, policies, bindings] = &self.resource_caches;
        let configured = Arc::new(Configured {
            revisions,
            mutating: read(mutating, &before.mutating, Hook::all),
            validating: read(validating, &before.validating, Hook::all),
            policies: read(policies, &before.policies, Policy::read),
            bindings: read(bindings, &before.bindings, Binding::read),
        });
        self.now.store(Some(configured.clone()));
        configured
    }
}

/// Every object of a kind, read; those that are as before are not read again.
fn read<T: Clone>(
    resource_cache: &ResourceCache,
    before: &Read<T>,
    of: impl Fn(&serde_json::Value) -> T,
) -> Read<T> {
    let objects = resource_cache.snapshot("").items.into_iter();
    let one = |object: Arc<karmada_schema::object::Stored>| {
        let known = before.get(&object.key.name).filter(|(revision, _)| *revision == object.revision);
        let read = known.map_or_else(|| of(&object.value()), |(_, known)| known.clone());
        (object.key.name.clone(), (object.revision, read))
    };
    objects.map(one).collect()
}
