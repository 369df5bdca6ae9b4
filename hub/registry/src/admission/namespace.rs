//! Namespace life cycle: nothing is created in a namespace that is not there or on its way out, and the namespaces that
//! everything stands on cannot be deleted (kube-apiserver's NamespaceLifecycle).
//!
//! In: a write on its way, and the namespaces in the cache. Out: nothing, or a `Status`: 404 where the namespace is not there, 403 where it
//! is being deleted or must stay. Changes nothing.

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::{Cause, Details, Status};
use karmada_schema::object::ObjectKey;

use super::Admission;
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The gate.
pub struct NamespaceLifecycle;

impl Admission for NamespaceLifecycle {
    fn admit(&self, context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let definition = request.definition;
        let is_namespace = definition.row.known == BuiltinKind::Namespace;
        if is_namespace && request.operation == Operation::Delete && IMMORTAL.contains(&&*request.key.name) {
            return Err(Status::forbidden(
                definition,
                &request.key.name,
                "this namespace may not be deleted",
            ));
        }
        may_create(context, request)
    }

    fn judge_unstored(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        may_create(context, request)
    }
}

fn may_create(context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
    let definition = request.definition;
    if !definition.namespaced || request.operation != Operation::Create {
        return Ok(());
    }
    // Access reviews are questions about a namespace, not objects in it.
    if &*definition.group == "authorization.k8s.io" {
        return Ok(());
    }
    // A namespaced object without a namespace is refused elsewhere, for that reason.
    if request.key.namespace.is_empty() {
        return Ok(());
    }
    let namespaces = StorageId("core/namespaces".into());
    let key = ObjectKey::new("", &request.key.namespace);
    let Some(namespace) = context.cache().get(&namespaces, &key) else {
        return Err(missing(&request.key.namespace));
    };
    if namespace.deleting { Err(terminating(request)) } else { Ok(()) }
}

/// The 404 of a namespace that is not there.
pub(super) fn missing(namespace: &str) -> Status {
    let details = Details { name: namespace.to_owned(), kind: "namespaces".to_owned(), ..Details::default() };
    Status {
        code: 404,
        reason: "NotFound".into(),
        message: format!("namespaces {} not found", karmada_schema::quote(namespace)),
        details: Some(Box::new(details)),
    }
}

fn terminating(request: &AdmissionRequest<'_>) -> Status {
    let namespace = &request.key.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(request.definition, &request.key.name, &why);
    if let Some(details) = status.details.as_mut() {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
