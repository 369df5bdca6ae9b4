//! Which Pods are a target's: its label selector as text. In: the JSON of a target. Out: the selector as a query has it, or none: then no
//! Pods are looked for, rather than all.

use serde_json::Value;

/// The selector of a target that has a scale: what its status says, and else what its spec says. None where neither selects anything.
pub fn selector(target: &Value) -> Option<String> {
    let said = target.pointer("/status/selector").and_then(Value::as_str);
    let text = said.map(str::to_owned).or_else(|| of_spec(target.pointer("/spec/selector")?));
    text.filter(|text| !text.is_empty())
}

fn of_spec(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let fields = selector.as_object()?;
    let structured = fields.contains_key("matchLabels") || fields.contains_key("matchExpressions");
    let labels = if structured { selector.get("matchLabels") } else { Some(selector) };
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let equal = labels.map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let rules = selector.get("matchExpressions").filter(|_| structured).and_then(Value::as_array);
    let ruled = rules.into_iter().flatten().map(requirement);
    let all: Option<Vec<String>> = equal.chain(ruled).collect();
    Some(all?.join(","))
}

/// A requirement; none where it is none that is known, as its Pods could then not be told from others.
fn requirement(rule: &Value) -> Option<String> {
    let key = rule.get("key")?.as_str()?;
    let values = rule.get("values").and_then(Value::as_array).into_iter().flatten();
    let values: Option<Vec<&str>> = values.map(Value::as_str).collect();
    let values = values?.join(",");
    match rule.get("operator")?.as_str()? {
        "In" => Some(format!("{key} in ({values})")),
        "NotIn" => Some(format!("{key} notin ({values})")),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_of_every_form_are_text() {
        let of = |target: Value| selector(&target);
        let rules = json!([{"key": "tier", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"},
            {"key": "x", "operator": "NotIn", "values": ["y"]}, {"key": "z", "operator": "Exists"}]);
        let deployment =
            json!({"spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": rules}}});
        assert_eq!(of(deployment).as_deref(), Some("app=web,tier in (a,b),!old,x notin (y),z"));
        assert_eq!(
            of(json!({"spec": {"selector": {"app": "web", "b": "c"}}})).as_deref(),
            Some("app=web,b=c")
        );
        let custom = json!({"spec": {"selector": {"app": "no"}}, "status": {"selector": "app=lamp"}});
        assert_eq!(of(custom).as_deref(), Some("app=lamp"));
        for nothing in [json!({}), json!({"spec": {"selector": {}}}), json!({"status": {"selector": ""}})] {
            assert_eq!(of(nothing), None);
        }
        let unknown = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}});
        assert_eq!(of(unknown), None);
    }
}
