//! Watches: a body of events that goes on until the client, the clock or the server ends it.
//!
//! In: the cache's events of one resource. Out: `{"type":…,"object":…}` lines, or the same as protobuf with lengths before them: ADDED, MODIFIED, DELETED, BOOKMARK, and one ERROR
//! as the last line where the watcher's place was lost. An object that leaves a selector is DELETED for that watcher, one that
//! enters it is ADDED.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_registry::cache::{CacheEvent, Collection};
use karmada_registry::{Registry, VirtualRequest};
use karmada_schema::object::{ObjectKey, Stored};
use karmada_schema::protobuf;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer_body::Body;
use super::negotiation::{Encoding, Meta, Shape};
use super::resource_call::ResourceCall;
use super::selectors::HeldSelector;
use super::slow_reader::Unsent;
use super::table::{self, Columns, Include};
use super::{ApiServer, list, options, respond};

/// How often a quiet watcher that asked for them gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long before its end a watch gets its last one.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// How long a watch lasts that names no end.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// How long one goes on that asks for more time than a clock can show: thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Bytes of objects that are made ready for a reader at a time.
const CHUNK: usize = 256 << 10;

impl ApiServer {
    pub(super) async fn watch(&self, of: ResourceCall<'_, '_>) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        if format.encoding == Encoding::Yaml {
            return Err(Status::not_acceptable(
                "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            ));
        }
        let mut selector = list::selector(definition, &call.query)?;
        if !wanted.name.is_empty() {
            selector.fields = karmada_kinds::field_selector::FieldSelector::of_name(&wanted.name);
        }
        let selector = self.selectors.hold(&call.user, selector)?;
        let initial = call.query.flag("sendInitialEvents");
        options::check_watch(&call.query)?;
        let asked = options::version(&call.query)?;
        let seconds = options::number(&call.query, "timeoutSeconds")?
            .and_then(|s| u64::try_from(s).ok())
            .filter(|s| *s > 0);
        let namespace = super::objects::namespace_of(definition, wanted);
        let resource = VirtualRequest { definition, user: &call.user, namespace: &namespace, name: "" };
        let objects = self.registry.watch(&resource).await?;
        let lasting = seconds.map_or(LONGEST, Duration::from_secs);
        // Later than the clock goes is never; the connection ends before.
        let end = Instant::now().checked_add(lasting).unwrap_or_else(|| Instant::now() + FAR);
        let mut watcher = Watcher::new(self, of, (objects, namespace), selector, end);
        let declined = !initial && !call.query.all("sendInitialEvents").is_empty();
        // Who asks for a list first asks for one that is not older than what was seen, as with lists.
        let future = match initial {
            true => list::at_least(&watcher.objects, &call.query).await.err(),
            false => None,
        };
        match asked {
            _ if future.is_some() => future.iter().for_each(|status| watcher.end_with(status)),
            Some(from) if from > 0 && !initial => watcher.go_on_from(from).await,
            _ if declined => {
                watcher.place = watcher.objects.resource_cache().snapshot(&watcher.namespace).revision;
            }
            _ => watcher.start(initial).await?,
        }
        let lines = stream::unfold(watcher, |mut watcher| async move {
            let line = watcher.next().await?;
            Some((line, watcher))
        });
        let content_type = match format.encoding {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        };
        Ok(respond::with_type(StatusCode::OK, respond::streamed(lines), content_type))
    }
}

/// The next bookmark: in a while, or shortly before the watch ends, so that the next one begins where this one stood.
fn next_bookmark(end: Instant) -> Instant {
    let now = Instant::now();
    let last = end.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(now + BOOKMARK_EVERY, |last| last.min(now + BOOKMARK_EVERY))
}

struct Watcher {
    registry: Arc<Registry>,
    definition: Arc<ResourceDefinition>,
    objects: Collection,
    namespace: String,
    selector: Arc<HeldSelector>,
    shape: Shape,
    encoding: Encoding,
    include: Include,
    bookmarks: bool,
    served: tokio::sync::watch::Receiver<u64>,
    place: u64,
    /// What was there at first and is not shown yet, by key and revision: objects that wait for a slow reader would be kept long after
    /// they were replaced.
    initial: VecDeque<(ObjectKey, u64)>,
    /// What is to be said once all of that is shown.
    initial_end: Option<Bytes>,
    /// Of what was there at first, that which was no longer so when its turn came.
    ahead: HashMap<ObjectKey, Ahead>,
    ready: VecDeque<WatchItem>,
    unsent: Unsent,
    columns_sent: bool,
    next_bookmark: Instant,
    end: Instant,
    ended: bool,
    stop: CancellationToken,
}

/// What is to be sent. Objects become lines when it is their turn: a watcher that begins with many, and reads slowly, holds none.
enum WatchItem {
    Object(&'static str, Arc<Stored>),
    Made(Bytes),
}

/// How far a watcher is ahead of its place, for one object.
enum Ahead {
    /// It was shown as it was at this revision.
    At(u64),
    /// It was gone before it was shown: its removal is no news.
    Gone,
}

enum Wake {
    Events(Vec<Arc<CacheEvent>>),
    Lost,
    Bookmark,
    Served,
    End,
}

/// What a bookmark tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BookmarkKind {
    /// How far the watch is.
    Place,
    /// That all objects that were there at first were sent.
    InitialEnd,
}

impl Watcher {
    /// One that stands nowhere yet, of objects in a namespace; it ends at `end`.
    fn new(
        server: &ApiServer,
        of: ResourceCall<'_, '_>,
        (objects, namespace): (Collection, String),
        selector: Arc<HeldSelector>,
        end: Instant,
    ) -> Watcher {
        let ResourceCall { call, definition, format, .. } = of;
        Watcher {
            registry: server.registry.clone(),
            definition: definition.clone(),
            objects,
            namespace,
            selector,
            shape: format.shape,
            encoding: format.encoding,
            include: Include::parse(call.query.get("includeObject")),
            bookmarks: call.query.flag("allowWatchBookmarks"),
            served: server.registry.catalogue_changes(),
            place: 0,
            initial: VecDeque::new(),
            initial_end: None,
            ahead: HashMap::new(),
            ready: VecDeque::new(),
            unsent: Unsent::new(server.room.of(&call.user)),
            columns_sent: false,
            next_bookmark: next_bookmark(end),
            end,
            ended: false,
            stop: server.stop.clone(),
        }
    }

    /// Puts what exists in front of what will happen.
    async fn start(&mut self, mark_end: bool) -> Result<(), Status> {
        let now = self.objects.resource_cache().snapshot(&self.namespace);
        self.place = now.revision;
        // What another server converts may have other labels there.
        let all = self.asks_webhook();
        let matching = now.items.iter().filter(|object| all || self.selector.matches(object));
        self.initial = matching.map(|object| (object.key.clone(), object.revision)).collect();
        if mark_end && self.bookmarks {
            self.initial_end = Some(self.bookmark(now.revision.max(1), BookmarkKind::InitialEnd));
        }
        self.show_some().await
    }

    /// Begins behind what the client has seen. A revision that is not there yet, and does not come in a moment, is of another life of the hub: whoever
    /// provides what is not stored counts anew in each process, and a data directory that was restored goes on from an earlier revision. Who
    /// watched on from there would miss all that happens until it comes again, and is to list anew. (kube-apiserver lets him.)
    async fn go_on_from(&mut self, seen: u64) {
        self.place = seen;
        if !self.definition.is_virtual {
            let moment = (Instant::now() + list::NEAR_FUTURE).min(self.end);
            let _ = tokio::time::timeout_at(moment, self.objects.wait_for(seen)).await;
        }
        if seen > self.objects.revision() && Instant::now() < self.end {
            self.lost();
        }
    }

    /// Ends, as what happened since cannot be told any more.
    fn lost(&mut self) {
        let why = format!("too old resource version: {} ({})", self.place, self.objects.revision());
        self.end_with(&Status::expired(why));
    }

    fn asks_webhook(&self) -> bool {
        self.definition.custom.as_ref().is_some_and(|custom| custom.asks_webhook())
    }

    /// Makes the next of what was there at first ready, as much as a chunk holds.
    async fn show_some(&mut self) -> Result<(), Status> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK {
            let Some((key, revision)) = self.initial.pop_front() else { break };
            let Some(object) = self.objects.resource_cache().get(&key) else {
                self.ahead.insert(key, Ahead::Gone);
                continue;
            };
            if object.revision != revision {
                self.ahead.insert(key, Ahead::At(object.revision));
            }
            bytes += object.json_len();
            batch.push(object);
        }
        let shown = self.registry.view(&self.definition, batch).await?;
        let matching = shown.into_iter().filter(|object| self.selector.matches(object));
        self.ready.extend(matching.map(|object| WatchItem::Object("ADDED", object)));
        if self.initial.is_empty() {
            self.ready.extend(self.initial_end.take().map(WatchItem::Made));
        }
        Ok(())
    }

    /// Whether an event is no news, as its object was shown as it was then, or later.
    fn is_known(&mut self, event: &CacheEvent) -> bool {
        match self.ahead.get(&event.object.key) {
            None => false,
            Some(Ahead::At(revision)) if event.revision <= *revision => true,
            Some(Ahead::Gone) if !event.removed => true,
            Some(at) => {
                let known = matches!(at, Ahead::Gone);
                self.ahead.remove(&event.object.key);
                known
            }
        }
    }

    /// The next piece for the reader; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(piece) = self.unsent.next() {
            return Some(piece);
        }
        if self.unsent.is_given_up() {
            return None;
        }
        let chunk = self.next_chunk().await?;
        match self.unsent.put(chunk) {
            Ok(piece) => Some(piece),
            Err(full) => {
                self.end_with(&full.into());
                Some(self.drain())
            }
        }
    }

    /// Ends with an error, and nothing else any more.
    fn end_with(&mut self, status: &Status) {
        self.ended = true;
        self.ready.clear();
        let frame = self.frame("ERROR", &status.body().into());
        self.ready.push_back(WatchItem::Made(frame));
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if !self.ready.is_empty() {
                return Some(self.drain());
            }
            if self.ended {
                return None;
            }
            if !self.initial.is_empty() {
                if let Err(status) = self.show_some().await {
                    self.end_with(&status);
                }
                continue;
            }
            match self.wait().await {
                Wake::Events(events) => match self.viewed(events).await {
                    Ok(events) => events.iter().for_each(|event| self.take(event)),
                    Err(status) => self.end_with(&status),
                },
                Wake::Bookmark => {
                    self.ready.push_back(WatchItem::Made(self.bookmark(self.place, BookmarkKind::Place)));
                }
                Wake::Lost => {
                    self.lost();
                }
                Wake::Served => {
                    let served = self.registry.catalogue();
                    let own = &self.definition;
                    let now = served.resource(&own.group, &own.version, &own.plural);
                    if !now.is_some_and(|now| Arc::ptr_eq(now, own)) {
                        // Its definition changed or went: what comes next may look different, so the client starts anew.
                        self.ended = true;
                    }
                }
                Wake::End => return None,
            }
        }
    }

    /// Events whose objects only a webhook can show in the version that is watched.
    async fn viewed(&self, events: Vec<Arc<CacheEvent>>) -> Result<Vec<Arc<CacheEvent>>, Status> {
        if !self.asks_webhook() {
            return Ok(events);
        }
        let mut out = Vec::with_capacity(events.len());
        for event in events {
            let object = self.registry.view_event(&self.definition, &event.object).await?;
            let previous = match &event.previous {
                Some(previous) => Some(self.registry.view_event(&self.definition, previous).await?),
                None => None,
            };
            let (storage, revision, removed) = (event.storage.clone(), event.revision, event.removed);
            out.push(Arc::new(CacheEvent { storage, revision, previous, object, removed }));
        }
        Ok(out)
    }

    async fn wait(&mut self) -> Wake {
        // Read before the ring: every event of this resource up to here is in the ring already.
        let settled = self.objects.revision();
        let mut subscription = self.objects.resource_cache().subscribe(self.place);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Wake::End,
            events = subscription.next() => match events {
                Ok(mut events) => {
                    // No more than a chunk holds: the rest waits in the log that all watchers share.
                    let mut bytes = 0;
                    let fits = events.iter().take_while(|event| {
                        let before = bytes;
                        bytes += event.object.json_len();
                        before < CHUNK
                    });
                    let count = fits.count();
                    events.truncate(count);
                    self.place = events.last().map_or(self.place, |last| last.revision);
                    Wake::Events(events)
                }
                Err(_) => Wake::Lost,
            },
            _ = self.served.changed() => Wake::Served,
            () = tokio::time::sleep_until(self.end) => Wake::End,
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark = next_bookmark(self.end);
                self.place = self.place.max(settled);
                Wake::Bookmark
            }
        }
    }

    /// Several ready lines as one chunk: a burst costs few writes.
    fn drain(&mut self) -> Bytes {
        let mut chunk = BytesMut::new();
        while let Some(line) = self.ready.pop_front() {
            let line = match line {
                WatchItem::Object(kind, object) => self.line(kind, &object),
                WatchItem::Made(line) => line,
            };
            if chunk.is_empty() && self.ready.is_empty() {
                return line;
            }
            chunk.put(line);
            if chunk.len() > CHUNK {
                break;
            }
        }
        chunk.freeze()
    }

    fn take(&mut self, event: &CacheEvent) {
        if !self.ahead.is_empty() && self.is_known(event) {
            return;
        }
        let namespace = &self.namespace;
        let inside = |object: &Stored| {
            (namespace.is_empty() || *object.key.namespace == **namespace) && self.selector.matches(object)
        };
        let before = event.previous.as_deref().is_some_and(inside);
        let after = !event.removed && inside(&event.object);
        let line = match (before, after) {
            (false, true) => WatchItem::Object("ADDED", event.object.clone()),
            (true, true) => WatchItem::Object("MODIFIED", event.object.clone()),
            (true, false) => {
                // A watcher that loses sight of an object gets it as it last saw it, at the revision of the loss.
                let last = match (&event.previous, event.removed) {
                    (Some(previous), false) => Arc::new(previous.removed_at(event.revision)),
                    _ => event.object.clone(),
                };
                WatchItem::Object("DELETED", last)
            }
            (false, false) => return,
        };
        self.ready.push_back(line);
    }

    fn line(&mut self, kind: &str, object: &Stored) -> Bytes {
        let bytes = match self.shape {
            Shape::Whole => table::whole(&self.definition, object),
            Shape::Metadata(meta) => table::metadata(self.definition.row, object, meta).to_string().into(),
            Shape::Table(meta) => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let rows = std::iter::once(object);
                let now = (meta, self.registry.now());
                let columns = if self.columns_sent { Columns::LeftOut } else { Columns::Told };
                let table = table::table(&self.definition, rows, &metadata, self.include, columns, now);
                self.columns_sent = true;
                table.to_string().into()
            }
        };
        self.frame(kind, &bytes)
    }

    /// A table with one row, of an object that has nothing but its version.
    fn table_bookmark(
        &self,
        meta: Meta,
        metadata: &serde_json::Value,
        kind: BookmarkKind,
    ) -> serde_json::Value {
        let mut inner = metadata.clone();
        if kind == BookmarkKind::InitialEnd {
            inner["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (mut cells, _) =
            karmada_kinds::cells(&self.definition, &json!({"metadata": {}}), self.registry.now());
        for cell in cells.iter_mut().filter(|cell| cell.is_null()) {
            *cell = json!("");
        }
        let object =
            json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": inner});
        json!({
            "kind": "Table", "apiVersion": meta.api_version(), "metadata": metadata, "columnDefinitions": null,
            "rows": [{"cells": cells, "object": object}],
        })
    }

    fn bookmark(&self, revision: u64, kind: BookmarkKind) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        // A table keeps it in its row.
        if kind == BookmarkKind::InitialEnd && !self.shape.is_table() {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.shape {
            Shape::Table(meta) => self.table_bookmark(meta, &metadata, kind),
            Shape::Metadata(meta) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": meta.api_version(), "metadata": metadata})
            }
            Shape::Whole => {
                json!({"kind": self.definition.kind, "apiVersion": self.definition.api_version(), "metadata": metadata})
            }
        };
        self.frame("BOOKMARK", &object.to_string().into())
    }

    /// One event on the wire. `object`: its JSON.
    fn frame(&self, kind: &str, object: &Bytes) -> Bytes {
        if self.encoding != Encoding::Protobuf {
            return frame(kind, object);
        }
        // Whoever asked for this form was told before that the kind has it.
        let value = serde_json::from_slice(object).unwrap_or_default();
        let object = protobuf::encode(&value).unwrap_or_default();
        protobuf::event(kind, &object).into()
    }
}

fn frame(kind: &str, object: &Bytes) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 40);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}
