//! One event as it is written: `audit.k8s.io/v1` Event.
//!
//! Pure. In: a request's head, its user and attributes, bodies, times. Out: a line of JSON.

use std::collections::BTreeMap;

use http::HeaderMap;
use http::request::Parts;
use karmada_registry::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use karmada_registry::{Attributes, User};
use karmada_schema::fields::text;
use serde::Serialize;
use serde_json::{Value, json};

use super::policy::{Level, Policy, Stage};
use super::{AUDIT_ID, NonRequestEvent, PeerAddress};

/// The longest id that is taken from a client.
const LONGEST_ID: usize = 64;

/// Who, as an event names them.
#[derive(Clone, Debug, Default, Serialize)]
struct Who {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl From<&User> for Who {
    fn from(user: &User) -> Who {
        Who {
            username: user.name.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
        }
    }
}

/// What a request is about.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// An event, as far as it is known.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    id: String,
    stage: Stage,
    #[serde(rename = "requestURI")]
    uri: String,
    verb: String,
    user: Who,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Who>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "Vec::is_empty")]
    source_ips: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_object: Option<Value>,
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// The id that a client gives its request.
pub(super) fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(AUDIT_ID)?.to_str().ok()?;
    (!id.is_empty() && id.len() <= LONGEST_ID).then(|| id.to_owned())
}

fn moment(at: jiff::Timestamp) -> String {
    karmada_schema::time::micros(at)
}

/// Where a request comes from: as proxies on the way say, then the connection's other end.
fn sources(parts: &Parts) -> Vec<String> {
    let address = |text: &str| text.trim().parse::<std::net::IpAddr>().ok();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut all: Vec<std::net::IpAddr> = header("x-forwarded-for").split(',').filter_map(address).collect();
    if let Some(real) = address(header("x-real-ip")).filter(|real| !all.contains(real)) {
        all.push(real);
    }
    if let Some(PeerAddress(peer)) = parts.extensions.get::<PeerAddress>()
        && all.last() != Some(peer)
    {
        all.push(*peer);
    }
    all.iter().map(ToString::to_string).collect()
}

impl Event {
    pub(super) fn of_request(
        level: Level,
        id: String,
        user: Option<&User>,
        attributes: &Attributes,
        parts: &Parts,
        now: jiff::Timestamp,
    ) -> Event {
        let agent = parts.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let object_ref = attributes.is_resource().then(|| ObjectRef {
            resource: attributes.resource.clone(),
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
            api_group: attributes.group.clone(),
            api_version: attributes.version.clone(),
            subresource: attributes.subresource.clone(),
            ..ObjectRef::default()
        });
        Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: level.name(),
            id,
            stage: Stage::RequestReceived,
            uri: parts.uri.path_and_query().map_or("/", |uri| uri.as_str()).to_owned(),
            verb: attributes.verb.clone(),
            user: user.map(Who::from).unwrap_or_default(),
            impersonated_user: None,
            source_ips: sources(parts),
            user_agent: agent.unwrap_or_default().to_owned(),
            object_ref,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received_timestamp: moment(now),
            stage_timestamp: moment(now),
            annotations: BTreeMap::new(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn acts_as(&mut self, user: &User) {
        self.impersonated_user = Some(user.into());
    }

    pub(super) fn note(&mut self, key: &str, value: String) {
        self.annotations.entry(key.to_owned()).or_insert(value);
    }

    /// Fills in what the request's object says of itself; keeps the object where `whole`.
    pub(super) fn request(&mut self, object: Value, whole: bool) {
        if let Some(reference) = &mut self.object_ref {
            let metadata = &object["metadata"];
            let known = [
                (&mut reference.name, "name"),
                (&mut reference.namespace, "namespace"),
                (&mut reference.uid, "uid"),
                (&mut reference.resource_version, "resourceVersion"),
            ];
            for (known, field) in known {
                if known.is_empty() {
                    text(metadata, field).clone_into(known);
                }
            }
        }
        if whole {
            self.request_object = Some(self.shown(object));
        }
    }

    /// How it ended: the code, and what a refusal says.
    pub(super) fn status(&mut self, code: u16, refusal: Option<&Value>) {
        let mut status = json!({"metadata": {}, "code": code});
        if let Some(refusal) = refusal {
            for field in ["status", "message", "reason", "details"] {
                if !refusal[field].is_null() {
                    status[field] = refusal[field].clone();
                }
            }
        }
        self.response_status = Some(status);
    }

    pub(super) fn response(&mut self, object: Value) {
        self.response_object = Some(self.shown(object));
    }

    /// Leaves the objects out: they are too large for a line.
    pub(super) fn truncate(&mut self) {
        (self.request_object, self.response_object) = (None, None);
        self.note("audit.k8s.io/truncated", "true".to_owned());
    }

    /// An object without the tokens in it: those of reviews, and those just issued.
    fn shown(&self, mut object: Value) -> Value {
        let Some(reference) = &self.object_ref else { return object };
        let hidden = match (&*reference.api_group, &*reference.resource, &*reference.subresource) {
            ("authentication.k8s.io", "tokenreviews", _) => ("spec", "token"),
            ("", "serviceaccounts", "token") => ("status", "token"),
            _ => return object,
        };
        if let Some(fields) = object[hidden.0].as_object_mut() {
            fields.remove(hidden.1);
        } else if object[hidden.0].is_null()
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove(hidden.0);
        }
        object
    }

    /// The line of a stage.
    pub(super) fn line(&mut self, stage: Stage, now: jiff::Timestamp) -> Vec<u8> {
        self.stage = stage;
        self.stage_timestamp = moment(now);
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The line of an event of another service of this port; `None` where the policy does not want it.
pub(super) fn of_non_request(
    told: &NonRequestEvent<'_>,
    policy: &Policy,
    id: String,
    now: jiff::Timestamp,
) -> Option<Vec<u8>> {
    let (name, group) = match told.user {
        None => (ANONYMOUS, UNAUTHENTICATED),
        Some(name) => (name, AUTHENTICATED),
    };
    let user = User { name: name.to_owned(), groups: vec![group.to_owned()], ..User::default() };
    let attributes = Attributes {
        verb: told.verb.to_owned(),
        group: told.of.group.to_owned(),
        version: told.of.version.to_owned(),
        resource: told.of.plural.to_owned(),
        subresource: told.of.part.to_owned(),
        name: told.name.to_owned(),
        ..Attributes::default()
    };
    let ruling = policy.judge(Some(&user), &attributes);
    if !ruling.wants(Stage::ResponseComplete) {
        return None;
    }
    let (mut parts, ()) = http::Request::post(told.path).body(()).ok()?.into_parts();
    if let Some(from) = told.from {
        parts.extensions.insert(PeerAddress(from));
    }
    let mut event = Event::of_request(ruling.level, id, Some(&user), &attributes, &parts, now);
    let refusal = (!told.message.is_empty()).then(|| {
        let status = if told.code >= 400 { "Failure" } else { "Success" };
        json!({"status": status, "message": told.message})
    });
    event.status(told.code, refusal.as_ref());
    Some(event.line(Stage::ResponseComplete, now))
}

/// Takes the managed fields out of an object, or of each object of a list.
pub(super) fn drop_managed_fields(object: &mut Value) {
    let drop_one = |object: &mut Value| {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
    };
    if object.is_object() {
        drop_one(object);
    }
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    items.into_iter().flatten().filter(|item| item.is_object()).for_each(drop_one);
}

#[cfg(test)]
mod tests {
    use super::super::NonRequestResource;
    use super::*;

    fn parts(uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(PeerAddress([10, 0, 0, 1].into()));
        parts
    }

    fn event(attributes: &Attributes, parts: &Parts) -> Event {
        let user = User { name: "jane".into(), ..User::default() };
        let now = "2026-05-01T12:00:00.25Z".parse().unwrap();
        Event::of_request(Level::Request, "id".into(), Some(&user), attributes, parts, now)
    }

    #[test]
    fn a_line_says_who_what_when() {
        let request = parts(
            "/api/v1/namespaces/a/pods?limit=1",
            &[
                ("user-agent", "kubectl"),
                ("x-forwarded-for", "1.2.3.4, nonsense"),
                ("authorization", "Bearer s3cret"),
            ],
        );
        let attributes = Attributes {
            verb: "list".into(),
            version: "v1".into(),
            resource: "pods".into(),
            namespace: "a".into(),
            ..Attributes::default()
        };
        let mut event = event(&attributes, &request);
        event.status(200, None);
        let line = event.line(Stage::ResponseComplete, "2026-05-01T12:00:01Z".parse().unwrap());
        let line = String::from_utf8(line).unwrap();
        assert!(line.ends_with('\n') && !line.contains("s3cret"), "{line}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            value,
            json!({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "auditID": "id", "stage": "ResponseComplete",
                "requestURI": "/api/v1/namespaces/a/pods?limit=1", "verb": "list", "user": {"username": "jane"},
                "sourceIPs": ["1.2.3.4", "10.0.0.1"], "userAgent": "kubectl",
                "objectRef": {"resource": "pods", "namespace": "a", "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "code": 200},
                "requestReceivedTimestamp": "2026-05-01T12:00:00.250000Z", "stageTimestamp": "2026-05-01T12:00:01.000000Z",
            })
        );
    }

    #[test]
    fn a_join_is_told_as_the_policy_wants_it() {
        let text = |rule: &str| format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rule}]");
        let happened = NonRequestEvent {
            verb: "join",
            user: None,
            path: "/other/Enter",
            of: NonRequestResource { group: "example.org", version: "v1", plural: "houses", part: "guest" },
            name: "north",
            from: Some([10, 0, 0, 1].into()),
            code: 401,
            message: "the hub does not know this token",
        };
        let told = |rule: &str| {
            let policy = Policy::read(&text(rule)).unwrap();
            of_non_request(&happened, &policy, "id".into(), "2026-05-01T12:00:00Z".parse().unwrap())
        };
        assert_eq!(told("{level: None}"), None);
        assert_eq!(told("{level: Metadata, verbs: [get]}"), None);
        let line = told(
            "{level: Metadata, verbs: [join], resources: [{group: example.org, resources: [houses/guest]}]}",
        );
        let value: Value = serde_json::from_slice(&line.unwrap()).unwrap();
        assert_eq!(
            (&value["verb"], &value["user"]["username"]),
            (&json!("join"), &json!("system:anonymous"))
        );
        assert_eq!(
            (&value["objectRef"]["name"], &value["sourceIPs"]),
            (&json!("north"), &json!(["10.0.0.1"]))
        );
        assert_eq!(value["responseStatus"]["code"], 401);
        assert_eq!(value["responseStatus"]["message"], happened.message);
    }

    #[test]
    fn tokens_are_not_shown() {
        let review = Attributes {
            group: "authentication.k8s.io".into(),
            resource: "tokenreviews".into(),
            ..Attributes::default()
        };
        let mut reviewed = event(&review, &parts("/", &[]));
        reviewed.request(json!({"spec": {"token": "s3cret", "audiences": ["a"]}}), true);
        assert_eq!(reviewed.request_object, Some(json!({"spec": {"audiences": ["a"]}})));
        let issued = Attributes {
            resource: "serviceaccounts".into(),
            subresource: "token".into(),
            ..Attributes::default()
        };
        let mut event = event(&issued, &parts("/", &[]));
        event.request(json!({"spec": {}}), true);
        event.response(json!({"status": {"token": "s3cret", "expirationTimestamp": "t"}}));
        assert!(
            !String::from_utf8(event.line(Stage::ResponseComplete, jiff::Timestamp::UNIX_EPOCH))
                .unwrap()
                .contains("s3cret")
        );
    }

    #[test]
    fn objects_tell_their_names_and_may_lose_their_managers() {
        let attributes = Attributes { resource: "pods".into(), ..Attributes::default() };
        let mut event = event(&attributes, &parts("/", &[]));
        event.request(json!({"metadata": {"name": "n", "uid": "u"}}), false);
        let reference = event.object_ref.as_ref().unwrap();
        assert_eq!((reference.name.as_str(), reference.uid.as_str()), ("n", "u"));
        assert!(event.request_object.is_none());
        let mut list =
            json!({"metadata": {}, "items": [{"metadata": {"managedFields": [1], "name": "a"}}, 5]});
        drop_managed_fields(&mut list);
        assert_eq!(list, json!({"metadata": {}, "items": [{"metadata": {"name": "a"}}, 5]}));
        event.truncate();
        assert_eq!(event.annotations["audit.k8s.io/truncated"], "true");
    }
}
