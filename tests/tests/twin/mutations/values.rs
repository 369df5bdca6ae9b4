//! What a client could write into a field: right, wrong, and at the edges.
//!
//! In: a field's name and shape. Out: values, the same ones in every run.

use serde_json::{Value, json};

use super::schema::{Schemas, Shape};

/// How deep a value is filled in that a schema requires.
const DEEP: usize = 5;

/// Values for one field, wrong ones among them.
pub fn of(schemas: &Schemas, field: &str, shape: Shape<'_>, now: Option<&Value>) -> Vec<Value> {
    let likely = likely(schemas, field, shape, DEEP);
    let mut all = match shape {
        Shape::Text { format, known } => texts(format, known),
        Shape::Whole => [-1, 0, 1, 2, 70_000, 3_000_000_000_i64]
            .into_iter()
            .map(Value::from)
            .chain([json!(1.5), json!("text")])
            .collect(),
        Shape::Number => vec![json!(-1), json!(0), json!("text")],
        Shape::Bool => vec![json!(true), json!(false), json!("text"), json!(1)],
        Shape::Quantity => {
            let texts = [
                "",
                "0",
                "-1",
                "1",
                "100m",
                "1.5",
                "1.500",
                "m",
                " 1",
                "0.1m",
                "1K",
                "2Gi",
                "text",
                "1 Gi",
                "9999999999999999999",
            ];
            texts.into_iter().map(Value::from).chain([json!(1), json!(-1), json!({})]).collect()
        }
        Shape::IntOrText => {
            let texts = ["", "0%", "50%", "150%", "-5%", "http", "Not A Name!", "too-long-for-a-port-name"];
            let numbers = [-1, 0, 1, 70_000].map(Value::from);
            texts.into_iter().map(Value::from).chain(numbers).chain([json!(1.5), json!({})]).collect()
        }
        Shape::List(item) => {
            let item = super::values::likely(schemas, field, schemas.shape(item), DEEP);
            vec![json!([]), json!("text"), json!({}), json!([null]), json!([item]), json!([item, item])]
        }
        Shape::Map(value) => {
            let value = super::values::likely(schemas, field, schemas.shape(value), DEEP);
            let keys = ["a", "", "Not A Key!", "example.com/a", "a/b/c", "-a"];
            let mut all: Vec<Value> = keys.into_iter().map(|key| json!({key: value})).collect();
            all.push(json!({"x".repeat(64): value}));
            all.extend([json!({}), json!("text"), json!([]), json!({"a": null}), json!({"a": [7]})]);
            all
        }
        Shape::Struct { .. } => vec![json!({}), json!("text"), json!([])],
        Shape::Any => vec![json!({}), json!("text"), json!(1), json!([])],
    };
    all.push(likely);
    if let Some(items) = now.and_then(Value::as_array).filter(|items| !items.is_empty()) {
        let twice = items.iter().chain([&items[0]]).cloned().collect();
        all.push(twice);
    }
    let mut seen: Vec<Value> = Vec::new();
    all.retain(|value| {
        let new = !seen.contains(value) && Some(value) != now;
        seen.push(value.clone());
        new
    });
    all
}

fn texts(format: &str, known: &[Value]) -> Vec<Value> {
    let mut all = known.to_vec();
    let plain: &[&str] = match format {
        "date-time" => {
            &["", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000006Z", "2026-01-02", "yesterday"]
        }
        "byte" => &["", "YQ==", "!", "YQ"],
        _ if !known.is_empty() => &["", "Unknown"],
        _ => &["", "Not A Name!", "a.b", "1a", "a/b", "../a", "a_b", "-"],
    };
    all.extend(plain.iter().copied().map(Value::from));
    if known.is_empty() && !matches!(format, "date-time" | "byte") {
        all.extend([json!("x".repeat(64)), json!("x".repeat(300))]);
    }
    all.extend([json!(7), json!({})]);
    all
}

/// A value that a field of that name may well have.
pub fn likely(schemas: &Schemas, field: &str, shape: Shape<'_>, deep: usize) -> Value {
    if deep == 0 {
        return json!({});
    }
    match shape {
        Shape::Text { known: [first, ..], .. } => first.clone(),
        Shape::Text { format: "date-time", .. } => json!("2026-01-02T03:04:05Z"),
        Shape::Text { format: "byte", .. } => json!("YQ=="),
        Shape::Text { .. } => json!(likely_text(field)),
        Shape::Whole if field.to_lowercase().ends_with("port") => json!(8080),
        Shape::Whole | Shape::Number | Shape::IntOrText => json!(1),
        Shape::Bool => json!(true),
        Shape::Quantity => json!("1"),
        Shape::List(item) => json!([likely(schemas, field, schemas.shape(item), deep - 1)]),
        Shape::Map(value) => json!({"a": likely(schemas, field, schemas.shape(value), deep - 1)}),
        Shape::Struct { fields, required, .. } => required
            .iter()
            .filter_map(Value::as_str)
            .map(|name| (name.to_owned(), likely(schemas, name, schemas.shape(&fields[name]), deep - 1)))
            .collect(),
        Shape::Any => json!({"a": "b"}),
    }
}

fn likely_text(field: &str) -> &'static str {
    let field = field.to_lowercase();
    let ends = |words: &[&str]| {
        words.iter().any(|word| field.ends_with(word) || field.ends_with(&format!("{word}s")))
    };
    match () {
        () if ends(&["cidr"]) => "10.1.0.0/16",
        () if ends(&["ip", "address", "nameserver"]) => "10.1.2.3",
        () if ends(&["path"]) => "/a",
        () if ends(&["apiversion"]) => "v1",
        () if ends(&["version"]) => "v1",
        () if ends(&["group"]) => "example.com",
        () if ends(&["expression"]) => "true",
        () if ends(&["finalizer", "signername", "key", "driver"]) => "example.com/a",
        () if ends(&["url"]) => "https://example.com/",
        () => "example",
    }
}
