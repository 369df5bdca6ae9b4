//! What objects of files would place where, without a hub: for checks before anything is applied.
//!
//! In: clusters, policies, overrides and templates, all with their defaults. Out: for each template its review; what no policy selects, and a template
//! that is placed depends on, goes where that one goes. Each template is placed as if it were alone: what another one would take of a cluster's
//! room is not counted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karmada_api::binding::{BindingSnapshot, BindingSpec, ResourceBinding, TargetCluster};
use karmada_api::cluster::Cluster;
use karmada_api::override_policy::OverridePolicy;
use karmada_api::policy::PropagationPolicy;
use karmada_api::strings::DEFAULT_SCHEDULER;
use karmada_api::{names, object};
use karmada_interpreter::{InterpretError, Interpreter};
use serde_json::Value;

use super::{Beside, Input, Review, WhatIf, review};
use crate::binding;
use crate::cluster_expressions::{ExpressionCompiler, Said};
use crate::dependencies::recorded::Candidate;
use crate::dependencies::{DependencyCandidates, wanted};
use crate::detector::{self, Parts, Reading, Takeover};
use crate::residency::Rules;
use crate::scheduler::{ClusterVerdict, Outcome};
use crate::skipped_resources::SkipRules;

/// Objects of files. Policies and overrides of no namespace are the cluster-scoped kinds.
#[derive(Debug, Default)]
pub struct Files {
    /// Everything that may be placed.
    pub templates: Vec<Value>,
    /// PropagationPolicies and ClusterPropagationPolicies.
    pub policies: Vec<PropagationPolicy>,
    /// OverridePolicies and ClusterOverridePolicies.
    pub overrides: Vec<OverridePolicy>,
    /// The fleet.
    pub clusters: Vec<Cluster>,
    /// Every ResidencyRule.
    pub residency: Rules,
}

/// Who reads what is not known without being taught.
#[derive(Clone, Copy)]
pub struct Evaluators<'a> {
    /// Templates.
    pub interpreter: &'a dyn Interpreter,
    /// Expressions of policies over clusters.
    pub expressions: &'a dyn ExpressionCompiler,
}

/// A template with what becomes of it.
#[derive(Debug)]
pub struct Rendered {
    /// Which of the templates.
    pub template: usize,
    /// What becomes of it.
    pub review: Review,
    /// Kinds and names of what it follows, which depends on it.
    pub follows: BTreeSet<String>,
    /// Why what it depends on is not known, where its interpreter fails.
    pub dependencies_failed: Option<InterpretError>,
}

/// What becomes of each template, in their order.
pub fn render(files: &Files, what_if: &WhatIf, evaluators: Evaluators<'_>) -> Vec<Rendered> {
    let interpreter = evaluators.interpreter;
    let mut clusters: Vec<&Cluster> = files.clusters.iter().collect();
    clusters.sort_by_key(|cluster| cluster.name());
    let reviews: Vec<Review> = files
        .templates
        .iter()
        .map(|template| reviewed(files, &clusters, template, what_if, evaluators))
        .collect();
    let (mut followers, mut failed) = followers(files, &reviews, interpreter);
    let there = what_if.apply(&clusters);
    let rendered = reviews.into_iter().enumerate().map(|(template, mut review)| {
        let follows = followers.remove(&template).unwrap_or_default();
        if !follows.is_empty() {
            follow(files, &there, &files.templates[template], &follows, (&mut review, interpreter));
        }
        let dependencies_failed = failed.remove(&template);
        Rendered { template, review, follows: follows.into_keys().collect(), dependencies_failed }
    });
    rendered.collect()
}

fn reviewed(
    files: &Files,
    clusters: &[&Cluster],
    template: &Value,
    what_if: &WhatIf,
    Evaluators { interpreter, expressions }: Evaluators<'_>,
) -> Review {
    let (policies, cluster_policies) = looked_at(&files.policies, template, PropagationPolicy::namespace);
    let (overrides, cluster_overrides) = looked_at(&files.overrides, template, OverridePolicy::namespace);
    let input = Input {
        template,
        binding: None,
        policies: &policies,
        cluster_policies: &cluster_policies,
        clusters,
        overrides: &overrides,
        cluster_overrides: &cluster_overrides,
        reading: Reading { interpreter, parts: Parts::Together, quotas_count: false },
        skip: &SkipRules::default(),
        scheduler: DEFAULT_SCHEDULER,
        keeps_empty: false,
        takeover: Takeover::Never,
        evicts_for_taints: true,
        injects_state: false,
        residency: files.residency.covering_object(template),
    };
    review(&input, what_if, |binding| {
        let said = Said::of(&binding.metadata);
        let evaluator = (!said.is_none()).then(|| expressions.evaluator(&said, Some(template)));
        Beside { expressions: evaluator, ..Beside::default() }
    })
}

/// Of policies, those of the template's namespace, and those of none.
fn looked_at<'a, T>(all: &'a [T], template: &Value, namespace: fn(&T) -> &str) -> (Vec<&'a T>, Vec<&'a T>) {
    let own = object::namespace(template);
    let (near, wide): (Vec<&T>, Vec<&T>) = all.iter().partition(|policy| !namespace(policy).is_empty());
    (near.into_iter().filter(|policy| namespace(policy) == own).collect(), wide)
}

/// What a template follows, by kind and name, and the clusters of each.
type Followed = BTreeMap<String, BTreeSet<String>>;

/// Which templates follow which others, by their places; and of which that is not known.
fn followers(
    files: &Files,
    reviews: &[Review],
    interpreter: &dyn Interpreter,
) -> (BTreeMap<usize, Followed>, BTreeMap<usize, InterpretError>) {
    let mut followers: BTreeMap<usize, Followed> = BTreeMap::new();
    let mut failed = BTreeMap::new();
    let labels: Vec<BTreeMap<String, String>> = files.templates.iter().map(object::labels).collect();
    for (at, (template, review)) in files.templates.iter().zip(reviews).enumerate() {
        let clusters = placed(review);
        if clusters.is_empty() || !is_followed(files, review) {
            continue;
        }
        let dependencies = match interpreter.dependencies(template) {
            Ok(dependencies) => dependencies,
            Err(InterpretError::NoHook { .. }) => continue,
            Err(error) => {
                failed.insert(at, error);
                continue;
            }
        };
        let referrer = bare_binding(template);
        for dependency in &dependencies {
            let here = |at: &usize| {
                let other = &files.templates[*at];
                let group = |version: &str| object::group_version(version).0.to_owned();
                object::kind(other) == dependency.kind
                    && object::namespace(other) == dependency.namespace
                    && group(object::api_version(other)) == group(&dependency.api_version)
            };
            let places: Vec<usize> = (0..files.templates.len()).filter(here).collect();
            let found = places.iter().map(|at| candidate(&files.templates[*at], &labels[*at])).collect();
            let objects =
                wanted(&referrer, &[DependencyCandidates { dependency, found: Some(found) }]).objects;
            for at in places {
                let other = &files.templates[at];
                if objects.contains_key(&names::binding_name(object::kind(other), object::name(other))) {
                    let by = format!("{} {}", object::kind(template), object::name(template));
                    followers.entry(at).or_default().entry(by).or_default().extend(clusters.clone());
                }
            }
        }
    }
    (followers, failed)
}

fn candidate<'a>(template: &'a Value, labels: &'a BTreeMap<String, String>) -> Candidate<'a> {
    Candidate {
        kind: object::kind(template),
        namespace: object::namespace(template),
        name: object::name(template),
        uid: "",
        resource_version: "",
        labels,
    }
}

/// Whether the policy of a review has what its templates depend on follow them.
fn is_followed(files: &Files, review: &Review) -> bool {
    let Some((namespace, name)) = &review.policy else { return false };
    let is = |policy: &&PropagationPolicy| policy.namespace() == namespace && policy.name() == name;
    files.policies.iter().find(is).is_some_and(|policy| policy.spec.propagate_deps)
}

/// The clusters that a review chose.
fn placed(review: &Review) -> BTreeSet<String> {
    let Some(decision) = &review.decision else { return BTreeSet::new() };
    if !matches!(decision.outcome, Outcome::Scheduled(_) | Outcome::UpToDate) {
        return BTreeSet::new();
    }
    let chosen = decision.report.iter().filter(|(_, verdict)| matches!(verdict, ClusterVerdict::Chosen(_)));
    chosen.map(|(name, _)| name.clone()).collect()
}

fn bare_binding(template: &Value) -> ResourceBinding {
    let (kind, name, namespace) =
        (object::kind(template), object::name(template), object::namespace(template));
    ResourceBinding {
        metadata: ObjectMeta {
            name: Some(names::binding_name(kind, name)),
            namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
            ..ObjectMeta::default()
        },
        spec: BindingSpec { resource: detector::reference(template), ..BindingSpec::default() },
        ..ResourceBinding::default()
    }
}

/// Adds to a review what its template's followed ones bring it to.
fn follow(
    files: &Files,
    clusters: &[Cluster],
    template: &Value,
    follows: &Followed,
    (review, interpreter): (&mut Review, &dyn Interpreter),
) {
    let already: BTreeSet<&String> = review.works.iter().map(|work| &work.cluster).collect();
    let more: BTreeSet<&String> =
        follows.values().flatten().filter(|cluster| !already.contains(cluster)).collect();
    let targets =
        more.into_iter().map(|name| TargetCluster { name: name.clone(), ..TargetCluster::default() });
    let mut binding = bare_binding(template);
    binding.spec.required_by =
        vec![BindingSnapshot { clusters: targets.collect(), ..BindingSnapshot::default() }];
    let (overrides, cluster_overrides) = looked_at(&files.overrides, template, OverridePolicy::namespace);
    let rendered = binding::Input {
        binding: &binding,
        template,
        clusters,
        cluster_overrides: &cluster_overrides,
        overrides: &overrides,
        interpreter,
        injects_state: false,
        residency: &files.residency.covering_object(template),
    };
    let works = super::bounded(binding::render_works(&rendered));
    review.left_out += binding.spec.required_by[0].clusters.len() - works.len();
    review.works.extend(works);
    review.works.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    if review.policy.is_none() {
        let by: Vec<&str> = follows.keys().map(String::as_str).collect();
        review.message = format!("it follows {}", by.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use crate::cluster_expressions::ClusterExpressions;
    use karmada_interpreter::Chain;
    use serde_json::json;

    use super::*;

    fn cluster(name: &str) -> Cluster {
        let kind = |plural: &str, kind: &str| json!({"name": plural, "kind": kind});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"syncMode": "Pull"}, "status": {"apiEnablements": [
            {"groupVersion": "apps/v1", "resources": [kind("deployments", "Deployment")]},
            {"groupVersion": "v1", "resources": [kind("configmaps", "ConfigMap"), kind("secrets", "Secret")]}]}}))
        .unwrap()
    }

    fn files(propagate_deps: bool) -> Files {
        let object = |api: &str, kind: &str, name: &str| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "shop"}});
        let mut web = object("apps/v1", "Deployment", "web");
        web["spec"] = json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "nginx",
            "envFrom": [{"configMapRef": {"name": "settings"}}]}]}}});
        let policy = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"propagateDeps": propagate_deps,
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": ["a", "b"]}}}});
        let mirror = json!({"metadata": {"name": "mirror", "namespace": "shop"}, "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "overrideRules": [{"targetCluster": {"clusterNames": ["b"]},
                "overriders": {"plaintext": [{"path": "/data", "operator": "add", "value": {"site": "b"}}]}}]}});
        Files {
            templates: vec![object("v1", "ConfigMap", "settings"), web, object("v1", "Secret", "unused")],
            policies: vec![serde_json::from_value(policy).unwrap()],
            overrides: vec![serde_json::from_value(mirror).unwrap()],
            clusters: vec![cluster("c"), cluster("b"), cluster("a")],
            residency: Rules::default(),
        }
    }

    fn places(rendered: &Rendered) -> Vec<&str> {
        rendered.review.works.iter().map(|work| work.cluster.as_str()).collect()
    }

    /// None of the policies here has an expression.
    struct NoExpressions;

    impl ExpressionCompiler for NoExpressions {
        fn look_at_object(&self, _: &Said) -> bool {
            false
        }

        fn evaluator(&self, said: &Said, _: Option<&Value>) -> Box<dyn ClusterExpressions> {
            panic!("{said:?}")
        }
    }

    static CHAIN: LazyLock<Chain> = LazyLock::new(Chain::default);

    fn plain() -> Evaluators<'static> {
        Evaluators { interpreter: &*CHAIN, expressions: &NoExpressions }
    }

    #[test]
    fn what_a_placed_template_depends_on_goes_where_it_goes_with_its_own_overrides() {
        let rendered = render(&files(true), &WhatIf::default(), plain());
        assert_eq!(places(&rendered[1]), ["a", "b"]);
        assert_eq!(places(&rendered[0]), ["a", "b"]);
        assert_eq!(rendered[0].follows, ["Deployment web".to_owned()].into());
        assert_eq!(rendered[0].review.message, "it follows Deployment web");
        let data = |at: usize| {
            &rendered[0].review.works[at].work.as_ref().unwrap().spec.workload.manifests[0]["data"]
        };
        assert_eq!((data(0), data(1)), (&Value::Null, &json!({"site": "b"})));
        assert!(places(&rendered[2]).is_empty() && rendered[2].follows.is_empty());
    }

    #[test]
    fn nothing_follows_where_the_policy_does_not_say_so() {
        let rendered = render(&files(false), &WhatIf::default(), plain());
        assert_eq!((places(&rendered[0]), places(&rendered[1])), (vec![], vec!["a", "b"]));
    }

    #[test]
    fn what_is_to_be_different_holds_for_what_follows_too() {
        let without = WhatIf { removed_clusters: ["a".to_owned()].into(), ..WhatIf::default() };
        let rendered = render(&files(true), &without, plain());
        assert_eq!((places(&rendered[0]), places(&rendered[1])), (vec!["b"], vec!["b"]));
    }

    #[test]
    fn the_order_of_files_decides_nothing() {
        let mut turned = files(true);
        turned.templates.reverse();
        turned.clusters.reverse();
        let (one, other) =
            (render(&files(true), &WhatIf::default(), plain()), render(&turned, &WhatIf::default(), plain()));
        for (one, other) in one.iter().zip(other.iter().rev()) {
            assert_eq!(one.review, other.review);
        }
    }
}
