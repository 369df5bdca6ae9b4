//! The fleet's gates between a request and the store, registered with the others: Karmada's own mutations and validations of its kinds,
//! which upstream runs in a webhook process, and its protection from deletion.
//!
//! In: a write of any kind. Out: the object completed, or a 422 with every wrong field; a 403 for what is protected. Other kinds pass.

use karmada_api::admission::{self as karmada, Context};
use karmada_definitions::status::{Cause, Status};
use karmada_registry::admission::Admission;
use karmada_registry::{AdmissionRequest, Operation, Served};
use karmada_schema::object::meta;

/// Groups of the fleet's own machinery, which controllers alone write (Works, bindings, Clusters): no webhook and no policy judges it.
pub const EXEMPT: &[&str] = &["work.karmada.io", "cluster.karmada.io"];

/// An object that is labelled so cannot be deleted by anyone.
const PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";

/// Karmada's mutations and validations.
pub struct KarmadaPolicies;

impl Admission for KarmadaPolicies {
    fn admit(&self, served: &Served, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let operation = match request.operation {
            Operation::Create => karmada::Operation::Create,
            Operation::Update => karmada::Operation::Update,
            Operation::Delete | Operation::Connect => return Ok(()),
        };
        if !request.subresource.is_empty() || !request.definition.group.ends_with("karmada.io") {
            return Ok(());
        }
        let (group, kind) = (&*request.definition.group, &*request.definition.kind);
        let context = Context { now: served.now(), new_uuid: &|| served.new_uid() };
        karmada::mutate(group, kind, operation, request.object, request.old, &context);
        let errors = karmada::validate(group, kind, operation, request.object, request.old);
        if errors.is_empty() {
            return Ok(());
        }
        // What the schema refuses it says more plainly than the typed reading that stumbled over it.
        let plain = karmada_kinds::validate(request.definition, "", request.object, request.old)?;
        if !plain.is_empty() {
            return Err(Status::invalid(group, kind, meta::name(request.object), plain));
        }
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.reason().into(),
                message: error.message(),
                field: error.path.clone(),
            })
            .collect();
        Err(Status::invalid(group, kind, meta::name(request.object), causes))
    }
}

/// Protection from deletion.
pub struct DeletionProtection;

impl Admission for DeletionProtection {
    fn admit(&self, _: &Served, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let protected = request.object["metadata"]["labels"][PROTECTED] == "Always";
        if request.operation != Operation::Delete || !protected {
            return Ok(());
        }
        let why = format!("This resource is protected, please make sure to remove the label: {PROTECTED}");
        Err(Status::forbidden(request.definition, &request.key.name, &why))
    }
}
