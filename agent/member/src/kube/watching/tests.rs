//! A watch against an API server over loopback that can be put back to a backup.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Response, StatusCode, Uri};
use http_body_util::StreamBody;
use http_body_util::combinators::BoxBody;
use hyper::body::Frame;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::kube::KubeMember;
use crate::kube::fake::{self, Answer};
use crate::{Gvk, Member};

/// ConfigMaps by name: each with the version of its last change.
#[derive(Clone, Default)]
struct Store {
    version: u64,
    objects: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Server {
    store: Mutex<Store>,
    /// The store as it was at each version, for as long as it remembers.
    history: Mutex<BTreeMap<u64, Store>>,
    /// Open watches, and the version that each is told events after.
    watches: Mutex<Vec<(u64, mpsc::Sender<Frame<Bytes>>)>>,
    /// What every watch says from its beginning on, in place of events: again and again.
    noise: Mutex<Option<Bytes>>,
    /// What was asked of the collection, in order: `list`, `glance`, `then`, `watch`.
    asked: Mutex<Vec<&'static str>>,
}

fn map(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()}})
}

impl Server {
    async fn start() -> (Arc<Self>, KubeMember) {
        let server = Arc::new(Self::default());
        let asked = server.clone();
        (server, fake::member(move |uri| asked.answer(uri)).await)
    }

    fn answer(&self, uri: &Uri) -> Answer {
        let query = uri.query().unwrap_or_default();
        let value = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let body = match uri.path() {
            "/api" => json!({"versions": ["v1"]}),
            "/apis" => json!({"groups": []}),
            "/api/v1" => {
                json!({"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap", "namespaced": true}]})
            }
            _ if value("watch").is_some() => {
                return self.watched(value("resourceVersion").and_then(|v| v.parse().ok()).unwrap());
            }
            _ => {
                match self.listed(value("fieldSelector"), value("limit").as_deref(), value("resourceVersion"))
                {
                    Some(list) => list,
                    None => return fake::said(StatusCode::GONE, json!({"message": "compacted"}).to_string()),
                }
            }
        };
        fake::said(StatusCode::OK, body.to_string())
    }

    fn listed(&self, field: Option<String>, limit: Option<&str>, at: Option<String>) -> Option<Value> {
        let glance = if at.is_some() { "then" } else { "glance" };
        self.asked.lock().push(if limit == Some("1") { glance } else { "list" });
        let store = match at {
            Some(at) => self.history.lock().get(&at.parse::<u64>().unwrap())?.clone(),
            None => self.store.lock().clone(),
        };
        let name = field.map(|field| field.replace("metadata.name%3D", ""));
        let wanted = store.objects.iter().filter(|(n, _)| name.as_ref().is_none_or(|name| name == *n));
        let items: Vec<Value> = wanted.map(|(name, version)| map(name, *version)).collect();
        Some(json!({"metadata": {"resourceVersion": store.version.to_string()}, "items": items}))
    }

    /// Events after `version`; none where that lies in the future.
    fn watched(&self, version: u64) -> Answer {
        self.asked.lock().push("watch");
        if let Some(noise) = self.noise.lock().clone() {
            let frames = stream::repeat(noise).map(|noise| Ok(Frame::data(noise)));
            return Response::new(BoxBody::new(StreamBody::new(frames)));
        }
        let (sender, mut receiver) = mpsc::channel(64);
        for (name, changed) in &self.store.lock().objects {
            if *changed > version {
                sender.try_send(line(name, *changed)).unwrap();
            }
        }
        self.watches.lock().push((version, sender));
        let frames = stream::poll_fn(move |context| receiver.poll_recv(context)).map(Ok);
        Response::new(BoxBody::new(StreamBody::new(frames)))
    }

    /// An object is made or changed, a version on.
    fn change(&self, name: &str) {
        let mut store = self.store.lock();
        store.version += 1;
        let version = store.version;
        store.objects.insert(name.to_owned(), version);
        self.history.lock().insert(version, store.clone());
        for (after, watch) in &*self.watches.lock() {
            if version > *after {
                let _ = watch.try_send(line(name, version));
            }
        }
    }

    /// Every connection of a watch ends.
    fn breaks(&self) {
        self.watches.lock().clear();
    }

    /// The store of an earlier time, with nothing that came after.
    fn restored(&self, backup: Store) {
        self.history.lock().retain(|version, _| *version <= backup.version);
        *self.store.lock() = backup;
        self.breaks();
    }

    fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.asked.lock())
    }
}

fn line(name: &str, version: u64) -> Frame<Bytes> {
    let event = json!({"type": "MODIFIED", "object": map(name, version)});
    Frame::data(format!("{event}\n").into())
}

type Events = BoxStream<'static, Result<MemberEvent, MemberError>>;

fn watch(member: &KubeMember) -> Events {
    let gvk = Gvk::new("v1", "ConfigMap");
    member.watch(Watch { gvk, namespace: String::new(), labels: "l=v".into(), fields: String::new() })
}

/// The next event: `(` and `)` for a list's ends, `name@version` for an object.
async fn next(events: &mut Events) -> String {
    let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await;
    match event.expect("the watch tells something").unwrap().unwrap() {
        MemberEvent::Listing => "(".into(),
        MemberEvent::Listed => ")".into(),
        MemberEvent::Object(object) => {
            format!("{}@{}", object::name(&object), object::resource_version(&object))
        }
        MemberEvent::Gone(id) => format!("-{}", id.name),
    }
}

async fn told(events: &mut Events, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(events).await, *expected);
    }
}

/// A member with `a`, `b` and `c`, of which `c` came after the backup that is returned; all of it watched.
async fn followed() -> (Arc<Server>, KubeMember, Events, Store) {
    let (server, member) = Server::start().await;
    server.change("a");
    server.change("b");
    let backup = server.store.lock().clone();
    let mut events = watch(&member);
    told(&mut events, &["(", "a@1", "b@2", ")"]).await;
    server.change("c");
    told(&mut events, &["c@3"]).await;
    assert_eq!(server.asked(), ["list", "watch"]);
    (server, member, events, backup)
}

#[tokio::test]
async fn a_member_that_went_back_in_time_is_listed_again() {
    let (server, _member, mut events, backup) = followed().await;
    server.restored(backup);
    told(&mut events, &["(", "a@1", "b@2", ")"]).await;
    server.change("b");
    told(&mut events, &["b@3"]).await;
}

#[tokio::test]
async fn a_member_that_went_back_and_went_on_since_is_listed_again() {
    let (server, _member, mut events, backup) = followed().await;
    server.restored(backup);
    for _ in 0..10 {
        server.change("other");
    }
    told(&mut events, &["(", "a@1", "b@2", "other@12", ")"]).await;
}

#[tokio::test]
async fn a_broken_connection_alone_costs_a_glance_and_no_list() {
    let (server, _member, mut events, _) = followed().await;
    server.breaks();
    server.change("d");
    told(&mut events, &["d@4"]).await;
    assert_eq!(server.asked(), ["glance", "watch"]);
    // What changed last changed again meanwhile: its version of before is asked for, and is there.
    server.breaks();
    server.change("d");
    told(&mut events, &["d@5"]).await;
    assert_eq!(server.asked(), ["glance", "then", "watch"]);
    // And is not there any more: nothing is known.
    server.breaks();
    server.change("d");
    server.history.lock().clear();
    told(&mut events, &["(", "a@1"]).await;
}

#[tokio::test]
async fn an_event_without_an_end_is_given_up_soon_and_the_kind_listed_anew_after_a_pause() {
    let (server, member) = Server::start().await;
    server.change("a");
    *server.noise.lock() = Some(Bytes::from(vec![b'x'; 16 << 10]));
    let mut events = watch(&member);
    told(&mut events, &["(", "a@1", ")"]).await;
    let begun = std::time::Instant::now();
    told(&mut events, &["("]).await;
    assert!(begun.elapsed() >= Duration::from_millis(900), "not at once: {:?}", begun.elapsed());
    *server.noise.lock() = None;
    told(&mut events, &["a@1", ")"]).await;
    server.change("b");
    told(&mut events, &["b@2"]).await;
}

#[tokio::test]
async fn a_member_whose_watches_end_in_errors_is_not_listed_without_pause() {
    let (server, member) = Server::start().await;
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}});
    *server.noise.lock() = Some(format!("{gone}\n").into());
    let events = watch(&member);
    let _ = tokio::time::timeout(Duration::from_secs(3), events.for_each(|_| async {})).await;
    let lists = server.asked().iter().filter(|asked| **asked == "list").count();
    assert!((2..=4).contains(&lists), "{lists} lists in three seconds");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_end_is_given_up() {
    let member = fake::member(|_| fake::said(StatusCode::OK, "")).await;
    let begun =
        stream::once(async { Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"{"))) });
    let body = StreamBody::new(begun.chain(stream::pending()));
    let read = tokio::time::timeout(Duration::from_secs(120), member.inner.whole(Box::pin(body))).await;
    assert!(
        matches!(read.expect("it is given up"), Err(MemberError::Unreachable(why)) if why.contains("did not end"))
    );
}

#[test]
fn a_watch_whose_time_is_up_is_told_from_one_that_broke() {
    assert!(is_over(Duration::from_secs(WATCH_SECONDS)) && is_over(Duration::from_secs(WATCH_SECONDS - 1)));
    assert!(!is_over(Duration::from_secs(WATCH_SECONDS / 2)));
}
