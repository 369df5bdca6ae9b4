//! What the absence of a kind from discovery is worth.
//!
//! An API server that starts answers discovery before it knows its custom kinds, and one that cannot reach an aggregated server leaves that
//! one's out. Objects of such a kind are there all the same. So where it matters (a removal), the definitions are asked for: of a kind that
//! neither discovery nor a CustomResourceDefinition nor an APIService knows, there are no objects.
//!
//! In: a kind, discovery of now, the definitions and APIServices in its group. Out: [`Unserved`].

use http::{Request, header};
use karmada_api::object;
use kube::client::Body;
use serde_json::Value;

use super::{Inner, built};
use crate::discovery::Discovery;
use crate::percent::percent_encoded;
use crate::{Gvk, MemberError, Unserved};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// Served where there can be APIServices.
const SERVICES_GROUP: &str = "apiregistration.k8s.io";
/// Names of definitions are enough.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.9";
/// Names per page: each comes with its annotations, which may hold the whole definition once more.
const PAGE: usize = 25;

impl Inner {
    /// What is known of `gvk`, which discovery did not name, on a member that says that it is ready.
    pub(super) async fn unserved(&self, gvk: &Gvk) -> Result<Unserved, MemberError> {
        let served = self.discover().await?;
        if let Some(known) = by_discovery(gvk, &served) {
            return Ok(known);
        }
        for name in self.names_in_group(DEFINITIONS, &gvk.group).await? {
            let path = format!("{DEFINITIONS}/{}", percent_encoded(&name));
            let definition = match self.json(built(Request::get(path).body(Body::empty()))?).await {
                // Deleted since it was listed.
                Err(MemberError::NotFound(_)) => continue,
                definition => definition?,
            };
            if definition.pointer("/spec/names/kind").and_then(Value::as_str) == Some(&gvk.kind) {
                return Ok(Unserved::Hidden);
            }
        }
        if served.has_group(SERVICES_GROUP)
            && !(served.has_group(&gvk.group) && served.is_complete())
            && !self.names_in_group(SERVICES, &gvk.group).await?.is_empty()
        {
            return Ok(Unserved::Hidden);
        }
        Ok(Unserved::Undefined)
    }

    /// Names of the objects at `path` that are named after `group` (`widgets.example.com`, `v1.example.com`).
    async fn names_in_group(&self, path: &str, group: &str) -> Result<Vec<String>, MemberError> {
        let (mut names, mut next) = (Vec::new(), String::new());
        loop {
            let uri = match next.as_str() {
                "" => format!("{path}?limit={PAGE}"),
                next => format!("{path}?limit={PAGE}&continue={}", percent_encoded(next)),
            };
            let request = Request::get(uri).header(header::ACCEPT, METADATA).body(Body::empty());
            let list = self.json(built(request)?).await?;
            let items =
                items(&list).ok_or_else(|| MemberError::Other(format!("{path} answered with no list")))?;
            let named = items.iter().map(object::name);
            let named = named.filter(|name| name.split_once('.').is_some_and(|(_, of)| of == group));
            names.extend(named.map(str::to_owned));
            next = match list.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(token) if !token.is_empty() => token.to_owned(),
                _ => return Ok(names),
            };
        }
    }
}

/// The items of a list; `None` where something else answered, which says nothing of what there is. Of a list of metadata that is empty,
/// kube-apiserver writes `"items": null`.
fn items(list: &Value) -> Option<&[Value]> {
    let is_list = list["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match list.get("items")? {
        Value::Array(items) => Some(items),
        Value::Null if is_list => Some(&[]),
        _ => None,
    }
}

/// What discovery alone says; `None` where the definitions are to be asked for.
fn by_discovery(gvk: &Gvk, served: &Discovery) -> Option<Unserved> {
    if served.resource(gvk).is_some() {
        // It is served by now: to be asked for again.
        return Some(Unserved::Hidden);
    }
    served.other_version(gvk).map(|version| Unserved::As(Gvk { version, ..gvk.clone() }))
}

#[cfg(test)]
mod tests;
