//! The worst that an expression can cost, told from its schema before it ever runs: as cel-go and kube-apiserver estimate it, so that
//! what is refused there is refused here.
//!
//! In: an expression, what it may name, and how large what it names can be ([`Extent`]). Out: units of cost, about a field access
//! each. Nothing here bounds what an expression does when it runs: that is the evaluator's.

mod call_costs;
mod result_types;

use std::collections::BTreeMap;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr};

use self::call_costs::call_cost;
use crate::declarations::Declarations;
use crate::types::Type;

/// How large values of a schema can be.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// Bytes of the smallest value, as JSON.
    pub smallest: u64,
    /// Letters of a text, elements of a list, entries of a map, at most.
    pub most: u64,
    /// What it is made of.
    pub inner: Inner,
}

/// What a value is made of.
#[derive(Clone, Debug, Default)]
pub enum Inner {
    /// Nothing that an expression could reach into.
    #[default]
    Plain,
    /// Elements.
    List(Box<Extent>),
    /// Values by text keys.
    Map(Box<Extent>),
    /// Fields by the names that expressions use.
    Object(BTreeMap<String, Extent>),
}

impl Extent {
    /// A value without parts.
    pub fn plain(smallest: u64, most: u64) -> Extent {
        Extent { smallest, most, inner: Inner::Plain }
    }
}

/// Keys of maps: of no known length, which counts as none.
static KEYS: Extent = Extent { smallest: 2, most: 0, inner: Inner::Plain };

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;

/// At least and at most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    min: u64,
    max: u64,
}

impl Range {
    const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    fn exactly(n: u64) -> Range {
        Range { min: n, max: n }
    }

    fn plus(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn or(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// The cost of walking over it all.
    fn at(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// Rounded up, never beyond what fits.
fn scaled(count: u64, factor: f64) -> u64 {
    let product = (count as f64 * factor).ceil();
    if product >= u64::MAX as f64 { u64::MAX } else { product as u64 }
}

/// Where in the schema a value stands.
#[derive(Clone, Copy, Debug)]
enum At<'e> {
    /// It was made on the way.
    Nowhere,
    /// In the schema, which does not tell more.
    Lost,
    /// There.
    Node(&'e Extent),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    list: bool,
    key: Range,
    value: Range,
}

#[derive(Clone, Debug)]
struct Guess<'e> {
    cost: u64,
    size: Option<Range>,
    ty: Type,
    at: At<'e>,
    entry: Option<Entry>,
}

impl Guess<'_> {
    fn size(&self) -> Range {
        self.size.unwrap_or(Range::UNKNOWN)
    }
}

#[derive(Debug)]
struct Local<'e> {
    name: String,
    value: Guess<'e>,
}

/// The most that `expr` costs, where `self` and whatever else is declared is as large as `root`.
pub(crate) fn worst(expr: &IdedExpr, declared: &Declarations, root: &Extent) -> u64 {
    Coster { declared, root, locals: Vec::new() }.of(expr).cost
}

struct Coster<'e> {
    declared: &'e Declarations,
    root: &'e Extent,
    locals: Vec<Local<'e>>,
}

impl<'e> Coster<'e> {
    fn of(&mut self, expr: &IdedExpr) -> Guess<'e> {
        match &expr.expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let parts: Vec<Guess<'e>> = list.elements.iter().map(|element| self.of(element)).collect();
                let ty = parts.first().map_or(Type::Dyn, |part| part.ty.clone());
                let entry = Entry {
                    list: true,
                    key: Range::exactly(1),
                    value: united(parts.iter().map(Guess::size)),
                };
                let size = Some(Range::exactly(parts.len() as u64));
                let cost = sum(parts.iter().map(|part| part.cost)).saturating_add(10);
                Guess { cost, size, ty: Type::List(Box::new(ty)), at: At::Nowhere, entry: Some(entry) }
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push(self.of(&entry.key));
                        values.push(self.of(&entry.value));
                    }
                }
                let cost = sum(keys.iter().chain(&values).map(|part| part.cost)).saturating_add(30);
                let (key, value) =
                    (united(keys.iter().map(Guess::size)), united(values.iter().map(Guess::size)));
                let size = Some(Range::exactly(keys.len() as u64));
                let one = |all: &[Guess<'e>]| Box::new(all.first().map_or(Type::Dyn, |part| part.ty.clone()));
                let ty = Type::Map(one(&keys), one(&values));
                Guess { cost, size, ty, at: At::Nowhere, entry: Some(Entry { list: false, key, value }) }
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => self.made(0, None, Type::Dyn),
        }
    }

    /// A value that was made on the way; one whose type is of one size has that.
    fn made(&self, cost: u64, size: Option<Range>, ty: Type) -> Guess<'e> {
        let size = size.or(is_scalar(&ty).then_some(Range::exactly(1)));
        Guess { cost, size, ty, at: At::Nowhere, entry: None }
    }

    /// A value of the schema.
    fn there(&self, cost: u64, ty: Type, at: At<'e>) -> Guess<'e> {
        let size = match at {
            At::Node(extent) => Some(Range { min: 0, max: extent.most }),
            _ => is_scalar(&ty).then_some(Range::exactly(1)),
        };
        Guess { cost, size, ty, at, entry: None }
    }

    fn literal(&self, literal: &LiteralValue) -> Guess<'e> {
        let (size, ty) = match literal {
            LiteralValue::String(text) => (text.inner().chars().count() as u64, Type::String),
            LiteralValue::Bytes(bytes) => (bytes.inner().len() as u64, Type::Bytes),
            LiteralValue::Boolean(_) => (1, Type::Bool),
            LiteralValue::Double(_) => (1, Type::Double),
            LiteralValue::Int(_) => (1, Type::Int),
            LiteralValue::UInt(_) => (1, Type::Uint),
            LiteralValue::Null => (1, Type::Null),
        };
        self.made(0, Some(Range::exactly(size)), ty)
    }

    fn ident(&self, name: &str) -> Guess<'e> {
        if let Some(local) = self.locals.iter().rev().find(|local| local.name == name) {
            let known = local.value.clone();
            let size = match known.at {
                At::Node(extent) => Some(Range { min: 0, max: extent.most }),
                _ if is_scalar(&known.ty) => Some(Range::exactly(1)),
                _ => known.size,
            };
            return Guess { cost: 1, size, ..known };
        }
        let ty = self.declared.names.get(name).cloned().unwrap_or(Type::Dyn);
        self.there(1, ty, At::Node(self.root))
    }

    /// One step further into the schema. What was made on the way is taken for the whole, as kube-apiserver does.
    fn step(&self, at: At<'e>, to: Step<'_>) -> At<'e> {
        let extent = match at {
            At::Nowhere => return At::Node(self.root),
            At::Lost => return At::Lost,
            At::Node(extent) => extent,
        };
        let found = match (&extent.inner, to) {
            (Inner::List(inner) | Inner::Map(inner), Step::Values) => Some(&**inner),
            (Inner::Map(_), Step::Keys) => Some(&KEYS),
            (Inner::Object(fields), Step::Field(name)) => fields.get(name),
            _ => None,
        };
        found.map_or(At::Lost, At::Node)
    }

    fn select(&mut self, select: &SelectExpr) -> Guess<'e> {
        let operand = self.of(&select.operand);
        if select.test {
            return self.made(operand.cost, None, Type::Bool);
        }
        let (optional, inner) = match &operand.ty {
            Type::Optional(inner) => (true, (**inner).clone()),
            other => (false, other.clone()),
        };
        let (walks, ty) = match &inner {
            Type::Object(object) => {
                (!optional, object.fields.get(&select.field).cloned().unwrap_or(Type::Dyn))
            }
            Type::Map(_, value) => (!optional, (**value).clone()),
            _ => (false, Type::Dyn),
        };
        let at = self.step(operand.at, Step::Field(&select.field));
        self.there(operand.cost.saturating_add(u64::from(walks)), ty, at)
    }

    fn call(&mut self, call: &CallExpr) -> Guess<'e> {
        let space = call.target.as_ref().and_then(|target| match &target.expr {
            Expr::Ident(name) if crate::check::NAMESPACES.contains(&name.as_str()) => Some(name.as_str()),
            _ => None,
        });
        let space = space.filter(|name| !self.locals.iter().any(|local| local.name == *name));
        let args: Vec<Guess<'e>> = call.args.iter().map(|arg| self.of(arg)).collect();
        let target = match space {
            None => call.target.as_ref().map(|target| self.of(target)),
            Some(_) => None,
        };
        let name = call.func_name.as_str();
        if name == "dyn"
            && let (None, [arg]) = (&target, args.as_slice())
        {
            return Guess { cost: arg.cost.saturating_add(1), ty: Type::Dyn, at: At::Nowhere, ..arg.clone() };
        }
        if matches!(name, op::INDEX | op::OPT_INDEX)
            && let [container, index] = args.as_slice()
        {
            return self.indexed(container, index, name == op::OPT_INDEX);
        }
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.clone()).collect();
        let ty = match (space, &target) {
            (Some(space), _) => result_types::qualified(space, name, &types),
            (None, Some(target)) => result_types::member(name, &target.ty, &types),
            (None, None) => operator(name, &types).or_else(|| result_types::global(name, &types)),
        };
        let whole = space.map_or_else(|| name.to_owned(), |space| format!("{space}.{name}"));
        let (own, size, entry) = call_cost(&whole, target.as_ref(), &args, call);
        let spent = if matches!(name, op::CONDITIONAL) && args.len() == 3 {
            args[0].cost.saturating_add(args[1].cost.max(args[2].cost))
        } else {
            sum(args.iter().map(|arg| arg.cost))
        };
        let cost = own.saturating_add(spent).saturating_add(target.map_or(0, |target| target.cost));
        Guess { entry, ..self.made(cost, size, ty.unwrap_or(Type::Dyn)) }
    }

    fn indexed(&self, container: &Guess<'e>, index: &Guess<'e>, optional: bool) -> Guess<'e> {
        let cost = container.cost.saturating_add(index.cost).saturating_add(1);
        let ty = match &container.ty {
            Type::List(element) => (**element).clone(),
            Type::Map(_, value) => (**value).clone(),
            _ => Type::Dyn,
        };
        let ty = if optional { Type::Optional(Box::new(ty)) } else { ty };
        let known = self.there(cost, ty, self.step(container.at, Step::Values));
        Guess { size: container.entry.map(|entry| entry.value).or(known.size), ..known }
    }

    fn comprehension(&mut self, one: &ComprehensionExpr) -> Guess<'e> {
        let range = self.of(&one.iter_range);
        let init = self.of(&one.accu_init);
        let spent = range.cost.saturating_add(init.cost);
        let bound = matches!(&one.iter_range.expr, Expr::List(list) if list.elements.is_empty())
            && matches!(&one.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(on)) if !*on.inner())
            && one.accu_var != "@result";
        self.push(&one.accu_var, init.clone());
        if bound {
            let result = self.of(&one.result);
            self.locals.pop();
            return Guess { cost: spent.saturating_add(result.cost), ..result };
        }
        let listed = match range.entry {
            Some(entry) => entry.list,
            None => matches!(range.ty, Type::List(_)),
        };
        let ty = match &range.ty {
            Type::List(element) => (**element).clone(),
            Type::Map(key, _) => (**key).clone(),
            _ => Type::Dyn,
        };
        let at = self.step(range.at, if listed { Step::Values } else { Step::Keys });
        let size = range.entry.map(|entry| if listed { entry.value } else { entry.key });
        self.push(&one.iter_var, Guess { cost: 1, size, ty, at, entry: None });
        let condition = self.of(&one.loop_cond);
        let step = self.of(&one.loop_step);
        self.locals.pop();
        let result = self.of(&one.result);
        self.locals.pop();
        let turns = range.size();
        let turning = turns.max.saturating_mul(condition.cost.saturating_add(step.cost));
        let cost = spent.saturating_add(result.cost).saturating_add(turning);
        match &one.accu_init.expr {
            Expr::List(_) | Expr::Map(_) => {
                let ty = if matches!(step.ty, Type::Dyn) { init.ty } else { step.ty };
                Guess { cost, size: Some(turns), ty, at: At::Nowhere, entry: step.entry }
            }
            Expr::Literal(_) => self.made(cost, init.size, result.ty),
            _ => self.made(cost, None, result.ty),
        }
    }

    fn push(&mut self, name: &str, value: Guess<'e>) {
        self.locals.push(Local { name: name.to_owned(), value });
    }
}

#[derive(Clone, Copy)]
enum Step<'n> {
    Field(&'n str),
    Values,
    Keys,
}

fn sum(costs: impl Iterator<Item = u64>) -> u64 {
    costs.fold(0, u64::saturating_add)
}

fn united(mut sizes: impl Iterator<Item = Range>) -> Range {
    let first = sizes.next().unwrap_or(Range::exactly(0));
    sizes.fold(first, Range::or)
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

fn operator(name: &str, args: &[Type]) -> Option<Type> {
    Some(match name {
        op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE | op::IN => Type::Bool,
        op::EQUALS | op::NOT_EQUALS | op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS => {
            Type::Bool
        }
        op::CONDITIONAL => args.get(1)?.clone(),
        op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO | op::NEGATE => {
            args.first()?.clone()
        }
        op::OPT_SELECT => Type::Optional(Box::new(Type::Dyn)),
        _ => return None,
    })
}
