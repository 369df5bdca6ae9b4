//! The thin shell around a [`Session`]: one poll-style stream per agent, no task and no channel of its own, so
//! that an idle agent costs little more than its connection.
//!
//! In: the agent's frames, by any stream of them; events of its Works; orders by its handle. Out: frames to the agent, as often as
//! whoever carries them polls for one: each poll moves what has come in into the session and what the session wants out.

mod renewal;
mod report_writes;
mod retention;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, Stream};
use futures::{FutureExt, StreamExt};
use karmada_proto::digest::{Buckets, Content, Root, Seed};
use karmada_proto::last_read::LastRead;
use karmada_proto::quoted;
use karmada_proto::v1::{
    AgentFrame, AskHub, AskRefusalCode, HubFrame, RenewReply, Table, agent_frame, ask_hub, hub_answer,
};
use tokio::time::{Sleep, sleep_until};

use self::renewal::renew;
use self::report_writes::{weight, write};
use crate::fleet::{HoldView, Progress};
use crate::gateway::Gateway;
use crate::inbox::Report;
use crate::ports::{PortError, WorkEvent, WorkFeed};
use crate::session::{Effect, Session, SessionOrder, refusal, wanted_root};
use crate::session_handle::SessionHandle;

/// Frames and events taken in one poll before something is sent.
const BATCH: usize = 64;
/// Pause before a watch that failed is opened again.
const REOPEN: Duration = Duration::from_secs(1);

/// Where Works come from right now.
enum Feed {
    Open(BoxStream<'static, WorkEvent>),
    Opening(BoxFuture<'static, Result<WorkFeed, PortError>>),
}

type Write = BoxFuture<'static, (Report, Result<(), PortError>)>;

/// The answer to a question of the agent.
struct UnderWay {
    id: u64,
    /// What it takes in memory, in KiB.
    weight: u32,
    answer: BoxFuture<'static, hub_answer::Result>,
}

/// The Work that a report is about.
fn subject(frame: &AgentFrame) -> Option<&str> {
    use agent_frame::Body as B;
    match frame.body.as_ref()? {
        B::WorkStatus(status) => Some(&status.key),
        B::Removed(removed) => Some(&removed.key),
        B::Event(event) => Some(&event.key),
        _ => None,
    }
}

fn rows(statuses: &[(Arc<str>, Content)]) -> impl Iterator<Item = (&str, Content)> {
    statuses.iter().map(|(key, content)| (&**key, *content))
}

/// The frames to one agent, whose own come by `I`.
pub(crate) struct SessionStream<I> {
    gateway: Arc<Gateway>,
    handle: Arc<SessionHandle>,
    session: Session,
    /// What was told of the session last.
    told: Progress,
    inbound: I,
    feed: Feed,
    writes: FuturesUnordered<Write>,
    /// What the reports being written unpack to, in KiB.
    unpacked: u32,
    renewal: Option<BoxFuture<'static, RenewReply>>,
    /// Answers to the agent's questions that are under way: few, as the session bounds them.
    answers: Vec<UnderWay>,
    timer: Pin<Box<Sleep>>,
    /// When the connection last brought a byte.
    last_read: LastRead,
    /// The root of the statuses as the hub had them, and their version then.
    statuses: Option<(u64, Root)>,
    over: bool,
}

impl<I, E> SessionStream<I>
where
    I: Stream<Item = Result<AgentFrame, E>> + Unpin,
{
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        handle: Arc<SessionHandle>,
        session: Session,
        inbound: I,
        feed: WorkFeed,
    ) -> Self {
        let timer = Box::pin(sleep_until(gateway.instant(session.deadline())));
        let feed = Feed::Open(feed.events);
        let writes = FuturesUnordered::new();
        Self {
            gateway,
            handle,
            session,
            told: Progress::default(),
            inbound,
            feed,
            writes,
            unpacked: 0,
            renewal: None,
            answers: Vec::new(),
            timer,
            last_read: LastRead::default(),
            statuses: None,
            over: false,
        }
    }

    /// The same over a connection that tells when it brings bytes, on the gateway's clock.
    pub(crate) fn with_last_read(mut self, last_read: LastRead) -> Self {
        self.last_read = last_read;
        self
    }

    /// Takes what has come in. True where anything had.
    fn take_in(&mut self, cx: &mut Context<'_>, now: Duration) -> bool {
        let mut progress = false;
        while let Some(order) = self.handle.take_order() {
            self.session.obey(order, now);
            progress = true;
        }
        while self.session.listens()
            && let Some(ask) = self.handle.take_ask()
        {
            self.session.ask(ask);
            progress = true;
        }
        for _ in 0..BATCH {
            if !self.session.listens() {
                break;
            }
            match self.inbound.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(frame))) => self.frame(frame, now),
                Poll::Ready(Some(Err(_)) | None) => {
                    self.over = true;
                    return true;
                }
                Poll::Pending => break,
            }
            progress = true;
        }
        progress |= self.take_works(cx);
        progress |= self.take_outcomes(cx, now);
        if let Some(renewal) = &mut self.renewal
            && let Poll::Ready(reply) = renewal.poll_unpin(cx)
        {
            self.renewal = None;
            self.session.renewed(reply);
            progress = true;
        }
        progress |= self.take_answers(cx);
        self.session.heard_bytes(self.last_read.at());
        self.session.tick(now);
        progress
    }

    /// Takes what is there of the answers to the agent's questions.
    fn take_answers(&mut self, cx: &mut Context<'_>) -> bool {
        let (session, before) = (&mut self.session, self.answers.len());
        self.answers.retain_mut(|under_way| match under_way.answer.poll_unpin(cx) {
            Poll::Ready(result) => {
                session.answer_agent(under_way.id, result);
                false
            }
            Poll::Pending => true,
        });
        self.answers.len() != before
    }

    /// What speaks of a Work that is not this cluster's is not looked into.
    fn frame(&mut self, frame: AgentFrame, now: Duration) {
        let works = &self.gateway.ports.works;
        match subject(&frame) {
            Some(key) if !self.session.knows(key) && !works.holds(&self.handle.cluster, key) => {
                tracing::debug!(
                    cluster = self.handle.cluster,
                    kind = frame.kind,
                    "a report of no Work of this cluster"
                );
                self.session.stranger(frame, now);
            }
            _ => self.session.frame(frame, now),
        }
    }

    fn take_works(&mut self, cx: &mut Context<'_>) -> bool {
        let mut progress = false;
        for _ in 0..BATCH {
            if !self.session.takes_works(self.gateway.options.queue_limit) {
                break;
            }
            match &mut self.feed {
                Feed::Open(events) => match events.poll_next_unpin(cx) {
                    Poll::Ready(Some(event)) => self.session.work(event),
                    Poll::Ready(None) => self.reopen(self.session.resume_point(), Duration::ZERO),
                    Poll::Pending => break,
                },
                Feed::Opening(opening) => match opening.poll_unpin(cx) {
                    Poll::Ready(Ok(feed)) => {
                        if feed.full_listing {
                            self.session.listing_starts();
                        }
                        self.feed = Feed::Open(feed.events);
                    }
                    Poll::Ready(Err(error)) => {
                        tracing::warn!(cluster = self.handle.cluster, %error, "watching Works");
                        self.reopen(self.session.resume_point(), REOPEN);
                    }
                    Poll::Pending => break,
                },
            }
            progress = true;
        }
        progress
    }

    fn reopen(&mut self, resume: Option<u64>, after: Duration) {
        let works = self.gateway.ports.works.clone();
        let handle = self.handle.clone();
        self.feed = Feed::Opening(
            async move {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                works.watch(&handle.cluster, resume).await
            }
            .boxed(),
        );
    }

    fn take_outcomes(&mut self, cx: &mut Context<'_>, now: Duration) -> bool {
        let mut progress = false;
        while !self.writes.is_empty() {
            // Under the fence: what a replaced session has not handed to the store by now is never written.
            let writes = &mut self.writes;
            let Some(polled) = self.handle.unless_fenced(|| writes.poll_next_unpin(cx)) else {
                self.writes.clear();
                break;
            };
            let Poll::Ready(Some((report, outcome))) = polled else { break };
            self.unpacked -= weight(&report);
            if let (Report::Orphans(_), Ok(())) = (&report, &outcome) {
                self.let_go(now);
            }
            let again = match outcome {
                Ok(()) => false,
                Err(error) => {
                    let why = quoted(&error.message);
                    tracing::debug!(cluster = self.handle.cluster, %why, retriable = error.retriable, "writing a report");
                    if !error.retriable {
                        self.session.refuse(&why.to_string());
                    }
                    error.retriable
                }
            };
            self.session.report_done(report, again, now);
            progress = true;
        }
        progress
    }

    /// What a person decided before of what this site has as orphans: asked when a session begins, as the word may have been given while the
    /// link was down, and when the agent names some.
    pub(crate) fn let_go(&mut self, now: Duration) {
        let cluster = &self.handle.cluster;
        let mut decided = self.gateway.ports.statuses.orphans_decided(cluster);
        decided.retain(|(key, _)| !self.gateway.ports.works.holds(cluster, key));
        self.session.obey(SessionOrder::LetGo(decided), now);
    }

    /// What sessions are told of documents that are there already. The session can be found by now: who changes one tells it as well.
    pub(crate) fn tells_documents(&mut self, now: Duration) {
        for document in self.gateway.documents() {
            self.session.obey(SessionOrder::Tell(document), now);
        }
    }

    /// The Cluster does not say what its agent told: it is to tell that again.
    pub(crate) fn asks_for_cluster(&mut self, now: Duration) {
        self.session.obey(SessionOrder::AskCluster, now);
    }

    /// Starts what the session wants done. True where anything was started.
    fn put_out(&mut self, now: Duration) -> bool {
        let mut progress = false;
        while let Some(effect) = self.session.next_effect() {
            // Who was taken out changes nothing any more, not even what is known of the link.
            if self.gateway.fleet.is_current(&self.handle) {
                self.effect(effect, now);
            }
            progress = true;
        }
        while self.writes.len() < self.gateway.options.report_concurrency
            && self.unpacked < self.gateway.options.session_unpacked_kib
        {
            let Some(report) = self.session.next_report(now) else { break };
            let (gateway, handle) = (self.gateway.clone(), self.handle.clone());
            self.unpacked += weight(&report);
            self.writes.push(
                async move {
                    // Who was taken out has nothing more to say.
                    if !gateway.fleet.is_current(&handle) {
                        return (report, Ok(()));
                    }
                    let outcome = write(&gateway, &handle.cluster, report.clone()).await;
                    (report, outcome)
                }
                .boxed(),
            );
            progress = true;
        }
        let tells = self.session.progress();
        if tells != self.told {
            self.told = tells;
            self.gateway.fleet.progressed(&self.handle, tells);
        }
        progress
    }

    fn effect(&mut self, effect: Effect, now: Duration) {
        let cluster = &self.handle.cluster;
        match effect {
            Effect::Stands(is_late) => self.gateway.fleet.stands(&self.handle, is_late),
            Effect::Persisted(revision) => self.gateway.ports.statuses.persisted(cluster, revision),
            Effect::DeletesHeld(batch, count) => {
                self.gateway.fleet.held(cluster, HoldView { batch, deletes: count });
                self.gateway.ports.statuses.deletes_held(cluster, batch, count);
            }
            Effect::Refused(what) => tracing::warn!(cluster, what, "a report was refused"),
            Effect::Relist => self.reopen(None, Duration::ZERO),
            Effect::Root(Table::Works, seed) => {
                let root = wanted_root(&seed, &self.gateway.ports.works.all(cluster));
                self.session.root(Table::Works, root, now);
            }
            Effect::Root(Table::Statuses, seed) => {
                let root = self.statuses_root(&seed);
                self.session.root(Table::Statuses, root, now);
            }
            Effect::Root(Table::Customizations, _) => {}
            Effect::Sums(seed) => {
                let statuses = self.gateway.ports.statuses.statuses(cluster);
                self.session.sums(&Buckets::of(&seed, rows(&statuses)), now);
            }
            Effect::Answered(answer) => {
                if !self.handle.answered(answer) {
                    tracing::debug!(cluster, "an answer that nobody waits for");
                }
            }
            Effect::Renew(csr) => self.renew(csr),
            Effect::Asked(ask) => self.asked(ask),
        }
    }
}

impl<I> SessionStream<I> {
    /// The root of the statuses as the hub has them now. Worked out anew only where a Work changed since.
    fn statuses_root(&mut self, seed: &Seed) -> Root {
        let (cluster, port) = (&self.handle.cluster, &self.gateway.ports.statuses);
        let version = port.statuses_version(cluster);
        if let Some((known, root)) = self.statuses
            && version == Some(known)
        {
            return root;
        }
        let root = Root::of(seed, rows(&port.statuses(cluster)));
        self.statuses = version.map(|version| (version, root));
        root
    }

    /// Begins to answer the agent.
    fn asked(&mut self, ask: AskHub) {
        let Some(ask_hub::Question::RetentionOf(wanted)) = ask.question else { return };
        // One session alone does not take what is there for all.
        let weight = retention::weight(&wanted);
        let under_way: u32 = self.answers.iter().map(|answer| answer.weight).sum();
        if under_way > 0 && under_way + weight > self.gateway.options.session_unpacked_kib {
            let busy = refusal(AskRefusalCode::AskBusy, "too much is being asked for this cluster just now");
            return self.session.answer_agent(ask.id, busy);
        }
        let (gateway, handle) = (self.gateway.clone(), self.handle.clone());
        let answer = async move { retention::retained(&gateway, &handle.cluster, wanted).await };
        self.answers.push(UnderWay { id: ask.id, weight, answer: answer.boxed() });
    }

    /// One at a time, and at the pace of the cluster, over all of its sessions: each is a synced write, a certificate and a line of the
    /// audit log.
    fn renew(&mut self, csr: Bytes) {
        let refusal = if self.renewal.is_some() {
            "a certificate is being made already".to_owned()
        } else if let Err(after) = self.gateway.may_renew(&self.handle.cluster) {
            format!("too many certificates were asked for: ask again in {} s", after.as_secs() + 1)
        } else {
            let (gateway, handle) = (self.gateway.clone(), self.handle.clone());
            self.renewal = Some(async move { renew(&gateway, &handle, &csr).await }.boxed());
            return;
        };
        self.session.renewed(RenewReply { refusal, ..RenewReply::default() });
    }
}

impl<I, E> Stream for SessionStream<I>
where
    I: Stream<Item = Result<AgentFrame, E>> + Unpin,
{
    type Item = HubFrame;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HubFrame>> {
        let this = self.get_mut();
        this.handle.waker.register(cx.waker());
        loop {
            if this.over {
                return Poll::Ready(None);
            }
            let now = this.gateway.now();
            let mut progress = this.take_in(cx, now);
            progress |= this.put_out(now);
            let frame = this.session.next_frame();
            // What sending came to is done before anything is waited for.
            progress |= this.put_out(now);
            if let Some(frame) = frame {
                return Poll::Ready(Some(frame));
            }
            if this.session.finished() {
                this.over = true;
            } else if !progress {
                this.timer.as_mut().reset(this.gateway.instant(this.session.deadline()));
                if this.timer.as_mut().poll(cx).is_pending() {
                    this.session.rests();
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<I> Drop for SessionStream<I> {
    fn drop(&mut self) {
        self.gateway.fleet.leave(&self.handle);
        // A newcomer that waits for a sign of life must not wait for a session that is gone.
        self.handle.heard.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
