//! A hub, its clock, and what knocks at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use karmada_agent::link::dial::{Tcp, dial};
use karmada_certs::{
    CertificateRequest, ClientKey, KeyedCertificate, PeerIdentity, Trust, agent_subject, client_config_h2,
};
use karmada_hub::{Hub, Serves, Settings, StoreKind};
use karmada_proto::v1::{
    AgentFrame, Close, CloseCode, Hello, HubFrame, JoinRefusal, JoinRefusalCode, JoinRequest, agent_frame,
    hub_frame, join_reply,
};
use karmada_registry::{Origin, User, WriteOptions};
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

pub const TOKEN: &str = "abcdef.0123456789abcdef";
pub const HOUR: Duration = Duration::from_secs(3600);

pub struct World {
    pub hub: Hub,
    ahead: Arc<AtomicI64>,
    directory: TempDir,
}

/// What a join was answered.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Granted(String),
    Pending,
    Refused(JoinRefusal),
}

impl Answer {
    pub fn code(&self) -> Option<JoinRefusalCode> {
        match self {
            Answer::Refused(refusal) => Some(refusal.code()),
            _ => None,
        }
    }

    #[track_caller]
    pub fn certificate(&self, key: &ClientKey) -> KeyedCertificate {
        let Answer::Granted(certificate) = self else { panic!("{self:?}") };
        key.with_certificate(certificate.clone())
    }
}

impl World {
    pub async fn start() -> World {
        World::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Settings)) -> World {
        World::begun(0, change).await
    }

    /// One whose clock shows so many seconds more than this machine's when it starts.
    pub async fn begun(ahead: i64, change: impl FnOnce(&mut Settings)) -> World {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            serves: Serves::Fleet,
            accept_data_loss: false,
            encryption: None,
            data_dir: directory.path().to_owned(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: Vec::new(),
            store: StoreKind::Memory,
            access: karmada_hub::AccessSettings::default(),
            controllers: true,
            lifecycle: karmada_hub::LifecycleSettings::default(),
        };
        change(&mut settings);
        let ahead = Arc::new(AtomicI64::new(ahead));
        let read = ahead.clone();
        let clock = Arc::new(move || {
            Timestamp::now() + jiff::SignedDuration::from_secs(read.load(Ordering::Relaxed))
        });
        let world = World { hub: Hub::start(&settings, clock).await.unwrap(), ahead, directory };
        world.token(TOKEN, &[]).await;
        world
    }

    /// The directory of its CA.
    pub fn authority_folder(&self) -> std::path::PathBuf {
        self.directory.path().join("pki")
    }

    /// Sets the hub's clock ahead.
    pub fn pass(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::Relaxed);
    }

    pub async fn token(&self, token: &str, more: &[(&str, &str)]) {
        let (id, secret) = token.split_once('.').unwrap();
        let mut data = json!({
            "token-id": STANDARD.encode(id), "token-secret": STANDARD.encode(secret),
            "usage-bootstrap-authentication": STANDARD.encode("true"),
            "auth-extra-groups": STANDARD.encode("system:bootstrappers:karmada:default-cluster-token"),
        });
        for (key, value) in more {
            data[*key] = json!(STANDARD.encode(value));
        }
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"}, "data": data});
        let secrets = self.hub.registry.definition("", "v1", "secrets").unwrap();
        self.hub.registry.create(&secrets, "kube-system", object, &options()).await.unwrap();
    }

    pub fn uses_left(&self, token: &str) -> String {
        let secrets = self.hub.registry.definition("", "v1", "secrets").unwrap();
        let name = format!("bootstrap-token-{}", token.split('.').next().unwrap());
        let secret = self.hub.registry.get(&secrets, "kube-system", &name).unwrap().value();
        let text = secret["data"]["uses-left"].as_str().unwrap_or("");
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    }

    pub fn cluster(&self, name: &str) -> Option<Value> {
        let clusters = self.hub.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").unwrap();
        self.hub.registry.get(&clusters, "", name).ok().map(|cluster| cluster.value())
    }

    /// The events about a Cluster with this reason.
    pub fn events(&self, cluster: &str, reason: &str) -> Vec<Value> {
        let events = self.hub.registry.definition("", "v1", "events").unwrap();
        let all = self.hub.registry.cache().of_resource(&events.storage).snapshot("").items;
        let all = all.iter().map(|event| event.value());
        all.filter(|event| event["reason"] == reason && event["involvedObject"]["name"] == cluster).collect()
    }

    /// Puts a Work into the execution namespace of a cluster.
    pub async fn place(&self, cluster: &str, name: &str) {
        let works = self.hub.registry.definition("work.karmada.io", "v1alpha1", "works").unwrap();
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
        let work = json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": name, "finalizers": ["karmada.io/execution-controller"]},
            "spec": {"workload": {"manifests": [manifest]}}});
        let namespace = format!("karmada-es-{cluster}");
        self.hub.registry.create(&works, &namespace, work, &options()).await.unwrap();
    }

    pub fn work(&self, cluster: &str, name: &str) -> Value {
        let works = self.hub.registry.definition("work.karmada.io", "v1alpha1", "works").unwrap();
        self.hub.registry.get(&works, &format!("karmada-es-{cluster}"), name).unwrap().value()
    }

    /// Changes annotations of a Cluster, as who may update clusters does.
    pub async fn annotate(&self, cluster: &str, key: &str, value: &str) {
        let clusters = self.hub.registry.definition("cluster.karmada.io", "v1alpha1", "clusters").unwrap();
        let mut change = |live: Option<&Value>| {
            let mut changed = live.unwrap().clone();
            changed["metadata"]["annotations"][key] = json!(value);
            Ok(changed)
        };
        let at = ObjectKey::new("", cluster);
        self.hub.registry.update(&clusters, &at, &options(), &mut change).await.unwrap();
    }

    pub async fn delete_cluster(&self, cluster: &str) {
        self.delete(&format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}")).await;
    }

    pub async fn delete_work(&self, cluster: &str, name: &str) {
        self.delete(&format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works/{name}"))
            .await;
    }

    async fn delete(&self, path: &str) {
        let certificate = self.administrator(HOUR);
        let (status, _) = self.https(Some(&certificate)).await.send("DELETE", path).await.unwrap();
        assert_eq!(status, 200);
    }

    pub fn endpoint(&self) -> String {
        self.hub.address.to_string()
    }

    pub fn trust(&self) -> Trust {
        Trust::Bundle(self.hub.data.authorities().bundle_pem())
    }

    pub fn administrator(&self, life: Duration) -> KeyedCertificate {
        let subject = karmada_certs::Subject {
            common_name: "admin".to_owned(),
            organizations: vec!["system:masters".to_owned()],
        };
        self.hub.data.authorities().signing().issue_client_with_key(&subject, life, Timestamp::now()).unwrap()
    }

    /// What the hub's CA would sign for an agent with this key.
    pub fn issue(&self, cluster: &str, key: &ClientKey, life: Duration) -> KeyedCertificate {
        let subject = agent_subject(cluster);
        let request = CertificateRequest::from_der(&key.request(&subject).unwrap()).unwrap();
        key.with_certificate(
            self.hub
                .data
                .authorities()
                .signing()
                .issue_client(&subject, &request, life, Timestamp::now())
                .unwrap(),
        )
    }

    pub fn ask(&self, token: &str, name: &str, uid: &str, key: &ClientKey) -> JoinRequest {
        JoinRequest {
            token: token.to_owned(),
            cluster_name: name.to_owned(),
            cluster_uid: uid.to_owned(),
            csr: key.request(&agent_subject("any")).unwrap().into(),
            clock_ms: Timestamp::now().as_millisecond(),
            agent_version: "1".to_owned(),
            ..JoinRequest::default()
        }
    }

    pub async fn join(&self, name: &str, uid: &str, key: &ClientKey) -> Answer {
        self.send(self.ask(TOKEN, name, uid, key)).await
    }

    pub async fn send(&self, request: JoinRequest) -> Answer {
        let config = client_config_h2(&self.trust(), None).unwrap();
        let mut client = dial(&Tcp, &self.endpoint(), config).await.unwrap();
        match client.join(request).await.unwrap().into_inner().result.unwrap() {
            join_reply::Result::Grant(grant) => Answer::Granted(grant.certificate),
            join_reply::Result::PendingMs(_) => Answer::Pending,
            join_reply::Result::Refusal(refusal) => Answer::Refused(refusal),
        }
    }

    pub async fn connect(&self, identity: &KeyedCertificate, cluster: &str) -> Session {
        let config = client_config_h2(&self.trust(), Some(identity)).unwrap();
        let mut client = dial(&Tcp, &self.endpoint(), config).await.unwrap();
        let (frames, outbound) = mpsc::channel(16);
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            cluster_name: cluster.to_owned(),
            boot_id: format!("{:p}", &frames),
            ..Hello::default()
        };
        let mut session = Session { frames, inbound: None };
        session.say(agent_frame::Body::Hello(hello)).await;
        let answer = client.connect(ReceiverStream::new(outbound)).await.unwrap();
        session.inbound = Some(answer.into_inner());
        session
    }

    /// What the stream's door says to a certificate and headers, in a word.
    pub async fn knock(
        &self,
        identity: Option<&KeyedCertificate>,
        headers: &[(&'static str, String)],
        cluster: &str,
    ) -> String {
        let config = client_config_h2(&self.trust(), identity).unwrap();
        let mut client = dial(&Tcp, &self.endpoint(), config).await.unwrap();
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            cluster_name: cluster.to_owned(),
            boot_id: "one".to_owned(),
            ..Hello::default()
        };
        let frame = karmada_proto::frame::agent(agent_frame::Body::Hello(hello));
        // Its end is the stream's: dropped when there was an answer.
        let (frames, outbound) = mpsc::channel(1);
        frames.send(frame).await.unwrap();
        let mut request = tonic::Request::new(ReceiverStream::new(outbound));
        for (name, value) in headers {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        match client.connect(request).await {
            Err(status) if status.code() == tonic::Code::Unauthenticated => "Unauthorized".to_owned(),
            Err(status) => status.to_string(),
            Ok(answer) => match answer.into_inner().message().await {
                Ok(Some(HubFrame { body: Some(hub_frame::Body::Welcome(_)), .. })) => "welcome".to_owned(),
                Ok(Some(HubFrame { body: Some(hub_frame::Body::Close(close)), .. })) => {
                    close.code().as_str_name().to_owned()
                }
                other => format!("{other:?}"),
            },
        }
    }

    pub async fn https(&self, identity: Option<&KeyedCertificate>) -> Https {
        let mut config = karmada_certs::client_config(&self.trust(), identity).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Https::open(self.hub.address, config).await
    }

    /// The certificate that the hub shows now to who trusts these CAs; `None` where they do not lead to it.
    pub async fn shown(&self, ca_pem: &str) -> Option<PeerIdentity> {
        let config = karmada_certs::client_config(&Trust::Bundle(ca_pem.to_owned()), None).unwrap();
        let tcp = tokio::net::TcpStream::connect(self.hub.address).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.ok()?;
        let (_, connection) = tls.get_ref();
        connection.peer_certificates().map(|chain| PeerIdentity::from_der(&chain[0]).unwrap())
    }
}

/// An agent's stream, by hand.
pub struct Session {
    pub frames: mpsc::Sender<AgentFrame>,
    inbound: Option<Streaming<HubFrame>>,
}

impl Session {
    pub async fn say(&self, body: agent_frame::Body) {
        let _ = self.frames.send(karmada_proto::frame::agent(body)).await;
    }

    /// The next frame; `None` where the stream ended.
    pub async fn next(&mut self) -> Option<hub_frame::Body> {
        self.inbound.as_mut()?.message().await.ok()??.body
    }

    /// Waits for the hub's welcome.
    pub async fn welcomed(&mut self) {
        match self.next().await {
            Some(hub_frame::Body::Welcome(_)) => {}
            other => panic!("{other:?}"),
        }
    }

    /// The close that comes, within a time.
    pub async fn closed_within(&mut self, time: Duration) -> Option<CloseCode> {
        let close = async {
            loop {
                match self.next().await {
                    Some(hub_frame::Body::Close(close)) => return Some(Close::code(&close)),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        tokio::time::timeout(time, close).await.ok().flatten()
    }

    /// Asks for a certificate for a key: it, or why not.
    pub async fn renew(&mut self, cluster: &str, key: &ClientKey) -> Result<String, String> {
        let csr = key.request(&agent_subject(cluster)).unwrap().into();
        self.say(agent_frame::Body::Renew(karmada_proto::v1::RenewRequest { csr })).await;
        loop {
            match self.next().await {
                Some(hub_frame::Body::Renewed(reply)) if reply.refusal.is_empty() => {
                    return Ok(reply.certificate);
                }
                Some(hub_frame::Body::Renewed(reply)) => return Err(reply.refusal),
                Some(hub_frame::Body::Close(close)) => return Err(close.message),
                Some(_) => {}
                None => return Err("the stream ended".to_owned()),
            }
        }
    }
}

/// One connection that speaks HTTP/2.
pub struct Https {
    sender: hyper::client::conn::http2::SendRequest<http_body_util::Full<bytes::Bytes>>,
}

impl Https {
    async fn open(address: std::net::SocketAddr, config: rustls::ClientConfig) -> Https {
        use hyper_util::rt::{TokioExecutor, TokioIo};
        let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let tls = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
        tokio::spawn(connection);
        Https { sender }
    }

    /// Status and body; `None` where the connection is gone.
    pub async fn send(&mut self, method: &str, path: &str) -> Option<(u16, Value)> {
        self.send_as(method, path, &[]).await
    }

    /// The same with headers.
    pub async fn send_as(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&'static str, String)],
    ) -> Option<(u16, Value)> {
        use http_body_util::BodyExt;
        self.sender.ready().await.ok()?;
        let mut request = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(http_body_util::Full::default()).unwrap();
        let response = self.sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// The same with headers and a body.
    pub async fn send_body(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Value) {
        use http_body_util::BodyExt;
        self.sender.ready().await.unwrap();
        let mut request = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = bytes::Bytes::copy_from_slice(body);
        let response = self.sender.send_request(request.body(body.into()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// The `Warning` headers of the answer to a create.
    pub async fn warnings_of_create(&mut self, path: &str, object: &Value) -> Vec<String> {
        let request = http::Request::builder().method("POST").uri(format!("https://localhost{path}"));
        let request = request.header("content-type", "application/json");
        let body = bytes::Bytes::from(object.to_string());
        let response = self.sender.send_request(request.body(body.into()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 201);
        let all = response.headers().get_all("warning");
        all.iter().map(|text| text.to_str().unwrap().to_owned()).collect()
    }

    /// A body as text.
    pub async fn text(&mut self, path: &str) -> String {
        use http_body_util::BodyExt;
        let request = http::Request::builder().uri(format!("https://localhost{path}"));
        let request = request.body(http_body_util::Full::default()).unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// A body as far as it came before it ended or the connection was cut.
    pub async fn text_until_cut(&mut self, path: &str) -> String {
        use http_body_util::BodyExt;
        let request = http::Request::builder().uri(format!("https://localhost{path}"));
        let request = request.body(http_body_util::Full::default()).unwrap();
        let mut body = self.sender.send_request(request).await.unwrap().into_body();
        let mut text = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            text.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        String::from_utf8(text).unwrap()
    }

    /// Whether the other end has said goodbye.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

pub fn options() -> WriteOptions {
    let user = User {
        name: "somebody".to_owned(),
        groups: vec!["system:masters".to_owned()],
        origin: Origin::Hub,
        ..User::default()
    };
    WriteOptions { user, field_manager: "test".to_owned(), ..WriteOptions::default() }
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    async move {
        for _ in 0..500 {
            if so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{what}: not within ten seconds");
    }
}
