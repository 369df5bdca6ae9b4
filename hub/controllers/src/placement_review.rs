//! What would become of a template, asked of what the controllers know. Nothing is written.
//!
//! In: a template, policies that count as if they were applied, what is to be different from how it is. Out: a
//! [`Review`](karmada_core::placement_review::Review).

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_api::residency_rule::ResidencyRule;
use karmada_api::strings::labels;
use karmada_api::{names, object};
use karmada_core::detector::{Reading, Takeover};
use karmada_core::feature_gates::Gate;
use karmada_core::placement_review::{self, Beside, Prepared, Review, WhatIf};
use karmada_core::scheduler::estimator_answers::Exact;
use karmada_interpreter::Interpreter;
use karmada_resource_interpreter::Noting;
use serde_json::Value;

use crate::agent_ports::estimator::{self, Estimator};
use crate::controller_context::ControllerContext;
use crate::fetch::{self, kinds};
use crate::port::Key;
use crate::runner::Error;

/// Policies that count beside those that are there, and in the place of those of the same name.
#[derive(Clone, Debug, Default)]
pub struct AsIf {
    /// PropagationPolicies and ClusterPropagationPolicies (without a namespace).
    pub policies: Vec<PropagationPolicy>,
    /// OverridePolicies and ClusterOverridePolicies (without a namespace).
    pub overrides: Vec<OverridePolicy>,
    /// ResidencyRules.
    pub rules: Vec<ResidencyRule>,
}

/// How often webhooks are asked what the answers before made a question of.
const ROUNDS: usize = 4;

/// Who reviews.
pub struct Reviewer {
    /// What the controllers know.
    pub shared: Arc<ControllerContext>,
    /// Who asks agents for room, where the scheduler has them asked.
    pub estimator: Option<Arc<dyn Estimator>>,
    /// Whether workloads leave clusters for taints.
    pub evicts_for_taints: bool,
}

impl Reviewer {
    /// Reviews a template. Webhooks that interpret it are asked, and waited for.
    ///
    /// # Errors
    /// The binding cannot be read, or a name of `what_if` is no cluster's: [`Error::Other`], in words for whoever asked.
    pub async fn review(&self, template: &Value, as_if: &AsIf, what_if: &WhatIf) -> Result<Review, Error> {
        for _ in 0..ROUNDS {
            let noting = Noting::over(&*self.shared.interpreter);
            let review = self.reviewed(template, as_if, what_if, &noting).await?;
            let questions = noting.into_questions();
            if questions.is_empty() {
                return Ok(review);
            }
            self.shared.customized.webhooks.put_all(questions).await;
        }
        self.reviewed(template, as_if, what_if, &*self.shared.interpreter).await
    }

    async fn reviewed(
        &self,
        template: &Value,
        as_if: &AsIf,
        what_if: &WhatIf,
        interpreter: &dyn Interpreter,
    ) -> Result<Review, Error> {
        let shared = &*self.shared;
        let clusters = shared.clusters.all("");
        if let [first, ..] = what_if.unknown(&clusters)[..] {
            return Err(Error::Other(format!("there is no cluster {first}")));
        }
        let namespace = object::namespace(template);
        let name = names::binding_name(object::kind(template), object::name(template));
        let resource = kinds::bindings(&*shared.api, namespace)?;
        let binding: Option<ResourceBinding> = fetch::get(&*shared.api, &resource, namespace, &name).await?;
        let policies = |of: &str| {
            let there = shared.policies.all(of);
            let given: Vec<PropagationPolicy> =
                as_if.policies.iter().map(|policy| with_stored_id(policy, &there)).collect();
            with(&there, &given, of, |p| (p.namespace(), p.name()))
        };
        let overrides =
            |of: &str| with(&shared.overrides.all(of), &as_if.overrides, of, |p| (p.namespace(), p.name()));
        let near = !namespace.is_empty();
        let input = placement_review::Input {
            template,
            binding: binding.as_ref(),
            policies: &if near { policies(namespace) } else { Vec::new() },
            cluster_policies: &policies(""),
            clusters: &clusters,
            overrides: &if near { overrides(namespace) } else { Vec::new() },
            cluster_overrides: &overrides(""),
            reading: Reading { interpreter, ..shared.reading() },
            skip: &shared.options.skip,
            scheduler: &shared.options.scheduler_name,
            keeps_empty: shared.options.empty_workloads,
            takeover: Takeover::gated(&shared.gates),
            evicts_for_taints: self.evicts_for_taints,
            injects_state: shared.gates.enabled(Gate::StatefulFailoverInjection),
            residency: shared.residency.as_if(&as_if.rules).covering_object(template),
        };
        let prepared = match placement_review::prepare(&input, what_if) {
            Ok(prepared) => prepared,
            Err(stopped) => return Ok(*stopped),
        };
        let key = Key { namespace: namespace.into(), name: name.into() };
        let beside = self.beside(&key, &prepared, template).await;
        Ok(placement_review::complete(&input, prepared, &beside))
    }

    /// What the scheduler would look at beside: the same that it looks at.
    async fn beside(&self, key: &Key, prepared: &Prepared<'_>, template: &Value) -> Beside {
        let (shared, binding) = (&*self.shared, &prepared.binding);
        let mut beside = Beside {
            neighbours: shared.neighbours(key, &binding.spec),
            taken: shared.reservations.taken(),
            exact: Exact::new(),
            expressions: shared.expressions_over(binding, template),
        };
        let asked = prepared.scheduler_input(&beside);
        let exact = estimator::exact(self.estimator.as_deref(), &asked, &shared.gates).await;
        drop(asked);
        beside.exact = exact;
        beside
    }
}

/// A given policy with the permanent id of the one that it stands for: what that one claimed stays claimed when it is changed.
fn with_stored_id(given: &PropagationPolicy, there: &[Arc<PropagationPolicy>]) -> PropagationPolicy {
    let mut given = given.clone();
    let same = |stored: &&Arc<PropagationPolicy>| {
        (stored.namespace(), stored.name()) == (given.namespace(), given.name())
    };
    let stored = there.iter().find(same).and_then(|stored| stored.metadata.labels.clone());
    for key in [labels::PROPAGATION_POLICY_ID, labels::CLUSTER_PROPAGATION_POLICY_ID] {
        if let Some(id) = stored.as_ref().and_then(|labels| labels.get(key)) {
            given.metadata.labels.get_or_insert_default().insert(key.to_owned(), id.clone());
        }
    }
    given
}

/// The objects of one namespace with those that count as if they were there, sorted by name.
fn with<T: Clone>(
    there: &[Arc<T>],
    as_if: &[T],
    namespace: &str,
    place: impl Fn(&T) -> (&str, &str),
) -> Vec<Arc<T>> {
    let mut all: Vec<Arc<T>> =
        as_if.iter().filter(|one| place(one).0 == namespace).map(|one| Arc::new(one.clone())).collect();
    let stands = |one: &&Arc<T>| !all.iter().any(|other| place(other) == place(one));
    let others: Vec<Arc<T>> = there.iter().filter(stands).cloned().collect();
    all.extend(others);
    all.sort_by(|a, b| place(a).cmp(&place(b)));
    all
}

#[cfg(test)]
mod tests {
    use karmada_api::binding::TargetCluster;
    use serde_json::json;

    use super::*;
    use crate::testing::{self, Rig};

    fn policy(site: &str) -> Value {
        json!({"apiVersion": testing::POLICY_API, "kind": "PropagationPolicy", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
                "placement": {"clusterAffinity": {"clusterNames": [site]}}}})
    }

    fn reviewer(rig: &Rig) -> Reviewer {
        Reviewer { shared: rig.shared.clone(), estimator: None, evicts_for_taints: false }
    }

    async fn sites(rig: &Rig, as_if: &AsIf, what_if: &WhatIf) -> Vec<String> {
        let review = reviewer(rig).review(&testing::config_map("c"), as_if, what_if).await.unwrap();
        review.works.into_iter().map(|work| work.cluster).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_that_is_given_counts_in_the_place_of_the_one_of_its_name_and_nothing_is_written() {
        let clusters = ["m1", "m2"].into_iter().flat_map(|name| testing::cluster(name, &json!({})));
        let rig = Rig::new(clusters.chain([policy("m1")])).await;
        let revision = rig.api.revision();
        assert_eq!(sites(&rig, &AsIf::default(), &WhatIf::default()).await, ["m1"]);
        let given = AsIf { policies: vec![serde_json::from_value(policy("m2")).unwrap()], ..AsIf::default() };
        assert_eq!(sites(&rig, &given, &WhatIf::default()).await, ["m2"]);
        let gone = WhatIf { removed_clusters: ["m1".into()].into(), ..WhatIf::default() };
        assert!(sites(&rig, &AsIf::default(), &gone).await.is_empty());
        let unknown = WhatIf { full_clusters: ["m9".into()].into(), ..WhatIf::default() };
        let refused = reviewer(&rig).review(&testing::config_map("c"), &given, &unknown).await;
        assert!(matches!(refused, Err(Error::Other(words)) if words == "there is no cluster m9"));
        assert_eq!(rig.api.revision(), revision);
    }

    /// Its agents have room for nothing more.
    struct Full;

    #[async_trait::async_trait]
    impl Estimator for Full {
        async fn room(&self, clusters: &[&str], _: estimator::RoomQuestion<'_>) -> estimator::Answers {
            clusters.iter().map(|cluster| ((*cluster).to_owned(), Ok(0))).collect()
        }

        async fn unschedulable(
            &self,
            _: &[&str],
            _: &karmada_api::binding::ObjectReference,
            _: std::time::Duration,
        ) -> estimator::Answers {
            estimator::Answers::new()
        }
    }

    /// It goes by what the scheduler goes by: what was placed a moment ago, and what agents say of their nodes.
    #[tokio::test(start_paused = true)]
    async fn room_that_is_taken_and_what_agents_say_count_as_they_do_for_the_scheduler() {
        let aggregated =
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
        let mut policy = policy("m1");
        policy["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
        policy["spec"]["placement"]["replicaScheduling"] = aggregated.clone();
        let [mut cluster, namespace] = testing::cluster("m1", &json!({}));
        cluster["status"]["resourceSummary"] = json!({"allocatable": {"cpu": "5", "pods": "10"}});
        cluster["status"]["apiEnablements"] = json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
        let rig = Rig::new([cluster, namespace, policy]).await;
        let template = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}});
        let (as_if, what_if) = (AsIf::default(), WhatIf::default());
        let mut reviewer = reviewer(&rig);
        assert_eq!(reviewer.review(&template, &as_if, &what_if).await.unwrap().message, "");
        reviewer.estimator = Some(Arc::new(Full));
        let full = reviewer.review(&template, &as_if, &what_if).await.unwrap().message;
        assert!(full.contains("not enough"), "{full}");
        reviewer.estimator = None;
        let mut other = testing::binding("other", &json!({"replicaScheduling": aggregated}), &[]);
        other["spec"]["replicas"] = json!(3);
        other["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
        rig.shared.reservations.keep();
        let placed: Vec<TargetCluster> =
            serde_json::from_value(json!([{"name": "m1", "replicas": 3}])).unwrap();
        rig.shared.reservations.placed(&serde_json::from_value(other).unwrap(), &placed);
        let taken = reviewer.review(&template, &as_if, &what_if).await.unwrap().message;
        assert!(taken.contains("not enough"), "{taken}");
    }
}
