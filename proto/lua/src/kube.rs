//! The `kube` library of scripts: amounts of resources, and what pods ask for and refer to.
//!
//! In: what scripts hand in. Out: what the native interpreter answers to the same question.

use karmada_interpreter::replicas::{QuotaEstimate, pod_requirements};
use karmada_interpreter::{dependencies, pod_request};
use karmada_quantity::Quantity;
use mlua::{Lua, MultiValue, Table, Value as LuaValue};
use serde_json::{Value, json};

use crate::convert::{Origins, Reading, References, to_lua};

/// All of it.
pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("resourceAdd", lua.create_function(|_, amounts| add(&amounts))?)?;
    library.raw_set("getResourceQuantity", lua.create_function(|_, amounts| quantity(&amounts))?)?;
    library
        .raw_set("accuratePodRequirements", lua.create_function(|lua, asked| requirements(lua, &asked))?)?;
    library.raw_set("getPodDependencies", lua.create_function(|lua, asked| dependencies_of(lua, &asked))?)?;
    Ok(library)
}

fn wrong(words: impl std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(words)
}

fn amount(value: &LuaValue, place: usize, function: &str) -> mlua::Result<Quantity> {
    match value {
        LuaValue::Nil => Ok(Quantity::ZERO),
        LuaValue::String(text) => {
            let text = text.to_string_lossy();
            text.parse()
                .map_err(|_| wrong(format!("cannot parse '{text}': it is no quantity, as 100m or 1Gi are")))
        }
        other => Err(wrong(format!(
            "bad argument #{place} to {function} (string expected, got {})",
            other.type_name()
        ))),
    }
}

/// The sum of amounts.
fn add(amounts: &MultiValue) -> mlua::Result<String> {
    let mut sum = Quantity::ZERO;
    for (index, value) in amounts.iter().enumerate() {
        sum = sum.plus(amount(value, index + 1, "resourceAdd")?);
    }
    Ok(sum.to_string())
}

/// An amount as a number of units.
fn quantity(amounts: &MultiValue) -> mlua::Result<f64> {
    let mut values = amounts.iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(wrong("getResourceQuantity only accepts one argument"));
    };
    let amount = amount(value, 1, "getResourceQuantity")?;
    if amount.is_negative() {
        return Err(wrong(format!("the quantity {amount} is negative")));
    }
    Ok(amount.as_f64())
}

/// A pod template that a script hands in.
fn template(lua: &Lua, value: &LuaValue, function: &str) -> mlua::Result<Value> {
    if !matches!(value, LuaValue::Table(_)) {
        let kind = value.type_name();
        return Err(wrong(format!("bad argument #1 to {function} (table expected, got {kind})")));
    }
    let origins = Origins::new(lua)?;
    let template = Reading::new(&origins, &References::default()).read(value).map_err(wrong)?;
    match template {
        Value::Object(_) => Ok(template),
        Value::Array(list) if list.is_empty() => Ok(json!({})),
        _ => Err(wrong("a pod template is expected, not a list")),
    }
}

/// What a pod of a template asks for, its priority class among it: whoever heeds no quotas leaves the class out.
fn requirements(lua: &Lua, asked: &MultiValue) -> mlua::Result<LuaValue> {
    let mut values = asked.iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(wrong("accuratePodRequirements only accepts one argument"));
    };
    let template = template(lua, value, "accuratePodRequirements")?;
    let spec = template.get("spec").unwrap_or(&Value::Null);
    dependencies::of_pod_spec(&template, Some(spec)).map_err(wrong)?;
    match pod_requirements(spec, QuotaEstimate::On).map_err(wrong)? {
        None => Ok(LuaValue::Nil),
        Some(requirements) => to_lua(lua, &json!(requirements), None),
    }
}

fn dependencies_of(lua: &Lua, asked: &MultiValue) -> mlua::Result<LuaValue> {
    let mut values = asked.iter();
    let (Some(value), Some(namespace), None) = (values.next(), values.next(), values.next()) else {
        return Err(wrong("getPodDependencies only accepts two argument"));
    };
    let namespace = match namespace {
        LuaValue::Nil => "default".to_owned(),
        LuaValue::Integer(number) => number.to_string(),
        LuaValue::Number(number) => number.to_string(),
        LuaValue::String(text) => text.to_string_lossy(),
        other => {
            let kind = other.type_name();
            return Err(wrong(format!(
                "bad argument #2 to getPodDependencies (string expected, got {kind})"
            )));
        }
    };
    let template = template(lua, value, "getPodDependencies")?;
    let spec = template.get("spec").unwrap_or(&Value::Null);
    pod_request::pod_request(spec).map_err(wrong)?;
    let owner = json!({"metadata": {"namespace": namespace}});
    let found = dependencies::of_pod_spec(&owner, Some(spec)).map_err(wrong)?;
    if found.is_empty() { Ok(LuaValue::Nil) } else { to_lua(lua, &json!(found), None) }
}
