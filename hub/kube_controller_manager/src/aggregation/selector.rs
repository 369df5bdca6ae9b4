//! Label selectors (`matchLabels`, `matchExpressions`) as JSON, matched against labels. Pure.
//!
//! In: a selector as it stands in an object, and an object's labels. Out: whether it matches. What is wrong with a selector is refused
//! where it is written, and not here.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether the labels meet the selector. An empty selector meets all, as in Kubernetes; one that cannot be read meets none.
pub(super) fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let equal =
        equal.map(|(key, value)| value.as_str().is_some_and(|v| labels.get(key).is_some_and(|l| l == v)));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let mut all = equal.chain(expressions.map(|expression| meets(expression, labels)));
    selector.is_object() && all.all(|met| met)
}

fn meets(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let Some(key) = expression["key"].as_str() else { return false };
    let label = labels.get(key);
    let listed = || {
        let values = expression["values"].as_array().into_iter().flatten();
        label.is_some_and(|label| values.filter_map(Value::as_str).any(|value| value == label))
    };
    match expression["operator"].as_str() {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => label.is_some(),
        Some("DoesNotExist") => label.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let expression = |key: &str, operator: &str| json!({"matchExpressions": [{"key": key, "operator": operator, "values": ["1", "2"]}]});
        let table = [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchLabels": {"b": "1"}}), false),
            (expression("a", "In"), true),
            (expression("b", "In"), false),
            (expression("a", "NotIn"), false),
            (expression("b", "NotIn"), true),
            (expression("a", "Exists"), true),
            (expression("a", "DoesNotExist"), false),
            (expression("a", "Near"), false),
        ];
        for (selector, expected) in table {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
