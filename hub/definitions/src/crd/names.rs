//! Whose names are whose: two definitions of one group cannot both have a plural, short name or kind.
//!
//! In: every definition. Out: the status each should have. Names that were accepted stay accepted; a definition whose names are
//! all its own is established.

use std::collections::BTreeSet;

use karmada_schema::condition::{self, Said};
use serde_json::{Value, json};

use crate::resource::ResourceDefinition;

/// What others of the group hold.
#[derive(Default)]
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

/// The names that other definitions of the group hold.
fn taken(object: &Value, all: &[&[Value]]) -> Taken {
    let mut taken = Taken::default();
    let others =
        all.iter().copied().flatten().filter(|other| other["metadata"]["name"] != object["metadata"]["name"]);
    for other in others.filter(|other| other["spec"]["group"] == object["spec"]["group"]) {
        let names = &other["status"]["acceptedNames"];
        let text = |field: &str| names[field].as_str().unwrap_or_default().to_owned();
        taken.resources.extend([text("plural"), text("singular")]);
        taken.resources.extend(texts(&names["shortNames"]));
        taken.kinds.extend([text("kind"), text("listKind")]);
    }
    taken.resources.remove("");
    taken.kinds.remove("");
    taken
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|t| t.as_str().map(str::to_owned)).collect()
}

/// A kind that is served without a definition, as the definition that would hold its names.
pub fn of_served(resource: &ResourceDefinition) -> Value {
    json!({
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {"group": &*resource.group},
        "status": {"acceptedNames": {
            "plural": &*resource.plural, "singular": &*resource.singular, "kind": &*resource.kind,
            "listKind": format!("{}List", resource.kind),
            "shortNames": resource.short_names.iter().map(|name| &**name).collect::<Vec<&str>>(),
        }},
    })
}

/// The status that `object` should have beside `all`: accepted names and conditions. `now` stamps conditions that change.
pub fn status_beside(object: &Value, all: &[&[Value]], now: &str) -> Value {
    let mut judged = object.clone();
    let conflict = accept(&mut judged, &taken(object, all));
    let accepted = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("False", *reason, message.as_str()),
    };
    say(&mut judged, "NamesAccepted", accepted, now);
    if !condition::is_true(&judged, "Established") {
        let established = match conflict {
            None => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
            Some(_) => ("False", "NotAccepted", "not all names are accepted"),
        };
        say(&mut judged, "Established", established, now);
    }
    approval(&mut judged, now);
    judged["status"].take()
}

fn say(object: &mut Value, kind: &str, (status, reason, message): (&str, &str, &str), now: &str) {
    condition::say(object, Said { kind, status, reason, message }, now);
}

/// Accepts what can be; the last conflict is the reason.
fn accept(object: &mut Value, taken: &Taken) -> Option<(&'static str, String)> {
    let wanted = object["spec"]["names"].clone();
    let mut accepted = object["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({});
    }
    let mut conflict = None;
    let mut take = |field: &str, reason: &'static str, is_resource: bool, accepted: &mut Value| {
        let name = wanted[field].as_str().unwrap_or_default();
        let held = if is_resource { &taken.resources } else { &taken.kinds };
        if accepted[field] != wanted[field] && held.contains(name) {
            conflict = Some((reason, format!("{name:?} is already in use")));
        } else {
            accepted[field] = json!(name);
        }
    };
    take("plural", "PluralConflict", true, &mut accepted);
    take("singular", "SingularConflict", true, &mut accepted);
    take("kind", "KindConflict", false, &mut accepted);
    take("listKind", "ListKindConflict", false, &mut accepted);
    let had = texts(&accepted["shortNames"]);
    let fresh = texts(&wanted["shortNames"]).into_iter().filter(|name| !had.contains(name));
    let clashing: Vec<String> = fresh
        .filter(|name| taken.resources.contains(name))
        .map(|n| format!("{n:?} is already in use"))
        .collect();
    if clashing.is_empty() {
        copy(&wanted, &mut accepted, "shortNames");
    } else {
        let message =
            if let [one] = clashing.as_slice() { one.clone() } else { format!("[{}]", clashing.join(", ")) };
        conflict = Some(("ShortNamesConflict", message));
    }
    copy(&wanted, &mut accepted, "categories");
    object["status"]["acceptedNames"] = accepted;
    conflict
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(field).filter(|value| !value.is_null()) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// The annotation in which a definition of such a group says who approved it.
pub const APPROVED: &str = "api-approved.kubernetes.io";

/// Groups under `k8s.io` and `kubernetes.io` say who approved them.
fn approval(object: &mut Value, now: &str) {
    let group = object["spec"]["group"].as_str().unwrap_or_default();
    if !is_protected(group) {
        return;
    }
    let said = object["metadata"]["annotations"][APPROVED].as_str().unwrap_or_default();
    let kind = "KubernetesAPIApprovalPolicyConformant";
    if said.starts_with("unapproved") {
        let message = format!("not approved: {said:?}");
        say(object, kind, ("False", "UnapprovedAnnotation", &message), now);
    } else if !said.is_empty() {
        let message = format!("approved in {said}");
        say(object, kind, ("True", "ApprovedAnnotation", &message), now);
    }
}

/// Whether the group is one of the Kubernetes project's own.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::named;

    fn definition(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.a.b")},
            "spec": {"group": "a.b", "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": short,
            }},
        })
    }

    fn reason(status: &Value, kind: &str) -> String {
        let all = status["conditions"].as_array().unwrap();
        let one = all.iter().find(|condition| condition["type"] == kind).unwrap();
        format!(
            "{} {} {}",
            one["status"].as_str().unwrap(),
            one["reason"].as_str().unwrap(),
            one["message"].as_str().unwrap()
        )
    }

    #[test]
    fn the_first_to_ask_has_the_names() {
        let mut first = definition("foos", "Foo", &["f"]);
        first["status"] = status_beside(&first, &[], "t1");
        assert_eq!(
            reason(&first["status"], "Established"),
            "True InitialNamesAccepted the initial names have been accepted"
        );
        for (other, wanted) in [
            (definition("bars", "Foo", &[]), "False ListKindConflict \"FooList\" is already in use"),
            (definition("bars", "Bar", &["f"]), "False ShortNamesConflict \"f\" is already in use"),
            (definition("bars", "Bar", &["foos"]), "False ShortNamesConflict \"foos\" is already in use"),
            (definition("bars", "Bar", &["b"]), "True NoConflicts no conflicts found"),
        ] {
            let status = status_beside(&other, &[&[first.clone(), other.clone()]], "t2");
            assert_eq!(reason(&status, "NamesAccepted"), wanted);
        }
        assert_eq!(
            status_beside(&first, &[&[first.clone()]], "t3"),
            first["status"],
            "nothing changes by itself"
        );
    }

    #[test]
    fn a_kind_that_is_served_without_a_definition_has_its_names() {
        let works = json!({"group": "work.karmada.io", "version": "v1alpha1", "plural": "works", "kind": "Work",
            "singular": "work", "namespaced": true, "style": "crd", "verbs": ["get"]});
        let works = named(&serde_json::from_value(works).unwrap());
        let mut other = definition("evilworks", "Work", &[]);
        other["spec"]["group"] = json!("work.karmada.io");
        let status = status_beside(&other, &[&[other.clone()], &[of_served(&works)]], "t1");
        assert_eq!(reason(&status, "NamesAccepted"), "False ListKindConflict \"WorkList\" is already in use");
        assert_eq!(reason(&status, "Established"), "False NotAccepted not all names are accepted");
    }
}
