//! What every hub holds from its first start: namespaces, roles, flow schemas, APIServices. Each start puts back what is missing.
//!
//! In: the registry. Out: what it holds.

use anyhow::{Context, Result, bail};
use karmada_access::reconcile;
use karmada_apiserver::{aggregation, fairness};
use karmada_registry::{Origin, Registry, User, WriteOptions};
use serde_json::json;

use crate::fleet::default_roles;
use crate::settings::Serves;

/// Namespaces that exist from the first start; those after the third on a hub of a fleet alone.
const NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "karmada-system", "karmada-cluster"];

/// Makes what is missing.
pub(super) async fn lay_down(registry: &Registry, serves: Serves) -> Result<()> {
    make_namespaces(registry, serves).await?;
    reconcile(registry, &default_roles()).await.context("laying down the default roles")?;
    fairness::controller::settle(registry).await.context("laying down flow schemas and priority levels")?;
    aggregation::controller::settle(registry).await.context("laying down APIServices")
}

async fn make_namespaces(registry: &Registry, serves: Serves) -> Result<()> {
    let names = match serves {
        Serves::Fleet => &NAMESPACES[..],
        Serves::Kubernetes => &NAMESPACES[..3],
    };
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource("", "v1", "namespaces") else {
        bail!("the catalogue lacks namespaces")
    };
    for name in names {
        if registry.get(definition, "", name).is_ok() {
            continue;
        }
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let user = User { name: "system:karmada:hub".to_owned(), origin: Origin::Hub, ..User::default() };
        let options =
            WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() };
        registry
            .create(definition, "", object, &options)
            .await
            .with_context(|| format!("making namespace {name}"))?;
    }
    Ok(())
}
