//! Conditions of objects that are read with their types. Those of objects as JSON are `karmada_schema::condition`'s.
//!
//! In: the conditions that stand, and one that is to be among them. Out: the same with that one; its time of transition moves only when its
//! status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::time::whole_seconds;

/// A condition that starts now.
pub fn new_condition(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(whole_seconds(now)),
        observed_generation: None,
    }
}

/// A condition that is said anew, since when its status has been what it is.
#[must_use]
fn carried_on(before: Option<&Condition>, wanted: Condition) -> Condition {
    match before.filter(|before| before.status == wanted.status) {
        Some(before) => Condition { last_transition_time: before.last_transition_time.clone(), ..wanted },
        None => wanted,
    }
}

/// Sets a condition; whether anything changed.
pub fn set_condition(conditions: &mut Vec<Condition>, wanted: Condition) -> bool {
    let Some(old) = conditions.iter_mut().find(|condition| condition.type_ == wanted.type_) else {
        conditions.push(wanted);
        return true;
    };
    let wanted = carried_on(Some(old), wanted);
    if *old == wanted {
        return false;
    }
    *old = wanted;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_moves_with_its_status_alone() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut all = vec![new_condition("Other", "True", "r", "", at(1))];
        let mut told = |status: &str, reason: &str, second: i64| {
            let changed = set_condition(&mut all, new_condition("Ready", status, reason, "", at(second)));
            (changed, all[1].reason.clone(), all[1].last_transition_time.0.as_second(), all.len())
        };
        assert_eq!(told("True", "a", 2), (true, "a".to_owned(), 2, 2));
        assert_eq!(told("True", "a", 3), (false, "a".to_owned(), 2, 2));
        assert_eq!(told("True", "b", 4), (true, "b".to_owned(), 2, 2));
        assert_eq!(told("False", "b", 5), (true, "b".to_owned(), 5, 2));
    }
}
