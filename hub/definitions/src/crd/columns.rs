//! Printer columns of a version.
//!
//! In: a version of a definition. Out: its columns, the first 128 at most. What is wrong with them is refused elsewhere.

use serde_json::Value;

use crate::description::Column;

/// How many columns are shown. A definition may name thousands, and each row of each list would have them all.
const MOST: usize = 128;

/// The columns that a version adds after the name.
pub(super) fn columns_of(version: &Value) -> Vec<Column> {
    let columns = version["additionalPrinterColumns"].as_array();
    columns.into_iter().flatten().take(MOST).map(column).collect()
}

fn column(column: &Value) -> Column {
    let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
    let path = text("jsonPath");
    let description = match text("description") {
        said if said.is_empty() => {
            format!("Custom resource definition column (in JSONPath format): {path}")
        }
        said => said,
    };
    Column {
        name: text("name"),
        ty: text("type"),
        format: text("format"),
        priority: column["priority"].as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        json_path: Some(path),
        description,
    }
}
