//! Pod security: what Pods may ask of a node, by the labels of their namespace (kube-apiserver's PodSecurity, as it is configured
//! by default: `privileged:latest`, nobody exempt).
//!
//! In: a Pod, something that holds a template of Pods, or a namespace, as it will be stored. Out: nothing, or a refusal; warnings,
//! and notes for the audit log. Pods alone are refused: a template is no Pod yet, so that its writer is warned. A namespace
//! without these labels pays one look at its labels.

mod host;
mod identities;
mod namespaces;
mod pod;
mod policy;
mod privileges;
mod profiles;
mod standards;
mod volumes;

use std::collections::BTreeMap;

use karmada_definitions::kind_row;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::{Cause, Status};
use karmada_schema::object::ObjectKey;
use karmada_schema::quote;
use serde_json::Value;

use self::policy::{Level, Policy, Standard};
use self::standards::{in_detail, violations};
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};

/// Parts of a Pod by which what it asks of a node is not changed.
const HARMLESS: [&str; 8] =
    ["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

/// Judges what is created or changed.
///
/// # Errors
/// 403 for a Pod that violates what is enforced; 422 for a namespace whose labels cannot be read.
pub(crate) fn admit(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    if !matches!(request.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let definition = request.definition;
    match definition.row.known {
        kind_row::BuiltinKind::Namespace if request.subresource.is_empty() => {
            namespaces::admit(context, request)
        }
        kind_row::BuiltinKind::Pod if !HARMLESS.contains(&request.subresource) => pod(context, request),
        _ if request.subresource.is_empty() => {
            if let Some(path) = definition.row.pod_template {
                template(context, request, path);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn pod(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let Some((policy, wrong)) = policy_of(context, request) else {
        let name = quote(&request.key.namespace);
        return Err(Status::internal(format!("failed to lookup namespace {name}")));
    };
    if wrong.is_empty() && policy.allows_all() {
        note(request, "enforce-policy", Standard::PRIVILEGED.to_string());
        return Ok(());
    }
    if request.old.is_some_and(|old| !asks_anew(request.object, old)) {
        return Ok(());
    }
    note(request, "enforce-policy", policy.enforce.to_string());
    let mut known = Known::new(request.object);
    let refused = known.of(policy.enforce).map(|why| {
        let why = format!("violates PodSecurity {}: {why}", quote(&policy.enforce.to_string()));
        Status::forbidden(request.definition, &request.key.name, &why)
    });
    tell(request, &policy, &wrong, &mut known);
    if refused.is_none() {
        warn(request, &policy, &mut known);
    }
    refused.map_or(Ok(()), Err)
}

fn template(context: &RegistryContext, request: &AdmissionRequest<'_>, path: &str) {
    let Some((policy, wrong)) = policy_of(context, request) else {
        let name = quote(&request.key.namespace);
        note(request, "error", format!("failed to lookup namespace {name}"));
        return;
    };
    let told = Policy { enforce: Standard::PRIVILEGED, ..policy };
    if wrong.is_empty() && told.allows_all() {
        return;
    }
    if let Some(template) = request.object.pointer(path).filter(|template| template.is_object()) {
        let mut known = Known::new(template);
        tell(request, &policy, &wrong, &mut known);
        warn(request, &policy, &mut known);
    }
}

/// Notes what the labels ask to be noted.
fn tell(request: &AdmissionRequest<'_>, policy: &Policy, wrong: &[Cause], known: &mut Known<'_>) {
    if !wrong.is_empty() {
        let each: Vec<String> = wrong.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
        let all = each.join(", ");
        let all = if each.len() == 1 { all } else { format!("[{all}]") };
        note(request, "error", format!("Failed to parse policy: {all}"));
    }
    if let Some(words) = would_violate(policy.audit, known) {
        note(request, "audit-violations", words);
    }
}

/// Warns of what the labels ask to be warned of.
fn warn(request: &AdmissionRequest<'_>, policy: &Policy, known: &mut Known<'_>) {
    if let Some(words) = would_violate(policy.warn, known) {
        request.warnings.add(words);
    }
}

fn would_violate(standard: Standard, known: &mut Known<'_>) -> Option<String> {
    let why = known.of(standard)?;
    Some(format!("would violate PodSecurity {}: {why}", quote(&standard.to_string())))
}

/// What a Pod violates, looked for once for each standard.
struct Known<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    found: BTreeMap<Standard, Option<String>>,
}

impl<'a> Known<'a> {
    fn new(pod: &'a Value) -> Known<'a> {
        Known { metadata: &pod["metadata"], spec: &pod["spec"], found: BTreeMap::new() }
    }

    fn of(&mut self, standard: Standard) -> Option<&str> {
        if standard.level == Level::Privileged {
            return None;
        }
        let (metadata, spec) = (self.metadata, self.spec);
        let found = self.found.entry(standard);
        found.or_insert_with(|| in_detail(&violations(standard, metadata, spec))).as_deref()
    }
}

/// What holds in the request's namespace, and what is wrong with its labels; `None` where it is not there to be read.
fn policy_of(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Option<(Policy, Vec<Cause>)> {
    let key = ObjectKey::new("", &request.key.namespace);
    let labels = context.cache().get(&StorageId("core/namespaces".into()), &key)?.labels();
    Some(Policy::read(|label| labels.get(label).cloned()))
}

fn note(request: &AdmissionRequest<'_>, key: &str, value: String) {
    request.warnings.note(format!("pod-security.kubernetes.io/{key}"), value);
}

/// Whether a changed Pod is to be judged again: what of it can be changed and matters are its images, and containers that are
/// added to a Pod that runs.
fn asks_anew(new: &Value, old: &Value) -> bool {
    fn list<'p>(pod: &'p Value, field: &str) -> &'p [Value] {
        pod["spec"][field].as_array().map_or(&[], Vec::as_slice)
    }
    let moved = |field: &str| {
        let (new, old) = (list(new, field), list(old, field));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| new["image"] != old["image"])
    };
    let added = |container: &Value| {
        let before = list(old, "ephemeralContainers").iter().find(|old| old["name"] == container["name"]);
        before.is_none_or(|before| before["image"] != container["image"])
    };
    moved("containers") || moved("initContainers") || list(new, "ephemeralContainers").iter().any(added)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_that_asks_for_nothing_is_not_judged_again() {
        let with =
            |field: &str, list: Value| json!({"metadata": {"labels": {"a": "b"}}, "spec": {field: list}});
        let c = |image: &str| json!([{"name": "c", "image": image}]);
        for (old, new, wanted) in [
            (with("containers", c("i")), with("containers", c("i")), false),
            (with("containers", c("i")), with("containers", c("j")), true),
            (with("initContainers", c("i")), with("initContainers", c("j")), true),
            (with("containers", c("i")), with("containers", json!([])), true),
            (with("ephemeralContainers", json!([])), with("ephemeralContainers", c("i")), true),
            (with("ephemeralContainers", c("i")), with("ephemeralContainers", c("i")), false),
            (with("ephemeralContainers", c("i")), with("ephemeralContainers", json!([])), false),
        ] {
            assert_eq!(asks_anew(&new, &old), wanted, "{old} {new}");
        }
    }
}
