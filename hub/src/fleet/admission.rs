//! The fleet's gates between a request and the store, registered with the others: Karmada's own mutations and validations of its kinds,
//! which upstream runs in a webhook process, and its protection from deletion.
//!
//! In: a write of any kind. Out: the object completed, or a 422 with every wrong field; a 403 for what is protected. Other kinds pass.

use karmada_api::admission::{self as karmada, Context};
use karmada_api::defaulting::cluster::Grades;
use karmada_api::object;
use karmada_api::strings::labels;
use karmada_api::validation::taint_policy::{NoExecute, validate_cluster_taint_policy};
use karmada_autoscaling::cron_federated_hpa::validation::validate_cron_federated_hpa;
use karmada_definitions::status::Status;
use karmada_registry::admission::Admission;
use karmada_registry::{AdmissionRequest, Operation, RegistryContext, apart};
use karmada_schema::object::meta;
use serde_json::Value;

/// Groups of the fleet's own machinery, which controllers alone write (Works, bindings, Clusters): no webhook and no policy judges it.
pub const EXEMPT: &[&str] = &["work.karmada.io", "cluster.karmada.io"];

/// Kinds whose annotations may hold expressions over clusters.
const BEARS_EXPRESSIONS: [&str; 4] =
    ["PropagationPolicy", "ClusterPropagationPolicy", "ResourceBinding", "ClusterResourceBinding"];

/// Karmada's mutations and validations.
pub struct KarmadaPolicies {
    /// Whether ClusterTaintPolicies may make workloads leave clusters.
    pub taint_policies: NoExecute,
    /// What becomes of a Cluster's grades of nodes.
    pub grades: Grades,
}

impl Admission for KarmadaPolicies {
    fn admit(&self, context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let operation = match request.operation {
            Operation::Create => karmada::Operation::Create,
            Operation::Update => karmada::Operation::Update,
            Operation::Delete | Operation::Connect => return Ok(()),
        };
        if !request.subresource.is_empty() || !request.definition.group.ends_with("karmada.io") {
            return Ok(());
        }
        let (group, kind) = (&*request.definition.group, &*request.definition.kind);
        let sources = Context { now: context.now(), new_uuid: &|| context.new_uid(), grades: self.grades };
        keep_permanent_id(kind, request.object, request.old, &|| context.new_uid());
        karmada::mutate(group, kind, operation, request.object, request.old, &sources);
        let mut errors = karmada::validate(group, kind, operation, request.object, request.old);
        if kind == "ClusterTaintPolicy" {
            errors.extend(validate_cluster_taint_policy(request.object, self.taint_policies));
        }
        if BEARS_EXPRESSIONS.contains(&kind) && !object::deleting(request.object) {
            errors.extend(karmada_placement_expressions::validate(request.object, request.old));
        }
        if kind == "CronFederatedHPA" {
            errors.extend(validate_cron_federated_hpa(request.object));
        }
        if errors.is_empty() {
            return Ok(());
        }
        // What the schema refuses it says more plainly than the typed reading that stumbled over it.
        let plain = apart(|| karmada_kinds::validate(request.definition, "", request.object, request.old))?;
        if !plain.is_empty() {
            return Err(Status::invalid(group, kind, meta::name(request.object), plain));
        }
        let causes = errors.iter().map(karmada_kinds::cause).collect();
        Err(Status::invalid(group, kind, meta::name(request.object), causes))
    }
}

/// A binding's permanent id is what its Works are found by: the hub gives it and nobody else, so that nobody's binding can say that another's
/// Works are its own. (Karmada takes what the client says.)
fn keep_permanent_id(kind: &str, object: &mut Value, old: Option<&Value>, new_uid: &dyn Fn() -> String) {
    let key = match kind {
        "ResourceBinding" => labels::RESOURCE_BINDING_ID,
        "ClusterResourceBinding" => labels::CLUSTER_RESOURCE_BINDING_ID,
        _ => return,
    };
    match old.and_then(|old| object::label(old, key)) {
        Some(given) => object::set_label(object, key, given),
        None => object::set_label(object, key, &new_uid()),
    }
}

/// Protection from deletion.
pub struct DeletionProtection;

impl Admission for DeletionProtection {
    fn admit(&self, _: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if request.operation != Operation::Delete {
            return Ok(());
        }
        let why = karmada::refuse_deletion(request.object);
        why.map_or(Ok(()), |why| Err(Status::forbidden(request.definition, &request.key.name, &why)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bindings_permanent_id_is_given_once_and_by_the_hub() {
        let (key, new) = (labels::RESOURCE_BINDING_ID, || "new".to_owned());
        let of = |labels: Value| json!({"metadata": {"name": "b", "namespace": "a", "labels": labels}});
        let [own, none] = [of(json!({key: "own"})), of(json!({}))];
        for (old, said, is) in [
            (None, json!({key: "another's"}), "new"),
            (None, json!({}), "new"),
            (Some(&own), json!({key: "another's"}), "own"),
            (Some(&own), json!({}), "own"),
            (Some(&none), json!({key: "another's"}), "new"),
        ] {
            let mut binding = of(said);
            keep_permanent_id("ResourceBinding", &mut binding, old, &new);
            assert_eq!(object::label(&binding, key), Some(is));
        }
        let mut map = of(json!({key: "text"}));
        keep_permanent_id("ConfigMap", &mut map, None, &new);
        assert_eq!(map, of(json!({key: "text"})));
    }
}
