//! Files of a volume that lie in each other's place: what is written there last is seen.
//!
//! In: the volumes of a Pod. Out: warnings.

use serde_json::Value;

use super::Warnings;
use crate::validation::{list, text};

/// Where one file lies, and what it comes from (empty where that goes without saying).
#[derive(PartialEq)]
struct Laid {
    path: String,
    from: String,
}

impl Laid {
    fn told(&self) -> String {
        let Laid { path, from } = self;
        if from.is_empty() { format!("{path:?}") } else { format!("{path:?} ({from})") }
    }

    fn meets(&self, other: &Laid) -> bool {
        let (own, others) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (own.starts_with(&others) || others.starts_with(&own))
    }
}

/// Every two files that meet, volume by volume.
pub(super) fn warnings(volumes: &[Value], out: &mut Warnings) {
    for volume in volumes {
        let name = text(volume, "name");
        for (field, named, called) in [
            ("configMap", "name", "ConfigMap"),
            ("secret", "secretName", "Secret"),
            ("downwardAPI", "", "DownwardAPI"),
        ] {
            let source = &volume[field];
            let of = match named {
                "" => called.to_owned(),
                named => format!("{called} {:?}", text(source, named)),
            };
            let mut before = Vec::new();
            items(source, "").into_iter().for_each(|one| lay(name, &of, one, &mut before, out));
        }
        let mut before = Vec::new();
        for source in list(&volume["projected"], "sources") {
            let sources =
                source.as_object().map_or(0, |all| all.values().filter(|one| !one.is_null()).count());
            if sources == 0 {
                out.push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            projected(source).into_iter().for_each(|one| lay(name, "Projected", one, &mut before, out));
        }
    }
}

fn lay(volume: &str, of: &str, mut one: Laid, before: &mut Vec<Laid>, out: &mut Warnings) {
    one.path.truncate(one.path.trim_end_matches('/').len());
    for other in before.iter().filter(|other| one.meets(other)) {
        out.push(format!(
            "volume {volume:?} ({of}): overlapping paths: {} with {}",
            one.told(),
            other.told()
        ));
    }
    before.push(one);
}

fn items(source: &Value, from: &str) -> Vec<Laid> {
    let laid = |item: &Value| Laid { path: text(item, "path").to_owned(), from: from.to_owned() };
    list(source, "items").iter().map(laid).collect()
}

/// The files of one source of a projected volume: of what it is first.
fn projected(source: &Value) -> Vec<Laid> {
    for (field, called) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if source[field]["items"].is_array() {
            return items(&source[field], &format!("{called} {:?}", text(&source[field], "name")));
        }
    }
    if source["downwardAPI"]["items"].is_array() {
        return items(&source["downwardAPI"], "DownwardAPI");
    }
    let token = &source["serviceAccountToken"];
    if token.is_object() {
        return vec![Laid { path: text(token, "path").to_owned(), from: "ServiceAccountToken".to_owned() }];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_in_each_others_place_are_told_of() {
        let volumes = json!([
            {"name": "v", "configMap": {"name": "c", "items": [{"path": "a"}, {"path": "a/b/"}, {"path": "ab"}]}},
            {"name": "w", "projected": {"sources": [
                {"secret": {"name": "s", "items": [{"path": "a"}]}}, {"serviceAccountToken": {"path": "a"}}, {}]}}]);
        let mut out = Warnings::new();
        warnings(volumes.as_array().unwrap(), &mut out);
        assert_eq!(
            out,
            [
                "volume \"v\" (ConfigMap \"c\"): overlapping paths: \"a/b\" with \"a\"",
                "volume \"w\" (Projected): overlapping paths: \"a\" (ServiceAccountToken) with \"a\" (Secret \"s\")",
                "volume \"w\" (Projected) has no sources provided",
            ]
        );
    }
}
