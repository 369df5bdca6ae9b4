//! A key management service behind its unix socket.
//!
//! In: how the file names it. Out: a seed that it has encrypted, seeds that it decrypts, and how it is. Every call has the file's
//! timeout. What the service answers is bounded before it is kept, and quoted before it is shown.

use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use zeroize::Zeroizing;

use crate::configuration::Plugin;
use crate::envelope::{Sealed, Seeds};
use crate::failure::Failure;
use crate::symmetric::Random;
use crate::v2::key_management_service_client::KeyManagementServiceClient;
use crate::v2::{DecryptRequest, EncryptRequest, StatusRequest, StatusResponse};

/// One service.
pub(crate) struct Kms {
    pub plugin: Plugin,
    pub seeds: Seeds,
    client: KeyManagementServiceClient<Channel>,
    /// What is wrong with it, as it was seen last.
    trouble: Mutex<Option<String>>,
}

/// As much of a peer's words as is shown.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(300).collect::<String>())
}

impl Kms {
    /// Connects when it is first asked.
    pub fn new(plugin: Plugin) -> Result<Kms, String> {
        let endpoint = Endpoint::from_shared(plugin.endpoint.clone());
        let endpoint = endpoint.map_err(|error| format!("{}: {error}", plugin.endpoint))?;
        let channel = endpoint.connect_timeout(plugin.timeout).connect_lazy();
        let client = KeyManagementServiceClient::new(channel);
        let trouble = Mutex::new(Some("it was not asked yet".to_owned()));
        Ok(Kms { plugin, seeds: Seeds::default(), client, trouble })
    }

    /// What is wrong with it.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Asks how it is; makes and has it encrypt another seed where its key is another than before. True: it is.
    pub async fn check(&self, random: &Random) -> Result<bool, String> {
        let checked = self.look(random).await;
        let trouble = checked.as_ref().err().map(|why| {
            format!("kms provider {:?} at {} is not healthy: {why}", self.plugin.name, self.plugin.endpoint)
        });
        *self.trouble.lock() = trouble.clone();
        checked.map_err(|why| trouble.unwrap_or(why))
    }

    async fn look(&self, random: &Random) -> Result<bool, String> {
        let status = self.status().await.map_err(|status| in_words(&status))?;
        if status.healthz != "ok" {
            return Err(format!("got unexpected healthz status: {}", quoted(&status.healthz)));
        }
        if !matches!(status.version.as_str(), "v2" | "v2beta1") {
            return Err(format!("expected KMSv2 API version v2, got {}", quoted(&status.version)));
        }
        if status.key_id.is_empty() {
            return Err("its keyID is empty".into());
        }
        if !self.seeds.needs_another(&status.key_id, Instant::now()) {
            return Ok(false);
        }
        let mut seed = Zeroizing::new(vec![0; 32]);
        random(&mut seed);
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uid() };
        let mut client = self.client.clone();
        let answer = self.within(client.encrypt(request)).await.map_err(|status| in_words(&status))?;
        let sealed = Sealed::seed(answer.ciphertext, answer.key_id, answer.annotations);
        let sealed = sealed.map_err(|why| format!("failed to validate what it encrypted: {why}"))?;
        self.seeds.write_with(seed, sealed, Instant::now());
        Ok(true)
    }

    /// Has it decrypt a seed.
    pub async fn unseal(&self, sealed: &Sealed) -> Result<(), Failure> {
        let request = DecryptRequest {
            ciphertext: sealed.source.clone(),
            uid: uid(),
            key_id: sealed.key_id.clone(),
            annotations: sealed.annotations.clone(),
        };
        let mut client = self.client.clone();
        match self.within(client.decrypt(request)).await {
            Ok(answer) => {
                self.seeds.learn(sealed, Zeroizing::new(answer.plaintext));
                Ok(())
            }
            Err(status) => Err(self.judge(sealed, &status).await),
        }
    }

    /// Whether it is away, or well and does not know this key.
    async fn judge(&self, sealed: &Sealed, status: &Status) -> Failure {
        let why = format!(
            "kms provider {:?} does not decrypt what was encrypted with its key {}: {}",
            self.plugin.name,
            quoted(&sealed.key_id),
            in_words(status)
        );
        let is_away = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
            || !self.status().await.is_ok_and(|status| status.healthz == "ok");
        if is_away { Failure::Unavailable(why) } else { Failure::Unreadable(why) }
    }

    async fn status(&self) -> Result<StatusResponse, Status> {
        let mut client = self.client.clone();
        self.within(client.status(StatusRequest {})).await
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<T, Status> {
        let late = |_| Status::deadline_exceeded(format!("no answer within {:?}", self.plugin.timeout));
        tokio::time::timeout(self.plugin.timeout, call).await.map_err(late)?.map(tonic::Response::into_inner)
    }
}

#[expect(clippy::disallowed_methods, reason = "names a call in the service's log; nothing is decided by it")]
fn uid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn in_words(status: &Status) -> String {
    format!("{:?}: {}", status.code(), quoted(status.message()))
}
