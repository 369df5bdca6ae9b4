//! APIServices: whose group is served here, and the condition that says whether a group's server answers.
//!
//! In: an APIService or its status, and the time as text. Out: the first status; or the status with the `Available` condition, where that
//! changes it. Pure: the API server's `aggregation` asks the other servers.

use karmada_schema::condition;
use serde_json::{Value, json};

/// The group of APIServices.
pub const GROUP: &str = "apiregistration.k8s.io";

/// The status that one has from the beginning: that of a group that is served here is available.
pub(crate) fn first_status(object: &Value, now: &str) -> Value {
    match object["spec"]["service"].is_object() {
        true => json!({}),
        false => Availability::local().put_into(&Value::Null, now).unwrap_or_default(),
    }
}

/// The condition that an APIService should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Whether the server answers.
    pub available: bool,
    /// Why, in a word.
    pub reason: String,
    /// Why, for a person.
    pub message: String,
}

impl Availability {
    /// Of what is served here.
    pub fn local() -> Availability {
        let message = "Local APIServices are always available".to_owned();
        Availability { available: true, reason: "Local".to_owned(), message }
    }

    /// The status with this condition; `None` where it has it. The time is that of the last change of its value.
    pub fn put_into(&self, status: &Value, now: &str) -> Option<Value> {
        let held = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut all = held.clone();
        let value = if self.available { "True" } else { "False" };
        let new = json!({
            "lastTransitionTime": now, "message": self.message, "reason": self.reason, "status": value, "type": "Available",
        });
        condition::put_among(&mut all, new);
        (all != held).then(|| json!({"conditions": all}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_value_stays() {
        let local = Availability::local();
        let status = local.put_into(&json!({}), "t1").unwrap();
        assert_eq!(local.put_into(&status, "t2"), None);
        let failed = Availability { available: false, reason: "ServiceNotFound".into(), message: "m".into() };
        let status = failed.put_into(&status, "t3").unwrap();
        assert_eq!(
            (&status["conditions"][0]["status"], &status["conditions"][0]["lastTransitionTime"]),
            (&json!("False"), &json!("t3"))
        );
        let other = Availability { reason: "MissingEndpoints".into(), ..failed };
        let status = other.put_into(&status, "t4").unwrap();
        assert_eq!(
            (&status["conditions"][0]["reason"], &status["conditions"][0]["lastTransitionTime"]),
            (&json!("MissingEndpoints"), &json!("t3"))
        );
        assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
    }
}
