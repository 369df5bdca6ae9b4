//! What ends of earlier versions said, frame by frame as it was on the wire, against today's other end: an agent in the field is older than
//! its hub, or its hub was put back to an older one.
//!
//! Each file is three sessions: all Works are listed; one is changed and one deleted; the hub starts anew and compares. A version that speaks
//! otherwise than the one before writes one down, and it is kept: `RECORD_PAIR=FILE cargo test -p karmada-agent --test pair recorded`. With
//! `RECORD_LACKS=FEATURE` the agent lacks a feature: so was written what was said before differences were, which is the same byte by byte.

use std::collections::VecDeque;

use karmada_agent::session::Phase;
use karmada_gateway::inbox::Report;
use karmada_gateway::ports::WorkEvent;
use karmada_gateway::session::{Effect, wanted_root};
use karmada_proto::DELTAS;
use karmada_proto::digest::{Buckets, Root};
use karmada_proto::v1::{AgentFrame, HubFrame, Table, agent_frame, hub_frame};
use prost::Message;

use super::deltas::{LINK, deployment};
use super::machines::{Hub, HubEnd, Link, Site, agent_end, hub_end, session_over, wanted};

/// Of each version that spoke otherwise than the next one.
const RECORDED: [(&str, &str); 2] = [
    ("before deltas", include_str!("recorded/before-deltas.txt")),
    ("deltas", include_str!("recorded/deltas.txt")),
];
const SESSIONS: usize = 3;

/// What users do before a session.
fn step(hub: &mut Hub, session: usize) {
    match session {
        0 => {
            hub.epoch = 7;
            hub.put_json("changed", &deployment(2, "nginx:1.27", 0));
            hub.put_json("large", &deployment(1, "nginx:1.27", 6000));
            hub.put_json("deleted", &deployment(1, "nginx:1.27", 0));
        }
        1 => {
            hub.put_json("changed", &deployment(3, "nginx:1.29", 0));
            hub.delete("deleted");
        }
        _ => {
            hub.starts.push((2, hub.revision));
            hub.compact();
        }
    }
}

/// The frames of one end in one session.
fn frames<F: Message + Default>(text: &str, session: usize, end: &str) -> Vec<F> {
    let part = text.split("session\n").nth(session + 1).unwrap();
    let lines = part.lines().filter_map(|line| line.strip_prefix(end)?.strip_prefix(' '));
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes = lines.map(|hex| (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect::<Vec<u8>>());
    bytes.map(|bytes| F::decode(&*bytes).unwrap()).collect()
}

#[test]
fn what_is_recorded_is_written_on_request() {
    let Some(file) = std::env::var_os("RECORD_PAIR") else { return };
    let (mut hub, mut site, mut text) = (Hub::default(), Site::new(), String::new());
    for session in 0..SESSIONS {
        step(&mut hub, session);
        let lacks = std::env::var("RECORD_LACKS").into_iter().collect();
        let link = Link { records: true, lacks, ..LINK };
        text += "session\n";
        for (end, bytes) in session_over(&mut hub, &mut site, &link).record {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &format!("{end} {hex}\n");
        }
    }
    std::fs::write(file, text).unwrap();
}

#[test]
fn an_earlier_hubs_frames_lead_todays_agent_to_what_it_wants() {
    for (version, text) in RECORDED {
        let (mut hub, mut site) = (Hub::default(), Site::new());
        for session in 0..SESSIONS {
            step(&mut hub, session);
            hear(&mut site, &hub, frames(text, session, "hub"));
            hub.works.retain(|_, work| !work.deleting);
            let mut bodies = site.bodies();
            bodies.retain(|_, (phase, _)| *phase == Phase::Desired);
            assert_eq!(bodies, wanted(&hub), "{version}, session {session}");
        }
        assert!(!site.member.contains_key("deleted") && site.member.len() == 2);
    }
}

/// The agent takes the frames of one session, and has nothing to complain of.
fn hear(site: &mut Site, hub: &Hub, frames: Vec<HubFrame>) {
    let now = site.now;
    let mut agent = agent_end(site, hub);
    for frame in frames {
        agent.frame(frame, now);
        let base = agent.base_wanted().map(|(key, hash)| site.ledger.body(key, hash));
        if let Some(base) = base {
            agent.base(base.as_ref());
        }
        if agent.has_changes() {
            site.ledger.commit(&agent.take_changes()).unwrap();
            agent.committed(now);
            site.reconcile();
        }
        assert_eq!(agent.ended(), None);
        while let Some(said) = agent.next_frame(&mut site.outbox, now) {
            use agent_frame::Body as B;
            assert!(!matches!(said.body, Some(B::Want(_) | B::Nack(_) | B::Unsupported(_))), "{said:?}");
        }
    }
    site.unfinished = agent.into_parts().2;
}

#[test]
fn an_earlier_agents_frames_tell_todays_hub_all_that_it_did() {
    for (version, text) in RECORDED {
        let mut hub = Hub::default();
        for session in 0..SESSIONS {
            step(&mut hub, session);
            let mut frames: VecDeque<AgentFrame> = frames::<AgentFrame>(text, session, "agent").into();
            let sent = answer(&mut hub, &mut frames);
            assert_eq!(sent, [3, 1, 0][session], "bodies for {version}, session {session}");
        }
        assert_eq!(hub.works.keys().collect::<Vec<_>>(), ["changed", "large"], "{version}");
        assert!(hub.works.keys().all(|key| hub.statuses.contains_key(key)), "{version}");
    }
}

/// The hub answers the frames of one session, each after what it had to say itself; returns how many bodies it sent.
fn answer(hub: &mut Hub, frames: &mut VecDeque<AgentFrame>) -> usize {
    let now = std::time::Duration::from_secs(1);
    let Some(agent_frame::Body::Hello(hello)) = frames.pop_front().and_then(|frame| frame.body) else {
        panic!("no hello")
    };
    let takes_deltas = hello.features.iter().any(|feature| feature == DELTAS);
    let HubEnd { session: mut gateway, events, .. } = hub_end(hub, hello, now);
    let (mut feed, mut seen, mut sent): (VecDeque<WorkEvent>, _, _) = (events.into(), hub.history.len(), 0);
    loop {
        feed.drain(..).for_each(|event| gateway.work(event));
        while let Some(frame) = gateway.next_frame() {
            match frame.body {
                Some(hub_frame::Body::Upsert(upsert)) => {
                    assert!(takes_deltas || upsert.base.is_empty());
                    sent += usize::from(!upsert.offer);
                }
                Some(hub_frame::Body::Close(close)) => panic!("{close:?}"),
                _ => {}
            }
        }
        while let Some(effect) = gateway.next_effect() {
            match effect {
                Effect::Root(Table::Works, seed) => {
                    let works: Vec<_> = hub.works.values().cloned().collect();
                    gateway.root(Table::Works, wanted_root(&seed, &works), now);
                }
                Effect::Root(Table::Statuses, seed) => {
                    gateway.root(Table::Statuses, Root::of(&seed, hub.rows()), now);
                }
                Effect::Sums(seed) => gateway.sums(&Buckets::of(&seed, hub.rows()), now),
                _ => {}
            }
        }
        while let Some(report) = gateway.next_report(now) {
            match &report {
                Report::Finalize { key, uid, .. } => hub.finalize(key, uid),
                Report::Work(told, _) => hub.told(told),
                _ => {}
            }
            gateway.report_done(report, false, now);
        }
        feed.extend(hub.history[seen..].iter().cloned());
        seen = hub.history.len();
        match frames.pop_front() {
            Some(frame) => gateway.frame(frame, now),
            None if feed.is_empty() => break,
            None => {}
        }
    }
    assert_eq!(gateway.refused(), 0);
    sent
}
