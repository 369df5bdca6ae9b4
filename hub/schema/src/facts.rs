//! Declarative validation (required, enum, length, immutable…) of a type, as data.
//!
//! In: the facts of a type in the order in which they are told, a value of it, and on a change the value as it was. Out: field errors.
//! A fact is one line that a person can read; what depends on another field is code, which a fact may name so that it is told in its
//! turn.

use std::collections::HashSet;

use serde_json::Value;

use crate::fields::{Errors, at_most_all, encoded, immutable, int_or_percent, invalid_each, is_empty, text};
use crate::path::Path;
use crate::{FieldError, names};

/// A rule that is no plain fact: the value, what it was (on a change), and where it stands.
pub type Code = fn(&Value, Option<&Value>, &Path<'_>, &mut Errors);

/// One fact.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// The way from the type to what the fact is of.
    pub at: &'static [Step],
    /// What the fact asks of a value that is not there.
    pub when: When,
    /// The fact.
    pub what: What,
    /// What is said where it does not hold; empty for the usual words.
    pub words: &'static str,
}

/// One step of the way.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A field.
    Field(&'static str),
    /// A field, and what errors call it; empty where they name what it stands in alone.
    Called(&'static str, &'static str),
    /// Each item of a list.
    Items,
    /// The same, where errors name the list alone.
    ItemsOfAll,
}

/// When a fact is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Always: what is not there is an empty text, or zero.
    Always,
    /// It must be there, and not be empty; then it is looked at.
    Required,
    /// It must be there, and may be empty.
    Set,
    /// Where it is there.
    IfSet,
    /// Where it is there and not empty.
    IfFilled,
}

/// What is so.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// Nothing but that it is there.
    There,
    /// A text is one of these.
    OneOf(&'static [&'static str]),
    /// The same, told as a value that is wrong.
    Only(&'static [&'static str]),
    /// A text is a name by this rule, which answers what is wrong.
    Name(fn(&str) -> Vec<String>),
    /// A number is not less.
    AtLeast(i64),
    /// A number is not more.
    AtMost(i64),
    /// A number is neither less than the one nor more than the other.
    Between(i64, i64),
    /// A number is a port's.
    Port,
    /// A port's number or name.
    PortOrName,
    /// A number or a percentage, not negative.
    IntOrPercent,
    /// A percentage is not of more than all.
    AtMostAll,
    /// A text has no more bytes.
    Longest(usize),
    /// A list has no more items.
    MostItems(usize),
    /// A text among the items of a list, once.
    Once(&'static str),
    /// An item of a list is there once.
    Unique,
    /// It stays what it was; what says nothing is the same as nothing.
    Immutable,
    /// It stays the very same.
    Same,
    /// The same as that, told as something forbidden.
    Fixed,
    /// It is of a type with facts of its own.
    Is(&'static [Fact]),
    /// What code says.
    Code(Code),
}

/// Tells what is wrong with a value by the facts of its type.
pub fn judge(facts: &[Fact], new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    for fact in facts {
        fact.reach(fact.at, new, old, path, errors);
    }
}

impl Fact {
    /// Goes the rest of the way.
    fn reach(&self, way: &[Step], new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
        let Some((step, rest)) = way.split_first() else { return self.look(new, old, path, errors) };
        let (name, told) = match *step {
            Step::Field(name) => (name, name),
            Step::Called(name, told) => (name, told),
            Step::Items => {
                for (index, item) in new.as_array().into_iter().flatten().enumerate() {
                    self.reach(rest, item, None, &path.index(index), errors);
                }
                return;
            }
            Step::ItemsOfAll => {
                let items = new.as_array().into_iter().flatten();
                return items.for_each(|item| self.reach(rest, item, None, path, errors));
            }
        };
        let (new, old) = (&new[name], old.map(|old| &old[name]));
        match told {
            "" => self.reach(rest, new, old, path, errors),
            told => self.reach(rest, new, old, &path.child(told), errors),
        }
    }

    fn look(&self, new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
        let (null, blank) = (new.is_null(), is_blank(new));
        let missing = match self.when {
            When::Always => false,
            When::Required => blank,
            When::Set => null,
            When::IfSet if null => return,
            When::IfFilled if blank => return,
            When::IfSet | When::IfFilled => false,
        };
        if missing {
            let words = if matches!(self.what, What::There) { self.words } else { "" };
            errors.push(FieldError::required(path, words));
        } else {
            self.hold(new, old, path, errors);
        }
    }

    fn hold(&self, new: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
        let given = new.as_str().unwrap_or_default();
        match self.what {
            What::There => {}
            What::OneOf(known) if known.contains(&given) => {}
            What::OneOf(known) => errors.push(FieldError::not_supported(path, given, known)),
            What::Only(known) if known.contains(&given) => {}
            What::Only(_) => errors.push(FieldError::invalid(path, given, self.words)),
            What::Name(rule) => invalid_each(errors, path, given, rule(given)),
            What::Longest(most) if given.len() <= most => {}
            What::Longest(most) if self.words.is_empty() => {
                errors.push(FieldError::too_long(path, most as u64));
            }
            What::Longest(_) => errors.push(FieldError::invalid(path, given, self.words)),
            What::MostItems(most) => {
                let items = new.as_array().map_or(0, Vec::len);
                if items > most {
                    errors.push(FieldError::too_many(path, items as u64, most as u64));
                }
            }
            What::PortOrName if new.is_string() => invalid_each(errors, path, given, names::port_name(given)),
            What::IntOrPercent => int_or_percent(new, path, errors),
            What::AtMostAll => at_most_all(new, path, errors),
            What::Once(field) => once(new, field, path, errors),
            What::Unique => unique(new, path, errors),
            What::Immutable | What::Same | What::Fixed => {
                if let Some(old) = old {
                    self.stay(new, old, path, errors);
                }
            }
            What::Is(facts) => judge(facts, new, old, path, errors),
            What::Code(code) => code(new, old, path, errors),
            What::AtLeast(_) | What::AtMost(_) | What::Between(..) | What::Port | What::PortOrName => {
                self.number(new.as_i64().unwrap_or(0), path, errors);
            }
        }
    }

    fn number(&self, number: i64, path: &Path<'_>, errors: &mut Errors) {
        let (fits, usual) = match self.what {
            What::AtLeast(least) => (number >= least, format!("must be greater than or equal to {least}")),
            What::AtMost(most) => (number <= most, format!("must be less than or equal to {most}")),
            What::Between(least, most) => {
                ((least..=most).contains(&number), format!("must be between {least} and {most}, inclusive"))
            }
            _ => {
                let problems = names::port_number(number).into_iter();
                return errors.extend(problems.map(|problem| FieldError::invalid(path, number, problem)));
            }
        };
        if !fits {
            let words = if self.words.is_empty() { usual } else { self.words.to_owned() };
            errors.push(FieldError::invalid(path, number, words));
        }
    }

    fn stay(&self, new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
        match self.what {
            What::Immutable => immutable(new, old, path, errors),
            _ if new == old => {}
            What::Same => errors.push(FieldError::invalid(path, encoded(new), "field is immutable")),
            _ => errors.push(FieldError::forbidden(path, self.words)),
        }
    }
}

/// Whether Go has nothing there: no value, an empty text, list or map, zero.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        other => is_empty(other),
    }
}

/// Tells each item that another was before it.
fn unique(all: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, item) in all.as_array().into_iter().flatten().enumerate() {
        if !seen.insert(item) {
            errors.push(FieldError::duplicate(&path.index(index), item.clone()));
        }
    }
}

/// Tells each item whose text another had before it.
fn once(all: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, item) in all.as_array().into_iter().flatten().enumerate() {
        let given = text(item, field);
        if !seen.insert(given) {
            errors.push(FieldError::duplicate(&path.index(index).child(field), given));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of `new`, and of a change from `old`, by one fact of `a`.
    fn said(when: When, what: What, new: &Value, old: Option<&Value>) -> Vec<String> {
        let facts = [Fact { at: &[Step::Field("a")], when, what, words: "" }];
        let mut errors = Errors::new();
        judge(&facts, new, old, &Path::ROOT, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_not_there_is_missing_passed_over_or_empty() {
        let known = What::OneOf(&["x"]);
        let none: [&str; 0] = [];
        let unsupported = "a: Unsupported value: \"\": supported values: \"x\"";
        for (new, required, set, if_set, if_filled, always) in [
            (
                json!({}),
                &["a: Required value"][..],
                &["a: Required value"][..],
                &none[..],
                &none[..],
                &[unsupported][..],
            ),
            (json!({"a": ""}), &["a: Required value"], &[unsupported], &[unsupported], &none, &[unsupported]),
            (json!({"a": "x"}), &none, &none, &none, &none, &none),
        ] {
            for (when, wanted) in [
                (When::Required, required),
                (When::Set, set),
                (When::IfSet, if_set),
                (When::IfFilled, if_filled),
                (When::Always, always),
            ] {
                assert_eq!(said(when, known, &new, None), wanted, "{when:?} {new}");
            }
        }
    }

    #[test]
    fn numbers_lengths_and_ports_have_their_usual_words() {
        for (what, value, wanted) in [
            (What::AtLeast(1), json!(0), "a: Invalid value: 0: must be greater than or equal to 1"),
            (What::AtMost(1), json!(2), "a: Invalid value: 2: must be less than or equal to 1"),
            (What::Between(1, 3), json!(4), "a: Invalid value: 4: must be between 1 and 3, inclusive"),
            (What::Port, json!(0), "a: Invalid value: 0: must be between 1 and 65535, inclusive"),
            (What::Longest(2), json!("xyz"), "a: Too long: may not be more than 2 bytes"),
            (What::MostItems(1), json!([1, 2]), "a: Too many: 2: must have at most 1 item"),
            (What::Unique, json!(["x", "x"]), "a[1]: Duplicate value: \"x\""),
            (What::Once("n"), json!([{"n": "x"}, {"n": "x"}]), "a[1].n: Duplicate value: \"x\""),
        ] {
            assert_eq!(said(When::Always, what, &json!({"a": value}), None), [wanted], "{what:?}");
        }
    }

    #[test]
    fn what_stays_is_looked_at_in_a_change_alone() {
        let (new, old) = (json!({"a": "x"}), json!({"a": "y"}));
        for (what, wanted) in [
            (What::Immutable, "a: Invalid value: \"x\": field is immutable"),
            (What::Same, "a: Invalid value: \"x\": field is immutable"),
            (What::Fixed, "a: Forbidden"),
        ] {
            assert_eq!(said(When::Always, what, &new, Some(&old)), [wanted], "{what:?}");
            assert!(said(When::Always, what, &new, Some(&new)).is_empty());
            assert!(said(When::Always, what, &new, None).is_empty());
        }
        // An empty list is none, but where it is meant literally.
        let (new, old) = (json!({"a": []}), json!({}));
        assert!(said(When::Always, What::Immutable, &new, Some(&old)).is_empty());
        assert_eq!(said(When::Always, What::Same, &new, Some(&old)).len(), 1);
    }

    #[test]
    fn a_way_leads_through_items_and_by_other_names() {
        const INNER: &[Fact] =
            &[Fact { at: &[Step::Field("n")], when: When::Required, what: What::There, words: "say it" }];
        let value = json!({"all": [{"n": "x"}, {}]});
        for (step, wanted) in [
            (Step::Items, "list[1].n: Required value: say it"),
            (Step::ItemsOfAll, "list.n: Required value: say it"),
        ] {
            let way: &'static [Step] = match step {
                Step::Items => &[Step::Called("all", "list"), Step::Items],
                _ => &[Step::Called("all", "list"), Step::ItemsOfAll],
            };
            let facts = [Fact { at: way, when: When::Always, what: What::Is(INNER), words: "" }];
            let mut errors = Errors::new();
            judge(&facts, &value, None, &Path::ROOT, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
        }
    }
}
