//! What becomes of the hub: it ends at any place or goes down in order, its disk fills up or is slow, an older store is put back.
//!
//! In: the world, and for some a site that it is about. Out: a hub that ends, or will, and what it finds when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karmada_agent::ledger::Ledger;
use karmada_agent::session::Phase;
use karmada_store::{MemoryStore, Store as _};
use serde_json::Value;

use super::Trouble;
use crate::network::Harm;
use crate::users::{is_deleting, is_kept, manifests, works};
use crate::world::World;

/// The newest revision of which an agent was told.
fn newest_of(ledger: &Ledger) -> u64 {
    let seen = ledger.seen().unwrap_or_default().into_iter().map(|seen| seen.revision);
    let (_, cursor) = ledger.position().unwrap_or_default();
    seen.chain([cursor, ledger.former_cursor().unwrap_or_default()]).max().unwrap_or_default()
}

impl World {
    pub(super) async fn hub_does(&mut self, trouble: Trouble, at: usize) {
        match trouble {
            Trouble::HubEnds => {
                let vanishes = self.dice.chance(30);
                self.crash_hub(vanishes).await;
            }
            Trouble::HubStops => {
                let within = Duration::from_secs(self.dice.between(1, 20));
                self.hub.drain(within).await;
                self.hub_starts_later();
            }
            Trouble::HubDisk => self.hubs_disk(),
            Trouble::Document => {
                let text = self.users.document();
                self.log.line(format_args!("a document of {} bytes is told", text.len()));
                self.hub.tells(&text).await;
            }
            Trouble::HubEndsAtWrite => {
                let write = self.dice.between(1, 15);
                self.hub.ends_at(write);
            }
            Trouble::Backup => {
                self.log.line(format_args!("the hub is copied at {}", self.hub.revision()));
                self.backups.push(self.hub.backup());
            }
            Trouble::Restore => {
                if !self.backups.is_empty() {
                    let backup = self.dice.one(&self.backups).clone();
                    let before = self.bodies(at);
                    self.restore(&backup).await;
                    if self.dice.chance(40) {
                        self.make_again(at, before).await;
                    }
                }
            }
            Trouble::RestoreInDeletion => self.restore_in_deletion(at).await,
            _ => self.hub.compact().await,
        }
    }

    /// The disk under the hub takes nothing more, or is slow, until it is well again or the hub starts anew.
    fn hubs_disk(&mut self) {
        let is_full = self.dice.chance(40);
        let slowness = Duration::from_millis(*self.dice.one(&[0, 0, 20, 400, 5_000]));
        self.log.line(format_args!("the hub's disk is full: {is_full}, and takes {slowness:?}"));
        if let Some(running) = &self.hub.running {
            running.disk.set_full(is_full);
            running.disk.set_slowness(slowness);
        }
    }

    /// A backup that was made while Works were on their way out is put back before the site has heard that it may forget them, or before
    /// it has heard of any of it.
    async fn restore_in_deletion(&mut self, at: usize) {
        let count = self.dice.between(1, 3);
        let before = self.hub.backup();
        let is_cut_before = self.dice.chance(20);
        let site = self.places[at].agent.name.clone();
        if is_cut_before {
            self.network.harm(&site, Harm::Silence);
        }
        self.some_are_deleted(at, count).await;
        let backup = self.hub.backup();
        let pause = self.dice.between(0, 3_000);
        self.pass(Duration::from_millis(pause)).await;
        if self.dice.chance(50) {
            // What the hub was told comes through, and its answer does not.
            self.network.harm(&site, Harm::HubHearsLate(Duration::ZERO));
            self.pass(Duration::from_millis(200)).await;
        }
        if self.dice.chance(40) {
            // Between the two the site takes them up again, and may come to know more than the hub will then.
            self.restore(&before).await;
            let pause = self.dice.between(30_000, 150_000);
            self.pass(Duration::from_millis(pause)).await;
            if let Some(registry) = self.registry() {
                for _ in 0..self.dice.between(0, 12) {
                    let _ = self.users.create_small(&registry, &self.places[at].agent.name).await;
                }
            }
            let pause = self.dice.between(0, 3_000);
            self.pass(Duration::from_millis(pause)).await;
        }
        self.log.line("the hub was copied as Works were on their way out");
        self.restore(&backup).await;
        self.backups.push(backup);
    }

    async fn restore(&mut self, backup: &MemoryStore) {
        let (vanishes, announced) = (self.dice.chance(20), self.dice.chance(30));
        self.places.iter_mut().for_each(|place| place.held.clear());
        if self.dice.chance(70) {
            // Nothing is on its way any more: what an agent was not told by now it is told by the hub that comes.
            self.places.iter().for_each(|place| self.network.harm(&place.agent.name, Harm::Reset));
            self.pass(Duration::from_millis(1)).await;
            self.note_held(backup).await;
        }
        self.crash_hub(vanishes).await;
        self.hub.restore(backup, announced).await;
        self.hub_returns += 1;
        self.places.iter_mut().for_each(|place| place.returns.0 += 1);
        (0..self.places.len()).for_each(|at| self.is_taken_back(at));
    }

    /// The manifests of a site's Works.
    fn bodies(&self, at: usize) -> BTreeMap<String, Vec<Value>> {
        let Some(registry) = self.registry() else { return BTreeMap::new() };
        let all = works(&registry, &self.places[at].agent.name);
        all.into_iter()
            .filter(|(_, work)| !is_deleting(work))
            .map(|(name, work)| (name, manifests(&work)))
            .collect()
    }

    /// Users make what was lost with the life of the hub that was taken back, under the names that it had, and not as it was.
    async fn make_again(&mut self, at: usize, lost: BTreeMap<String, Vec<Value>>) {
        self.pass(Duration::from_secs(61)).await;
        let Some(registry) = self.registry() else { return };
        let site = self.places[at].agent.name.clone();
        let there = works(&registry, &site);
        for (name, former) in lost.into_iter().filter(|(name, _)| !there.contains_key(name) && !is_kept(name))
        {
            let _ = self.users.make_again(&registry, &site, &name, &former).await;
        }
    }

    /// Which deletes are to wait for a person once `backup` is put back: of Works that are being deleted in it, of which an agent that has
    /// seen more than it was not told.
    async fn note_held(&mut self, backup: &MemoryStore) {
        for place in &mut self.places {
            place.held.clear();
            let Some(ledger) = place.agent.ledger() else { continue };
            let Ok(held) = ledger.held() else { continue };
            if newest_of(ledger) <= backup.revision() || place.clone.is_some() || !ledger.is_durable() {
                continue;
            }
            let prefix = format!("/registry/work.karmada.io/works/karmada-es-{}/", place.agent.name);
            let kept = backup.list(&prefix, None, 0).await.unwrap().items;
            let mut deleting = BTreeSet::new();
            for item in kept {
                let work: Value = serde_json::from_slice(&item.value).unwrap();
                let name = work["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let is_desired = held.get(&name).is_some_and(|held| {
                    held.phase == Phase::Desired && work["metadata"]["uid"] == held.uid.as_str()
                });
                if is_deleting(&work) && is_desired {
                    deleting.insert(name);
                }
            }
            if !deleting.is_empty() {
                self.log.line(format_args!("held from {}: {deleting:?}", place.agent.name));
            }
            place.held.extend(deleting);
        }
    }
}
