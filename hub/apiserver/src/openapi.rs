//! OpenAPI documents, built from what is served when someone asks, and kept until that changes: v3 one document per group version
//! with an index of hashed addresses, v2 as JSON and as the protobuf that kubectl and Argo CD read.
//!
//! In: served resources with their schemas. Out: bytes. Documents are written piece by piece, so that building one
//! never holds it twice. Structure is complete (types, fields, list and patch keys, defaults); texts are in v3 alone, which
//! is what `kubectl explain` asks for: v2 serves programs.

mod address;
mod components;
mod custom;
mod enums;
mod paths;
mod proto;
mod published;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use bytes::Bytes;
use karmada_definitions::description::Resource;
use karmada_definitions::resource::Catalogue;
use karmada_kinds::catalogue;
use karmada_schema::{KUBERNETES_VERSION, SchemaRef, Schemas};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::aggregation::More;
use components::Components;
pub use custom::Documents;
use enums::Enums;
pub(crate) use published::{Document, Form, Published};
use texts::Texts;

#[cfg(test)]
mod tests;

/// The content type of the v2 document as protobuf.
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A resource, and what its bodies look like.
#[derive(Clone, Copy, Debug)]
pub struct ServedResource<'a> {
    /// Names, verbs, subresources.
    pub resource: &'a Resource,
    /// The kind's schema.
    pub schema: SchemaRef<'a>,
    /// Changes when the schema does; empty for shipped kinds. Part of the document's hash.
    pub revision: &'a str,
    /// A custom kind's schema as its definition has it, texts included, brought into the document's form.
    pub published: Option<&'a Value>,
}

/// The index of OpenAPI v3 documents.
pub fn openapi_v3_index(catalogue: &Catalogue) -> Bytes {
    v3_index(&Documents::outlines(catalogue).served())
}

/// One OpenAPI v3 document, by its path below `/openapi/v3/`.
pub fn openapi_v3(catalogue: &Catalogue, path: &str) -> Option<Bytes> {
    let wanted = |group: &str, version: &str| path == format!("apis/{group}/{version}");
    v3_document(&Documents::read(catalogue, wanted).served(), path)
}

/// What ships with the hub.
pub fn shipped() -> Vec<ServedResource<'static>> {
    let schemas = Schemas::builtin();
    let all = catalogue::resources().iter();
    all.filter_map(|resource| {
        let schema = schemas.of(&resource.group, &resource.version, &resource.kind)?;
        Some(ServedResource { resource, schema, revision: "", published: None })
    })
    .collect()
}

/// Which version of OpenAPI a piece is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

/// `api/v1`, `apis/apps/v1`: where a group version's document lies below `/openapi/v3/`.
fn location(resource: &Resource) -> String {
    if resource.group.is_empty() {
        format!("api/{}", resource.version)
    } else {
        format!("apis/{}/{}", resource.group, resource.version)
    }
}

/// The index: each document's address with the hash of its content, so that clients may keep it for good.
pub fn v3_index(resources: &[ServedResource<'_>]) -> Bytes {
    let mut hashes: BTreeMap<String, Sha256> = BTreeMap::new();
    for served in resources {
        let hash = hashes.entry(location(served.resource)).or_insert_with(|| {
            let mut hash = Sha256::new();
            hash.update(env!("CARGO_PKG_VERSION"));
            hash.update(Schemas::fingerprint().to_le_bytes());
            hash
        });
        hash.update(format!("{:?}\n{}\n", served.resource, served.revision));
    }
    let mut paths = serde_json::Map::new();
    for (location, hash) in hashes {
        let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect();
        let address = format!("/openapi/v3/{location}?hash={hash}");
        paths.insert(location, json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths}).to_string().into()
}

/// The document at `location` (`api/v1`, `apis/apps/v1`); `None` where nothing is served.
pub fn v3_document(resources: &[ServedResource<'_>], location: &str) -> Option<Bytes> {
    let served: Vec<ServedResource<'_>> =
        resources.iter().filter(|served| self::location(served.resource) == location).copied().collect();
    if served.is_empty() {
        return None;
    }
    let mut out = Writer(b"{\"openapi\":\"3.0.0\",\"info\":".to_vec());
    out.json(&info());
    out.text(",\"paths\":{");
    let mut components = Components::new(Dialect::V3);
    write_paths(&mut out, &served, Dialect::V3, &mut components);
    out.text("},\"components\":{\"schemas\":{");
    let unpacked = texts::unpack();
    let (texts, enums) = (Texts::over(&unpacked), Enums::read());
    components.write(&mut |name, schema, first| {
        if let Value::Object(schema) = schema {
            enums.put(name, schema);
            texts.describe(name, schema);
        }
        out.entry(name, schema, first);
    });
    out.text("}}}");
    Some(out.0.into())
}

/// The v2 document of everything served, as JSON.
pub(crate) fn v2_json(resources: &[ServedResource<'_>], more: &More) -> Bytes {
    let mut out = Writer(b"{\"swagger\":\"2.0\",\"info\":".to_vec());
    out.json(&info());
    out.text(",\"paths\":{");
    let mut components = Components::new(Dialect::V2);
    write_paths(&mut out, resources, Dialect::V2, &mut components);
    more.paths.iter().for_each(|(path, item)| out.another(path, item));
    out.text("},\"definitions\":{");
    // What both have is alike: Kubernetes' own types.
    let mut own: BTreeSet<String> = BTreeSet::new();
    components.write(&mut |name, schema, first| {
        own.insert(name.to_owned());
        out.entry(name, schema, first);
    });
    let theirs = more.definitions.iter().filter(|(name, _)| !own.contains(*name));
    theirs.for_each(|(name, definition)| out.another(name, definition));
    out.text("}}");
    out.0.into()
}

/// The v2 document of everything served, as the protobuf of [`V2_PROTOBUF`].
pub(crate) fn v2_protobuf(resources: &[ServedResource<'_>], more: &More) -> Bytes {
    let mut components = Components::new(Dialect::V2);
    let mut paths = Vec::new();
    for served in resources {
        for (path, item) in paths::items(*served, Dialect::V2, &mut components) {
            proto::path(&mut paths, &path, &item);
        }
    }
    let mut definitions = Vec::new();
    // One at a time: parsed, each takes many times what it was sent as.
    let parsed = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
    more.paths.iter().for_each(|(path, item)| proto::path(&mut paths, path, &parsed(item)));
    let mut own: BTreeSet<String> = BTreeSet::new();
    components.write(&mut |name, schema, _| {
        own.insert(name.to_owned());
        proto::definition(&mut definitions, name, schema);
    });
    let theirs = more.definitions.iter().filter(|(name, _)| !own.contains(*name));
    theirs.for_each(|(name, definition)| proto::definition(&mut definitions, name, &parsed(definition)));
    proto::document(&info(), &paths, &definitions)
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": KUBERNETES_VERSION})
}

fn write_paths<'a>(
    out: &mut Writer,
    resources: &[ServedResource<'a>],
    dialect: Dialect,
    components: &mut Components<'a>,
) {
    // Two versions of a group never share a path, but a path must not be written twice.
    let (mut seen, mut first) = (BTreeSet::new(), true);
    for served in resources {
        for (path, item) in paths::items(*served, dialect, components) {
            if seen.insert(path.clone()) {
                out.entry(&path, &item, first);
                first = false;
            }
        }
    }
}

/// JSON written piece by piece.
struct Writer(Vec<u8>);

impl Writer {
    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn json(&mut self, value: &(impl std::fmt::Display + ?Sized)) {
        // Writing to memory does not fail.
        let _ = write!(self.0, "{value}");
    }

    /// A member after others.
    fn another(&mut self, name: &str, value: &(impl std::fmt::Display + ?Sized)) {
        self.text(",");
        self.member(name, value);
    }

    fn entry(&mut self, name: &str, value: &(impl std::fmt::Display + ?Sized), first: bool) {
        if first { self.member(name, value) } else { self.another(name, value) }
    }

    fn member(&mut self, name: &str, value: &(impl std::fmt::Display + ?Sized)) {
        self.json(&Value::String(name.to_owned()));
        self.text(":");
        self.json(value);
    }
}
