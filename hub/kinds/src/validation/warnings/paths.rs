//! Files of a volume that lie in each other's place: what is written there last is seen.
//!
//! In: the volumes of a Pod. Out: warnings.

use std::collections::HashMap;

use serde_json::Value;

use super::{MOST, Warnings};
use crate::validation::{list, text};

/// Where one file lies, and what it comes from (empty where that goes without saying).
struct Laid {
    path: String,
    from: String,
}

impl Laid {
    fn told(&self) -> String {
        let Laid { path, from } = self;
        if from.is_empty() { format!("{path:?}") } else { format!("{path:?} ({from})") }
    }
}

/// A folder or file of a volume.
#[derive(Default)]
struct VolumePath {
    /// The files that lie here, and those that lie below, in the order in which they were laid.
    here: Vec<usize>,
    below: Vec<usize>,
}

/// What was laid into one volume: by where it lies, so that what it meets is found without going through all of it.
#[derive(Default)]
struct Before {
    files: Vec<Laid>,
    places: Vec<VolumePath>,
    /// Which place a name leads to from another.
    ways: HashMap<(usize, String), usize>,
}

impl Before {
    /// Lays a file; answers those that lie at its place, above it or below it.
    fn lay(&mut self, one: Laid) -> Vec<&Laid> {
        let (file, mut met): (usize, Vec<usize>) = (self.files.len(), Vec::new());
        if !one.path.is_empty() {
            let mut at = 0;
            for name in one.path.split('/') {
                let next = self.places.len() + 1;
                at = *self.ways.entry((at, name.to_owned())).or_insert(next);
                if at == next {
                    self.places.push(VolumePath::default());
                }
                let place = &mut self.places[at - 1];
                met.extend(&place.here);
                place.below.push(file);
            }
            let place = &mut self.places[at - 1];
            // It lies here, not below; who is below itself was not met on the way.
            place.below.pop();
            met.extend(&place.below);
            place.here.push(file);
        }
        met.sort_unstable();
        self.files.push(one);
        met.into_iter().map(|at| &self.files[at]).collect()
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
            let mut before = Before::default();
            items(source, "").into_iter().for_each(|one| lay(name, &of, one, &mut before, out));
        }
        let mut before = Before::default();
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

fn lay(volume: &str, of: &str, mut one: Laid, before: &mut Before, out: &mut Warnings) {
    if out.len() >= MOST {
        return;
    }
    one.path.truncate(one.path.trim_end_matches('/').len());
    let told = one.told();
    let overlaps = before
        .lay(one)
        .into_iter()
        .map(|other| format!("volume {volume:?} ({of}): overlapping paths: {told} with {}", other.told()));
    out.extend(overlaps);
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
