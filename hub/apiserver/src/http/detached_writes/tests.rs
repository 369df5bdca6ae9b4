//! Writes whose callers go away or lose patience, over a store that takes its time.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use karmada_access::{Access, Authorizer, Claims, ServiceAccountTokens};
use karmada_registry::cache::Cache;
use karmada_registry::user::MASTERS;
use karmada_registry::{Parts, Registry, User};
use karmada_store::{Expect, KeyValue, MemoryStore, Page, Revision, Store, StoreError, Watch};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::audit::{Audit, AuditLog, LogOptions, Policy};
use crate::http::{ApiServer, Body, CertificateUser, ServerOptions};

const SERVICES: &str = "/api/v1/namespaces/shop/services";

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

/// A store whose writes of Services are under way until they are let through.
struct Slow {
    store: Arc<MemoryStore>,
    gate: Arc<Semaphore>,
}

impl Store for Slow {
    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Revision, StoreError>> {
        if !key.contains("/services/") {
            return self.store.put(key, value, expect);
        }
        let (store, gate, key) = (self.store.clone(), self.gate.clone(), key.to_owned());
        // Under way from now on, whoever waits for it.
        let put = tokio::spawn(async move {
            gate.acquire().await.unwrap().forget();
            store.put(&key, value, expect).await
        });
        async { put.await.unwrap() }.boxed()
    }
    fn delete(&self, key: &str, expect: Revision) -> BoxFuture<'static, Result<Revision, StoreError>> {
        self.store.delete(key, expect)
    }
    fn get(&self, key: &str) -> BoxFuture<'static, Result<Option<KeyValue>, StoreError>> {
        self.store.get(key)
    }
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> BoxFuture<'static, Result<Page, StoreError>> {
        self.store.list(prefix, after, limit)
    }
    fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, StoreError> {
        self.store.watch(prefix, after)
    }
    fn compact(&self, revision: Revision) -> BoxFuture<'static, Result<(), StoreError>> {
        self.store.compact(revision)
    }
    fn oldest(&self) -> Revision {
        self.store.oldest()
    }
    fn revision(&self) -> Revision {
        self.store.revision()
    }
    fn epoch(&self) -> u64 {
        self.store.epoch()
    }
    fn raise_epoch(&self, seen: u64) -> BoxFuture<'static, Result<u64, StoreError>> {
        self.store.raise_epoch(seen)
    }
    fn close(&self) -> BoxFuture<'static, ()> {
        self.store.close()
    }
}

struct Server {
    api: Arc<ApiServer>,
    gate: Arc<Semaphore>,
    log: std::path::PathBuf,
    _folder: tempfile::TempDir,
    _stop: DropGuard,
}

impl Server {
    async fn start() -> Server {
        let gate = Arc::new(Semaphore::new(0));
        let store: Arc<dyn Store> =
            Arc::new(Slow { store: Arc::new(MemoryStore::new()), gate: gate.clone() });
        let cache = Cache::load(&*store).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
        let authorizer = Authorizer::new(cache.clone());
        let clock = Arc::new(|| jiff::Timestamp::from_second(1_750_000_000).unwrap());
        let registry = Arc::new(Registry::new(Parts {
            store,
            cache,
            catalogue: karmada_kinds::catalogue::shipped(),
            admission: Vec::new(),
            authorizer: authorizer.clone(),
            clock: clock.clone(),
            ids: Arc::new(uuid::Uuid::new_v4),
        }));
        let access = Arc::new(Access::new(&registry, authorizer, Arc::new(NoTokens)));
        let options = ServerOptions {
            git_version: "v1.34.4".to_owned(),
            git_commit: String::new(),
            advertise: "127.0.0.1:0".to_owned(),
        };
        let (ready, page) = (Arc::new(Vec::new), Arc::new(String::new));
        let api = ApiServer::new(registry, access, options, ready, page, stop.clone());
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]";
        let options = LogOptions { path: log.clone(), ..LogOptions::default() };
        let lines = AuditLog::start(&options, clock.clone()).unwrap();
        let audit = Audit::new(Policy::read(policy).unwrap(), lines, clock, Arc::new(uuid::Uuid::new_v4));
        let api = Arc::new(api.audited(Some(Arc::new(audit))));
        Server { api, gate, log, _folder: folder, _stop: stop.drop_guard() }
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .unwrap();
        let user = User { name: "root".into(), groups: vec![MASTERS.into()], ..User::default() };
        request.extensions_mut().insert(CertificateUser(user));
        self.api.clone().handle(request)
    }

    /// What the log says of a request to this path, once it says something.
    async fn logged(&self, path: &str) -> Vec<(String, u64)> {
        for _ in 0..500 {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let of_path = lines.filter(|line| line["requestURI"].as_str().unwrap().starts_with(path));
            let told: Vec<_> = of_path
                .map(|line| {
                    let code = line["responseStatus"]["code"].as_u64().unwrap();
                    (line["verb"].as_str().unwrap().to_owned(), code)
                })
                .collect();
            if !told.is_empty() {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Vec::new()
    }
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30100}]}})
}

/// Leaves a request some time to come as far as it can, then goes away.
async fn goes_away(request: impl Future<Output = Response<Body>>) {
    assert!(tokio::time::timeout(Duration::from_millis(50), request).await.is_err(), "it was answered");
}

#[tokio::test]
async fn a_write_whose_caller_goes_away_is_in_the_audit_log_with_what_became_of_it() {
    let server = Server::start().await;
    goes_away(Box::pin(server.ask("POST", SERVICES, &service("a")))).await;
    server.gate.add_permits(9);
    assert_eq!(server.logged(SERVICES).await, [("create".to_owned(), 201)]);
    let path = format!("{SERVICES}/a");
    assert_eq!(server.ask("GET", &path, &Value::Null).await.status(), 200, "it was made");
}

#[tokio::test]
async fn what_a_write_holds_is_held_until_it_can_be_seen_whoever_goes_away() {
    for hurry in ["", "?timeout=20ms"] {
        let server = Server::start().await;
        let first = server.ask("POST", &format!("{SERVICES}{hurry}"), &service("a"));
        if hurry.is_empty() {
            goes_away(Box::pin(first)).await;
        } else {
            assert_eq!(first.await.status(), 504, "its patience ended");
        }
        let second = tokio::spawn(server.ask("POST", SERVICES, &service("b")));
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.gate.add_permits(9);
        assert_eq!(second.await.unwrap().status(), 422, "{hurry}: one port was given to two Services");
        assert_eq!(server.ask("GET", &format!("{SERVICES}/a"), &Value::Null).await.status(), 200);
    }
}

#[tokio::test]
async fn a_read_whose_caller_goes_away_is_dropped_and_still_in_the_log() {
    let server = Server::start().await;
    let path = "/api/v1/namespaces/shop/secrets?resourceVersion=999999";
    goes_away(Box::pin(server.ask("GET", path, &Value::Null))).await;
    assert_eq!(server.logged(path).await, [("list".to_owned(), 499)]);
}
