//! FederatedHPA controller: workloads are scaled by what their Pods use, in all clusters together.
//!
//! In: FederatedHPAs, their targets with the bindings that place them, and every fifteen seconds what the agents say of the targets' Pods. Out: replicas
//! by the scale of the targets; then what was measured and decided.
//!
//! What was recommended and done before is remembered here alone. A hub that starts anew, as also one that takes the lead over, begins with the
//! replicas that there are: windows of stability are waited for in full, and policies count nothing of before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use karmada_api::binding::ResourceBinding;
use karmada_api::cron_federated_hpa::ScaleTarget;
use karmada_api::federated_hpa::FederatedHPA;
use karmada_api::names;
use karmada_api::strings::{conditions, events};
use karmada_autoscaling::federated_hpa::{
    self as core, Decision, Gathered, History, INTERVAL, Said, ScaleInputs,
};
use karmada_core::scheduler::components;
use karmada_interpreter::Operation;
use parking_lot::Mutex;
use serde_json::Value;

use crate::agent_ports::pod_metrics::{PodMetrics, Question};
use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch::{self, kinds};
use crate::graceful_eviction::again;
use crate::karmada_metrics::Measure;
use crate::port::{Api, ApiError, Key, Resource};
use crate::runner::{Action, Controller, Error, Source};

/// How long to wait for a webhook that was just asked.
const ASKED: Duration = Duration::from_secs(1);

const FEDERATED_HPA: (&str, &str) = ("autoscaling.karmada.io/v1alpha1", "FederatedHPA");

/// The controller.
pub struct FederatedHPAs {
    shared: Arc<ControllerContext>,
    metrics: Arc<dyn PodMetrics>,
    remembered: Mutex<BTreeMap<Key, Remembered>>,
}

/// What is remembered of one FederatedHPA; of another one of its name, or of another target, nothing of it counts.
#[derive(Clone, Default)]
struct Remembered {
    uid: String,
    target: ScaleTarget,
    history: History,
}

/// What is scaled.
struct Target {
    resource: Resource,
    object: Value,
    replicas: i32,
}

impl FederatedHPAs {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>, metrics: Arc<dyn PodMetrics>) -> Arc<Self> {
        Arc::new(FederatedHPAs { shared, metrics, remembered: Mutex::default() })
    }

    /// What wakes this controller: a FederatedHPA, its status aside; otherwise it waits for the clock.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own(FEDERATED_HPA.0, FEDERATED_HPA.1).but_status()]
    }

    /// What is scaled; or what is said where there is no such thing.
    async fn target(&self, hpa: &FederatedHPA) -> Result<Result<Target, Said>, Error> {
        let (api, meant) = (&*self.shared.api, &hpa.spec.scale_target_ref);
        let unable = |words: String| Ok(Err(Said::able(false, "FailedGetScale", words)));
        let Some(resource) = api.resource_of(&meant.api_version, &meant.kind) else {
            let (kind, version) = (&meant.kind, &meant.api_version);
            return unable(format!("no matches for kind \"{kind}\" in version \"{version}\""));
        };
        let Some(found) = fetch::get_object(api, &resource, hpa.namespace(), &meant.name).await? else {
            return unable(format!("{} \"{}\" not found", resource.plural, meant.name));
        };
        let object = found.value()?;
        match self.replicas(&object)? {
            Some(replicas) => Ok(Ok(Target { resource, object, replicas })),
            None => unable(format!("nobody knows how many replicas a {} has", meant.kind)),
        }
    }

    /// As the kind's interpreter says, and else as most kinds have it.
    fn replicas(&self, object: &Value) -> Result<Option<i32>, Error> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let interpreter = &self.shared.interpreter;
        if !interpreter.enabled(text("apiVersion"), text("kind"), Operation::InterpretReplica) {
            let said = object.pointer("/spec/replicas").and_then(Value::as_i64);
            return Ok(said.and_then(|replicas| replicas.try_into().ok()));
        }
        match interpreter.replicas(object) {
            Ok(replicas) => Ok(Some(replicas.count)),
            Err(error) if self.shared.asks(&error)? => {
                Err(Error::Later { words: error.to_string(), again: ASKED })
            }
            Err(_) => Ok(None),
        }
    }

    /// The binding that places a target; none where no policy does.
    async fn binding(&self, hpa: &FederatedHPA) -> Result<Option<ResourceBinding>, Error> {
        let (api, meant) = (&*self.shared.api, &hpa.spec.scale_target_ref);
        let bindings = kinds::bindings(api, hpa.namespace())?;
        let name = names::binding_name(&meant.kind, &meant.name);
        let found: Option<ResourceBinding> = fetch::get(api, &bindings, hpa.namespace(), &name).await?;
        let group = |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
        Ok(found.filter(|binding| {
            let placed = &binding.spec.resource;
            let same = group(&placed.api_version) == group(&meant.api_version);
            same && placed.kind == meant.kind
                && placed.name == meant.name
                && binding.metadata.deletion_timestamp.is_none()
        }))
    }

    /// What the clusters tell of a target; or what is said where it is in none.
    async fn gather(&self, hpa: &FederatedHPA, target: &Target) -> Result<Result<Gathered, Said>, Error> {
        let inactive = |reason, words: String| Ok(Err(Said::active(false, reason, words)));
        let (kind, name) = (&hpa.spec.scale_target_ref.kind, &hpa.spec.scale_target_ref.name);
        let Some(binding) = self.binding(hpa).await? else {
            return inactive(
                "NotPropagated",
                format!("no policy places {kind} {name}: it has no ResourceBinding"),
            );
        };
        if components::has_several(&binding.spec) {
            let words = format!(
                "{kind} {name} has several Pod templates: it is placed whole, and what its replicas use is not told apart"
            );
            return inactive("SeveralPodTemplates", words);
        }
        let Some(selector) = core::selector(&target.object) else {
            return inactive(
                "InvalidSelector",
                format!("nobody knows which Pods are those of {kind} {name}"),
            );
        };
        let metrics = hpa.spec.metrics.clone();
        let question = Question { namespace: hpa.namespace().to_owned(), selector, metrics };
        let placed = binding.spec.clusters.iter().map(|target| target.name.as_str());
        let (there, away): (Vec<&str>, Vec<&str>) = placed.partition(|cluster| self.is_ready(cluster));
        if there.is_empty() && away.is_empty() {
            return inactive("NotScheduled", format!("{kind} {name} is in no cluster yet"));
        }
        let answers = self.metrics.ask(&there, &question).await;
        let away: BTreeSet<String> = away.into_iter().map(str::to_owned).collect();
        let gathered = core::gather(&binding, target.replicas, answers, question.metrics.len());
        Ok(Ok(Gathered { away, ..gathered }))
    }

    fn is_ready(&self, cluster: &str) -> bool {
        let ready = |one: &Condition| one.type_ == conditions::READY && one.status == conditions::TRUE;
        self.shared.clusters.get("", cluster).is_some_and(|one| one.status.conditions.iter().any(ready))
    }

    /// Scales a target where that is decided. An error, where it is to be tried again at once; words, where it is refused.
    async fn scale(
        &self,
        hpa: &FederatedHPA,
        target: &Target,
        wanted: i32,
    ) -> Result<Result<(), String>, Error> {
        if wanted == target.replicas {
            return Ok(Ok(()));
        }
        // A scale takes no version, and agents were waited for: whoever scaled it meanwhile is not overruled by what was counted before.
        if self.target(hpa).await?.ok().is_none_or(|now| now.replicas != target.replicas) {
            return Err(ApiError::Conflict("the target was scaled meanwhile".to_owned()).into());
        }
        let name = hpa.spec.scale_target_ref.name.as_str();
        let key = Key { namespace: hpa.namespace().into(), name: name.into() };
        match self.shared.api.scale(&target.resource, &key, wanted).await {
            Ok(_) => Ok(Ok(())),
            Err(ApiError::NotFound(words) | ApiError::Invalid(words)) => Ok(Err(words)),
            Err(ApiError::Forbidden { message, .. }) => Ok(Err(message)),
            Err(error) => Err(error.into()),
        }
    }

    fn remembered(&self, key: &Key, hpa: &FederatedHPA) -> Remembered {
        let uid = hpa.metadata.uid.clone().unwrap_or_default();
        let target = &hpa.spec.scale_target_ref;
        let held = self.remembered.lock().get(key).cloned();
        let same = held.filter(|held| held.uid == uid && held.target == *target);
        same.unwrap_or_else(|| Remembered { uid, target: target.clone(), history: History::default() })
    }

    /// Another FederatedHPA that has the same target: they would scale it to and fro for ever. (Karmada lets them; Kubernetes does not.)
    fn rival(&self, key: &Key, hpa: &FederatedHPA) -> Option<Arc<str>> {
        let own = self.remembered(key, hpa);
        let mut all = self.remembered.lock();
        all.insert(key.clone(), own);
        let target = &hpa.spec.scale_target_ref;
        let same = |(other, held): &(&Key, &Remembered)| {
            *other != key && other.namespace == key.namespace && held.target == *target
        };
        all.iter().find(same).map(|(other, _)| other.name.clone())
    }

    /// Decides, carries it out, and remembers it; the status that follows.
    async fn look(&self, key: &Key, hpa: &mut FederatedHPA, target: &Target) -> Result<(), Error> {
        let current = target.replicas;
        let measured = match core::without_measuring(&hpa.spec, current) {
            Some(decided) => Err(decided),
            None => self.gather(hpa, target).await?.map_err(|said| Decision::stays(current, vec![said])),
        };
        let now = (self.shared.clock)();
        let mut remembered = self.remembered(key, hpa);
        remembered.history.begin(current, now);
        let before = remembered.history.clone();
        let look = ScaleInputs { hpa: &*hpa, current, history: &before, now };
        let decision = measured.map_or_else(|decided| decided, |gathered| core::decide(look, &gathered));
        let came = self.scale(hpa, target, decision.replicas).await?;
        core::remember(&mut remembered.history, look, &decision);
        if came.is_ok() {
            core::remember_scaled(&mut remembered.history, look, decision.replicas);
        }
        self.tell(hpa, current, &decision, &came);
        let status = core::status(ScaleInputs { history: &remembered.history, ..look }, &decision, &came);
        self.remembered.lock().insert(key.clone(), remembered);
        hpa.status = status;
        Ok(())
    }

    /// Events of what came of it.
    fn tell(&self, hpa: &FederatedHPA, current: i32, decision: &Decision, came: &Result<(), String>) {
        if let Some(failure) = &decision.failure {
            self.event(hpa, EventType::Warning, events::FAILED_COMPUTE_METRICS_REPLICAS, failure);
        }
        let (replicas, why) = (decision.replicas, &decision.why);
        let size = format!("New size: {replicas}; reason: {why}");
        match came {
            Err(words) => {
                self.event(
                    hpa,
                    EventType::Warning,
                    events::FAILED_RESCALE,
                    &format!("{size}; error: {words}"),
                );
            }
            Ok(()) if replicas != current => {
                self.event(hpa, EventType::Normal, events::SUCCESSFUL_RESCALE, &size);
            }
            Ok(()) => {}
        }
    }

    fn event(&self, hpa: &FederatedHPA, type_: EventType, reason: &str, words: &str) {
        let about = Reference {
            api_version: FEDERATED_HPA.0.to_owned(),
            kind: FEDERATED_HPA.1.to_owned(),
            namespace: hpa.namespace().to_owned(),
            name: hpa.name().to_owned(),
            uid: hpa.metadata.uid.clone().unwrap_or_default(),
        };
        self.shared.recorder.record(&about, type_, reason, words);
    }

    async fn write(&self, resource: &Resource, hpa: &FederatedHPA) -> Result<(), Error> {
        match self.shared.api.update_status(resource, fetch::to_value(hpa)?).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => {
                if !matches!(error, ApiError::Conflict(_)) {
                    self.event(hpa, EventType::Warning, events::FAILED_UPDATE_STATUS, &error.to_string());
                }
                Err(error.into())
            }
        }
    }
}

impl FederatedHPAs {
    /// Looks at one, acts, and says in its status what came of it.
    async fn look_once(&self, resource: &Resource, key: &Key, mut hpa: FederatedHPA) -> Result<(), Error> {
        let before = hpa.status.clone();
        let now = (self.shared.clock)();
        if let Some(rival) = self.rival(key, &hpa) {
            let words = format!("FederatedHPA {rival} scales the same target: neither acts");
            self.event(&hpa, EventType::Warning, "AmbiguousSelector", &words);
            hpa.status = core::saying(&hpa, &[Said::active(false, "AmbiguousSelector", words)], now);
        } else {
            match self.target(&hpa).await? {
                Ok(target) => self.look(key, &mut hpa, &target).await?,
                Err(said) => {
                    self.event(&hpa, EventType::Warning, events::FAILED_GET_SCALE, &said.message);
                    hpa.status = core::saying(&hpa, &[said], now);
                }
            }
        }
        if hpa.status != before {
            self.write(resource, &hpa).await?;
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Controller for FederatedHPAs {
    type Key = Key;

    fn name(&self) -> &'static str {
        "federated-hpa-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let Some(resource) = api.resource_of(FEDERATED_HPA.0, FEDERATED_HPA.1) else {
            return Ok(Action::Done);
        };
        let found: Option<FederatedHPA> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let live = |one: &FederatedHPA| one.metadata.deletion_timestamp.is_none();
        let Some(hpa) = found.filter(live) else {
            self.remembered.lock().remove(key);
            return Ok(Action::Done);
        };
        self.shared.metrics.timed(Measure::FederatedHpa, self.look_once(&resource, key, hpa)).await?;
        Ok(again(INTERVAL))
    }
}

#[cfg(test)]
mod tests;
