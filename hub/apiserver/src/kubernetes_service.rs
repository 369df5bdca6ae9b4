//! `default/kubernetes`: the Service by which clients find this API server, with its Endpoints and its EndpointSlice; and the range
//! that Services have their addresses from, a ServiceCIDR of the same name.
//!
//! In: where the server is reached. Out: these objects, as kube-apiserver makes and keeps them: Service and range are made where
//! they are not there, and left as they are where somebody changed them; the endpoints are put right whenever they differ.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use karmada_definitions::status::Status;
use karmada_registry::reconciler::{Next, Reconciler};
use karmada_registry::services::{first_service_address, service_range};
use karmada_registry::{Registry, User, WriteOptions};
use karmada_schema::object::ObjectKey;
use karmada_schema::time;
use serde_json::{Value, json};

/// The namespace of all but the range.
pub const NAMESPACE: &str = "default";

/// The name of them all.
pub const NAME: &str = "kubernetes";

/// The objects, with their resources, as they are made. Pure. `port`: where the server listens; `public`: where others reach it,
/// where that is known.
fn wanted(
    port: u16,
    public: Option<SocketAddr>,
    now: jiff::Timestamp,
) -> Vec<(&'static str, &'static str, Value)> {
    let metadata = |labels: Value| json!({"name": NAME, "namespace": NAMESPACE, "labels": labels});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": metadata(json!({"component": "apiserver", "provider": "kubernetes"})),
        "spec": {
            "clusterIP": first_service_address().to_string(), "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None", "type": "ClusterIP",
        },
    });
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": NAME},
        "spec": {"cidrs": [service_range()]},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "", "message": "the range of this API server is in use",
            "lastTransitionTime": time::seconds(now),
        }]},
    });
    let mut all = vec![("networking.k8s.io", "servicecidrs", range), ("", "services", service)];
    let Some(public) = public else { return all };
    let (ip, ports) =
        (public.ip().to_string(), json!([{"name": "https", "port": public.port(), "protocol": "TCP"}]));
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": metadata(json!({"kubernetes.io/service-name": NAME})),
        "addressType": if public.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports,
    });
    all.push(("", "endpoints", endpoints));
    all.push(("discovery.k8s.io", "endpointslices", slice));
    all
}

/// The live object put right; `None` where nothing is wrong with it. Pure.
fn righted(live: &Value, wanted: &Value) -> Option<Value> {
    let mut new = live.clone();
    for field in ["subsets", "endpoints", "ports"] {
        if let Some(value) = wanted.get(field) {
            new[field] = value.clone();
        }
    }
    for (label, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        new["metadata"]["labels"][label] = value.clone();
    }
    (wanted["kind"] != "Service" && new != *live).then_some(new)
}

fn options() -> WriteOptions {
    let user = User::apiserver();
    WriteOptions { user, field_manager: "kube-apiserver".into(), ..WriteOptions::default() }
}

/// Puts them in place.
///
/// # Errors
/// The store refuses writes, or somebody else holds the address.
pub async fn ensure_service(
    registry: &Registry,
    port: u16,
    public: Option<SocketAddr>,
) -> Result<(), Status> {
    let options = options();
    for (group, plural, object) in wanted(port, public, registry.now()) {
        let catalogue = registry.catalogue();
        let Some(definition) = catalogue.resource(group, "v1", plural) else { continue };
        let namespace = if definition.namespaced { NAMESPACE } else { "" };
        let key = ObjectKey::new(namespace, NAME);
        let done = match registry.find(definition, namespace, NAME)? {
            None => registry.create(definition, namespace, object, &options).await.map(drop),
            Some(live) => match righted(&live.value(), &object) {
                None => Ok(()),
                Some(new) => {
                    let mut change = |_: Option<&Value>| Ok(new.clone());
                    registry.update(definition, &key, &options, &mut change).await.map(drop)
                }
            },
        };
        match done {
            // Somebody was faster: the next round sees what they did.
            Err(status) if matches!(&*status.reason, "Conflict" | "AlreadyExists" | "NotFound") => {}
            other => other?,
        }
    }
    Ok(())
}

/// Keeps them.
pub struct KubernetesService {
    /// Where they are kept.
    pub registry: Arc<Registry>,
    /// Where the server listens.
    pub port: u16,
    /// Where others reach it, where that is known.
    pub public: Option<SocketAddr>,
}

#[async_trait]
impl Reconciler for KubernetesService {
    fn keeps(&self) -> &'static str {
        "the Service kubernetes"
    }

    fn reads(&self) -> &'static [&'static str] {
        &[
            "core/services",
            "core/endpoints",
            "discovery.k8s.io/endpointslices",
            "networking.k8s.io/servicecidrs",
        ]
    }

    async fn look(&mut self) -> Result<Next, Status> {
        ensure_service(&self.registry, self.port, self.public).await.map(|()| Next::OnChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoints_are_put_right_and_the_service_is_left() {
        let public: SocketAddr = "192.0.2.7:5443".parse().unwrap();
        let now = jiff::Timestamp::UNIX_EPOCH;
        let all = wanted(5443, Some(public), now);
        assert_eq!(all[0].2["spec"]["cidrs"], json!(["10.96.0.0/12"]));
        assert_eq!(all[0].2["status"]["conditions"][0]["status"], "True");
        let all = &all[1..];
        assert_eq!(all[0].2["spec"]["clusterIP"], "10.96.0.1");
        assert_eq!(all[2].2["addressType"], "IPv4");
        for (_, plural, object) in all {
            assert_eq!(righted(object, object), None, "{plural}");
        }
        let mut live = all[1].2.clone();
        live["subsets"] = json!([]);
        assert_eq!(righted(&live, &all[1].2), Some(all[1].2.clone()));
        let mut service = all[0].2.clone();
        service["spec"]["ports"][0]["targetPort"] = json!(6443);
        assert_eq!(righted(&service, &all[0].2), None);
        assert_eq!(wanted(5443, None, now).len(), 2, "where nobody knows how to reach it, nobody is told");
    }
}
