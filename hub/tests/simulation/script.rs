//! The trouble of one run: what happens, how often, and when. Everything is drawn from the seed.
//!
//! In: the world. Out: calls of what users, the network, disks, clocks, members and processes do.

use std::collections::BTreeSet;
use std::time::Duration;

use karmada_agent::member::{Gvk, MemberError, ObjectId};
use karmada_agent::session::Phase;
use serde_json::Value;

use crate::dice::Dice;
use crate::network::{Dials, Harm, Weather};
use crate::pipe::{Fault, FaultKind, Towards};
use crate::users::{is_deleting, works};
use crate::world::World;

/// What a user waits for the hub.
const PATIENCE: Duration = Duration::from_secs(60);
const YEAR: i64 = 365 * 24 * 3600;

/// One sort of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Create,
    Update,
    Delete,
    DeleteMany,
    Recreate,
    BadWork,
    Weather,
    Harm,
    LineFault,
    AgentEnds,
    AgentEndsAtMember,
    LedgerCopied,
    LedgerPutBack,
    LedgerLost,
    DiskFull,
    CloneHere,
    CloneElsewhere,
    AgentClock,
    MemberSlow,
    MemberAway,
    MemberSilent,
    MemberEdited,
    HubEnds,
    HubEndsAtWrite,
    Backup,
    Restore,
    Compact,
    HubClock,
}

/// How often each comes, beside the others.
const WEIGHTS: [(Trouble, u64); 28] = [
    (Trouble::Create, 24),
    (Trouble::Update, 24),
    (Trouble::Delete, 14),
    (Trouble::DeleteMany, 2),
    (Trouble::Recreate, 6),
    (Trouble::BadWork, 2),
    (Trouble::Weather, 8),
    (Trouble::Harm, 8),
    (Trouble::LineFault, 12),
    (Trouble::AgentEnds, 4),
    (Trouble::AgentEndsAtMember, 5),
    (Trouble::LedgerCopied, 2),
    (Trouble::LedgerPutBack, 2),
    (Trouble::LedgerLost, 1),
    (Trouble::DiskFull, 4),
    (Trouble::CloneHere, 1),
    (Trouble::CloneElsewhere, 1),
    (Trouble::AgentClock, 2),
    (Trouble::MemberSlow, 4),
    (Trouble::MemberAway, 3),
    (Trouble::MemberSilent, 3),
    (Trouble::MemberEdited, 4),
    (Trouble::HubEnds, 4),
    (Trouble::HubEndsAtWrite, 4),
    (Trouble::Backup, 3),
    (Trouble::Restore, 4),
    (Trouble::Compact, 2),
    (Trouble::HubClock, 2),
];

/// The sorts of trouble that a run knows: each run leaves some out, so that every sort is met without the others' noise, and has much of
/// a few.
pub fn kinds(dice: &mut Dice) -> Vec<(Trouble, u64)> {
    let share = dice.between(20, 100);
    let mut kinds = Vec::new();
    for (trouble, weight) in WEIGHTS {
        if trouble <= Trouble::Recreate {
            kinds.push((trouble, weight));
        } else if dice.chance(share) {
            let times = if dice.chance(15) { 6 } else { 1 };
            kinds.push((trouble, weight * times));
        }
    }
    kinds
}

fn draw(dice: &mut Dice, kinds: &[(Trouble, u64)]) -> Trouble {
    let mut left = dice.between(1, kinds.iter().map(|(_, weight)| weight).sum());
    for (trouble, weight) in kinds {
        if left <= *weight {
            return *trouble;
        }
        left -= weight;
    }
    Trouble::Create
}

impl World {
    /// So much trouble, one after the other.
    pub async fn trouble(&mut self, count: u64) {
        let kinds = kinds(&mut self.dice);
        self.backups.push(self.hub.backup());
        for _ in 0..count {
            let pause = match self.dice.between(0, 9) {
                0..=4 => self.dice.between(0, 2_000),
                5..=8 => self.dice.between(2_000, 30_000),
                _ => self.dice.between(30_000, 400_000),
            };
            self.pass(Duration::from_millis(pause)).await;
            let trouble = draw(&mut self.dice, &kinds);
            let at = (self.dice.next() % self.places.len() as u64) as usize;
            // Who asks a hub that ends over it gives up.
            let _ = tokio::time::timeout(PATIENCE, self.happens(trouble, at)).await;
        }
    }

    async fn happens(&mut self, trouble: Trouble, at: usize) {
        use Trouble as T;
        match trouble {
            T::Create | T::Update | T::Delete | T::DeleteMany | T::Recreate | T::BadWork => {
                self.users_do(trouble, at).await;
            }
            T::Weather | T::Harm | T::LineFault => self.line_does(trouble, at),
            T::AgentEnds | T::AgentEndsAtMember | T::CloneHere | T::CloneElsewhere => {
                self.process_does(trouble, at).await;
            }
            T::LedgerCopied | T::LedgerPutBack | T::LedgerLost | T::DiskFull => {
                self.ledger_does(trouble, at).await;
            }
            T::MemberSlow | T::MemberAway | T::MemberSilent | T::MemberEdited => {
                self.member_does(trouble, at);
            }
            T::AgentClock => {
                let ahead = self.offset();
                self.log.line(format_args!("the clock of s{at} is {ahead} s ahead"));
                self.places[at].agent.clock.set_ahead(ahead);
            }
            T::HubClock => {
                let ahead = self.offset();
                self.log.line(format_args!("the hub's clock is {ahead} s ahead"));
                self.hub.clock.set_ahead(ahead);
            }
            T::HubEnds | T::HubEndsAtWrite | T::Backup | T::Restore | T::Compact => {
                self.hub_does(trouble).await;
            }
        }
    }

    fn offset(&mut self) -> i64 {
        let most = *self.dice.one(&[0, 60, 3600, 24 * 3600, YEAR, 10 * YEAR]);
        if self.dice.chance(50) { most } else { -most }
    }

    async fn users_do(&mut self, trouble: Trouble, at: usize) {
        let Some(registry) = self.registry() else { return };
        let site = self.places[at].agent.name.clone();
        let all = works(&registry, &site);
        let good: Vec<String> =
            all.into_iter().filter(|(_, work)| !is_deleting(work)).map(|(name, _)| name).collect();
        let some = (!good.is_empty()).then(|| self.dice.one(&good).clone());
        // What a user is refused is not the matter here.
        match (trouble, some) {
            (Trouble::Create, _) => {
                for _ in 0..self.dice.between(1, 4) {
                    let _ = self.users.create(&registry, &site, None).await;
                }
            }
            (Trouble::BadWork, _) => {
                let name = format!("bad{}", self.dice.between(1, 3));
                let error = MemberError::Invalid("it is refused".into());
                self.places[at].agent.site.memory.fail(&name, Some(error));
                self.places[at].bad.insert(name.clone());
                let _ = self.users.create_bad(&registry, &site, &name).await;
            }
            (Trouble::Update, Some(name)) => drop(self.users.update(&registry, &site, &name).await),
            (Trouble::Delete, Some(name)) => drop(self.users.delete(&registry, &site, &name).await),
            (Trouble::DeleteMany, Some(_)) => {
                for name in good.iter().take(good.len() / 2 + 1) {
                    let _ = self.users.delete(&registry, &site, name).await;
                }
            }
            (Trouble::Recreate, Some(name)) => {
                let _ = self.users.delete(&registry, &site, &name).await;
                let pause = Duration::from_millis(self.dice.between(0, 20_000));
                self.pass(pause).await;
                if let Some(registry) = self.registry() {
                    let _ = self.users.create(&registry, &site, Some(name)).await;
                }
            }
            _ => {}
        }
    }

    fn line_does(&mut self, trouble: Trouble, at: usize) {
        let site = self.places[at].agent.name.clone();
        match trouble {
            Trouble::Weather => {
                let dials = *self.dice.one(&[Dials::Through, Dials::Through, Dials::Refused, Dials::Hang]);
                let delay = Duration::from_millis(*self.dice.one(&[1, 20, 200, 800, 5_000, 40_000]));
                let slowness = Duration::from_millis(*self.dice.one(&[0, 0, 0, 50, 1_000]));
                let weather = Weather { dials, delay, slowness };
                self.log.line(format_args!("{site} has {weather:?}"));
                self.network.set_weather(&site, weather);
                if dials != Dials::Through {
                    let harm = *self.dice.one(&[Harm::Reset, Harm::Silence]);
                    self.network.harm(&site, harm);
                }
            }
            Trouble::Harm => {
                let late = Duration::from_secs(self.dice.between(1, 120));
                let harm = *self.dice.one(&[Harm::Reset, Harm::Silence, Harm::HubHearsLate(late)]);
                self.log.line(format_args!("{site} meets {harm:?}"));
                self.network.harm(&site, harm);
            }
            _ => {
                let towards = *self.dice.one(&[Towards::Hub, Towards::Agent]);
                let kinds =
                    [FaultKind::Cut, FaultKind::Cut, FaultKind::Silence, FaultKind::Flip, FaultKind::Crash];
                let mut kind = *self.dice.one(&kinds);
                if kind == FaultKind::Crash && towards == Towards::Agent {
                    kind = FaultKind::Cut;
                }
                let fault = Fault { after: self.dice.between(1, 40), kind, at: self.dice.between(0, 999) };
                self.log.line(format_args!("{site} meets {fault:?} towards {towards:?}"));
                self.network.fault(&site, towards, fault);
            }
        }
    }

    async fn process_does(&mut self, trouble: Trouble, at: usize) {
        match trouble {
            Trouble::AgentEnds => self.crash_agent(at).await,
            Trouble::AgentEndsAtMember => {
                let (call, is_done) = (self.dice.between(1, 12), self.dice.chance(50));
                self.places[at].agent.site.ends_at(call, is_done);
            }
            _ if self.places[at].clone.is_some() => {}
            Trouble::CloneHere => {
                let dice = Dice::new(self.dice.next(), "clone");
                let life = Duration::from_secs(self.dice.between(10, 900));
                let place = &mut self.places[at];
                let mut clone = place.agent.clone_on(place.agent.site.clone(), dice);
                self.log.line(format_args!("{} has a second agent", place.agent.name));
                clone.start();
                place.returns.0 += 1;
                place.clone = Some(clone);
                place.clone_ends_at = Some(tokio::time::Instant::now() + life);
            }
            _ => {
                let dice = Dice::new(self.dice.next(), "clone");
                let life = Duration::from_secs(self.dice.between(10, 900));
                let place = &mut self.places[at];
                let site = crate::member::Site::new("elsewhere", self.log.clone());
                let mut clone = place.agent.clone_on(site.clone(), dice);
                self.log.line(format_args!("the state of {} is copied to another member", place.agent.name));
                clone.start();
                place.elsewhere = Some(site);
                place.clone = Some(clone);
                place.clone_ends_at = Some(tokio::time::Instant::now() + life);
            }
        }
    }

    async fn ledger_does(&mut self, trouble: Trouble, at: usize) {
        match trouble {
            Trouble::LedgerCopied => self.places[at].agent.copy(),
            Trouble::LedgerPutBack | Trouble::LedgerLost => {
                self.crash_agent(at).await;
                let is_lost = trouble == Trouble::LedgerLost;
                let place = &mut self.places[at];
                place.returns.0 += 1;
                place.held.clear();
                place.agent.put_back(is_lost);
            }
            _ => {
                let pages = self.dice.chance(70).then(|| self.dice.between(0, 20) as u32);
                self.log.line(format_args!("the disk of s{at} takes {pages:?} pages more"));
                if let Some(ledger) = self.places[at].agent.ledger() {
                    ledger.bound_file(pages);
                }
            }
        }
    }

    fn member_does(&mut self, trouble: Trouble, at: usize) {
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

    async fn hub_does(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::HubEnds => {
                let vanishes = self.dice.chance(30);
                self.crash_hub(vanishes).await;
            }
            Trouble::HubEndsAtWrite => {
                let write = self.dice.between(1, 15);
                self.hub.ends_at(write);
            }
            Trouble::Backup => {
                self.log.line(format_args!("the hub is copied at {}", self.hub.revision()));
                self.backups.push(self.hub.backup());
            }
            Trouble::Restore => self.restore().await,
            _ => self.hub.compact().await,
        }
    }

    async fn restore(&mut self) {
        if self.backups.is_empty() {
            return;
        }
        let backup = self.dice.one(&self.backups).clone();
        let (vanishes, announced) = (self.dice.chance(20), self.dice.chance(30));
        self.note_held(&backup).await;
        self.crash_hub(vanishes).await;
        self.hub.restore(&backup, announced).await;
        self.hub_returns += 1;
        self.places.iter_mut().for_each(|place| place.returns.0 += 1);
    }

    /// Which deletes are to wait for a person once `backup` is put back: of Works that are being deleted in it, of which an agent that has
    /// seen more than it was not told.
    async fn note_held(&mut self, backup: &karmada_store::MemoryStore) {
        use karmada_store::Store as _;
        for place in &mut self.places {
            place.held.clear();
            let Some(ledger) = place.agent.ledger() else { continue };
            let (Ok((_, cursor)), Ok(held)) = (ledger.position(), ledger.held()) else { continue };
            if cursor <= backup.revision() || place.clone.is_some() || !ledger.is_durable() {
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
