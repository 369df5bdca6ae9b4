//! Whether a ResourceInterpreterCustomization may be written.
//!
//! In: it, and those that there are. Out: nothing, or why not: two would answer one operation of one kind (except InterpretDependency,
//! whose answers are united), or a script is no Lua. Scripts are read, not run.

use karmada_interpreter::Operation;

use crate::customization::{Customization, OPERATIONS};
use crate::machine::compile;

/// Checks one customization beside the others.
///
/// # Errors
/// In words for its author: another one has a script for the same kind and operation, which is not InterpretDependency, or a script of
/// it is no Lua.
pub fn check(new: &Customization, others: &[Customization]) -> Result<(), String> {
    let same = |other: &&Customization| {
        other.name != new.name && other.api_version == new.api_version && other.kind == new.kind
    };
    for other in others.iter().filter(same) {
        let both = |operation: &Operation| {
            new.scripts.contains_key(operation) && other.scripts.contains_key(operation)
        };
        let conflict = OPERATIONS
            .iter()
            .map(|(operation, ..)| *operation)
            .find(|operation| *operation != Operation::InterpretDependency && both(operation));
        if let Some(operation) = conflict {
            return Err(format!(
                "conflicting with InterpreterOperation({}) of existing ResourceInterpreterCustomization({})",
                operation.name(),
                other.name
            ));
        }
    }
    for (operation, ..) in OPERATIONS {
        if let Some(script) = new.scripts.get(&operation) {
            let words =
                |error| format!("InterpreterOperation({}) Lua script error: {error}", operation.name());
            compile(script).map_err(words)?;
        }
    }
    Ok(())
}
