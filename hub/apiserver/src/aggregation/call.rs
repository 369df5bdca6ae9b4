//! What the hub's own controllers ask of other servers: what they serve, and one request at a time.
//!
//! In: a group version that is handed over, a path below it. Out: what its server said of itself last; an answer's code, and of its
//! JSON the message, or names and finalizers of objects; bounded in time and size.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use karmada_registry::User;
use karmada_registry::user::MASTERS;
use serde_json::Value;

use super::{Aggregator, locate, proxy, remote_discovery};

/// How long an answer may take: a collection is deleted object by object.
const WITHIN: Duration = Duration::from_secs(60);

const LARGEST: usize = 16 << 20;

/// A group version that another server answers, and what it said of itself last.
#[derive(Clone, Debug)]
pub struct AggregatedVersion {
    /// Group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Whether it answers now.
    pub available: bool,
    /// Its entry of aggregated discovery, `null` where it never said anything.
    pub discovery: Value,
}

impl Aggregator {
    /// Every group version that is handed over.
    pub fn elsewhere(&self) -> Vec<AggregatedVersion> {
        let described = self.described.read();
        let of = |handed: &super::Handed| AggregatedVersion {
            group: handed.group.to_string(),
            version: handed.version.to_string(),
            available: handed.available,
            discovery: described.get(&handed.place()).map_or(Value::Null, |told| told.entry()),
        };
        self.registered().handed.values().map(|handed| of(handed)).collect()
    }

    /// Asks the server of a group version, as the namespace controller. `below`: what follows `/apis/GROUP/VERSION/`. Of the answer,
    /// `message` and each item's `metadata.name` and `metadata.finalizers` are read.
    ///
    /// # Errors
    /// There is no such server, or no answer of it, in words.
    pub async fn call(
        &self,
        (group, version): (&str, &str),
        method: &str,
        below: &str,
        body: &Value,
    ) -> Result<(u16, Value), String> {
        let path = format!("/apis/{group}/{version}/{below}");
        let handed = self.answers(&path).ok_or_else(|| format!("{group}/{version} is not handed over"))?;
        let address = locate::address(&self.cache, &handed.service).map_err(|nowhere| nowhere.message)?;
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let mut request = Request::builder()
            .method(method)
            .uri(&path)
            .header(header::HOST, handed.server_name())
            .header(
                header::ACCEPT,
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            )
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body).map_err(|never| match never {}).boxed_unsync())
            .map_err(|error| error.to_string())?;
        proxy::set_user(request.headers_mut(), &asker());
        let asked = async {
            let answer = self.ask(&handed, &address, request).await?;
            let code = answer.status().as_u16();
            let read = Limited::new(answer.into_body(), LARGEST).collect().await;
            let bytes = read.map_err(|error| error.to_string())?.to_bytes();
            Ok((code, remote_discovery::objects(&bytes)))
        };
        let outcome = tokio::time::timeout(WITHIN, asked).await;
        outcome.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
    }
}

fn asker() -> User {
    let groups =
        [MASTERS, "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
    User {
        name: "system:serviceaccount:kube-system:namespace-controller".into(),
        groups: groups.map(str::to_owned).into(),
        ..User::default()
    }
}
