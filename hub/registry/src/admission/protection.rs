//! Deletion protection: an object labelled for it cannot be deleted by anyone.

use karmada_definitions::status::Status;

use super::Admission;
use crate::request::{AdmissionRequest, Operation};
use crate::served::Served;

const LABEL: &str = "resourcetemplate.karmada.io/deletion-protected";

/// The gate.
pub struct DeletionProtection;

impl Admission for DeletionProtection {
    fn admit(&self, _: &Served, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let protected = request.object["metadata"]["labels"][LABEL] == "Always";
        if request.operation != Operation::Delete || !protected {
            return Ok(());
        }
        let why = format!("This resource is protected, please make sure to remove the label: {LABEL}");
        Err(Status::forbidden(request.definition, &request.key.name, &why))
    }
}
