//! Whether a cluster can be used, and how that shows in its conditions and taints. In: a Cluster, when its agent was heard, the time. Out:
//! the condition and taints to write, whether the cluster counts as lost. Pure.
//!
//! The agent reports Ready while it is in contact, and False where its member was not ready for a while (its `cluster_status`); the hub itself says
//! Unknown when contact is lost. In place of Karmada's cluster Leases, the gateway knows when each agent was heard last (its `session/liveness`).

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use karmada_api::cluster::Cluster;
use karmada_api::strings::{conditions, taints};

use crate::{condition, seconds};

/// How long a cluster may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// After its last word. 40 s where nothing is configured.
    pub silence: SignedDuration,
    /// Before its first word, counted from when the hub started or the cluster was made. 60 s where nothing is
    /// configured.
    pub startup: SignedDuration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { silence: SignedDuration::from_secs(40), startup: SignedDuration::from_secs(60) }
    }
}

/// What the hub knows of the contact with an agent. It lives in memory: after a restart of the hub nothing is known,
/// and the startup grace runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// When the agent was last heard, whatever it said.
    pub last_heard: Option<Timestamp>,
    /// Since when the hub listens for it: the hub's start, or the cluster's creation, whichever is later.
    pub listening_since: Timestamp,
}

impl Contact {
    /// The contact, by `now`, with a cluster that was made at `created`: who was heard under its name before was another. A time of
    /// creation that is in the future is ignored: the clock was ahead when the Cluster was created.
    pub fn of_one_made(self, created: Option<Timestamp>, now: Timestamp) -> Self {
        let Some(created) = created.filter(|created| *created <= now) else { return self };
        Self {
            last_heard: self.last_heard.filter(|heard| *heard >= created),
            listening_since: self.listening_since.max(created),
        }
    }
}

/// When a silent cluster becomes Ready=Unknown.
pub fn deadline(contact: &Contact, grace: &Grace) -> Timestamp {
    let (since, grace) = match contact.last_heard {
        Some(heard) => (heard, grace.silence),
        None => (contact.listening_since, grace.startup),
    };
    since.saturating_add(grace).unwrap_or(Timestamp::MAX)
}

/// Whether nobody is there to remove what was placed in a cluster that is not connected now and was made at `created`. A link that broke
/// just now comes back, and what is to be removed is told then; who was never heard since the cluster was made placed nothing.
pub fn is_lost(contact: &Contact, created: Option<Timestamp>, grace: &Grace, now: Timestamp) -> bool {
    let of_this_one = contact.of_one_made(created, now);
    let listened_all_along =
        created.is_some_and(|created| created >= contact.listening_since && created <= now);
    (of_this_one.last_heard.is_none() && listened_all_along) || now >= deadline(&of_this_one, grace)
}

/// The Ready condition that the hub sets against the cluster's silence; none while what the cluster reported stands.
pub fn silent(cluster: &Cluster, contact: &Contact, grace: &Grace, now: Timestamp) -> Option<Condition> {
    if now < deadline(contact, grace) {
        return None;
    }
    let (reason, message) = match cluster.condition(conditions::READY) {
        None => (conditions::CLUSTER_STATUS_NEVER_UPDATED, conditions::CLUSTER_STATUS_NEVER_UPDATED_MESSAGE),
        Some(ready) if ready.status == conditions::UNKNOWN => return None,
        Some(_) => (conditions::CLUSTER_STATUS_UNKNOWN, conditions::CLUSTER_STATUS_UNKNOWN_MESSAGE),
    };
    Some(condition(conditions::READY, conditions::UNKNOWN, reason, message, now))
}

/// The taints that follow from the Ready condition: not-ready where it is false or absent, unreachable where it is
/// unknown, neither where it is true. Taints of users stay. One that was added later than now, by a clock that was set back since, was added now: what
/// bears it for a time would bear it until then. None if nothing changes.
pub fn taints(cluster: &Cluster, now: Timestamp) -> Option<Vec<Taint>> {
    let ready = cluster.condition(conditions::READY).map_or(conditions::FALSE, |ready| ready.status.as_str());
    let wanted = match ready {
        conditions::TRUE => None,
        conditions::UNKNOWN => Some(taints::UNREACHABLE),
        _ => Some(taints::NOT_READY),
    };
    let ours = |taint: &Taint| {
        matches!(taint.key.as_str(), taints::NOT_READY | taints::UNREACHABLE)
            && taint.effect == taints::NO_SCHEDULE
    };
    let mut list: Vec<Taint> = cluster.spec.taints.clone();
    list.retain(|taint| !ours(taint) || Some(taint.key.as_str()) == wanted);
    if let Some(key) = wanted
        && !list.iter().any(ours)
    {
        list.push(Taint {
            key: key.to_owned(),
            effect: taints::NO_SCHEDULE.to_owned(),
            value: None,
            time_added: Some(Time(seconds(now))),
        });
    }
    let present = seconds(now);
    for added in list.iter_mut().filter_map(|taint| taint.time_added.as_mut()) {
        added.0 = added.0.min(present);
    }
    (list != cluster.spec.taints).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_lost_once_it_was_silent_for_long_enough_or_was_never_heard() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let lost = |heard: Option<i64>, hub_started, created, now| {
            let contact = Contact { last_heard: heard.map(at), listening_since: at(hub_started) };
            is_lost(&contact, Some(at(created)), &Grace::default(), at(now))
        };
        assert!(!lost(Some(1000), 0, 500, 1001), "its link broke just now");
        assert!(lost(Some(1000), 0, 500, 1040), "it did not come back");
        assert!(lost(None, 0, 500, 501), "it was never there");
        assert!(lost(Some(400), 0, 500, 501), "another of its name was");
        assert!(!lost(None, 1000, 500, 1059), "the hub was restarted, and does not know");
        assert!(lost(None, 1000, 500, 1060), "it does now");
        assert!(
            !lost(Some(1000), 0, 2800, 1001),
            "it was made while the clock was ahead, and its link broke just now"
        );
        assert!(lost(Some(1000), 0, 2800, 1040), "it did not come back");
        assert!(!lost(None, 1000, 2800, 1059), "and the hub was restarted since");
    }
}
