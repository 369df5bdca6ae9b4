//! Which LinkPolicies may be stored.
//!
//! In: the JSON of a policy. Out: what is wrong with its selector and with the duration of `deletes`. Pure.

use karmada_field::FieldError;
use serde_json::Value;

use super::labels::validate_label_selector;
use crate::link_policy::LinkPolicy;

/// What is wrong with a policy.
pub fn validate_link_policy(new: &Value) -> Vec<FieldError> {
    let policy: LinkPolicy = match super::read(new, "") {
        Ok(policy) => policy,
        Err(unreadable) => return unreadable,
    };
    let selector = policy.spec.cluster_selector.iter();
    let mut errors: Vec<FieldError> =
        selector.flat_map(|selector| validate_label_selector(selector, "spec.clusterSelector")).collect();
    let deletes = policy.spec.deletes.iter();
    errors.extend(deletes.filter(|deletes| deletes.within_seconds().is_none()).map(|deletes| {
        let why = "must be a duration between 1s and 24h, as in 60s, 5m or 1h30m";
        FieldError::invalid("spec.deletes.within", deletes.within.as_str(), why)
    }));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_is_a_duration_of_a_day_at_most() {
        for (within, stands) in [
            ("60s", true),
            ("1h30m", true),
            ("24h", true),
            ("", false),
            ("0s", false),
            ("25h", false),
            ("-5s", false),
            ("soon", false),
        ] {
            let policy = json!({"metadata": {"name": "a"}, "spec": {"deletes": {"within": within}}});
            assert_eq!(validate_link_policy(&policy).is_empty(), stands, "{within}");
        }
        let policy = json!({"spec": {"clusterSelector": {"matchLabels": {"a b": "c"}}}});
        assert_eq!(validate_link_policy(&policy)[0].field, "spec.clusterSelector.matchLabels");
        assert!(validate_link_policy(&json!({"spec": {}})).is_empty());
    }
}
