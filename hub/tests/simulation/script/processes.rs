//! What becomes of agents' processes: they end at any place, are asked to end, are of another version, exist twice.
//!
//! In: a site whose agent it is. Out: processes that end, or will; others that start.

use std::collections::BTreeSet;
use std::time::Duration;

use karmada_proto::FEATURES;

use super::Trouble;
use crate::dice::Dice;
use crate::ledgers::AtWrite;
use crate::world::World;

impl World {
    pub(super) async fn process_does(&mut self, trouble: Trouble, at: usize) {
        match trouble {
            Trouble::AgentEnds => self.crash_agent(at).await,
            Trouble::AgentEndsAtMember => {
                let (call, is_done) = (self.dice.between(1, 12), self.dice.chance(50));
                self.places[at].agent.site.ends_at(call, is_done);
            }
            Trouble::AgentStops => self.stop_agent(at).await,
            Trouble::AgentStopsAgain => self.stops_while_the_member_is_slow(at).await,
            Trouble::AgentEndsAtLedger | Trouble::PowerCut => {
                let is_cut = trouble == Trouble::PowerCut;
                let write = self.dice.between(1, if is_cut { 8 } else { 25 });
                let how = if is_cut { AtWrite::PowerCut } else { AtWrite::Killed };
                self.places[at].agent.camera.ends_at(write, how);
            }
            Trouble::Skew => self.version_changes(at).await,
            _ if self.places[at].clone.is_some() => {}
            Trouble::CloneHere => {
                let dice = Dice::new(self.dice.next(), "clone");
                let life = Duration::from_secs(self.dice.between(10, 900));
                let place = &mut self.places[at];
                let mut clone = place.agent.clone_on(place.agent.site.clone(), dice);
                self.log.line(format_args!("{} has a second agent", place.agent.name));
                clone.start();
                place.had_clone = true;
                place.was_taken_back = true;
                place.gone.clear();
                // Where a line is so bad that the hub takes one for silent, the two undo for a while what the other does.
                place.returns.0 += 1000;
                place.clone = Some(clone);
                place.clone_ends_at = Some(tokio::time::Instant::now() + life);
                if self.dice.chance(50) {
                    self.goes_on_before_a_second(at).await;
                }
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
                place.was_taken_back = true;
                place.gone.clear();
                place.clone = Some(clone);
                place.clone_ends_at = Some(tokio::time::Instant::now() + life);
            }
        }
    }

    /// Works change, and the member is edited, once a second agent has rested for long: that one has nothing to do with it.
    async fn goes_on_before_a_second(&mut self, at: usize) {
        self.pass(Duration::from_secs(330)).await;
        for _ in 0..self.dice.between(1, 4) {
            self.users_do(Trouble::Update, at).await;
            self.member_does(Trouble::MemberEdited, at).await;
        }
    }

    /// The agent is asked to end, as by an update of it, and starts again soon.
    async fn stop_agent(&mut self, at: usize) {
        if !self.places[at].agent.is_running() {
            return;
        }
        self.places[at].agent.stop(Duration::from_secs(10)).await;
        let pause = Duration::from_secs(self.dice.between(0, 10));
        self.places[at].starts_at = Some(tokio::time::Instant::now() + pause);
    }

    /// The agent is asked to end several times, as by somebody who waits for its member to be quick again, and each time over the same Work.
    async fn stops_while_the_member_is_slow(&mut self, at: usize) {
        self.log
            .line(format_args!("the member of s{at} is slow, and its agent is asked to end again and again"));
        self.places[at].agent.site.set_slowness(Duration::from_secs(40));
        self.some_are_made(at, 1).await;
        for _ in 0..self.dice.between(2, 3) {
            self.stop_agent(at).await;
            let pause = self.dice.between(15, 40);
            self.pass(Duration::from_secs(pause)).await;
        }
        self.places[at].agent.site.set_slowness(Duration::ZERO);
    }

    /// The agent, or the hub before it, is of a version that lacks some features from now on; or neither is.
    async fn version_changes(&mut self, at: usize) {
        let is_older = self.dice.chance(70);
        let share = self.dice.between(20, 100);
        let missing: BTreeSet<&'static str> =
            FEATURES.into_iter().filter(|_| is_older && self.dice.chance(share)).collect();
        let place = &mut self.places[at];
        self.log.line(format_args!("{} is without {missing:?}", place.agent.name));
        place.agent.is_older = !missing.is_empty();
        self.hub.skew.set(&place.agent.name, missing);
        self.stop_agent(at).await;
    }
}
