//! What kube-apiserver's own plugins lay into new Pods: a priority, tolerations of nodes that are not ready, the overhead of their runtime
//! (`Priority`, `DefaultTolerationSeconds`, `RuntimeClass`); that one PriorityClass at most is the default; and which claims may grow.
//!
//! In: a write on its way; PriorityClasses, RuntimeClasses, StorageClasses and namespaces in the cache. Out: the object with what was laid
//! in, or a `Status`; the last look, after all other rules, changes nothing.

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::{Cause, Status};
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};

use super::Admission;
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};

/// Seconds that a Pod stays on a node that is lost, where it does not say.
const TOLERATION_SECONDS: i64 = 300;

/// Lays defaults into Pods.
pub struct PodDefaults;

impl Admission for PodDefaults {
    fn admit(&self, context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let class = request.definition.row.known == BuiltinKind::PriorityClass;
        if request.operation == Operation::Delete && class && system_class(&request.key.name).is_some() {
            return Err(refused(request, "this is a system priority class and cannot be deleted"));
        }
        if request.operation == Operation::Delete || !request.subresource.is_empty() {
            return Ok(());
        }
        match request.definition.row.known {
            BuiltinKind::Pod => {
                priority(context, request)?;
                patience(request.object);
                if request.old.is_none() { runtime(context, request) } else { Ok(()) }
            }
            BuiltinKind::PriorityClass => one_default(context, request),
            _ => Ok(()),
        }
    }
}

fn classes(context: &RegistryContext) -> Vec<Value> {
    let resource_cache = context.cache().of_resource(&StorageId("scheduling.k8s.io/priorityclasses".into()));
    resource_cache.list("", None, 0, &|_| true).0.iter().map(|class| class.value()).collect()
}

/// The class that Pods without one get: of several the lowest.
fn default_class(context: &RegistryContext) -> Option<Value> {
    let defaults = classes(context).into_iter().filter(|class| class["globalDefault"] == true);
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

/// The same as objects, to be stored among the others.
pub fn system_classes() -> Vec<Value> {
    let words = [
        (
            "system-cluster-critical",
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ];
    let class = |(name, description): (&str, &str)| {
        let value = system_class(name).map(|class| class["value"].clone()).unwrap_or_default();
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority"})
    };
    words.into_iter().map(class).collect()
}

fn refused(request: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(request.definition, &request.key.name, why)
}

fn priority(context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
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
        default_class(context)
    } else {
        let storage = StorageId("scheduling.k8s.io/priorityclasses".into());
        let found = context.cache().get(&storage, &ObjectKey::new("", &name)).map(|class| class.value());
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
            tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}));
        }
    }
    if tolerations.len() > before {
        pod["spec"]["tolerations"] = json!(tolerations);
    }
}

/// What the runtime of a Pod costs, and where it is (`RuntimeClass`).
fn runtime(context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
    const OTHER: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
    let Some(name) = request.object["spec"]["runtimeClassName"].as_str().map(str::to_owned) else {
        return Ok(());
    };
    // A name that is no part of a path cannot even be asked for.
    let odd = karmada_schema::names::path_segment(&name);
    if name.is_empty() || !odd.is_empty() {
        let message = match &*name {
            "" => "resource name may not be empty".to_owned(),
            name => format!("invalid resource name {name:?}: [{}]", odd.join(" ")),
        };
        return Err(Status { code: 500, reason: "".into(), message, details: None });
    }
    let storage = StorageId("node.k8s.io/runtimeclasses".into());
    let Some(class) = context.cache().get(&storage, &ObjectKey::new("", &name)) else {
        return Err(refused(request, &format!("pod rejected: RuntimeClass {name:?} not found")));
    };
    let class = class.value();
    let (overhead, given) = (&class["overhead"]["podFixed"], &request.object["spec"]["overhead"]);
    let some = |value: &Value| value.as_object().is_some_and(|fields| !fields.is_empty());
    if class["overhead"].is_object() {
        if some(given) && given != overhead {
            return Err(refused(request, OTHER));
        }
        request.object["spec"]["overhead"] = overhead.clone();
    }
    place(&class["scheduling"], request)
}

const NO_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// Where a runtime is: the nodes that have it, and tolerations of them.
fn place(scheduling: &Value, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let given = &request.object["spec"]["nodeSelector"][key.as_str()];
        if !given.is_null() && given != value {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(given)
            );
            return Err(refused(request, &why));
        }
        request.object["spec"]["nodeSelector"][key.as_str()] = value.clone();
    }
    let more = scheduling["tolerations"].as_array().cloned().unwrap_or_default();
    if !more.is_empty() {
        let mut all = request.object["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        all.extend(more.into_iter().filter(|one| {
            !request.object["spec"]["tolerations"].as_array().is_some_and(|all| all.contains(one))
        }));
        request.object["spec"]["tolerations"] = Value::Array(all);
    }
    Ok(())
}

/// What is asked after an object's own rules: where a Pod's overhead comes from, where devices may be administered, which claims may grow.
pub(crate) fn last_look(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.operation == Operation::Delete || !request.subresource.is_empty() {
        return Ok(());
    }
    match request.definition.row.known {
        BuiltinKind::Pod if request.old.is_none() => known_overhead(context, request),
        BuiltinKind::VolumeClaim => may_grow(context, request),
        BuiltinKind::ResourceClaim | BuiltinKind::ResourceClaimTemplate if request.old.is_none() => {
            may_administer(context, request)
        }
        _ => Ok(()),
    }
}

/// A Pod has an overhead only where its RuntimeClass defines one.
fn known_overhead(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let spec = &request.object["spec"];
    let sent_empty = request.sent_empty.is_some_and(|empties| empties.has("/spec/overhead"));
    if spec["overhead"].is_null() && !sent_empty {
        return Ok(());
    }
    let storage = StorageId("node.k8s.io/runtimeclasses".into());
    let name = spec["runtimeClassName"].as_str().unwrap_or_default();
    let class = context.cache().get(&storage, &ObjectKey::new("", name));
    if class.is_some_and(|class| class.value()["overhead"].is_object()) {
        return Ok(());
    }
    Err(refused(request, NO_OVERHEAD))
}

/// Administrative access to devices is asked for only in a namespace that is labelled for it.
fn may_administer(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    let path = if request.definition.row.known == BuiltinKind::ResourceClaim { "spec" } else { "spec.spec" };
    let spec = path.split('.').fold(&*request.object, |at, part| &at[part]);
    let requests = spec["devices"]["requests"].as_array().into_iter().flatten();
    let asks = |one: &Value| one["exactly"]["adminAccess"] == true;
    let asking: Vec<usize> =
        requests.enumerate().filter(|(_, one)| asks(one)).map(|(index, _)| index).collect();
    if asking.is_empty() {
        return Ok(());
    }
    let storage = StorageId("core/namespaces".into());
    let space = context.cache().get(&storage, &ObjectKey::new("", &request.key.namespace));
    if space.is_some_and(|space| space.value()["metadata"]["labels"][LABEL] == "true") {
        return Ok(());
    }
    let cause = |index: usize| Cause {
        reason: "FieldValueForbidden".into(),
        message: format!(
            "Forbidden: admin access to devices requires the `{LABEL}: true` label on the containing namespace"
        ),
        // A claim template has the same path here: `spec.spec` is told as `spec`.
        field: format!("spec.devices.requests[{index}].adminAccess"),
    };
    let definition = request.definition;
    let causes = asking.into_iter().map(cause).collect();
    Err(Status::invalid(&definition.group, &definition.kind, &request.key.name, causes))
}

/// A claim may only grow where its class lets it (`PersistentVolumeClaimResize`).
fn may_grow(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    use karmada_quantity::Quantity;
    let Some(old) = request.old else { return Ok(()) };
    let size = |claim: &Value| Quantity::from_value(&claim["spec"]["resources"]["requests"]["storage"]);
    match (size(request.object), size(old)) {
        (Some(now), Some(before)) if now > before => {}
        _ => return Ok(()),
    }
    if old["status"]["phase"] != "Bound" {
        return Err(refused(request, "Only bound persistent volume claims can be expanded"));
    }
    let class = request.object["spec"]["storageClassName"].as_str().unwrap_or_default();
    let storage = StorageId("storage.k8s.io/storageclasses".into());
    let class = context.cache().get(&storage, &ObjectKey::new("", class));
    if class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
               support resize";
    Err(refused(request, why))
}

fn one_default(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if request.object["globalDefault"] != true {
        return Ok(());
    }
    let Some(other) = default_class(context) else { return Ok(()) };
    let name = other["metadata"]["name"].as_str().unwrap_or_default();
    if request.operation == Operation::Create || name != &*request.key.name {
        let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
        return Err(refused(request, &why));
    }
    Ok(())
}
