//! A Pod that stands on a node is resized within what that node has and can do (`PodResizeValidator`,
//! `NodeDeclaredFeatureValidator`).
//!
//! In: a changed Pod that was given a node. Out: nothing, or a refusal: the node is gone, is no Linux, has less than the Pod would
//! ask for, or does not say that it can do this.

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::{Cause, Status};
use karmada_quantity::Quantity;
use karmada_resource_quota::{Amounts, amounts, usage};
use karmada_schema::object::ObjectKey;
use serde_json::Value;

use crate::registry_context::RegistryContext;
use crate::request::AdmissionRequest;

/// Judges a Pod that is changed.
///
/// # Errors
/// 403 where its node cannot take it.
pub(crate) fn admit(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let definition = request.definition;
    let is_pod = definition.row.known == BuiltinKind::Pod;
    let (Some(old), true) = (request.old, is_pod && matches!(request.subresource, "" | "resize")) else {
        return Ok(());
    };
    let pod = &*request.object;
    let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let wanted = features(&old["spec"], &pod["spec"]);
    let resized = request.subresource == "resize";
    if name.is_empty() || old["spec"] == pod["spec"] || (!resized && wanted.is_empty()) {
        return Ok(());
    }
    let refuse = |why: &str| Status::forbidden(definition, &request.key.name, why);
    let Some(node) = context.cache().get(&StorageId("core/nodes".into()), &ObjectKey::new("", name)) else {
        return Err(refuse(&format!("node {name:?} not found")));
    };
    let node = node.value();
    let declared = node["status"]["declaredFeatures"].as_array().into_iter().flatten();
    let declared: Vec<&str> = declared.filter_map(Value::as_str).collect();
    let lacking: Vec<&str> = wanted.into_iter().filter(|feature| !declared.contains(feature)).collect();
    if !lacking.is_empty() {
        let lacking = lacking.join(", ");
        let why = format!("pod update requires features {lacking} which are not available on node {name:?}");
        return Err(refuse(&why));
    }
    match misfit(pod, &node).filter(|_| resized) {
        None => Ok(()),
        Some((reason, why)) => {
            let mut status = refuse(&why);
            if let Some(details) = &mut status.details {
                let (message, field) = (String::new(), String::new());
                details.causes.push(Cause { reason: reason.into(), message, field });
            }
            Err(status)
        }
    }
}

/// What a node has to be able to do for a change of a Pod's spec.
fn features(old: &Value, new: &Value) -> Vec<&'static str> {
    let prepares = |spec: &Value| -> Vec<Value> {
        let all = spec["initContainers"].as_array().into_iter().flatten();
        all.filter(|one| one["restartPolicy"] != "Always").map(|one| one["resources"].clone()).collect()
    };
    let whole = (old["resources"] != new["resources"]).then_some("InPlacePodLevelResourcesVerticalScaling");
    let before = (prepares(old) != prepares(new)).then_some("InPlacePodVerticalScalingInitContainers");
    whole.into_iter().chain(before).collect()
}

/// Why a node cannot take a Pod: in a word and in words.
fn misfit(pod: &Value, node: &Value) -> Option<(&'static str, String)> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let system = node["metadata"]["labels"]["kubernetes.io/os"].as_str().unwrap_or("linux");
    if system != "linux" {
        let why = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Some(("UnsupportedPlatform", why));
    }
    let (asked, there) = (asked(pod), amounts(&node["status"]["allocatable"]));
    let amount = |of: &Amounts, name: &str| of.get(name).copied().unwrap_or_default();
    let count = |name: &str, of: Quantity| if name == "cpu" { of.milli() } else { of.units() };
    let lacking = ["cpu", "memory"].into_iter().filter_map(|name| {
        let (asked, there) = (amount(&asked, name), amount(&there, name));
        let told =
            || format!("{name}, requested: {}, allocatable: {}", count(name, asked), count(name, there));
        (asked > there).then(told)
    });
    let lacking: Vec<String> = lacking.collect();
    let told = || format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
    (!lacking.is_empty()).then(|| ("NodeCapacity", told()))
}

/// What a Pod asks for: as a whole where it says so, or else its containers together.
fn asked(pod: &Value) -> Amounts {
    let mut asked = usage("", "pods", pod);
    asked.extend(amounts(&pod["spec"]["resources"]["requests"]));
    asked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_fits_its_node_or_is_told_what_is_lacking() {
        let node =
            json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "memory": "1Ki"}}});
        let pod = |cpu: &str| json!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}});
        assert_eq!(misfit(&pod("1"), &node), None);
        let wanted = "node didn't have enough allocatable resources: cpu, requested: 1500, allocatable: 1000";
        assert_eq!(misfit(&pod("1500m"), &node), Some(("NodeCapacity", wanted.to_owned())));
        let mut whole = pod("2");
        whole["spec"]["resources"] = json!({"requests": {"cpu": "500m", "memory": "2Ki"}});
        let wanted =
            "node didn't have enough allocatable resources: memory, requested: 2048, allocatable: 1024";
        assert_eq!(misfit(&whole, &node), Some(("NodeCapacity", wanted.to_owned())));
        let mut other = node;
        other["metadata"]["labels"] = json!({"kubernetes.io/os": "windows"});
        assert_eq!(misfit(&pod("1"), &other).map(|(reason, _)| reason), Some("UnsupportedPlatform"));
    }
}
