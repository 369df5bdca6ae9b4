//! What every hub holds from its first start: namespaces, roles, flow schemas, APIServices, and the definitions of ServiceExports and ServiceImports.
//! Each start puts back what is missing.
//!
//! In: the registry. Out: what it holds.

use anyhow::{Context, Result, bail};
use karmada_access::reconcile;
use karmada_apiserver::{aggregation, fairness};
use karmada_registry::Registry;
use serde_json::{Value, json};

use crate::fleet::default_roles;
use crate::settings::Serves;
use crate::write_options::write_options;

/// Namespaces that exist from the first start; those after the third on a hub of a fleet alone.
const NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "karmada-system", "karmada-cluster"];

/// Makes what is missing.
pub(super) async fn lay_down(registry: &Registry, serves: Serves) -> Result<()> {
    make_namespaces(registry, serves).await?;
    if serves == Serves::Fleet {
        make_definitions(registry).await?;
    }
    reconcile(registry, &default_roles()).await.context("laying down the default roles")?;
    fairness::controller::ensure_flow_control(registry)
        .await
        .context("laying down flow schemas and priority levels")?;
    aggregation::controller::ensure_api_services(registry).await.context("laying down APIServices")
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
        registry
            .create(definition, "", object, &write_options())
            .await
            .with_context(|| format!("making namespace {name}"))?;
    }
    Ok(())
}

/// The definitions of the kinds by which Services cross clusters. The hub serves these kinds without them: they are here for a policy to send them to
/// clusters, which take no ServiceExport or ServiceImport before.
fn definitions() -> Vec<Value> {
    serde_json::from_str(include_str!("../../data/multicluster_definitions.json"))
        .expect("the embedded definitions parse, as the test below shows")
}

/// Makes those that are missing; one that somebody changed stays as it is.
async fn make_definitions(registry: &Registry) -> Result<()> {
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    else {
        bail!("the catalogue lacks customresourcedefinitions")
    };
    for object in definitions() {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if registry.get(definition, "", &name).is_err() {
            let made = registry.create(definition, "", object, &write_options()).await;
            made.with_context(|| format!("making the definition {name}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use karmada_kinds::catalogue;

    use super::*;

    /// The shape of a kind that the hub serves, as a definition has it.
    fn served(kind: &str) -> Value {
        let name = format!("io.x-k8s.multicluster.v1alpha1.{kind}\t");
        let mut lines = include_str!("../../schema/data/schemas.tsv").lines();
        let line = lines.find_map(|line| line.strip_prefix(&name)).unwrap();
        let mut schema: Value = serde_json::from_str(line).unwrap();
        schema.as_object_mut().unwrap().remove("x-kubernetes-group-version-kind");
        schema["properties"]["metadata"] = json!({"type": "object"});
        schema
    }

    #[test]
    fn definitions_for_clusters_say_what_the_hub_serves() {
        let all = definitions();
        assert_eq!(all.len(), 2);
        for definition in &all {
            let (spec, names) = (&definition["spec"], &definition["spec"]["names"]);
            let kind = names["kind"].as_str().unwrap();
            let mut version = spec["versions"][0].clone();
            let schema = &mut version["schema"]["openAPIV3Schema"];
            schema.as_object_mut().unwrap().remove("description");
            assert_eq!(*schema, served(kind), "{kind}");
            let resource = catalogue::of_kind("multicluster.x-k8s.io", "v1alpha1", kind).unwrap();
            assert_eq!(
                (&names["plural"], &names["singular"]),
                (&json!(resource.plural), &json!(resource.singular))
            );
            assert_eq!(
                (&names["shortNames"], &spec["scope"]),
                (&json!(resource.short_names), &json!("Namespaced"))
            );
            assert_eq!(version["additionalPrinterColumns"].as_array().unwrap().len(), resource.columns.len());
        }
    }
}
