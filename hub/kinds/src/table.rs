//! Server-side tables (`meta.k8s.io/v1` Table): what `kubectl get` shows.
//!
//! In: a resource of the catalogue and an object. Out: column definitions and cells; the caller assembles the
//! envelope. Built-in kinds print as kube-apiserver's own printers do, always with the wide columns (the client hides
//! them by priority); structural kinds print by their columns' JSONPaths.

pub(crate) mod cells;
pub(crate) mod cluster;
pub(crate) mod cluster_scoped;
pub(crate) mod core;
pub(crate) mod network;
pub(crate) mod pod;
pub(crate) mod storage;
pub(crate) mod work;
pub(crate) mod workloads;

use jiff::Timestamp;
use karmada_definitions::description::{Column, Resource, Style};
use karmada_definitions::kind_row::{KindRow, TableRow as Row};
use karmada_definitions::resource::LiveColumn;
use karmada_schema::jsonpath::JsonPath;
use karmada_schema::object::extent::Extent;
use serde_json::{Value, json};

use self::cells::Fields as _;

#[cfg(test)]
mod tests;

fn column(name: &str, ty: &str, format: &str) -> Column {
    Column {
        name: name.into(),
        ty: ty.into(),
        format: format.into(),
        priority: 0,
        json_path: None,
        description: String::new(),
    }
}

/// The columns of a resource's table.
pub fn columns(resource: &Resource) -> Vec<Column> {
    let name = column("Name", "string", "name");
    match (resource.style, resource.columns.is_empty()) {
        (Style::Crd, true) => vec![name, column("Age", "date", "")],
        (Style::Crd, false) => std::iter::once(name).chain(resource.columns.iter().cloned()).collect(),
        (_, true) => vec![name, column("Created At", "date", "")],
        (_, false) => resource.columns.clone(),
    }
}

/// One column as a Table's `columnDefinitions` entry.
pub(crate) fn column_definition(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.ty, "format": column.format, "description": column.description, "priority": column.priority,
    })
}

/// The same for a column whose cells are in no object: shown with the wide ones.
pub(crate) fn live_column_definition(column: &LiveColumn) -> Value {
    json!({"name": column.name, "type": "string", "format": "", "description": column.description, "priority": 1})
}

/// The cells of one object, one for each column.
pub fn row(kind: &KindRow, resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let row = Row { object, now };
    if resource.style == Style::Crd {
        return structural_row(kind, resource, row);
    }
    kind.cells.unwrap_or(cells::name_and_created)(row)
}

/// What the cells of a custom object may hold together; those beyond are empty. A definition may have thousands of columns that all
/// show the whole object.
const ROW_BYTES: usize = 256 << 10;

/// How many values are looked at for the cells of one row: columns, elements and filters multiply.
const ROW_STEPS: usize = 100_000;

fn structural_row(kind: &KindRow, resource: &Resource, row: Row<'_>) -> Vec<Value> {
    let mut out = vec![row.name()];
    if resource.columns.is_empty() {
        out.push(row.age());
    }
    let (mut room, mut steps) = (ROW_BYTES, ROW_STEPS);
    for column in &resource.columns {
        let path = column.json_path.as_deref().filter(|_| room > 0 && steps > 0).and_then(JsonPath::parse);
        let found = path.and_then(|path| path.first(row.object, &mut steps));
        let found = found.filter(|value| {
            let bytes = Extent::of(value).bytes;
            room = room.saturating_sub(bytes);
            room > 0
        });
        let cell = || found.map_or(Value::Null, |value| structural_cell(&column.ty, value, row.now));
        out.push((kind.cell)(column, row.object).unwrap_or_else(cell));
    }
    out
}

fn structural_cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(_)) => value.clone(),
        ("string", other) => Value::String(other.to_string()),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().map_or(Value::Null, |float| (float as i64).into()),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match karmada_schema::time::parse(text) {
            Some(time) => cells::since(Some(time), now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
