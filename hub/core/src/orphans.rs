//! Works that a site enforces, or has marked objects of, and that the hub knows nothing of: its ledger is an older copy, its member was
//! restored from an older backup, or the hub's history of them is gone. They stand on the Cluster until a person says what becomes of
//! them. Pure.
//!
//! In: what the agent reports, what a person decided, what the site let go of. Out: the annotation's text, and which are to go how.

use std::collections::BTreeMap;

use karmada_api::strings::annotations::ORPHANS;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Orphans that stand on a Cluster, and bytes of their names in its annotation, which must leave room for what people write there:
/// Kubernetes allows 256 KiB for all annotations of an object. The others are told of once those are gone.
const MOST: usize = 1000;
const BYTES: usize = 32 << 10;
/// Bytes of an orphan's longest fate, and of what stands around it and the name.
const FATE: usize = "\"\":\"undecided\",".len();

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

impl Fate {
    /// The word that stands for it beside the orphan's name.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Undecided => "undecided",
            Fate::Release => "release",
            Fate::Delete => "delete",
        }
    }
}

/// What came of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// Whether some are new.
    pub news: bool,
    /// How many found no room.
    pub left_out: usize,
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

    /// The agent names these; `is_held`: the hub holds such a Work, which thereby is no orphan.
    pub fn reported(&mut self, keys: &[String], is_held: impl Fn(&str) -> bool) -> Reported {
        self.0.retain(|key, _| !is_held(key));
        let before = self.0.len();
        let mut bytes: usize = self.0.keys().map(|key| written(key)).sum();
        let mut left_out = 0;
        for key in keys.iter().filter(|key| !is_held(key)) {
            if self.0.contains_key(key) {
                continue;
            }
            let more = written(key);
            if self.0.len() < MOST && bytes + more <= BYTES {
                self.0.insert(key.clone(), Fate::Undecided);
                bytes += more;
            } else {
                left_out += 1;
            }
        }
        Reported { news: self.0.len() > before, left_out }
    }

    /// The site let go of one. True where it was among them.
    pub fn gone(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each by its name.
    pub fn fates(&self) -> &BTreeMap<String, Fate> {
        &self.0
    }

    /// A person decided on one. One that is not among them stays out.
    pub fn decide(&mut self, key: &str, fate: Fate) {
        if let Some(decided) = self.0.get_mut(key) {
            *decided = fate;
        }
    }

    /// Those of which a person decided, and whether their objects stay.
    pub fn decided(&self) -> Vec<(String, bool)> {
        let decided = self.0.iter().filter(|(_, fate)| **fate != Fate::Undecided);
        decided.map(|(key, fate)| (key.clone(), *fate == Fate::Release)).collect()
    }
}

/// Bytes that one takes at most in the annotation, where some characters take more than in its name.
fn written(key: &str) -> usize {
    let escaped = key.chars().map(|c| if c.is_control() || "\"\\".contains(c) { 6 } else { c.len_utf8() });
    escaped.sum::<usize>() + FATE
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
        let none = |left_out| Reported { news: false, left_out };
        let told = orphans.reported(&keys(&["a", "b", "held"]), |key| key == "held");
        assert_eq!(told, Reported { news: true, left_out: 0 });
        assert_eq!(orphans.reported(&keys(&["a"]), |_| false), none(0), "known already");
        assert_eq!((orphans.count(), orphans.decided()), (2, Vec::new()));
        let decided = json!({"metadata": {"annotations": {ORPHANS: r#"{"a":"release","b":"delete","c":"undecided"}"#}}});
        let mut orphans = Orphans::of(&decided);
        assert_eq!(orphans.reported(&keys(&["a"]), |_| false), none(0), "what was decided stands");
        assert_eq!(orphans.decided(), [("a".to_owned(), true), ("b".to_owned(), false)]);
        let (mut other, fates) = (orphans.clone(), [Fate::Undecided, Fate::Release, Fate::Delete]);
        for fate in fates {
            other.decide("c", fate);
            other.decide("nobody", fate);
            let text = format!(r#"{{"a":"release","b":"delete","c":"{}"}}"#, fate.word());
            assert_eq!(other.text(), Some(text));
        }
        assert!(orphans.gone("a") && !orphans.gone("a"));
        assert_eq!(orphans.reported(&[], |key| key == "b"), none(0));
        assert_eq!(orphans.text().as_deref(), Some(r#"{"c":"undecided"}"#));
        assert_eq!(Orphans::of(&json!({"metadata": {"annotations": {ORPHANS: "no json"}}})).count(), 0);
        let many: Vec<String> = (0..5000).map(|at| format!("w{at}")).collect();
        assert_eq!(orphans.reported(&many, |_| false), Reported { news: true, left_out: 4001 });
        assert_eq!(orphans.count(), MOST);
        assert_eq!(orphans.reported(&many, |_| false), none(4001));
    }

    /// Whatever a site calls them: people write on the Cluster as well.
    #[test]
    fn long_names_take_no_more_room_than_is_theirs() {
        for name in [
            "x".repeat(243),
            "\u{1}".repeat(243),
            "\"".repeat(243),
            "\u{7f}".repeat(100),
            "ü".repeat(100),
            String::new(),
        ] {
            let many: Vec<String> = (0..1000).map(|at| format!("{at}{name}")).collect();
            let mut orphans = Orphans::default();
            let told = orphans.reported(&many, |_| false);
            assert!(told.news && orphans.count() + told.left_out == 1000, "{told:?}");
            let bytes = orphans.text().unwrap().len();
            assert!(bytes <= BYTES + 2, "{bytes} of {name:.1}");
            assert_eq!(told.left_out == 0, name.is_empty());
            let first = many.first().unwrap();
            assert!(
                orphans.gone(first) && orphans.reported(std::slice::from_ref(first), |_| false).news,
                "room again"
            );
        }
    }
}
