//! What was moved a while ago: the budget, what no report shows yet, which clusters were left.
//!
//! In: steps, and the moment since a start. Out: what is left of the budget, what others take, whether a cluster may be left. It lives in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_core::scheduler::assumptions::{Assumptions, Taken};

use crate::better_plan::Step;
use crate::budget::Budget;
use crate::standing::Stays;

/// Between two workloads that leave one cluster: far below the removals that wait for a person, which are ten in a minute unless a policy says
/// otherwise.
const TURN: Duration = Duration::from_secs(60);

/// What was moved.
pub(crate) struct Ledger {
    pub(crate) budget: Budget,
    /// Where it was moved to, until reports show it: two workloads are not moved into one gap.
    moved: Assumptions,
    /// When each cluster was left last by a workload; a start counts as one.
    left: BTreeMap<String, Duration>,
}

/// A step, and when it was entered into the ledger.
pub(crate) struct Entered {
    pub(crate) step: Step,
    at: Duration,
}

impl Ledger {
    /// Nothing was moved.
    pub(crate) fn new(budget: Budget) -> Self {
        Ledger { budget, moved: Assumptions::default(), left: BTreeMap::new() }
    }

    /// What other bindings were given that no report shows yet. What this one was given is ready, so it is in the reports.
    pub(crate) fn taken_by_others(&mut self, binding: &ResourceBinding, now: Duration) -> Taken {
        self.moved.remove(binding.namespace(), binding.name());
        self.moved.collect(now);
        self.moved.taken(now)
    }

    pub(crate) fn enter(&mut self, binding: &ResourceBinding, step: Step, at: Duration) -> Entered {
        self.budget.spend(step.moved(), at);
        let unseen = self.moved.unseen(binding, &step.clusters, at);
        self.moved.placed(binding, &step.clusters, unseen, at);
        self.left.retain(|_, then| at.saturating_sub(*then) < TURN);
        self.left.extend(step.leaves().map(|cluster| (cluster.to_owned(), at)));
        Entered { step, at }
    }

    /// The step, unless a cluster would be left that another workload left a moment ago.
    pub(crate) fn paced(&self, step: Step, now: Duration) -> Result<Step, Stays> {
        let last = |cluster: &str| self.left.get(cluster).copied().unwrap_or_default();
        let lately = step.leaves().find(|cluster| now.saturating_sub(last(cluster)) < TURN);
        let lately = lately.map(str::to_owned);
        lately.map_or(Ok(step), |cluster| Err(Stays::LeftLately(cluster)))
    }

    /// It was not done.
    pub(crate) fn strike(&mut self, binding: &ResourceBinding, entered: &Entered) {
        self.budget.give_back(entered.step.moved(), entered.at);
        self.moved.remove(binding.namespace(), binding.name());
        for cluster in entered.step.leaves() {
            self.left.remove(cluster);
        }
    }
}
