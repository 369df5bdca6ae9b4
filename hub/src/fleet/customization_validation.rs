//! The gate of ResourceInterpreterCustomizations: no two answer one operation of one kind, except InterpretDependency, whose answers
//! are united; and scripts are Lua.
//!
//! In: a write of one. Out: nothing, or a 403 in Karmada's words. Scripts are read, not run.

use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_lua::{Customization, validation};
use karmada_registry::admission::Admission;
use karmada_registry::{AdmissionRequest, Operation, RegistryContext};

/// The gate.
pub struct CustomizationValidation;

impl Admission for CustomizationValidation {
    fn admit(&self, _: &RegistryContext, _: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn judge(&self, context: &RegistryContext, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        let definition = request.definition;
        let meant = &*definition.group == "config.karmada.io"
            && &*definition.kind == "ResourceInterpreterCustomization"
            && request.subresource.is_empty()
            && matches!(request.operation, Operation::Create | Operation::Update);
        if !meant {
            return Ok(());
        }
        let new = Customization::of(request.object);
        // Scripts that were let in stand, whatever comes to stand beside them: labels of it can be changed.
        if request.old.is_some_and(|old| Customization::of(old) == new) {
            return Ok(());
        }
        let storage = StorageId("config.karmada.io/resourceinterpretercustomizations".into());
        let stored = context.cache().of_resource(&storage).snapshot("").items;
        let others: Vec<Customization> =
            stored.iter().map(|other| Customization::of(&other.value())).collect();
        validation::check(&new, &others).map_err(|why| Status::forbidden(definition, &request.key.name, &why))
    }
}
