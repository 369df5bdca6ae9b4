//! Tables as kubectl prints them. In: rows of text, or the server's Table. Out: columns, three spaces apart.

use serde_json::Value;

/// What of a Table is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape<'a> {
    /// Columns of every priority.
    pub wide: bool,
    /// No first line.
    pub no_headers: bool,
    /// A NAMESPACE column first.
    pub namespaces: bool,
    /// A LABELS column last.
    pub labels: bool,
    /// `kind/` before each name, where several kinds are shown.
    pub prefix: Option<&'a str>,
}

/// A Table of the API as lines.
pub fn of_server(table: &Value, shape: Shape<'_>) -> String {
    let definitions = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
    let shown = |column: &Value| shape.wide || column["priority"].as_i64().unwrap_or(0) == 0;
    let columns: Vec<usize> = (0..definitions.len()).filter(|&at| shown(&definitions[at])).collect();
    let mut rows = Vec::new();
    if !shape.no_headers {
        let names = columns.iter().map(|&at| cell(&definitions[at]["name"]).to_uppercase());
        rows.push(row(shape, "NAMESPACE".to_owned(), names, "LABELS".to_owned()));
    }
    for entry in table["rows"].as_array().into_iter().flatten() {
        let metadata = &entry["object"]["metadata"];
        let cells = columns.iter().map(|&at| match shape.prefix {
            Some(prefix) if definitions[at]["format"] == "name" => {
                format!("{prefix}/{}", cell(&entry["cells"][at]))
            }
            _ => cell(&entry["cells"][at]),
        });
        let namespace = metadata["namespace"].as_str().unwrap_or_default().to_owned();
        rows.push(row(shape, namespace, cells, labels(metadata)));
    }
    of_rows(&rows)
}

fn row(
    shape: Shape<'_>,
    namespace: String,
    cells: impl Iterator<Item = String>,
    labels: String,
) -> Vec<String> {
    let namespace = shape.namespaces.then_some(namespace);
    namespace.into_iter().chain(cells).chain(shape.labels.then_some(labels)).collect()
}

fn labels(metadata: &Value) -> String {
    let pairs = metadata["labels"].as_object().into_iter().flatten();
    let text = pairs.map(|(key, value)| format!("{key}={}", cell(value))).collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".to_owned() } else { text }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        // One line is one object.
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}

/// Rows with columns as wide as their widest cell; nothing stands behind the last cell.
pub fn of_rows(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if at + 1 < row.len() {
                text.extend(std::iter::repeat_n(' ', widths[at] - cell.chars().count() + 3));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_table_is_printed_as_kubectl_does() {
        let table = json!({
            "columnDefinitions": [
                {"name": "Name", "format": "name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Zone", "priority": 1}],
            "rows": [
                {"cells": ["one", true, "a"], "object": {"metadata": {"namespace": "web", "labels": {"x": "y"}}}},
                {"cells": ["another", null, "b\nsecond line"], "object": {"metadata": {"namespace": "db"}}}]});
        assert_eq!(
            of_server(&table, Shape::default()),
            "NAME      READY\none       true\nanother   <none>\n"
        );
        let shape =
            Shape { wide: true, no_headers: true, namespaces: true, labels: true, prefix: Some("thing.io") };
        assert_eq!(
            of_server(&table, shape),
            "web   thing.io/one       true     a   x=y\ndb    thing.io/another   <none>   b   <none>\n"
        );
    }
}
