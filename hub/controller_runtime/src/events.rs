//! Records what happened to an object as core/v1 Events, for `kubectl describe` and `kubectl events`.
//!
//! In: an object, a type, a reason, a message. Out: Events through the port: the same words about the same object again raise
//! `count` and `lastTimestamp` of one Event. Recording never waits and never fails: an object that chatters is held back (25
//! Events, then one in five minutes, as client-go), all are written at a pace that leaves the hub to its work, and what does
//! not fit into memory bounds is dropped and counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karmada_api::binding::ResourceBinding;
use karmada_api::time::seconds;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::port::{Api, ApiError, Object, Resource};
use crate::queue::{Queue, WorkQueue};
use crate::runner::Clock;

/// Between two events: they are for people to read, and a burst of them must not keep workloads waiting.
const PACE: Duration = Duration::from_millis(10);
/// Events waiting to be written, at most.
const PENDING: usize = 4096;
/// Written Events remembered for counting up, and objects remembered for holding back, at most.
const REMEMBERED: usize = 4096;
/// Events about one object in a burst.
const BURST: f64 = 25.0;
/// Seconds until an object may have one more.
const REFILL_SECONDS: f64 = 300.0;

/// Whether an event tells of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// As expected.
    Normal,
    /// Someone may have to act.
    Warning,
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// apiVersion.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

impl Reference {
    /// The reference of a stored object.
    pub fn to(resource: &Resource, object: &Object) -> Self {
        Reference {
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            namespace: object.key.namespace.to_string(),
            name: object.key.name.to_string(),
            uid: object.uid.to_string(),
        }
    }

    /// The reference of a binding.
    pub fn of_binding(binding: &ResourceBinding) -> Self {
        Reference {
            api_version: binding.api_version.clone(),
            kind: binding.kind.clone(),
            namespace: binding.namespace().to_owned(),
            name: binding.name().to_owned(),
            uid: binding.metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// The reference of a Cluster; its uid may be empty.
    pub fn of_cluster(name: &str, uid: &str) -> Self {
        Reference {
            api_version: "cluster.karmada.io/v1alpha1".to_owned(),
            kind: "Cluster".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// The reference of the template that a binding places.
    pub fn of_template(binding: &ResourceBinding) -> Self {
        let resource = &binding.spec.resource;
        Reference {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: resource.namespace.clone(),
            name: resource.name.clone(),
            uid: resource.uid.clone(),
        }
    }

    /// The reference of an object as JSON.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let metadata = &object["metadata"];
        Reference {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            uid: text(&metadata["uid"]),
        }
    }
}

/// What makes two events one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sameness {
    about: Reference,
    kind: EventType,
    reason: String,
    message: String,
}

/// Occurrences that are not written yet.
#[derive(Clone, Copy)]
struct Pending {
    times: u64,
    first: jiff::Timestamp,
    last: jiff::Timestamp,
}

/// An Event that was written.
#[derive(Clone)]
struct Recorded {
    name: String,
    last: jiff::Timestamp,
}

/// Tokens of one object.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: jiff::Timestamp,
}

/// Records events in the name of one component.
pub struct Recorder {
    api: Arc<dyn Api>,
    component: String,
    clock: Clock,
    queue: Queue<Sameness>,
    pending: Mutex<BTreeMap<Sameness, Pending>>,
    recorded: Mutex<BTreeMap<Sameness, Recorded>>,
    buckets: Mutex<BTreeMap<Reference, Bucket>>,
    dropped: AtomicU64,
    /// Told apart from others of the same instant by this.
    written: AtomicU64,
}

impl Recorder {
    /// A recorder; nothing is written until [`Recorder::run`] runs.
    pub fn new(api: Arc<dyn Api>, component: &str, clock: Clock) -> Arc<Self> {
        Arc::new(Recorder {
            api,
            component: component.to_owned(),
            clock,
            queue: Queue::default(),
            pending: Mutex::default(),
            recorded: Mutex::default(),
            buckets: Mutex::default(),
            dropped: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Notes that `reason` happened to `about`. Returns at once.
    pub fn record(&self, about: &Reference, kind: EventType, reason: &str, message: &str) {
        let now = (self.clock)();
        let same = Sameness {
            about: about.clone(),
            kind,
            reason: reason.to_owned(),
            message: message.chars().take(1024).collect(),
        };
        let mut pending = self.pending.lock();
        if let Some(waiting) = pending.get_mut(&same) {
            waiting.times += 1;
            waiting.last = now;
            return;
        }
        if pending.len() >= PENDING || !self.permit(about, now) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        pending.insert(same.clone(), Pending { times: 1, first: now, last: now });
        drop(pending);
        self.queue.add(same);
    }

    /// Notes that `reason` happened to a binding, on itself and on the template that it places.
    pub fn record_of_binding(&self, binding: &ResourceBinding, kind: EventType, reason: &str, message: &str) {
        for about in [Reference::of_binding(binding), Reference::of_template(binding)] {
            self.record(&about, kind, reason, message);
        }
    }

    /// How many occurrences were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes one token of the object's bucket.
    fn permit(&self, about: &Reference, now: jiff::Timestamp) -> bool {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= REMEMBERED && !buckets.contains_key(about) {
            buckets.retain(|_, bucket| refilled(bucket, now) < BURST);
            if buckets.len() >= REMEMBERED {
                buckets.pop_first();
            }
        }
        let bucket = buckets.entry(about.clone()).or_insert(Bucket { tokens: BURST, at: now });
        let tokens = refilled(bucket, now);
        let allowed = tokens >= 1.0;
        *bucket = Bucket { tokens: if allowed { tokens - 1.0 } else { tokens }, at: now };
        allowed
    }

    /// Writes what is recorded until told to stop.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let same = tokio::select! {
                () = stop.cancelled() => return self.queue.close(),
                same = self.queue.next() => same,
            };
            let Some(same) = same else { return };
            let waiting = self.pending.lock().remove(&same);
            if let Some(waiting) = waiting
                && let Err(error) = self.write(&same, waiting).await
            {
                // An event is not worth a retry storm: what is still so will be recorded again.
                tracing::debug!(%error, reason = same.reason, "an event was not written");
            }
            self.queue.done(&same);
            tokio::time::sleep(PACE).await;
        }
    }

    async fn write(&self, same: &Sameness, waiting: Pending) -> Result<(), ApiError> {
        let resource = self.api.resource_of("v1", "Event");
        let resource = resource.ok_or_else(|| ApiError::NotFound("events are not served".into()))?;
        let namespace = if same.about.namespace.is_empty() { "default" } else { &same.about.namespace };
        let before = self.recorded.lock().get(same).cloned();
        if let Some(before) = before {
            match self.count_up(&resource, namespace, &before.name, waiting).await {
                Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {}
                other => {
                    self.remember(same, before.name, waiting.last);
                    return other;
                }
            }
        }
        let serial = self.written.fetch_add(1, Ordering::Relaxed);
        let event = new_event(same, namespace, &self.component, waiting, serial);
        let written = self.api.create(&resource, event).await?;
        self.remember(same, written.key.name.to_string(), waiting.last);
        Ok(())
    }

    async fn count_up(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        waiting: Pending,
    ) -> Result<(), ApiError> {
        let mut event = self.api.get(resource, namespace, name).await?.value()?;
        let times = event["count"].as_u64().unwrap_or(1).saturating_add(waiting.times);
        event["count"] = json!(times);
        event["lastTimestamp"] = json!(seconds(waiting.last));
        self.api.update(resource, event).await.map(drop)
    }

    fn remember(&self, same: &Sameness, name: String, last: jiff::Timestamp) {
        let mut recorded = self.recorded.lock();
        if recorded.len() >= REMEMBERED && !recorded.contains_key(same) {
            let oldest = recorded.iter().min_by_key(|(_, r)| r.last).map(|(same, _)| same.clone());
            oldest.and_then(|oldest| recorded.remove(&oldest));
        }
        recorded.insert(same.clone(), Recorded { name, last });
    }
}

fn refilled(bucket: &Bucket, now: jiff::Timestamp) -> f64 {
    let elapsed = now.duration_since(bucket.at).as_secs_f64().max(0.0);
    (bucket.tokens + elapsed / REFILL_SECONDS).min(BURST)
}

fn new_event(same: &Sameness, namespace: &str, component: &str, waiting: Pending, serial: u64) -> Value {
    let about = &same.about;
    let mut involved = json!({"apiVersion": about.api_version, "kind": about.kind, "name": about.name});
    for (field, text) in [("namespace", &about.namespace), ("uid", &about.uid)] {
        if !text.is_empty() {
            involved[field] = json!(text);
        }
    }
    // client-go's way to a name that nobody else takes: the object's name and the time in nanoseconds.
    let name = format!("{}.{:x}", about.name, waiting.first.as_nanosecond() + i128::from(serial));
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "reason": same.reason,
        "message": same.message,
        "type": match same.kind { EventType::Normal => "Normal", EventType::Warning => "Warning" },
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "eventTime": null,
        "firstTimestamp": seconds(waiting.first),
        "lastTimestamp": seconds(waiting.last),
        "count": waiting.times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_object_and_counts() {
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let about = Reference::of(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u"}}));
        let same = Sameness {
            about,
            kind: EventType::Warning,
            reason: "ApplyPolicyFailed".into(),
            message: "No policy match for resource".into(),
        };
        let event =
            new_event(&same, "shop", "resource-detector", Pending { times: 2, first: at, last: at }, 0);
        assert_eq!(event["involvedObject"]["uid"], "u");
        assert_eq!(event["count"], 2);
        assert_eq!(event["lastTimestamp"], "2026-01-02T03:04:05Z");
        assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web."));
    }

    #[test]
    fn a_bucket_refills_with_time() {
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let empty = Bucket { tokens: 0.0, at };
        assert!(refilled(&empty, at) < 1.0);
        assert!(refilled(&empty, at + jiff::SignedDuration::from_secs(301)) >= 1.0);
        assert!(refilled(&empty, at + jiff::SignedDuration::from_secs(1 << 30)) <= BURST);
    }

    /// Lets the recorder write what waits.
    async fn written(recorder: &Recorder) {
        let stop = CancellationToken::new();
        let soon = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        };
        tokio::join!(recorder.run(stop.clone()), soon);
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_again_is_counted_and_chatter_is_held_back() {
        let api = Arc::new(crate::port::fake::FakeApi::default());
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let about = |name: &str| {
            Reference::of(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
        };
        let recorder = Recorder::new(api.clone(), "test", Arc::new(move || at));
        for _ in 0..3 {
            recorder.record(&about("a"), EventType::Normal, "Seen", "again");
        }
        recorder.record(&about("b"), EventType::Normal, "Seen", "once");
        written(&recorder).await;
        let counts = |api: &crate::port::fake::FakeApi| -> Vec<Value> {
            api.values("v1", "Event").iter().map(|event| event["count"].clone()).collect()
        };
        assert_eq!(counts(&api), [json!(3), json!(1)]);
        let recorder = Recorder::new(api.clone(), "test", Arc::new(move || at));
        recorder.record(&about("c"), EventType::Warning, "Failed", "first");
        written(&recorder).await;
        let other = Recorder::new(api.clone(), "test", Arc::new(move || at));
        for n in 0..40 {
            other.record(&about("d"), EventType::Warning, "Failed", &format!("try {n}"));
        }
        assert_eq!(other.dropped(), 15, "25 in a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_was_written_is_raised_and_one_that_expired_is_made_anew() {
        let api = Arc::new(crate::port::fake::FakeApi::default());
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let about = Reference::of(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}));
        let recorder = Recorder::new(api.clone(), "test", Arc::new(move || at));
        let stop = CancellationToken::new();
        let acts = async {
            let pause = || tokio::time::sleep(Duration::from_secs(1));
            for _ in 0..2 {
                recorder.record(&about, EventType::Normal, "Seen", "again");
                pause().await;
            }
            let events = api.values("v1", "Event");
            assert_eq!((events.len(), &events[0]["count"]), (1, &json!(2)));
            let kind = api.resource_of("v1", "Event").unwrap();
            for event in api.list(&kind, "").await.unwrap() {
                api.delete(&kind, &event.key, "", crate::port::DeletionPropagation::Background)
                    .await
                    .unwrap();
            }
            recorder.record(&about, EventType::Normal, "Seen", "again");
            pause().await;
            assert_eq!(api.values("v1", "Event")[0]["count"], 1);
            stop.cancel();
        };
        tokio::join!(recorder.run(stop.clone()), acts);
    }
}
