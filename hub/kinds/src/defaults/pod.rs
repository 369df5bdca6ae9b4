//! Pods and what they are made of.
//!
//! In: the fields of a Pod, its spec, a container or a volume, after their plain defaults. Out: the same with requests, host ports, service
//! accounts and pull policies that follow from other fields. A reference to an image is only read here, never refused.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::{Fields, object, set, text};

/// A Pod itself, not the template of one: requests from limits, service links, host ports.
pub(super) fn pod(fields: &mut Fields) {
    let spec = object(fields, "spec");
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            if host_network {
                for port in items(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned()
                        && port.get("hostPort").is_none_or(|host| host.as_i64() == Some(0))
                    {
                        port.insert("hostPort".to_owned(), number);
                    }
                }
            }
        }
    }
    super::whole_pod::resources(spec);
    set(spec, "enableServiceLinks", json!(true));
}

fn items<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn requests_from_limits(container: &mut Fields) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = object(resources, "requests");
    for (resource, limit) in limits {
        requests.entry(resource).or_insert(limit);
    }
}

/// The spec of a Pod or of its template.
pub(super) fn pod_spec(spec: &mut Fields) {
    // The old name of the field says the same.
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        spec.insert("serviceAccountName".to_owned(), account.clone().into());
        spec.insert("serviceAccount".to_owned(), account.into());
    }
}

pub(super) fn container(fields: &mut Fields) {
    if text(fields, "imagePullPolicy").is_empty() {
        let policy = if image_tag(text(fields, "image")) == "latest" { "Always" } else { "IfNotPresent" };
        fields.insert("imagePullPolicy".to_owned(), policy.into());
    }
}

/// The tag that an image reference means: `latest` where it names neither tag nor digest; none where it is no reference.
fn image_tag(image: &str) -> &str {
    let whole = whole(image);
    // What looks like a digest alone is no name.
    let is_digest = image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let Some(found) = REFERENCE.captures(&whole).filter(|_| !is_digest) else { return "" };
    let before = whole.len() - image.len();
    let end = found.name("tag").or(found.name("digest")).map_or(whole.len(), |rest| rest.start() - 1);
    if end > 255 {
        return "";
    }
    match (found.name("tag"), found.name("digest")) {
        (Some(tag), _) => image.get(tag.start() - before..tag.end() - before).unwrap_or_default(),
        (None, Some(_)) => "",
        (None, None) => "latest",
    }
}

/// The reference with its registry, as it is judged.
fn whole(image: &str) -> String {
    match image.split_once('/') {
        Some((first, _))
            if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first =>
        {
            image.to_owned()
        }
        _ => format!("docker.io/library/{image}"),
    }
}

/// A reference to an image: registry, name in small letters, tag, digest.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    const HOST: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
    const PART: &str = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let registry = format!(r"(?:{HOST}(?:\.{HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let pattern = format!(
        r"^{registry}(?:/{PART})+(?::(?P<tag>[0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(?:@(?P<digest>{digest}))?$"
    );
    Regex::new(&pattern).expect("the pattern above is a regular expression")
});

/// A volume that names no source is an empty directory; one that is an image is pulled as a container's would be.
pub(super) fn volume(fields: &mut Fields) {
    if let Some(image) = fields.get_mut("image").and_then(Value::as_object_mut)
        && text(image, "pullPolicy").is_empty()
    {
        let policy = if image_tag(text(image, "reference")) == "latest" { "Always" } else { "IfNotPresent" };
        image.insert("pullPolicy".to_owned(), policy.into());
    }
    if fields.iter().all(|(name, value)| name == "name" || value.is_null()) {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
}
