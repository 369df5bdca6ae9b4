//! Version skew: agents, or a hub, of a version without some of the protocol's features. What stands between the two takes the names of
//! those out of the hello, so that the hub has such an agent before it and the agent is welcomed by such a hub; and it is a witness that
//! nothing is said to an agent that one of its version could not know.
//!
//! In: by site, the features that are missing; frames both ways. Out: the frames; what was said that should not have been.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use karmada_proto::v1::{AgentFrame, Encoding, HubFrame, agent_frame, hub_frame};
use karmada_proto::{ASK, DELTAS, DICTIONARY, DIGESTS, DOCUMENTS};
use parking_lot::Mutex;

use crate::log::Log;

#[derive(Default)]
struct State {
    missing: BTreeMap<String, BTreeSet<&'static str>>,
    wrong: Vec<String>,
}

/// Which versions speak with each other. Clones are the same.
#[derive(Clone)]
pub struct Skew {
    state: Arc<Mutex<State>>,
    log: Log,
}

impl Skew {
    /// All speak the same.
    pub fn new(log: Log) -> Self {
        Self { state: Arc::default(), log }
    }

    /// The sessions of `site` that begin from now on are without these features.
    pub fn set(&self, site: &str, missing: BTreeSet<&'static str>) {
        self.state.lock().missing.insert(site.to_owned(), missing);
    }

    /// What the sessions of `site` are without.
    pub fn missing(&self, site: &str) -> BTreeSet<&'static str> {
        self.state.lock().missing.get(site).cloned().unwrap_or_default()
    }

    /// What was said to an agent that does not know it, since this was asked.
    pub fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().wrong)
    }

    /// One session of `site`, which keeps the version that it begins with.
    pub fn session(&self, site: &str) -> Session {
        let missing = self.missing(site);
        Session { skew: self.clone(), site: site.to_owned(), missing, is_listed: AtomicBool::new(false) }
    }
}

/// One session.
pub struct Session {
    skew: Skew,
    site: String,
    missing: BTreeSet<&'static str>,
    is_listed: AtomicBool,
}

impl Session {
    /// What the agent says, as one of its version would.
    pub fn to_hub(&self, mut frame: AgentFrame) -> AgentFrame {
        if let Some(agent_frame::Body::Hello(hello)) = &mut frame.body {
            hello.features.retain(|feature| !self.missing.contains(feature.as_str()));
        }
        frame
    }

    /// What the hub says, which is looked at.
    pub fn to_agent(&self, frame: HubFrame) -> HubFrame {
        if matches!(frame.body, Some(hub_frame::Body::SnapshotStart(_)))
            && self.is_listed.swap(true, Ordering::Relaxed)
        {
            self.skew.log.line(format_args!("{} is listed anew within a session", self.site));
        }
        let needs = frame.body.as_ref().and_then(needed);
        if let Some(feature) = needs.filter(|feature| self.missing.contains(feature)) {
            let word = format!("{} was told what only agents with {feature} know", self.site);
            let mut state = self.skew.state.lock();
            if !state.wrong.contains(&word) {
                state.wrong.push(word);
            }
        }
        frame
    }
}

/// The feature that an agent must have to understand this.
fn needed(body: &hub_frame::Body) -> Option<&'static str> {
    use hub_frame::Body as B;
    match body {
        B::Compare(_) | B::Differing(_) | B::Lacking(_) => Some(DIGESTS),
        B::SnapshotStart(start) => start.differences.then_some(DIGESTS),
        B::Ask(_) => Some(ASK),
        B::Document(_) => Some(DOCUMENTS),
        B::Upsert(upsert) => match Encoding::try_from(upsert.encoding) {
            Ok(Encoding::ZstdDictionary) => Some(DICTIONARY),
            Ok(Encoding::ZstdOnBase) => Some(DELTAS),
            _ => None,
        },
        _ => None,
    }
}
