//! CronFederatedHPA controller: workloads are scaled, and FederatedHPAs bounded, when rules say so.
//!
//! In: CronFederatedHPAs, and the clock. Out: replicas by the scale of what is scaled, or `minReplicas` and `maxReplicas` of a FederatedHPA; then the
//! history of what was done, and when the next run comes.
//!
//! What is due is carried out before it is noted: a hub that ends between the two does it once more, which changes nothing. What comes of a run is
//! final but where the hub itself could not carry it out, or somebody else wrote at the same moment: then it is tried again.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karmada_api::cron_federated_hpa::CronFederatedHPA;
use karmada_api::strings::events;
use karmada_autoscaling::cron_federated_hpa::{self as core, Due, Scaling};
use tokio::time::Instant;

use crate::controller_context::ControllerContext;
use crate::events::{EventType, Reference};
use crate::fetch;
use crate::graceful_eviction::again;
use crate::karmada_metrics::Measure;
use crate::port::{Api, ApiError, Key, Resource};
use crate::runner::{Action, Controller, Error, Source};

const CRON: (&str, &str) = ("autoscaling.karmada.io/v1alpha1", "CronFederatedHPA");

/// The clock is looked at this often at least: it may have been set while a run was waited for.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// The controller.
pub struct CronFederatedHPAs {
    shared: Arc<ControllerContext>,
}

impl CronFederatedHPAs {
    /// A controller.
    pub fn new(shared: Arc<ControllerContext>) -> Arc<Self> {
        Arc::new(CronFederatedHPAs { shared })
    }

    /// What wakes this controller: a CronFederatedHPA, its status too, as that says what is due; otherwise it waits for the clock. What is scaled is
    /// looked at when a run is due.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own(CRON.0, CRON.1)]
    }

    /// What came of the runs that are due. An error, where that is not known yet.
    async fn carry_out(&self, hpa: &CronFederatedHPA, due: &[Due]) -> Result<Result<(), String>, Error> {
        if due.is_empty() {
            return Ok(Ok(()));
        }
        let came = match core::scaling(hpa, due) {
            Ok(scaling) => self.scale(hpa, scaling).await,
            Err(words) => return Ok(Err(words)),
        };
        match came {
            Ok(()) => Ok(Ok(())),
            Err(ApiError::NotFound(words) | ApiError::Invalid(words)) => Ok(Err(words)),
            Err(ApiError::Forbidden { message, .. }) => Ok(Err(message)),
            Err(error) => Err(error.into()),
        }
    }

    async fn scale(&self, hpa: &CronFederatedHPA, scaling: Scaling) -> Result<(), ApiError> {
        let (api, target) = (&*self.shared.api, &hpa.spec.scale_target_ref);
        let unknown = || {
            let (kind, version) = (&target.kind, &target.api_version);
            ApiError::NotFound(format!("no matches for kind \"{kind}\" in version \"{version}\""))
        };
        let resource = api.resource_of(&target.api_version, &target.kind).ok_or_else(unknown)?;
        match scaling {
            Scaling::Replicas(replicas) => {
                let key = Key { namespace: hpa.namespace().into(), name: target.name.as_str().into() };
                api.scale(&resource, &key, replicas).await?;
            }
            Scaling::Bounds { min, max } => {
                let live = api.get(&resource, hpa.namespace(), &target.name).await?.value()?;
                if let Some(bounded) = core::bounded(&live, min, max) {
                    api.update(&resource, bounded).await?;
                }
            }
        }
        Ok(())
    }

    /// Writes what came of the runs, and when the next come. Returns how long nothing is to be done.
    async fn note(
        &self,
        resource: &Resource,
        mut hpa: CronFederatedHPA,
        (due, came): (&[Due], &Result<(), String>),
        now: Timestamp,
    ) -> Result<Option<SignedDuration>, Error> {
        let status = core::fitting(&hpa, core::status(&hpa, due, came, now));
        if status != hpa.status {
            hpa.status = status;
            for (rule, why) in core::unreadable(&hpa) {
                let words = format!("rule {rule}: {why}");
                self.warn(&hpa, events::START_RULE_FAILED, &words);
            }
            if let Err(error) = self.shared.api.update_status(resource, fetch::to_value(&hpa)?).await {
                if !matches!(error, ApiError::Conflict(_) | ApiError::NotFound(_)) {
                    self.warn(&hpa, events::UPDATE_CRON_FEDERATED_HPA_FAILED, &error.to_string());
                }
                return Err(error.into());
            }
        }
        Ok(core::rests(&hpa.status, now))
    }

    fn warn(&self, hpa: &CronFederatedHPA, reason: &str, words: &str) {
        let about = Reference {
            api_version: CRON.0.to_owned(),
            kind: CRON.1.to_owned(),
            namespace: hpa.namespace().to_owned(),
            name: hpa.name().to_owned(),
            uid: hpa.metadata.uid.clone().unwrap_or_default(),
        };
        self.shared.recorder.record(&about, EventType::Warning, reason, words);
    }
}

#[async_trait::async_trait]
impl Controller for CronFederatedHPAs {
    type Key = Key;

    fn name(&self) -> &'static str {
        "cron-federated-hpa-controller"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let api: &dyn Api = &*self.shared.api;
        let Some(resource) = api.resource_of(CRON.0, CRON.1) else { return Ok(Action::Done) };
        let found: Option<CronFederatedHPA> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let live = |one: &CronFederatedHPA| one.metadata.deletion_timestamp.is_none();
        let Some(hpa) = found.filter(live) else { return Ok(Action::Done) };
        if let Some(words) = core::too_large(&hpa) {
            self.warn(&hpa, events::START_RULE_FAILED, &words);
            return Ok(Action::Done);
        }
        self.shared.metrics.timed(Measure::CronFederatedHpa, self.look(&resource, hpa)).await
    }
}

impl CronFederatedHPAs {
    /// Carries out what is due, and says how long nothing is.
    async fn look(&self, resource: &Resource, hpa: CronFederatedHPA) -> Result<Action, Error> {
        let now = (self.shared.clock)();
        let due = core::due(&hpa, now);
        let begun = Instant::now();
        let came = self.carry_out(&hpa, &due).await;
        for _ in &due {
            // Rules that are due together are carried out together: each took as long as all of them.
            let succeeded = matches!(came, Ok(Ok(())));
            self.shared.metrics.note(Measure::CronFederatedHpaRule, succeeded, begun.elapsed());
        }
        match &came {
            Ok(Err(words)) => self.warn(&hpa, events::SCALE_FAILED, words),
            Err(error) if !matches!(error, Error::Api(ApiError::Conflict(_))) => {
                self.warn(&hpa, events::SCALE_FAILED, &error.to_string());
            }
            _ => {}
        }
        let rests = self.note(resource, hpa, (&due, &came?), now).await?;
        Ok(rests.map_or(Action::Done, |rests| again(rests.min(LONGEST_WAIT))))
    }
}

#[cfg(test)]
mod tests;
