//! Who may name a policy's parameters. A policy shows them to whoever it judges, so that only who may read them may name them.
//!
//! In: a well-formed ValidatingAdmissionPolicy or its binding on its way to the store, and who writes it. Out: nothing, or the refusal
//! that kube-apiserver gives: for `paramKind` one must be allowed to `get` all objects of the kind, for `paramRef` to `get` the one it
//! names, or to `list` those it selects. `system:masters` may.

use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_definitions::version::split_api_version;
use karmada_schema::FieldError;
use karmada_schema::object::ObjectKey;
use karmada_schema::path::Path;
use serde_json::Value;

use super::DynamicAdmission;
use super::configuration::GROUP;
use crate::authorize::Attributes;
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};
use crate::user::{MASTERS, Origin, User};

/// Stands for any group, version, resource, namespace or name where a right is asked about.
const ALL: &str = "*";

impl DynamicAdmission {
    /// Judges who names parameters.
    ///
    /// # Errors
    /// The writer may not read them.
    pub(crate) fn may_name_parameters(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        let is_trusted =
            request.user.origin != Origin::Client || request.user.groups.iter().any(|group| group == MASTERS);
        let writes = matches!(request.operation, Operation::Create | Operation::Update);
        if is_trusted || !writes || !request.subresource.is_empty() || &*request.definition.group != GROUP {
            return Ok(());
        }
        let (field, why) = match &*request.definition.plural {
            "validatingadmissionpolicies" => ("paramKind", self.kind_refused(context, request)),
            "validatingadmissionpolicybindings" => ("paramRef", self.reference_refused(context, request)),
            _ => return Ok(()),
        };
        let Some(why) = why else { return Ok(()) };
        let spec = Path::field("spec");
        let error = FieldError::forbidden(&spec.child(field), why);
        let causes = vec![karmada_kinds::cause(&error)];
        Err(Status::invalid(&request.definition.group, &request.definition.kind, &request.key.name, causes))
    }

    fn kind_refused(&self, context: &RegistryContext, request: &AdmissionRequest<'_>) -> Option<String> {
        let kind = &request.object["spec"]["paramKind"];
        let is_new = request.old.is_none_or(|old| old["spec"]["paramKind"] != *kind);
        if !kind.is_object() || !is_new {
            return None;
        }
        let place = place_of(context, kind);
        let asked = place.map_or_else(everything, |place| Attributes {
            name: ALL.into(),
            namespace: ALL.into(),
            ..place
        });
        let asked = Attributes { verb: "get".to_owned(), ..asked };
        let text = |field: &str| kind[field].as_str().unwrap_or_default();
        (!self.authorizer.authorize(request.user, &asked).allowed).then(|| {
            format!(
                "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
                shown(request.user),
                text("kind"),
                text("apiVersion")
            )
        })
    }

    fn reference_refused(&self, context: &RegistryContext, request: &AdmissionRequest<'_>) -> Option<String> {
        let spec = &request.object["spec"];
        let reference = &spec["paramRef"];
        let same = |old: &Value| {
            old["spec"]["paramRef"] == *reference && old["spec"]["policyName"] == spec["policyName"]
        };
        if !reference.is_object() || request.old.is_some_and(same) {
            return None;
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        let verb = if text("name").is_empty() { "list" } else { "get" };
        let name = spec["policyName"].as_str().unwrap_or_default();
        let storage = StorageId(format!("{GROUP}/validatingadmissionpolicies").into());
        let policy = context.cache().get(&storage, &ObjectKey::new("", name)).map(|policy| policy.value());
        let kind = policy.as_ref().map(|policy| &policy["spec"]["paramKind"]).filter(|kind| kind.is_object());
        let place = kind.and_then(|kind| place_of(context, kind));
        let known = place.is_some();
        let asked = Attributes {
            verb: verb.to_owned(),
            name: text("name"),
            namespace: text("namespace"),
            ..place.unwrap_or_else(everything)
        };
        if self.authorizer.authorize(request.user, &asked).allowed {
            return None;
        }
        let user = shown(request.user);
        if known {
            return Some(format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ));
        }
        let lack = match &policy {
            None => format!("unable to get policy {name}"),
            Some(_) => "unable to resolve paramKind".to_owned(),
        };
        Some(format!(
            "{lack} to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
        ))
    }
}

/// The resource of a kind, where it is served.
fn place_of(context: &RegistryContext, kind: &Value) -> Option<Attributes> {
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let catalogue = context.catalogue();
    let found = catalogue.kind(group, version, text("kind"))?;
    Some(Attributes {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: found.plural.to_string(),
        ..Attributes::default()
    })
}

/// What is asked for where nobody knows what is meant.
fn everything() -> Attributes {
    let all = || ALL.to_owned();
    Attributes { group: all(), version: all(), resource: all(), ..Attributes::default() }
}

/// A user as Go prints one.
fn shown(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
