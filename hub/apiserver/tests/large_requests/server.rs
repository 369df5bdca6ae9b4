//! The API server in this process, over a store in memory. In: requests. Out: the codes and bodies of their answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use karmada_access::{Access, Authorizer, Claims, Escalation, ServiceAccountTokens};
use karmada_api::admission::{self as karmada, Context};
use karmada_apiserver::http::{ApiServer, Body, CertificateUser, ServerOptions};
use karmada_definitions::status::Status;
use karmada_registry::admission::{Admission, LimitRanger, NamespaceLifecycle, PodDefaults};
use karmada_registry::cache::Cache;
use karmada_registry::crd::DefinitionController;
use karmada_registry::user::MASTERS;
use karmada_registry::{AdmissionRequest, Operation, Parts, Registry, RegistryContext, User};
use karmada_store::{MemoryStore, Store};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// One request.
pub struct Ask {
    pub method: &'static str,
    pub path: String,
    pub content: &'static str,
    pub body: Bytes,
}

impl Ask {
    pub fn new(method: &'static str, path: impl Into<String>, content: &'static str, body: &Value) -> Ask {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        Ask { method, path: path.into(), content, body: body.into() }
    }
}

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

/// What the hub registers for Karmada's kinds: their own rules, without the words of the refusal.
struct KarmadaRules;

impl Admission for KarmadaRules {
    fn admit(&self, context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let operation = match request.operation {
            Operation::Create => karmada::Operation::Create,
            Operation::Update => karmada::Operation::Update,
            Operation::Delete | Operation::Connect => return Ok(()),
        };
        let (group, kind) = (&*request.definition.group, &*request.definition.kind);
        if !request.subresource.is_empty() || !group.ends_with("karmada.io") {
            return Ok(());
        }
        let context =
            Context { now: context.now(), new_uuid: &|| context.new_uid(), grades: Default::default() };
        karmada::mutate(group, kind, operation, request.object, request.old, &context);
        match karmada::validate(group, kind, operation, request.object, request.old).is_empty() {
            true => Ok(()),
            false => Err(Status::invalid(group, kind, "", Vec::new())),
        }
    }
}

/// The server, asked by who may do everything.
pub struct Server {
    api: Arc<ApiServer>,
    _stop: DropGuard,
}

impl Server {
    pub async fn start() -> Server {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let cache = Cache::load(&*store).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(cache.clone().run(store.clone(), stop.clone()));
        let authorizer = Authorizer::new(cache.clone());
        let gates: Vec<Box<dyn Admission>> = vec![
            Box::new(NamespaceLifecycle),
            Box::new(PodDefaults),
            Box::new(LimitRanger::new(&cache)),
            Box::new(Escalation::new(authorizer.clone())),
            Box::new(KarmadaRules),
        ];
        let (clock, ids) = (Arc::new(jiff::Timestamp::now), Arc::new(uuid::Uuid::new_v4));
        let registry = Arc::new(Registry::new(Parts {
            store,
            cache,
            catalogue: karmada_kinds::catalogue::shipped(),
            admission: gates,
            authorizer: authorizer.clone(),
            clock,
            ids,
        }));
        let definitions = DefinitionController::new(registry.clone());
        definitions.start();
        tokio::spawn(karmada_registry::reconciler::run(
            registry.clone(),
            Box::new(definitions),
            stop.clone(),
        ));
        let access = Access::new(&registry, authorizer, Arc::new(NoTokens));
        let options = ServerOptions {
            git_version: "v1.35.0".to_owned(),
            git_commit: String::new(),
            advertise: "127.0.0.1:0".to_owned(),
        };
        let api = ApiServer::new(
            registry,
            Arc::new(access),
            options,
            Arc::new(Vec::new),
            Arc::new(String::new),
            stop.clone(),
        );
        let server = Server { api: Arc::new(api), _stop: stop.drop_guard() };
        server.settle().await;
        server
    }

    /// What the rows build on: a namespace, and a custom kind with lists of each sort.
    async fn settle(&self) {
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let asks = [
            Ask::new("POST", "/api/v1/namespaces", "application/json", &shop),
            Ask::new(
                "POST",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                "application/json",
                &super::custom_kinds::crates(),
            ),
        ];
        for ask in asks {
            let (code, text) = self.ask(ask).await;
            assert_eq!(code, 201, "{text}");
        }
        for _ in 0..500 {
            let list = Ask::new(
                "GET",
                "/apis/example.com/v1/namespaces/shop/crates",
                "application/json",
                &Value::Null,
            );
            if self.ask(list).await.0 == 200 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the custom kind is not served");
    }

    /// The answer's code and body.
    pub async fn ask(&self, ask: Ask) -> (u16, String) {
        let response = self.answer(ask).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    /// The answer, whose body may have no end.
    pub async fn answer(&self, ask: Ask) -> Response<Body> {
        let root = User { name: "root".into(), groups: vec![MASTERS.into()], ..User::default() };
        self.answer_to(root, ask).await
    }

    /// The answer to somebody.
    pub async fn answer_to(&self, user: User, ask: Ask) -> Response<Body> {
        let mut request = Request::builder()
            .method(ask.method)
            .uri(ask.path)
            .header("content-type", ask.content)
            .body(Full::new(ask.body))
            .unwrap();
        request.extensions_mut().insert(CertificateUser(user));
        self.api.clone().handle(request).await
    }
}
