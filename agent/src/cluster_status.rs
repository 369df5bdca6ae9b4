//! How the cluster is, for `Cluster.status`: version, readiness, what it serves, nodes, resources. And how much room its nodes have.
//!
//! Comes in: the member's probe, its discovery, watches of nodes and pods (trimmed at once to a few numbers
//! each); questions for room. Goes out: JSON into the outbox, only where it changed; answers. Conditions carry no times: the hub sets them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use karmada_api::cluster::{ApiEnablement, ResourceModel};
use karmada_api::readiness::{Readiness, Thresholds};
use karmada_api::strings::conditions as c;
use karmada_interpreter::node_room::{self, NodeRoom};
use karmada_interpreter::nodes_and_pods::{NodeOffer, PodUse};
use karmada_interpreter::resource_summary::{node_summary, resource_summary};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent_state::{AgentState, NodeQuestion, RoomWanted, Wanted};
use crate::counts::Counts;
use crate::member::{Gvk, Member, MemberError, MemberEvent, ObjectId, Probe, Watch};

mod bounds;

/// Before a watch that ended is begun again.
const PAUSE: Duration = Duration::from_secs(10);
/// After the first news of nodes or pods, more is waited for this long.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// How a member is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusOptions {
    /// Between two looks.
    pub frequency: Duration,
    /// How long the other answer must last before readiness flips.
    pub thresholds: Thresholds,
    /// Whether nodes and Pods are watched: without them the cluster tells neither its nodes nor its room.
    pub resource_modeling: bool,
}

impl Default for StatusOptions {
    /// As Karmada's flags are by themselves.
    fn default() -> Self {
        let frequency = Duration::from_secs(10);
        StatusOptions { frequency, thresholds: Thresholds::default(), resource_modeling: true }
    }
}

/// The condition `Ready` for a probe's answer.
fn ready_condition(probe: Probe) -> Value {
    let (status, reason, message) = match probe {
        Probe::Ok => (c::TRUE, c::CLUSTER_READY, c::CLUSTER_READY_MESSAGE),
        Probe::Unhealthy => (c::FALSE, c::CLUSTER_NOT_READY, c::CLUSTER_NOT_READY_MESSAGE),
        Probe::Unreachable => (c::FALSE, c::CLUSTER_NOT_REACHABLE, c::CLUSTER_NOT_REACHABLE_MESSAGE),
    };
    json!({"type": c::READY, "status": status, "reason": reason, "message": message})
}

/// The condition about the completeness of what is served.
fn enablements_condition(enablements: &[ApiEnablement], complete: bool) -> Value {
    let (status, reason, message) = match (enablements.is_empty(), complete) {
        (true, _) => (c::FALSE, c::API_ENABLEMENTS_EMPTY, "collected empty APIEnablements from the cluster"),
        (false, false) => {
            (c::FALSE, c::API_ENABLEMENTS_PARTIAL, "might collect partial APIEnablements from the cluster")
        }
        (false, true) => {
            (c::TRUE, c::API_ENABLEMENTS_COMPLETE, "collected complete APIEnablements from the cluster")
        }
    };
    json!({"type": c::COMPLETE_API_ENABLEMENTS, "status": status, "reason": reason, "message": message})
}

/// The condition about names of Services, where somebody looks.
fn service_names_condition(resolve: bool) -> Value {
    let (status, reason, message) = match resolve {
        true => (c::TRUE, c::SERVICE_NAMES_READY, "names of Services resolve in the cluster"),
        false => (c::FALSE, c::SERVICE_NAMES_NOT_READY, "names of Services do not resolve in the cluster"),
    };
    json!({"type": c::SERVICE_NAMES_READY, "status": status, "reason": reason, "message": message})
}

/// What is known of a member.
#[derive(Debug, Default)]
struct View {
    service_names: Option<bool>,
    version: String,
    enablements: Vec<ApiEnablement>,
    complete: bool,
    nodes: Collected<NodeOffer>,
    pods: Collected<PodUse>,
}

/// Objects of a kind, trimmed; known once listed.
#[derive(Debug)]
struct Collected<T> {
    known: bool,
    items: BTreeMap<(String, String), T>,
    listing: Option<BTreeMap<(String, String), T>>,
}

impl<T> Default for Collected<T> {
    fn default() -> Self {
        Self { known: false, items: BTreeMap::new(), listing: None }
    }
}

impl<T: Clone + PartialEq> Collected<T> {
    /// Takes an event. True where that is news.
    fn take(&mut self, event: MemberEvent, trim: impl Fn(&Value) -> T) -> bool {
        let name = |id: ObjectId| (id.namespace, id.name);
        match event {
            MemberEvent::Listing => {
                self.listing = Some(BTreeMap::new());
                false
            }
            MemberEvent::Listed => {
                let Some(listing) = self.listing.take() else { return false };
                let news = !self.known || self.items != listing;
                (self.items, self.known) = (listing, true);
                news
            }
            MemberEvent::Object(object) => {
                let (name, item) = (name(ObjectId::of(&object)), trim(&object));
                match &mut self.listing {
                    Some(listing) => {
                        listing.insert(name, item);
                        false
                    }
                    None => self.items.insert(name, item.clone()) != Some(item),
                }
            }
            MemberEvent::Gone(id) => self.items.remove(&name(id)).is_some(),
        }
    }

    fn values(&self) -> Vec<T> {
        self.items.values().cloned().collect()
    }
}

impl View {
    /// For who watches the agent.
    fn count(&self, shown: Probe, counts: &Counts) {
        counts.ready.store(i64::from(shown == Probe::Ok), Ordering::Relaxed);
        let summary = json!(node_summary(&self.nodes.values()));
        let number = |field: &str| summary.get(field).and_then(Value::as_i64).unwrap_or_default();
        counts.nodes.store(number("totalNum"), Ordering::Relaxed);
        counts.ready_nodes.store(number("readyNum"), Ordering::Relaxed);
    }

    /// Answers a question, once nodes and Pods are known. Who asked may have given up.
    fn tell(&self, question: NodeQuestion) {
        if !(self.nodes.known && self.pods.known) {
            return;
        }
        match question {
            NodeQuestion::Room(RoomWanted { of, quotas, assumed }, answer) => {
                let (nodes, pods) = (self.nodes.values(), self.pods.values());
                let room = NodeRoom { nodes: &nodes, pods: &pods, quotas: &quotas, assumed: &assumed };
                let count = match &of {
                    Wanted::Replicas(requirements) => node_room::replicas(&room, requirements.as_ref()),
                    Wanted::Sets { namespace, components } => {
                        node_room::component_sets(&room, namespace, components)
                    }
                };
                let _ = answer.send(u32::try_from(count).unwrap_or_default());
            }
            NodeQuestion::Waiting(answer) => {
                let waiting = self.pods.items.values().filter(|pod| pod.waiting.is_some());
                let _ = answer.send(waiting.cloned().collect());
            }
        }
    }

    /// `Cluster.status`, free nodes counted by `models`; only the condition where the member does not answer.
    fn status(&self, shown: Probe, models: &[ResourceModel]) -> Value {
        if shown == Probe::Unreachable {
            return json!({"conditions": [ready_condition(shown)]});
        }
        let mut conditions =
            vec![ready_condition(shown), enablements_condition(&self.enablements, self.complete)];
        conditions.extend(self.service_names.map(service_names_condition));
        let mut status = json!({
            "kubernetesVersion": self.version,
            "apiEnablements": self.enablements,
            "conditions": conditions,
        });
        if self.nodes.known {
            let nodes = self.nodes.values();
            status["nodeSummary"] = json!(node_summary(&nodes));
            if self.pods.known {
                let summary = resource_summary(&nodes, &self.pods.values(), models);
                status["resourceSummary"] = json!(bounds::amounts(summary));
            }
        }
        status
    }
}

/// Reports the cluster's status until `stop`.
pub async fn run(
    shared: Arc<AgentState>,
    member: Arc<dyn Member>,
    options: StatusOptions,
    stop: CancellationToken,
) {
    let started = Instant::now();
    let (mut view, mut readiness) = (View::default(), Readiness::new(options.thresholds));
    let watched = |kind| match options.resource_modeling {
        true => watch(&member, kind, ""),
        false => futures::stream::pending().boxed(),
    };
    let (mut nodes, mut pods) = (watched("Node"), watched("Pod"));
    let mut next_look = Instant::now();
    let mut next_report = next_look;
    let mut shown = Probe::Ok;
    let mut models = shared.models.subscribe();
    let mut questions = shared.take_node_questions();
    let mut service_names = shared.service_names.subscribe();
    loop {
        if Instant::now() >= next_look {
            let begun = Instant::now();
            let probe = member.probe().await;
            shown = readiness.observe(probe, started.elapsed());
            if probe != Probe::Unreachable {
                look(&*member, &mut view).await;
            }
            shared.counts.status_synced.note(begun.elapsed());
            next_look = Instant::now() + options.frequency;
            next_report = Instant::now();
        }
        if Instant::now() >= next_report {
            view.count(shown, &shared.counts);
            view.service_names = *service_names.borrow_and_update();
            let status = view.status(shown, &models.borrow_and_update()).to_string();
            shared.report(|outbox| outbox.cluster(status.into()));
            next_report = next_look;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = nodes.next() => {
                if take(&mut view.nodes, event, NodeOffer::of, &mut nodes, || watch(&member, "Node", "")) {
                    next_report = next_report.min(Instant::now() + DEBOUNCE);
                }
            }
            event = pods.next() => {
                if take(&mut view.pods, event, PodUse::of, &mut pods, || watch(&member, "Pod", "")) {
                    next_report = next_report.min(Instant::now() + DEBOUNCE);
                }
            }
            Ok(()) = models.changed() => next_report = Instant::now(),
            Ok(()) = service_names.changed() => next_report = Instant::now(),
            Some(question) = asked(&mut questions) => view.tell(question),
            () = tokio::time::sleep_until(next_look.min(next_report)) => {}
        }
    }
}

/// The next question about nodes and Pods.
async fn asked(questions: &mut Option<mpsc::Receiver<NodeQuestion>>) -> Option<NodeQuestion> {
    questions.as_mut()?.recv().await
}

type Events = BoxStream<'static, Result<MemberEvent, MemberError>>;

fn watch(member: &Arc<dyn Member>, kind: &str, fields: &str) -> Events {
    let watch = Watch {
        gvk: Gvk::new("v1", kind),
        namespace: String::new(),
        labels: String::new(),
        fields: fields.to_owned(),
    };
    member.watch(watch)
}

/// Takes an event; a watch that ended is begun again after a pause.
fn take<T: Clone + PartialEq>(
    collected: &mut Collected<T>,
    event: Option<Result<MemberEvent, MemberError>>,
    trim: impl Fn(&Value) -> T,
    stream: &mut Events,
    again: impl Fn() -> Events,
) -> bool {
    match event {
        Some(Ok(event)) => collected.take(event, trim),
        Some(Err(error)) => {
            tracing::debug!(%error, "watching nodes and pods");
            false
        }
        None => {
            let pause = futures::stream::once(tokio::time::sleep(PAUSE)).filter_map(|()| async { None });
            *stream = pause.chain(again()).boxed();
            false
        }
    }
}

/// Asks the member for version and discovery.
async fn look(member: &dyn Member, view: &mut View) {
    if let Ok(version) = member.version().await {
        view.version = bounds::version(&version);
    }
    match member.api_enablements().await {
        Ok((enablements, complete)) => {
            let (enablements, is_whole) = bounds::enablements(enablements);
            (view.enablements, view.complete) = (enablements, complete && is_whole);
        }
        Err(error) => {
            tracing::debug!(%error, "discovery");
            view.complete = false;
        }
    }
}

#[cfg(test)]
mod tests;
