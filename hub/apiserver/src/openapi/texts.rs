//! What fields mean, in words: for `kubectl explain`. In: a component's schema. Out: the same with descriptions. The texts
//! are unpacked when a document is asked for and dropped with it, so that a hub that nobody asks holds none.
//!
//! Kubernetes' own kinds: Kubernetes' texts, packed at build time from the k8s-openapi crate (Apache-2.0). Karmada's
//! kinds: `data/texts.tsv`, our own sentences, found by the end of a field's path.

use std::collections::BTreeMap;
use std::io::Read as _;

use serde_json::{Map, Value};

const PUBLISHED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/texts.tsv.zz"));
const OWN: &str = include_str!("../../data/texts.tsv");

/// Kubernetes' texts: lines of component, tab, JSON.
pub(super) fn unpack() -> String {
    let mut published = String::new();
    // Packed by our own build: it unpacks, or there are no texts.
    let _ = flate2::read::ZlibDecoder::new(PUBLISHED).read_to_string(&mut published);
    published
}

/// All texts, by component and by path.
pub(super) struct Texts<'a> {
    published: BTreeMap<&'a str, &'a str>,
    own: BTreeMap<&'static str, &'static str>,
}

impl<'a> Texts<'a> {
    /// Those that were unpacked, and our own.
    pub(super) fn over(unpacked: &'a str) -> Self {
        let published = unpacked.lines().filter_map(|line| line.split_once('\t')).collect();
        let own = OWN.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
        Texts { published, own: own.collect() }
    }

    /// Puts what is known into a component's schema, beside each property.
    pub(super) fn describe(&self, component: &str, schema: &mut Map<String, Value>) {
        if let Some(known) = self.published(component) {
            return published_texts(&known, schema);
        }
        if component.contains("karmada") || component.contains("multicluster") {
            let kind = component.rsplit('.').next().unwrap_or_default();
            put(schema, self.own.get(kind).copied());
            self.describe_fields(&mut vec![kind.to_owned()], schema);
        }
    }

    /// Kubernetes' texts on one of its components.
    fn published(&self, component: &str) -> Option<Map<String, Value>> {
        serde_json::from_str(self.published.get(component)?).ok()
    }

    fn describe_fields(&self, path: &mut Vec<String>, schema: &mut Map<String, Value>) {
        for inner in ["items", "additionalProperties"] {
            if let Some(Value::Object(inner)) = schema.get_mut(inner) {
                self.describe_fields(path, inner);
            }
        }
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for (name, property) in properties {
            let Value::Object(property) = property else { continue };
            path.push(name.clone());
            self.describe_fields(path, property);
            put(property, self.own_text(path));
            path.pop();
        }
    }

    /// Of the longest known end of a path.
    fn own_text(&self, path: &[String]) -> Option<&'static str> {
        (0..path.len()).find_map(|from| self.own.get(path[from..].join(".").as_str()).copied())
    }
}

/// A text that is there already stays: it is the schema's own.
fn put(schema: &mut Map<String, Value>, text: Option<&str>) {
    if let Some(text) = text {
        schema.entry("description").or_insert_with(|| Value::from(text));
    }
}

fn published_texts(known: &Map<String, Value>, schema: &mut Map<String, Value>) {
    let text = |field: &str| known.get(field).and_then(Value::as_str);
    put(schema, text(""));
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        if let Value::Object(property) = property {
            put(property, text(name));
        }
    }
}
