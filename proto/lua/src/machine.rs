//! A machine that runs one script once.
//!
//! In: a script, the name of its function, arguments as JSON. Out: what the function returns, as JSON. A machine is made for one
//! call and thrown away, so nothing of one script reaches another. It has no files, no processes, no network, no way to load code;
//! its memory, its time and its answer are limited, also inside of library functions.

use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Value as LuaValue, VmState};
use serde_json::Value;

use crate::budget::{Budget, words};
use crate::convert::{Origins, Reading, References, to_lua};
use crate::for_lists;
use crate::library;

/// What a script may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: usize,
    /// Time, loading included.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 64 << 20, time: Duration::from_secs(1) }
    }
}

/// Instructions between two looks at the time. A single instruction may copy a text of the size that memory allows.
const INSTRUCTIONS: u32 = 200;

/// Larger scripts are not looked at. While one is read nobody looks at the time, and how long that takes grows with the square of its size: for each name
/// Lua looks through all that the functions around it have. One of this size takes a fraction of a second at worst.
const LARGEST_SCRIPT: usize = 64 << 10;

/// Why a script has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It is no Lua.
    #[error("{0}")]
    Syntax(String),
    /// It failed while it ran, or was ended.
    #[error("{0}")]
    Run(String),
    /// It has no such function.
    #[error("not found function {0}")]
    NoFunction(String),
    /// What has the function's name is none.
    #[error("{0} is not a function: {1}")]
    NotAFunction(String, &'static str),
    /// What it returned cannot be used.
    #[error("{0}")]
    Answer(String),
}

/// One call.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The script.
    pub script: &'a str,
    /// The name of its function.
    pub function: &'a str,
    /// What the function is called with.
    pub arguments: &'a [&'a Value],
    /// Objects that tell what an empty table and a large number were.
    pub references: &'a [&'a Value],
    /// The moment that `os.time` tells.
    pub now: Timestamp,
}

/// What a function returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Returned {
    /// The name of its type in Lua.
    pub kind: &'static str,
    /// The value, for everything that JSON can say.
    pub value: Result<Value, String>,
}

/// Whether a script is Lua.
///
/// # Errors
/// [`ScriptError::Syntax`] where it is not; or no machine can be made for it.
pub fn compile(script: &str) -> Result<(), ScriptError> {
    let (lua, _) = machine(Limits::default(), Timestamp::UNIX_EPOCH)?;
    load(&lua, script).map(|_| ())
}

/// Runs a script and calls its function.
///
/// # Errors
/// [`ScriptError`]: it is no Lua, has no such function, or fails or passes a limit while it runs.
pub fn run(call: &Call<'_>, limits: Limits) -> Result<Vec<Returned>, ScriptError> {
    let (lua, _budget) = machine(limits, call.now)?;
    let failed = |error: mlua::Error| ScriptError::Run(words(&error));
    load(&lua, call.script)?.call::<()>(()).map_err(failed)?;
    let function = match lua.globals().raw_get::<LuaValue>(call.function).map_err(failed)? {
        LuaValue::Function(function) => function,
        LuaValue::Nil => return Err(ScriptError::NoFunction(call.function.to_owned())),
        other => return Err(ScriptError::NotAFunction(call.function.to_owned(), other.type_name())),
    };
    let mut origins = Origins::new(&lua).map_err(failed)?;
    let mut arguments = MultiValue::new();
    for argument in call.arguments {
        arguments.push_back(to_lua(&lua, argument, Some(&mut origins)).map_err(failed)?);
    }
    let returned = function.call::<MultiValue>(arguments).map_err(failed)?;
    let references = References::of(call.references);
    let mut reading = Reading::new(&origins, &references);
    let read = |value: &LuaValue| Returned { kind: kind(value), value: reading.read(value) };
    Ok(returned.iter().map(read).collect())
}

fn kind(value: &LuaValue) -> &'static str {
    match value {
        LuaValue::Integer(_) => "number",
        other => other.type_name(),
    }
}

fn load(lua: &Lua, script: &str) -> Result<mlua::Function, ScriptError> {
    if script.len() > LARGEST_SCRIPT {
        return Err(ScriptError::Syntax(format!("the script has more than {LARGEST_SCRIPT} bytes")));
    }
    for_lists::check(script).map_err(ScriptError::Syntax)?;
    let chunk = lua.load(script).set_name("=<string>").set_mode(ChunkMode::Text);
    chunk.into_function().map_err(|error| ScriptError::Syntax(words(&error)))
}

fn machine(limits: Limits, now: Timestamp) -> Result<(Lua, Rc<Budget>), ScriptError> {
    let failed = |error: mlua::Error| ScriptError::Run(words(&error));
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::new()).map_err(failed)?;
    let budget = Rc::new(Budget::new(limits.time));
    library::install(&lua, &budget, now).map_err(failed)?;
    lua.set_memory_limit(lua.used_memory() + limits.memory).map_err(failed)?;
    let looks = budget.clone();
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
    lua.set_hook(triggers, move |_, _| looks.check().map(|()| VmState::Continue)).map_err(failed)?;
    Ok((lua, budget))
}
