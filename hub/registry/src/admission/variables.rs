//! Variables of a policy: evaluated in their order, each over those before it, and shown to whoever names them.
//!
//! In: `spec.variables`, an evaluator over one request. Out: what each yields, or why it fails. An expression is shown the variables
//! that it names and no others, so that many variables and many expressions do not multiply.

use std::collections::HashMap;

use karmada_cel::{Evaluator, Value as Cel};

use super::expressions::Expression;

/// Characters of why a variable failed, as each expression that names it repeats it.
const LONGEST_REASON: usize = 1 << 10;

/// The variables that an expression names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Those of these names, each once.
    Only(Vec<String>),
    /// It speaks of `variables` as a whole.
    All,
}

impl Named {
    /// Reads them from the source: what follows `variables.`, also where that is part of a text.
    pub(super) fn by(source: &str) -> Named {
        let mut names: Vec<String> = Vec::new();
        for (at, word) in source.match_indices("variables") {
            let rest = source[at + word.len()..].trim_start();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let Some(rest) = rest.strip_prefix('.').map(|rest| rest.trim_start().trim_start_matches('?'))
            else {
                match rest.chars().next() {
                    Some(c) if is_name(c) => continue,
                    _ => return Named::All,
                }
            };
            let end = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
            names.push(rest[..end].to_owned());
        }
        names.sort_unstable();
        names.dedup();
        Named::Only(names)
    }
}

/// A policy's variables, compiled.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    name: String,
    expression: Expression,
    named: Named,
}

impl Variables {
    /// One more.
    pub(super) fn add(&mut self, name: &str, expression: Expression) {
        let named = Named::by(&expression.source);
        self.0.push(Variable { name: name.to_owned(), expression, named });
    }

    /// Evaluates all; those that fail are told apart, as only who names them fails with them.
    pub(super) fn evaluate(&self, evaluator: &mut Evaluator) -> Evaluated<'_> {
        let mut evaluated = Evaluated::default();
        for variable in &self.0 {
            evaluated.show(evaluator, &variable.named);
            match variable.expression.value(evaluator) {
                Ok(value) => drop(evaluated.good.insert(&variable.name, value)),
                Err(why) => {
                    let why: String = why.chars().take(LONGEST_REASON).collect();
                    evaluated.broken.insert(&variable.name, why);
                }
            }
        }
        evaluated
    }
}

/// What the variables yielded.
#[derive(Default)]
pub(super) struct Evaluated<'p> {
    good: HashMap<&'p str, Cel>,
    broken: HashMap<&'p str, String>,
}

impl Evaluated<'_> {
    /// Makes the variables that are named known to the next expression.
    pub(super) fn show(&self, evaluator: &mut Evaluator, named: &Named) {
        let one = |name: &str| self.good.get_key_value(name).map(|(name, value)| (*name, value.clone()));
        let shown: Vec<(&str, Cel)> = match named {
            Named::All => self.good.iter().map(|(name, value)| (*name, value.clone())).collect(),
            Named::Only(names) => names.iter().filter_map(|name| one(name)).collect(),
        };
        evaluator.set("variables", Cel::map(shown));
    }

    /// A variable among those named that failed, and why.
    pub(super) fn broken(&self, named: &Named) -> Option<(&str, &str)> {
        let Named::Only(names) = named else { return None };
        names
            .iter()
            .find_map(|name| self.broken.get_key_value(name.as_str()))
            .map(|(name, why)| (*name, why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_names_the_variables_that_follow_the_word() {
        let only = |names: &[&str]| Named::Only(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(Named::by("object.spec.replicas > 1"), only(&[]));
        assert_eq!(Named::by("variables.b > variables.a && variables . a == 1"), only(&["a", "b"]));
        assert_eq!(Named::by("variables.ab.c"), only(&["ab"]));
        assert_eq!(Named::by("has(variables.x) && variables.?y.hasValue()"), only(&["x", "y"]));
        assert_eq!(Named::by("variablesOf.x == 1"), only(&[]));
        assert_eq!(Named::by("size(variables) > 1"), Named::All);
        assert_eq!(Named::by("'a' in variables"), Named::All);
    }
}
