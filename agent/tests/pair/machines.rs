//! The two sessions wired together without IO: every frame is encoded and decoded on its way, and the link may
//! be cut after any frame.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use karmada_agent::ledger::Ledger;
use karmada_agent::outbox::{Outbox, WorkReport as Told};
use karmada_agent::session::{self as agent, Phase, Unfinished};
use karmada_certs::Authority;
use karmada_gateway::Options;
use karmada_gateway::inbox::Report;
use karmada_gateway::ports::{Batch, Former, Position, RestoreHold, Work, WorkEvent, WorkReport};
use karmada_gateway::session::{self as gateway, Opening, SessionHold};
use karmada_gateway::session::{Effect, SessionOrder};
use karmada_gateway::session_admission;
use karmada_proto::digest::{self, Buckets, Content, ReportedOutcome, Root, Seed};
use karmada_proto::keepalive::Cadence;
use karmada_proto::v1::{AgentFrame, Hello, HubFrame, Seen, Table, agent_frame};
use prost::Message;

/// A CA that is made when it is needed.
pub(crate) struct Ca(Authority);

impl Default for Ca {
    fn default() -> Self {
        Self(Authority::create(jiff::Timestamp::from_second(1_750_000_000).unwrap()).unwrap().0)
    }
}

impl std::ops::Deref for Ca {
    type Target = Authority;
    fn deref(&self) -> &Authority {
        &self.0
    }
}

/// A hub's Works with their history, and where it stands.
#[derive(Default)]
pub(crate) struct Hub {
    pub(crate) ca: Ca,
    /// The hub's starts after the first: id, and the revision that it found.
    pub(crate) starts: Vec<(u64, u64)>,
    pub(crate) epoch: u64,
    pub(crate) revision: u64,
    pub(crate) works: BTreeMap<String, Work>,
    pub(crate) history: Vec<WorkEvent>,
    pub(crate) kept_from: u64,
    /// What the site ever said that it holds and was not told of.
    pub(crate) orphans: BTreeSet<String>,
    /// What a person decided of those: names, and whether their objects stay.
    pub(crate) decided: Vec<(String, bool)>,
    /// How each Work stands, as its agent told it.
    pub(crate) statuses: BTreeMap<String, Content>,
    /// Whether deletes are held from a site that saw another life of the hub; not the subject of most tests.
    pub(crate) holds: bool,
    pub(crate) hold: Hold,
}

/// What the hub keeps of the deletes that it holds from the site.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hold {
    pub(crate) since: Option<RestoreHold>,
    /// A person was told of some.
    pub(crate) is_told: bool,
    pub(crate) is_confirmed: bool,
}

impl Hold {
    /// A person lets go what he was told of.
    pub(crate) fn confirm(&mut self) {
        self.is_confirmed |= self.is_told;
    }
}

impl Hub {
    /// A Work whose one object is this text.
    pub(crate) fn put(&mut self, key: &str, text: &str) {
        self.put_json(key, &format!("\"{text}\""));
    }

    /// A Work whose one object is this JSON.
    pub(crate) fn put_json(&mut self, key: &str, manifest: &str) {
        self.revision += 1;
        // Of its own in each life of the hub, as a random one is.
        let new = || format!("u{}-{}", self.timeline(), self.revision);
        let uid = self.works.get(key).map_or_else(new, |work| work.uid.to_string());
        let json = format!(
            r#"{{"metadata":{{"name":"{key}","uid":"{uid}"}},"spec":{{"workload":{{"manifests":[{manifest}]}}}}}}"#
        );
        let work = Work::from_json(self.revision, bytes::Bytes::from(json).into()).unwrap();
        let former = self.works.insert(key.to_owned(), work.clone());
        let former = former.map(|work| Former { revision: work.revision, body: work.body });
        self.history.push(WorkEvent::Upsert(Work { former, ..work }));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.revision += 1;
        if let Some(work) = self.works.get_mut(key) {
            (work.deleting, work.revision) = (true, self.revision);
            self.history.push(WorkEvent::Upsert(work.clone()));
        }
    }

    pub(crate) fn finalize(&mut self, key: &str, uid: &str) {
        let due = self.works.get(key).is_some_and(|work| work.deleting && *work.uid == *uid);
        if due && let Some(work) = self.works.remove(key) {
            self.revision += 1;
            let (key, uid, revision) = (work.key, work.uid, self.revision);
            self.history.push(WorkEvent::Deleted { key, uid, revision, preserve: false });
        }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, Content)> {
        let of = |(key, work): (&String, &Work)| match self.statuses.get(key) {
            Some(content) => Some(*content),
            None => work.deleting.then_some([0; 16]),
        };
        self.works.iter().filter_map(move |(key, work)| Some((key.as_str(), of((key, work))?)))
    }

    pub(crate) fn told(&mut self, report: &WorkReport) {
        let WorkReport { uid, generation, .. } = report;
        let hash = report.hash.as_deref().unwrap_or_default();
        let fares = ReportedOutcome { uid, hash, generation: *generation, applied: None, statuses: None };
        if self.works.get(&report.key).is_some_and(|work| *work.uid == **uid) {
            self.statuses.insert(report.key.clone(), digest::status_row(fares));
        }
    }

    fn since(&self, resume: Option<u64>) -> (bool, Vec<WorkEvent>) {
        let after = |event: &&WorkEvent, revision: u64| match event {
            WorkEvent::Upsert(work) => work.revision > revision,
            WorkEvent::Deleted { revision: at, .. } | WorkEvent::Synced { revision: at } => *at > revision,
        };
        match resume.filter(|revision| *revision >= self.kept_from) {
            Some(revision) => (false, self.history.iter().filter(|e| after(e, revision)).cloned().collect()),
            None => {
                let mut events: Vec<_> = self.works.values().cloned().map(WorkEvent::Upsert).collect();
                events.push(WorkEvent::Synced { revision: self.revision });
                (true, events)
            }
        }
    }

    /// Old history is no longer kept.
    pub(crate) fn compact(&mut self) {
        self.kept_from = self.revision;
    }

    /// What is held from a site that says `hello`, and whether that is for lives of the hub for which nothing was held yet.
    fn holding(&mut self, hello: &Hello) -> (bool, Option<SessionHold>) {
        let now = Batch { epoch: self.epoch, revision: self.revision, timeline: self.timeline() };
        let others = self.other_lives(hello);
        let held = self.hold.since.as_ref();
        let waits = held.is_some() && !self.hold.is_confirmed;
        let anew = session_admission::saw_another_life(hello, self.epoch, &others, held, waits);
        if self.holds && anew {
            self.hold = Hold { since: Some(RestoreHold { batch: now, lives: others }), ..Hold::default() };
        }
        let passed = if self.hold.is_confirmed { SessionHold::ALL } else { 0 };
        let held = self.hold.since.as_ref().map(|held| held.batch);
        (anew, held.map(|held| SessionHold { held, start: now.timeline, passed }))
    }

    /// What the site was told that is none of this hub's past.
    fn other_lives(&self, hello: &Hello) -> Vec<Seen> {
        session_admission::lives(hello)
            .filter(|life| !self.in_our_past(life.timeline, life.revision))
            .collect()
    }

    fn timeline(&self) -> u64 {
        self.starts.last().map_or(1, |start| start.0)
    }

    fn in_our_past(&self, timeline: u64, cursor: u64) -> bool {
        let all: Vec<(u64, u64)> = [(1, 0)].into_iter().chain(self.starts.iter().copied()).collect();
        let at = all.iter().position(|start| start.0 == timeline);
        at.is_some_and(|at| cursor <= all.get(at + 1).map_or(self.revision, |next| next.1))
    }

    /// A backup that is taken while the hub runs.
    pub(crate) fn backup(&self) -> (u64, BTreeMap<String, Work>) {
        (self.revision, self.works.clone())
    }

    /// A backup is put back, under the epoch that it had; `start` is the hub's next start.
    pub(crate) fn restore(&mut self, backup: (u64, BTreeMap<String, Work>), start: u64) {
        self.starts.push((start, backup.0));
        (self.revision, self.works) = backup;
        self.history.clear();
        self.kept_from = self.revision;
    }
}

/// The agent's side that outlives a session.
pub(crate) struct Site {
    pub(crate) ledger: Ledger,
    pub(crate) outbox: Outbox,
    pub(crate) unfinished: Unfinished,
    told: BTreeSet<String>,
    pub(crate) now: Duration,
    /// What is in the member: the Work's uid and body, by key. No ledger's loss touches it.
    pub(crate) member: BTreeMap<String, (String, String)>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            member: BTreeMap::new(),
            ledger: Ledger::in_memory().unwrap(),
            outbox: Outbox::default(),
            unfinished: Unfinished::default(),
            told: BTreeSet::new(),
            now: Duration::from_secs(1),
        }
    }

    pub(crate) fn bodies(&self) -> BTreeMap<String, (Phase, String)> {
        let mut bodies = BTreeMap::new();
        for key in self.ledger.keys().unwrap() {
            let entry = self.ledger.entry(&key).unwrap().unwrap();
            bodies.insert(key, (entry.phase, String::from_utf8(entry.body.to_vec()).unwrap()));
        }
        bodies
    }

    /// The agent's process begins anew on another ledger, over the same member.
    pub(crate) fn starts_over(&mut self, ledger: Ledger) {
        let member = std::mem::take(&mut self.member);
        *self = Self { ledger, member, ..Self::new() };
        self.reconcile();
    }

    /// What the reconciler would do: places what is desired, removes what is to be removed.
    pub(crate) fn reconcile(&mut self) {
        let held = self.ledger.held().unwrap();
        for key in std::mem::take(&mut self.told) {
            if !held.contains_key(&key) {
                self.outbox.forget(&key);
            }
        }
        for (key, held) in held {
            self.told.insert(key.clone());
            if held.phase != Phase::Desired {
                self.member.remove(&key);
                self.ledger.removed(std::slice::from_ref(&key)).unwrap();
                self.outbox.removed(&key, &held.uid, held.revision, Vec::new());
            } else {
                let entry = self.ledger.entry(&key).unwrap().unwrap();
                let body = String::from_utf8(entry.body.to_vec()).unwrap();
                self.member.insert(key.clone(), (held.uid.clone(), body));
                let report =
                    Told { uid: held.uid, revision: held.revision, hash: held.hash, ..Told::default() };
                self.outbox.work(&key, report);
            }
        }
    }
}

/// What passed in one session.
#[derive(Default)]
pub(crate) struct Passed {
    pub(crate) bodies: usize,
    /// Those of them that were told by what differs, and how many bodies were wanted.
    pub(crate) deltas: usize,
    /// Bytes of the frames with bodies.
    pub(crate) body_bytes: usize,
    pub(crate) wants: usize,
    pub(crate) offers: usize,
    pub(crate) bytes: usize,
    pub(crate) frames: usize,
    /// Bytes of the agent's frames, and how many of these were statuses.
    pub(crate) up: usize,
    pub(crate) statuses: usize,
    /// Listings that the hub began because the roots differed, or the agent wanted what was not at hand; and how many of them when all had
    /// been quiet before.
    pub(crate) listings: usize,
    pub(crate) found_late: usize,
    /// The hub took the site for one that saw a life of it that was taken back.
    pub(crate) another_life: bool,
    /// The hub gave up on an agent whose answers were lost again and again.
    pub(crate) closed: bool,
    /// Each frame, where that is asked for: which end said it, and its bytes.
    pub(crate) record: Vec<(&'static str, Vec<u8>)>,
}

const SEED: Seed = Seed::new([5; 16]);

/// What a link does to a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    /// It is cut after so many frames of the hub.
    pub(crate) budget: Option<usize>,
    /// Of the hub's and of the agent's frames those that are lost on their way, though the link goes on.
    pub(crate) lost: (BTreeSet<usize>, BTreeSet<usize>),
    /// Of the hub's frames those in whose body a bit is another one when they arrive, and in which byte of it.
    pub(crate) spoilt: BTreeMap<usize, usize>,
    /// After these frames of the hub, and before the site has written what they bring, users write: a Work's name and object.
    pub(crate) meanwhile: BTreeMap<usize, (String, String)>,
    /// So many pings of the agent are waited for, once all is quiet.
    pub(crate) pings: u32,
    /// Features that the agent does not know.
    pub(crate) lacks: Vec<String>,
    /// What passes is written down.
    pub(crate) records: bool,
}

/// The hub's end of a session that was just opened.
pub(crate) struct HubEnd {
    pub(crate) session: gateway::Session,
    /// The Works that it is told first.
    pub(crate) events: Vec<WorkEvent>,
    another_life: bool,
}

/// Opens it for `hello`.
pub(crate) fn hub_end(hub: &mut Hub, hello: Hello, now: Duration) -> HubEnd {
    let position = Position { epoch: hub.epoch, revision: hub.revision, timeline: hub.timeline() };
    let sealed = hub.ca.seal_keys().verify(hello.epoch, &hello.epoch_seal);
    if session_admission::ahead(&hello, position, sealed) {
        hub.epoch = hello.epoch + 1;
    }
    let in_our_past = hub.in_our_past(hello.timeline, hello.cursor) && hub.other_lives(&hello).is_empty();
    let (another_life, holding) = hub.holding(&hello);
    let resume = session_admission::resume(&hello, hub.epoch, in_our_past).filter(|_| holding.is_none());
    let (full, events) = hub.since(resume);
    let opening = Opening {
        trust_revision: 0,
        protocol: session_admission::check("m", &hello).unwrap(),
        session_seq: 1,
        epoch: hub.epoch,
        epoch_seal: hub.ca.seal_epoch(hub.epoch).unwrap().into(),
        timeline: hub.timeline(),
        resumed: resume.filter(|_| !full),
        of_our_history: resume.is_some(),
        restore_hold: holding,
        retry_hint: Duration::ZERO,
        hub_clock_ms: 0,
    };
    let session = gateway::Session::open(hello, &opening, &Options::default(), now);
    HubEnd { session, events, another_life }
}

/// Opens the agent's end of a session; the hello is the first frame that it says.
pub(crate) fn agent_end(site: &mut Site, hub: &Hub) -> agent::Session {
    site.outbox.session_begins(SEED);
    let (epoch, cursor) = site.ledger.position().unwrap();
    let opening = agent::Opening {
        cluster_name: "m".into(),
        boot_id: "b".into(),
        epoch,
        cursor,
        timeline: site.ledger.timeline().unwrap(),
        former_cursor: site.ledger.former_cursor().unwrap(),
        seen: site.ledger.seen().unwrap(),
        epoch_seal: site.ledger.epoch_seal().unwrap(),
        seal_keys: hub.ca.seal_keys(),
        seed: SEED,
        status_root: site.outbox.told_root(),
        ..agent::Opening::default()
    };
    let held = site.ledger.held().unwrap();
    agent::Session::open(opening, held, std::mem::take(&mut site.unfinished), Cadence::default(), site.now)
}

/// One session from hello to quiet, or to a cut after `budget` frames from the hub.
pub(crate) fn session(hub: &mut Hub, site: &mut Site, budget: usize) -> Passed {
    session_over(hub, site, &Link { budget: Some(budget), ..Link::default() })
}

/// The same over any link.
pub(crate) fn session_over(hub: &mut Hub, site: &mut Site, link: &Link) -> Passed {
    let (budget, mut pings) = (link.budget.unwrap_or(usize::MAX), link.pings);
    let loses = !link.lost.0.is_empty() || !link.lost.1.is_empty() || !link.spoilt.is_empty();
    let mut now = site.now;
    let mut agent = agent_end(site, hub);
    let mut hello = match over_the_wire(&agent.next_frame(&mut site.outbox, now).unwrap()).body {
        Some(agent_frame::Body::Hello(hello)) => hello,
        other => panic!("{other:?}"),
    };
    hello.features.retain(|feature| !link.lacks.contains(feature));
    let hello_said = karmada_proto::frame::agent(agent_frame::Body::Hello(hello.clone())).encode_to_vec();
    let HubEnd { session: mut gateway, events, another_life } = hub_end(hub, hello, now);
    let mut seen = hub.history.len();
    let mut feed: VecDeque<WorkEvent> = events.into();
    let mut passed = Passed { another_life, ..Passed::default() };
    passed.record.extend(link.records.then_some(("agent", hello_said)));
    let mut said = 0;
    loop {
        let mut quiet = true;
        while let Some(event) = feed.pop_front() {
            gateway.work(event);
        }
        while let Some(frame) = gateway.next_frame() {
            quiet = false;
            passed.frames += 1;
            passed.bytes += frame.encoded_len();
            passed.record.extend(link.records.then(|| ("hub", frame.encode_to_vec())));
            if let Some(karmada_proto::v1::hub_frame::Body::Upsert(upsert)) = &frame.body {
                passed.offers += usize::from(upsert.offer);
                passed.bodies += usize::from(!upsert.offer && upsert.offset == 0);
                passed.body_bytes += if upsert.offer { 0 } else { frame.encoded_len() };
                passed.deltas += usize::from(!upsert.base.is_empty() && upsert.offset == 0);
            }
            assert!(passed.frames < 20_000, "it goes round in circles");
            if passed.frames > budget {
                // Cut: what was on its way is lost, and so is what was not committed, which may be all or nothing of what came.
                if budget % 2 == 1 {
                    site.ledger.commit(&agent.take_changes()).unwrap();
                    site.reconcile();
                }
                let (_, _, unfinished) = agent.into_parts();
                site.unfinished = unfinished;
                return passed;
            }
            let mut frame = HubFrame::decode(&*frame.encode_to_vec()).unwrap();
            if link.lost.0.contains(&passed.frames) {
                continue;
            }
            if let Some(at) = link.spoilt.get(&passed.frames) {
                spoil(&mut frame, *at);
            }
            agent.frame(frame, now);
            let base = agent.base_wanted().map(|(key, hash)| site.ledger.body(key, hash));
            if let Some(base) = base {
                agent.base(base.as_ref());
            }
            if let Some((key, object)) = link.meanwhile.get(&passed.frames)
                && !hub.works.get(key).is_some_and(|work| work.deleting)
            {
                hub.put_json(key, object);
                hub.history[seen..].iter().cloned().for_each(|event| gateway.work(event));
                seen = hub.history.len();
            }
            passed.closed = agent.ended().is_some();
            assert!(!passed.closed || loses, "{:?}", agent.ended());
            if passed.closed {
                site.ledger.commit(&agent.take_changes()).unwrap();
                site.reconcile();
                (_, _, site.unfinished) = agent.into_parts();
                return passed;
            }
        }
        if agent.has_changes() {
            quiet = false;
            site.ledger.commit(&agent.take_changes()).unwrap();
            agent.committed(now);
            site.reconcile();
        }
        while let Some(frame) = agent.next_frame(&mut site.outbox, now) {
            quiet = false;
            said += 1;
            passed.record.extend(link.records.then(|| ("agent", frame.encode_to_vec())));
            let frame = over_the_wire(&frame);
            passed.up += frame.encoded_len();
            passed.statuses += usize::from(matches!(frame.body, Some(agent_frame::Body::WorkStatus(_))));
            passed.wants += usize::from(matches!(frame.body, Some(agent_frame::Body::Want(_))));
            if link.lost.1.contains(&said) {
                continue;
            }
            let subject = match &frame.body {
                Some(agent_frame::Body::Removed(removed)) => Some(&removed.key),
                Some(agent_frame::Body::WorkStatus(status)) => Some(&status.key),
                _ => None,
            };
            // The shell asks the store first.
            if subject.is_some_and(|key| !gateway.knows(key) && !hub.works.contains_key(key)) {
                gateway.stranger(frame, now);
            } else {
                gateway.frame(frame, now);
            }
        }
        while let Some(effect) = gateway.next_effect() {
            quiet = false;
            match effect {
                Effect::Relist => {
                    assert!(pings < link.pings || loses, "nothing was lost");
                    passed.listings += 1;
                    passed.found_late += usize::from(pings < link.pings);
                    gateway.listing_starts();
                    feed.extend(hub.since(None).1);
                    seen = hub.history.len();
                }
                Effect::DeletesHeld(..) => hub.hold.is_told = true,
                Effect::Root(Table::Works, seed) => {
                    let works: Vec<Work> = hub.works.values().cloned().collect();
                    gateway.root(Table::Works, gateway::wanted_root(&seed, &works), now);
                }
                Effect::Root(Table::Statuses, seed) => {
                    gateway.root(Table::Statuses, Root::of(&seed, hub.rows()), now);
                }
                Effect::Sums(seed) => gateway.sums(&Buckets::of(&seed, hub.rows()), now),
                _ => {}
            }
        }
        while let Some(report) = gateway.next_report(now) {
            quiet = false;
            if let Report::Finalize { key, uid, .. } = &report {
                hub.finalize(key, uid);
            }
            if let Report::Work(told, _) = &report {
                hub.told(told);
            }
            if let Report::HoldEnds(held) = &report {
                assert_eq!(hub.hold.since.as_ref().map(|stands| stands.batch), Some(*held));
                hub.hold = Hold::default();
            }
            if let Report::Orphans(keys) = &report {
                hub.orphans.extend(keys.iter().cloned());
                gateway.obey(SessionOrder::LetGo(hub.decided.clone()), now);
            }
            gateway.report_done(report, false, now);
        }
        feed.extend(hub.history[seen.min(hub.history.len())..].iter().cloned());
        seen = hub.history.len();
        if quiet && feed.is_empty() && pings > 0 {
            // Both ends look at the clock when they want to; the hub's bytes keep the agent from taking it for dead.
            pings -= 1;
            for _ in 0..70 {
                site.now += Duration::from_secs(1);
                now = site.now;
                agent.heard_bytes(now);
                agent.tick(now);
                gateway.heard_bytes(now);
                gateway.tick(now);
            }
            continue;
        }
        if quiet && feed.is_empty() {
            let (_, cursor, unfinished) = agent.into_parts();
            site.unfinished = unfinished;
            site.ledger.commit(&cursor).unwrap();
            return passed;
        }
    }
}

/// A bit of a body is another one.
fn spoil(frame: &mut HubFrame, at: usize) {
    if let Some(karmada_proto::v1::hub_frame::Body::Upsert(upsert)) = &mut frame.body
        && !upsert.chunk.is_empty()
    {
        let mut chunk = upsert.chunk.to_vec();
        let at = at % chunk.len();
        chunk[at] ^= 4;
        upsert.chunk = chunk.into();
    }
}

fn over_the_wire(frame: &AgentFrame) -> AgentFrame {
    AgentFrame::decode(&*frame.encode_to_vec()).unwrap()
}

/// What the site should hold, once all is quiet.
pub(crate) fn wanted(hub: &Hub) -> BTreeMap<String, (Phase, String)> {
    let body = |work: &Work| {
        let json: serde_json::Value = serde_json::from_slice(&work.body.json()).unwrap();
        serde_json::json!({"manifests": json["spec"]["workload"]["manifests"]}).to_string()
    };
    hub.works.values().map(|work| (work.key.to_string(), (Phase::Desired, body(work)))).collect()
}

pub(crate) fn noise(len: usize) -> String {
    let mut state = 9u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 40) % 26) as u8)
    };
    (0..len).map(step).collect()
}
