//! Whether the member's history still is the one that a watch has followed.
//!
//! A member that is put back to a backup goes on at an older version. A watch that is opened there again at the version of before is
//! silent until the member has come so far, and what was lost is never told. So after a connection broke, a small list is asked
//! for first: where its version is lower than what was seen, or the object that changed last is not what it was then, the watch
//! has to begin with a whole list again.
//!
//! In: the objects and versions that a watch saw, and the small list. Out: which list to ask for, and a verdict. Pure.

use karmada_api::object;
use serde_json::Value;

/// What a watch has seen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Everything up to here.
    pub version: String,
    newest: Option<Newest>,
}

/// The object that changed last, as it was then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Newest {
    pub namespace: String,
    pub name: String,
    pub version: String,
    uid: String,
}

/// What a small list says of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the same.
    Same,
    /// The object that changed last has changed since, or is gone: how it was at its version tells more.
    Doubtful,
    /// It is another one, or cannot be compared.
    Other,
}

impl Seen {
    /// An object was listed, or changed to this.
    pub fn object(&mut self, object: &Value) {
        let Some(number) = number(object::resource_version(object)) else { return };
        if self.newest.as_ref().and_then(|newest| self::number(&newest.version)).is_none_or(|n| n <= number) {
            self.newest = Some(Newest {
                namespace: object::namespace(object).to_owned(),
                name: object::name(object).to_owned(),
                version: object::resource_version(object).to_owned(),
                uid: object::uid(object).to_owned(),
            });
        }
    }

    /// The object that the small list is to be of; any, where none was seen.
    pub fn newest(&self) -> Option<&Newest> {
        self.newest.as_ref()
    }

    /// What the list of now says.
    pub fn now(&self, list: &Value) -> Verdict {
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let reached = match (number(version), number(&self.version)) {
            (Some(now), Some(seen)) => now >= seen,
            // Not Kubernetes' own versions: they are equal, or nothing is known.
            _ => version == self.version,
        };
        match (reached, &self.newest) {
            (false, _) => Verdict::Other,
            (true, Some(newest)) if !newest.is_in(list) => Verdict::Doubtful,
            (true, _) => Verdict::Same,
        }
    }

    /// What the list of the newest object's own version says.
    pub fn then(&self, list: &Value) -> Verdict {
        match &self.newest {
            Some(newest) if newest.is_in(list) => Verdict::Same,
            _ => Verdict::Other,
        }
    }
}

impl Newest {
    fn is_in(&self, list: &Value) -> bool {
        let items = list.get("items").and_then(Value::as_array);
        items.into_iter().flatten().any(|item| {
            object::name(item) == self.name
                && object::uid(item) == self.uid
                && object::resource_version(item) == self.version
        })
    }
}

fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: &str) -> Value {
        json!({"metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": version}})
    }

    fn list(version: &str, items: &[Value]) -> Value {
        json!({"metadata": {"resourceVersion": version}, "items": items})
    }

    #[test]
    fn a_history_is_the_same_where_it_reached_what_was_seen_and_holds_what_changed_last() {
        let mut seen = Seen::default();
        for (name, version) in [("a", "9"), ("b", "11"), ("c", "10")] {
            seen.object(&object(name, version));
        }
        seen.version = "15".into();
        assert_eq!(seen.newest().map(|newest| newest.name.as_str()), Some("b"), "by number, not by text");
        let b = [object("b", "11")];
        assert_eq!(seen.now(&list("15", &b)), Verdict::Same);
        assert_eq!(seen.now(&list("100", &b)), Verdict::Same);
        assert_eq!(seen.now(&list("9", &b)), Verdict::Other, "it went back");
        assert_eq!(seen.now(&list("100", &[])), Verdict::Doubtful, "gone");
        assert_eq!(seen.now(&list("100", &[object("b", "12")])), Verdict::Doubtful);
        let mut again = object("b", "11");
        again["metadata"]["uid"] = json!("another");
        assert_eq!(seen.now(&list("100", &[again.clone()])), Verdict::Doubtful);
        assert_eq!(seen.then(&list("11", &b)), Verdict::Same);
        assert_eq!(seen.then(&list("11", &[again])), Verdict::Other);
        assert_eq!(seen.then(&list("11", &[])), Verdict::Other);
    }

    #[test]
    fn versions_that_are_no_numbers_are_the_same_or_unknown() {
        let mut seen = Seen::default();
        seen.object(&object("a", "v-a"));
        seen.version = "v-b".into();
        assert_eq!(seen.newest(), None);
        assert_eq!(seen.now(&list("v-b", &[])), Verdict::Same);
        assert_eq!(seen.now(&list("v-c", &[])), Verdict::Other);
        assert_eq!(seen.now(&json!({})), Verdict::Other);
    }
}
