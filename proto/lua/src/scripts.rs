//! Customizations as a layer of the interpreter.
//!
//! In: customizations, and a clock for `os.time`. Out: answers of the first customization of a kind, by name, that has a script for
//! the operation; what an object refers to is asked of all of them. A script that fails is an error; no other layer is asked then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component, ReplicaRequirements};
use karmada_api::object;
use karmada_interpreter::{Answer, DependentObject, InterpretError, Interpreter, Operation, Replicas};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::customization::{Customization, function};
use crate::machine::{Call, Limits, Returned, ScriptError, run};
use crate::script_slot::Turns;

/// Tells what time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The customizations of a fleet, by kind and in the order of their names.
pub struct Scripts {
    kinds: BTreeMap<String, BTreeMap<String, Vec<Customization>>>,
    clock: Clock,
    limits: Limits,
    turns: Turns,
}

/// A script that answers.
#[derive(Clone, Copy)]
struct Script<'a> {
    customization: &'a str,
    operation: Operation,
    text: &'a str,
}

impl Script<'_> {
    fn wrong(&self, words: impl std::fmt::Display) -> InterpretError {
        let (name, operation) = (self.customization, self.operation.name());
        InterpretError::Object(format!(
            "the {operation} script of ResourceInterpreterCustomization {name}: {words}"
        ))
    }

    /// A value as a type of the API.
    fn typed<T: DeserializeOwned>(&self, value: Value) -> Answer<T> {
        serde_json::from_value(value).map_err(|error| self.wrong(format!("its answer: {error}")))
    }
}

/// What is handed to a function.
#[derive(Clone, Copy)]
struct Given<'a> {
    arguments: &'a [&'a Value],
    references: &'a [&'a Value],
    now: Option<Timestamp>,
}

impl Scripts {
    /// With the usual limits.
    pub fn new(customizations: Vec<Customization>, clock: Clock) -> Self {
        Self::limited(customizations, clock, Limits::default())
    }

    /// With limits of one's own.
    pub fn limited(mut customizations: Vec<Customization>, clock: Clock, limits: Limits) -> Self {
        customizations.sort_by(|a, b| a.name.cmp(&b.name));
        let mut kinds: BTreeMap<String, BTreeMap<String, Vec<Customization>>> = BTreeMap::new();
        for customization in customizations {
            let versions = kinds.entry(customization.kind.clone()).or_default();
            versions.entry(customization.api_version.clone()).or_default().push(customization);
        }
        Self { kinds, clock, limits, turns: Turns::new() }
    }

    fn scripts(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
    ) -> impl Iterator<Item = Script<'_>> {
        let customizations = self.kinds.get(kind).and_then(|versions| versions.get(api_version));
        customizations.into_iter().flatten().filter_map(move |customization| {
            let text = customization.scripts.get(&operation)?;
            Some(Script { customization: &customization.name, operation, text })
        })
    }

    fn script(&self, object: &Value, operation: Operation) -> Answer<Script<'_>> {
        let (api_version, kind) = (object::api_version(object), object::kind(object));
        let script = self.scripts(api_version, kind, operation).next();
        script.ok_or_else(|| InterpretError::NoHook {
            operation: operation.name(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    fn call(&self, script: Script<'_>, given: Given<'_>) -> Answer<Vec<Returned>> {
        let call = Call {
            script: script.text,
            function: function(script.operation),
            arguments: given.arguments,
            references: given.references,
            now: given.now.unwrap_or_else(|| (self.clock)()),
        };
        let name = (script.customization, script.operation);
        let turn = self.turns.take(name, self.limits.time).map_err(|rests| InterpretError::Outside {
            why: script.wrong(&rests).to_string(),
            again: rests.0,
        })?;
        let ran = run(&call, self.limits);
        turn.ends();
        ran.map_err(|error: ScriptError| script.wrong(error))
    }

    /// The first value that a function returns.
    fn first(&self, script: Script<'_>, given: Given<'_>) -> Answer<Returned> {
        let nothing = Returned { kind: "nil", value: Ok(Value::Null) };
        Ok(self.call(script, given)?.into_iter().next().unwrap_or(nothing))
    }

    /// What a function returns, which must be a table.
    fn table(&self, script: Script<'_>, given: Given<'_>) -> Answer<Value> {
        let returned = self.first(script, given)?;
        if returned.kind != "table" {
            return Err(script.wrong(format!("it must return a table, and returned {}", returned.kind)));
        }
        returned.value.map_err(|words| script.wrong(words))
    }

    /// A list of the API's; none for nil.
    fn list<T: DeserializeOwned>(&self, script: Script<'_>, object: &Value) -> Answer<Vec<T>> {
        let returned = self.first(script, Given::of(&[object]))?;
        if returned.kind == "nil" {
            return Ok(Vec::new());
        }
        if returned.kind != "table" {
            return Err(
                script.wrong(format!("it must return a table or nil, and returned {}", returned.kind))
            );
        }
        script.typed(returned.value.map_err(|words| script.wrong(words))?)
    }

    /// The object that a script makes of another one: the same.
    fn changed(&self, script: Script<'_>, object: &Value, given: Given<'_>) -> Answer<Value> {
        let changed = self.table(script, given)?;
        let kind = |object: &Value| (object::api_version(object).to_owned(), object::kind(object).to_owned());
        if kind(&changed) != kind(object) {
            return Err(script.wrong("it must return an object of the same apiVersion and kind"));
        }
        if object::identity(&changed) != object::identity(object) {
            return Err(script.wrong("it must return the same object, and returned another one"));
        }
        Ok(changed)
    }
}

impl<'a> Given<'a> {
    fn of(arguments: &'a [&'a Value]) -> Self {
        Self { arguments, references: &[], now: None }
    }
}

/// A number of replicas; a fraction is cut off.
fn count(script: Script<'_>, returned: Option<&Returned>) -> Answer<i32> {
    let kind = returned.map_or("nil", |returned| returned.kind);
    if kind != "number" {
        return Err(script.wrong(format!("it must return a number first, and returned {kind}")));
    }
    let number = returned.and_then(|returned| returned.value.as_ref().ok()).and_then(Value::as_f64);
    let number = number.filter(|n| n.abs() <= f64::from(i32::MAX));
    #[expect(clippy::cast_possible_truncation, reason = "it is within the range")]
    number
        .map(|n| n as i32)
        .ok_or_else(|| script.wrong("it must return a number of replicas, at most 2147483647"))
}

fn requirements(script: Script<'_>, returned: Option<Returned>) -> Answer<Option<ReplicaRequirements>> {
    match returned {
        None => Ok(None),
        Some(Returned { kind: "nil", .. }) => Ok(None),
        Some(Returned { kind: "table", value }) => match value.map_err(|words| script.wrong(words))? {
            Value::Array(list) if list.is_empty() => Ok(Some(ReplicaRequirements::default())),
            value => script.typed(value).map(Some),
        },
        Some(Returned { kind, .. }) => {
            Err(script.wrong(format!("it must return a table or nil as requirements, and returned {kind}")))
        }
    }
}

impl Interpreter for Scripts {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.scripts(api_version, kind, operation).next().is_some()
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        let script = self.script(object, Operation::InterpretReplica)?;
        let mut returned = self.call(script, Given::of(&[object]))?.into_iter();
        let count = count(script, returned.next().as_ref())?;
        Ok(Replicas { count, requirements: requirements(script, returned.next())? })
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        self.list(self.script(object, Operation::InterpretComponent)?, object)
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        let script = self.script(object, Operation::ReviseReplica)?;
        let given = Given { arguments: &[object, &json!(replicas)], references: &[object], now: None };
        let revised = self.changed(script, object, given)?;
        *object = revised;
        Ok(())
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        let script = self.script(desired, Operation::Retain)?;
        let objects = [&*desired, observed];
        let retained =
            self.changed(script, desired, Given { arguments: &objects, references: &objects, now: None })?;
        *desired = retained;
        Ok(())
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        let script = self.script(object, Operation::AggregateStatus)?;
        let given = Given { arguments: &[object, &json!(items)], references: &[], now: Some(now) };
        let mut aggregated = self.changed(script, object, given)?;
        let status = object::root(&mut aggregated).remove("status");
        match status {
            Some(status) => object::root(object).insert("status".to_owned(), status),
            None => object::root(object).remove("status"),
        };
        Ok(())
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        let script = self.script(object, Operation::InterpretStatus)?;
        let returned = self.first(script, Given::of(&[object]))?;
        match (returned.kind, returned.value) {
            ("nil", _) => Ok(None),
            ("table", Ok(Value::Array(list))) if list.is_empty() => Ok(Some(json!({}))),
            ("table", Ok(status)) => Ok(Some(status)),
            ("table", Err(words)) => Err(script.wrong(words)),
            (kind, _) => Err(script.wrong(format!("it must return a table or nil, and returned {kind}"))),
        }
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        let script = self.script(object, Operation::InterpretHealth)?;
        let returned = self.first(script, Given::of(&[object]))?;
        match returned.value {
            Ok(Value::Bool(healthy)) => Ok(healthy),
            _ => Err(script.wrong(format!("it must return true or false, and returned {}", returned.kind))),
        }
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        self.script(object, Operation::InterpretDependency)?;
        let scripts =
            self.scripts(object::api_version(object), object::kind(object), Operation::InterpretDependency);
        let mut found = BTreeSet::new();
        for script in scripts {
            for dependency in self.list::<DependentObject>(script, object)? {
                dependency.check().map_err(|words| script.wrong(words))?;
                found.insert(dependency);
            }
        }
        Ok(found.into_iter().collect())
    }
}
