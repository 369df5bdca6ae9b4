//! What users of the hub do, and what they do not know of when they do it.
//!
//! In: a site that it is about. Out: writes through the hub's registry, and objects of others at the site.

use std::time::Duration;

use karmada_agent::LinkView;
use karmada_agent::member::{MemberError, ObjectId};

use super::Trouble;
use crate::network::{Harm, Weather};
use crate::users::{config_map, is_deleting, is_kept, is_suspended, works};
use crate::world::World;

impl World {
    pub(super) async fn users_do(&mut self, trouble: Trouble, at: usize) {
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
                    let made = self.users.create(&registry, &site, None).await;
                    self.has_namesake(at, made.as_deref().unwrap_or_default());
                }
            }
            (Trouble::CreateMany, _) => {
                for _ in 0..self.dice.between(30, 150) {
                    let _ = self.users.create_small(&registry, &site).await;
                }
            }
            (Trouble::PoisonWork, _) => {
                let name = format!("poison{}", self.dice.between(1, 2));
                self.places[at].agent.site.poisons(&name);
                self.places[at].bad.insert(name.clone());
                let _ = self.users.create_bad(&registry, &site, &name).await;
            }
            (Trouble::BadWork, _) => {
                let name = format!("bad{}", self.dice.between(1, 3));
                let error = MemberError::Invalid("it is refused".into());
                self.places[at].agent.site.memory.fail(&name, Some(error));
                self.places[at].bad.insert(name.clone());
                let _ = self.users.create_bad(&registry, &site, &name).await;
            }
            (Trouble::Update, Some(name)) => drop(self.users.update(&registry, &site, &name).await),
            (Trouble::Delete, Some(name)) => self.deletes(at, &name).await,
            (Trouble::DeleteMany, Some(_)) => {
                for name in good.iter().take(good.len() / 2 + 1) {
                    self.deletes(at, name).await;
                }
            }
            // What was kept in the member is another's then.
            (Trouble::Recreate, Some(name)) if !is_kept(&name) => {
                self.deletes(at, &name).await;
                let pause = Duration::from_millis(self.dice.between(0, 20_000));
                self.pass(pause).await;
                if let Some(registry) = self.registry() {
                    let _ = self.users.create(&registry, &site, Some(name)).await;
                }
            }
            _ => {}
        }
    }

    /// A large Work is changed again and again, each time before a slow line has taken its body. It comes through all the same.
    pub(super) async fn changes_without_end(&mut self, at: usize) {
        let (Some(registry), true) = (self.registry(), self.is_at_rest(at)) else { return };
        let site = self.places[at].agent.name.clone();
        let name = self.users.large_name();
        let slow = Weather { slowness: Duration::from_millis(500), ..Weather::default() };
        self.log.line(format_args!("{name} of {site} changes without end"));
        self.network.set_weather(&site, slow);
        let (connected, starts) = (self.network.connected(&site), self.hub.life);
        for _ in 0..14 {
            let _ = self.users.write_large(&registry, &site, &name).await;
            self.pass(Duration::from_secs(5)).await;
        }
        self.network.set_weather(&site, Weather::default());
        let is_undisturbed = self.is_connected(at)
            && (connected, starts) == (self.network.connected(&site), self.hub.life)
            && works(&registry, &site).contains_key(&name);
        if is_undisturbed && !self.places[at].agent.holds(&name) {
            self.wrong.push(format!("{name} never came to {site} while it changed"));
        }
    }

    /// A large Work is made, or changes, and the line breaks while its body is on the way; what an end says meanwhile comes through.
    pub(super) async fn line_breaks_within_a_body(&mut self, at: usize) {
        let Some(registry) = self.registry() else { return };
        let site = self.places[at].agent.name.clone();
        let name = self.users.large_name();
        let slow = Weather { slowness: Duration::from_millis(1_000), ..Weather::default() };
        for _ in 0..self.dice.between(1, 2) {
            self.network.set_weather(&site, slow);
            let _ = self.users.write_large(&registry, &site, &name).await;
            self.log.line(format_args!("{name} of {site} is large, and its line slow"));
            let pause = self.dice.between(1_000, 70_000);
            self.pass(Duration::from_millis(pause)).await;
            let harm = *self.dice.one(&[Harm::Reset, Harm::Silence]);
            self.network.harm(&site, harm);
            self.network.set_weather(&site, Weather::default());
            self.pass(Duration::from_secs(5)).await;
        }
    }

    fn is_connected(&self, at: usize) -> bool {
        let agent = &self.places[at].agent;
        self.hub.running.is_some()
            && self.network.is_open(&agent.name)
            && matches!(agent.link(), Some(LinkView::Connected { .. }))
    }

    /// Whether a site is connected, and nothing waits to be sent to it.
    fn is_at_rest(&self, at: usize) -> bool {
        let Some(running) = &self.hub.running else { return false };
        let agent = &self.places[at].agent;
        let session = running.gateway.fleet().link(&agent.name).session;
        self.places[at].clone.is_none()
            && self.is_connected(at)
            && session.is_some_and(|session| session.progress.backlog == 0)
    }

    /// A Work is deleted, of which the world remembers what it has in the member.
    pub(super) async fn deletes(&mut self, at: usize, name: &str) {
        let Some(registry) = self.registry() else { return };
        let site = self.places[at].agent.name.clone();
        let _ = self.users.delete(&registry, &site, name).await;
        self.note_leaving();
    }

    /// Somebody at the site has an object already that is named as one of a Work which is suspended: it is none of the Work's.
    fn has_namesake(&mut self, at: usize, name: &str) {
        if is_suspended(name) && self.dice.chance(50) {
            let theirs = config_map(&format!("{name}-0"), "theirs");
            let place = &mut self.places[at];
            place.agent.site.memory.seed(theirs.clone());
            place.others.insert(ObjectId::of(&theirs));
        }
    }
}
