//! A watch of a real member: pages of a list, then events, renewed before they end, listed again where history is gone or may be another.
//!
//! A member that was put back to a backup takes a version that lies in its future now, and says nothing until it gets there. So after an
//! outage everything is listed again, and after a watch that ended before its time, where the member is behind what was seen.
//!
//! Out: events, one page or one line of the answer at a time; an error is the last.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{Request, header};
use http_body_util::{BodyExt, Limited};
use karmada_api::object;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;

use super::{ANSWER_LIMIT, Inner, built, escape, refusal};
use crate::member::{MemberError, MemberEvent, ObjectId, Watch};

/// Objects per page of a list: some tens of kilobytes of JSON at a time.
const PAGE: usize = 25;
/// A watch is renewed this often, seconds.
const WATCH_SECONDS: u32 = 290;
/// One that ends this much earlier was cut.
const EARLY: Duration = Duration::from_secs(WATCH_SECONDS as u64 - 10);

/// What the watch tells.
pub(super) fn events(
    inner: Arc<Inner>,
    watch: Watch,
) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
    let watcher = Watcher {
        inner,
        watch,
        state: State::List { page: String::new() },
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
    /// The next page of the list is to be read.
    List { page: String },
    /// Events after this version are to be read; `failures` in a row without one.
    Open { version: String, failures: u32 },
    /// The watch was cut at this version: is that still of the member's past? `failures` in a row without an answer.
    Cut { version: String, failures: u32 },
    /// Events are coming in, since then.
    Reading { version: String, since: Instant, body: Box<Body>, buffer: BytesMut },
    /// It ended.
    Over,
}

struct Watcher {
    inner: Arc<Inner>,
    watch: Watch,
    state: State,
    ready: VecDeque<Result<MemberEvent, MemberError>>,
}

impl Watcher {
    async fn step(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::List { page } => self.list(page).await,
            State::Open { version, failures } => self.open(version, failures).await,
            State::Cut { version, failures } => self.compare(version, failures).await,
            State::Reading { version, since, body, buffer } => self.read(version, since, body, buffer).await,
            State::Over => State::Over,
        };
    }

    fn fail(&mut self, error: MemberError) -> State {
        self.ready.push_back(Err(error));
        State::Over
    }

    fn relist(&mut self) -> State {
        self.ready.push_back(Ok(MemberEvent::Listing));
        State::List { page: String::new() }
    }

    fn selectors(&self) -> String {
        let mut query = String::new();
        for (name, selector) in [("labelSelector", &self.watch.labels), ("fieldSelector", &self.watch.fields)]
        {
            if !selector.is_empty() {
                query.push_str(&format!("&{name}={}", escape(selector)));
            }
        }
        query
    }

    async fn list(&mut self, page: String) -> State {
        match self.page(&page).await {
            Ok((items, version, next)) => {
                let objects = items.into_iter().map(|item| Ok(MemberEvent::Object(Box::new(item))));
                self.ready.extend(objects);
                if !next.is_empty() {
                    return State::List { page: next };
                }
                self.ready.push_back(Ok(MemberEvent::Listed));
                State::Open { version, failures: 0 }
            }
            // The continue token expired between two pages.
            Err(MemberError::Conflict(_)) if !page.is_empty() => self.relist(),
            Err(error) => self.fail(error),
        }
    }

    async fn page(&mut self, page: &str) -> Result<(Vec<Value>, String, String), MemberError> {
        let inner = self.inner.clone();
        let uri = inner.collection(&self.watch.gvk, &self.watch.namespace).await?;
        let next = if page.is_empty() { String::new() } else { format!("&continue={}", escape(page)) };
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

    async fn open(&mut self, version: String, failures: u32) -> State {
        if failures > 0 {
            tokio::time::sleep(Duration::from_secs(1 << failures.min(5))).await;
        }
        let (inner, gvk, selectors) = (self.inner.clone(), self.watch.gvk.clone(), self.selectors());
        let namespace = self.watch.namespace.clone();
        let opened = async {
            let uri = inner.collection(&gvk, &namespace).await?;
            let uri = format!(
                "{uri}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}{}",
                escape(&version),
                selectors
            );
            // Watches are never compressed: small events would wait in the compressor.
            let request = Request::get(uri).header(header::ACCEPT_ENCODING, "identity").body(Body::empty());
            let response = inner.send(built(request)?).await?;
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            let (parts, body) = response.into_parts();
            let body =
                Limited::new(body, ANSWER_LIMIT).collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            Err(refusal::of_answer(parts.status, &parts.headers, &body))
        };
        match opened.await {
            Ok(body) => {
                let since = Instant::now();
                State::Reading { version, since, body: Box::new(body), buffer: BytesMut::new() }
            }
            Err(MemberError::Conflict(_)) => self.relist(),
            Err(MemberError::Throttled(_)) if failures < 8 => State::Open { version, failures: failures + 1 },
            Err(MemberError::Unreachable(_)) => State::Cut { version, failures: 1 },
            Err(error) => self.fail(error),
        }
    }

    /// Who was away may have been put back: then all is listed. Who only cut a watch is asked how far it is.
    async fn compare(&mut self, version: String, failures: u32) -> State {
        if failures > 0 {
            tokio::time::sleep(Duration::from_secs(1 << failures.min(5))).await;
        }
        match self.newest().await {
            Ok(newest) if failures == 0 && reaches(&newest, &version) => State::Open { version, failures: 0 },
            Ok(_) => self.relist(),
            Err(MemberError::Unreachable(_) | MemberError::Throttled(_)) if failures < 8 => {
                State::Cut { version, failures: failures + 1 }
            }
            Err(error) => self.fail(error),
        }
    }

    /// The version at which the member is.
    async fn newest(&mut self) -> Result<String, MemberError> {
        let inner = self.inner.clone();
        let uri = inner.collection(&self.watch.gvk, &self.watch.namespace).await?;
        let uri = format!("{uri}?limit=1{}", self.selectors());
        let list = inner.json(built(Request::get(uri).body(Body::empty()))?).await?;
        Ok(object::resource_version(&list).to_owned())
    }

    async fn read(
        &mut self,
        mut version: String,
        since: Instant,
        mut body: Box<Body>,
        mut buffer: BytesMut,
    ) -> State {
        let frame = match body.frame().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                drop(self.inner.broken(error.to_string()));
                return State::Cut { version, failures: 0 };
            }
            // Its time is up, or the server goes: the two are not told apart.
            None => {
                drop(self.inner.broken(String::new()));
                let cut = since.elapsed() < EARLY;
                return if cut {
                    State::Cut { version, failures: 0 }
                } else {
                    State::Open { version, failures: 0 }
                };
            }
        };
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end);
            buffer.advance(1);
            match self.event(&line) {
                Some(seen) if !seen.is_empty() => version = seen,
                Some(_) => {}
                None => return self.relist(),
            }
        }
        if buffer.len() > ANSWER_LIMIT {
            return self.fail(MemberError::Other("an event without an end".into()));
        }
        State::Reading { version, since, body, buffer }
    }

    /// Takes one line. The version it was at; `None` where history is gone and must be listed anew.
    fn event(&mut self, line: &[u8]) -> Option<String> {
        let mut event: Value = serde_json::from_slice(line).ok()?;
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let version = object::resource_version(&object).to_owned();
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "ADDED" | "MODIFIED" => self.ready.push_back(Ok(MemberEvent::Object(Box::new(object)))),
            "DELETED" => self.ready.push_back(Ok(MemberEvent::Gone(ObjectId::of(&object)))),
            "BOOKMARK" => {}
            _ => return None,
        }
        Some(version)
    }
}

/// Whether a member that is at `newest` has been at `version`. Versions are numbers that grow; what is none cannot be compared.
fn reaches(newest: &str, version: &str) -> bool {
    match (newest.parse::<u64>(), version.parse::<u64>()) {
        (Ok(newest), Ok(version)) => newest >= version,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
