//! Conversion by webhook: objects of one version shown and stored in another, as the definition's own server has it.
//!
//! In: objects and the version wanted. Out: the same objects in that version, their identity as it was; or why not.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use super::custom::Custom;
use crate::cache::Cache;
use crate::object::{Stored, encode};
use crate::resource::api_version;
use crate::status::Status;
use crate::webhook::{self, Target};

/// How long a webhook may take.
const WITHIN: Duration = Duration::from_secs(30);

/// How a definition's versions become each other.
#[derive(Clone, Debug, Default)]
pub(super) enum Conversion {
    /// Only `apiVersion` changes.
    #[default]
    None,
    /// A server is asked.
    Webhook {
        /// `clientConfig` of the definition.
        client: Value,
        /// Trusted CA, as PEM.
        ca_pem: Vec<u8>,
    },
}

impl Conversion {
    pub(super) fn of(spec: &Value) -> Conversion {
        if spec["conversion"]["strategy"] != "Webhook" {
            return Conversion::None;
        }
        let client = spec["conversion"]["webhook"]["clientConfig"].clone();
        let bundle = client["caBundle"].as_str().unwrap_or_default();
        let ca_pem = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
        Conversion::Webhook { client, ca_pem }
    }
}

/// The version that an object is in.
pub(super) fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default()
}

impl Custom {
    /// Whether another server converts between versions.
    pub fn asks_webhook(&self) -> bool {
        matches!(self.crd.conversion, Conversion::Webhook { .. })
    }

    /// Stored objects in this version, ready to be shown. Costs nothing where no webhook is asked.
    ///
    /// # Errors
    /// The webhook is not there, or fails.
    pub async fn view(&self, cache: &Cache, objects: Vec<Arc<Stored>>) -> Result<Vec<Arc<Stored>>, Status> {
        if !self.asks_webhook() {
            return Ok(objects);
        }
        let parsed: Vec<Value> = objects.iter().map(|object| object.value()).collect();
        let other = |object: &&Value| version_of(object) != self.resource.version;
        let foreign: Vec<Value> = parsed.iter().filter(other).cloned().collect();
        if foreign.is_empty() {
            return Ok(objects);
        }
        let mut converted = self.convert(cache, foreign, &self.resource.version).await?.into_iter();
        let shown = objects.into_iter().zip(parsed).map(|(stored, object)| {
            if version_of(&object) == self.resource.version {
                return Ok(stored);
            }
            let object = converted.next().unwrap_or_default();
            self.shown(&object, stored.revision)
        });
        shown.collect()
    }

    /// An object of this version as the cache would hold it, had it been stored so.
    ///
    /// # Errors
    /// It is no object.
    pub fn shown(&self, object: &Value, revision: u64) -> Result<Arc<Stored>, Status> {
        let bytes = encode(object, &self.resource.kind, &self.resource.api_version());
        Stored::read(&bytes, revision).map(Arc::new).map_err(Status::internal)
    }

    /// An object of this version in the stored one.
    ///
    /// # Errors
    /// The webhook is not there, or fails.
    pub async fn store(&self, cache: &Cache, object: Value) -> Result<Value, Status> {
        let wanted = self.crd.storage_version();
        if !self.asks_webhook() || version_of(&object) == wanted {
            return Ok(self.to_storage(object));
        }
        let converted = self.convert(cache, vec![object], wanted).await?;
        Ok(converted.into_iter().next().unwrap_or_default())
    }

    async fn convert(&self, cache: &Cache, objects: Vec<Value>, version: &str) -> Result<Vec<Value>, Status> {
        let wanted = api_version(&self.resource.group, version);
        let from = objects.first().map(|object| object["apiVersion"].as_str().unwrap_or_default().to_owned());
        let from = from.unwrap_or_default();
        let failed = |why: String| Status {
            code: 500,
            reason: "".into(),
            message: format!("conversion webhook for {from}, Kind={} failed: {why}", self.resource.kind),
            details: None,
        };
        let Conversion::Webhook { client, ca_pem } = &self.crd.conversion else { return Ok(objects) };
        let target = Target::of_client(cache, client).map_err(failed)?;
        let uid = self.crd.stored.uid().to_owned();
        let review = json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
        });
        let mut answer = webhook::post(&target, ca_pem, &review, WITHIN).await.map_err(failed)?;
        let response = answer["response"].take();
        if response["uid"] != uid {
            return Err(failed(format!("the answer is to another request: {}", response["uid"])));
        }
        if response["result"]["status"] != "Success" {
            let why = response["result"]["message"].as_str().unwrap_or("the webhook gave no reason");
            return Err(failed(why.to_owned()));
        }
        let Value::Array(converted) = response["convertedObjects"].clone() else {
            return Err(failed("the answer holds no convertedObjects".to_owned()));
        };
        if converted.len() != objects.len() {
            let why = format!("{} objects were sent, {} came back", objects.len(), converted.len());
            return Err(failed(why));
        }
        let pairs = objects.iter().zip(converted);
        pairs.map(|(sent, got)| checked(sent, got, &wanted).map_err(failed)).collect()
    }
}

/// A converted object, once it is what was asked for: in the version wanted, and still the same object.
fn checked(sent: &Value, mut got: Value, wanted: &str) -> Result<Value, String> {
    if got["apiVersion"] != *wanted {
        return Err(format!("an object came back as {}", got["apiVersion"]));
    }
    if got["kind"] != sent["kind"] {
        return Err(format!("an object came back as kind {}", got["kind"]));
    }
    for field in ["name", "namespace", "uid"] {
        if got["metadata"][field] != sent["metadata"][field] {
            return Err(format!("metadata.{field} was changed"));
        }
    }
    // Labels and annotations may be converted; the rest of the metadata is not the webhook's to change.
    let mut metadata = sent["metadata"].clone();
    for field in ["labels", "annotations"] {
        match got["metadata"].get(field).filter(|value| !value.is_null()) {
            Some(value) => metadata[field] = value.clone(),
            None => {
                metadata.as_object_mut().and_then(|metadata| metadata.remove(field));
            }
        }
    }
    got["metadata"] = metadata;
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_must_be_the_same_object() {
        let sent = json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}, "generation": 3}});
        let good = json!({"apiVersion": "a/v2", "kind": "K", "metadata": {"name": "n", "uid": "u", "generation": 9}, "spec": {}});
        let checked_good = checked(&sent, good.clone(), "a/v2").unwrap();
        assert_eq!(checked_good["metadata"], json!({"name": "n", "uid": "u", "generation": 3}));
        for (pointer, value) in
            [("/apiVersion", "a/v1"), ("/kind", "L"), ("/metadata/name", "m"), ("/metadata/uid", "w")]
        {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = json!(value);
            assert!(checked(&sent, bad, "a/v2").is_err(), "{pointer}");
        }
    }
}
