//! Checking an expression before it runs: every name is declared, every field is there, operators fit their operands.
//!
//! In: the tree, the source it was read from, what is declared. Out: the type it yields and, in cel-go's words, what is wrong.
//! Where a type is not known (`dyn`) everything fits; the check refuses only what must fail.

use std::collections::{BTreeMap, BTreeSet};

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr};

use crate::check_functions as functions;
use crate::types::{Declarations, Type};

pub(crate) const NAMESPACES: [&str; 9] =
    ["sets", "optional", "strings", "base64", "lists", "ip", "format", "math", "jsonpatch"];

pub(crate) struct Checker<'a> {
    source: &'a str,
    declared: &'a Declarations,
    scopes: Vec<BTreeMap<String, Type>>,
    pub(crate) errors: Vec<String>,
    pub(crate) used: BTreeSet<String>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(source: &'a str, declared: &'a Declarations) -> Self {
        Checker { source, declared, scopes: Vec::new(), errors: Vec::new(), used: BTreeSet::new() }
    }

    /// Says what is wrong, and where: the first place in the source where `near` stands.
    fn refuse(&mut self, near: &str, message: &str) -> Type {
        self.refuse_at(self.source.find(near).unwrap_or(0), message)
    }

    fn refuse_at(&mut self, at: usize, message: &str) -> Type {
        let line = self.source[..at].matches('\n').count();
        let text = self.source.lines().nth(line).unwrap_or("");
        let start = self.source[..at].rfind('\n').map_or(0, |end| end + 1);
        let column = self.source[start..at].chars().count();
        let dots = ".".repeat(column);
        let error = format!("ERROR: <input>:{}:{}: {message}\n | {text}\n | {dots}^", line + 1, column + 1);
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
        Type::Dyn
    }

    pub(crate) fn infer(&mut self, expr: &IdedExpr) -> Type {
        match &expr.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let types: Vec<Type> = list.elements.iter().map(|element| self.infer(element)).collect();
                Type::List(Box::new(joined(types)))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push(self.infer(&entry.key));
                        values.push(self.infer(&entry.value));
                    }
                }
                Type::Map(Box::new(joined(keys)), Box::new(joined(values)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Type::Dyn,
        }
    }

    fn ident(&mut self, name: &str) -> Type {
        if let Some(ty) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return ty.clone();
        }
        if let Some(ty) = self.declared.names.get(name) {
            self.used.insert(name.to_owned());
            return ty.clone();
        }
        if ["int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type", "type"]
            .contains(&name)
        {
            return Type::Dyn;
        }
        self.refuse(name, &format!("undeclared reference to '{name}' (in container '')"))
    }

    fn select(&mut self, select: &SelectExpr) -> Type {
        let mut operand = self.infer(&select.operand);
        let optional = matches!(operand, Type::Optional(_));
        if let Type::Optional(inner) = operand {
            operand = *inner;
        }
        let field = match &operand {
            Type::Object(object) => match object.fields.get(&select.field) {
                Some(ty) => ty.clone(),
                None => {
                    let near = format!(".{}", select.field);
                    let message = format!("undefined field '{}'", select.field);
                    return self.refuse(&near, &message);
                }
            },
            Type::Map(_, value) => (**value).clone(),
            Type::Dyn => Type::Dyn,
            // `authorizer.requestResource` is a name of its own.
            Type::Opaque(name) if name.ends_with("Authorizer") => operand.clone(),
            other => {
                let near = format!(".{}", select.field);
                let message = format!("type '{other}' does not support field selection");
                return self.refuse(&near, &message);
            }
        };
        match (select.test, optional) {
            (true, _) => Type::Bool,
            (false, true) => Type::Optional(Box::new(field)),
            (false, false) => field,
        }
    }

    fn call(&mut self, call: &CallExpr) -> Type {
        if let Some(target) = &call.target
            && let Expr::Ident(namespace) = &target.expr
            && NAMESPACES.contains(&namespace.as_str())
            && !self.scopes.iter().any(|scope| scope.contains_key(namespace))
        {
            let args: Vec<Type> = call.args.iter().map(|arg| self.infer(arg)).collect();
            return match functions::qualified(namespace, &call.func_name, &args) {
                Some(ty) => ty,
                None => self.unknown(&call.func_name),
            };
        }
        let target = call.target.as_ref().map(|target| self.infer(target));
        let args: Vec<Type> = call.args.iter().map(|arg| self.infer(arg)).collect();
        let found = match &target {
            Some(target) => functions::member(&call.func_name, target, &args),
            None => match self.operator(call, &args) {
                Some(ty) => Some(ty),
                None => functions::global(&call.func_name, &args),
            },
        };
        found.unwrap_or_else(|| self.unknown(&call.func_name))
    }

    fn unknown(&mut self, name: &str) -> Type {
        let near = format!("{name}(");
        let message = format!("undeclared reference to '{name}' (in container '')");
        self.refuse_at(self.source.find(&near).map_or(0, |at| at + name.len()), &message)
    }

    /// A message literal: there are no message types.
    pub(crate) fn no_message(&mut self, name: &str) {
        let at = self.source.find(&format!("{name}{{")).map_or(0, |at| at + name.len());
        self.refuse_at(at, &format!("undeclared reference to '{name}' (in container '')"));
    }

    /// The type of an operator's result; `None` for what is no operator.
    fn operator(&mut self, call: &CallExpr, args: &[Type]) -> Option<Type> {
        let name = call.func_name.as_str();
        let fits = |wanted: &Type| args.iter().all(|arg| fits(arg, wanted));
        let ty = match (name, args) {
            (op::LOGICAL_AND | op::LOGICAL_OR, [_, _]) if fits(&Type::Bool) => Type::Bool,
            (op::LOGICAL_NOT, [_]) if fits(&Type::Bool) => Type::Bool,
            (op::NOT_STRICTLY_FALSE, _) => Type::Bool,
            (op::NEGATE, [one]) if matches!(one, Type::Int | Type::Double | Type::Dyn) => one.clone(),
            (op::EQUALS | op::NOT_EQUALS, [left, right]) if alike(left, right) => Type::Bool,
            (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [left, right])
                if comparable(left, right) =>
            {
                Type::Bool
            }
            (op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO, [left, right]) => {
                match arithmetic(name, left, right) {
                    Some(ty) => ty,
                    None => self.no_overload(name, args),
                }
            }
            (op::IN, [item, container]) if contains(item, container) => Type::Bool,
            (op::INDEX | op::OPT_INDEX, [container, index]) => {
                let element = match container {
                    Type::List(element) if fits_one(index, &Type::Int) => Some((**element).clone()),
                    Type::Map(key, value) if fits_one(index, key) => Some((**value).clone()),
                    Type::Object(_) | Type::Dyn | Type::Optional(_) => Some(Type::Dyn),
                    _ => None,
                };
                match element {
                    Some(element) if name == op::OPT_INDEX => Type::Optional(Box::new(element)),
                    Some(element) => element,
                    None => self.no_overload(name, args),
                }
            }
            (op::OPT_SELECT, [container, _]) => {
                Type::Optional(Box::new(self.optional_field(call, container)))
            }
            (op::CONDITIONAL, [condition, yes, no]) if fits_one(condition, &Type::Bool) => {
                if yes == no {
                    yes.clone()
                } else if alike(yes, no) {
                    Type::Dyn
                } else {
                    self.no_overload(name, args)
                }
            }
            (name, _) if !name.contains('_') && name != op::IN => return None,
            (name, args) => self.no_overload(name, args),
        };
        Some(ty)
    }

    fn optional_field(&mut self, call: &CallExpr, container: &Type) -> Type {
        let Some(Expr::Literal(LiteralValue::String(field))) = call.args.get(1).map(|arg| &arg.expr) else {
            return Type::Dyn;
        };
        let field = field.inner().to_owned();
        let container = match container {
            Type::Optional(inner) => inner,
            other => other,
        };
        match container {
            Type::Object(object) => match object.fields.get(&field) {
                Some(ty) => ty.clone(),
                None => self.refuse(&field, &format!("undefined field '{field}'")),
            },
            Type::Map(_, value) => (**value).clone(),
            _ => Type::Dyn,
        }
    }

    fn no_overload(&mut self, name: &str, args: &[Type]) -> Type {
        let types: Vec<String> = args.iter().map(ToString::to_string).collect();
        let near = match name {
            op::INDEX => "[",
            op::CONDITIONAL => "?",
            op::IN => " in ",
            other => other.trim_matches('_'),
        };
        let message = format!("found no matching overload for '{name}' applied to '({})'", types.join(", "));
        self.refuse(near, &message)
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let range = self.infer(&comprehension.iter_range);
        let item = match &range {
            Type::List(element) => (**element).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Object(_) | Type::Dyn => Type::Dyn,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.refuse("", &message)
            }
        };
        if comprehension.iter_var2.is_some() {
            self.refuse("", "macros with two variables are not supported");
        }
        let mut accumulated = self.infer(&comprehension.accu_init);
        self.scopes.push(BTreeMap::from([
            (comprehension.iter_var.clone(), item),
            (comprehension.accu_var.clone(), Type::Dyn),
        ]));
        self.infer(&comprehension.loop_cond);
        let step = self.infer(&comprehension.loop_step);
        let told = match (&accumulated, &step) {
            (Type::List(element), Type::List(_)) => **element == Type::Dyn,
            (Type::Map(_, value), Type::Map(..)) => **value == Type::Dyn,
            _ => false,
        };
        if told {
            accumulated = step;
        }
        self.scopes.pop();
        self.scopes.push(BTreeMap::from([(comprehension.accu_var.clone(), accumulated)]));
        let result = self.infer(&comprehension.result);
        self.scopes.pop();
        result
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// The one type of several, or any.
fn joined(types: Vec<Type>) -> Type {
    let mut types = types.into_iter();
    let Some(first) = types.next() else { return Type::Dyn };
    if types.all(|ty| ty == first) { first } else { Type::Dyn }
}

fn fits_one(ty: &Type, wanted: &Type) -> bool {
    *ty == Type::Dyn || *wanted == Type::Dyn || ty == wanted
}

fn fits(ty: &Type, wanted: &Type) -> bool {
    fits_one(ty, wanted)
}

/// Whether two types may be one: equality asks for that.
fn alike(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn, _) | (_, Type::Dyn) => true,
        (Type::Null, other) | (other, Type::Null) => {
            // Scalars of a schema may be nullable, which their type does not tell.
            !matches!(other, Type::List(_))
        }
        (Type::List(left), Type::List(right)) => alike(left, right),
        (Type::Map(a, b), Type::Map(c, d)) => alike(a, c) && alike(b, d),
        (Type::Map(..), Type::Object(_)) | (Type::Object(_), Type::Map(..)) => true,
        (Type::Object(_), Type::Object(_)) => true,
        (Type::Optional(left), Type::Optional(right)) => alike(left, right),
        (left, right) => left == right,
    }
}

fn comparable(left: &Type, right: &Type) -> bool {
    let number = |ty: &Type| matches!(ty, Type::Int | Type::Uint | Type::Double);
    match (left, right) {
        (Type::Dyn, _) | (_, Type::Dyn) => true,
        (left, right) if number(left) && number(right) => true,
        (Type::String, Type::String)
        | (Type::Bool, Type::Bool)
        | (Type::Bytes, Type::Bytes)
        | (Type::Timestamp, Type::Timestamp)
        | (Type::Duration, Type::Duration) => true,
        _ => false,
    }
}

fn arithmetic(name: &str, left: &Type, right: &Type) -> Option<Type> {
    let plus = name == op::ADD;
    let plus_or_minus = plus || name == op::SUBSTRACT;
    Some(match (left, right) {
        (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
        (Type::Int, Type::Int) => Type::Int,
        (Type::Uint, Type::Uint) => Type::Uint,
        (Type::Double, Type::Double) if name != op::MODULO => Type::Double,
        (Type::String, Type::String) if plus => Type::String,
        (Type::Bytes, Type::Bytes) if plus => Type::Bytes,
        (Type::List(one), Type::List(other)) if plus => {
            Type::List(if one == other { one.clone() } else { Box::new(Type::Dyn) })
        }
        (Type::Duration, Type::Duration) if plus_or_minus => Type::Duration,
        (Type::Timestamp, Type::Duration) if plus_or_minus => Type::Timestamp,
        (Type::Duration, Type::Timestamp) if plus => Type::Timestamp,
        (Type::Timestamp, Type::Timestamp) if name == op::SUBSTRACT => Type::Duration,
        _ => return None,
    })
}

fn contains(item: &Type, container: &Type) -> bool {
    match container {
        Type::List(element) => alike(item, element),
        Type::Map(key, _) => alike(item, key),
        Type::Dyn | Type::Object(_) => true,
        _ => false,
    }
}
