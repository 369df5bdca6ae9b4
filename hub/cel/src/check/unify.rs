//! Which types may stand for which, and what is thereby known of types that were open.
//!
//! In: two types. Out: whether the one may be where the other is wanted; open types ([`Type::Var`]) are then bound. The work is
//! bounded: beyond that everything fits, so that no expression keeps the checker busy.

use crate::types::Type;

/// Steps of one check.
const STEPS: usize = 200_000;

/// Parts of one type; larger ones are not followed.
const PARTS: usize = 1_000;

/// What is known of open types.
#[derive(Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    undo: Vec<(usize, Option<Type>)>,
    steps: usize,
}

impl Bindings {
    /// A type of which nothing is known yet.
    pub(super) fn open(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(self.bound.len() - 1)
    }

    /// Whether `given` may be where `wanted` is; otherwise nothing is bound.
    pub(super) fn unify(&mut self, wanted: &Type, given: &Type) -> bool {
        self.all_fit(std::iter::once((wanted, given)))
    }

    /// Whether all do; otherwise nothing is bound.
    pub(super) fn all_fit<'t>(&mut self, mut pairs: impl Iterator<Item = (&'t Type, &'t Type)>) -> bool {
        let before = self.undo.len();
        let fit = pairs.all(|(one, other)| self.assign(one, other));
        if !fit {
            while self.undo.len() > before {
                if let Some((at, old)) = self.undo.pop() {
                    self.bound[at] = old;
                }
            }
        }
        fit
    }

    fn bind(&mut self, at: usize, ty: Type) {
        let old = self.bound[at].replace(ty);
        self.undo.push((at, old));
    }

    fn assign(&mut self, one: &Type, other: &Type) -> bool {
        self.steps += 1;
        if self.steps > STEPS {
            return true;
        }
        if let Type::Var(at) = other {
            match self.stands_for(one, *at) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Var(at) = one {
            return self.stands_for(other, *at).0;
        }
        match (one, other) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::TypeOf(_), Type::TypeOf(_)) => true,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.assign(one, other)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.assign(key, other_key) && self.assign(value, other_value)
            }
            // Objects are told apart by their names.
            (Type::Object(one), Type::Object(other)) => one.name == other.name,
            (one, other) => one == other,
        }
    }

    /// Whether the open type may be `ty`, and whether it was known before to be something.
    fn stands_for(&mut self, ty: &Type, at: usize) -> (bool, bool) {
        if *ty == Type::Var(at) {
            return (true, true);
        }
        if let Some(known) = self.bound[at].clone() {
            if *ty == known {
                return (true, true);
            }
            if self.assign(ty, &known) {
                let general = self.more_general(ty, &known);
                if !self.holds(&general, at) {
                    self.bind(at, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.holds(ty, at) {
            return (false, false);
        }
        let ty = if parts(ty, PARTS) >= PARTS { Type::Dyn } else { ty.clone() };
        self.bind(at, ty);
        (true, false)
    }

    /// The less specific of two types that fit.
    pub(super) fn more_general(&self, one: &Type, other: &Type) -> Type {
        if is_as_general(one, other) { one.clone() } else { other.clone() }
    }

    /// Whether the open type is a part of `ty`.
    fn holds(&mut self, ty: &Type, at: usize) -> bool {
        self.steps += 1;
        if self.steps > STEPS {
            return true;
        }
        match ty {
            Type::Var(other) if *other == at => true,
            Type::Var(other) => match self.bound[*other].clone() {
                Some(known) => self.holds(&known, at),
                None => false,
            },
            Type::List(inner) | Type::Optional(inner) | Type::TypeOf(inner) => self.holds(inner, at),
            Type::Map(key, value) => self.holds(key, at) || self.holds(value, at),
            _ => false,
        }
    }

    /// The type with what is known in the place of what was open; what is open still is `dyn` where it is `closed`.
    pub(super) fn known(&self, ty: &Type, closed: bool) -> Type {
        let mut left = PARTS;
        self.known_within(ty, closed, &mut left)
    }

    fn known_within(&self, ty: &Type, closed: bool, left: &mut usize) -> Type {
        if *left == 0 {
            return Type::Dyn;
        }
        *left -= 1;
        let mut inner = |ty: &Type| Box::new(self.known_within(ty, closed, left));
        match ty {
            Type::Var(at) => match &self.bound[*at] {
                Some(known) => *inner(known),
                None if closed => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::List(inner(element)),
            Type::Map(key, value) => {
                let key = inner(key);
                Type::Map(key, inner(value))
            }
            Type::Optional(value) => Type::Optional(inner(value)),
            Type::TypeOf(of) => Type::TypeOf(inner(of)),
            other => other.clone(),
        }
    }
}

fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null | Type::Object(_) | Type::Opaque(_) | Type::Optional(_) | Type::Duration | Type::Timestamp
    )
}

fn is_as_general(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::TypeOf(_), Type::TypeOf(_)) => true,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            is_as_general(one, other)
        }
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_as_general(key, other_key) && is_as_general(value, other_value)
        }
        (Type::Object(one), Type::Object(other)) => one.name == other.name,
        (one, other) => one == other,
    }
}

/// How many parts a type has, counted up to `most`.
fn parts(ty: &Type, most: usize) -> usize {
    if most == 0 {
        return 0;
    }
    1 + match ty {
        Type::List(inner) | Type::Optional(inner) | Type::TypeOf(inner) => parts(inner, most - 1),
        Type::Map(key, value) => {
            let first = parts(key, most - 1);
            first + parts(value, most.saturating_sub(1 + first))
        }
        _ => 0,
    }
}
