//! Conditions in an object's status.
//!
//! In: objects as trees, a condition with all its fields. Out: the object with that condition in the place of the one of its type.

use serde_json::{Value, json};

/// Puts a condition into `status.conditions`, where it takes the place of the one of its type. Its `lastTransitionTime`, which the caller
/// gives as the present, is that of the one before where its `status` is.
pub fn put(object: &mut Value, mut condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let Some(held) = conditions.iter_mut().find(|held| held["type"] == condition["type"]) else {
        return conditions.push(condition);
    };
    if held["status"] == condition["status"] {
        condition["lastTransitionTime"] = held["lastTransitionTime"].take();
    }
    *held = condition;
}

/// The condition of a type.
pub fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether the condition of a type is true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_moves_with_its_status_alone() {
        let mut object = json!({"metadata": {"name": "a"}});
        let mut told = |status: &str, reason: &str, now: &str| {
            put(
                &mut object,
                json!({"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": now}),
            );
            put(&mut object, json!({"type": "Other", "status": "True", "lastTransitionTime": "t0"}));
            let ready = find(&object, "Ready").unwrap();
            assert_eq!(object["status"]["conditions"].as_array().unwrap().len(), 2);
            (ready["reason"].clone(), ready["lastTransitionTime"].clone(), is_true(&object, "Ready"))
        };
        assert_eq!(told("True", "a", "t1"), (json!("a"), json!("t1"), true));
        assert_eq!(told("True", "b", "t2"), (json!("b"), json!("t1"), true));
        assert_eq!(told("False", "b", "t3"), (json!("b"), json!("t3"), false));
    }
}
