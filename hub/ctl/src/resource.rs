//! What the hub serves, and what a user means by a word. In: discovery documents, words like `deploy`, `clusters`, `pp/web`.
//! Out: resources and their paths.

use anyhow::{Result, bail};
use http::Method;
use serde_json::Value;

use crate::connection::Connection;

/// Aggregated discovery: everything in two requests.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its group; empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// `clusters`.
    pub plural: String,
    /// `cluster`.
    pub singular: String,
    /// `Cluster`.
    pub kind: String,
    /// Short names.
    pub short: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// The collection's path: in `namespace` where the resource has namespaces, everywhere for `None`.
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    /// `deployments.apps`, as errors name it.
    pub fn qualified(&self) -> String {
        dotted(&self.plural, &self.group)
    }

    /// `deployment.apps`, as `-o name` and `deleted` name it.
    pub fn name_prefix(&self) -> String {
        dotted(&self.singular, &self.group)
    }

    fn answers_to(&self, word: &str) -> bool {
        let names = [&self.plural, &self.singular].into_iter().chain(&self.short);
        let mut names = names.map(String::as_str);
        match word.split_once('.') {
            None => names.any(|name| name == word),
            Some((name, rest)) => {
                let group = rest == self.group
                    || rest.strip_prefix(&format!("{}.", self.version)) == Some(&self.group);
                group && names.any(|own| own == name)
            }
        }
    }
}

fn dotted(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Asks what is served.
pub async fn discover(hub: &Connection) -> Result<Vec<Resource>> {
    let mut resources = Vec::new();
    for path in ["/api", "/apis"] {
        resources.extend(read(&hub.send(Method::GET, path, &[("accept", ACCEPT)], None).await?));
    }
    if resources.is_empty() {
        bail!(
            "{} does not serve aggregated discovery: is it a hub, or Kubernetes 1.30 or newer?",
            hub.server
        );
    }
    Ok(resources)
}

/// The resources of an `APIGroupDiscoveryList`, groups and versions in the server's order.
fn read(list: &Value) -> Vec<Resource> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for group in all(&list["items"]) {
        for version in all(&group["versions"]) {
            for resource in all(&version["resources"]) {
                let (plural, kind) = (text(&resource["resource"]), text(&resource["responseKind"]["kind"]));
                let singular = Some(text(&resource["singularResource"])).filter(|name| !name.is_empty());
                found.push(Resource {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    singular: singular.unwrap_or_else(|| kind.to_lowercase()),
                    short: all(&resource["shortNames"]).iter().map(text).collect(),
                    namespaced: resource["scope"] == "Namespaced",
                    plural,
                    kind,
                });
            }
        }
    }
    found
}

fn resolve<'a>(resources: &'a [Resource], word: &str) -> Result<&'a Resource> {
    let lower = word.to_lowercase();
    match resources.iter().find(|resource| resource.answers_to(&lower)) {
        Some(resource) => Ok(resource),
        None => bail!("the server doesn't have a resource type {word:?}"),
    }
}

/// What words name: `type[,type] [name…]` or `type/name …`. No names mean all objects of the type.
pub fn targets<'a>(resources: &'a [Resource], words: &[String]) -> Result<Vec<(&'a Resource, Vec<String>)>> {
    let Some((first, names)) = words.split_first() else { bail!("name a type, for example: clusters") };
    if words.iter().any(|word| word.contains('/')) {
        let pair = |word: &String| match word.split_once('/') {
            Some((kind, name)) if !name.is_empty() => Ok((resolve(resources, kind)?, vec![name.to_owned()])),
            _ => bail!("{word:?}: write type/name for every object, or one type and then names"),
        };
        return words.iter().map(pair).collect();
    }
    first.split(',').map(|kind| Ok((resolve(resources, kind)?, names.to_vec()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn served() -> Vec<Resource> {
        read(&json!({"items": [
            {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
                {"resource": "services", "singularResource": "service", "scope": "Namespaced", "shortNames": ["svc"],
                 "responseKind": {"kind": "Service"}}]}]},
            {"metadata": {"name": "cluster.karmada.io"}, "versions": [{"version": "v1alpha1", "resources": [
                {"resource": "clusters", "scope": "Cluster", "responseKind": {"kind": "Cluster"}}]}]}]}))
    }

    #[test]
    fn words_find_their_resource() {
        let served = served();
        for (word, plural) in [
            ("svc", "services"),
            ("Service", "services"),
            ("services.v1.", "services"),
            ("clusters", "clusters"),
            ("cluster", "clusters"),
            ("clusters.cluster.karmada.io", "clusters"),
            ("cluster.v1alpha1.cluster.karmada.io", "clusters"),
        ] {
            assert_eq!(resolve(&served, word).unwrap().plural, plural, "{word}");
        }
        assert!(resolve(&served, "clusters.apps").is_err() && resolve(&served, "pods").is_err());
    }

    #[test]
    fn targets_and_paths() {
        let served = served();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let shown = |text: &str| {
            let targets = targets(&served, &words(text)).unwrap();
            let texts =
                targets.iter().map(|(resource, names)| format!("{}[{}]", resource.plural, names.join(" ")));
            texts.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("svc,clusters"), "services[] clusters[]");
        assert_eq!(shown("svc a b"), "services[a b]");
        assert_eq!(shown("svc/a cluster/b"), "services[a] clusters[b]");
        assert!(targets(&served, &words("svc/a b")).is_err() && targets(&served, &[]).is_err());
        assert_eq!(served[0].collection(Some("web")), "/api/v1/namespaces/web/services");
        assert_eq!(served[0].collection(None), "/api/v1/services");
        assert_eq!(served[1].collection(Some("web")), "/apis/cluster.karmada.io/v1alpha1/clusters");
        assert_eq!(
            (served[0].name_prefix(), served[1].name_prefix()),
            ("service".into(), "cluster.cluster.karmada.io".into())
        );
    }
}
