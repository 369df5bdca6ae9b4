//! The world is looked at: all the time for what must never be, and in the end for what must have come of it.
//!
//! In: the world. Out: what is wrong, in words. Here is also the person who decides what the fleet waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karmada_agent::LinkView;
use karmada_api::object;
use karmada_api::strings::annotations;
use karmada_gateway::ports::Batch;
use serde_json::Value;
use tokio::time::Instant;

use crate::hub::Running;
use crate::invariants::{self, managed};
use crate::users::{self, cluster, is_deleting, lives, works};
use crate::world::{Leaving, World};

/// After everything is mended, this is enough, whatever happened.
const ENOUGH: Duration = Duration::from_secs(3 * 3600);

impl World {
    /// What must never be.
    pub fn look(&mut self) {
        self.judge_deletions();
        self.judge_removals();
        self.judge_ledgers();
        self.wrong.extend(self.hub.skew.take_wrong());
        for place in &self.places {
            self.wrong.extend(place.agent.site.take_wrong());
        }
    }

    fn judge_deletions(&mut self) {
        for place in &mut self.places {
            let new = place.agent.site.take_deletions();
            for deletion in &new {
                if place.held.contains(&deletion.work) {
                    let word = format!(
                        "{} of {} was deleted at {} before a person let it go",
                        deletion.id, deletion.work, place.agent.name
                    );
                    self.wrong.push(word);
                }
            }
            if new.is_empty() {
                continue;
            }
            place.deletions.extend(new);
            let undue =
                invariants::undue(&place.agent.name, &place.deletions, &self.users.asked, &place.returns);
            for word in undue {
                if !self.wrong.contains(&word) {
                    self.log.line(&word);
                    self.wrong.push(word);
                }
            }
            if let Some(elsewhere) = &place.elsewhere
                && !managed(&elsewhere.memory).is_empty()
            {
                self.wrong.push(format!("a clone of {} wrote to another member", place.agent.name));
            }
        }
    }

    /// Works that are on their way out are remembered with what they have at their site.
    pub fn note_leaving(&mut self) {
        let Some(registry) = self.registry() else { return };
        let hub_returns = self.hub_returns;
        for place in &self.places {
            let site = &place.agent.name;
            for (name, uid, _) in lives(&registry, site).into_iter().filter(|(.., deleting)| *deleting) {
                let key = (site.clone(), name, uid);
                // In another life of the hub it may have been let go already.
                if self.leaving.get(&key).is_none_or(|leaving| leaving.hub_returns != hub_returns) {
                    let named = works(&registry, site).remove(&key.1).unwrap_or_default();
                    let objects = invariants::uids_of(&place.agent.site.memory, &named);
                    self.leaving.insert(key, Leaving { hub_returns, objects });
                }
            }
        }
    }

    /// A Work that is deleted goes from the hub once the objects that it had then are gone from the member, and not before.
    fn judge_removals(&mut self) {
        self.note_leaving();
        let Some(registry) = self.registry().filter(|_| !self.leaving.is_empty()) else { return };
        let sites: Vec<String> = self.places.iter().map(|place| place.agent.name.clone()).collect();
        let of = |site: &String| {
            let site = site.clone();
            lives(&registry, &site).into_iter().map(move |(name, uid, _)| (site.clone(), name, uid))
        };
        let there: BTreeSet<_> = sites.iter().flat_map(of).collect();
        let gone: Vec<_> = self.leaving.keys().filter(|key| !there.contains(key)).cloned().collect();
        for key in gone {
            let Some(leaving) = self.leaving.remove(&key) else { continue };
            // What the return of an older hub took away was not removed.
            if leaving.hub_returns != self.hub_returns {
                continue;
            }
            let (site, name, uid) = key;
            let Some(place) = self.places.iter_mut().find(|place| place.agent.name == site) else { continue };
            // A second agent may have taken them up again, or made what the first one does not know of.
            if place.clone.is_some() || place.had_clone {
                continue;
            }
            if invariants::has_any(&place.agent.site.memory, &name, &leaving.objects) {
                self.wrong.push(format!("{name} of {site} is gone from the hub, and not from the member"));
            }
            place.gone.insert((name, uid));
        }
    }

    /// Everything is mended.
    pub async fn mend(&mut self) {
        self.log.line("everything is mended");
        self.network.heal();
        self.hub.clock.set_ahead(0);
        self.hub_starts_at = None;
        self.hub.is_well();
        self.hub.start().await;
        for place in &mut self.places {
            if let Some(mut clone) = place.clone.take() {
                clone.crash().await;
            }
            place.clone_ends_at = None;
            place.agent.clock.set_ahead(0);
            place.agent.site.forget_faults();
            place.agent.camera.forgets();
            // Some stay of the version that they are of.
            if place.agent.is_older && self.dice.chance(50) {
                place.agent.crash().await;
                place.agent.is_older = false;
                self.hub.skew.set(&place.agent.name, BTreeSet::new());
            }
            if let Some(ledger) = place.agent.ledger() {
                ledger.bound_file(None);
            }
            place.starts_at = None;
            place.agent.start();
        }
    }

    /// What is not yet as it must be in the end.
    pub fn unfinished(&self) -> Vec<String> {
        let Some(running) = &self.hub.running else { return vec!["the hub does not run".into()] };
        let mut wrong = Vec::new();
        for place in &self.places {
            let site = &place.agent.name;
            if !matches!(place.agent.link(), Some(LinkView::Connected { .. })) {
                wrong.push(format!("{site} is not connected: {:?}", place.agent.link()));
                continue;
            }
            // What is said over a line that nobody has found to be dead yet is said again over the next one.
            if !self.network.is_open(site) {
                wrong.push(format!("the line of {site} is dead, and its agent does not know"));
                continue;
            }
            let works = works(&running.registry, site);
            let memory = &place.agent.site.memory;
            wrong.extend(invariants::differences(&works, memory, &place.bad));
            wrong.extend(invariants::untold(&works, memory, &place.bad));
            wrong.extend(invariants::others_differ(&place.others, memory));
            let found = cluster(&running.registry, site);
            let text = found["metadata"]["annotations"][annotations::ORPHANS].as_str().unwrap_or("{}");
            let orphans: BTreeMap<String, String> = serde_json::from_str(text).unwrap();
            for (name, fate) in orphans {
                // One that another ledger of this site brought up stands on the Cluster, though this one has nothing to let go of.
                if fate == "undecided" || place.agent.holds(&name) {
                    wrong.push(format!("{site} has an orphan: {name}, {fate}"));
                }
            }
        }
        // Read in full, and so once all else is right.
        if wrong.is_empty() { self.remembered_otherwise(running) } else { wrong }
    }

    /// Where ledgers do not hold what the hub has.
    fn remembered_otherwise(&self, running: &Running) -> Vec<String> {
        let mut wrong = Vec::new();
        for place in &self.places {
            let site = &place.agent.name;
            let Some(ledger) = place.agent.ledger() else { continue };
            let (works, bodies) = (works(&running.registry, site), users::bodies(&running.registry, site));
            wrong.extend(invariants::remembered_otherwise(site, ledger, &works, &bodies));
            wrong.extend(self.hub.document_lacks(site, ledger));
        }
        wrong
    }

    /// A person lets held deletes go, has orphans removed, and releases what was put aside.
    pub async fn decide(&mut self) {
        let Some(registry) = self.registry() else { return };
        for at in 0..self.places.len() {
            let site = self.places[at].agent.name.clone();
            let running = self.hub.running.as_ref().unwrap();
            let gateway = running.gateway.clone();
            if let Some(hold) = gateway.fleet().link(&site).hold {
                if !works(&registry, &site).values().any(is_deleting) {
                    self.asks_for_nothing(at);
                    continue;
                }
                self.places[at].asked_for_nothing = 0;
                let batch: Batch = hold.batch;
                let said = (annotations::CONFIRM_DELETES, batch.to_string());
                self.places[at].held.clear();
                let _ = self.users.annotate(&registry, &site, said.0, &said.1).await;
            }
            let found = cluster(&registry, &site);
            self.decide_orphans(at, &found).await;
            self.hub.running.as_ref().unwrap().repair(&site).await;
            self.release(at).await;
        }
    }

    /// A person is asked to let deletes go, and there are none. What just went may be shown for a moment.
    fn asks_for_nothing(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.asked_for_nothing += 1;
        if place.asked_for_nothing == 3 {
            self.wrong.push(format!("deletes of {} are held, and there are none", place.agent.name));
        }
    }

    async fn decide_orphans(&mut self, at: usize, found: &Value) {
        let Some(registry) = self.registry() else { return };
        let site = self.places[at].agent.name.clone();
        let text = found["metadata"]["annotations"][annotations::ORPHANS].as_str().unwrap_or("{}");
        let mut orphans: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
        if orphans.values().all(|fate| fate != "undecided") {
            return;
        }
        for (name, fate) in &mut orphans {
            self.users.asked.decided.insert((site.clone(), name.clone()));
            *fate = "delete".into();
        }
        if !self.places[at].was_taken_back {
            self.wrong.push(format!("{site} has orphans though nothing was taken back: {text}"));
        }
        let text = Value::Object(orphans).to_string();
        let _ = self.users.annotate(&registry, &site, annotations::ORPHANS, &text).await;
    }

    async fn release(&mut self, at: usize) {
        let Some(registry) = self.registry() else { return };
        let place = &self.places[at];
        let (site, bad, crashes) = (place.agent.name.clone(), place.bad.clone(), place.crashes);
        for (name, work) in works(&registry, &site) {
            let is_bad = users::manifests(&work).iter().any(|m| bad.contains(object::name(m)));
            let is_aside = work["status"]["conditions"].to_string().contains("left alone");
            if !is_aside || is_bad {
                continue;
            }
            if crashes < 2 {
                self.wrong
                    .push(format!("{name} of {site} is left alone, and the agent ended {crashes} times"));
            }
            let _ = self.users.release(&registry, &site, &name).await;
        }
    }

    /// The world becomes what the hub says, or too long has passed.
    pub async fn converge(&mut self) {
        let began = Instant::now();
        let mut decides = 0;
        loop {
            self.pass(Duration::from_secs(10)).await;
            let unfinished = self.unfinished();
            if unfinished.is_empty() {
                let took = began.elapsed().as_secs();
                return self.log.line(format_args!("all is as it should be after {took} s"));
            }
            if began.elapsed() > ENOUGH {
                return self.wrong.extend(unfinished);
            }
            decides += 1;
            // What two agents made of one member, the start of an agent alone finds out.
            if decides == 360 {
                for place in self.places.iter_mut().filter(|place| place.had_clone) {
                    place.agent.crash().await;
                    place.agent.start();
                }
            }
            if decides % 12 == 0 {
                let _ = tokio::time::timeout(Duration::from_secs(60), self.decide()).await;
            }
        }
    }
}
