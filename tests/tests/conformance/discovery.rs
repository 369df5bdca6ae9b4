//! What is served, as clients find it out: exactly the catalogue, in every form of discovery, and documents for all of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tests::api::text_at;

use crate::request::{Caller, Calls as _};
use tests::subject::{is_hub, shared};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `group/version/plural[/sub]` to `kind scope verbs`.
type Served = BTreeMap<String, String>;

#[test]
fn both_forms_of_discovery_agree() {
    let subject = shared();
    let caller = subject.caller();
    assert_eq!(legacy(&caller), aggregated(&caller));
}

#[test]
fn the_catalogue_of_kubernetes_is_served() {
    let Some(rows) = shared_file("kubernetes/resources.tsv") else { return };
    let subject = shared();
    let served = legacy(&subject.caller());
    let mut missing = Vec::new();
    let mut groups = BTreeSet::new();
    for row in rows.lines().skip(1) {
        let cells: Vec<&str> = row.split('\t').collect();
        let [group, version, plural, sub, kind, scope, ..] = cells[..] else { panic!("{row}") };
        let verbs = cells.last().unwrap();
        groups.insert(format!("{group}/{version}/"));
        let sub = if sub.is_empty() { String::new() } else { format!("/{sub}") };
        let key = format!("{group}/{version}/{plural}{sub}");
        let wanted = format!("{} {scope} {verbs}", kind.rsplit('/').next().unwrap());
        match served.get(&key) {
            Some(found) if *found == wanted => {}
            found => missing.push(format!("{key}: {wanted}, served: {found:?}")),
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    // Nothing of Kubernetes' groups beyond the catalogue, which names what this hub does not store otherwise.
    let count = served.keys().filter(|key| groups.iter().any(|group| key.starts_with(group))).count();
    assert_eq!(count, rows.lines().count() - 1, "{served:#?}");
}

#[test]
fn the_kinds_of_karmada_are_served() {
    if !is_hub() {
        return;
    }
    let Some(fields) = shared_file("karmada/fields.md") else { return };
    let subject = shared();
    let served = legacy(&subject.caller());
    let mut seen = 0;
    for line in fields.lines().filter(|line| line.starts_with('`') && line.contains(" plural=")) {
        let words: Vec<&str> = line.trim_matches('`').split_whitespace().collect();
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)).unwrap_or("");
        let key = format!("{}/{}", words[1], value("plural="));
        let found = served.get(&key).unwrap_or_else(|| panic!("{key} is not served"));
        assert!(found.starts_with(&format!("{} {} ", words[0], value("scope="))), "{key}: {found}");
        assert_eq!(
            served.contains_key(&format!("{key}/status")),
            value("subresources=").contains("status"),
            "{key}"
        );
        seen += 1;
    }
    assert!(seen >= 17, "{seen} kinds were found in the list");
    for plural in ["clusterpropagationpolicies", "clusteroverridepolicies"] {
        assert!(served.contains_key(&format!("policy.karmada.io/v1alpha1/{plural}")), "{plural}");
    }
    assert!(served.contains_key("work.karmada.io/v1alpha2/clusterresourcebindings"));
    assert!(served.contains_key("cluster.karmada.io/v1alpha1/clusters/status"));
}

#[test]
fn documents_are_cached_by_their_hash() {
    let subject = shared();
    let caller = subject.caller();
    for (path, accept) in [("/apis", AGGREGATED), ("/api", AGGREGATED), ("/openapi/v2", "application/json")] {
        let first = caller.get_as(path, accept).is(200);
        let etag = first.header("etag").to_owned();
        assert!(etag.len() > 10, "{path}: {:?}", first.headers);
        let headers = [("accept", accept), ("if-none-match", etag.as_str())];
        let again = caller.send(http::Method::GET, path, &headers, "");
        assert_eq!((again.code, again.text.as_str()), (304, ""), "{path}");
    }
    let index = caller.get("/openapi/v3").is(200).json();
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("apis/apps/v1"), "{paths:?}");
    for (path, entry) in paths {
        let url = text_at(entry, "/serverRelativeURL");
        assert!(url.contains("hash="), "{path}: {url}");
        let document = caller.get(url).is(200);
        assert!(document.header("cache-control").contains("immutable"), "{path}: {:?}", document.headers);
        assert_eq!(text_at(&document.json(), "/openapi"), "3.0.0", "{path}");
    }
    // A document that has changed since is where its new hash says.
    let url = text_at(&paths["apis/apps/v1"], "/serverRelativeURL");
    let moved = caller.get("/openapi/v3/apis/apps/v1?hash=0123456789ABCDEF").is(301);
    assert!(moved.header("location").ends_with(url), "{:?}", moved.headers);
    caller.get("/openapi/v3/apis/apps/v1").is(200);
}

#[test]
fn the_root_lists_paths_and_unknown_ones_are_not_found() {
    let subject = shared();
    let caller = subject.caller();
    let root = caller.get("/").is(200).json();
    let paths: Vec<&str> = root["paths"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for path in ["/api", "/apis", "/apis/apps/v1", "/healthz", "/readyz", "/livez", "/version", "/openapi/v3"]
    {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
    for path in ["/nothing", "/api/v2", "/apis/nobody.example.com", "/apis/apps/v9", "/openapi/v4"] {
        assert_eq!(caller.get(path).code, 404, "{path}");
    }
    let apps = caller.get("/apis/apps").is(200).json();
    assert_eq!((text_at(&apps, "/kind"), text_at(&apps, "/preferredVersion/version")), ("APIGroup", "v1"));
}

/// Groups that other tests bring and take away meanwhile.
fn comes_and_goes(group: &str) -> bool {
    group.ends_with(".example.com")
}

fn legacy(caller: &Caller) -> Served {
    let mut versions = vec![("v1".to_owned(), "/api/v1".to_owned())];
    for group in caller.get("/apis").is(200).json()["groups"].as_array().unwrap() {
        if comes_and_goes(text_at(group, "/name")) {
            continue;
        }
        for version in group["versions"].as_array().unwrap() {
            let version = text_at(version, "/groupVersion").to_owned();
            versions.push((version.clone(), format!("/apis/{version}")));
        }
    }
    let mut served = Served::new();
    for (version, path) in versions {
        let list = caller.get(&path).is(200).json();
        assert_eq!(text_at(&list, "/groupVersion"), version);
        let prefix = if version.contains('/') { version } else { format!("/{version}") };
        for resource in list["resources"].as_array().unwrap() {
            let scope = if resource["namespaced"] == true { "Namespaced" } else { "Cluster" };
            let key = format!("{prefix}/{}", text_at(resource, "/name"));
            served.insert(key, format!("{} {scope} {}", text_at(resource, "/kind"), verbs(resource)));
        }
    }
    served
}

fn aggregated(caller: &Caller) -> Served {
    let mut served = Served::new();
    for root in ["/api", "/apis"] {
        let answer = caller.get_as(root, AGGREGATED).is(200);
        assert_eq!(answer.header("content-type"), AGGREGATED);
        for group in answer.json()["items"].as_array().unwrap() {
            if group["metadata"]["name"].as_str().is_some_and(comes_and_goes) {
                continue;
            }
            for version in group["versions"].as_array().unwrap() {
                let prefix = format!("{}/{}", text_at(group, "/metadata/name"), text_at(version, "/version"));
                for resource in version["resources"].as_array().unwrap() {
                    let name = text_at(resource, "/resource");
                    let scope = text_at(resource, "/scope");
                    let kind = text_at(resource, "/responseKind/kind");
                    served.insert(format!("{prefix}/{name}"), format!("{kind} {scope} {}", verbs(resource)));
                    for sub in resource["subresources"].as_array().into_iter().flatten() {
                        let kind = text_at(sub, "/responseKind/kind");
                        let key = format!("{prefix}/{name}/{}", text_at(sub, "/subresource"));
                        served.insert(key, format!("{kind} {scope} {}", verbs(sub)));
                    }
                }
            }
        }
    }
    served
}

fn verbs(resource: &Value) -> String {
    let mut verbs: Vec<&str> =
        resource["verbs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    verbs.sort_unstable();
    verbs.join(",")
}

/// A file of the facts beside the repository; prints why where there is none.
fn shared_file(name: &str) -> Option<String> {
    let folder = std::env::var_os("FLEET_SHARED")
        .map_or_else(|| tests::folder::workspace_root().join("../shared"), std::path::PathBuf::from);
    let file = folder.join(name);
    let text = std::fs::read_to_string(&file).ok();
    if text.is_none() {
        println!("skipped: there is no {}", file.display());
    }
    text
}
