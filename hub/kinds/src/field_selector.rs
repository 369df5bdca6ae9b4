//! Field selectors of list, watch and deletecollection, and what a request selects by altogether.
//!
//! In: the query's text and the resource. Out: a predicate on stored objects, or a 400 that says what cannot be read.

use karmada_definitions::kind_row::SelectableField;
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
    /// What the kind's row says of the field; none of name, namespace, and fields of custom kinds, which stand where their path says.
    row: Option<&'static SelectableField>,
    value: String,
    equal: bool,
}

impl FieldTerm {
    /// What the field is in an object.
    fn text(&self, object: &Value) -> String {
        let Some(row) = self.row else {
            return text(self.path.split('.').fold(object, |at, part| &at[part]));
        };
        let mut texts = row.paths.iter().map(|path| text(path.iter().fold(object, |at, part| &at[*part])));
        texts.find(|text| !text.is_empty()).unwrap_or_else(|| row.absent.to_owned())
    }
}

/// A value as selectors compare it; a field that is not there is empty.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
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
            let row = shipped.iter().find(|field| field.label == path);
            let known = matches!(path, "metadata.name" | "metadata.namespace")
                || row.is_some()
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
            terms.push(FieldTerm { path: path.to_owned(), row, value: value.to_owned(), equal });
        }
        Ok(FieldSelector(terms))
    }

    /// Of one name.
    pub fn of_name(name: &str) -> Self {
        let (path, value) = ("metadata.name".to_owned(), name.to_owned());
        FieldSelector(vec![FieldTerm { path, row: None, value, equal: true }])
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
                _ => term.text(parsed.get_or_insert_with(|| object.value())) == term.value,
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

#[cfg(test)]
mod tests {
    use karmada_definitions::resource::named;
    use serde_json::json;

    use super::*;

    fn said(group: &str, version: &str, plural: &str, field: &str, object: &Value) -> String {
        let shipped = crate::catalogue::shipped();
        let definition = shipped.resource(group, version, plural).unwrap();
        FieldSelector::parse(&format!("{field}=x"), definition).unwrap().0[0].text(object)
    }

    #[test]
    fn an_event_is_found_by_who_reported_it_in_either_form() {
        let event = |source: &str, reporting: &str| json!({"kind": "Event", "apiVersion": "v1", "source": {"component": source}, "reportingComponent": reporting});
        for (group, field, source, reporting, wanted) in [
            ("", "source", "kubelet", "", "kubelet"),
            ("", "source", "kubelet", "other", "kubelet"),
            ("", "source", "", "test-controller", "test-controller"),
            ("", "reportingComponent", "kubelet", "test-controller", "test-controller"),
            ("events.k8s.io", "reportingController", "", "test-controller", "test-controller"),
        ] {
            assert_eq!(said(group, "v1", "events", field, &event(source, reporting)), wanted, "{field}");
        }
        let about = json!({"involvedObject": {"name": "web"}});
        assert_eq!(said("", "v1", "events", "involvedObject.name", &about), "web");
        assert_eq!(said("events.k8s.io", "v1", "events", "regarding.name", &about), "web");
    }

    #[test]
    fn what_an_object_does_not_say_is_what_its_kind_says() {
        let nothing = json!({});
        assert_eq!(said("", "v1", "nodes", "spec.unschedulable", &nothing), "false");
        assert_eq!(
            said("", "v1", "nodes", "spec.unschedulable", &json!({"spec": {"unschedulable": true}})),
            "true"
        );
        assert_eq!(said("", "v1", "pods", "spec.hostNetwork", &nothing), "false");
        assert_eq!(said("", "v1", "pods", "status.phase", &nothing), "");
        assert_eq!(said("", "v1", "replicationcontrollers", "status.replicas", &nothing), "0");
    }

    /// A field of a custom kind may be called as one of an event is.
    #[test]
    fn a_custom_kinds_fields_stand_where_they_say() {
        let term =
            |path: &str| FieldTerm { path: path.to_owned(), row: None, value: String::new(), equal: true };
        let spring = json!({"kind": "Spring", "apiVersion": "x.org/v1", "source": "rain", "regarding": {"name": "hill"}});
        assert_eq!(term("source").text(&spring), "rain");
        assert_eq!(term("regarding.name").text(&spring), "hill");
        assert_eq!(term("status.replicas").text(&spring), "");
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
