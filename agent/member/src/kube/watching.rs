//! A watch of a real member: pages of a list, then events, renewed before they end, listed again where history is gone, or where the member
//! turns out to have gone back in time ([`super::history`]) after a connection to it broke.
//!
//! In: the kind, namespace and selectors. Out: events, one page or one line of the answer at a time; an error is the last.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{Request, header};
use http_body_util::BodyExt;
use karmada_api::object;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;

use super::history::{Seen, Verdict};
use super::{Inner, built, refusal};
use crate::percent::percent_encoded;
use crate::{MemberError, MemberEvent, ObjectId, Watch};

mod lines;
mod pauses;

use lines::Lines;
use pauses::{Anew, pause};

/// Objects per page of a list: some tens of kilobytes of JSON at a time.
const PAGE: usize = 25;
/// A watch is renewed this often, seconds.
const WATCH_SECONDS: u64 = 290;
/// A watch ends by itself no earlier than this before its time, and one that has not ended so long after it is dead.
const TOLERANCE: Duration = Duration::from_secs(10);
/// Where objects need not be whole.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;q=0.9";

/// What the watch tells.
pub(super) fn events(
    inner: Arc<Inner>,
    watch: Watch,
) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
    let watcher = Watcher {
        inner,
        watch,
        state: State::List { page: String::new() },
        seen: Seen::default(),
        anew: Anew::default(),
        ready: VecDeque::from([Ok(MemberEvent::Listing)]),
    };
    stream::unfold(watcher, |mut watcher| async move {
        loop {
            if let Some(event) = watcher.ready.pop_front() {
                return Some((event, watcher));
            }
            if matches!(watcher.state, State::Over) {
                return None;
            }
            watcher.step().await;
        }
    })
    .boxed()
}

/// Where a watch stands.
enum State {
    /// A list begins after this.
    Anew { wait: Duration },
    /// The next page of the list is to be read.
    List { page: String },
    /// Events after what was seen are to be read; the last attempts failed so often in a row.
    Open { failures: u32 },
    /// The connection broke: whether the member still has the history that was seen is to be found out.
    Doubt { failures: u32 },
    /// Events are coming in.
    Reading { body: Box<Body>, lines: Lines, since: Instant },
    /// It ended.
    Over,
}

struct Watcher {
    inner: Arc<Inner>,
    watch: Watch,
    state: State,
    seen: Seen,
    anew: Anew,
    ready: VecDeque<Result<MemberEvent, MemberError>>,
}

impl Watcher {
    async fn step(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::Anew { wait } => {
                tokio::time::sleep(wait).await;
                self.ready.push_back(Ok(MemberEvent::Listing));
                State::List { page: String::new() }
            }
            State::List { page } => self.list(page).await,
            State::Open { failures } => self.open(failures).await,
            State::Doubt { failures } => self.doubt(failures).await,
            State::Reading { body, lines, since } => self.read(body, lines, since).await,
            State::Over => State::Over,
        };
    }

    fn fail(&mut self, error: MemberError) -> State {
        self.ready.push_back(Err(error));
        State::Over
    }

    fn relist(&mut self) -> State {
        self.seen = Seen::default();
        State::Anew { wait: self.anew.begins(Instant::now(), drawn()) }
    }

    /// What came is nothing that a member sends.
    fn relist_after(&mut self, fault: &str) -> State {
        tracing::warn!(gvk = %self.watch.gvk, fault, "a watch of the member is given up: everything is listed again");
        self.seen = Seen::default();
        State::Anew { wait: self.anew.begins_after_fault(Instant::now(), drawn()) }
    }

    /// No answer came, or nobody could give one: tried again for a while, after a look at the history.
    fn again(&mut self, error: MemberError, failures: u32) -> State {
        match error {
            MemberError::Unreachable(_) | MemberError::Throttled(_) if failures < 8 => {
                State::Doubt { failures: failures + 1 }
            }
            error => self.fail(error),
        }
    }

    fn selectors(&self) -> String {
        let mut query = String::new();
        for (name, selector) in [("labelSelector", &self.watch.labels), ("fieldSelector", &self.watch.fields)]
        {
            if !selector.is_empty() {
                query.push_str(&format!("&{name}={}", percent_encoded(selector)));
            }
        }
        query
    }

    async fn list(&mut self, page: String) -> State {
        match self.page(&page).await {
            Ok((items, version, next)) => {
                items.iter().for_each(|item| self.seen.object(item));
                let objects = items.into_iter().map(|item| Ok(MemberEvent::Object(Box::new(item))));
                self.ready.extend(objects);
                if !next.is_empty() {
                    return State::List { page: next };
                }
                self.ready.push_back(Ok(MemberEvent::Listed));
                self.seen.version = version;
                State::Open { failures: 0 }
            }
            // The continue token expired between two pages.
            Err(MemberError::Conflict(_)) if !page.is_empty() => self.relist(),
            Err(error) => self.fail(error),
        }
    }

    async fn page(&mut self, page: &str) -> Result<(Vec<Value>, String, String), MemberError> {
        let inner = self.inner.clone();
        let uri = inner.collection(&self.watch.gvk, &self.watch.namespace).await?;
        let next =
            if page.is_empty() { String::new() } else { format!("&continue={}", percent_encoded(page)) };
        let uri = format!("{uri}?limit={PAGE}{}{next}", self.selectors());
        let mut list = inner.json(built(Request::get(uri).body(Body::empty()))?).await?;
        let text = |list: &Value, path: &str| {
            list.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (version, next) = (text(&list, "/metadata/resourceVersion"), text(&list, "/metadata/continue"));
        let mut items = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        for item in &mut items {
            self.name_kind(item);
        }
        Ok((items, version, next))
    }

    /// Items of a list do not say what they are.
    fn name_kind(&self, item: &mut Value) {
        let gvk = &self.watch.gvk;
        let api_version =
            if gvk.group.is_empty() { gvk.version.clone() } else { format!("{}/{}", gvk.group, gvk.version) };
        let root = object::root(item);
        root.insert("apiVersion".into(), api_version.into());
        root.insert("kind".into(), gvk.kind.clone().into());
    }

    /// After a break: on with the watch, or a whole list where the member went back in time.
    async fn doubt(&mut self, failures: u32) -> State {
        tokio::time::sleep(pause(failures, drawn())).await;
        match self.look().await {
            Ok(Verdict::Same) => State::Open { failures },
            Ok(_) => {
                tracing::warn!(
                    gvk = %self.watch.gvk,
                    "the member's history is not the one that was followed (was it restored?): everything is listed again"
                );
                self.relist()
            }
            Err(error) => self.again(error, failures),
        }
    }

    async fn look(&mut self) -> Result<Verdict, MemberError> {
        let now = self.glance("").await?;
        match self.seen.now(&now) {
            Verdict::Doubtful => {}
            verdict => return Ok(verdict),
        }
        let version = self.seen.newest().map(|newest| newest.version.as_str()).unwrap_or_default();
        let exact = format!("&resourceVersionMatch=Exact&resourceVersion={}", percent_encoded(version));
        match self.glance(&exact).await {
            Ok(list) => Ok(self.seen.then(&list)),
            Err(error @ (MemberError::Unreachable(_) | MemberError::Throttled(_))) => Err(error),
            // It is too long ago to be asked.
            Err(_) => Ok(Verdict::Other),
        }
    }

    /// A list of the one object that changed last, or of any, without its content.
    async fn glance(&mut self, at: &str) -> Result<Value, MemberError> {
        let newest = self.seen.newest();
        let namespace = newest.map_or(&self.watch.namespace, |newest| &newest.namespace);
        let mut fields: Vec<String> =
            newest.map(|n| format!("metadata.name={}", n.name)).into_iter().collect();
        if !self.watch.fields.is_empty() {
            fields.push(self.watch.fields.clone());
        }
        let fields = match fields.join(",") {
            fields if fields.is_empty() => fields,
            fields => format!("&fieldSelector={}", percent_encoded(&fields)),
        };
        let uri = self.inner.collection(&self.watch.gvk, namespace).await?;
        let request = Request::get(format!("{uri}?limit=1{fields}{at}")).header(header::ACCEPT, METADATA);
        self.inner.json(built(request.body(Body::empty()))?).await
    }

    async fn open(&mut self, failures: u32) -> State {
        let since = Instant::now();
        let version = percent_encoded(&self.seen.version);
        let (inner, gvk, selectors) = (self.inner.clone(), self.watch.gvk.clone(), self.selectors());
        let namespace = self.watch.namespace.clone();
        let opened = async {
            let uri = inner.collection(&gvk, &namespace).await?;
            let uri = format!(
                "{uri}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}{selectors}"
            );
            // Watches are never compressed: small events would wait in the compressor.
            let request = Request::get(uri).header(header::ACCEPT_ENCODING, "identity").body(Body::empty());
            let response = inner.send(built(request)?).await?;
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            let (parts, body) = response.into_parts();
            let body = inner.whole(body).await.unwrap_or_default();
            Err(refusal::of_answer(parts.status, &parts.headers, &body))
        };
        match opened.await {
            Ok(body) => State::Reading { body: Box::new(body), lines: Lines::default(), since },
            Err(MemberError::Conflict(_)) => self.relist(),
            Err(error) => self.again(error, failures),
        }
    }

    async fn read(&mut self, mut body: Box<Body>, mut lines: Lines, since: Instant) -> State {
        let dead = since + Duration::from_secs(WATCH_SECONDS) + TOLERANCE;
        let frame = match tokio::time::timeout_at(dead, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                drop(self.inner.broken(&error.to_string()));
                return State::Doubt { failures: 1 };
            }
            // Its time is up, or the server goes: who answers next is asked either way.
            Ok(None) => {
                drop(self.inner.broken(""));
                return if is_over(since.elapsed()) {
                    State::Open { failures: 0 }
                } else {
                    State::Doubt { failures: 0 }
                };
            }
            Err(_) => {
                drop(self.inner.broken("the watch did not end in its time"));
                return State::Doubt { failures: 0 };
            }
        };
        if let Ok(data) = frame.into_data() {
            lines.push(&data);
        }
        loop {
            match lines.next() {
                Ok(Some(line)) => match self.event(&line) {
                    Some(seen) if !seen.is_empty() => self.seen.version = seen,
                    Some(_) => {}
                    None => return self.relist(),
                },
                Ok(None) => return State::Reading { body, lines, since },
                Err(fault) => return self.relist_after(&fault.to_string()),
            }
        }
    }

    /// Takes one line. The version it was at; `None` where history is gone and must be listed anew.
    fn event(&mut self, line: &[u8]) -> Option<String> {
        let mut event: Value = serde_json::from_slice(line).ok()?;
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let version = object::resource_version(&object).to_owned();
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "ADDED" | "MODIFIED" => {
                self.seen.object(&object);
                self.ready.push_back(Ok(MemberEvent::Object(Box::new(object))));
            }
            "DELETED" => self.ready.push_back(Ok(MemberEvent::Gone(ObjectId::of(&object)))),
            "BOOKMARK" => {}
            _ => return None,
        }
        Some(version)
    }
}

/// Whether a watch that ended after `elapsed` did so because its time was up.
fn is_over(elapsed: Duration) -> bool {
    elapsed + TOLERANCE >= Duration::from_secs(WATCH_SECONDS)
}

/// Between 0 and 1.
#[expect(
    clippy::disallowed_methods,
    reason = "spreads the retries of many watches; nothing is decided by it"
)]
fn drawn() -> f64 {
    rand::random()
}

#[cfg(test)]
mod tests;
