//! Whether another server answers its group, and what it says of it.
//!
//! In: an APIService that is handed over. Out: its condition `Available`, with kube-aggregator's reasons, and the server's own
//! discovery and OpenAPI hash. Three requests, five seconds each, four megabytes at most.

use std::time::Duration;

use http::StatusCode;
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};

use super::{Aggregator, Described, Handed, locate, proxy};

const WITHIN: Duration = Duration::from_secs(5);

const LARGEST: usize = 4 << 20;

/// The condition that an APIService should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub available: bool,
    pub reason: String,
    pub message: String,
}

impl Condition {
    /// Of what is served here.
    pub(super) fn local() -> Condition {
        let message = "Local APIServices are always available".to_owned();
        Condition { available: true, reason: "Local".to_owned(), message }
    }

    /// The status with this condition; `None` where it has it. The time is that of the last change of its value.
    pub(super) fn put_into(&self, status: &Value, now: &str) -> Option<Value> {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_it = |one: &&Value| one["type"] == "Available";
        let known = conditions.iter().find(is_it);
        let value = if self.available { "True" } else { "False" };
        let since = known
            .filter(|known| known["status"] == value)
            .map_or(json!(now), |k| k["lastTransitionTime"].clone());
        let new = json!({
            "lastTransitionTime": since, "message": self.message, "reason": self.reason, "status": value, "type": "Available",
        });
        if known == Some(&new) {
            return None;
        }
        let mut all: Vec<Value> = conditions.iter().filter(|one| !is_it(one)).cloned().collect();
        all.push(new);
        Some(json!({"conditions": all}))
    }
}

impl Aggregator {
    /// Looks whether the server answers.
    pub(super) async fn check(&self, handed: &Handed) -> (Condition, Option<Described>) {
        let unavailable = |reason: &str, message: String| {
            (Condition { available: false, reason: reason.to_owned(), message }, None)
        };
        let address = match locate::address(&self.cache, &handed.service) {
            Ok(address) => address,
            Err(nowhere) => return unavailable(nowhere.reason, nowhere.message),
        };
        let path = format!("/apis/{}/{}", handed.group, handed.version);
        let resources = match self.document(handed, &address, &path, "application/json").await {
            Ok(resources) => resources,
            Err(why) => {
                let url = format!("https://{}:{}{path}", address.0, address.1);
                let message = format!("failing or missing response from {url}: {why}");
                return unavailable("FailedDiscoveryCheck", message);
            }
        };
        let described = self.describe_version(handed, &address, &resources).await;
        let message = "all checks passed".to_owned();
        (Condition { available: true, reason: "Passed".to_owned(), message }, Some(described))
    }

    async fn describe_version(
        &self,
        handed: &Handed,
        address: &(String, u16),
        resources: &Value,
    ) -> Described {
        const AGGREGATED: &str =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let groups = self.document(handed, address, "/apis", AGGREGATED).await.unwrap_or_default();
        let discovery = version_in(&groups, handed).unwrap_or_else(|| converted(resources, handed));
        let index =
            self.document(handed, address, "/openapi/v3", "application/json").await.unwrap_or_default();
        let location = format!("apis/{}/{}", handed.group, handed.version);
        let address = index["paths"][&location]["serverRelativeURL"].as_str();
        let openapi_hash =
            address.and_then(|address| address.split_once("hash=")).map(|(_, hash)| hash.to_owned());
        Described { discovery, openapi_hash }
    }

    /// A document of another server.
    pub(super) async fn document(
        &self,
        handed: &Handed,
        address: &(String, u16),
        path: &str,
        accept: &str,
    ) -> Result<Value, String> {
        let asked = async {
            let request =
                proxy::get(path, &handed.server_name(), accept).ok_or("no request can be made of it")?;
            let answer = self.ask(handed, address, request).await?;
            if answer.status() != StatusCode::OK {
                return Err(format!("bad status: {}", answer.status().as_u16()));
            }
            let read = Limited::new(answer.into_body(), LARGEST).collect().await;
            let bytes = read.map_err(|error| error.to_string())?.to_bytes();
            serde_json::from_slice(&bytes).map_err(|error| format!("no JSON: {error}"))
        };
        let timeout = || "context deadline exceeded".to_owned();
        tokio::time::timeout(WITHIN, asked).await.map_err(|_| timeout())?
    }
}

/// A version's entry of aggregated discovery.
fn version_in(groups: &Value, handed: &Handed) -> Option<Value> {
    if groups["kind"] != "APIGroupDiscoveryList" {
        return None;
    }
    let mut items = groups["items"].as_array()?.iter();
    let group = items.find(|item| item["metadata"]["name"] == *handed.group)?;
    group["versions"].as_array()?.iter().find(|version| version["version"] == *handed.version).cloned()
}

/// The same made of an `APIResourceList`.
fn converted(list: &Value, handed: &Handed) -> Value {
    let rows = list["resources"].as_array().map_or(&[][..], Vec::as_slice);
    let kind = |row: &Value| {
        let or = |field: &str, own: &str| row[field].as_str().unwrap_or(own).to_owned();
        json!({"group": or("group", &handed.group), "version": or("version", &handed.version), "kind": row["kind"]})
    };
    let whole = rows.iter().filter(|row| row["name"].as_str().is_some_and(|name| !name.contains('/')));
    let resources: Vec<Value> = whole
        .map(|row| {
            let name = row["name"].as_str().unwrap_or_default();
            let mut resource = json!({
                "resource": name, "responseKind": kind(row), "singularResource": row["singularName"], "verbs": row["verbs"],
                "scope": if row["namespaced"] == true { "Namespaced" } else { "Cluster" },
            });
            for field in ["shortNames", "categories"] {
                if row[field].is_array() {
                    resource[field] = row[field].clone();
                }
            }
            let below = |row: &Value| {
                let sub = row["name"].as_str()?.strip_prefix(name)?.strip_prefix('/')?;
                Some(json!({"subresource": sub, "responseKind": kind(row), "verbs": row["verbs"]}))
            };
            let subresources: Vec<Value> = rows.iter().filter_map(below).collect();
            if !subresources.is_empty() {
                resource["subresources"] = json!(subresources);
            }
            resource
        })
        .collect();
    json!({"version": &*handed.version, "resources": resources})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_value_stays() {
        let local = Condition::local();
        let status = local.put_into(&json!({}), "t1").unwrap();
        assert_eq!(local.put_into(&status, "t2"), None);
        let failed = Condition { available: false, reason: "ServiceNotFound".into(), message: "m".into() };
        let status = failed.put_into(&status, "t3").unwrap();
        assert_eq!(
            (&status["conditions"][0]["status"], &status["conditions"][0]["lastTransitionTime"]),
            (&json!("False"), &json!("t3"))
        );
        let other = Condition { reason: "MissingEndpoints".into(), ..failed };
        let status = other.put_into(&status, "t4").unwrap();
        assert_eq!(
            (&status["conditions"][0]["reason"], &status["conditions"][0]["lastTransitionTime"]),
            (&json!("MissingEndpoints"), &json!("t3"))
        );
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
    }
}
