//! What an expression may name, and of which type.
//!
//! In: names with their types, and what is known of the lists in them. Out: what an expression is checked against.

use std::collections::BTreeMap;

use crate::lists::Lists;
use crate::types::Type;

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    pub(crate) names: BTreeMap<String, Type>,
    /// Whether what is read may be of any type: the expression was checked before.
    pub(crate) lenient: bool,
    /// What is known of lists that are sets or have keys, by the name of the value that they are in.
    pub(crate) lists: Vec<(String, Lists)>,
}

impl Declarations {
    /// No names.
    pub fn new() -> Self {
        Declarations::default()
    }

    /// For expressions that were checked before, of whose names the types are no longer known.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    /// With what is known of the lists in the value of a name.
    #[must_use]
    pub fn listing(mut self, name: &str, lists: Lists) -> Self {
        if lists != Lists::Plain {
            self.lists.push((name.to_owned(), lists));
        }
        self
    }

    /// With one more name.
    #[must_use]
    pub fn with(mut self, name: &str, ty: Type) -> Self {
        self.names.insert(name.to_owned(), ty);
        self
    }

    /// What admission expressions see: `object`, `oldObject`, `request`, `namespaceObject`, and `authorizer` with
    /// `authorizer.requestResource` (given a value under that whole name). Add `params` and `variables` where a policy has them.
    pub fn admission() -> Self {
        let names = ["object", "oldObject"];
        let names = names.into_iter().map(|name| (name.to_owned(), Type::Dyn));
        let authorizer = ("authorizer".to_owned(), Type::Opaque("kubernetes.authorization.Authorizer"));
        let resource = Type::Opaque("kubernetes.authorization.ResourceCheck");
        let own = [
            ("request".to_owned(), request()),
            ("namespaceObject".to_owned(), namespace()),
            authorizer,
            ("authorizer.requestResource".to_owned(), resource),
        ];
        Declarations { names: names.chain(own).collect(), ..Declarations::default() }
    }
}

fn texts() -> Type {
    Type::Map(Box::new(Type::String), Box::new(Type::String))
}

/// The request that is admitted.
fn request() -> Type {
    let named = |last: &str| {
        let name = if last == "kind" { "GroupVersionKind" } else { "GroupVersionResource" };
        Type::object(
            &format!("kubernetes.{name}"),
            [("group", Type::String), ("version", Type::String), (last, Type::String)],
        )
    };
    let list = Type::List(Box::new(Type::String));
    let user = Type::object(
        "kubernetes.UserInfo",
        [
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", list.clone()),
            ("extra", Type::Map(Box::new(Type::String), Box::new(list))),
        ],
    );
    Type::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", named("kind")),
            ("resource", named("resource")),
            ("subResource", Type::String),
            ("requestKind", named("kind")),
            ("requestResource", named("resource")),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
            ("uid", Type::String),
        ],
    )
}

/// The namespace of what is admitted.
fn namespace() -> Type {
    let metadata = Type::object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", Type::String),
            ("generateName", Type::String),
            ("namespace", Type::String),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", Type::String),
            ("uid", Type::String),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", Type::String),
            ("finalizers", Type::List(Box::new(Type::String))),
        ],
    );
    let spec = Type::object("kubernetes.NamespaceSpec", [("finalizers", Type::List(Box::new(Type::String)))]);
    let status = Type::object("kubernetes.NamespaceStatus", [("phase", Type::String)]);
    Type::object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}
