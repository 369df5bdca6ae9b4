//! HPA scale target marker: what a propagated HorizontalPodAutoscaler scales in the members keeps the replicas that it has there.
//!
//! In: HorizontalPodAutoscalers, and what they scale. Out: the label `retain-replicas` on that, and beside it for which autoscaler it is there.

use std::sync::Arc;

use karmada_api::object;
use karmada_api::strings::annotations;
use karmada_core::hpa_scale_target::{ScaleTarget, scaled, with_retain_replicas};
use serde_json::Value;

use crate::controller_context::ControllerContext;
use crate::fetch;
use crate::port::{Api, Change};
use crate::runner::{Action, Controller, Error, Source};

const HPA: (&str, &str) = ("autoscaling/v2", "HorizontalPodAutoscaler");

/// Kinds that are looked through for marks whose autoscaler went while the hub was down.
const SCALED: [(&str, &str); 2] = [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet")];

/// A scale target and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetKey {
    namespace: Arc<str>,
    target: ScaleTarget,
}

/// The controller.
pub struct HpaScaleTargetMarker {
    shared: Arc<ControllerContext>,
}

impl HpaScaleTargetMarker {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(HpaScaleTargetMarker { shared })
    }

    /// What wakes this controller: an autoscaler, for what it scales and for what it scaled before; and what bears its mark.
    pub fn wakes() -> Vec<Source<TargetKey>> {
        let target = |(api_version, kind): &(&'static str, &'static str)| {
            let (api_version, kind) = (*api_version, *kind);
            Source::new(api_version, kind, move |change| bears_mark(api_version, kind, change)).but_status()
        };
        let mut sources: Vec<Source<TargetKey>> = SCALED.iter().map(target).collect();
        sources.push(Source::new(HPA.0, HPA.1, scaled_by).but_status());
        sources
    }

    /// The first propagated autoscaler, by name, that scales a target.
    async fn scaling(&self, key: &TargetKey) -> Result<Option<String>, Error> {
        let api: &dyn Api = &*self.shared.api;
        let Some(resource) = api.resource_of(HPA.0, HPA.1) else { return Ok(None) };
        let mut names = Vec::new();
        for hpa in api.list(&resource, &key.namespace).await? {
            if scaled(&hpa.value()?).as_ref() == Some(&key.target) {
                names.push(hpa.key.name.to_string());
            }
        }
        Ok(names.into_iter().min())
    }
}

fn scaled_by(change: &Change) -> Vec<TargetKey> {
    let Change::Applied(hpa) = change else { return Vec::new() };
    let target = hpa.value().ok().and_then(|value| scaled(&value));
    target.map(|target| TargetKey { namespace: hpa.key.namespace.clone(), target }).into_iter().collect()
}

fn bears_mark(api_version: &str, kind: &str, change: &Change) -> Vec<TargetKey> {
    let Change::Applied(object) = change else { return Vec::new() };
    let bears = |value: Value| object::annotation(&value, annotations::RETAIN_REPLICAS_BY).is_some();
    if !object.value().is_ok_and(bears) {
        return Vec::new();
    }
    let target = ScaleTarget {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: object.key.name.to_string(),
    };
    vec![TargetKey { namespace: object.key.namespace.clone(), target }]
}

#[async_trait::async_trait]
impl Controller for HpaScaleTargetMarker {
    type Key = TargetKey;

    fn name(&self) -> &'static str {
        "hpa-scale-target-marker"
    }

    async fn reconcile(&self, key: &TargetKey) -> Result<Action, Error> {
        let (api, target): (&dyn Api, _) = (&*self.shared.api, &key.target);
        // An autoscaler scales what is in its own namespace: whoever may write one marks nothing else.
        let resource =
            api.resource_of(&target.api_version, &target.kind).filter(|resource| resource.namespaced);
        let Some(resource) = resource else { return Ok(Action::Done) };
        let found: Option<Value> = fetch::get(api, &resource, &key.namespace, &target.name).await?;
        let Some(object) = found.filter(|found| !object::deleting(found)) else { return Ok(Action::Done) };
        if let Some(wanted) = with_retain_replicas(&object, self.scaling(key).await?.as_deref()) {
            api.update(&resource, wanted).await?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests;
