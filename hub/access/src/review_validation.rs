//! What an access review may say, and which of its selectors cannot be read.
//!
//! Pure. In: a review as sent. Out: every rule it breaks, as kube-apiserver lists them; or the sentence that says which selector
//! was passed over. Selectors narrow what is asked about; RBAC looks at none, so that nothing else comes of them.

use karmada_definitions::status::Cause;
use karmada_schema::fields::text;
use karmada_schema::object::meta;
use karmada_schema::selector::LabelSelector;
use serde_json::Value;

fn cause(reason: &'static str, field: &str, message: String) -> Cause {
    Cause { reason: reason.into(), message, field: field.to_owned() }
}

fn invalid(field: &str, value: &str, why: &str) -> Cause {
    cause("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// What is asked about a path, as Go prints it.
fn path_shown(asked: &Value) -> String {
    format!("{{\"Path\":{},\"Verb\":{}}}", quoted(text(asked, "path")), quoted(text(asked, "verb")))
}

/// Every rule that a review breaks. `local`: the namespace of a LocalSubjectAccessReview; `own`: it asks about the asker.
pub(super) fn problems(review: &Value, own: bool, local: Option<&str>) -> Vec<Cause> {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut all = Vec::new();
    if resource.is_object() && path.is_object() {
        let why = "cannot be specified in combination with resourceAttributes";
        all.push(invalid("spec.nonResourceAttributes", &path_shown(path), why));
    }
    if !resource.is_object() && !path.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        all.push(invalid("spec.resourceAttributes", "null", why));
    }
    let nobody = text(spec, "user").is_empty() && spec["groups"].as_array().is_none_or(Vec::is_empty);
    if !own && nobody {
        all.push(invalid("spec.user", "\"\"", "at least one of user or group must be specified"));
    }
    for (field, is_label) in [("fieldSelector", false), ("labelSelector", true)] {
        if resource[field].is_object() {
            selector(&resource[field], &format!("spec.resourceAttributes.{field}"), is_label, &mut all);
        }
    }
    let (metadata, why) = match local {
        Some(_) => (shown(review, &["namespace"]), "must be empty except for namespace"),
        None => (shown(review, &[]), "must be empty"),
    };
    if let Some(metadata) = metadata {
        all.push(invalid("metadata", &metadata, why));
    }
    if let Some(namespace) = local {
        let asked = text(resource, "namespace");
        if resource.is_object() && asked != namespace {
            let why = "must match metadata.namespace";
            all.push(invalid("spec.resourceAttributes.namespace", &quoted(asked), why));
        }
        if path.is_object() {
            let why = "disallowed on this kind of request";
            all.push(invalid("spec.nonResourceAttributes", &path_shown(path), why));
        }
    }
    all
}

/// The metadata as Go's JSON has it, where there is any beside what the server itself put there.
fn shown(review: &Value, may: &[&str]) -> Option<String> {
    const ENTRY: [&str; 7] =
        ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let blank = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let metadata = &review["metadata"];
    let said = |field: &&&str| !blank(&metadata[**field]);
    let order = meta::FIELDS.into_iter().filter(|field| *field != "managedFields").collect::<Vec<_>>();
    if !order.iter().filter(said).any(|field| !may.contains(field)) {
        return None;
    }
    let ordered = |value: &Value, order: &[&str]| {
        let fields = order.iter().filter(|field| !blank(&value[**field]));
        fields.map(|field| format!("\"{field}\":{}", value[*field])).collect::<Vec<_>>()
    };
    let mut fields = ordered(metadata, &order);
    if let Some(entries) = metadata["managedFields"].as_array().filter(|entries| !entries.is_empty()) {
        let entries: Vec<String> =
            entries.iter().map(|entry| format!("{{{}}}", ordered(entry, &ENTRY).join(","))).collect();
        fields.push(format!("\"managedFields\":[{}]", entries.join(",")));
    }
    Some(format!("{{{}}}", fields.join(",")))
}

fn selector(selector: &Value, at: &str, is_label: bool, all: &mut Vec<Cause>) {
    let raw = text(selector, "rawSelector");
    let requirements = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        all.push(invalid(&format!("{at}.rawSelector"), &quoted(raw), why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("Required value: when {at} is specified, requirements or rawSelector is required");
        all.push(cause("FieldValueRequired", &format!("{at}.requirements"), why));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let at = format!("{at}.requirements[{index}]");
        let values = requirement["values"].as_array().is_some_and(|values| !values.is_empty());
        let required = |field: &str, why: &str| {
            cause("FieldValueRequired", &format!("{at}.{field}"), format!("Required value: {why}"))
        };
        if !is_label && text(requirement, "key").is_empty() {
            all.push(required("key", "must be specified"));
        }
        match text(requirement, "operator") {
            "In" | "NotIn" if !values => {
                all.push(required("values", "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if values => {
                let why = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                all.push(cause("FieldValueForbidden", &format!("{at}.values"), why.to_owned()));
            }
            _ => {}
        }
        if is_label {
            let key = text(requirement, "key");
            for why in karmada_schema::names::qualified_name(key) {
                all.push(invalid(&format!("{at}.key"), &quoted(key), &why));
            }
        }
    }
}

/// Which selectors were passed over, wholly or in part, as they cannot be read.
pub(super) fn passed_over(review: &Value) -> Option<String> {
    let resource = &review["spec"]["resourceAttributes"];
    let told =
        [("fieldSelector", false), ("labelSelector", true)].into_iter().filter_map(|(field, is_label)| {
            let (good, bad) = readable(&resource[field], is_label);
            let partly = if good { "partially " } else { "" };
            bad.then(|| format!("spec.resourceAttributes.{field} {partly}ignored due to parse error"))
        });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Whether a selector has parts that can be read, and parts that cannot.
fn readable(selector: &Value, is_label: bool) -> (bool, bool) {
    let raw = text(selector, "rawSelector");
    if !raw.is_empty() {
        let good = match is_label {
            true => LabelSelector::parse(raw).is_ok(),
            false => raw.split(',').all(|term| term.is_empty() || term.contains('=')),
        };
        return (good, !good);
    }
    let (mut good, mut bad) = (false, false);
    for requirement in selector["requirements"].as_array().into_iter().flatten() {
        let values = requirement["values"].as_array().map_or(0, Vec::len);
        let reads = match text(requirement, "operator") {
            "In" | "NotIn" => is_label || values == 1,
            "Exists" | "DoesNotExist" => is_label,
            _ => false,
        };
        good |= reads;
        bad |= !reads;
    }
    (good, bad)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_broken_rule_is_told() {
        let pods = || json!({"verb": "get", "resource": "pods", "namespace": "a"});
        let fields = |review: Value, own, local| {
            problems(&review, own, local).into_iter().map(|cause| cause.field).collect::<Vec<_>>()
        };
        assert!(fields(json!({"spec": {"resourceAttributes": pods()}}), true, None).is_empty());
        assert_eq!(fields(json!({"spec": {"resourceAttributes": pods()}}), false, None), ["spec.user"]);
        assert_eq!(fields(json!({"spec": {"user": "u"}}), false, None), ["spec.resourceAttributes"]);
        let local = json!({"metadata": {"name": "n", "namespace": "b"},
            "spec": {"user": "u", "resourceAttributes": pods(), "nonResourceAttributes": {"path": "/"}}});
        assert_eq!(
            fields(local, false, Some("b")),
            [
                "spec.nonResourceAttributes",
                "metadata",
                "spec.resourceAttributes.namespace",
                "spec.nonResourceAttributes"
            ]
        );
        let mut selected = pods();
        selected["labelSelector"] = json!({"requirements": [{"key": "a b", "operator": "In"}]});
        selected["fieldSelector"] = json!({});
        assert_eq!(
            fields(json!({"spec": {"resourceAttributes": selected}}), true, None),
            [
                "spec.resourceAttributes.fieldSelector.requirements",
                "spec.resourceAttributes.labelSelector.requirements[0].values",
                "spec.resourceAttributes.labelSelector.requirements[0].key"
            ]
        );
    }

    #[test]
    fn selectors_that_cannot_be_read_are_passed_over_and_that_is_told() {
        let told = |selector: Value| {
            passed_over(&json!({"spec": {"resourceAttributes": {"labelSelector": selector}}}))
        };
        let requirement = |operator: &str| json!({"key": "a", "operator": operator, "values": ["b"]});
        assert_eq!(told(json!(null)), None);
        assert_eq!(told(json!({"rawSelector": "a=b"})), None);
        let whole = "spec.resourceAttributes.labelSelector ignored due to parse error";
        assert_eq!(told(json!({"rawSelector": "a=b=c"})).as_deref(), Some(whole));
        assert_eq!(told(json!({"requirements": [requirement("Dance")]})).as_deref(), Some(whole));
        assert_eq!(
            told(json!({"requirements": [requirement("Dance"), requirement("In")]})).unwrap(),
            whole.replace("ignored", "partially ignored")
        );
    }
}
