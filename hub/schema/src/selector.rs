//! Label selectors, as queries write them and as objects hold them.
//!
//! In: the query's text, or a `LabelSelector` of an object. Out: a predicate on labels, or a sentence that says what cannot be read.

mod labels;

use serde_json::Value;

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

/// A parsed label selector; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    ///
    /// # Errors
    /// It cannot be read; kube-apiserver's sentence says where.
    pub fn parse(text: &str) -> Result<Self, String> {
        labels::parse(text).map(LabelSelector)
    }

    /// From `matchLabels` and `matchExpressions`. An operator that is none matches nothing.
    pub fn of_json(selector: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        let mut all: Vec<Requirement> =
            labels.map(|(key, value)| Requirement::In(key.clone(), vec![text(value)])).collect();
        for one in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = text(&one["key"]);
            let values = one["values"].as_array().into_iter().flatten().map(text).collect();
            all.push(match one["operator"].as_str() {
                Some("NotIn") => Requirement::NotIn(key, values),
                Some("Exists") => Requirement::Exists(key),
                Some("DoesNotExist") => Requirement::Absent(key),
                Some("In") => Requirement::In(key, values),
                _ => Requirement::In(key, Vec::new()),
            });
        }
        LabelSelector(all)
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory that it takes beside itself.
    pub fn size(&self) -> usize {
        let each = self.0.iter().map(|requirement| match requirement {
            Requirement::In(key, values) | Requirement::NotIn(key, values) => {
                let texts: usize = values.iter().map(text_size).sum();
                text_size(key) + values.capacity() * size_of::<String>() + texts
            }
            Requirement::Exists(key)
            | Requirement::Absent(key)
            | Requirement::Greater(key, _)
            | Requirement::Less(key, _) => text_size(key),
        });
        self.0.capacity() * size_of::<Requirement>() + each.sum::<usize>()
    }

    /// Whether labels, looked up by `get`, match.
    pub fn matches<T: AsRef<str>>(&self, get: impl Fn(&str) -> Option<T>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => get(key).is_some_and(|v| values.iter().any(|x| x == v.as_ref())),
            Requirement::NotIn(key, values) => {
                get(key).is_none_or(|v| values.iter().all(|x| x != v.as_ref()))
            }
            Requirement::Exists(key) => get(key).is_some(),
            Requirement::Absent(key) => get(key).is_none(),
            Requirement::Greater(key, n) => number(get(key)).is_some_and(|v| v > *n),
            Requirement::Less(key, n) => number(get(key)).is_some_and(|v| v < *n),
        })
    }
}

/// What a text takes: an allocator gives no less than eight bytes.
fn text_size(text: &String) -> usize {
    text.capacity().next_multiple_of(8)
}

fn number(text: Option<impl AsRef<str>>) -> Option<i64> {
    text?.as_ref().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(selector: &str, have: &[(&str, &str)]) -> bool {
        let parsed = LabelSelector::parse(selector).unwrap();
        parsed.matches(|key| have.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn label_selectors_follow_kubernetes() {
        let have = [("app", "web"), ("tier", "1")];
        for (selector, wanted) in [
            ("app=web", true),
            ("app==web,tier=1", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (db, web)", true),
            ("app notin (db)", true),
            ("other notin (db)", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("tier>0", true),
            ("tier<1", false),
            ("", true),
            ("app in (db),app", false),
        ] {
            assert_eq!(labels(selector, &have), wanted, "{selector}");
        }
        for bad in ["app in (a", "app like (b)", "-x=1", "a=b c", "a>b"] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn selectors_of_objects_follow_kubernetes() {
        let expression = |key: &str, operator: &str| json!({"matchExpressions": [{"key": key, "operator": operator, "values": ["1", "2"]}]});
        for (selector, wanted) in [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchLabels": {"b": "1"}}), false),
            (expression("a", "In"), true),
            (expression("b", "In"), false),
            (expression("a", "NotIn"), false),
            (expression("b", "NotIn"), true),
            (expression("a", "Exists"), true),
            (expression("a", "DoesNotExist"), false),
            (expression("b", "DoesNotExist"), true),
            (expression("a", "Near"), false),
            (expression("b", "Near"), false),
            (json!({"matchExpressions": [{"key": "a", "values": ["1"]}]}), false),
        ] {
            let matches = LabelSelector::of_json(&selector).matches(|key| (key == "a").then_some("1"));
            assert_eq!(matches, wanted, "{selector}");
        }
    }
}
