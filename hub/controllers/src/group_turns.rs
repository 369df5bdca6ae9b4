//! Turns of those who place workloads of one group: which clusters its members leave to a binding is read, and what is decided by it is written,
//! by one of them at a time. Two that looked at the same moment would both see nobody, and be placed as if each were alone.
//!
//! In: a binding's namespace and groups. Out: a turn, once whoever has it is done. It is held over a decision and its write alone, not while agents
//! are asked, so that a worker waits for moments; who is in no group waits for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use karmada_api::binding::BindingSpec;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Held, OwnedMutexGuard};

/// Namespace, whether its members keep apart, and the group's name.
type Group = (String, bool, String);

/// Who has their turn.
#[derive(Default)]
pub struct GroupTurns(Mutex<BTreeMap<Group, Weak<Held<()>>>>);

/// The turn of a binding in all of its groups, until it is dropped.
#[derive(Default)]
pub struct Turn {
    _groups: Vec<OwnedMutexGuard<()>>,
}

impl GroupTurns {
    /// Waits for the turn of a binding. Groups are taken in one order by all, so that no two wait for each other.
    pub async fn take(&self, namespace: &str, spec: &BindingSpec) -> Turn {
        let mut turn = Turn::default();
        for group in groups(namespace, spec) {
            let lock = self.lock(group);
            turn._groups.push(lock.lock_owned().await);
        }
        turn
    }

    /// The lock of a group. Those that nobody holds or waits for any more are forgotten.
    fn lock(&self, group: Group) -> Arc<Held<()>> {
        let mut locks = self.0.lock();
        if let Some(lock) = locks.get(&group).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Held::new(()));
        locks.insert(group, Arc::downgrade(&lock));
        lock
    }
}

fn groups(namespace: &str, spec: &BindingSpec) -> BTreeSet<Group> {
    let Some(groups) = &spec.workload_affinity_groups else { return BTreeSet::new() };
    let named = [(false, &groups.affinity_group), (true, &groups.anti_affinity_group)];
    let said = named.into_iter().filter(|(_, name)| !name.is_empty());
    said.map(|(apart, name)| (namespace.to_owned(), apart, name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn of(with: &str, apart: &str) -> BindingSpec {
        let groups = json!({"affinityGroup": with, "antiAffinityGroup": apart});
        serde_json::from_value(json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}, "workloadAffinityGroups": groups}))
            .unwrap()
    }

    /// Whether a turn comes at once.
    async fn comes(turns: &GroupTurns, namespace: &str, spec: &BindingSpec) -> bool {
        tokio::time::timeout(Duration::from_secs(1), turns.take(namespace, spec)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_a_group_has_its_turn_and_others_wait_for_nobody() {
        let turns = GroupTurns::default();
        let held = turns.take("shop", &of("a", "b")).await;
        assert!(!comes(&turns, "shop", &of("a", "")).await);
        assert!(!comes(&turns, "shop", &of("", "b")).await);
        assert!(!comes(&turns, "shop", &of("c", "b")).await, "one of both is enough");
        assert!(
            comes(&turns, "shop", &of("b", "a")).await,
            "to be with somebody is another group than to be apart"
        );
        assert!(comes(&turns, "home", &of("a", "b")).await);
        assert!(comes(&turns, "shop", &of("", "")).await);
        drop(held);
        assert!(comes(&turns, "shop", &of("a", "b")).await);
        assert!(comes(&turns, "shop", &of("d", "")).await);
        assert!(turns.0.lock().len() <= 1, "what nobody holds is forgotten");
    }
}
