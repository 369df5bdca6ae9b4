//! The API server in this process, with resources that are in no store. In: requests of a user. Out: codes, bodies, events of watches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use karmada_access::{Access, Authorizer, Claims, ServiceAccountTokens};
use karmada_apiserver::connect::Connectors;
use karmada_apiserver::http::{ApiServer, Body, CertificateUser, ServerOptions};
use karmada_registry::cache::{Cache, Published};
use karmada_registry::user::MASTERS;
use karmada_registry::{Parts, Registry, User};
use karmada_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::provider::{Beacons, Echoes, Line, catalogue};

/// Nobody has a token here.
struct NoTokens;

impl ServiceAccountTokens for NoTokens {
    fn issue(&self, _: &Claims) -> Result<String, String> {
        Err("no tokens".to_owned())
    }
    fn verify(&self, _: &str) -> Option<Claims> {
        None
    }
}

pub struct Server {
    api: Arc<ApiServer>,
    pub beacons: Arc<Beacons>,
    _stop: DropGuard,
}

/// The events of a watch.
pub struct Events(Body);

impl Events {
    /// The next ones: what happened, and to which object; `None` at the end.
    pub async fn next(&mut self) -> Option<Vec<String>> {
        let frame = tokio::time::timeout(Duration::from_secs(10), self.0.frame()).await.unwrap()?;
        let data = frame.unwrap().into_data().unwrap();
        let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let told = lines.map(|line| {
            let event: Value = serde_json::from_slice(line).unwrap();
            let of = event["object"]["metadata"]["name"].as_str().map(str::to_owned);
            let of = of.or_else(|| event["object"]["code"].as_u64().map(|code| code.to_string()));
            format!("{} {}", event["type"].as_str().unwrap(), of.unwrap_or_default())
        });
        Some(told.collect())
    }
}

impl Server {
    pub async fn start() -> Server {
        Self::with_seats(None).await
    }

    /// With so many seats for the levels that a hub has by itself.
    pub async fn with_seats(seats: Option<u32>) -> Server {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let levels = karmada_kinds::flow_control::levels();
        for object in levels.iter().chain(&karmada_kinds::flow_control::schemas()) {
            use karmada_schema::object::{ObjectKey, encode, meta};
            let (kind, group) = (object["kind"].as_str().unwrap(), "flowcontrol.apiserver.k8s.io");
            let storage =
                karmada_definitions::resource::StorageId(format!("{group}/{}s", kind.to_lowercase()).into());
            let key = karmada_registry::cache::storage_key(&storage, &ObjectKey::new("", meta::name(object)));
            store
                .put(&key, encode(object, kind, &format!("{group}/v1")), karmada_store::Expect::Absent)
                .await
                .unwrap();
        }
        let cache = Cache::load(&*store).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
        let authorizer = Authorizer::new(cache.clone());
        let (clock, ids) = (Arc::new(jiff::Timestamp::now), Arc::new(uuid::Uuid::new_v4));
        let served = catalogue();
        let definition = |plural| served.resource("test.example.org", "v1", plural).unwrap().clone();
        let [beacons, echoes] = ["beacons", "echoes"].map(definition);
        let fairness = seats.map(|seats| karmada_apiserver::fairness::Fairness::new(&cache, seats));
        let registry = Arc::new(Registry::new(Parts {
            store,
            cache,
            catalogue: served,
            admission: Vec::new(),
            authorizer: authorizer.clone(),
            clock,
            ids,
        }));
        let shown = Arc::new(Beacons(Published::new(beacons.storage.clone(), jiff::Timestamp::now())));
        registry.provide(&beacons, shown.clone());
        registry.provide(&echoes, Arc::new(Echoes));
        let access = Access::new(&registry, authorizer, Arc::new(NoTokens));
        let options = ServerOptions {
            git_version: "v1.35.0".to_owned(),
            git_commit: String::new(),
            advertise: "127.0.0.1:0".to_owned(),
        };
        let page = Arc::new(String::new);
        let api = ApiServer::new(registry, Arc::new(access), options, Arc::new(Vec::new), page, stop.clone());
        let lines = Connectors::default().with(("test.example.org", "beacons", "line"), Arc::new(Line));
        Server {
            api: Arc::new(api.fair(fairness).connecting(lines)),
            beacons: shown,
            _stop: stop.drop_guard(),
        }
    }

    async fn send<B>(&self, user: &str, request: http::request::Builder, body: B) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        let mut request = request.header("content-type", "application/json").body(body).unwrap();
        let groups = if user == "root" { vec![MASTERS.to_owned()] } else { Vec::new() };
        request.extensions_mut().insert(CertificateUser(User {
            name: user.into(),
            groups,
            ..User::default()
        }));
        self.api.clone().handle(request).await
    }

    async fn whole(response: Response<Body>) -> (u16, String) {
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    pub async fn ask(&self, user: &str, method: &str, path: &str, body: String) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        Self::whole(self.send(user, request, Full::new(Bytes::from(body))).await).await
    }

    /// The answer to a request whose body never ends.
    pub async fn unending(&self, method: &str, path: &str) -> (u16, String) {
        let pieces = futures::stream::iter([Ok::<_, String>(Frame::data(Bytes::from("and on")))]);
        let body = StreamBody::new(pieces.chain(futures::stream::pending()));
        let answer = self.send("root", Request::builder().method(method).uri(path), body);
        Self::whole(tokio::time::timeout(Duration::from_secs(10), answer).await.unwrap()).await
    }

    pub async fn get_as(&self, path: &str, accept: &str, code: u16) -> String {
        let request = Request::get(path).header("accept", accept);
        let (answered, text) = Self::whole(self.send("root", request, Full::default()).await).await;
        assert_eq!(answered, code, "{path}: {text}");
        text
    }

    pub async fn get(&self, path: &str, code: u16) -> Value {
        serde_json::from_str(&self.get_as(path, "application/json", code).await).unwrap()
    }

    pub async fn watch(&self, path: &str) -> Events {
        let response = self.send("root", Request::get(path), Full::default()).await;
        assert_eq!(response.status(), 200, "{path}");
        Events(response.into_body())
    }

    /// Gives a user these rules.
    pub async fn allow(&self, user: &str, rules: Value) {
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        let role =
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
        let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
        for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
            let path = format!("/apis/{version}/{plural}");
            let (code, text) = self.ask("root", "POST", &path, object.to_string()).await;
            assert_eq!(code, 201, "{text}");
        }
    }
}
