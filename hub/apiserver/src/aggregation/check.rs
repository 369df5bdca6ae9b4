//! Whether another server answers its group, and what it says of it.
//!
//! In: an APIService that is handed over. Out: its condition `Available`, with kube-aggregator's reasons, and the server's own
//! discovery and OpenAPI hash. Three requests, five seconds and two megabytes each at most.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use karmada_kinds::api_service::Availability;

use super::{Aggregator, Described, Handed, locate, proxy, remote_discovery};

const WITHIN: Duration = Duration::from_secs(5);

/// Bytes of a document by which it is discovered.
const LARGEST: usize = 2 << 20;

impl Aggregator {
    /// Looks whether the server answers.
    pub(super) async fn check(&self, handed: &Handed) -> (Availability, Option<Described>) {
        let unavailable = |reason: &str, message: String| {
            (Availability { available: false, reason: reason.to_owned(), message }, None)
        };
        let address = match locate::address(&self.cache, &handed.service) {
            Ok(address) => address,
            Err(nowhere) => return unavailable(nowhere.reason, nowhere.message),
        };
        let path = format!("/apis/{}/{}", handed.group, handed.version);
        let resources = match self.document(handed, &address, &path, "application/json", LARGEST).await {
            Ok(resources) => resources,
            Err(why) => {
                let url = format!("https://{}:{}{path}", address.0, address.1);
                let message = format!("failing or missing response from {url}: {why}");
                return unavailable("FailedDiscoveryCheck", message);
            }
        };
        let converted = remote_discovery::converted(&resources, handed);
        drop(resources);
        let described = self.describe_version(handed, &address, converted).await;
        let message = "all checks passed".to_owned();
        (Availability { available: true, reason: "Passed".to_owned(), message }, described)
    }

    /// What the server says of the version; nothing where it says what cannot be kept.
    async fn describe_version(
        &self,
        handed: &Handed,
        address: &(String, u16),
        converted: Option<Bytes>,
    ) -> Option<Described> {
        const AGGREGATED: &str =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let groups = self.document(handed, address, "/apis", AGGREGATED, LARGEST).await.unwrap_or_default();
        let discovery = remote_discovery::version_in(&groups, handed).or(converted)?;
        drop(groups);
        let index = self.document(handed, address, "/openapi/v3", "application/json", LARGEST).await;
        let openapi_hash = remote_discovery::openapi_hash(&index.unwrap_or_default(), handed);
        Some(Described { discovery, openapi_hash })
    }

    /// A document of another server.
    pub(super) async fn document(
        &self,
        handed: &Handed,
        address: &(String, u16),
        path: &str,
        accept: &str,
        most: usize,
    ) -> Result<Bytes, String> {
        let asked = async {
            let request =
                proxy::get(path, &handed.server_name(), accept).ok_or("no request can be made of it")?;
            let answer = self.ask(handed, address, request).await?;
            if answer.status() != StatusCode::OK {
                return Err(format!("bad status: {}", answer.status().as_u16()));
            }
            let read = Limited::new(answer.into_body(), most).collect().await;
            Ok(read.map_err(|error| error.to_string())?.to_bytes())
        };
        let timeout = || "context deadline exceeded".to_owned();
        tokio::time::timeout(WITHIN, asked).await.map_err(|_| timeout())?
    }
}
