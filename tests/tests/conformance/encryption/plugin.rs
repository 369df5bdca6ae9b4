//! A key management service for tests: it "encrypts" by the number of its key, and can be unwell, gone, and given another key.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use karmada_encryption::v2::key_management_service_server::{
    KeyManagementService, KeyManagementServiceServer,
};
use karmada_encryption::v2::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use tests::runtime;
use tokio::net::UnixListener;
use tonic::{Request, Response, Status};

/// What it is like now.
#[derive(Clone, Debug)]
struct State {
    key: u8,
    oldest: u8,
    health: String,
    decrypted: usize,
}

#[derive(Clone)]
struct Service(Arc<Mutex<State>>);

/// A running service; its socket goes with it.
pub struct Plugin {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Plugin {
    /// Serves at `socket`, with key 1.
    pub fn start(socket: &Path) -> Plugin {
        let state = State { key: 1, oldest: 1, health: "ok".into(), decrypted: 0 };
        let state = Arc::new(Mutex::new(state));
        let _ = std::fs::remove_file(socket);
        let _entered = runtime().enter();
        let listener = UnixListener::bind(socket).expect("a socket can be made");
        let incoming = futures::stream::unfold(listener, |listener| async move {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let service = KeyManagementServiceServer::new(Service(state.clone()));
        let serving = runtime().spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            let _ = server.serve_with_incoming(incoming).await;
        });
        Plugin { socket: socket.to_owned(), state, serving }
    }

    /// It encrypts with this key from now on.
    pub fn use_key(&self, key: u8) {
        self.state.lock().unwrap().key = key;
    }

    /// Keys before this one are gone.
    pub fn forget_before(&self, oldest: u8) {
        self.state.lock().unwrap().oldest = oldest;
    }

    /// What it says of itself.
    pub fn is(&self, health: &str) {
        self.state.lock().unwrap().health = health.into();
    }

    /// How often it decrypted.
    pub fn decrypted(&self) -> usize {
        self.state.lock().unwrap().decrypted
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.serving.abort();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn turned(bytes: &[u8], key: u8) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ key.wrapping_mul(37)).collect()
}

#[tonic::async_trait]
impl KeyManagementService for Service {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let State { key, health, .. } = self.0.lock().unwrap().clone();
        Ok(Response::new(StatusResponse {
            version: "v2".into(),
            healthz: health,
            key_id: format!("key-{key}"),
        }))
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        let State { key, health, .. } = self.0.lock().unwrap().clone();
        if health != "ok" {
            return Err(Status::unavailable(health));
        }
        let ciphertext = turned(&request.into_inner().plaintext, key);
        let annotations = HashMap::from([("version.example.com".to_owned(), vec![key])]);
        Ok(Response::new(EncryptResponse { ciphertext, key_id: format!("key-{key}"), annotations }))
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.0.lock().unwrap();
        if state.health != "ok" {
            return Err(Status::unavailable(state.health.clone()));
        }
        let number: u8 = request.key_id.trim_start_matches("key-").parse().unwrap_or(0);
        if number < state.oldest || request.annotations.get("version.example.com") != Some(&vec![number]) {
            return Err(Status::invalid_argument("there is no such key"));
        }
        state.decrypted += 1;
        Ok(Response::new(DecryptResponse { plaintext: turned(&request.ciphertext, number) }))
    }
}
