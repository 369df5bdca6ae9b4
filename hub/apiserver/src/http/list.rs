//! Lists: selectors, pages, versions.
//!
//! A continue token names the revision of the first page and the last key sent; later pages show that same revision for as
//! long as the cache can still undo what happened since, and 410 after that.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::form::{Form, Shape};
use super::respond::{self, Body};
use super::table::{self, Include};
use super::target::{Query, Wanted};
use super::{ApiServer, Call};
use crate::object::{ObjectKey, Stored};
use crate::resource::ResourceDefinition;
use crate::selector::{FieldSelector, LabelSelector, Selector};
use crate::status::Status;

#[derive(Serialize, Deserialize)]
struct Continue {
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "rv")]
    revision: u64,
    #[serde(rename = "start")]
    after: (String, String),
}

/// One page.
struct Page {
    items: Vec<Arc<Stored>>,
    revision: u64,
    next: Option<String>,
    remaining: Option<usize>,
}

/// Reads both selectors of a query.
pub(super) fn selector(definition: &ResourceDefinition, query: &Query) -> Result<Selector, Status> {
    Ok(Selector {
        labels: LabelSelector::parse(query.get("labelSelector"))?,
        fields: FieldSelector::parse(query.get("fieldSelector"), &definition.group, &definition.plural)?,
    })
}

/// Reads a number parameter; empty is `None`.
pub(super) fn number(query: &Query, name: &str) -> Result<Option<u64>, Status> {
    match query.get(name) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax ({name})"))
        }),
    }
}

/// The revision that a list or watch must at least show, judged against what there is.
pub(super) async fn at_least(server: &ApiServer, query: &Query) -> Result<Option<u64>, Status> {
    let text = query.get("resourceVersion");
    let Some(asked) = number(query, "resourceVersion").map_err(|_| invalid_version(text))? else {
        return Ok(None);
    };
    let cache = server.registry.cache();
    if asked > cache.revision() {
        // Give the present a moment to catch up, as kube-apiserver does, then say that the version is from elsewhere.
        let wait = tokio::time::timeout(std::time::Duration::from_secs(3), cache.wait_for(asked));
        if wait.await.is_err() {
            let mut status = Status::timeout(format!(
                "Too large resource version: {asked}, current: {}",
                cache.revision()
            ));
            status.details = Some(Box::new(crate::status::Details {
                causes: vec![crate::status::Cause {
                    reason: "ResourceVersionTooLarge".into(),
                    message: "Too large resource version".into(),
                    field: String::new(),
                }],
                retry_after_seconds: 1,
                ..Default::default()
            }));
            return Err(status);
        }
    }
    Ok(Some(asked))
}

fn invalid_version(text: &str) -> Status {
    Status::bad_request(format!(
        "Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
    ))
}

impl ApiServer {
    pub(super) async fn list(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        wanted: &Wanted,
        form: Form,
    ) -> Result<Response<Body>, Status> {
        let selector = selector(definition, &call.query)?;
        let page = self.page(&call.query, definition, &wanted.namespace, &selector).await?;
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let Some(next) = &page.next {
            metadata["continue"] = json!(next);
            if let Some(remaining) = page.remaining {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        if definition.is_structural() && form.shape == Shape::Whole && page.next.is_none() {
            metadata["continue"] = json!("");
        }
        Ok(self.render(call, definition, &page.items, &metadata, form))
    }

    pub(super) fn render(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        items: &[Arc<Stored>],
        metadata: &Value,
        form: Form,
    ) -> Response<Body> {
        if form.shape == Shape::Table {
            let include = Include::parse(call.query.get("includeObject"));
            let now = self.registry.now();
            let table =
                table::table(definition, items.iter().map(AsRef::as_ref), metadata, include, true, now);
            return respond::document(StatusCode::OK, table.to_string().into(), form);
        }
        let (kind, api_version) = match form.shape {
            Shape::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (format!("{}List", definition.kind), definition.api_version()),
        };
        if form.shape == Shape::Metadata && items.is_empty() {
            // An empty list of metadata alone is null: so kube-apiserver writes it.
            let list = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": null});
            return respond::document(StatusCode::OK, list.to_string().into(), form);
        }
        let head = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        let mut parts = Vec::with_capacity(items.len() * 3 + 2);
        parts.push(Bytes::from(head));
        for (n, object) in items.iter().enumerate() {
            if n > 0 {
                parts.push(Bytes::from_static(b","));
            }
            match form.shape {
                Shape::Metadata => parts.push(table::metadata(object).to_string().into()),
                _ => parts.extend(table::item(definition, object)),
            }
        }
        parts.push(Bytes::from_static(b"]}\n"));
        if form.encoding == super::form::Encoding::Yaml || respond::accepts_gzip(call.headers) {
            return respond::document(StatusCode::OK, parts.concat().into(), form);
        }
        respond::with_type(StatusCode::OK, respond::pieces(parts), form.content_type())
    }

    async fn page(
        &self,
        query: &Query,
        definition: &ResourceDefinition,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Page, Status> {
        let limit = number(query, "limit")?.unwrap_or(0) as usize;
        let matching = query.get("resourceVersionMatch");
        check_match(query, matching)?;
        let keep = |object: &Stored| selector.matches(object);
        let shard = self.registry.cache().shard(&definition.storage);
        let token = query.get("continue");
        if !token.is_empty() {
            if !matches!(query.get("resourceVersion"), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let place = read_token(token)?;
            let after = ObjectKey::new(&place.after.0, &place.after.1);
            let (items, more) = shard
                .list_at(place.revision, namespace, Some(&after), limit, &keep)
                .map_err(|_| Status::expired("The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter."))?;
            return Ok(self.finish(definition, namespace, selector, items, more, place.revision));
        }
        let asked = at_least(self, query).await?;
        let revision = self.registry.cache().revision();
        match asked {
            Some(exact) if matching == "Exact" => {
                let gone = |_| {
                    Status::expired(format!("The resourceVersion for the provided list is too old: {exact}"))
                };
                let (items, more) = shard.list_at(exact, namespace, None, limit, &keep).map_err(gone)?;
                Ok(self.finish(definition, namespace, selector, items, more, exact))
            }
            _ => {
                // The cache may move on between the two reads; naming the earlier revision is safe, the later is not.
                let (items, more) = shard.list(namespace, None, limit, &keep);
                Ok(self.finish(definition, namespace, selector, items, more, revision))
            }
        }
    }

    fn finish(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        selector: &Selector,
        items: Vec<Arc<Stored>>,
        more: bool,
        revision: u64,
    ) -> Page {
        let last = items.last().filter(|_| more).map(|object| object.key.clone());
        let remaining = match &last {
            Some(last) if selector.is_empty() => {
                let shard = self.registry.cache().shard(&definition.storage);
                shard.list_at(revision, namespace, Some(last), 0, &|_| true).ok().map(|(rest, _)| rest.len())
            }
            _ => None,
        };
        let next = last.map(|key| {
            let place = Continue {
                version: "meta.k8s.io/v1".to_owned(),
                revision,
                after: (key.namespace.to_string(), key.name.to_string()),
            };
            BASE64.encode(serde_json::to_vec(&place).unwrap_or_default())
        });
        Page { items, revision, next, remaining }
    }
}

fn check_match(query: &Query, matching: &str) -> Result<(), Status> {
    let version = query.get("resourceVersion");
    let refuse = |why: &str| {
        let cause = crate::status::Cause {
            reason: "FieldValueForbidden".into(),
            message: format!("Forbidden: {why}"),
            field: "resourceVersionMatch".into(),
        };
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", vec![cause]))
    };
    if matching.is_empty() || query.flag("watch") {
        return Ok(());
    }
    if !query.get("continue").is_empty() {
        return refuse("resourceVersionMatch is forbidden when continue is provided");
    }
    if version.is_empty() {
        return refuse("resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    match matching {
        "Exact" if version == "0" => {
            refuse("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        "Exact" | "NotOlderThan" => Ok(()),
        other => {
            let cause = crate::status::Cause {
                reason: "FieldValueNotSupported".into(),
                message: format!(
                    "Unsupported value: \"{other}\": supported values: \"Exact\", \"NotOlderThan\", \"\""
                ),
                field: "resourceVersionMatch".into(),
            };
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", vec![cause]))
        }
    }
}

fn read_token(token: &str) -> Result<Continue, Status> {
    let bad = || Status::bad_request("continue key is not valid: the token was not made by this server");
    let bytes = BASE64.decode(token.trim_end_matches('=')).map_err(|_| bad())?;
    serde_json::from_slice(&bytes).map_err(|_| bad())
}
