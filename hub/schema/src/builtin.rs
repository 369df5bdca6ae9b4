//! The schemas that ship with the hub: every built-in Go type, Karmada's kinds, and the edge kinds.
//!
//! Read at the first use, once per process. The packed text is unpacked and parsed line by line, so that the peak is
//! one type's JSON and not all of it.
//!
//! In: a group, version and kind, or the name of a type. Out: a cursor into its schema, which lives as long as the process. The first call
//! blocks while the schemas are unpacked and compiled.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use serde_json::Value;

use super::arena::Arena;
use super::compile::{Compiler, SchemaError};
use super::navigate::SchemaRef;

/// The version of Kubernetes whose facts these are, and that the hub says it is: clients choose their behaviour by it.
pub const KUBERNETES_VERSION: &str = include_str!("../data/kubernetes-version").trim_ascii();

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.tsv.zz"));

/// Group, version and kind.
type KindName = (Box<str>, Box<str>, Box<str>);

/// All schemas that ship with the hub.
pub struct Schemas {
    arena: Arena,
    types: BTreeMap<Box<str>, u32>,
    /// In order.
    kinds: Vec<(KindName, u32)>,
}

impl Schemas {
    pub(super) const OBJECT_META: &'static str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

    /// The shipped schemas.
    pub fn builtin() -> &'static Schemas {
        static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
        SCHEMAS
            .get_or_init(|| load(&unpack()).expect("the embedded facts compile, as the crate's tests show"))
    }

    /// The schema of a kind; `group` is empty for the core group.
    pub fn of(&self, group: &str, version: &str, kind: &str) -> Option<SchemaRef<'_>> {
        let wanted = (group, version, kind);
        let at = self.kinds.binary_search_by(|((g, v, k), _)| (&**g, &**v, &**k).cmp(&wanted)).ok()?;
        Some(SchemaRef { arena: &self.arena, id: self.kinds[at].1 })
    }

    /// The schema of a named type, such as `io.k8s.api.core.v1.Container`.
    pub fn named(&self, name: &str) -> Option<SchemaRef<'_>> {
        Some(SchemaRef { arena: &self.arena, id: *self.types.get(name)? })
    }

    /// All kinds: group, version, kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.kinds.iter().map(|((g, v, k), _)| (&**g, &**v, &**k))
    }

    /// The schema of `ObjectMeta`, which every kind has.
    pub fn object_meta(&self) -> SchemaRef<'_> {
        self.named(Self::OBJECT_META).expect("the embedded facts hold ObjectMeta")
    }

    /// A number that changes when the shipped schemas do.
    pub fn fingerprint() -> u32 {
        // The packed form ends with a checksum of the text.
        PACKED.last_chunk().map_or(0, |tail| u32::from_be_bytes(*tail))
    }

    /// What the compiled schemas weigh, in bytes.
    pub fn weight(&self) -> usize {
        let name = |n: &str| n.len() + size_of::<Box<str>>();
        self.arena.weight()
            + self.types.keys().map(|n| name(n) + 4).sum::<usize>()
            + self.kinds.iter().map(|((g, v, k), _)| name(g) + name(v) + name(k) + 4).sum::<usize>()
    }

    /// Defines `ObjectMeta` and what it refers to in another compiler, for schemas of their own.
    pub(super) fn define_object_meta(compiler: &mut Compiler) -> Result<(), SchemaError> {
        const PREFIX: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
        static LINES: OnceLock<Vec<(String, Value)>> = OnceLock::new();
        let lines = LINES.get_or_init(|| {
            let wanted = ["ObjectMeta", "ManagedFieldsEntry", "OwnerReference", "FieldsV1", "Time"];
            lines(&unpack())
                .filter(|(name, _)| name.strip_prefix(PREFIX).is_some_and(|n| wanted.contains(&n)))
                .map(|(name, schema)| (name.to_owned(), schema))
                .collect()
        });
        for (name, schema) in lines {
            compiler.define(name, schema)?;
        }
        Ok(())
    }
}

fn unpack() -> String {
    let mut text = String::with_capacity(512 * 1024);
    flate2::read::ZlibDecoder::new(PACKED)
        .read_to_string(&mut text)
        .expect("the embedded facts unpack, as the crate's tests show");
    text
}

fn lines(text: &str) -> impl Iterator<Item = (&str, Value)> {
    text.lines().filter_map(|line| {
        let (name, schema) = line.split_once('\t')?;
        Some((name, serde_json::from_str(schema).ok()?))
    })
}

fn load(text: &str) -> Result<Schemas, SchemaError> {
    let mut compiler = Compiler::default();
    let mut kinds = BTreeMap::new();
    for (name, schema) in lines(text) {
        let id = compiler.define(name, &schema)?;
        let gvks = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        // Types such as DeleteOptions belong to every group: none of them names a resource.
        for gvk in gvks.filter(|list| list.len() == 1).into_iter().flatten() {
            let part = |key: &str| gvk.get(key).and_then(Value::as_str).unwrap_or_default().into();
            kinds.insert((part("group"), part("version"), part("kind")), id);
        }
    }
    let (arena, types) = compiler.finish()?;
    Ok(Schemas { arena, types, kinds: kinds.into_iter().collect() })
}
