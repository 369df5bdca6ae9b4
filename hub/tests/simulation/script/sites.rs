//! What becomes of a site's ledger and of its member.
//!
//! In: a site. Out: files that are copied, put back, lost or damaged; a full disk; a member that is slow, away, silent, or edited.

use std::time::Duration;

use karmada_agent::member::{Gvk, ObjectId};

use super::Trouble;
use crate::users::{is_deleting, works};
use crate::world::World;

impl World {
    pub(super) async fn ledger_does(&mut self, trouble: Trouble, at: usize) {
        match trouble {
            Trouble::LedgerCopied => self.places[at].agent.copy(),
            Trouble::LedgerFlips => {
                if self.dice.chance(50) {
                    self.crash_agent(at).await;
                }
                self.is_taken_back(at);
                let place = &mut self.places[at];
                let flipped = place.agent.flip_a_bit(&mut self.dice);
                place.flipped.extend(flipped);
            }
            Trouble::LedgerPutBack | Trouble::LedgerLost => {
                if trouble == Trouble::LedgerPutBack && self.dice.chance(50) {
                    // What comes next the copy does not know.
                    self.places[at].agent.copy();
                    let count = self.dice.between(1, 4);
                    self.some_are_made(at, count).await;
                }
                self.crash_agent(at).await;
                let is_lost = trouble == Trouble::LedgerLost;
                self.is_taken_back(at);
                let place = &mut self.places[at];
                place.returns.0 += 1;
                place.held.clear();
                place.agent.put_back(is_lost);
                // Of what users do meanwhile, the older ledger hears without ever having known what it is about.
                if self.dice.chance(50) {
                    let count = self.dice.between(1, 4);
                    self.some_are_deleted(at, count).await;
                }
            }
            _ => {
                let pages = self.dice.chance(70).then(|| self.dice.between(0, 20) as u32);
                self.log.line(format_args!("the disk of s{at} takes {pages:?} pages more"));
                let place = &mut self.places[at];
                place.had_full_disk = true;
                if let Some(ledger) = place.agent.ledger() {
                    ledger.bound_file(pages);
                }
                if pages.is_some() && self.dice.chance(40) {
                    self.process_ends_over_a_full_disk(at).await;
                }
            }
        }
    }

    /// What comes while nothing more can be written down, the process that comes next knows nothing of.
    async fn process_ends_over_a_full_disk(&mut self, at: usize) {
        let (made, deleted) = (self.dice.between(1, 3), self.dice.between(1, 4));
        self.some_are_made(at, made).await;
        self.some_are_deleted(at, deleted).await;
        let pause = self.dice.between(1_000, 40_000);
        self.pass(Duration::from_millis(pause)).await;
        self.crash_agent(at).await;
    }

    /// So many Works are made, and the site has a while to take them up.
    pub(super) async fn some_are_made(&mut self, at: usize, count: u64) {
        let Some(registry) = self.registry() else { return };
        let site = self.places[at].agent.name.clone();
        for _ in 0..count {
            let _ = self.users.create(&registry, &site, None).await;
        }
        let pause = self.dice.between(500, 20_000);
        self.pass(Duration::from_millis(pause)).await;
    }

    /// So many of a site's Works, the newest first, are deleted.
    pub(super) async fn some_are_deleted(&mut self, at: usize, count: u64) {
        let Some(registry) = self.registry() else { return };
        let all = works(&registry, &self.places[at].agent.name);
        let mut names: Vec<(u64, String)> = all
            .into_iter()
            .filter(|(_, work)| !is_deleting(work))
            .map(|(name, work)| {
                (work["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(0), name)
            })
            .collect();
        names.sort();
        for (_, name) in names.into_iter().rev().take(count as usize) {
            self.deletes(at, &name).await;
        }
    }

    pub(super) async fn member_does(&mut self, trouble: Trouble, at: usize) {
        let site = self.places[at].agent.site.clone();
        match trouble {
            Trouble::MemberSlow => {
                let slowness = Duration::from_millis(*self.dice.one(&[0, 0, 300, 5_000, 40_000]));
                self.log.line(format_args!("the member of s{at} takes {slowness:?}"));
                site.set_slowness(slowness);
            }
            Trouble::MemberAway => {
                let is_away = self.dice.chance(50);
                self.log.line(format_args!("the member of s{at} is away: {is_away}"));
                site.memory.set_away(is_away);
            }
            Trouble::MemberSilent => {
                let seconds = *self.dice.one(&[1, 20, 35, 50, 60]);
                let late = self.dice.chance(60).then(|| Duration::from_secs(seconds));
                self.log.line(format_args!("writes to the member of s{at} are carried out {late:?} late"));
                site.memory.carry_out_late(late);
                if late.is_some() {
                    // One that was tried again may be carried out twice, the second time after what it made is removed.
                    let returns = &mut self.places[at].returns;
                    returns.0 = returns.0.max(1);
                }
                if late.is_some() && self.dice.chance(40) {
                    // What was begun at the member is not wanted any more before it is carried out.
                    let count = self.dice.between(1, 3);
                    self.some_are_made(at, count).await;
                    self.some_are_deleted(at, count).await;
                }
            }
            _ => self.somebody_edits(at),
        }
    }

    /// Somebody else removes an object of a member, or changes it.
    fn somebody_edits(&mut self, at: usize) {
        let memory = self.places[at].agent.site.memory.clone();
        let all: Vec<ObjectId> = crate::invariants::managed(&memory).into_keys().collect();
        if all.is_empty() {
            return;
        }
        let id = self.dice.one(&all).clone();
        self.log.line(format_args!("somebody edits {id} at s{at}"));
        if self.dice.chance(50) {
            memory.remove(&id);
        } else {
            let is_deployment = id.gvk == Gvk::new("apps/v1", "Deployment");
            memory.edit(&id, |object| {
                if is_deployment {
                    object["spec"]["replicas"] = 99.into();
                } else {
                    object["data"]["text"] = "edited".into();
                }
            });
        }
    }
}
