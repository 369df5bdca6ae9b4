//! A Pod as the checks of Pod security look at it, and the words that they share.
//!
//! In: annotations and spec of a Pod, or of a template of one. Out: its containers, who of them does what, and lists of names as
//! sentences hold them; and what a check finds.

use std::collections::BTreeSet;

use serde_json::Value;

/// What a check finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// In few words, the same for all Pods that do this.
    pub(super) reason: &'static str,
    /// Who and what.
    pub(super) detail: String,
}

/// What is judged, and by which release's rules.
pub(super) struct Pod<'a> {
    pub(super) annotations: &'a Value,
    pub(super) spec: &'a Value,
    pub(super) minor: u64,
}

impl<'a> Pod<'a> {
    /// All containers: those that prepare, those that run, those that were added to look into it.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| spec[list].as_array().into_iter().flatten())
    }

    /// The names of the containers of which something is so.
    pub(super) fn which(&self, so: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|one| so(one)).map(name).collect()
    }

    /// The volumes.
    pub(super) fn volumes(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.spec["volumes"].as_array().into_iter().flatten()
    }

    /// Whether it runs on Windows, which has none of what is Linux' own to be restricted: since 1.25.
    pub(super) fn excused_as_windows(&self) -> bool {
        self.minor >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Whether its users are its own and nobody on the node, so that root in it is not root there: what counts since 1.35.
    pub(super) fn has_own_users(&self) -> bool {
        self.minor >= 35 && self.spec["hostUsers"] == false
    }

    /// Who has something wrong in the security context: the Pod itself, containers, or both.
    pub(super) fn setters(&self, wrong: impl Fn(&Value) -> bool) -> Option<String> {
        let itself = wrong(&self.spec["securityContext"]);
        let mut all = Vec::from_iter(itself.then(|| "pod".to_owned()));
        all.extend(containers(&self.which(|one| wrong(&one["securityContext"]))));
        (!all.is_empty()).then(|| all.join(" and "))
    }

    /// The values that are wrong in the security contexts of the Pod and its containers, each once.
    pub(super) fn in_contexts(&self, wrong: impl Fn(&'a Value) -> Option<&'a str>) -> BTreeSet<&'a str> {
        let own = wrong(&self.spec["securityContext"]);
        own.into_iter().chain(self.containers().filter_map(|one| wrong(&one["securityContext"]))).collect()
    }
}

/// The name of a container or a volume.
pub(super) fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

/// Every text of a list.
pub(super) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// `container "a"`, `containers "a", "b"`; nothing of none.
pub(super) fn containers(names: &[&str]) -> Option<String> {
    (!names.is_empty())
        .then(|| format!("{} {}", number("container", "containers", names.len()), quoted(names)))
}

/// `"a", "b"`.
pub(super) fn quoted<'n>(names: impl IntoIterator<Item = &'n (impl AsRef<str> + ?Sized + 'n)>) -> String {
    let each = names.into_iter().map(|name| format!("\"{}\"", name.as_ref()));
    each.collect::<Vec<_>>().join(", ")
}

/// The word for so many.
pub(super) fn number(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}
