//! Nobody grants what they do not hold: the check on writes of roles and bindings.
//!
//! In: a write of a Role, ClusterRole, RoleBinding or ClusterRoleBinding. Out: 403 naming the rules that the writer lacks. The
//! verbs `escalate` (on roles) and `bind` (on the role referred to) lift it, as does `system:masters`. As kube-apiserver's
//! policy-based RBAC storage.

use std::sync::Arc;

use karmada_definitions::status::Status;
use karmada_registry::admission::Admission;
use karmada_registry::user::MASTERS;
use karmada_registry::{AdmissionRequest, Attributes, Authorize as _, Operation, RegistryContext};
use karmada_schema::object::meta;
use serde_json::Value;

use crate::Authorizer;
use crate::policy_rule::{Rule, compact, missing, quoted};
use crate::rbac::GROUP;

/// The gate.
pub struct Escalation {
    authorizer: Arc<Authorizer>,
}

impl Escalation {
    /// A gate that judges by what the authorizer would allow the writer.
    pub fn new(authorizer: Arc<Authorizer>) -> Self {
        Escalation { authorizer }
    }

    fn may(&self, request: &AdmissionRequest<'_>, verb: &str, plural: &str, name: &str) -> bool {
        let attributes = Attributes {
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "v1".to_owned(),
            resource: plural.to_owned(),
            // A ClusterRole is asked for in the binding's namespace, so that `bind` can be given there alone.
            namespace: request.key.namespace.to_string(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        self.authorizer.authorize(request.user, &attributes).allowed
    }

    fn check_role(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        if self.may(request, "escalate", &request.definition.plural, &request.key.name) {
            return Ok(());
        }
        self.check_rules(request, &Rule::list(&request.object["rules"]))?;
        let aggregates = |object: &Value| object["aggregationRule"].is_object();
        let gathers = aggregates(request.object) || request.old.is_some_and(aggregates);
        if &*request.definition.plural == "clusterroles" && gathers {
            let why = "must have cluster-admin privileges to use an aggregationRule";
            self.check_rules(request, &everything()).map_err(|_| refused(request, why))?;
        }
        Ok(())
    }

    fn check_binding(&self, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let role = &request.object["roleRef"];
        let name = role["name"].as_str().unwrap_or("");
        let cluster_role = role["kind"] == "ClusterRole";
        let plural = if cluster_role { "clusterroles" } else { "roles" };
        if self.may(request, "bind", plural, name) {
            return Ok(());
        }
        match self.authorizer.role_rules(cluster_role, &request.key.namespace, name) {
            Ok(rules) => self.check_rules(request, &rules),
            Err(_) => Err(role_missing(plural, name)),
        }
    }

    fn check_rules(&self, request: &AdmissionRequest<'_>, wanted: &[Rule]) -> Result<(), Status> {
        let (held, errors) = self.authorizer.rules_for(request.user, &request.key.namespace);
        let lacking = missing(&held, wanted).map_err(|many| refused(request, &many.to_string()))?;
        let lacking = compact(&lacking);
        if lacking.is_empty() {
            return Ok(());
        }
        let mut texts: Vec<String> = lacking.iter().map(Rule::describe).collect();
        texts.sort();
        let mut why = format!(
            "user \"{}\" (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            request.user.name,
            quoted(&request.user.groups),
            texts.join("\n")
        );
        if !errors.is_empty() {
            why.push_str(&format!("; resolution errors: [{}]", errors.join(", ")));
        }
        Err(refused(request, &why))
    }
}

impl Admission for Escalation {
    fn admit(&self, _: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        if &*request.definition.group != GROUP || !writes || request.user.groups.iter().any(|g| g == MASTERS)
        {
            return Ok(());
        }
        if request.old.is_some_and(|old| only_collection_fields_differ(old, request.object)) {
            return Ok(());
        }
        match &*request.definition.plural {
            "roles" | "clusterroles" => self.check_role(request),
            "rolebindings" | "clusterrolebindings" => self.check_binding(request),
            _ => Ok(()),
        }
    }
}

fn refused(request: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(request.definition, &request.key.name, why)
}

fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

fn role_missing(plural: &str, name: &str) -> Status {
    Status {
        code: 404,
        reason: "NotFound".into(),
        message: format!("{plural}.{GROUP} \"{name}\" not found"),
        details: Some(Box::new(karmada_definitions::status::Details {
            name: name.to_owned(),
            group: GROUP.to_owned(),
            kind: plural.to_owned(),
            ..Default::default()
        })),
    }
}

/// Owner references and finalizers may be changed by whoever collects garbage, whatever the role says.
fn only_collection_fields_differ(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut copy = object.clone();
        let metadata = meta::of(&mut copy);
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            metadata.remove(field);
        }
        copy
    };
    rest(old) == rest(new)
}
