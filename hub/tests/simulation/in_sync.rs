//! Somebody begins anew where all is in sync: all come back, next to nothing is said, and nothing is done.
//!
//! In: the world, once it is as it should be. Out: what is not as it was, and what was said or done all the same.

use std::time::Duration;

use crate::network::Harm;
use crate::world::World;

/// Bytes of frames between the hub and one agent, each way, where both hold the same.
const IN_SYNC: u64 = 1024;

/// Who begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anew {
    /// The hub, which ends as by a power cut.
    Hub,
    /// Every connection.
    Lines,
    /// Every agent, in order or not.
    Agents,
}

impl World {
    /// The hub is restarted; all come back, and all is as it was.
    pub async fn restart(&mut self) {
        self.begins_anew(Anew::Hub).await;
    }

    /// The hub, and then somebody else, begins anew where all is in sync.
    pub async fn restart_in_sync(&mut self) {
        // What a second agent wrote bears its mark: the one that stays writes it once, when it next begins.
        if self.places.iter().any(|place| place.had_clone) {
            self.begins_anew(Anew::Agents).await;
        }
        let other = *self.dice.one(&[Anew::Lines, Anew::Agents]);
        for who in [Anew::Hub, other] {
            // What is told of a change is told by then.
            self.pass(Duration::from_secs(120)).await;
            let before: Vec<u64> = self.places.iter().map(|place| place.agent.site.calls()).collect();
            self.begins_anew(who).await;
            self.judge_what_was_said(who, &before);
        }
    }

    async fn begins_anew(&mut self, who: Anew) {
        let before = self.newest_sessions();
        self.log.line(format_args!("anew: {who:?}"));
        match who {
            Anew::Hub => {
                let vanishes = self.dice.chance(50);
                self.hub.crash(vanishes).await;
                self.hub.start().await;
                if vanishes {
                    self.cut_all();
                }
            }
            Anew::Lines => self.cut_all(),
            Anew::Agents => {
                for place in &mut self.places {
                    if self.dice.chance(50) {
                        place.agent.stop(Duration::from_secs(10)).await;
                    } else {
                        place.agent.crash().await;
                    }
                    place.agent.start();
                }
            }
        }
        for _ in 0..60 {
            self.pass(Duration::from_secs(10)).await;
            let is_newer = |(now, before): (Option<u64>, &Option<u64>)| now.is_some() && now > *before;
            let are_back = self.newest_sessions().into_iter().zip(&before).all(is_newer);
            if are_back && self.unfinished().is_empty() {
                break;
            }
        }
        self.pass(Duration::from_secs(5)).await;
        self.wrong.extend(self.unfinished());
    }

    fn cut_all(&self) {
        self.places.iter().for_each(|place| self.network.harm(&place.agent.name, Harm::Reset));
    }

    /// The numbers of the sessions that there are, site by site.
    fn newest_sessions(&self) -> Vec<Option<u64>> {
        let Some(running) = &self.hub.running else { return Vec::new() };
        let session = |site: &str| running.gateway.fleet().link(site).session.map(|session| session.seq);
        self.places.iter().map(|place| session(&place.agent.name)).collect()
    }

    /// `before`: how often each member was written to by then.
    fn judge_what_was_said(&mut self, who: Anew, before: &[u64]) {
        let Some(running) = &self.hub.running else { return };
        for (place, before) in self.places.iter().zip(before) {
            let site = &place.agent.name;
            // What the member refuses is tried again and again.
            if place.bad.is_empty() && place.agent.site.calls() != *before {
                self.wrong.push(format!("{site} wrote to its member though nothing had changed ({who:?})"));
            }
            // An agent that begins anew tells its cluster's status, which is short for who has the dictionary.
            let missing = self.hub.skew.missing(site);
            let is_brief = who != Anew::Agents || !missing.contains(karmada_proto::DICTIONARY);
            let compares = !missing.contains(karmada_proto::DIGESTS) && is_brief;
            let Some(session) = running.gateway.fleet().link(site).session else {
                self.wrong.push(format!("{site} has no session ({who:?})"));
                continue;
            };
            let (received, sent) = (session.progress.received, session.progress.sent);
            if compares && (received > IN_SYNC || sent > IN_SYNC) {
                let word = format!(
                    "{site} was told {sent} bytes and told {received}, though all was in sync ({who:?})"
                );
                self.wrong.push(word);
            }
        }
    }
}
