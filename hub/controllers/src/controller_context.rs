//! What the controllers of templates and bindings share: what they look up, and how a Work is written.
//!
//! In: the port, and the watches of the hub. Out: indexes of bindings, Works and claims, and policies, overrides and clusters as typed objects; each
//! object is read when it changes, by nobody twice.

use std::borrow::Borrow;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use karmada_api::binding::{BindingSpec, ResourceBinding};
use karmada_api::cluster::Cluster;
use karmada_api::federated_resource_quota::FederatedResourceQuota;
use karmada_api::multi_cluster_service::MultiClusterService;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_api::remedy::Remedy;
use karmada_api::taint_policy::ClusterTaintPolicy;
use karmada_api::work::Work;
use karmada_core::binding;
use karmada_core::cluster_expressions::{ClusterExpressions, ExpressionCompiler, Said};
use karmada_core::detector::{Parts, Reading};
use karmada_core::feature_gates::{FeatureGates, Gate};
use karmada_core::interpreter_webhook::WebhookConfiguration;
use karmada_core::scheduler::workload_affinity::AllowedClusters;
use karmada_core::unified_auth;
use karmada_core::work_name_taken::{self, Placing};
use karmada_interpreter::Interpreter;
use karmada_lua::Customization;
use karmada_resource_interpreter::Customizations;
use parking_lot::Mutex;
use serde_json::Value;

use crate::events::Recorder;
use crate::fetch::{self, kinds};
use crate::group_turns::{GroupTurns, Turn};
use crate::indexes::bindings::BindingsIndex;
use crate::indexes::claims::ClaimsIndex;
use crate::indexes::namespaces::Names;
use crate::indexes::owned_works::{self, OwnedWorksIndex};
use crate::indexes::works::WorksIndex;
use crate::informer::{HandlerRegistration, Informers, Notice};
use crate::karmada_metrics::Metrics;
use crate::port::{Api, ApiError, Change, DeletionPropagation, Key, Object, Resource};
use crate::removal_limit::RemovalLimit;
use crate::rendered_generations::RenderedGenerations;
use crate::reservations::Reservations;
use crate::residency::ResidencyRules;
use crate::runner::{Clock, Error};
use crate::shared_lists::SharedLists;
use crate::shared_options::SharedOptions;
use crate::typed::Typed;

/// Works that are made when they are asked for.
pub type Works<'a> = Box<dyn Iterator<Item = Work> + Send + 'a>;

/// What came of writing a Work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there, as wanted.
    Done,
    /// It was made under a name of its own, as its usual one is another's.
    Beside {
        /// Its name.
        name: String,
        /// Whose Work has the usual one.
        holder: String,
    },
    /// An earlier life of it is on its way out, so that it cannot be made now.
    Wait,
}

/// What the controllers look up, and how they write.
pub struct ControllerContext {
    /// The hub.
    pub api: Arc<dyn Api>,
    /// Who knows the kinds: what the customizations say now, and what is known without them.
    pub interpreter: Arc<dyn Interpreter>,
    /// The customizations behind it.
    pub customized: Arc<Customizations>,
    /// Every ResourceInterpreterCustomization.
    pub customizations: Arc<Typed<Customization>>,
    /// Every ResourceInterpreterWebhookConfiguration.
    pub webhook_configurations: Arc<Typed<WebhookConfiguration>>,
    /// The present.
    pub clock: Clock,
    /// Events of the controllers of templates and bindings.
    pub recorder: Arc<Recorder>,
    /// Works by binding.
    pub works: Arc<WorksIndex>,
    /// Works by FederatedResourceQuota.
    pub quota_works: Arc<OwnedWorksIndex>,
    /// Works by MultiClusterService.
    pub service_works: Arc<OwnedWorksIndex>,
    /// Works by ServiceExport.
    pub export_works: Arc<OwnedWorksIndex>,
    /// Bindings by whom they concern.
    pub bindings: Arc<BindingsIndex>,
    /// Which of those that leave clusters have Works as they say now.
    pub rendered: RenderedGenerations,
    /// Templates by the policy that claimed them.
    pub claims: Arc<ClaimsIndex>,
    /// Every Cluster.
    pub clusters: Arc<Typed<Cluster>>,
    /// PropagationPolicies by namespace; ClusterPropagationPolicies have none.
    pub policies: Arc<Typed<PropagationPolicy>>,
    /// OverridePolicies by namespace; ClusterOverridePolicies have none.
    pub overrides: Arc<Typed<OverridePolicy>>,
    /// Every ClusterTaintPolicy.
    pub taint_policies: Arc<Typed<ClusterTaintPolicy>>,
    /// FederatedResourceQuotas by namespace.
    pub quotas: Arc<Typed<FederatedResourceQuota>>,
    /// MultiClusterServices by namespace.
    pub multi_cluster_services: Arc<Typed<MultiClusterService>>,
    /// ClusterRoles, of which only what is said of clusters' proxies is kept.
    pub cluster_roles: Arc<Typed<ClusterRole>>,
    /// ClusterRoleBindings.
    pub cluster_role_bindings: Arc<Typed<ClusterRoleBinding>>,
    /// Every Remedy.
    pub remedies: Arc<Typed<Remedy>>,
    /// What changes of placement take from sites, and the LinkPolicies that bound it.
    pub removal_limit: Arc<RemovalLimit>,
    /// The ResidencyRules, and whom they keep out.
    pub residency: Arc<ResidencyRules>,
    /// Turns of those who place workloads of one group.
    pub group_turns: GroupTurns,
    /// What was placed or moved and no report shows yet.
    pub reservations: Reservations,
    /// Names of namespaces that templates are in.
    pub namespaces: Arc<Names>,
    /// How the controllers' work fares.
    pub metrics: Arc<Metrics>,
    /// Which capabilities are on.
    pub gates: FeatureGates,
    /// What whoever runs the hub says beside.
    pub options: SharedOptions,
    compiler: OnceLock<Arc<dyn ExpressionCompiler>>,
    registrations: Mutex<Vec<HandlerRegistration>>,
}

/// What a Cluster is kept as: what many say alike once, and not who wrote which field; its grades of nodes where they count (gate
/// `CustomizedClusterResourceModeling`), as without them its room is what its sums say.
fn shared_by_clusters(grades_count: bool) -> impl Fn(&mut Cluster) {
    let (enablements, models) = (SharedLists::default(), SharedLists::default());
    move |cluster| {
        if !grades_count {
            cluster.spec.resource_models = Arc::default();
        }
        enablements.share(&mut cluster.status.api_enablements);
        models.share(&mut cluster.spec.resource_models);
        cluster.metadata.managed_fields = None;
    }
}

impl ControllerContext {
    /// With all gates as they are by themselves. Nothing is known before [`ControllerContext::load`].
    pub fn new(api: Arc<dyn Api>, clock: Clock, recorder: Arc<Recorder>) -> Arc<Self> {
        ControllerContext::gated(api, clock, recorder, FeatureGates::default())
    }

    /// With all options as they are by themselves. Nothing is known before [`ControllerContext::load`].
    pub fn gated(api: Arc<dyn Api>, clock: Clock, recorder: Arc<Recorder>, gates: FeatureGates) -> Arc<Self> {
        ControllerContext::configured(api, clock, recorder, (gates, SharedOptions::default()))
    }

    /// Nothing is known before [`ControllerContext::load`].
    pub fn configured(
        api: Arc<dyn Api>,
        clock: Clock,
        recorder: Arc<Recorder>,
        (gates, options): (FeatureGates, SharedOptions),
    ) -> Arc<Self> {
        let customized = Arc::new(Customizations::new(clock.clone()));
        let customizations: Arc<Typed<Customization>> = Arc::default();
        let observed = customized.clone();
        customizations.listen(move |transition| observed.observe(transition));
        let webhook_configurations: Arc<Typed<WebhookConfiguration>> = Arc::default();
        let observed = customized.clone();
        webhook_configurations.listen(move |transition| observed.observe_webhooks(transition));
        let clusters = Arc::new(Typed::compacted(shared_by_clusters(
            gates.enabled(Gate::CustomizedClusterResourceModeling),
        )));
        Arc::new(ControllerContext {
            removal_limit: RemovalLimit::new(api.clone(), clusters.clone(), clock.clone()),
            api,
            interpreter: customized.interpreter(),
            customized,
            customizations,
            webhook_configurations,
            clock,
            recorder,
            works: Arc::default(),
            quota_works: Arc::new(OwnedWorksIndex::new(owned_works::quota_of)),
            service_works: Arc::new(OwnedWorksIndex::new(owned_works::service_of)),
            export_works: Arc::new(OwnedWorksIndex::new(owned_works::export_of)),
            bindings: Arc::default(),
            rendered: RenderedGenerations::default(),
            claims: Arc::default(),
            clusters,
            policies: Arc::default(),
            overrides: Arc::default(),
            taint_policies: Arc::default(),
            quotas: Arc::default(),
            multi_cluster_services: Arc::default(),
            cluster_roles: Arc::new(Typed::compacted(unified_auth::keep_proxies)),
            cluster_role_bindings: Arc::new(Typed::compacted(unified_auth::keep_subjects)),
            remedies: Arc::default(),
            residency: ResidencyRules::new(),
            group_turns: GroupTurns::default(),
            reservations: Reservations::new(gates.enabled(Gate::SchedulingOvercommitProtection)),
            namespaces: Arc::default(),
            metrics: Arc::default(),
            gates,
            options,
            compiler: OnceLock::new(),
            registrations: Mutex::default(),
        })
    }

    /// Takes in what there is, and from then on every change, before any controller hears of it. To be called before
    /// controllers start: who looks for Works by their binding would else take it that there are none, and let go of one that ends.
    ///
    /// # Errors
    /// A kind that controllers live on is not served.
    pub async fn load(&self, informers: &Informers) -> Result<(), Error> {
        let api = &*self.api;
        let mut registrations = Vec::new();
        let mut feed = |resource: Resource, observe: Box<dyn Fn(&Change) + Send>| {
            registrations.push(informers.add_handler(&resource, Notice::All, observe));
        };
        let (works, clusters, names) = (self.works.clone(), self.clusters.clone(), self.namespaces.clone());
        let customizations = self.customizations.clone();
        feed(kinds::customizations(api)?, Box::new(move |change| customizations.observe(change)));
        let configurations = self.webhook_configurations.clone();
        feed(kinds::webhook_configurations(api)?, Box::new(move |change| configurations.observe(change)));
        let (quotas, quota_works) = (self.quotas.clone(), self.quota_works.clone());
        let (services, service_works) = (self.multi_cluster_services.clone(), self.service_works.clone());
        let export_works = self.export_works.clone();
        let (removal_limit, link_policies) =
            (self.removal_limit.clone(), self.removal_limit.policies.clone());
        let observe = move |change: &Change| {
            works.observe(change);
            quota_works.observe(change);
            service_works.observe(change);
            export_works.observe(change);
            removal_limit.observe(change);
        };
        feed(kinds::link_policies(api)?, Box::new(move |change| link_policies.observe(change)));
        feed(kinds::works(api)?, Box::new(observe));
        feed(kinds::multi_cluster_services(api)?, Box::new(move |change| services.observe(change)));
        let (roles, role_bindings) = (self.cluster_roles.clone(), self.cluster_role_bindings.clone());
        feed(kinds::cluster_roles(api)?, Box::new(move |change| roles.observe(change)));
        feed(kinds::cluster_role_bindings(api)?, Box::new(move |change| role_bindings.observe(change)));
        feed(kinds::quotas(api)?, Box::new(move |change| quotas.observe(change)));
        feed(kinds::clusters(api)?, Box::new(move |change| clusters.observe(change)));
        feed(kinds::namespaces(api)?, Box::new(move |change| names.observe(change)));
        let rules = self.residency.rules.clone();
        feed(kinds::residency_rules(api)?, Box::new(move |change| rules.observe(change)));
        let (taints, remedies) = (self.taint_policies.clone(), self.remedies.clone());
        feed(kinds::taint_policies(api)?, Box::new(move |change| taints.observe(change)));
        feed(kinds::remedies(api)?, Box::new(move |change| remedies.observe(change)));
        for namespace in ["any", ""] {
            let bindings = self.bindings.clone();
            feed(kinds::bindings(api, namespace)?, Box::new(move |change| bindings.observe(change)));
            let policies = self.policies.clone();
            feed(kinds::policies(api, namespace)?, Box::new(move |change| policies.observe(change)));
            let overrides = self.overrides.clone();
            feed(kinds::overrides(api, namespace)?, Box::new(move |change| overrides.observe(change)));
        }
        for registration in &mut registrations {
            registration.listed().await;
        }
        self.registrations.lock().extend(registrations);
        Ok(())
    }

    /// Has policies' expressions evaluated by `compiler`, for good.
    pub fn evaluate_by(&self, compiler: Arc<dyn ExpressionCompiler>) {
        // A second one would be the same.
        let _ = self.compiler.set(compiler);
    }

    /// Who evaluates the expressions of a binding for one decision; nobody, where it has none.
    ///
    /// # Errors
    /// Its template decides, and cannot be read now.
    pub async fn expressions(
        &self,
        of: &ResourceBinding,
    ) -> Result<Option<Box<dyn ClusterExpressions>>, Error> {
        let said = Said::of(&of.metadata);
        let Some(compiler) = self.compiler.get().filter(|_| !said.is_none()) else { return Ok(None) };
        let template = &of.spec.resource;
        let kind = self.api.resource_of(&template.api_version, &template.kind);
        let found: Option<Value> = match kind.filter(|_| compiler.look_at_object(&said)) {
            Some(kind) => fetch::get(&*self.api, &kind, &template.namespace, &template.name).await?,
            None => None,
        };
        Ok(Some(compiler.evaluator(&said, found.as_ref())))
    }

    /// The same for a template that is given.
    pub fn expressions_over(
        &self,
        of: &ResourceBinding,
        template: &Value,
    ) -> Option<Box<dyn ClusterExpressions>> {
        let said = Said::of(&of.metadata);
        let compiler = self.compiler.get().filter(|_| !said.is_none())?;
        Some(compiler.evaluator(&said, Some(template)))
    }

    /// Clusters that are there and could not be read since the hub began: of those that could be read before, what they said holds.
    pub fn unread_clusters(&self) -> Vec<Arc<str>> {
        self.clusters.never_read("")
    }

    /// For who takes away what is in clusters that are gone: whether it can be told which are.
    ///
    /// # Errors
    /// One of them could not be read since the hub began, and may be any.
    pub fn can_tell_clusters(&self) -> Result<(), Error> {
        self.unread_clusters().first().map_or(Ok(()), |name| Err(Self::cannot_be_read(name)))
    }

    /// Of a Cluster.
    pub fn cannot_be_read(name: &str) -> Error {
        Error::Other(format!(
            "the Cluster {name} cannot be read (kubectl get cluster {name} -o yaml shows it): what is placed there stays as it is until it can be"
        ))
    }

    /// Whether groups of workloads are looked at (gate `WorkloadAffinity`).
    pub fn looks_at_groups(&self) -> bool {
        self.gates.enabled(Gate::WorkloadAffinity)
    }

    /// The clusters that its groups leave to a binding.
    pub fn neighbours(&self, key: &Key, spec: &BindingSpec) -> AllowedClusters {
        match self.looks_at_groups() {
            true => self.bindings.neighbours(key, spec),
            false => AllowedClusters::default(),
        }
    }

    /// The turn of a binding in its groups, where these are looked at.
    pub async fn group_turn(&self, key: &Key, spec: &BindingSpec) -> Turn {
        match self.looks_at_groups() {
            true => self.group_turns.take(&key.namespace, spec).await,
            false => Turn::default(),
        }
    }

    /// How templates are read, as the gates have it.
    pub fn reading(&self) -> Reading<'_> {
        let apart = self.gates.enabled(Gate::MultiplePodTemplatesScheduling);
        Reading {
            interpreter: &*self.interpreter,
            parts: if apart { Parts::Apart } else { Parts::Together },
            quotas_count: self.gates.enabled(Gate::ResourceQuotaEstimate),
        }
    }

    /// The Works that carry a binding's id, as they lie in the cache. The hub gave the id, and nobody else can: see its gates.
    ///
    /// # Errors
    /// One of them cannot be read now, or the kind is not served.
    pub async fn works_of(&self, of: &ResourceBinding) -> Result<Vec<Arc<Object>>, Error> {
        let resource = kinds::works(&*self.api)?;
        let (_, id) = binding::work_selector(of);
        let mut works = Vec::new();
        for key in self.works.of(&id) {
            match self.api.get(&resource, &key.namespace, &key.name).await {
                Ok(work) => works.push(work),
                Err(ApiError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(works)
    }

    /// Marks a Work for deletion, where it is not on its way out already: it stays until its cluster has let go of what it placed.
    ///
    /// # Errors
    /// It cannot be deleted now, or a gate refuses it.
    pub async fn remove_work(&self, work: &Object) -> Result<(), Error> {
        if work.deleting {
            return Ok(());
        }
        let resource = kinds::works(&*self.api)?;
        match self.api.delete(&resource, &work.key, &work.uid, DeletionPropagation::Background).await {
            Ok(()) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a Work as wanted: created, changed, or left where it is so already; where its usual name is another's, under a name of its
    /// own, which it keeps.
    ///
    /// # Errors
    /// It is refused or cannot be written now, both names are others', or its cluster's namespace is not there yet ([`ApiError::NotFound`]).
    pub async fn put_work(&self, wanted: &Work) -> Result<Put, Error> {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let usual = work_name_taken::placing(self.work_at(wanted, name).await?.as_ref(), wanted);
        if !matches!(usual, Placing::Create | Placing::Taken(_)) {
            return self.carry_out(wanted, usual).await;
        }
        let second = work_name_taken::of_its_own(wanted);
        let existing = self.work_at(wanted, &second).await?;
        if existing.is_none() && matches!(usual, Placing::Create) {
            return self.carry_out(wanted, usual).await;
        }
        let renamed = work_name_taken::renamed(wanted, &second);
        match (usual, work_name_taken::placing(existing.as_ref(), &renamed)) {
            (usual @ Placing::Create, Placing::Create | Placing::Taken(_)) => {
                self.carry_out(wanted, usual).await
            }
            (Placing::Taken(holder), Placing::Taken(other)) => {
                let namespace = wanted.metadata.namespace.as_deref().unwrap_or_default();
                let words =
                    format!("the Works {name} and {second} in {namespace} are those of {holder} and {other}");
                Err(Error::Other(words))
            }
            (Placing::Taken(holder), Placing::Create) => {
                self.carry_out(&renamed, Placing::Create).await?;
                Ok(Put::Beside { name: second, holder })
            }
            // It got its own name while the usual one was taken.
            (_, placing) => self.carry_out(&renamed, placing).await,
        }
    }

    /// Makes Works as wanted, one after the other: two of one name are told apart by who comes first. One that is refused keeps no other
    /// from its cluster; `put` hears what came of each of the others. Of many that are made as they are asked for, one is in memory at once. False where a cluster cannot be given anything yet.
    ///
    /// # Errors
    /// Of refusals the first, once all were tried; any other error at once, and what comes after it is not tried.
    pub async fn put_works<W: Borrow<Work>>(
        &self,
        wanted: impl IntoIterator<Item = W>,
        mut put: impl FnMut(Put),
    ) -> Result<bool, Error> {
        let (mut all, mut refused) = (true, None);
        for work in wanted {
            match self.put_work(work.borrow()).await {
                Ok(made) => put(made),
                Err(Error::Api(ApiError::NotFound(_))) => all = false,
                // Other than the API's, it is that both names of this one are others'.
                Err(
                    error @ (Error::Api(ApiError::Invalid(_) | ApiError::Forbidden { .. }) | Error::Other(_)),
                ) => {
                    refused = refused.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(all), Err)
    }

    async fn work_at(&self, wanted: &Work, name: &str) -> Result<Option<Work>, Error> {
        let namespace = wanted.metadata.namespace.as_deref().unwrap_or_default();
        fetch::get(&*self.api, &kinds::works(&*self.api)?, namespace, name).await
    }

    async fn carry_out(&self, wanted: &Work, placing: Placing) -> Result<Put, Error> {
        let resource = kinds::works(&*self.api)?;
        match placing {
            Placing::Create => {
                let created = self.api.create(&resource, fetch::to_value(wanted)?).await?;
                // At once, not when the watch tells: a binding that ends now must find it.
                let owned = [&self.quota_works, &self.service_works, &self.export_works];
                let made = Change::Applied(created.clone());
                self.works.observe(&made);
                owned.iter().for_each(|index| index.observe(&made));
                // And where it went before this was told, the watch has told that already.
                let now = self.api.get(&resource, &created.key.namespace, &created.key.name).await;
                if matches!(now, Err(ApiError::NotFound(_))) {
                    self.works.forget(&created);
                    let gone = Change::Deleted(created);
                    owned.iter().for_each(|index| index.observe(&gone));
                }
            }
            Placing::Update(merged) => {
                self.api.update(&resource, fetch::to_value(&*merged)?).await?;
            }
            Placing::Nothing => {}
            Placing::Wait | Placing::Taken(_) => return Ok(Put::Wait),
        }
        Ok(Put::Done)
    }
}
