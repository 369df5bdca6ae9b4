//! What kube-apiserver's own plugins lay into new Pods: a priority, and patience with nodes that are not ready
//! (`Priority`, `DefaultTolerationSeconds`); and that one PriorityClass at most is the default.

use serde_json::{Value, json};

use super::Admission;
use crate::object::ObjectKey;
use crate::registry::{AdmissionRequest, Operation, Registry};
use crate::resource::StorageId;
use crate::status::Status;

/// Seconds that a Pod stays on a node that is lost, where it does not say.
const PATIENCE: i64 = 300;

/// Lays defaults into Pods.
pub struct PodDefaults;

impl Admission for PodDefaults {
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        if request.operation == Operation::Delete || !request.subresource.is_empty() {
            return Ok(());
        }
        match (&*request.definition.group, &*request.definition.plural) {
            ("", "pods") => {
                priority(registry, request)?;
                patience(request.object);
                Ok(())
            }
            ("scheduling.k8s.io", "priorityclasses") => one_default(registry, request),
            _ => Ok(()),
        }
    }
}

fn classes(registry: &Registry) -> Vec<Value> {
    let shard = registry.cache().shard(&StorageId("scheduling.k8s.io/priorityclasses".into()));
    shard.list("", None, 0, &|_| true).0.iter().map(|class| class.value()).collect()
}

/// The class that Pods without one get: of several the lowest.
fn default_class(registry: &Registry) -> Option<Value> {
    let defaults = classes(registry).into_iter().filter(|class| class["globalDefault"] == true);
    defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
}

/// The classes that every API server has, whoever deleted them.
fn system_class(name: &str) -> Option<Value> {
    let value = match name {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        _ => return None,
    };
    Some(json!({"value": value, "preemptionPolicy": "PreemptLowerPriority"}))
}

fn refused(request: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(request.definition, &request.key.name, why)
}

fn priority(registry: &Registry, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
    if let Some(old) = request.old {
        // Once given, it stays where an update leaves it out.
        for field in ["priority", "preemptionPolicy"] {
            if request.object["spec"][field].is_null() && !old["spec"][field].is_null() {
                request.object["spec"][field] = old["spec"][field].clone();
            }
        }
        return Ok(());
    }
    let name = request.object["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if name.is_empty() {
        default_class(registry)
    } else {
        let storage = StorageId("scheduling.k8s.io/priorityclasses".into());
        let found = registry.cache().get(&storage, &ObjectKey::new("", &name)).map(|class| class.value());
        let found = found.or_else(|| system_class(&name));
        if found.is_none() {
            return Err(refused(request, &format!("no PriorityClass with name {name} was found")));
        }
        found
    };
    let (value, policy) = match &class {
        Some(class) => (class["value"].as_i64().unwrap_or(0), class["preemptionPolicy"].clone()),
        None => (0, json!("PreemptLowerPriority")),
    };
    let spec = &request.object["spec"];
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
        return Err(refused(
            request,
            &format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
                 computed {value} from the given PriorityClass name"
            ),
        ));
    }
    if let (Some(given), Some(policy)) = (spec["preemptionPolicy"].as_str(), policy.as_str())
        && given != policy
    {
        return Err(refused(
            request,
            &format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
                 controller computed {policy} from the given PriorityClass name"
            ),
        ));
    }
    if !request.object["spec"].is_object() {
        return Ok(());
    }
    if let Some(class) = class.filter(|_| name.is_empty()) {
        request.object["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
    }
    request.object["spec"]["priority"] = json!(value);
    if !policy.is_null() {
        request.object["spec"]["preemptionPolicy"] = policy;
    }
    Ok(())
}

fn patience(pod: &mut Value) {
    if !pod["spec"].is_object() {
        return;
    }
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let before = tolerations.len();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let text =
            |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        let tolerated = tolerations.iter().any(|toleration| {
            matches!(
                text(toleration, "key").as_str(),
                "" | "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"
            ) && (text(toleration, "key").is_empty() || text(toleration, "key") == key)
                && matches!(text(toleration, "effect").as_str(), "" | "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}));
        }
    }
    if tolerations.len() > before {
        pod["spec"]["tolerations"] = json!(tolerations);
    }
}

fn one_default(registry: &Registry, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.object["globalDefault"] != true {
        return Ok(());
    }
    let Some(other) = default_class(registry) else { return Ok(()) };
    let name = other["metadata"]["name"].as_str().unwrap_or_default();
    if request.operation == Operation::Create || name != &*request.key.name {
        let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
        return Err(refused(request, &why));
    }
    Ok(())
}
