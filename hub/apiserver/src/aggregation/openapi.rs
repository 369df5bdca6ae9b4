//! The paths and types of other servers in the OpenAPI v2 document.
//!
//! In: what is handed over. Out: each server's own v2 document, cut to the paths of the groups it answers. They are asked for when a
//! client asks for ours, a few at a time, and kept for half a minute, so that many clients cost them and us no more than one. A
//! server that does not answer in time is left out, and so is what goes beyond the bounds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Aggregator, Handed, locate, remote_discovery};

/// Bytes of one server's document.
const LARGEST: usize = 8 << 20;
/// Bytes that all of them add to ours.
const MOST: usize = 16 << 20;
/// How many are asked at a time.
const AT_ONCE: usize = 4;
/// How long a client waits for all of them.
const DOCUMENTS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what they said is kept.
const FRESH: Duration = Duration::from_secs(30);

/// Paths and definitions to be added, each as JSON.
#[derive(Debug, Default)]
pub(crate) struct More {
    /// By path.
    pub paths: BTreeMap<String, Box<RawValue>>,
    /// By name.
    pub definitions: BTreeMap<String, Box<RawValue>>,
    bytes: usize,
}

/// What was said last: when, and at which revision of the APIServices. Held while it is asked for.
pub(super) type Documents = tokio::sync::Mutex<Option<(Instant, u64, Arc<More>)>>;

impl Aggregator {
    /// What other servers' documents add to ours.
    pub(crate) async fn more(&self) -> Arc<More> {
        let registered = self.registered();
        if registered.handed.is_empty() {
            return Arc::default();
        }
        let mut kept = self.documents.lock().await;
        if let Some((since, revision, more)) = &*kept
            && *revision == registered.revision
            && since.elapsed() < FRESH
        {
            return more.clone();
        }
        let available = registered.handed.values().filter(|handed| handed.available);
        let asked = available.map(|handed| async move { (handed, self.v2_of(handed).await) });
        let mut asked = stream::iter(asked.collect::<Vec<_>>()).buffered(AT_ONCE);
        let mut more = More::default();
        let until = Instant::now() + DOCUMENTS_TIMEOUT;
        while let Ok(Some((handed, document))) = tokio::time::timeout_at(until, asked.next()).await {
            let below = format!("/apis/{}/{}/", handed.group, handed.version);
            if let Some(document) = document.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                more.add(&below, document);
            }
        }
        let more = Arc::new(more);
        *kept = Some((Instant::now(), registered.revision, more.clone()));
        more
    }

    async fn v2_of(&self, handed: &Handed) -> Option<Bytes> {
        let address = locate::address(&self.cache, &handed.service).ok()?;
        self.document(handed, &address, "/openapi/v2", "application/json", LARGEST).await.ok()
    }
}

impl More {
    /// Whether it adds the same.
    pub(crate) fn is_as(&self, other: &More) -> bool {
        let alike = |one: &BTreeMap<String, Box<RawValue>>, two: &BTreeMap<String, Box<RawValue>>| {
            one.len() == two.len()
                && one.iter().zip(two).all(|(one, two)| (one.0, one.1.get()) == (two.0, two.1.get()))
        };
        std::ptr::eq(self, other)
            || self.bytes == other.bytes
                && alike(&self.paths, &other.paths)
                && alike(&self.definitions, &other.definitions)
    }

    fn add(&mut self, below: &str, document: remote_discovery::Document) {
        let whole = below.trim_end_matches('/');
        for (path, item) in document.paths {
            let own = item.get().starts_with('{') && (path.starts_with(below) || path == whole);
            if own && self.has_room(path.len() + item.get().len()) {
                self.paths.insert(path, item);
            }
        }
        for (name, definition) in document.definitions {
            if !self.definitions.contains_key(&name) && self.has_room(name.len() + definition.get().len()) {
                self.definitions.insert(name, definition);
            }
        }
    }

    /// Whether so many bytes more fit; they are then counted.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= MOST;
        self.bytes += if fits { bytes } else { 0 };
        fits
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document(value: &Value) -> remote_discovery::Document {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    #[test]
    fn only_paths_of_the_group_that_is_handed_over_are_taken() {
        let mut more = More::default();
        let sent = json!({
            "paths": {"/apis/a/v1/": {}, "/apis/a/v1/things": {}, "/apis/a/v1beta1/things": {}, "/apis/apps/v1/deployments": {},
                "/version": {}, "/apis/a/v1/none": 1},
            "definitions": {"a.v1.Thing": {"type": "object"}},
        });
        more.add("/apis/a/v1/", document(&sent));
        assert_eq!(more.paths.keys().collect::<Vec<_>>(), ["/apis/a/v1/", "/apis/a/v1/things"]);
        assert_eq!(more.definitions.len(), 1);
    }

    #[test]
    fn what_all_servers_add_has_its_bound() {
        let mut more = More::default();
        for server in 0..40 {
            let sent = json!({"definitions": {format!("d{server}"): {"description": "x".repeat(1 << 20)}}});
            more.add("/apis/a/v1/", document(&sent));
        }
        assert_eq!(more.definitions.len(), 15);
    }
}
