//! Binding controller: a binding that has clusters gets one Work in each; Works that nobody wants go. In: a binding with its template,
//! policies and rules, by the cache. Out: Works written, marked or deleted, and events; which cluster gets what is decided in
//! `karmada-core`.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::names;
use karmada_api::object;
use karmada_api::strings::conditions::RESIDENCY_VIOLATED;
use karmada_api::strings::labels::REMOVAL_HELD;
use karmada_api::strings::{events, finalizers};
use karmada_core::binding::{self, ClusterWork, Input, WorkError};
use karmada_core::dependencies::attached;
use karmada_core::feature_gates::Gate;
use karmada_core::overrides;
use karmada_core::targets::Places;
use karmada_core::template_ownership;
use karmada_interpreter::Operation;
use serde::Deserialize;
use serde_json::Value;

use crate::controller_context::{ControllerContext, Put};
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::indexes::bindings::BindingsIndex;
use crate::indexes::works::binding_id;
use crate::interpretations::uninterpreted;
use crate::karmada_metrics::Measure;
use crate::port::{Api, ApiError, Change, DeletionPropagation, Key, Object, Resource};
use crate::removal_limit::{Removal, RemovalLimit};
use crate::runner::{Action, Controller, Error, Source};
use crate::typed::Transition;

const BINDING_API: &str = "work.karmada.io/v1alpha2";
const KINDS: [&str; 2] = ["ResourceBinding", "ClusterResourceBinding"];
const WORK_API: &str = "work.karmada.io/v1alpha1";

/// How long to wait for Works that must go before new ones come.
const PURGE_WAIT: Duration = Duration::from_secs(5);

/// How long to wait for what is decided of others that this follows, where nothing tells of it.
const REFERRERS_WAIT: Duration = Duration::from_secs(30);

/// Works of one binding that are written at once.
const WRITES_AT_ONCE: usize = 16;

/// The controller of both kinds of bindings: the namespace tells which (empty: ClusterResourceBinding).
pub struct Binding {
    shared: Arc<ControllerContext>,
}

/// What came of the Work for one cluster.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    /// It is there.
    Yes,
    /// It cannot be there now; whatever changes that wakes this.
    No,
    /// A ResidencyRule keeps it out: which, and what to do.
    Withheld(String),
}

/// The bindings whose Works wait at a cluster of which a person just said that they may go, or for which another LinkPolicy may hold now.
fn waiting_for_confirmation(
    bindings: &BindingsIndex,
    removal_limit: &RemovalLimit,
    transition: &Transition<Cluster>,
) -> Vec<Key> {
    removal_limit.to_judge_again(transition).iter().filter_map(|work| bindings.of_work(work)).collect()
}

/// Whether it is decided of a Work that nobody wants whether it goes.
fn is_decided(work: &Object) -> bool {
    work.deleting || work.labels.contains_key(REMOVAL_HELD)
}

impl Binding {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(Binding { shared })
    }

    /// What wakes this controller:
    /// - a binding, by its spec or labels;
    /// - its Works, but by their status; one that is deleted or held wakes also the bindings that depend on it;
    /// - override policies, for the bindings that they match or did;
    /// - a customization or a webhook of their template's kind, and what a webhook was asked of the template;
    /// - a Cluster that appears, or that override policies mean otherwise now, for the bindings that name it;
    /// - a confirmation or a LinkPolicy that may let held Works go;
    /// - a ResidencyRule, or a Cluster, after whose change those that are kept out of a cluster may not be any more.
    pub fn wakes(shared: &ControllerContext) -> Vec<Source<Key>> {
        let mut sources: Vec<Source<Key>> =
            KINDS.iter().map(|kind| Source::own(BINDING_API, kind).but_status()).collect();
        let bindings = shared.bindings.clone();
        let works = Source::new(WORK_API, "Work", move |change| {
            let (Change::Applied(work) | Change::Deleted(work)) = change;
            let own = bindings.of_work(work);
            let decided = matches!(change, Change::Deleted(_)) || is_decided(work);
            let after = own.iter().filter(|_| decided).flat_map(|key| bindings.dependencies.attached_to(key));
            let after: Vec<Key> = after.collect();
            own.into_iter().chain(after).collect()
        });
        sources.push(works.but_status());
        let bindings = shared.bindings.clone();
        sources.push(shared.overrides.wakes(move |transition| {
            let same = transition.before.as_ref().map(|policy| &policy.spec)
                == transition.now.as_ref().map(|policy| &policy.spec);
            if same { Vec::new() } else { bindings.to_render(transition) }
        }));
        sources.push(shared.interpretations(&[Operation::ReviseReplica], |key, _| Some(key)));
        let bindings = shared.bindings.clone();
        sources.push(shared.clusters.wakes(move |transition| {
            let comes = transition.before.is_none() && transition.now.is_some();
            if comes { bindings.naming(&transition.key.name) } else { Vec::new() }
        }));
        let (bindings, overrides) = (shared.bindings.clone(), shared.overrides.clone());
        sources.push(shared.clusters.wakes(move |transition| {
            let (Some(before), Some(now)) = (&transition.before, &transition.now) else { return Vec::new() };
            let policies = || overrides.everywhere().into_iter().map(|(_, policy)| policy);
            let is_other = overrides::are_other_for(policies, before, now);
            if is_other { bindings.naming(&transition.key.name) } else { Vec::new() }
        }));
        let (bindings, removal_limit) = (shared.bindings.clone(), shared.removal_limit.clone());
        sources.push(
            shared
                .clusters
                .wakes(move |transition| waiting_for_confirmation(&bindings, &removal_limit, transition)),
        );
        let (bindings, removal_limit) = (shared.bindings.clone(), shared.removal_limit.clone());
        sources.push(shared.removal_limit.policies.wakes(move |_| {
            removal_limit.all_held().iter().filter_map(|work| bindings.of_work(work)).collect()
        }));
        sources.extend(shared.residency.withheld(&shared.clusters));
        sources
    }

    /// Marks Works for deletion. Each stays until its cluster has let go of what it placed, or is gone for good.
    async fn remove_works(&self, works: impl Iterator<Item = &Arc<Object>>) -> Result<(), Error> {
        for work in works {
            self.shared.remove_work(work).await?;
        }
        Ok(())
    }

    /// Removes what nobody wants any more, but for what would be too much at once for its site. Whether anything waits for what it follows.
    async fn remove_unwanted_works(
        &self,
        binding: &ResourceBinding,
        works: &[Arc<Object>],
        places: &Places<'_>,
    ) -> Result<bool, Error> {
        let (mut follows, let_go) = (false, attached::let_go(binding));
        let is_let_go = |namespace: &str| {
            names::cluster_of_execution_namespace(namespace).is_some_and(|cluster| let_go.contains(cluster))
        };
        for work in works.iter().filter(|work| !work.deleting) {
            let namespace = &work.key.namespace;
            if !places.is_unwanted(namespace) {
                self.hold_no_longer(work).await?;
                continue;
            }
            // What must be gone before others come was so decided by whoever wrote the policy; what keeps its objects takes nothing away.
            let removal = match places.goes_first(namespace) || is_let_go(namespace) || keeps_objects(work)? {
                true => Removal::Goes,
                false if self.is_referred_to(binding, namespace).await? => {
                    follows = true;
                    continue;
                }
                false => {
                    let (of, beside) = (&binding.spec.resource, self.staying_beside(work));
                    self.shared.removal_limit.judge(work, of, beside).await?
                }
            };
            match removal {
                Removal::Goes => self.remove_works(std::iter::once(work)).await?,
                Removal::Waits => {}
                Removal::Held { since, first } => {
                    self.hold(work, &since, first).await?;
                    self.tell_held(binding, work);
                }
            }
        }
        Ok(follows)
    }

    /// Whether what requires this binding has a Work in this place of which it is not decided yet whether it goes: were what it refers to
    /// gone by then, it might be held back without it. What refers to others itself waits for nobody, or those in a circle waited for ever.
    async fn is_referred_to(&self, binding: &ResourceBinding, namespace: &str) -> Result<bool, Error> {
        let works = kinds::works(&*self.shared.api)?;
        for referrer in binding.spec.required_by.iter().filter(|_| !binding.spec.propagate_deps) {
            let key =
                Key { namespace: referrer.namespace.as_str().into(), name: referrer.name.as_str().into() };
            let id = self.shared.bindings.id_of(&key);
            let own = id.map(|id| self.shared.works.of(&id)).unwrap_or_default();
            for at in own.iter().filter(|at| *at.namespace == *namespace) {
                let found = fetch::get_object(&*self.shared.api, &works, &at.namespace, &at.name).await?;
                if found.is_some_and(|work| !is_decided(&work)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Takes the mark off a Work that is wanted again, also where it cannot be made now as it should be: else it went on waiting, and a word
    /// that was said since would let it go the next time that nobody wants it.
    async fn hold_no_longer(&self, work: &Object) -> Result<(), Error> {
        if !work.labels.contains_key(REMOVAL_HELD) {
            return Ok(());
        }
        let mut unmarked: Value = work.parse()?;
        object::remove_label(&mut unmarked, REMOVAL_HELD);
        self.rewrite(unmarked).await
    }

    /// Writes a Work with or without a mark, and has it known at once.
    async fn rewrite(&self, work: Value) -> Result<(), Error> {
        let written = self.shared.api.update(&kinds::works(&*self.shared.api)?, work).await?;
        self.shared.removal_limit.observe(&Change::Applied(written));
        Ok(())
    }

    /// The Works of bindings in this cluster's namespace that are not being deleted. Works of namespaces and quotas are not counted: every cluster has
    /// them, and they would hide that everything else is removed.
    async fn staying_beside(&self, work: &Object) -> Result<usize, Error> {
        let resource = kinds::works(&*self.shared.api)?;
        let all = self.shared.api.list(&resource, &work.key.namespace).await?;
        Ok(all.iter().filter(|work| !work.deleting && binding_id(work).is_some()).count())
    }

    /// Marks a Work that waits for a person, and tells of the first of a site.
    async fn hold(&self, work: &Object, since: &str, first: bool) -> Result<(), Error> {
        let mut held: Value = work.parse()?;
        object::set_label(&mut held, REMOVAL_HELD, since);
        self.rewrite(held).await?;
        let cluster = names::cluster_of_execution_namespace(&work.key.namespace).unwrap_or_default();
        if first {
            let message = format!(
                "changes of placement take more from this site than its LinkPolicy allows at once, or a namespace or a definition with all that is in it: what waits \
                 goes on running there. To see it: kubectl get works -n {} -l {REMOVAL_HELD}. To let go what waits by then: karmadactl confirm \
                 {cluster} --batch BATCH, with the batch that kubectl get clusterlink {cluster} -o yaml shows as heldRemovals",
                work.key.namespace
            );
            tracing::warn!(cluster, "Works that a change of placement takes wait for a person");
            let about = Reference::of_cluster(cluster, "");
            self.shared.recorder.record(&about, EventType::Warning, events::DELETES_HELD, &message);
        }
        Ok(())
    }

    /// Whoever looks at the workload sees two copies of it, and is to know why.
    fn tell_held(&self, binding: &ResourceBinding, work: &Object) {
        let cluster = names::cluster_of_execution_namespace(&work.key.namespace).unwrap_or_default();
        let message = format!(
            "it goes on running in cluster {cluster}, to which it does not belong any more, until a person lets it go: karmadactl confirm {cluster}, with the batch \
             that kubectl get clusterlink {cluster} -o yaml shows as heldRemovals"
        );
        self.shared.recorder.record_of_binding(binding, EventType::Warning, events::DELETES_HELD, &message);
    }

    /// The binding goes once its Works are marked for deletion: what is still to be removed is known from them, each in its
    /// cluster's namespace, so a cluster that is away holds neither the binding nor a new template of the same name.
    async fn end(&self, resource: &Resource, binding: &ResourceBinding) -> Result<Action, Error> {
        let works = self.shared.works_of(binding).await?;
        self.remove_works(works.iter()).await?;
        let mut value = fetch::to_value(binding)?;
        let mut changed = object::remove_finalizer(&mut value, finalizers::BINDING);
        changed |= object::remove_finalizer(&mut value, finalizers::CLUSTER_BINDING);
        if changed {
            self.shared.api.update(resource, value).await?;
        }
        Ok(Action::Done)
    }

    /// A binding that nobody owns any more and whose template is gone: nothing else ends it.
    async fn give_up(
        &self,
        resource: &Resource,
        key: &Key,
        binding: &ResourceBinding,
    ) -> Result<Action, Error> {
        let uid = binding.metadata.uid.as_deref().unwrap_or("");
        match self.shared.api.delete(resource, key, uid, DeletionPropagation::Background).await {
            Ok(()) | Err(ApiError::NotFound(_)) => Ok(Action::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the Work for one cluster.
    async fn write(&self, template: &Value, wanted: &ClusterWork) -> Result<Written, Error> {
        let work = match &wanted.work {
            Ok(work) => work,
            Err(WorkError::NoCluster(_) | WorkError::Leaving(_)) => return Ok(Written::No),
            // The answer wakes this again; until then the Work stays as it is.
            Err(WorkError::Interpret(error)) if self.shared.asks(error)? => return Ok(Written::No),
            Err(error @ WorkError::Residency(_)) => {
                return Ok(self.withheld(template, wanted, &error.to_string()));
            }
            Err(error) => {
                let reason = match error {
                    WorkError::Override(_) => events::APPLY_OVERRIDE_POLICY_FAILED,
                    _ => events::SYNC_WORK_FAILED,
                };
                let message = format!("{}: {error}", wanted.cluster);
                self.shared.recorder.record(&Reference::of(template), EventType::Warning, reason, &message);
                return Err(match error {
                    WorkError::Interpret(error) => uninterpreted(error, message),
                    _ => Error::Other(message),
                });
            }
        };
        let put = self.shared.put_work(work).await;
        let words = match &put {
            Ok(Put::Done) => return Ok(Written::Yes),
            Err(Error::Api(ApiError::Forbidden { reason, message })) if reason == RESIDENCY_VIOLATED => {
                return Ok(self.withheld(template, wanted, message));
            }
            // An earlier template's Work waits there for its cluster; its removal wakes this again.
            Ok(Put::Wait) => "waiting for the cluster to remove what was there before".to_owned(),
            Ok(Put::Beside { name, holder }) => {
                format!("the usual name of its Work is that of {holder}: its own is called {name}")
            }
            Err(Error::Other(words) | Error::Later { words, .. }) => words.clone(),
            Err(Error::Api(error)) if error.is_of_a_race() => String::new(),
            Err(Error::Api(error)) => error.to_string(),
        };
        if !words.is_empty() {
            let (message, reason) = (format!("{}: {words}", wanted.cluster), events::SYNC_WORK_FAILED);
            let about = Reference::of(template);
            self.shared.recorder.record(&about, EventType::Warning, reason, &message);
        }
        Ok(if put? == Put::Wait { Written::No } else { Written::Yes })
    }

    /// Tells that a ResidencyRule keeps a template out of a cluster. What is there already stays as it is.
    fn withheld(&self, template: &Value, wanted: &ClusterWork, why: &str) -> Written {
        let (message, about) = (format!("{}: {why}", wanted.cluster), Reference::of(template));
        self.shared.recorder.record(&about, EventType::Warning, events::RESIDENCY_VIOLATED, &message);
        Written::Withheld(message)
    }

    async fn write_and_tell(&self, template: &Value, wanted: ClusterWork) -> Result<Written, Error> {
        let written = self.write(template, &wanted).await?;
        if written == Written::Yes {
            self.tell(template, &wanted);
        }
        Ok(written)
    }

    fn tell(&self, template: &Value, wanted: &ClusterWork) {
        let names: Vec<&str> =
            wanted.applied.cluster.names().into_iter().chain(wanted.applied.namespaced.names()).collect();
        if !names.is_empty() {
            let message =
                format!("Apply overridePolicy({}) for cluster {} succeed.", names.join(","), wanted.cluster);
            let reason = events::APPLY_OVERRIDE_POLICY_SUCCEED;
            self.shared.recorder.record(&Reference::of(template), EventType::Normal, reason, &message);
        }
    }
}

#[async_trait::async_trait]
impl Controller for Binding {
    type Key = Key;

    fn name(&self) -> &'static str {
        "binding-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(binding) = found else {
            self.shared.residency.note(key, false);
            self.shared.rendered.forget(key);
            return Ok(Action::Done);
        };
        if binding.metadata.deletion_timestamp.is_some() {
            return self.end(&resource, &binding).await;
        }
        // Before anything goes: what is to take its place could not be made.
        self.can_read_overrides(&binding)?;
        let works = self.shared.works_of(&binding).await?;
        let places = Places::of(&binding);
        let follows = self.remove_unwanted_works(&binding, &works, &places).await?;
        if works.iter().any(|work| places.goes_first(&work.key.namespace)) {
            return Ok(Action::RequeueAfter(PURGE_WAIT));
        }
        if let Some(why) = template_ownership::out_of_reach(&binding) {
            return self.withhold(&binding, &works, &why).await;
        }
        drop(works);
        let reference = &binding.spec.resource;
        let Some(kind) = api.resource_of(&reference.api_version, &reference.kind) else {
            return Ok(Action::Done);
        };
        let template: Option<Value> = fetch::get(api, &kind, &reference.namespace, &reference.name).await?;
        if template_ownership::is_left_over(&binding, template.as_ref()) {
            return self.give_up(&resource, key, &binding).await;
        }
        // A template that is gone, or is another by now, ends its binding through the garbage collector.
        let Some(template) =
            template.filter(|template| !template_ownership::is_of_another(&binding, template))
        else {
            return Ok(Action::Done);
        };
        if template_ownership::is_the_hubs_own(&template) {
            return Ok(Action::Done);
        }
        let made = self.make_works(&binding, &template);
        let made = self.shared.metrics.timed(Measure::SyncWork, made).await?;
        self.shared.rendered.note(key, &binding);
        // What it follows tells when it is decided, but for one that went while nobody saw it.
        Ok(if follows { Action::RequeueAfter(REFERRERS_WAIT) } else { made })
    }
}

impl Binding {
    /// Nothing of what the binding names is placed, and nothing stays that was.
    async fn withhold(
        &self,
        binding: &ResourceBinding,
        works: &[Arc<Object>],
        why: &str,
    ) -> Result<Action, Error> {
        let about = Reference::of(&fetch::to_value(binding)?);
        self.shared.recorder.record(&about, EventType::Warning, events::SYNC_WORK_FAILED, why);
        self.remove_works(works.iter()).await?;
        Ok(Action::Done)
    }

    /// Without an override policy that is there, Works would be other ones than people wrote.
    fn can_read_overrides(&self, binding: &ResourceBinding) -> Result<(), Error> {
        let namespace = binding.spec.resource.namespace.as_str();
        let near = if namespace.is_empty() { Vec::new() } else { self.shared.overrides.unread(namespace) };
        let unread = [near, self.shared.overrides.unread("")].concat();
        let Some(name) = unread.first() else { return Ok(()) };
        let words = format!(
            "the override policy {name} cannot be read: Works that it may concern stay as they are until it can be"
        );
        let about = Reference::of_binding(binding);
        self.shared.recorder.record(&about, EventType::Warning, events::SYNC_WORK_FAILED, &words);
        Err(Error::Other(words))
    }

    /// Makes the Works side by side: they share the store's commits. Each is rendered when its turn to be written comes. One cluster's
    /// trouble is not the others': all are tried, the first failure is reported.
    async fn make_works(&self, binding: &ResourceBinding, template: &Value) -> Result<Action, Error> {
        let (clusters, wide, near) = (
            self.shared.clusters.all(""),
            self.shared.overrides.all(""),
            match object::namespace(template) {
                "" => Arc::default(),
                namespace => self.shared.overrides.all(namespace),
            },
        );
        let rules = self.shared.residency.now();
        let input = Input {
            binding,
            template,
            clusters: &clusters,
            cluster_overrides: &wide,
            overrides: &near,
            interpreter: &*self.shared.interpreter,
            injects_state: self.shared.gates.enabled(Gate::StatefulFailoverInjection),
            residency: &rules.covering_object(template),
        };
        let names = || binding.spec.clusters.iter().map(|target| target.name.as_str()).collect::<Vec<_>>();
        tracing::debug!(namespace = binding.namespace(), binding = binding.name(), clusters = ?names(), "Works of a binding");
        let writes =
            binding::render_works(&input).map(|wanted| self.write_and_tell(template, wanted).boxed());
        let mut outcomes = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        let (mut failed, mut withheld) = (None, None);
        let key = Key { namespace: binding.namespace().into(), name: binding.name().into() };
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(Written::Withheld(why)) => {
                    // At once: a rule may change while the others are written, and then wakes those that are noted.
                    self.shared.residency.note(&key, true);
                    withheld = withheld.or(Some(why));
                }
                Ok(Written::Yes | Written::No) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if withheld.is_none() {
            self.shared.residency.note(&key, false);
        }
        if let Some(why) = withheld {
            let about = Reference::of_binding(binding);
            self.shared.recorder.record(&about, EventType::Warning, events::RESIDENCY_VIOLATED, &why);
        }
        failed.map_or(Ok(Action::Done), Err)
    }
}

/// What is read of a Work whose objects may stay.
#[derive(Deserialize)]
struct KeptWork {
    spec: KeptSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptSpec {
    #[serde(default)]
    preserve_resources_on_deletion: Option<bool>,
}

/// Whether the member keeps the objects of a Work that goes, as the Work says.
fn keeps_objects(work: &Object) -> Result<bool, Error> {
    Ok(work.parse::<KeptWork>()?.spec.preserve_resources_on_deletion == Some(true))
}

#[cfg(test)]
mod tests;
