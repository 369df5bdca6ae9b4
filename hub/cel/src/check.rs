//! Checking an expression before it runs: every name is declared, every field is there, arguments fit their functions.
//!
//! In: the tree with its places, the source, what is declared. Out: the type it yields and, in cel-go's words and order, what is
//! wrong. Types are inferred as cel-go does: a list without elements is open until something is put into it.

mod literals;
mod report;
pub(crate) mod signatures;
mod unify;

use std::collections::{BTreeMap, BTreeSet};

use self::signatures::CallStyle;
use crate::compiling::Compiling;
use crate::declarations::Declarations;
use crate::syntax::read::named_chain;
use crate::syntax::{GATHERED, Kind, Loop, Node};
use crate::types::Type;
pub(crate) use report::LONGEST_MESSAGE;
use report::Report;
use unify::Bindings;

/// Prefixes of functions that are no values.
pub(crate) const NAMESPACES: [&str; 9] =
    ["sets", "optional", "strings", "base64", "lists", "ip", "format", "math", "jsonpatch"];

pub(crate) struct Checker<'a> {
    declared: &'a Declarations,
    scopes: Vec<BTreeMap<String, Type>>,
    types: Bindings,
    report: Report<'a>,
    /// Elements of literals that must be of one type: the first's, a further one's, its place, and the
    /// list, of which one is told.
    beside: Vec<(Type, Type, usize, Option<usize>)>,
    /// How many calls around format texts: what they are given may be of many types.
    formats: usize,
    pub(crate) used: BTreeSet<String>,
    compiling: &'a Compiling,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(source: &'a str, declared: &'a Declarations, compiling: &'a Compiling) -> Self {
        Checker {
            declared,
            scopes: Vec::new(),
            types: Bindings::default(),
            report: Report::new(source),
            beside: Vec::new(),
            formats: 0,
            used: BTreeSet::new(),
            compiling,
        }
    }

    /// The type that the expression yields, or what is wrong with it.
    pub(crate) fn check(&mut self, node: &Node) -> Result<Type, String> {
        let ty = self.infer(node);
        if self.report.is_empty() {
            literals::check(node, self.compiling, &mut self.report);
            let mut told = BTreeSet::new();
            for (first, next, at, list) in std::mem::take(&mut self.beside) {
                let (first, next) = (self.types.known(&first, true), self.types.known(&next, true));
                if first != next && list.is_none_or(|list| told.insert(list)) {
                    self.mismatch(at, &first, &next);
                }
            }
        }
        match self.report.text() {
            None => Ok(self.types.known(&ty, true)),
            Some(wrong) => Err(wrong),
        }
    }

    fn refuse(&mut self, at: usize, message: &str) -> Type {
        self.report.add(at, message.to_owned());
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.refuse(at, &format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, at: usize, wanted: &Type, found: &Type) -> Type {
        let message = format!("expected type '{}' but found '{}'", wanted.told(), found.told());
        self.refuse(at, &message)
    }

    fn infer(&mut self, node: &Node) -> Type {
        match &node.kind {
            Kind::Literal(ty) => ty.clone(),
            Kind::Text(_) => Type::String,
            Kind::Ident(name) => match self.named(name) {
                Some(ty) => ty,
                None => self.undeclared(node.at, name),
            },
            Kind::Select { operand, field, test } => self.select(node, operand, field, *test),
            Kind::Call { target, name, args } => self.call(node.at, target.as_deref(), name, args),
            Kind::Logic(parts) => self.logic(parts),
            Kind::List(elements) => self.list(node.at, elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(name) => self.undeclared(node.at, name),
            Kind::Wrong(why) => self.refuse(node.at, why),
            Kind::Loop(of) => self.looped(of),
            Kind::Mapped { target, name, body, flat } => self.mapped(node.at, target, name, body, *flat),
        }
    }

    fn named(&mut self, name: &str) -> Option<Type> {
        if let Some(ty) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return Some(ty.clone());
        }
        if let Some(ty) = self.declared.names.get(name) {
            self.used.insert(name.to_owned());
            return Some(ty.clone());
        }
        let open = || Box::new(Type::Dyn);
        let of = match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "int" => Type::Int,
            "list" => Type::List(open()),
            "map" => Type::Map(open(), open()),
            "null_type" => Type::Null,
            "optional_type" => Type::Optional(open()),
            "string" => Type::String,
            "type" => Type::TypeOf(open()),
            "uint" => Type::Uint,
            other => Type::Opaque(signatures::OPAQUE.into_iter().find(|known| *known == other)?),
        };
        Some(Type::TypeOf(Box::new(of)))
    }

    fn select(&mut self, node: &Node, operand: &Node, field: &str, test: bool) -> Type {
        if !test && let Some(ty) = named_chain(node).and_then(|name| self.named(&name)) {
            return ty;
        }
        let ty = self.field(node.at, operand, field, false);
        if test { Type::Bool } else { ty }
    }

    /// The type of a field of what the operand yields.
    fn field(&mut self, at: usize, operand: &Node, field: &str, optional: bool) -> Type {
        let operand = self.infer(operand);
        let operand = self.types.known(&operand, false);
        let (operand, within) = match operand {
            Type::Optional(inner) => (*inner, true),
            other => (other, false),
        };
        let ty = match &operand {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(ty) => ty.clone(),
                None => self.refuse(at, &format!("undefined field '{field}'")),
            },
            Type::Opaque(name) if !name.starts_with("net.") => {
                self.refuse(at, &format!("unexpected failed resolution of '{name}'"))
            }
            Type::Var(_) => {
                self.types.unify(&Type::Dyn, &operand);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let message = format!("type '{}' does not support field selection", other.told());
                self.refuse(at, &message);
                Type::Dyn
            }
        };
        let ty = self.types.known(&ty, false);
        if within || optional { Type::Optional(Box::new(ty)) } else { ty }
    }

    fn call(&mut self, at: usize, target: Option<&Node>, name: &str, args: &[Node]) -> Type {
        if let ("_?._", [operand, field]) = (name, args)
            && let Kind::Text(field) = &field.kind
        {
            return self.field(at, operand, field, true);
        }
        self.formats += usize::from(name == "format");
        let mut given: Vec<Type> = args.iter().map(|arg| self.infer(arg)).collect();
        self.formats -= usize::from(name == "format");
        let Some(target) = target else { return self.resolve(at, name, CallStyle::Function, &given) };
        if let Some(prefix) = named_chain(target) {
            let qualified = format!("{prefix}.{name}");
            if signatures::overloads_of(&qualified).is_some() {
                return self.resolve(at, &qualified, CallStyle::Function, &given);
            }
        }
        given.insert(0, self.infer(target));
        self.resolve(at, name, CallStyle::Member, &given)
    }

    /// What a function yields for these arguments; several ways to call it that yield several types yield any.
    fn resolve(&mut self, at: usize, name: &str, style: CallStyle, given: &[Type]) -> Type {
        let Some(overloads) = signatures::overloads_of(name) else { return self.undeclared(at, name) };
        let mut yields: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.style == style) {
            if overload.args.len() != given.len() {
                continue;
            }
            let open: Vec<Type> = (0..overload.open).map(|_| self.types.open()).collect();
            let wanted: Vec<Type> = overload.args.iter().map(|arg| arg.with(&open)).collect();
            // What is given may be narrower than what is wanted, and the other way round.
            if !self.types.all_fit(given.iter().zip(&wanted)) {
                continue;
            }
            let found = self.types.known(&overload.yields.with(&open), false);
            yields = Some(match yields {
                None => found,
                Some(before) if before == Type::Dyn || before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        yields.unwrap_or_else(|| self.no_overload(at, name, style, given))
    }

    fn no_overload(&mut self, at: usize, name: &str, style: CallStyle, given: &[Type]) -> Type {
        let told: Vec<String> = given.iter().map(|ty| self.types.known(ty, true).told()).collect();
        let shown = match told.split_first() {
            Some((target, rest)) if style == CallStyle::Member => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", told.join(", ")),
        };
        self.refuse(at, &format!("found no matching overload for '{name}' applied to '{shown}'"))
    }

    fn logic(&mut self, parts: &[Node]) -> Type {
        let mut ty = Type::Bool;
        for part in parts {
            let found = self.infer(part);
            if !self.types.unify(&found, &Type::Bool) {
                ty = self.mismatch(part.at, &Type::Bool, &found);
            }
        }
        ty
    }

    fn list(&mut self, at: usize, elements: &[(Node, bool)]) -> Type {
        let (mut all, mut first): (Option<Type>, Option<Type>) = (None, None);
        for (node, optional) in elements {
            let ty = self.infer(node);
            let ty = self.element(node.at, ty, *optional);
            self.compared(&mut first, &ty, node.at, Some(at));
            all = Some(self.joined(all, ty));
        }
        Type::List(Box::new(all.unwrap_or_else(|| self.types.open())))
    }

    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Type {
        let (mut keys, mut values) = (None, None);
        let (mut first_key, mut first_value) = (None, None);
        for (key, value, optional) in entries {
            let ty = self.infer(key);
            self.compared(&mut first_key, &ty, key.at, None);
            keys = Some(self.joined(keys, ty));
            let ty = self.infer(value);
            let ty = self.element(value.at, ty, *optional);
            self.compared(&mut first_value, &ty, value.at, None);
            values = Some(self.joined(values, ty));
        }
        let key = keys.unwrap_or_else(|| self.types.open());
        Type::Map(Box::new(key), Box::new(values.unwrap_or_else(|| self.types.open())))
    }

    /// Keeps an element's type to be compared with the first one's when all types are known.
    fn compared(&mut self, first: &mut Option<Type>, ty: &Type, at: usize, list: Option<usize>) {
        match first {
            None => *first = Some(ty.clone()),
            Some(first) if self.formats == 0 => {
                self.beside.push((first.clone(), ty.clone(), at, list));
            }
            Some(_) => {}
        }
    }

    /// The type of what an element holds, which is an optional where it may be missing.
    fn element(&mut self, at: usize, ty: Type, optional: bool) -> Type {
        match ty {
            Type::Optional(inner) if optional => *inner,
            Type::Dyn => Type::Dyn,
            other if optional => {
                self.mismatch(at, &Type::Optional(Box::new(other.clone())), &other);
                other
            }
            other => other,
        }
    }

    /// One type for what stands beside each other: any, where they differ.
    fn joined(&mut self, before: Option<Type>, next: Type) -> Type {
        match before {
            None => next,
            Some(before) if self.types.unify(&before, &next) => self.types.more_general(&before, &next),
            Some(_) => Type::Dyn,
        }
    }

    fn looped(&mut self, of: &Loop) -> Type {
        let range = self.infer(&of.range);
        let gathered = self.infer(&of.start);
        let range = self.types.known(&range, false);
        let two = of.names.len() == 2;
        let types = match &range {
            Type::List(element) if two => vec![Type::Int, (**element).clone()],
            Type::List(element) => vec![(**element).clone()],
            Type::Map(key, value) => vec![(**key).clone(), (**value).clone()],
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.types.unify(&Type::Dyn, &range);
                vec![Type::Dyn, Type::Dyn]
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.told()
                );
                self.refuse(of.range.at, &message);
                vec![Type::Error, Type::Error]
            }
        };
        self.scopes.push(BTreeMap::from([(GATHERED.to_owned(), gathered.clone())]));
        self.scopes.push(of.names.iter().cloned().zip(types).collect());
        self.wants(&of.condition, &Type::Bool);
        self.wants(&of.step, &gathered);
        self.scopes.pop();
        let result = self.infer(&of.result);
        self.scopes.pop();
        self.types.known(&result, false)
    }

    fn wants(&mut self, node: &Node, wanted: &Type) {
        let found = self.infer(node);
        if !self.types.unify(wanted, &found) {
            self.mismatch(node.at, wanted, &found);
        }
    }

    /// What stands for `target.hasValue() ? optional.of(body) : optional.none()`, with the value under a name in the body.
    fn mapped(&mut self, at: usize, target: &Node, name: &str, body: &Node, flat: bool) -> Type {
        let before = self.report.len();
        let target = self.infer(target);
        // It stands there twice, and is told of twice.
        self.report.repeat(before);
        let condition = self.resolve(at, "hasValue", CallStyle::Member, std::slice::from_ref(&target));
        let value = self.resolve(at, "value", CallStyle::Member, &[target]);
        self.scopes.push(BTreeMap::from([(name.to_owned(), value)]));
        let body = self.infer(body);
        self.scopes.pop();
        let yes = if flat { body } else { self.resolve(at, "optional.of", CallStyle::Function, &[body]) };
        let no = self.resolve(at, "optional.none", CallStyle::Function, &[]);
        self.resolve(at, "_?_:_", CallStyle::Function, &[condition, yes, no])
    }
}
