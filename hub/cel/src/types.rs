//! The types of values, as far as they are known before anything runs: named by hand, or read off a schema through [`Shape`].
//!
//! In: a schema. Out: a [`Type`], as the checker compares it and as messages name it. What is deeper than 32 levels is not known. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::escape;

/// How a string of a schema is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As a text.
    Text,
    /// RFC 3339 with a time.
    DateTime,
    /// A day.
    Date,
    /// A Go duration.
    Duration,
    /// Base64.
    Byte,
}

/// How the elements of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elements {
    /// By their places.
    Ordered,
    /// By what they are: a set.
    Set,
    /// By these fields.
    Keyed(Vec<String>),
}

/// A schema, as far as CEL looks at it. Cheap to copy: a cursor.
pub trait Shape: Copy {
    /// The JSON type: `object`, `array`, `string`, `integer`, `number`, `boolean`; empty for anything.
    fn json_type(self) -> &'static str;
    /// How strings are read.
    fn format(self) -> Format;
    /// The named property.
    fn property(self, name: &str) -> Option<Self>;
    /// All named properties.
    fn properties(self) -> Vec<(String, Self)>;
    /// What a map holds, where this is a map.
    fn additional(self) -> Option<Self>;
    /// What a list holds.
    fn items(self) -> Option<Self>;
    /// How the elements of a list are told apart.
    fn elements(self) -> Elements {
        Elements::Ordered
    }
    /// Whether fields that are not named may be there; they cannot be reached.
    fn preserves_unknown(self) -> bool;
    /// Whether a whole object stands here, with its type and metadata.
    fn embedded(self) -> bool;
}

/// An object type: its fields by the names that expressions use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Name in messages.
    pub name: String,
    /// Fields by their (escaped) names.
    pub fields: BTreeMap<String, Type>,
}

/// The type of a value, as far as it is known before anything runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Not known: fits everywhere.
    Dyn,
    /// `null`.
    Null,
    /// A truth value.
    Bool,
    /// A signed whole number.
    Int,
    /// An unsigned whole number.
    Uint,
    /// A floating-point number.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list.
    List(Box<Type>),
    /// A map with text keys (or keys of any type, for literals).
    Map(Box<Type>, Box<Type>),
    /// An object whose fields are known.
    Object(Arc<Object>),
    /// A value that may be missing.
    Optional(Box<Type>),
    /// One of the library's own types, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// The type of a type.
    TypeOf(Box<Type>),
    /// Of something that is wrong: fits everywhere.
    Error,
    /// Not known yet; known by its number while an expression is checked.
    Var(usize),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Null => f.write_str("null_type"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("google.protobuf.Duration"),
            Type::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Object(object) => f.write_str(&object.name),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Opaque(name) => f.write_str(name),
            Type::TypeOf(of) => write!(f, "type({of})"),
            Type::Error => f.write_str("!error!"),
            Type::Var(at) => write!(f, "_var{at}"),
        }
    }
}

/// How deep a schema is read; deeper parts are of unknown type.
const DEPTH: usize = 32;

impl Type {
    /// The type of objects with these fields, by its name in messages.
    pub fn object<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
        let fields = fields.into_iter().map(|(field, ty)| (field.to_owned(), ty)).collect();
        Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
    }

    /// What is known of a variable that holds such a value: of objects and of what libraries bring, nothing.
    #[must_use]
    pub fn as_variable(&self) -> Type {
        match self {
            Type::List(element) => Type::List(Box::new(element.as_variable())),
            Type::Map(key, value) => Type::Map(Box::new(key.as_variable()), Box::new(value.as_variable())),
            Type::Object(_) | Type::Optional(_) | Type::Opaque(_) | Type::TypeOf(_) => Type::Dyn,
            other => other.clone(),
        }
    }

    /// The name by which faults of types speak of it.
    pub(crate) fn told(&self) -> String {
        match self {
            Type::Null => "null".to_owned(),
            Type::Duration => "duration".to_owned(),
            Type::Timestamp => "timestamp".to_owned(),
            Type::List(element) => format!("list({})", element.told()),
            Type::Map(key, value) => format!("map({}, {})", key.told(), value.told()),
            Type::Optional(inner) => format!("optional_type({})", inner.told()),
            Type::TypeOf(of) => format!("type({})", of.told()),
            other => other.to_string(),
        }
    }

    /// The type with others in the place of its numbered open ones.
    pub(crate) fn with(&self, open: &[Type]) -> Type {
        let inner = |ty: &Type| Box::new(ty.with(open));
        match self {
            Type::Var(at) => open.get(*at).cloned().unwrap_or(Type::Dyn),
            Type::List(element) => Type::List(inner(element)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            Type::Optional(value) => Type::Optional(inner(value)),
            Type::TypeOf(of) => Type::TypeOf(inner(of)),
            other => other.clone(),
        }
    }

    /// The type of values of a schema, named `name` in messages.
    pub fn of<S: Shape>(shape: S, name: &str) -> Type {
        Type::at(shape, name, DEPTH)
    }

    fn at<S: Shape>(shape: S, name: &str, depth: usize) -> Type {
        if depth == 0 {
            return Type::Dyn;
        }
        let child = |shape: S, part: &str| Type::at(shape, &format!("{name}.{part}"), depth - 1);
        match shape.json_type() {
            "string" => match shape.format() {
                Format::Text => Type::String,
                Format::DateTime | Format::Date => Type::Timestamp,
                Format::Duration => Type::Duration,
                Format::Byte => Type::Bytes,
            },
            "integer" => Type::Int,
            "number" => Type::Double,
            "boolean" => Type::Bool,
            "array" => Type::List(Box::new(shape.items().map_or(Type::Dyn, |items| child(items, "@idx")))),
            "object" => {
                if let Some(values) = shape.additional() {
                    return Type::Map(Box::new(Type::String), Box::new(child(values, "@elem")));
                }
                let properties = shape.properties();
                let mut fields: BTreeMap<String, Type> = properties
                    .into_iter()
                    .filter_map(|(field, shape)| Some((escape(&field)?, child(shape, &field))))
                    .collect();
                if shape.embedded() {
                    fields.entry("apiVersion".into()).or_insert(Type::String);
                    fields.entry("kind".into()).or_insert(Type::String);
                    fields.entry("metadata".into()).or_insert_with(|| Type::metadata(name));
                }
                Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
            }
            _ => Type::Dyn,
        }
    }

    /// What a rule sees of an object's metadata.
    pub fn metadata(name: &str) -> Type {
        let fields = [("name", Type::String), ("generateName", Type::String)];
        let fields = fields.into_iter().map(|(field, ty)| (field.to_owned(), ty)).collect();
        Type::Object(Arc::new(Object { name: format!("{name}.metadata"), fields }))
    }
}
