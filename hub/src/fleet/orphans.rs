//! Works that a site enforces, or has marked objects of, and that the hub knows nothing of: its ledger is an older copy, its member was
//! restored from an older backup, or the hub's history of them is gone. They stand on the Cluster until a person says what becomes of
//! them. Pure.
//!
//! In: what the agent reports, what a person decided, what the site let go of. Out: the annotation's text, and which are to go how.

use std::collections::BTreeMap;

use karmada_api::strings::annotations::ORPHANS;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Orphans that stand on a Cluster. The others are told of once those are gone.
const MOST: usize = 1000;

/// What a person decided of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Nothing yet.
    Undecided,
    /// Its objects stay, without our marks.
    Release,
    /// Its objects are deleted.
    Delete,
}

/// The orphans of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Orphans(BTreeMap<String, Fate>);

impl Orphans {
    /// As they stand on a Cluster. A text that nobody can read is none.
    pub fn of(cluster: &Value) -> Self {
        let text = cluster["metadata"]["annotations"][ORPHANS].as_str();
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The text that stands for them; `None` where there are none.
    pub fn text(&self) -> Option<String> {
        if self.0.is_empty() { None } else { serde_json::to_string(&self.0).ok() }
    }

    /// The agent names these; `is_held`: the hub holds such a Work, which thereby is no orphan. True where some are new.
    pub fn reported(&mut self, keys: &[String], is_held: impl Fn(&str) -> bool) -> bool {
        self.0.retain(|key, _| !is_held(key));
        let before = self.0.len();
        for key in keys.iter().filter(|key| !is_held(key)) {
            if self.0.len() < MOST {
                self.0.entry(key.clone()).or_insert(Fate::Undecided);
            }
        }
        self.0.len() > before
    }

    /// The site let go of one. True where it was among them.
    pub fn gone(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Those of which a person decided, and whether their objects stay.
    pub fn decided(&self) -> Vec<(String, bool)> {
        let decided = self.0.iter().filter(|(_, fate)| **fate != Fate::Undecided);
        decided.map(|(key, fate)| (key.clone(), *fate == Fate::Release)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn orphans_stand_until_the_site_lets_go_of_them() {
        let keys = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut orphans = Orphans::default();
        assert_eq!(orphans.text(), None);
        assert!(orphans.reported(&keys(&["a", "b", "held"]), |key| key == "held"));
        assert!(!orphans.reported(&keys(&["a"]), |_| false), "known already");
        assert_eq!((orphans.count(), orphans.decided()), (2, Vec::new()));
        let decided = json!({"metadata": {"annotations": {ORPHANS: r#"{"a":"release","b":"delete","c":"undecided"}"#}}});
        let mut orphans = Orphans::of(&decided);
        assert!(!orphans.reported(&keys(&["a"]), |_| false), "what was decided stands");
        assert_eq!(orphans.decided(), [("a".to_owned(), true), ("b".to_owned(), false)]);
        assert!(orphans.gone("a") && !orphans.gone("a"));
        assert!(!orphans.reported(&[], |key| key == "b"));
        assert_eq!(orphans.text().as_deref(), Some(r#"{"c":"undecided"}"#));
        assert_eq!(Orphans::of(&json!({"metadata": {"annotations": {ORPHANS: "no json"}}})).count(), 0);
        let many: Vec<String> = (0..5000).map(|at| format!("w{at}")).collect();
        orphans.reported(&many, |_| false);
        assert_eq!(orphans.count(), MOST);
    }
}
