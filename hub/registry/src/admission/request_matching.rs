//! Which requests a webhook or policy is about: operations, resources, scope, namespace, labels.
//!
//! In: `rules` and selectors as configured, a request. Out: whether they match, and through which version of the resource: with
//! `matchPolicy: Equivalent` a rule about one version matches requests in the others, which are then shown in that version.

use std::sync::Arc;

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::{ResourceDefinition, StorageId};
use karmada_definitions::status::Status;
use karmada_schema::object::ObjectKey;
use karmada_schema::selector::LabelSelector;
use serde_json::Value;

use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};

/// One rule.
#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// What a webhook, a policy or a binding matches.
#[derive(Debug)]
pub(super) struct Matching {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether no rule is needed.
    open: bool,
    equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

/// The operation as configurations name it.
pub(super) fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

impl Rule {
    fn all(rules: &Value) -> Vec<Rule> {
        let texts = |value: &Value| -> Vec<String> {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let one = |rule: &Value| Rule {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            names: texts(&rule["resourceNames"]),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
        };
        rules.as_array().into_iter().flatten().map(one).collect()
    }

    fn matches(&self, request: &AdmissionRequest<'_>, seen: &ResourceDefinition) -> bool {
        let one_of = |list: &[String], text: &str| list.iter().any(|one| one == "*" || one == text);
        // A Namespace is an object of the cluster, though requests on it name it as their namespace.
        let scope = match self.scope.as_str() {
            "Namespaced" => seen.namespaced,
            "Cluster" => !seen.namespaced,
            _ => true,
        };
        scope
            && one_of(&self.operations, operation(request.operation))
            && one_of(&self.groups, &seen.group)
            && one_of(&self.versions, &seen.version)
            && (self.names.is_empty() || self.names.iter().any(|name| **name == *request.key.name))
            && self.resources.iter().any(|pattern| names_resource(pattern, &seen.plural, request.subresource))
    }
}

/// `pods`, `pods/status`, `pods/*`, `*/scale`, `*` (no subresources), `*/*`.
fn names_resource(pattern: &str, plural: &str, subresource: &str) -> bool {
    let (resource, part) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == plural) && (part == subresource || part == "*")
}

impl Matching {
    /// Of a webhook: `rules` and the selectors beside them.
    pub(super) fn of_webhook(webhook: &Value) -> Matching {
        Matching::read(webhook, &webhook["rules"])
    }

    /// Of a policy or binding: `matchConstraints`, `matchResources`. Without rules a binding matches what its policy does.
    pub(super) fn of_resources(resources: &Value) -> Matching {
        let mut matching = Matching::read(resources, &resources["resourceRules"]);
        matching.open = matching.rules.is_empty();
        matching
    }

    fn read(from: &Value, rules: &Value) -> Matching {
        Matching {
            rules: Rule::all(rules),
            excluded: Rule::all(&from["excludeResourceRules"]),
            open: false,
            equivalent: from["matchPolicy"] != "Exact",
            namespaces: LabelSelector::of_json(&from["namespaceSelector"]),
            objects: LabelSelector::of_json(&from["objectSelector"]),
        }
    }

    /// The version of the resource that the request is seen in; `None` where it does not match.
    ///
    /// # Errors
    /// The namespace is needed and is not there.
    pub(super) fn matches(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<Option<Arc<ResourceDefinition>>, Status> {
        let Some(seen) = self.resource(context, request) else { return Ok(None) };
        let labelled = self.objects.is_empty()
            || selects(&self.objects, request.object)
            || request.old.is_some_and(|old| selects(&self.objects, old));
        if !labelled || !self.in_namespace(context, request)? {
            return Ok(None);
        }
        Ok(Some(seen))
    }

    fn resource(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Option<Arc<ResourceDefinition>> {
        let any = |rules: &[Rule], seen: &ResourceDefinition| rules.iter().any(|r| r.matches(request, seen));
        if any(&self.excluded, request.definition) {
            return None;
        }
        if self.open || any(&self.rules, request.definition) {
            return Some(Arc::new(request.definition.clone()));
        }
        if !self.equivalent {
            return None;
        }
        let catalogue = context.catalogue();
        let others = || catalogue.iter().filter(|other| other.storage == request.definition.storage);
        if others().any(|other| any(&self.excluded, other)) {
            return None;
        }
        others().find(|other| any(&self.rules, other)).cloned()
    }

    fn in_namespace(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<bool, Status> {
        if self.namespaces.is_empty() {
            return Ok(true);
        }
        let definition = request.definition;
        if definition.row.known == BuiltinKind::Namespace {
            return Ok(selects(&self.namespaces, request.object));
        }
        if !definition.namespaced {
            return Ok(true);
        }
        let key = ObjectKey::new("", &request.key.namespace);
        let namespace = context.cache().get(&StorageId("core/namespaces".into()), &key);
        let namespace = namespace.ok_or_else(|| super::namespace::missing(&request.key.namespace))?;
        Ok(self.namespaces.matches(|key| namespace.label(key)))
    }
}

fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|key| object["metadata"]["labels"].get(key).and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_resources_and_their_parts() {
        for (pattern, resource, part, wanted) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/scale", "deployments", "scale", true),
            ("*/scale", "deployments", "", false),
            ("*/*", "deployments", "", true),
            ("*/*", "deployments", "scale", true),
        ] {
            assert_eq!(names_resource(pattern, resource, part), wanted, "{pattern} {resource} {part}");
        }
    }
}
