//! Customizations that the hub told: kept in the ledger, they hold also while the hub is away and after a restart.
//!
//! In: the document in the ledger, each time that it is another. Out: the interpreter answers by it at once, and what is of a kind whose answers may
//! be others is looked at again.

use std::collections::BTreeSet;

use karmada_lua::Customization;
use karmada_proto::quoted;
use karmada_proto::v1::Table;

use super::Engine;
use crate::ledger::LedgerError;
use crate::reconcile::order;
use crate::reconcile::workqueue::WorkReason;

/// `apiVersion` and kind.
type Kind = (String, String);

impl Engine {
    /// The customizations are as the ledger has them. One document that cannot be read changes nothing.
    pub(super) fn customize(&mut self) -> Result<(), LedgerError> {
        let Some((hash, body)) = self.parts.shared.ledger.document(Table::Customizations as u32)? else {
            return Ok(());
        };
        if self.customized_by.as_ref() == Some(&hash) {
            return Ok(());
        }
        self.customized_by = Some(hash);
        let all: Vec<Customization> = match serde_json::from_slice(&body) {
            Ok(all) => all,
            Err(error) => {
                tracing::warn!(why = %quoted(&error.to_string()), "the hub's customizations cannot be read");
                return Ok(());
            }
        };
        let kinds = changed(&self.customizations, &all);
        tracing::info!(customizations = all.len(), kinds = kinds.len(), "customizations");
        self.parts.retention.replace(&all);
        self.parts.customized.replace(all.clone());
        self.customizations = all;
        self.look_again_at(&kinds);
        Ok(())
    }

    fn look_again_at(&mut self, kinds: &BTreeSet<Kind>) {
        if kinds.is_empty() {
            return;
        }
        let keys: Vec<String> = self.statuses.keys().cloned().collect();
        for key in keys {
            let ids = self.targets.of_work(&key);
            let concerned =
                ids.iter().find(|id| kinds.contains(&(id.gvk.api_version(), id.gvk.kind.clone())));
            if let Some(id) = concerned {
                self.workqueue.push(&key, order::class(&id.gvk), WorkReason::Drift);
            }
        }
    }
}

/// The kinds of customizations that came, went or changed.
fn changed(before: &[Customization], now: &[Customization]) -> BTreeSet<Kind> {
    let differ = before.iter().filter(|one| !now.contains(one));
    let differ = differ.chain(now.iter().filter(|one| !before.contains(one)));
    differ.map(|one| (one.api_version.clone(), one.kind.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_at_again_is_what_changed() {
        let one = |name: &str, kind: &str, script: &str| Customization {
            name: name.into(),
            api_version: "x/v1".into(),
            kind: kind.into(),
            scripts: [(karmada_interpreter::Operation::Retain, script.to_owned())].into(),
        };
        let before = [one("a", "A", "1"), one("b", "B", "1"), one("c", "C", "1")];
        let now = [one("a", "A", "1"), one("b", "B", "2"), one("d", "D", "1")];
        let kinds: Vec<String> = changed(&before, &now).into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, ["B", "C", "D"]);
        assert!(changed(&now, &now).is_empty());
    }
}
