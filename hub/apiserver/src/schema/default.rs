//! Defaults that a structural schema carries (`default:`), laid in as kube-apiserver does for CRDs: parents first, so
//! that a default object gets its own fields' defaults; a null where null is no value counts as absent.

use serde_json::Value;

use super::navigate::SchemaRef;

/// Lays the schema's defaults into `value`.
pub fn apply_defaults(schema: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property, _) in schema.properties() {
                let Some(default) = property.default() else { continue };
                if fields.get(name).is_none_or(|item| item.is_null() && !property.nullable()) {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, item) in fields.iter_mut() {
                let Some(child) = schema.child(name) else { continue };
                element_default(child, item);
                apply_defaults(child, item);
            }
        }
        Value::Array(items) => {
            let Some(element) = schema.items() else { return };
            for item in items {
                element_default(element, item);
                apply_defaults(element, item);
            }
        }
        _ => {}
    }
}

/// Drops nulls where null is no value and there is no default, as kube-apiserver does after defaulting.
pub fn drop_nulls(schema: SchemaRef<'_>, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, item| {
                let Some(child) = schema.property(name) else {
                    if let Some(child) = schema.additional() {
                        drop_nulls(child, item);
                    }
                    return true;
                };
                drop_nulls(child, item);
                !(item.is_null() && !child.nullable() && child.default().is_none())
            });
        }
        Value::Array(items) => {
            if let Some(element) = schema.items() {
                items.iter_mut().for_each(|item| drop_nulls(element, item));
            }
        }
        _ => {}
    }
}

fn element_default(schema: SchemaRef<'_>, item: &mut Value) {
    if item.is_null()
        && !schema.nullable()
        && let Some(default) = schema.default()
    {
        *item = default.clone();
    }
}
