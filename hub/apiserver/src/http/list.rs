//! Lists: selectors, pages, versions.
//!
//! A continue token names the revision of the first page and the last key sent; later pages show that same revision for as
//! long as the cache can still undo what happened since, and 410 after that, with a token that goes on as things are.
//!
//! In: a call with its resource, and the query. Out: a list, table or metadata, sent in pieces where it is long; or 400, 410, or 504 for a
//! revision that does not come within three seconds.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::{Response, StatusCode};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_kinds::field_selector::{FieldSelector, Selector};
use karmada_registry::VirtualRequest;
use karmada_registry::cache::{Cache, Collection};
use karmada_schema::object::{ObjectKey, Stored};
use karmada_schema::selector::LabelSelector;
use serde_json::{Value, json};

use super::answer_body::Body;
use super::list_body::{self, Part};
use super::negotiation::{AnswerFormat, Encoding, Shape};
use super::resource_call::ResourceCall;
use super::table::{self, Columns, Include};
use super::target::Query;
use super::{ApiServer, Call, options, protobuf_list, respond};

/// Where a list goes on: `{"v":…,"rv":…,"start":"NAMESPACE/NAME"}`, as kube-apiserver's tokens.
struct Continue {
    /// What the first page showed; [`AS_IT_IS`] for whatever there is now.
    revision: i64,
    after: (String, String),
}

/// The revision of a token that goes on with things as they are now, and no longer as the first page showed them.
const AS_IT_IS: i64 = -1;

impl Continue {
    fn encode(&self) -> String {
        let (namespace, name) = &self.after;
        let start = if namespace.is_empty() { format!("{name}\0") } else { format!("{namespace}/{name}\0") };
        BASE64.encode(json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": start}).to_string())
    }
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
        labels: LabelSelector::parse(query.get("labelSelector")).map_err(Status::bad_request)?,
        fields: FieldSelector::parse(query.get("fieldSelector"), definition)?,
    })
}

/// For so long a revision is waited for that is not there yet.
pub(super) const NEAR_FUTURE: Duration = Duration::from_secs(3);

/// Waits, as kube-apiserver does, for a revision of the near future; one that does not come is from elsewhere.
pub(super) async fn at_least(objects: &Collection, query: &Query) -> Result<Option<u64>, Status> {
    let text = query.get("resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    let asked = options::read_version(text)
        .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
    if asked > objects.revision() {
        let wait = tokio::time::timeout(NEAR_FUTURE, objects.wait_for(asked));
        if wait.await.is_err() {
            return Err(too_large(asked, objects.revision()));
        }
    }
    Ok(Some(asked))
}

/// The same for one object, which is read from all that is known.
pub(super) async fn until(cache: &Cache, asked: u64) -> Result<(), Status> {
    if asked <= cache.revision() {
        return Ok(());
    }
    let wait = tokio::time::timeout(NEAR_FUTURE, cache.wait_for(asked));
    wait.await.map_err(|_| too_large(asked, cache.revision()))
}

fn too_large(asked: u64, current: u64) -> Status {
    let mut status = Status::timeout(format!("Too large resource version: {asked}, current: {current}"));
    status.details = Some(Box::new(karmada_definitions::status::Details {
        causes: vec![karmada_definitions::status::Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: String::new(),
        }],
        retry_after_seconds: 1,
        ..Default::default()
    }));
    status
}

/// Bytes of a list that is written as YAML looks.
const LONGEST_YAML: usize = 4 << 20;

impl ApiServer {
    pub(super) async fn list(&self, of: ResourceCall<'_, '_>) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let selector = selector(definition, &call.query)?;
        let asked = VirtualRequest { definition, user: &call.user, namespace: &wanted.namespace, name: "" };
        let mut page = self.page(&call.query, &asked, &selector).await?;
        page.items = self.registry.view(definition, page.items).await?;
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let Some(next) = &page.next {
            metadata["continue"] = json!(next);
            if let Some(remaining) = page.remaining {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        if definition.is_structural() && format.shape == Shape::Whole && page.next.is_none() {
            metadata["continue"] = json!("");
        }
        Ok(self.render(call, definition, &page.items, &metadata, format).await)
    }

    pub(super) async fn render(
        &self,
        call: &Call<'_>,
        definition: &ResourceDefinition,
        items: &[Arc<Stored>],
        metadata: &Value,
        format: AnswerFormat,
    ) -> Response<Body> {
        if let Shape::Table(meta) = format.shape {
            let include = Include::parse(call.query.get("includeObject"));
            let now = self.registry.now();
            let table = table::table(
                definition,
                items.iter().map(AsRef::as_ref),
                metadata,
                include,
                Columns::Told,
                (meta, now),
            );
            return respond::document(StatusCode::OK, table.to_string().into(), format);
        }
        if format.encoding == Encoding::Protobuf {
            return protobuf_list::answer(definition, items, metadata, format).await;
        }
        let (kind, api_version) = protobuf_list::type_of_list(definition, format.shape);
        if format.shape.is_metadata() && items.is_empty() {
            // An empty list of metadata alone is null: so kube-apiserver writes it.
            let list = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": null});
            return respond::document(StatusCode::OK, list.to_string().into(), format);
        }
        let head = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        );
        let mut parts = Vec::with_capacity(items.len() * 3 + 2);
        parts.push(Part::Text(head.into()));
        for (n, object) in items.iter().enumerate() {
            if n > 0 {
                parts.push(Part::text(","));
            }
            match format.shape {
                Shape::Metadata(meta) => {
                    parts.push(Part::Text(table::metadata(definition.row, object, meta).to_string().into()));
                }
                _ => parts.extend(table::item(definition, object)),
            }
        }
        parts.push(Part::text("]}\n"));
        // JSON is YAML: what is long is not parsed to be written in another way.
        let is_short = || items.iter().map(|object| object.json_len()).sum::<usize>() <= LONGEST_YAML;
        if format.encoding == Encoding::Yaml && is_short() {
            return respond::document(StatusCode::OK, list_body::concat(&parts), format);
        }
        let mut response =
            respond::with_type(StatusCode::OK, list_body::pieces(parts), format.content_type());
        if format.shape == Shape::Whole {
            response.extensions_mut().insert(respond::CachedBytes);
        }
        response
    }

    async fn page(
        &self,
        query: &Query,
        resource: &VirtualRequest<'_>,
        selector: &Selector,
    ) -> Result<Page, Status> {
        options::check_list(query)?;
        let limit = usize::try_from(options::number(query, "limit")?.unwrap_or(0)).unwrap_or(0);
        let matching = query.get("resourceVersionMatch");
        let (namespace, objects) = (resource.namespace, self.registry.list(resource).await?);
        let keep = |object: &Stored| selector.matches(object);
        let resource_cache = objects.resource_cache();
        let finish = |found, revision| finish(&objects, namespace, selector, found, (revision, limit));
        let token = query.get("continue");
        if !token.is_empty() {
            if !matches!(query.get("resourceVersion"), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let place = read_token(token)?;
            let after = ObjectKey::new(&place.after.0, &place.after.1);
            let Ok(revision) = u64::try_from(place.revision) else {
                let revision = objects.revision();
                return Ok(finish(resource_cache.list(namespace, Some(&after), limit, &keep), revision));
            };
            let found = resource_cache
                .list_at(revision, namespace, Some(&after), limit, &keep)
                .map_err(|_| Status::expired_page(Continue { revision: AS_IT_IS, ..place }.encode()))?;
            return Ok(finish(found, revision));
        }
        let asked = at_least(&objects, query).await?;
        let revision = objects.revision();
        match asked {
            Some(exact) if matching == "Exact" => {
                let gone = |_| {
                    Status::expired(format!("The resourceVersion for the provided list is too old: {exact}"))
                };
                Ok(finish(resource_cache.list_at(exact, namespace, None, limit, &keep).map_err(gone)?, exact))
            }
            _ => {
                // The cache may move on between the two reads; naming the earlier revision is safe, the later is not.
                Ok(finish(resource_cache.list(namespace, None, limit, &keep), revision))
            }
        }
    }
}

/// A page of what was found: where the next one goes on, and how much is left.
fn finish(
    objects: &Collection,
    namespace: &str,
    selector: &Selector,
    (items, more): (Vec<Arc<Stored>>, bool),
    (revision, limit): (u64, usize),
) -> Page {
    let behind = |key: &ObjectKey, most: usize| {
        objects
            .resource_cache()
            .list_at(revision, namespace, Some(key), most, &|_| true)
            .ok()
            .map(|(rest, _)| rest)
    };
    // A full page goes on while there is anything behind it, whether the selector will match that or not.
    let full = limit > 0 && items.len() == limit;
    let more = more
        || items
            .last()
            .filter(|_| full && !selector.is_empty())
            .is_some_and(|last| behind(&last.key, 1).is_some_and(|rest| !rest.is_empty()));
    let last = items.last().filter(|_| more).map(|object| object.key.clone());
    let remaining =
        last.as_ref().filter(|_| selector.is_empty()).and_then(|last| Some(behind(last, 0)?.len()));
    let next = last.map(|key| {
        Continue {
            revision: i64::try_from(revision).unwrap_or(AS_IT_IS),
            after: (key.namespace.to_string(), key.name.to_string()),
        }
        .encode()
    });
    Page { items, revision, next, remaining }
}

/// Reads a continue token, or says in kube-apiserver's words why it is none.
fn read_token(token: &str) -> Result<Continue, Status> {
    let bad = |why: String| {
        Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes = BASE64.decode(token).map_err(|error| {
        let at = match error {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
            base64::DecodeError::InvalidLength(at) => at,
            base64::DecodeError::InvalidPadding => token.len(),
        };
        bad(format!("illegal base64 data at input byte {at}"))
    })?;
    if let Some(why) = karmada_schema::json_error::syntax_error(&bytes) {
        return Err(bad(why));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(bad(format!(
            "server does not recognize this encoded version {}",
            value["v"].as_str().unwrap_or("")
        )));
    }
    if value["rv"].as_i64().unwrap_or(0) == 0 {
        return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()));
    }
    match value["start"].as_str().unwrap_or("") {
        "" => Err(bad("encoded start key empty (version meta.k8s.io/v1)".to_owned())),
        start => {
            // Namespace and name, which may hold no slash; cluster-scoped objects have the name alone.
            let (namespace, name) =
                start.trim_end_matches('\0').rsplit_once('/').unwrap_or(("", start.trim_end_matches('\0')));
            Ok(Continue {
                revision: value["rv"].as_i64().unwrap_or(0),
                after: (namespace.to_owned(), name.to_owned()),
            })
        }
    }
}
