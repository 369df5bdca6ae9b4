//! Field selectors of list, watch and deletecollection, and what a request selects by altogether.
//!
//! In: the query's text and the resource. Out: a predicate on stored objects, or a 400 that says what cannot be read.

use karmada_definitions::resource::{Family, ResourceDefinition};
use karmada_definitions::status::Status;
use karmada_schema::object::Stored;
use karmada_schema::selector::LabelSelector;
use serde_json::Value;

/// A parsed field selector; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector(Vec<FieldTerm>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

/// Both selectors of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    /// On labels.
    pub labels: LabelSelector,
    /// On fields.
    pub fields: FieldSelector,
}

impl Selector {
    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.0.is_empty()
    }

    /// Bytes of memory that both take beside themselves.
    pub fn size(&self) -> usize {
        let terms = &self.fields.0;
        let texts = terms.iter().map(|term| term.path.capacity() + term.value.capacity());
        self.labels.size() + terms.capacity() * size_of::<FieldTerm>() + texts.sum::<usize>()
    }

    /// Whether the object matches both.
    pub fn matches(&self, object: &Stored) -> bool {
        self.labels.matches(|key| object.label(key)) && self.fields.matches(object)
    }
}

/// What Pods may be selected by.
pub(crate) const POD: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];

/// What events of the core group may be selected by.
pub(crate) const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// What events of their own group may be selected by.
pub(crate) const EVENTS_V1: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

impl FieldSelector {
    /// Reads `metadata.name=a,status.phase!=Running` for a resource; a field it cannot be selected by is a 400.
    ///
    /// # Errors
    /// The text cannot be read, or names a field that the kind cannot be selected by.
    pub fn parse(text: &str, definition: &ResourceDefinition) -> Result<Self, Status> {
        let shipped = definition.row.selectable;
        let own = definition.custom.as_ref().map_or(&[] as &[String], |custom| &custom.selectable);
        let mut terms = Vec::new();
        for term in text.split(',').filter(|t| !t.trim().is_empty()) {
            let (path, value, equal) = split_field_term(term).ok_or_else(|| {
                Status::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            let known = matches!(path, "metadata.name" | "metadata.namespace")
                || shipped.contains(&path)
                || own.iter().any(|field| field == path);
            if !known {
                let has_own = !shipped.is_empty() || definition.family == Family::Custom;
                return Err(Status::bad_request(match has_own {
                    true => format!("field label not supported: {path}"),
                    false => format!(
                        "\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ),
                }));
            }
            terms.push(FieldTerm { path: path.to_owned(), value: value.to_owned(), equal });
        }
        Ok(FieldSelector(terms))
    }

    /// Of one name.
    pub fn of_name(name: &str) -> Self {
        FieldSelector(vec![FieldTerm { path: "metadata.name".into(), value: name.to_owned(), equal: true }])
    }

    /// The name that every match must have, if the selector fixes one.
    pub fn name(&self) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.path == "metadata.name").map(|t| t.value.as_str())
    }

    fn matches(&self, object: &Stored) -> bool {
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|term| {
            let equal = match term.path.as_str() {
                "metadata.name" => *object.key.name == *term.value,
                "metadata.namespace" => *object.key.namespace == *term.value,
                path => field_text(parsed.get_or_insert_with(|| object.value()), path) == term.value,
            };
            equal == term.equal
        })
    }
}

fn split_field_term(term: &str) -> Option<(&str, &str, bool)> {
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some((path, value)) = term.split_once(operator) {
            return Some((path.trim(), value.trim(), equal));
        }
    }
    None
}

fn field_text(object: &Value, path: &str) -> String {
    // Events are stored in their core form, whichever group they came through.
    let event = object["kind"] == "Event" && object["apiVersion"] == "v1";
    let stored_path = match path {
        "reportingController" if event => "reportingComponent".to_owned(),
        // Who reports in the newer form leaves the source empty.
        "source" if event && object["source"]["component"].as_str().is_none_or(str::is_empty) => {
            "reportingComponent".to_owned()
        }
        "source" if event => "source.component".to_owned(),
        _ => path.replacen("regarding.", "involvedObject.", 1),
    };
    let mut at = object;
    for part in stored_path.split('.') {
        at = &at[part];
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Null if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        Value::Null if path == "status.replicas" => "0".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use karmada_definitions::resource::named;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_found_by_who_reported_it_in_either_form() {
        let event = |source: &str, reporting: &str| json!({"kind": "Event", "apiVersion": "v1", "source": {"component": source}, "reportingComponent": reporting});
        for (field, source, reporting, wanted) in [
            ("source", "kubelet", "", "kubelet"),
            ("source", "kubelet", "other", "kubelet"),
            ("source", "", "test-controller", "test-controller"),
            ("reportingComponent", "kubelet", "test-controller", "test-controller"),
            ("reportingController", "", "test-controller", "test-controller"),
        ] {
            assert_eq!(field_text(&event(source, reporting), field), wanted, "{field}");
        }
        assert_eq!(
            field_text(&json!({"kind": "Spring", "apiVersion": "x.org/v1", "source": "rain"}), "source"),
            "rain"
        );
    }

    #[test]
    fn field_selectors_know_their_fields() {
        let shipped = crate::catalogue::shipped();
        let parse = |text: &str, group: &str, version: &str, plural: &str| {
            FieldSelector::parse(text, shipped.resource(group, version, plural).unwrap())
        };
        assert!(parse("status.phase!=Running", "", "v1", "pods").is_ok());
        assert_eq!(parse("metadata.name=a", "", "v1", "configmaps").unwrap().name(), Some("a"));
        let refused = parse("spec.replicas=1", "", "v1", "replicationcontrollers").unwrap_err();
        assert_eq!(refused.message, "field label not supported: spec.replicas");
        let refused = parse("spec.replicas=1", "apps", "v1", "deployments").unwrap_err();
        assert!(refused.message.starts_with("\"spec.replicas\" is not a known field selector"));
        let refused = parse("spec.a=1", "work.karmada.io", "v1alpha1", "works").unwrap_err();
        assert_eq!(refused.message, "field label not supported: spec.a");
        let mut widgets = crate::catalogue::of_kind("work.karmada.io", "v1alpha1", "Work").unwrap().clone();
        widgets.group = "shop.example.com".into();
        let refused = FieldSelector::parse("spec.a=1", &named(&widgets)).unwrap_err();
        assert_eq!(refused.message, "field label not supported: spec.a", "any custom kind");
    }
}
