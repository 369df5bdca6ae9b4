//! Rebalancing: replicas of a workload that would be placed elsewhere now are moved there, so many in an interval over all workloads.
//!
//! In: bindings of Deployments that are divided by room, all of whose replicas are ready; clusters; what an estimator says. Out: `spec.clusters`
//! with other numbers of the same sum, a note of the move, an event. Each binding is looked at once in an interval.
//!
//! The clusters are written as they were decided. A WorkloadRebalancer's trigger (`rescheduleTriggeredAt`) would have the scheduler decide
//! once more, of other facts and by no budget, and would stand until there is room, whenever that is.
//!
//! What a cluster gives its last replica of is removed there, and removals are limited: beyond the limit they wait for a person, and the workload
//! runs in both places. So no cluster is left where something waits already, and each by one workload in a minute.
//!
//! Where what was moved does not become ready, it is moved back once, and the workload rests for long: the other half of it has borne all for a while.
//!
//! What is left of the budget, and what was moved a moment ago and no report shows yet, is kept in memory; the latter in one store with what the
//! scheduler placed. A hub that starts anew moves nothing for
//! one interval, so that in any stretch of that length no more is moved than the budget has, whenever it starts. Of a write of which nobody
//! knows what came, it is taken that it was done.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_api::binding::ResourceBinding;
use karmada_api::cluster::Cluster;
use karmada_api::object;
use karmada_api::strings::{events, labels};
use karmada_controllers::agent_ports::estimator::{self, Estimator};
use karmada_controllers::controller_context::ControllerContext;
use karmada_controllers::events::{EventType, Reference};
use karmada_controllers::fetch::{self, kinds};
use karmada_controllers::graceful_eviction::again;
use karmada_controllers::karmada_metrics::Measure;
use karmada_controllers::port::{Api, ApiError, Change, Key, Resource};
use karmada_controllers::reservations::Mark;
use karmada_controllers::runner::{Action, Controller, Error, Source};
use karmada_core::scheduler::Input;
use karmada_core::scheduler::assumptions::Taken;
use karmada_core::scheduler::estimator_answers::Exact;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::better_plan::{self, Facts, Step};
use crate::budget::Budget;
use crate::exact_room;
use crate::look_intervals::Turns;
use crate::movability::{self, Stays};
use crate::move_note::{LONGEST_REST, MoveNote, REST};
use crate::moves_in_flight::{Entered, Ledger};
use crate::rollback::{self, Course};

const BINDING: (&str, &str) = ("work.karmada.io/v1alpha2", "ResourceBinding");

/// How often it looks, and how much it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebalancingOptions {
    /// A binding is looked at this often.
    pub interval: SignedDuration,
    /// So many replicas are moved in an interval, of all bindings together.
    pub budget: NonZeroU32,
}

/// The controller.
pub struct Rebalancing {
    shared: Arc<ControllerContext>,
    estimator: Option<Arc<dyn Estimator>>,
    interval: SignedDuration,
    turns: Arc<Turns>,
    started: Instant,
    ledger: Mutex<Ledger>,
}

impl Rebalancing {
    /// A controller, which asks an estimator where the scheduler does.
    pub fn new(
        shared: Arc<ControllerContext>,
        estimator: Option<Arc<dyn Estimator>>,
        RebalancingOptions { interval, budget }: RebalancingOptions,
    ) -> Arc<Self> {
        let budget = Budget::new(budget.get(), interval.unsigned_abs());
        // What it moves the scheduler is to see as taken, and the other way round.
        shared.reservations.keep();
        Arc::new(Rebalancing {
            shared,
            estimator,
            interval,
            turns: Turns::every(interval),
            started: Instant::now(),
            ledger: Mutex::new(Ledger::new(budget)),
        })
    }

    /// What wakes this controller: a binding that is new or placed otherwise; from then on it waits for the clock.
    pub fn wakes() -> Vec<Source<Key>> {
        vec![Source::own(BINDING.0, BINDING.1).but_status()]
    }

    /// A step towards where a binding would be placed now. What it takes of the budget is spent.
    async fn step(
        &self,
        (key, seen): (&Key, Mark),
        binding: &ResourceBinding,
        clusters: &[Arc<Cluster>],
        now: Timestamp,
    ) -> Result<Result<Entered, Stays>, Error> {
        if self.ledger.lock().free(self.started.elapsed()) <= 0 {
            return Ok(Err(Stays::NoBudget));
        }
        // Before agents are asked.
        if let Err(stays) = movability::permit(binding, clusters, &self.shared.options.scheduler_name, now) {
            return Ok(Err(stays));
        }
        if self.members_decide(binding).await? {
            return Ok(Err(Stays::MembersDecide));
        }
        self.decide((key, seen), binding, clusters, now).await
    }

    async fn decide(
        &self,
        (key, seen): (&Key, Mark),
        binding: &ResourceBinding,
        clusters: &[Arc<Cluster>],
        now: Timestamp,
    ) -> Result<Result<Entered, Stays>, Error> {
        let afresh = better_plan::afresh(binding, now);
        let expressions = self.shared.expressions(binding).await?;
        let mut input = Input {
            binding: &afresh,
            clusters,
            scheduler: &self.shared.options.scheduler_name,
            keeps_empty: self.shared.options.empty_workloads,
            neighbours: self.shared.neighbours(key, &binding.spec),
            taken: Taken::new(),
            exact: Exact::new(),
            residency: self.shared.residency.of(&*self.shared.api, &binding.spec.resource).await?,
            expressions: expressions.as_deref(),
        };
        // By what clusters report, before agents are asked: most stand well, and are looked at in each interval.
        let facts = Facts { binding, afresh: &input, agents_are_asked: false, now };
        if let Some(stays) = self.estimator.as_ref().and_then(|_| better_plan::decide(&facts, i64::MAX).err())
        {
            return Ok(Err(stays));
        }
        input.exact = estimator::exact(self.estimator.as_deref(), &input, &self.shared.gates).await;
        // Until the step is written, nobody else of its group looks.
        let turn = self.shared.group_turn(key, &binding.spec).await;
        // One at a time: the next sees what this one takes. What others placed while agents were asked counts.
        let (mut ledger, moment) = (self.ledger.lock(), self.started.elapsed());
        input.neighbours = self.shared.neighbours(key, &binding.spec);
        // What this one was given is ready, so it is in the reports.
        self.shared.reservations.remove_as_of(key, seen);
        input.taken = self.shared.reservations.taken();
        input.exact = exact_room::beside_taken(&input);
        let agents_are_asked = self.estimator.is_some();
        let facts = Facts { binding, afresh: &input, agents_are_asked, now };
        let left = ledger.free(moment);
        let step = better_plan::decide(&facts, left).and_then(|step| self.removable(step));
        let step = step.and_then(|step| ledger.paced(step, moment));
        let entered = step.map(|step| self.enter(&mut ledger, (key, binding), step, moment));
        Ok(entered.map(|entered| entered.during(turn)))
    }

    /// A step back: of what was moved since the start it does not wait for the budget; and what it takes of it is spent.
    fn back(&self, key: &Key, binding: &ResourceBinding, step: Step) -> Result<Entered, Stays> {
        let step = self.removable(step)?;
        let (mut ledger, moment) = (self.ledger.lock(), self.started.elapsed());
        let step = ledger.paced(step, moment)?;
        let note = MoveNote::of(binding).unwrap_or_default();
        if !ledger.takes_back(key, &note, step.moved(), moment) {
            return Err(Stays::NoBudget);
        }
        Ok(self.enter(&mut ledger, (key, binding), step, moment))
    }

    /// Enters a step into the ledger, and what it takes of clusters' room into what is taken.
    fn enter(
        &self,
        ledger: &mut Ledger,
        (key, binding): (&Key, &ResourceBinding),
        step: Step,
        moment: Duration,
    ) -> Entered {
        let mark = self.shared.reservations.placed(binding, &step.clusters);
        ledger.enter(key, step, moment).reserved(mark)
    }

    /// Notes how it goes with the last step of a binding.
    fn hear(&self, key: &Key, binding: &ResourceBinding, course: &Course, now: Timestamp) {
        let mut ledger = self.ledger.lock();
        let lately = |note: &MoveNote| note.at <= now && now.duration_since(note.at) < REST;
        match (course, MoveNote::of(binding).filter(lately)) {
            (Course::Nothing | Course::Over, _) => ledger.is_over(key),
            (Course::Underway | Course::Fails(_), Some(note)) => {
                ledger.goes_on(key, &note, self.started.elapsed());
            }
            (Course::Underway | Course::Fails(_), None) => {}
        }
    }

    /// A move is over: it is not to be taken back any more.
    async fn close(&self, resource: &Resource, binding: &ResourceBinding) -> Result<(), Error> {
        let Some(note) = MoveNote::of(binding) else { return Ok(()) };
        let closed = MoveNote { changed: BTreeMap::new(), ..note }.written(binding);
        self.shared.api.update(resource, fetch::to_value(&closed)?).await?;
        Ok(())
    }

    /// The step, unless a cluster would be left from which removals wait for a person.
    fn removable(&self, step: Step) -> Result<Step, Stays> {
        let is_held = |cluster: &&str| !self.shared.removal_limit.held_works(cluster).is_empty();
        let held = step.leaves().find(is_held).map(str::to_owned);
        held.map_or(Ok(step), |cluster| Err(Stays::RemovalsHeld(cluster)))
    }

    /// Whether members scale the workload: they would keep the numbers that they have.
    async fn members_decide(&self, binding: &ResourceBinding) -> Result<bool, Error> {
        let template = &binding.spec.resource;
        let api: &dyn Api = &*self.shared.api;
        let Some(kind) = api.resource_of(&template.api_version, &template.kind) else { return Ok(false) };
        let found: Option<Value> = fetch::get(api, &kind, &template.namespace, &template.name).await?;
        let retains = |object: Value| object::label(&object, labels::RETAIN_REPLICAS) == Some("true");
        Ok(found.is_some_and(retains))
    }

    async fn carry_out(
        &self,
        (resource, key): (&Resource, &Key),
        binding: &ResourceBinding,
        entered: &Entered,
    ) -> Result<(), Error> {
        let writing = self.shared.api.update(resource, fetch::to_value(&entered.step.applied(binding))?);
        let written = self.shared.metrics.timed(Measure::Rebalance, writing).await;
        let error = match written {
            Ok(written) => {
                // At once, not when the watch tells: the next of its group looks where this one is.
                self.shared.bindings.observe(&Change::Applied(written));
                self.tell_of(binding, &entered.step);
                return Ok(());
            }
            Err(error) => error,
        };
        if !matches!(error, ApiError::Unavailable(_)) {
            self.ledger.lock().strike(key, entered);
            self.shared.reservations.remove_as_of(key, entered.mark);
        }
        if !error.is_of_a_race() {
            self.tell(binding, EventType::Warning, events::REBALANCE_BINDING_FAILED, &error.to_string());
        }
        Err(error.into())
    }

    /// Tells of a step that was done.
    fn tell_of(&self, binding: &ResourceBinding, step: &Step) {
        let (kind, reason, message) = match step.is_back {
            true => (EventType::Warning, events::REBALANCE_BINDING_FAILED, taken_back(step)),
            false => {
                let message = moved(step, binding.spec.replicas);
                (EventType::Normal, events::REBALANCE_BINDING_SUCCEED, message)
            }
        };
        self.tell(binding, kind, reason, &message);
    }

    fn tell(&self, binding: &ResourceBinding, kind: EventType, reason: &str, message: &str) {
        for about in [Reference::of_binding(binding), Reference::of_template(binding)] {
            self.shared.recorder.record(&about, kind, reason, message);
        }
    }
}

/// Who gives or gets how many, in words.
fn words(of: &BTreeMap<String, i64>) -> String {
    of.iter().map(|(name, number)| format!("{name}: {number}")).collect::<Vec<_>>().join(", ")
}

/// What was taken back, in words.
fn taken_back(step: &Step) -> String {
    format!(
        "moved {} replicas back to where they were (from {}; to {}): {} minutes after they were moved not all were ready where they went; \
         the workload is not moved again for {} days",
        step.moved(),
        words(&step.gives),
        words(&step.gets),
        rollback::PATIENCE.as_mins(),
        LONGEST_REST.as_hours() / 24
    )
}

/// What was moved, in words.
fn moved(step: &Step, replicas: i32) -> String {
    let (from, to) = (words(&step.gives), words(&step.gets));
    let rest = match step.note.left {
        0 => String::new(),
        left => format!("; {left} more are to follow"),
    };
    format!(
        "moved {} of {replicas} replicas to where they would be placed now (from {from}; to {to}){rest}",
        step.moved()
    )
}

#[async_trait::async_trait]
impl Controller for Rebalancing {
    type Key = Key;

    fn name(&self) -> &'static str {
        "rebalancing"
    }

    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let (api, now): (&dyn Api, _) = (&*self.shared.api, (self.shared.clock)());
        // Before the binding is read: what is placed from here on, this turn has not seen.
        let seen = self.shared.reservations.mark(key);
        let resource = kinds::bindings(api, &key.namespace)?;
        let found: Option<ResourceBinding> = fetch::get(api, &resource, &key.namespace, &key.name).await?;
        let Some(binding) = found.filter(movability::could_move) else {
            self.turns.forget(key);
            self.ledger.lock().is_over(key);
            return Ok(Action::Done);
        };
        let rests = self.turns.rests(key);
        if rests.is_positive() {
            return Ok(again(rests));
        }
        let clusters = self.shared.clusters.all("");
        let course = rollback::course(&binding, &clusters, &self.shared.options.scheduler_name, now);
        self.hear(key, &binding, &course, now);
        let (step, is_over) = match course {
            Course::Fails(step) => (self.back(key, &binding, step), false),
            course => (self.step((key, seen), &binding, &clusters, now).await?, course == Course::Over),
        };
        let done = match step {
            Ok(entered) => self.carry_out((&resource, key), &binding, &entered).await,
            Err(why) => {
                tracing::debug!(namespace = &*key.namespace, binding = &*key.name, %why, "no replicas are moved");
                if is_over { self.close(&resource, &binding).await } else { Ok(()) }
            }
        };
        // Who is refused would be refused again: it is decided anew with the next turn. Who lost a race may win the next at once.
        if !done.as_ref().is_err_and(Error::is_of_a_race) {
            self.turns.looked(key);
        }
        done?;
        Ok(again(self.interval))
    }
}

#[cfg(test)]
mod tests;
