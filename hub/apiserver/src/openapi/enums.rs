//! What values a field of Kubernetes' own kinds may have, for those who read OpenAPI. In: a component's schema. Out: the same with
//! `enum`. It is told and never judged by: what is refused, validation says in its own words.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

const KNOWN: &str = include_str!("../../data/enums.tsv");
const PREFIX: &str = "io.k8s.";

/// Fields and their values, by component.
pub(super) struct Enums(BTreeMap<&'static str, Vec<(&'static str, &'static str)>>);

impl Enums {
    /// Reads the table.
    pub(super) fn read() -> Enums {
        let mut all: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for line in KNOWN.lines().filter(|line| !line.starts_with('#')) {
            let mut cells = line.split('\t');
            if let (Some(component), Some(field), Some(values)) = (cells.next(), cells.next(), cells.next()) {
                all.entry(component).or_default().push((field, values));
            }
        }
        Enums(all)
    }

    /// Puts what is known into a component's schema.
    pub(super) fn put(&self, component: &str, schema: &mut Map<String, Value>) {
        let Some(fields) = component.strip_prefix(PREFIX).and_then(|name| self.0.get(name)) else { return };
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for (field, values) in fields {
            let (name, of_items) = match field.strip_suffix("[]") {
                Some(name) => (name, true),
                None => (*field, false),
            };
            let Some(mut property) = properties.get_mut(name) else { continue };
            if of_items {
                let Some(items) = property.get_mut("items") else { continue };
                property = items;
            }
            property["enum"] = values.split(',').map(|value| json!(value)).collect();
        }
    }
}
