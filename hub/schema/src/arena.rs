//! The store of compiled schemas: flat nodes, names held once, and beside them what only few nodes have.
//!
//! A node is a value of fixed size; a use of a named type is a copy of that type's node with the use's own default, patch keys and Go facts
//! laid over it, so that walking never follows references.
//!
//! Types alone: `compile` makes an [`Arena`], and `navigate` reads it; it never changes, except that long enumerations and CEL rules are
//! prepared when they are first needed.

use serde_json::Value;
use std::collections::HashSet;
use std::sync::OnceLock;

use super::rule::Rule;

/// The JSON type a node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Anything goes: raw extensions, JSON, `int-or-string`.
    Any,
    /// A struct or a map.
    Object,
    /// A list.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
}

/// What the type alone does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Nothing more.
    None,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A float of 64 bits.
    Double,
    /// A float of 32 bits.
    Float,
    /// Base64 text.
    Byte,
    /// RFC 3339 with seconds (`metav1.Time`), or any RFC 3339 for CRDs.
    DateTime,
    /// RFC 3339 with microseconds (`metav1.MicroTime`).
    MicroTime,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `resource.Quantity`.
    Quantity,
    /// `metav1.FieldsV1`.
    FieldsV1,
    /// Another string format; its name is in the node's extra.
    Other,
}

/// How server-side apply merges a list (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Not said: atomic.
    Unset,
    /// One owner for the whole list.
    Atomic,
    /// Scalars, each once.
    Set,
    /// Objects, each once by its keys.
    Map,
}

/// How server-side apply merges an object (`x-kubernetes-map-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Not said: granular.
    Unset,
    /// Owned field by field.
    Granular,
    /// One owner for the whole object.
    Atomic,
}

/// Flags of a node.
pub(super) mod flag {
    pub const NULLABLE: u16 = 1;
    pub const INT_OR_STRING: u16 = 1 << 1;
    pub const PRESERVE_UNKNOWN: u16 = 1 << 2;
    pub const EMBEDDED: u16 = 1 << 3;
    pub const UNIQUE: u16 = 1 << 4;
    pub const EXCLUSIVE_MIN: u16 = 1 << 5;
    pub const EXCLUSIVE_MAX: u16 = 1 << 6;
    /// A strategic merge of this field merges (`x-kubernetes-patch-strategy: merge`).
    pub const SMP_MERGE: u16 = 1 << 7;
    /// A strategic merge of this field keeps only the keys named (`retainKeys`).
    pub const SMP_RETAIN: u16 = 1 << 8;
    /// A strategic merge of this field replaces it (`replace`), though it is an object.
    pub const SMP_REPLACE: u16 = 1 << 14;
    /// `additionalProperties: true` or a schema.
    pub const OPEN: u16 = 1 << 9;
    /// `additionalProperties: false`.
    pub const CLOSED: u16 = 1 << 10;
    /// Go: `omitempty`.
    pub const GO_OMIT_EMPTY: u16 = 1 << 11;
    /// Go: `omitzero`.
    pub const GO_OMIT_ZERO: u16 = 1 << 12;
    /// Go: held by pointer.
    pub const GO_POINTER: u16 = 1 << 13;
}

/// No node, no name, no extra.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub ty: Type,
    pub format: Format,
    pub list: ListType,
    pub map: MapType,
    pub flags: u16,
    /// How Go holds the field: `s l y m t b n i`, or 0 where nothing is known.
    pub go_kind: u8,
    pub props_len: u32,
    pub props: u32,
    pub additional: u32,
    pub items: u32,
    /// The component name of the type this node is, or is a use of.
    pub type_name: u32,
    pub go_type: u32,
    pub extra: u32,
}

impl Node {
    pub(super) const EMPTY: Node = Node {
        ty: Type::Any,
        format: Format::None,
        list: ListType::Unset,
        map: MapType::Unset,
        flags: 0,
        go_kind: 0,
        props_len: 0,
        props: 0,
        additional: NONE,
        items: NONE,
        type_name: NONE,
        go_type: NONE,
        extra: NONE,
    };
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub name: u32,
    pub node: u32,
    pub required: bool,
}

/// What few nodes have; equal ones are shared.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub default: Option<Value>,
    pub enumeration: Vec<Value>,
    /// The same, where it is long, to be looked up.
    pub enumerated: OnceLock<HashSet<Value>>,
    pub format_name: Option<Box<str>>,
    pub pattern: Option<Box<str>>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub list_keys: Box<[Box<str>]>,
    /// Required names that are no declared properties.
    pub required: Box<[Box<str>]>,
    pub merge_key: Option<Box<str>>,
    pub any_of: Box<[u32]>,
    pub one_of: Box<[u32]>,
    pub all_of: Box<[u32]>,
    pub not: Option<u32>,
    pub validations: Option<Value>,
    pub rules: OnceLock<Box<[Rule]>>,
    pub gvk: Option<Value>,
}

impl Extra {
    /// An enumeration above which values are looked up and not compared one by one.
    const LONG: usize = 16;

    /// Whether the value is one of those enumerated.
    pub(super) fn enumerates(&self, value: &Value) -> bool {
        if self.enumeration.len() <= Self::LONG {
            return self.enumeration.contains(value);
        }
        self.enumerated.get_or_init(|| self.enumeration.iter().cloned().collect()).contains(value)
    }
}

/// Compiled schemas that share names and extras.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pub nodes: Box<[Node]>,
    pub fields: Box<[Field]>,
    pub extras: Box<[Extra]>,
    pub text: Box<str>,
    /// Name `i` is `text[ends[i-1]..ends[i]]`.
    pub ends: Box<[u32]>,
}

impl Arena {
    pub(super) fn name(&self, id: u32) -> &str {
        let end = self.ends[id as usize] as usize;
        let start = if id == 0 { 0 } else { self.ends[id as usize - 1] as usize };
        &self.text[start..end]
    }

    /// Whether any node has a pattern.
    pub(super) fn has_patterns(&self) -> bool {
        self.extras.iter().any(|extra| extra.pattern.is_some())
    }

    /// Whether any node has CEL rules.
    pub(super) fn has_rules(&self) -> bool {
        self.extras.iter().any(|extra| extra.validations.is_some())
    }

    pub(super) fn extra(&self, node: &Node) -> Option<&Extra> {
        (node.extra != NONE).then(|| &self.extras[node.extra as usize])
    }

    /// What the compiled form weighs, in bytes, without allocator overhead.
    pub(super) fn weight(&self) -> usize {
        size_of_val(&*self.nodes)
            + size_of_val(&*self.fields)
            + size_of_val(&*self.extras)
            + self.text.len()
            + size_of_val(&*self.ends)
    }
}
