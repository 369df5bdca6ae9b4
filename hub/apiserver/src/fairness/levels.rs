//! How many seats and queues each priority level gets.
//!
//! Pure. In: stored PriorityLevelConfigurations, the seats of the whole server. Out: each level's limits: its share of the seats
//! by `nominalConcurrencyShares`, rounded up.

use std::collections::BTreeMap;

use karmada_kinds::flow_control;
use serde_json::Value;

use super::queue_set::Limits;

/// What a level is to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LevelConfiguration {
    pub uid: String,
    /// `None` for exempt ones.
    pub limits: Option<Limits>,
}

impl LevelConfiguration {
    /// The most seats that one request takes here: wider ones would keep the level from everybody else.
    pub(super) fn widest(&self) -> u32 {
        let Some(limits) = self.limits else { return u32::MAX };
        let share = limits.seats * 15 / 100;
        let by_hand = u32::try_from(limits.hand)
            .ok()
            .filter(|hand| *hand > 0)
            .map_or(share, |hand| limits.seats / hand);
        share.min(by_hand).max(1)
    }
}

/// Every level by name; the mandatory ones are there whether they are stored or not.
pub(super) fn wanted(stored: &[Value], seats: u32) -> BTreeMap<String, LevelConfiguration> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut all: BTreeMap<String, Value> =
        flow_control::mandatory_levels().into_iter().map(|object| (name(&object), object)).collect();
    all.extend(stored.iter().map(|object| (name(object), object.clone())));
    let shares = |object: &Value| {
        let spec = &object["spec"];
        let (part, default) = if spec["type"] == "Exempt" { ("exempt", 0) } else { ("limited", 30) };
        spec[part]["nominalConcurrencyShares"].as_u64().unwrap_or(default)
    };
    let sum: u64 = all.values().map(shares).sum();
    let read = |(name, object): (String, Value)| {
        let spec = &object["spec"];
        let response = &spec["limited"]["limitResponse"];
        let number = |field: &str, default: u64| {
            usize::try_from(response["queuing"][field].as_u64().unwrap_or(default)).unwrap_or(0)
        };
        let own = (u64::from(seats) * shares(&object)).div_ceil(sum.max(1));
        let queues = if response["type"] == "Queue" { number("queues", 64) } else { 0 };
        let limits = (spec["type"] != "Exempt").then(|| Limits {
            seats: u32::try_from(own).unwrap_or(u32::MAX),
            queues,
            hand: if queues == 0 { 0 } else { number("handSize", 8) },
            length: number("queueLengthLimit", 50),
        });
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        (name, LevelConfiguration { uid, limits })
    };
    all.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_shared_out_as_kube_apiserver_does() {
        let all = wanted(&flow_control::levels(), 600);
        let seats = |name: &str| all[name].limits.map(|limits| limits.seats);
        assert_eq!(seats("exempt"), None);
        assert_eq!(
            [
                "system",
                "node-high",
                "leader-election",
                "workload-high",
                "workload-low",
                "global-default",
                "catch-all"
            ]
            .map(|name| seats(name).unwrap()),
            [74, 98, 25, 98, 245, 49, 13]
        );
        assert_eq!(all["catch-all"].limits.map(|limits| limits.queues), Some(0));
        assert_eq!(
            all["global-default"].limits,
            Some(Limits { seats: 49, queues: 128, hand: 6, length: 50 })
        );
        assert_eq!(
            (all["global-default"].widest(), all["catch-all"].widest(), all["workload-low"].widest()),
            (7, 1, 36)
        );
        let alone = wanted(&[], 600);
        assert_eq!(alone.keys().collect::<Vec<_>>(), ["catch-all", "exempt"]);
    }
}
