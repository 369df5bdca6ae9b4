//! The resource `placementreviews` of `edge.karmada.io`: what would become of a template, for whoever asks. Create-only, as SubjectAccessReview
//! is, and nothing is kept.
//!
//! In: a template, policies that count as if they were applied, what is to be different from how it is. Out: the same with a status: the policy,
//! each cluster with its reason, what each gets. The template is what the asker gives: nothing is read here that the asker may not read, but
//! policies, bindings and clusters, which whoever may ask may read.

use std::sync::Arc;

use karmada_api::admission::{self, Context, Operation};
use karmada_api::{EDGE_GROUP, POLICY_GROUP, object};
use karmada_controllers::placement_review::{AsIf, Reviewer};
use karmada_controllers::runner::Error;
use karmada_core::placement_review::shown::{self, Manifests};
use karmada_core::placement_review::{Review, WhatIf};
use karmada_definitions::status::Status;
use karmada_registry::{Registry, VirtualRequest, VirtualResource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

/// Reviews that are made at once.
const AT_ONCE: usize = 2;

/// Who answers.
pub struct PlacementReviews {
    registry: Arc<Registry>,
    reviewer: Arc<Reviewer>,
    turns: Arc<Semaphore>,
}

/// What is asked.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    manifest: Value,
    policies: Vec<Value>,
    what_if: WhatIf,
    with_manifests: bool,
}

impl PlacementReviews {
    /// From now on reviews are answered.
    ///
    /// # Errors
    /// The resource is not served.
    pub fn provide(registry: &Arc<Registry>, reviewer: Reviewer) -> Result<(), Status> {
        let definition = registry.definition("edge.karmada.io", "v1alpha1", "placementreviews")?;
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let reviewer = Arc::new(reviewer);
        let reviews = PlacementReviews { registry: registry.clone(), reviewer, turns };
        registry.provide(&definition, Arc::new(reviews));
        Ok(())
    }

    /// Reviews on a thread of its own, a few at once: a large template in a large fleet keeps no other request waiting.
    async fn review(&self, manifest: Value, as_if: AsIf, what_if: WhatIf) -> Result<Review, Status> {
        let turn = self.turns.clone().acquire_owned().await;
        let turn = turn.map_err(|_| Status::unavailable("reviews have ended"))?;
        let (reviewer, runtime) = (self.reviewer.clone(), tokio::runtime::Handle::current());
        let answer = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            runtime.block_on(reviewer.review(&manifest, &as_if, &what_if))
        });
        let answer = answer.await.map_err(|error| Status::internal(error.to_string()))?;
        answer.map_err(|error| match error {
            Error::Other(words) => Status::bad_request(words),
            Error::Api(error) => Status::unavailable(error.to_string()),
            Error::Later { words, .. } => Status::unavailable(words),
        })
    }

    /// The given policies as they would be stored.
    fn as_if(&self, given: Vec<Value>) -> Result<AsIf, Status> {
        let mut as_if = AsIf::default();
        for policy in given {
            let kind = object::kind(&policy).to_owned();
            match kind.as_str() {
                "PropagationPolicy" | "ClusterPropagationPolicy" => {
                    as_if.policies.push(self.admitted(policy)?);
                }
                "OverridePolicy" | "ClusterOverridePolicy" => as_if.overrides.push(self.admitted(policy)?),
                "ResidencyRule" => as_if.rules.push(self.admitted(policy)?),
                other => {
                    return Err(Status::bad_request(format!(
                        "spec.policies: {other:?} is none of PropagationPolicy, ClusterPropagationPolicy, OverridePolicy, ClusterOverridePolicy and ResidencyRule"
                    )));
                }
            }
        }
        Ok(as_if)
    }

    fn admitted<T: DeserializeOwned>(&self, mut policy: Value) -> Result<T, Status> {
        let kind = object::kind(&policy).to_owned();
        let (group, is_wide) = match kind.as_str() {
            "ResidencyRule" => (EDGE_GROUP, true),
            kind => (POLICY_GROUP, kind.starts_with("Cluster")),
        };
        if is_wide {
            object::metadata(&mut policy).remove("namespace");
        } else if object::namespace(&policy).is_empty() {
            object::metadata(&mut policy).insert("namespace".into(), "default".into());
        }
        let (registry, name) = (&self.registry, object::name(&policy).to_owned());
        let context =
            Context { now: registry.now(), new_uuid: &|| registry.new_uid(), grades: Default::default() };
        admission::mutate(group, &kind, Operation::Create, &mut policy, None, &context);
        let mut wrong = admission::validate(group, &kind, Operation::Create, &policy, None);
        if matches!(&*kind, "PropagationPolicy" | "ClusterPropagationPolicy") {
            wrong.extend(karmada_placement_expressions::validate(&policy, None));
        }
        if !wrong.is_empty() {
            let causes = wrong.iter().map(karmada_kinds::cause).collect();
            return Err(Status::invalid(group, &kind, &name, causes));
        }
        serde_json::from_value(policy).map_err(|error| Status::bad_request(format!("{kind} {name}: {error}")))
    }
}

#[async_trait::async_trait]
impl VirtualResource for PlacementReviews {
    async fn create(&self, _: &VirtualRequest<'_>, mut asked: Value) -> Result<Value, Status> {
        let spec: Spec = serde_json::from_value(asked["spec"].clone())
            .map_err(|error| Status::bad_request(format!("spec: {error}")))?;
        let named = |of: fn(&Value) -> &str| !of(&spec.manifest).is_empty();
        if !(named(object::api_version) && named(object::kind) && named(object::name)) {
            return Err(Status::bad_request(
                "spec.manifest: an object with apiVersion, kind and metadata.name is required",
            ));
        }
        let as_if = self.as_if(spec.policies)?;
        let review = self.review(spec.manifest, as_if, spec.what_if).await?;
        let manifests = if spec.with_manifests { Manifests::Shown } else { Manifests::LeftOut };
        asked["status"] = shown::status(&review, manifests);
        Ok(asked)
    }
}
