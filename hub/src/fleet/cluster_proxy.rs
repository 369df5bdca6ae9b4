//! `clusters/proxy`: requests that are to reach a member cluster.
//!
//! In: a request to the proxy of a Cluster. Out: a refusal that says where to ask instead. Nothing passes requests on to sites yet.

use http::Response;
use karmada_apiserver::connect::{Connect, Connection};
use karmada_apiserver::http::Body;
use karmada_definitions::status::Status;

/// Answers for the proxies of Clusters.
pub struct ClusterProxy;

#[async_trait::async_trait]
impl Connect for ClusterProxy {
    async fn connect(&self, connection: Connection<'_>) -> Result<Response<Body>, Status> {
        let name = &connection.object.key.name;
        let message = format!(
            "requests are not passed on to member clusters yet: the hub holds no credential of {name} and dials no member; \
             ask {name} itself, by its own kubeconfig"
        );
        Err(Status::routed(501, "NotImplemented", message))
    }
}
