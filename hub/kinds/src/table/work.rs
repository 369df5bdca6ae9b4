//! Karmada's `Work`, where its column cannot say it.
//!
//! In: a column and the Work. Out: `False` in the column `APPLIED` of a Work whose condition `Applied` is of an older generation; `None`
//! leaves every other cell to its column.

use karmada_definitions::description::Column;
use serde_json::Value;

/// A Work is not applied where what was said of it is overtaken.
pub(crate) fn cell(column: &Column, work: &Value) -> Option<Value> {
    (column.name == "APPLIED" && is_overtaken(work)).then(|| "False".into())
}

/// Whether what a cluster said of a Work is of an older generation than the Work has: the newer one waits for a cluster that is
/// away, and is not applied. A Work that is held back waits for nobody.
fn is_overtaken(work: &Value) -> bool {
    let conditions = work["status"]["conditions"].as_array();
    let applied = conditions.into_iter().flatten().find(|condition| condition["type"] == "Applied");
    let observed = applied.and_then(|condition| condition["observedGeneration"].as_i64());
    let generation = work["metadata"]["generation"].as_i64();
    work["spec"]["suspendDispatching"] != true
        && matches!((observed, generation), (Some(had), Some(has)) if had < has)
}
