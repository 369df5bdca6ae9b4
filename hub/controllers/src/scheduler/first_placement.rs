//! Where a new binding goes, decided before it is written: who creates it writes both at once, and everybody who waits for its clusters has them a
//! write and a turn sooner.
//!
//! In: a binding that is not stored yet. Out: the same with its clusters, where they can be told without asking or waiting for anybody. What came of
//! it, the scheduler tells in its own turn, and decides anew whatever was not decided here.

use std::sync::Arc;

use karmada_api::binding::ResourceBinding;
use karmada_core::scheduler::estimator_answers;
use karmada_core::scheduler::{self, Outcome};

use super::Scheduler;
use crate::port::{Change, Object};
use crate::runner::Error;

impl Scheduler {
    /// The binding as it is to be created; `None` where its placement takes longer: agents are to be asked, or its turn is to be waited
    /// for.
    ///
    /// # Errors
    /// What decides cannot be read now.
    pub async fn first_placement(&self, binding: &ResourceBinding) -> Result<Option<ResourceBinding>, Error> {
        if self.waits_for_its_turn(binding) {
            return Ok(None);
        }
        let (clusters, expressions) = (self.shared.clusters.all(""), self.shared.expressions(binding).await?);
        let mut input = self.input(binding, &clusters, expressions.as_deref()).await?;
        input.taken = self.shared.reservations.taken();
        if self.estimator.is_some() && !estimator_answers::asked(&input).is_empty() {
            return Ok(None);
        }
        let decision = scheduler::schedule(&input);
        let is_placed = matches!(&decision.outcome, Outcome::Scheduled(targets) if !targets.is_empty());
        Ok(scheduler::apply(binding, &decision).filter(|_| is_placed))
    }

    /// Whether more is to be known of it than where it goes: its turn among others, in its group or by its priority; which of its groups of clusters it
    /// is in, which its status alone tells.
    fn waits_for_its_turn(&self, binding: &ResourceBinding) -> bool {
        let spec = &binding.spec;
        let in_order =
            spec.placement.as_ref().is_some_and(|placement| !placement.cluster_affinities.is_empty());
        let in_group = self.shared.looks_at_groups() && spec.workload_affinity_groups.is_some();
        in_order || in_group || spec.schedule_priority.is_some()
    }

    /// A binding was created as [`Scheduler::first_placement`] has it: it counts at once, not when the watch tells.
    pub fn was_created(&self, binding: &ResourceBinding, placed: &ResourceBinding, written: Arc<Object>) {
        self.shared.reservations.placed(binding, &placed.spec.clusters);
        self.shared.bindings.observe(&Change::Applied(written));
    }
}
