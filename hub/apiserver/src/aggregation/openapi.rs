//! The paths and types of other servers in the OpenAPI v2 document.
//!
//! In: what is handed over. Out: each server's own v2 document, cut to the paths of the groups it answers, asked for when a
//! client asks for ours and not kept. A server that does not answer in time is left out.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::Value;

use super::{Aggregator, locate};

/// Paths and definitions to be added.
#[derive(Debug, Default)]
pub(crate) struct More {
    /// By path.
    pub paths: BTreeMap<String, Value>,
    /// By name.
    pub definitions: BTreeMap<String, Value>,
}

impl Aggregator {
    /// What other servers' documents add to ours.
    pub(crate) async fn more(&self) -> More {
        let registered = self.registered();
        let asked = registered.handed.values().filter(|handed| handed.available).map(|handed| async move {
            let address = locate::address(&self.cache, &handed.service).ok()?;
            let document = self.document(handed, &address, "/openapi/v2", "application/json").await.ok()?;
            Some((format!("/apis/{}/{}/", handed.group, handed.version), document))
        });
        let mut more = More::default();
        for (below, document) in join_all(asked).await.into_iter().flatten() {
            more.add(&below, document);
        }
        more
    }
}

impl More {
    fn add(&mut self, below: &str, mut document: Value) {
        let mut members =
            |field: &str| document[field].as_object_mut().map(std::mem::take).unwrap_or_default();
        let paths = members("paths");
        let own = paths.into_iter().filter(|(path, item)| {
            item.is_object() && (path.starts_with(below) || *path == below.trim_end_matches('/'))
        });
        self.paths.extend(own);
        for (name, definition) in members("definitions") {
            self.definitions.entry(name).or_insert(definition);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_paths_of_the_group_that_is_handed_over_are_taken() {
        let mut more = More::default();
        let document = json!({
            "paths": {"/apis/a/v1/": {}, "/apis/a/v1/things": {}, "/apis/a/v1beta1/things": {}, "/apis/apps/v1/deployments": {}, "/version": {}},
            "definitions": {"a.v1.Thing": {"type": "object"}},
        });
        more.add("/apis/a/v1/", document);
        assert_eq!(more.paths.keys().collect::<Vec<_>>(), ["/apis/a/v1/", "/apis/a/v1/things"]);
        assert_eq!(more.definitions.len(), 1);
    }
}
