//! JSON as tables, and tables as JSON.
//!
//! In: JSON, or a value of the Lua machine together with what is known of its tables. Out: the other of the two, or words that say why an
//! answer is no JSON.
//!
//! Lua has one kind of table, no null in it, and numbers of 53 bits. What a script never touched keeps what it was all the same:
//! each table that an argument became is remembered with the JSON it was made from ([`Origins`]), wherever the script puts it.
//! For tables that the script made, objects at hand tell whether an empty one is a map or a list, by its path ([`References`]); an
//! empty one of which nothing is known is left out. Answers are limited in depth and in bytes.

use std::collections::{BTreeMap, BTreeSet};

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

/// As deep as JSON is read elsewhere.
const DEEPEST: usize = 128;

/// Larger answers than an API object can be are refused.
const LARGEST: usize = 8 << 20;

/// Up to here every whole number is exact in Lua.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The tables that arguments became, by their place in the machine, and what they were made from.
pub(crate) struct Origins<'v> {
    made_from: BTreeMap<usize, &'v Value>,
    /// Holds on to the tables, so that no other one takes their place.
    held: Table,
}

impl<'v> Origins<'v> {
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Self { made_from: BTreeMap::new(), held: lua.create_table()? })
    }

    fn remember(&mut self, table: &Table, made_from: &'v Value) -> mlua::Result<()> {
        self.made_from.insert(table.to_pointer() as usize, made_from);
        self.held.raw_push(table)
    }
}

/// A JSON value for a script. Members that are null are absent, and elements that are null left out.
pub(crate) fn to_lua<'v>(
    lua: &Lua,
    value: &'v Value,
    mut origins: Option<&mut Origins<'v>>,
) -> mlua::Result<LuaValue> {
    let table = match value {
        Value::Null => return Ok(LuaValue::Nil),
        Value::Bool(truth) => return Ok(LuaValue::Boolean(*truth)),
        Value::Number(number) => return Ok(LuaValue::Number(number.as_f64().unwrap_or(f64::MAX))),
        Value::String(text) => return Ok(LuaValue::String(lua.create_string(text)?)),
        Value::Array(list) => {
            let table = lua.create_table()?;
            for element in list.iter().filter(|element| !element.is_null()) {
                table.raw_push(to_lua(lua, element, origins.as_deref_mut())?)?;
            }
            table
        }
        Value::Object(members) => {
            let table = lua.create_table()?;
            for (key, member) in members.iter().filter(|(_, member)| !member.is_null()) {
                table.raw_set(key.as_str(), to_lua(lua, member, origins.as_deref_mut())?)?;
            }
            table
        }
    };
    if let Some(origins) = origins {
        origins.remember(&table, value)?;
    }
    Ok(LuaValue::Table(table))
}

/// What objects at hand tell of empty tables and large numbers, by their path without places in lists.
#[derive(Default)]
pub(crate) struct References {
    empties: BTreeMap<Vec<String>, Value>,
    numbers: BTreeMap<Vec<String>, Vec<Number>>,
}

impl References {
    pub(crate) fn of(objects: &[&Value]) -> Self {
        let mut references = Self::default();
        for object in objects {
            references.learn(object, &mut Vec::new());
        }
        references
    }

    fn learn(&mut self, value: &Value, path: &mut Vec<String>) {
        match value {
            Value::Array(list) if list.is_empty() => {
                self.empties.entry(path.clone()).or_insert_with(|| value.clone());
            }
            Value::Object(members) if members.is_empty() => {
                self.empties.insert(path.clone(), value.clone());
            }
            Value::Array(list) => list.iter().for_each(|element| self.learn(element, path)),
            Value::Object(members) => {
                for (key, member) in members {
                    path.push(key.clone());
                    self.learn(member, path);
                    path.pop();
                }
            }
            Value::Number(number) if number.as_f64().is_some_and(|n| n.abs() >= EXACT) => {
                self.numbers.entry(path.clone()).or_default().push(number.clone());
            }
            _ => {}
        }
    }
}

/// Tables being read.
pub(crate) struct Reading<'a, 'v> {
    origins: &'a Origins<'v>,
    references: &'a References,
    seen: BTreeSet<usize>,
    path: Vec<String>,
    depth: usize,
    bytes: usize,
}

type Read<T> = Result<T, String>;

/// The entries of one table.
#[derive(Default)]
struct Entries {
    members: Map<String, Value>,
    elements: BTreeMap<i64, Option<Value>>,
    /// Members of which nothing is left.
    dropped: bool,
}

impl<'a, 'v> Reading<'a, 'v> {
    pub(crate) fn new(origins: &'a Origins<'v>, references: &'a References) -> Self {
        Self { origins, references, seen: BTreeSet::new(), path: Vec::new(), depth: 0, bytes: 0 }
    }

    /// A whole value. An empty table of which nothing is known is an empty list.
    pub(crate) fn read(&mut self, value: &LuaValue) -> Read<Value> {
        Ok(self.value(value, None)?.unwrap_or_else(|| match value {
            LuaValue::Table(_) => Value::Array(Vec::new()),
            _ => Value::Null,
        }))
    }

    fn count(&mut self, bytes: usize) -> Read<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > LARGEST {
            return Err(format!("the answer has more than {LARGEST} bytes"));
        }
        Ok(())
    }

    /// One value; none for an empty table of which nothing is known. `was` is what stood in its place.
    fn value(&mut self, value: &LuaValue, was: Option<&Value>) -> Read<Option<Value>> {
        self.count(16)?;
        Ok(Some(match value {
            LuaValue::Nil => Value::Null,
            LuaValue::Boolean(truth) => Value::Bool(*truth),
            #[expect(clippy::cast_precision_loss, reason = "it was a number of Lua's before, and is exact")]
            LuaValue::Integer(number) => self.number(*number as f64, was)?,
            LuaValue::Number(number) => self.number(*number, was)?,
            LuaValue::String(text) => {
                self.count(text.as_bytes().len())?;
                Value::String(text.to_string_lossy())
            }
            LuaValue::Table(table) => return self.table(table),
            other => return Err(format!("cannot encode {} to JSON", other.type_name())),
        }))
    }

    fn number(&self, number: f64, was: Option<&Value>) -> Read<Value> {
        if !number.is_finite() {
            return Err(format!("unsupported value: {number}"));
        }
        if number.abs() >= EXACT {
            let same = |other: &&Number| other.as_f64() == Some(number);
            if let Some(Value::Number(other)) = was
                && same(&other)
            {
                return Ok(Value::Number(other.clone()));
            }
            let known = self.references.numbers.get(&self.path);
            if let Some(other) = known.and_then(|known| known.iter().find(same)) {
                return Ok(Value::Number(other.clone()));
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the range")]
        if number.fract() == 0.0 && number.abs() < 9.2e18 {
            return Ok(Value::from(number as i64));
        }
        Ok(Value::from(number))
    }

    fn table(&mut self, table: &Table) -> Read<Option<Value>> {
        let place = table.to_pointer() as usize;
        if !self.seen.insert(place) {
            return Err("cannot encode recursively nested tables to JSON".to_owned());
        }
        if self.depth == DEEPEST {
            return Err(format!("the answer is more than {DEEPEST} levels deep"));
        }
        self.depth += 1;
        let was = self.origins.made_from.get(&place).copied();
        let entries = self.entries(table, was);
        self.depth -= 1;
        let entries = entries?;
        if entries.members.is_empty() && entries.elements.is_empty() && !entries.dropped {
            return Ok(self.empty(was));
        }
        let list = was.and_then(Value::as_array);
        if entries.elements.is_empty() {
            return Ok(Some(Value::Object(with_nulls(entries.members, was.and_then(Value::as_object)))));
        }
        if !entries.members.is_empty() || entries.dropped {
            return Err("cannot encode mixed or invalid key types".to_owned());
        }
        elements(entries.elements, list).map(|list| Some(Value::Array(list)))
    }

    /// What an empty table is: what it was, if it was empty before; else what the objects at hand tell.
    fn empty(&self, was: Option<&Value>) -> Option<Value> {
        let before = match was {
            Some(Value::Array(list)) => list.iter().all(Value::is_null),
            Some(Value::Object(members)) => members.values().all(Value::is_null),
            _ => false,
        };
        if before { was.cloned() } else { self.references.empties.get(&self.path).cloned() }
    }

    fn entries(&mut self, table: &Table, was: Option<&Value>) -> Read<Entries> {
        let mut entries = Entries::default();
        let members = was.and_then(Value::as_object);
        let elements: Vec<&Value> = was
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|element| !element.is_null())
            .collect();
        let mut failed = None;
        let walked = table.for_each(|key: LuaValue, value: LuaValue| {
            let entry = self.entry(&key, &value, &mut entries, (members, &elements));
            entry.map_err(|words| {
                failed = Some(words.clone());
                mlua::Error::runtime(words)
            })
        });
        match (failed, walked) {
            (Some(words), _) => Err(words),
            (None, Err(error)) => Err(crate::budget::words(&error)),
            (None, Ok(())) => Ok(entries),
        }
    }

    fn entry(
        &mut self,
        key: &LuaValue,
        value: &LuaValue,
        entries: &mut Entries,
        (members, elements): (Option<&Map<String, Value>>, &[&Value]),
    ) -> Read<()> {
        match key {
            LuaValue::String(key) => {
                let key = key.to_string_lossy();
                self.count(key.len())?;
                let was = members.and_then(|members| members.get(&key));
                self.path.push(key);
                let read = self.value(value, was);
                let key = self.path.pop().unwrap_or_default();
                match read? {
                    Some(value) => {
                        entries.members.insert(key, value);
                    }
                    None => entries.dropped = true,
                }
            }
            LuaValue::Integer(index) => {
                let at = usize::try_from(*index - 1).ok();
                let was = at.and_then(|at| elements.get(at).copied());
                let read = self.value(value, was)?;
                entries.elements.insert(*index, read);
            }
            LuaValue::Number(_) => return Err("cannot encode sparse array".to_owned()),
            _ => return Err("cannot encode mixed or invalid key types".to_owned()),
        }
        Ok(())
    }
}

/// The members, and those that were null before and that no script can have seen.
fn with_nulls(mut members: Map<String, Value>, was: Option<&Map<String, Value>>) -> Map<String, Value> {
    for (key, _) in was.into_iter().flatten().filter(|(_, value)| value.is_null()) {
        members.entry(key.clone()).or_insert(Value::Null);
    }
    members
}

/// A list of its elements, those of which nothing is left without. As long as it was, it has its nulls again.
fn elements(elements: BTreeMap<i64, Option<Value>>, was: Option<&Vec<Value>>) -> Read<Vec<Value>> {
    if elements.keys().zip(1..).any(|(index, wanted)| *index != wanted) {
        return Err("cannot encode sparse array".to_owned());
    }
    let count = elements.len();
    let mut elements = elements.into_values().flatten();
    match was {
        Some(was) if was.iter().filter(|element| !element.is_null()).count() == count => {
            let again = |element: &Value| if element.is_null() { Some(Value::Null) } else { elements.next() };
            Ok(was.iter().filter_map(again).collect())
        }
        _ => Ok(elements.collect()),
    }
}
