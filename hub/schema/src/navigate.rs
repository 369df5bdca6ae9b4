//! Walking schemas: a cursor ([`SchemaRef`]) and an owned root ([`Schema`]).
//!
//! In: a compiled [`Schema`], or the shipped schemas. Out: [`SchemaRef`]s, and what the schema says at each place. Reading allocates
//! nothing but for combined schemas; what is not said is `None`, empty or false.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::arena::{Arena, Extra, Field, Format, ListType, MapType, NONE, Node, Type, flag};
use super::rule::Rule;

/// A schema of its own, such as a CRD version's.
#[derive(Clone, Debug)]
pub struct Schema {
    arena: Arc<Arena>,
    root: u32,
}

impl Schema {
    pub(super) fn new(arena: Arena, root: u32) -> Schema {
        Schema { arena: Arc::new(arena), root }
    }

    /// The cursor at the root.
    pub fn root(&self) -> SchemaRef<'_> {
        SchemaRef { arena: &self.arena, id: self.root }
    }
}

/// A place in a schema. Cheap to copy.
#[derive(Clone, Copy)]
pub struct SchemaRef<'a> {
    pub(super) arena: &'a Arena,
    pub(super) id: u32,
}

impl std::fmt::Debug for SchemaRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SchemaRef({:?} {:?})", self.type_name(), self.ty())
    }
}

impl<'a> SchemaRef<'a> {
    pub(super) fn node(self) -> &'a Node {
        &self.arena.nodes[self.id as usize]
    }

    pub(super) fn extra(self) -> Option<&'a Extra> {
        self.arena.extra(self.node())
    }

    fn at(self, id: u32) -> Option<SchemaRef<'a>> {
        (id != NONE).then_some(SchemaRef { arena: self.arena, id })
    }

    pub(super) fn has(self, bit: u16) -> bool {
        self.node().flags & bit != 0
    }

    fn fields(self) -> &'a [Field] {
        let node = self.node();
        &self.arena.fields[node.props as usize..node.props as usize + node.props_len as usize]
    }

    /// The JSON type asked for.
    pub fn ty(self) -> Type {
        self.node().ty
    }

    /// What the type alone does not say.
    pub fn format(self) -> Format {
        self.node().format
    }

    /// The format's name where it is none of [`Format`]'s own.
    pub fn format_name(self) -> Option<&'a str> {
        self.extra()?.format_name.as_deref()
    }

    /// The component name of the named type this is (or is a use of), such as `io.k8s.api.core.v1.Container`.
    pub fn type_name(self) -> Option<&'a str> {
        let id = self.node().type_name;
        (id != NONE).then(|| self.arena.name(id))
    }

    /// Whether this is a struct: it names its properties.
    pub fn is_struct(self) -> bool {
        self.node().props_len > 0
    }

    /// The schema of property `name`.
    pub fn property(self, name: &str) -> Option<SchemaRef<'a>> {
        let fields = self.fields();
        let at = fields.binary_search_by(|field| self.arena.name(field.name).cmp(name)).ok()?;
        self.at(fields[at].node)
    }

    /// Properties in the order of their names: name, schema, whether required.
    pub fn properties(self) -> impl ExactSizeIterator<Item = (&'a str, SchemaRef<'a>, bool)> + use<'a> {
        let arena = self.arena;
        self.fields().iter().map(move |f| (arena.name(f.name), SchemaRef { arena, id: f.node }, f.required))
    }

    /// The schema of values under names that are not properties.
    pub fn additional(self) -> Option<SchemaRef<'a>> {
        self.at(self.node().additional)
    }

    /// The schema at `key` of an object: its property, or what additional properties are.
    pub fn child(self, key: &str) -> Option<SchemaRef<'a>> {
        self.property(key).or_else(|| self.additional())
    }

    /// The schema of list elements.
    pub fn items(self) -> Option<SchemaRef<'a>> {
        self.at(self.node().items)
    }

    /// The schema's default.
    pub fn default(self) -> Option<&'a Value> {
        self.extra()?.default.as_ref()
    }

    /// Allowed values; empty where any is.
    pub fn enumeration(self) -> &'a [Value] {
        self.extra().map_or(&[], |e| &e.enumeration)
    }

    /// The pattern's text.
    pub fn pattern(self) -> Option<&'a str> {
        self.extra()?.pattern.as_deref()
    }

    /// How apply merges this list.
    pub fn list_type(self) -> ListType {
        self.node().list
    }

    /// The keys of a `map` list.
    pub fn list_keys(self) -> &'a [Box<str>] {
        self.extra().map_or(&[], |e| &e.list_keys)
    }

    /// How apply merges this object.
    pub fn map_type(self) -> MapType {
        self.node().map
    }

    /// Strategic merge: lists merge by this key.
    pub fn merge_key(self) -> Option<&'a str> {
        self.extra()?.merge_key.as_deref()
    }

    /// Strategic merge: the field merges (lists), rather than being replaced.
    pub fn merges(self) -> bool {
        self.has(flag::SMP_MERGE)
    }

    /// Strategic merge: `$retainKeys` is understood.
    pub fn retains_keys(self) -> bool {
        self.has(flag::SMP_RETAIN)
    }

    /// Strategic merge: the field is replaced, though it is an object.
    pub fn replaces(self) -> bool {
        self.has(flag::SMP_REPLACE)
    }

    /// Whether null is a value.
    pub fn nullable(self) -> bool {
        self.has(flag::NULLABLE)
    }

    /// Whether both integers and strings are allowed.
    pub fn int_or_string(self) -> bool {
        self.node().format == Format::IntOrString
    }

    /// Whether unknown fields stay (`x-kubernetes-preserve-unknown-fields`, raw extensions, JSON).
    pub fn preserves_unknown(self) -> bool {
        self.has(flag::PRESERVE_UNKNOWN) || (self.ty() == Type::Any && !self.is_struct())
    }

    /// Whether a whole object with apiVersion, kind and metadata is embedded here.
    pub fn embedded_resource(self) -> bool {
        self.has(flag::EMBEDDED)
    }

    /// Whether additional properties of any kind are allowed without a schema.
    pub fn open(self) -> bool {
        self.has(flag::OPEN)
    }

    /// CEL rules, as written.
    pub fn validations(self) -> Option<&'a Value> {
        self.extra()?.validations.as_ref()
    }

    /// CEL rules as written, and where they are kept once they are compiled.
    pub(super) fn rules(self) -> Option<(&'a Value, &'a OnceLock<Box<[Rule]>>)> {
        let extra = self.extra()?;
        Some((extra.validations.as_ref()?, &extra.rules))
    }

    /// Whether this schema, or any that shares its store, has patterns.
    pub fn has_patterns(self) -> bool {
        self.arena.has_patterns()
    }

    /// Whether this schema, or any that shares its store, has CEL rules.
    pub fn has_rules(self) -> bool {
        self.arena.has_rules()
    }

    /// `x-kubernetes-group-version-kind` of a definition.
    pub fn group_version_kinds(self) -> Option<&'a Value> {
        self.extra()?.gvk.as_ref()
    }

    /// The Go type's name, as a decoder's error gives it (`v1.Protocol`); pointers stripped.
    pub fn go_type(self) -> Option<&'a str> {
        let held = self.go_held()?;
        Some(held.split_once('/').map_or(held, |(_, go_type)| go_type))
    }

    /// The structs that Go embeds this field in, and JSON does not show, joined by dots.
    pub fn go_embedded(self) -> Option<&'a str> {
        self.go_held()?.split_once('/').map(|(structs, _)| structs)
    }

    fn go_held(self) -> Option<&'a str> {
        let id = self.node().go_type;
        (id != NONE).then(|| self.arena.name(id))
    }

    /// Numeric and size bounds by their JSON Schema names.
    pub fn bounds(self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let count = |n: Option<u64>| n.map(|n| n as f64);
        let all = self.extra().map_or([None; 9], |e| {
            [
                e.minimum,
                e.maximum,
                e.multiple_of,
                count(e.min_length),
                count(e.max_length),
                count(e.min_items),
                count(e.max_items),
                count(e.min_properties),
                count(e.max_properties),
            ]
        });
        let names = [
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
        ];
        names.into_iter().zip(all).filter_map(|(name, bound)| Some((name, bound?)))
    }

    /// Whether Go holds the field by pointer, so that its zero value is a value.
    pub fn is_pointer(self) -> bool {
        self.has(flag::GO_POINTER)
    }

    pub(super) fn junctors(self) -> Option<Junctors<'a>> {
        let extra = self.extra()?;
        if extra.any_of.is_empty()
            && extra.one_of.is_empty()
            && extra.all_of.is_empty()
            && extra.not.is_none()
        {
            return None;
        }
        let list = |ids: &[u32]| ids.iter().map(|id| SchemaRef { arena: self.arena, id: *id }).collect();
        Some(Junctors {
            any_of: list(&extra.any_of),
            one_of: list(&extra.one_of),
            all_of: list(&extra.all_of),
            not: extra.not.and_then(|id| self.at(id)),
        })
    }
}

/// Schemas that are combined rather than nested.
pub(super) struct Junctors<'a> {
    pub any_of: Vec<SchemaRef<'a>>,
    pub one_of: Vec<SchemaRef<'a>>,
    pub all_of: Vec<SchemaRef<'a>>,
    pub not: Option<SchemaRef<'a>>,
}
