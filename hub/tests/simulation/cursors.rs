//! What a ledger tells of itself holds at any time, and not only in the end: all that lies before its cursor is in it, what it acknowledged
//! outlives the end of its process, no life of a Work that was told as removed comes back, and what the hub says to be applied is there.
//!
//! In: the hub's Works and what each ledger holds, after each write of a ledger. Out: what is wrong, in words.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use karmada_agent::ledger::Ledger;
use karmada_agent::session::{HeldWork, Phase};
use karmada_api::names::execution_namespace;
use karmada_definitions::resource::StorageId;
use karmada_gateway::body_hash;
use karmada_gateway::ports::{ClusterIncarnation, CursorOrigin, Registrar as _, SessionStore as _, Work};
use karmada_proto::digest::{self, Content, WorkHeader};
use karmada_registry::Registry;
use karmada_schema::object::Stored;
use serde::Deserialize;

use crate::hub::Running;
use crate::world::{Place, World};

/// A Work of the hub's, as a ledger that knows of it has it.
pub struct Wanted {
    uid: String,
    revision: u64,
    is_deleting: bool,
    /// Whether the hub says that this very body is applied.
    is_told_applied: bool,
    hash: Bytes,
    content: Content,
    /// What `hash` and `content` were worked out from.
    version: (i64, u64),
}

/// The hub's Works by site and name, each read again only where it changed.
#[derive(Default)]
pub struct Wants {
    hub_returns: u64,
    rows: BTreeMap<(String, String), Arc<Wanted>>,
}

/// Works by name.
type Rows = BTreeMap<String, Arc<Wanted>>;

/// When a site was looked at last: writes of its ledger, lives of both ends, the newest revision of a Work.
pub type Look = (u64, u64, u64, u64);

#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    status: Conditions,
}

#[derive(Deserialize, Default)]
struct Conditions {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    r#type: String,
    status: String,
    #[serde(default)]
    observed_generation: i64,
}

impl Wanted {
    fn of(stored: &Stored, before: Option<&Wanted>) -> Option<Self> {
        let json = stored.json();
        let version = (stored.generation, stored.metadata_digest);
        let same = |before: &&Wanted| {
            (before.version, &*before.uid, before.is_deleting) == (version, stored.uid(), stored.deleting)
        };
        let (hash, content) = match before.filter(same) {
            Some(before) => (before.hash.clone(), before.content),
            None => content_of(stored.revision, &json)?,
        };
        let Reported { status } = serde_json::from_slice(&json).ok()?;
        let is_told_applied = status.conditions.iter().any(|condition| {
            condition.r#type == "Applied"
                && condition.status == "True"
                && condition.observed_generation == stored.generation
        });
        let (uid, revision, is_deleting) = (stored.uid().to_owned(), stored.revision, stored.deleting);
        Some(Self { uid, revision, is_deleting, is_told_applied, hash, content, version })
    }

    /// Whether this row of a ledger is what the hub says.
    fn is(&self, held: Option<&HeldWork>) -> bool {
        held.is_some_and(|held| held.uid == self.uid && held.content == self.content)
    }
}

fn content_of(revision: u64, json: &Bytes) -> Option<(Bytes, Content)> {
    let work = Work::from_json(revision, json.clone().into()).ok()?;
    let hash = body_hash(json)?;
    let Work { ref uid, suspended, preserve, generation, ref retry, .. } = work;
    let content = if work.deleting {
        digest::deleting(uid, preserve, retry)
    } else {
        digest::work_row(WorkHeader { uid, suspended, preserve, generation, retry }, &hash)
    };
    Some((hash, content))
}

fn stored(registry: &Registry, site: &str) -> Vec<Arc<Stored>> {
    let resource_cache = registry.cache().of_resource(&StorageId("work.karmada.io/works".into()));
    resource_cache.snapshot(&execution_namespace(site)).items
}

impl Wants {
    /// The Works of `site` as they are now, the hub having been put back so often.
    fn of(&mut self, site: &str, all: &[Arc<Stored>], hub_returns: u64) -> Rows {
        // Generations of another life of the hub are of other bodies.
        if std::mem::replace(&mut self.hub_returns, hub_returns) != hub_returns {
            self.rows.clear();
        }
        let mut wanted = BTreeMap::new();
        for work in all {
            let key = (site.to_owned(), work.key.name.to_string());
            let before = self.rows.get(&key);
            let row = match before.filter(|row| row.revision == work.revision) {
                Some(row) => row.clone(),
                None => match Wanted::of(work, before.map(|row| &**row)) {
                    Some(row) => Arc::new(row),
                    None => continue,
                },
            };
            wanted.insert(key.1.clone(), row.clone());
            self.rows.insert(key, row);
        }
        wanted
    }
}

/// The cursor of a ledger, where it is a place in the history that the hub has, and so is all that the ledger holds beyond it.
fn cursor_of(running: &Running, site: &str, ledger: &Ledger) -> Option<u64> {
    let uid = running.registrar.uid_of(site);
    let whose = ClusterIncarnation { cluster: site, uid: &uid };
    let is_ours =
        |timeline, revision| running.sessions.told(whose, timeline, revision) == CursorOrigin::ThisCluster;
    let (_, cursor) = ledger.position().ok().filter(|(_, cursor)| *cursor > 0)?;
    let seen = ledger.seen().ok()?;
    let is_known = is_ours(ledger.timeline().ok()?, cursor)
        && seen.iter().all(|seen| is_ours(seen.timeline, seen.revision));
    is_known.then_some(cursor)
}

impl Place {
    /// The names of `wanted` up to `revision` that the ledger does not hold as the hub says. What a flipped bit hit is not the ledger's fault.
    fn lacks<'a>(
        &'a self,
        wanted: &'a Rows,
        held: &'a BTreeMap<String, HeldWork>,
        revision: u64,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Wanted>)> {
        let is_lacking = move |(name, work): &(&String, &Arc<Wanted>)| {
            work.revision <= revision && !self.flipped.contains(*name) && !work.is(held.get(*name))
        };
        wanted.iter().filter(is_lacking)
    }

    /// What is wrong with what the ledger `held`, whose cursor is `cursor`.
    fn misstates(
        &self,
        wanted: &Rows,
        held: &BTreeMap<String, HeldWork>,
        cursor: Option<u64>,
    ) -> Vec<String> {
        let site = &self.agent.name;
        let mut wrong = Vec::new();
        for (name, work) in cursor.into_iter().flat_map(|cursor| self.lacks(wanted, held, cursor)) {
            wrong.push(format!("the cursor of {site} is past {}, and {name} is not held so", work.revision));
        }
        // A listing from which deletes are held back is acknowledged without them.
        let acked = self.acked.map_or(0, |(_, acked)| acked);
        for (name, _) in self.lacks(wanted, held, acked).filter(|(_, work)| !work.is_deleting) {
            wrong.push(format!("{site} acknowledged {name}, and does not hold it"));
        }
        let is_back = |(name, held): &(&String, &HeldWork)| {
            held.phase == Phase::Desired && self.gone.contains(&((*name).clone(), held.uid.clone()))
        };
        for (name, _) in held.iter().filter(is_back) {
            wrong.push(format!("{site} told that {name} is removed, and holds it as desired"));
        }
        // What a full disk kept from the ledger, the hub heard of all the same.
        if !self.was_taken_back && !self.had_full_disk {
            for (name, work) in wanted.iter().filter(|(_, work)| work.is_told_applied && !work.is_deleting) {
                if !held.get(name).is_some_and(|held| held.uid == work.uid && held.hash == work.hash) {
                    wrong.push(format!("{name} is told to be applied, and {site} does not hold that body"));
                }
            }
        }
        wrong
    }

    /// Notes up to where this agent, which is the only one of its identity, acknowledged in this life of the hub.
    fn note_acked(&mut self, running: &Running, life: u64) {
        self.acked = self.acked.filter(|(of, _)| *of == life);
        let session = running.gateway.fleet().link(&self.agent.name).session;
        let is_its_own = !self.had_clone && self.elsewhere.is_none();
        if let Some(session) = session.filter(|session| is_its_own && session.seq > self.acks_from) {
            let before = self.acked.map_or(0, |(_, acked)| acked);
            self.acked = Some((life, session.progress.acked.max(before)));
        }
    }
}

impl World {
    /// Looks at the ledgers that have changed, or the hub's Works of whose sites have.
    pub fn judge_ledgers(&mut self) {
        let Some(running) = &self.hub.running else { return };
        for place in &mut self.places {
            place.note_acked(running, self.hub.life);
            let site = place.agent.name.clone();
            let Some(ledger) = place.agent.ledger() else { continue };
            let all = stored(&running.registry, &site);
            let newest = all.iter().map(|work| work.revision).max().unwrap_or_default();
            let look = (place.agent.camera.writes(), place.agent.life, self.hub.life, newest);
            if place.looked == look {
                continue;
            }
            let Ok(held) = ledger.held() else { continue };
            let cursor = cursor_of(running, &site, ledger);
            place.looked = look;
            let wanted = self.wants.of(&site, &all, self.hub_returns);
            for word in place.misstates(&wanted, &held, cursor) {
                if !self.wrong.contains(&word) {
                    self.log.line(&word);
                    self.wrong.push(word);
                }
            }
        }
    }

    /// What a site had is taken back: from here on it may know less than it said.
    pub fn is_taken_back(&mut self, at: usize) {
        let revision = self.hub.revision();
        let place = &mut self.places[at];
        place.was_taken_back = true;
        (place.acked, place.acks_from) = (None, revision);
        place.gone.clear();
    }
}
