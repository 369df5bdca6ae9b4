//! What scripts find in their machine beside the language: the prelude, written in Lua, and what it takes from here.
//!
//! In: a machine. Out: the same machine, with text functions whose work is bounded, a clock that is told what time it is, and the
//! `kube` library.

use std::rc::Rc;

use jiff::Timestamp;
use mlua::{Lua, LuaString, MultiValue, Value as LuaValue};

use crate::budget::Budget;
use crate::pattern::{Capture, Found, Pattern};
use crate::{clock, kube};

/// Longer texts are not searched.
const LONGEST_TEXT: usize = 1_000_000;

/// Puts everything in place.
pub(crate) fn install(lua: &Lua, budget: &Rc<Budget>, now: Timestamp) -> mlua::Result<()> {
    let host = lua.create_table()?;
    let check = budget.clone();
    host.raw_set("check", lua.create_function(move |_, ()| check.check())?)?;
    let looks = budget.clone();
    host.raw_set("find", lua.create_function(move |lua, asked: Search| asked.find(lua, &looks))?)?;
    let looks = budget.clone();
    host.raw_set("match", lua.create_function(move |lua, asked: Search| asked.captures(lua, &looks))?)?;
    let looks = budget.clone();
    host.raw_set("scan", lua.create_function(move |lua, asked: Search| asked.scan(lua, &looks))?)?;
    host.raw_set("time", lua.create_function(move |_, asked| clock::time(&asked, now))?)?;
    host.raw_set("date", lua.create_function(move |lua, (format, at)| clock::date(lua, format, at, now))?)?;
    host.raw_set("kube", kube::library(lua)?)?;
    lua.load(include_str!("prelude.lua")).set_name("=library").call::<()>(host)
}

/// A search for a pattern in a text.
struct Search {
    text: LuaString,
    pattern: LuaString,
    from: Option<i64>,
    plain: bool,
}

impl mlua::FromLuaMulti for Search {
    fn from_lua_multi(values: MultiValue, lua: &Lua) -> mlua::Result<Self> {
        let (text, pattern, from, plain) =
            <(LuaString, LuaString, Option<f64>, Option<LuaValue>)>::from_lua_multi(values, lua)?;
        for text in [&text, &pattern] {
            let length = text.as_bytes().len();
            if length > LONGEST_TEXT {
                let words = format!(
                    "string length {length} exceeds the maximum allowed input string length {LONGEST_TEXT}"
                );
                return Err(mlua::Error::runtime(words));
            }
        }
        let plain = !matches!(plain, None | Some(LuaValue::Nil | LuaValue::Boolean(false)));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a place in a text of a million bytes, or beyond its ends"
        )]
        let from = from.map(|from| from as i64);
        Ok(Self { text, pattern, from, plain })
    }
}

impl Search {
    /// The byte to begin at; none where it is beyond the end.
    fn start(&self, length: usize) -> Option<usize> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let from = self.from.unwrap_or(1);
        let start = if from < 0 { (length + from).max(0) } else { (from - 1).max(0) };
        usize::try_from(start).ok().filter(|_| start <= length)
    }

    fn run(&self, budget: &Budget, anchors: bool) -> mlua::Result<Option<Found>> {
        let (text, pattern) = (self.text.as_bytes(), self.pattern.as_bytes());
        let Some(start) = self.start(text.len()) else { return Ok(None) };
        let pattern = Pattern::read(&pattern, anchors).map_err(mlua::Error::runtime)?;
        pattern.find(&text, start, &|| budget.over()).map_err(mlua::Error::runtime)
    }

    /// The captures as values; the whole match where the pattern has none and `whole` asks for it.
    fn values(&self, lua: &Lua, found: &Found, whole: bool) -> mlua::Result<MultiValue> {
        let text = self.text.as_bytes();
        let mut values = MultiValue::new();
        if whole && found.captures.is_empty() {
            values.push_back(LuaValue::String(lua.create_string(&text[found.from..found.to])?));
        }
        for capture in &found.captures {
            values.push_back(match capture {
                Capture::Text(from, to) => LuaValue::String(lua.create_string(&text[*from..*to])?),
                Capture::Place(at) => place(at + 1),
            });
        }
        Ok(values)
    }

    fn find(&self, lua: &Lua, budget: &Budget) -> mlua::Result<MultiValue> {
        let found = if self.plain { self.plainly(budget)? } else { self.run(budget, true)? };
        let Some(found) = found else { return Ok(MultiValue::from_iter([LuaValue::Nil])) };
        let mut values = MultiValue::from_iter([place(found.from + 1), place(found.to)]);
        values.extend(self.values(lua, &found, false)?);
        Ok(values)
    }

    fn plainly(&self, budget: &Budget) -> mlua::Result<Option<Found>> {
        let (text, wanted) = (self.text.as_bytes(), self.pattern.as_bytes());
        let Some(start) = self.start(text.len()) else { return Ok(None) };
        for from in start..=text.len().saturating_sub(wanted.len()) {
            if from % 1024 == 0 {
                budget.check()?;
            }
            if text[from..].starts_with(&wanted) {
                return Ok(Some(Found { from, to: from + wanted.len(), captures: Vec::new() }));
            }
        }
        Ok(None)
    }

    fn captures(&self, lua: &Lua, budget: &Budget) -> mlua::Result<MultiValue> {
        match self.run(budget, true)? {
            Some(found) => self.values(lua, &found, true),
            None => Ok(MultiValue::from_iter([LuaValue::Nil])),
        }
    }

    /// As `captures`, behind the first and the last byte of the match.
    fn scan(&self, lua: &Lua, budget: &Budget) -> mlua::Result<MultiValue> {
        let Some(found) = self.run(budget, false)? else { return Ok(MultiValue::from_iter([LuaValue::Nil])) };
        let mut values = MultiValue::from_iter([place(found.from + 1), place(found.to)]);
        values.extend(self.values(lua, &found, true)?);
        Ok(values)
    }
}

fn place(at: usize) -> LuaValue {
    LuaValue::Number(f64::from(u32::try_from(at).unwrap_or(u32::MAX)))
}
