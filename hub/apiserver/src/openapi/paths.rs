//! Paths and operations of a resource: enough for clients that look up what a kind's verbs and parameters are.
//!
//! In: a served resource, the dialect, and the document's components. Out: its paths, each with its operations as JSON; the components that
//! they name are added to the document's.

use karmada_definitions::description::{Style, Subresource};
use karmada_schema::Schemas;
use serde_json::{Map, Value, json};

use super::address::gvk;
use super::components::Components;
use super::{Dialect, ServedResource};

const MERGE: &str = "application/merge-patch+json";
const PATCHES: [&str; 3] = ["application/json-patch+json", MERGE, "application/apply-patch+yaml"];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A body or an answer: which component.
#[derive(Clone, Copy)]
enum Body<'b> {
    Own,
    List,
    Status,
    Options,
    Patch,
    Other(&'b (String, String, String)),
    None,
}

/// The paths of one resource, in order.
pub(super) fn items<'a>(
    served: ServedResource<'a>,
    dialect: Dialect,
    components: &mut Components<'a>,
) -> Vec<(String, Value)> {
    let resource = served.resource;
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{scope}/{}", resource.plural);
    let one = format!("{collection}/{{name}}");
    let mut build = Build { served, dialect, components };
    let mut out = vec![
        (collection, build.item(&COLLECTION, None, Of::Many)),
        (one.clone(), build.item(&ONE, None, Of::One)),
    ];
    for sub in &resource.subresources {
        out.push((format!("{one}/{}", sub.name), build.item(&ONE, Some(sub), Of::One)));
    }
    if resource.namespaced && resource.verbs.iter().any(|verb| verb == "list") {
        out.push((format!("{root}/{}", resource.plural), build.item(&COLLECTION[..1], None, Of::Many)));
    }
    out.retain(|(_, item)| item.as_object().is_some_and(|item| item.len() > 1));
    out
}

/// What a path leads to: an object by its name, or all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    One,
    Many,
}

/// verb, HTTP method, x-kubernetes-action, body, answer.
type Row = (&'static str, &'static str, &'static str, Body<'static>, Body<'static>);

const COLLECTION: [Row; 3] = [
    ("list", "get", "list", Body::None, Body::List),
    ("create", "post", "post", Body::Own, Body::Own),
    ("deletecollection", "delete", "deletecollection", Body::Options, Body::Status),
];

const ONE: [Row; 5] = [
    ("get", "get", "get", Body::None, Body::Own),
    ("update", "put", "put", Body::Own, Body::Own),
    ("patch", "patch", "patch", Body::Patch, Body::Own),
    ("delete", "delete", "delete", Body::Options, Body::Status),
    ("create", "post", "post", Body::Own, Body::Own),
];

struct Build<'a, 'c> {
    served: ServedResource<'a>,
    dialect: Dialect,
    components: &'c mut Components<'a>,
}

impl Build<'_, '_> {
    fn item(&mut self, rows: &[Row], sub: Option<&Subresource>, of: Of) -> Value {
        let named = of == Of::One;
        let verbs = sub.map_or(&self.served.resource.verbs, |sub| &sub.verbs);
        let mut item = Map::new();
        for (verb, method, action, body, answer) in rows {
            // POST to an object itself is create of a subresource.
            let fits = verbs.iter().any(|one| one == verb) && (*verb != "create" || !named || sub.is_some());
            if fits {
                item.insert((*method).to_owned(), self.operation(action, *body, *answer, sub, of));
            }
        }
        let mut parameters = Vec::new();
        if named {
            parameters.push(self.path_parameter("name"));
        }
        if self.served.resource.namespaced && (named || rows.len() > 1) {
            parameters.push(self.path_parameter("namespace"));
        }
        parameters.push(self.query("pretty", "string"));
        item.insert("parameters".to_owned(), Value::Array(parameters));
        Value::Object(item)
    }

    fn operation(
        &mut self,
        action: &str,
        body: Body<'_>,
        answer: Body<'_>,
        sub: Option<&Subresource>,
        of: Of,
    ) -> Value {
        let resource = self.served.resource;
        let other = sub.and_then(|sub| sub.kind.as_ref()).filter(|kind| {
            // Kinds that are no bodies (PodExecOptions and the like) are parameters.
            Schemas::builtin().of(&kind.0, &kind.1, &kind.2).is_some() && !kind.2.ends_with("Options")
        });
        let own = |body: Body<'_>| matches!(body, Body::Own) && other.is_some();
        let (body, answer) = match other {
            Some(kind) => (
                if own(body) { Body::Other(kind) } else { body },
                if own(answer) { Body::Other(kind) } else { answer },
            ),
            None => (body, answer),
        };
        let scoped =
            if resource.namespaced && (of == Of::One || action != "list") { "Namespaced" } else { "" };
        let sub_name = sub.map(|sub| capital(&sub.name)).unwrap_or_default();
        let group: String = resource.group.split('.').next().map(capital).unwrap_or_default();
        let group = if group.is_empty() { "Core".to_owned() } else { group };
        let id = format!(
            "{}{group}{}{scoped}{}{sub_name}",
            id_verb(action),
            capital(&resource.version),
            resource.kind
        );
        let mut operation = json!({
            "operationId": id,
            "tags": [format!("{}_{}", group.to_lowercase(), resource.version)],
            "parameters": self.parameters(action),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": match other {
                Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
                None => gvk(self.served),
            },
        });
        let fields = operation.as_object_mut().expect("it was written as an object above");
        self.body(body, fields);
        self.answers(action, answer, fields);
        // Read and written again, an empty list is none: clients that compare the two find a difference.
        if fields.get("parameters").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            fields.remove("parameters");
        }
        operation
    }

    fn schema(&mut self, body: Body<'_>) -> Option<Value> {
        Some(match body {
            Body::Own => self.components.kind(self.served),
            Body::List if self.served.resource.style == Style::Crd => self.components.list(self.served),
            Body::List => self.components.list(self.served),
            Body::Status => self.components.meta("Status"),
            Body::Options => self.components.meta("DeleteOptions"),
            Body::Patch => self.components.meta("Patch"),
            Body::Other((group, version, kind)) => {
                let name = Schemas::builtin().of(group, version, kind)?.type_name()?;
                self.components.reference(name)
            }
            Body::None => return None,
        })
    }

    fn body(&mut self, body: Body<'_>, operation: &mut Map<String, Value>) {
        let Some(schema) = self.schema(body) else { return };
        let types: Vec<&str> = match body {
            Body::Patch if self.served.resource.style == Style::Crd => PATCHES.to_vec(),
            Body::Patch => PATCHES.iter().copied().chain([STRATEGIC]).collect(),
            _ => vec!["*/*"],
        };
        match self.dialect {
            Dialect::V3 => {
                let content: Map<String, Value> =
                    types.iter().map(|ty| ((*ty).to_owned(), json!({"schema": schema}))).collect();
                operation.insert("requestBody".to_owned(), json!({"content": content}));
            }
            Dialect::V2 => {
                operation.insert("consumes".to_owned(), json!(types));
                let required = !matches!(body, Body::Options);
                let parameter = json!({"name": "body", "in": "body", "required": required, "schema": schema});
                if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
                    parameters.push(parameter);
                }
            }
        }
    }

    fn answers(&mut self, action: &str, answer: Body<'_>, operation: &mut Map<String, Value>) {
        const TYPES: [&str; 2] = ["application/json", "application/yaml"];
        let schema = self.schema(answer);
        let ok = |text: &str| match (self.dialect, &schema) {
            (Dialect::V3, Some(schema)) => {
                let content: Map<String, Value> =
                    TYPES.iter().map(|ty| ((*ty).to_owned(), json!({"schema": schema}))).collect();
                json!({"description": text, "content": content})
            }
            (Dialect::V2, Some(schema)) => json!({"description": text, "schema": schema}),
            (_, None) => json!({"description": text}),
        };
        let mut answers = json!({"200": ok("OK"), "401": {"description": "Unauthorized"}});
        if matches!(action, "post" | "put" | "patch") {
            answers["201"] = ok("Created");
        }
        if matches!(action, "post" | "delete") {
            answers["202"] = ok("Accepted");
        }
        operation.insert("responses".to_owned(), answers);
        if self.dialect == Dialect::V2 {
            operation.insert("produces".to_owned(), json!(TYPES));
        }
    }

    fn parameters(&self, action: &str) -> Vec<Value> {
        let writes: &[&str] = match action {
            "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
            "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
            "delete" => &["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"],
            "list" => &[
                "allowWatchBookmarks",
                "continue",
                "fieldSelector",
                "labelSelector",
                "limit",
                "resourceVersion",
                "resourceVersionMatch",
                "sendInitialEvents",
                "timeoutSeconds",
                "watch",
            ],
            "deletecollection" => &[
                "continue",
                "dryRun",
                "fieldSelector",
                "gracePeriodSeconds",
                "labelSelector",
                "limit",
                "orphanDependents",
                "propagationPolicy",
                "resourceVersion",
                "resourceVersionMatch",
                "sendInitialEvents",
                "timeoutSeconds",
            ],
            _ => &[],
        };
        writes.iter().map(|name| self.query(name, parameter_type(name))).collect()
    }

    fn query(&self, name: &str, ty: &str) -> Value {
        match self.dialect {
            Dialect::V3 => json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}}),
            Dialect::V2 => json!({"name": name, "in": "query", "type": ty, "uniqueItems": true}),
        }
    }

    fn path_parameter(&self, name: &str) -> Value {
        match self.dialect {
            Dialect::V3 => {
                json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
            }
            Dialect::V2 => {
                json!({"name": name, "in": "path", "required": true, "type": "string", "uniqueItems": true})
            }
        }
    }
}

fn parameter_type(name: &str) -> &'static str {
    match name {
        "allowWatchBookmarks" | "watch" | "sendInitialEvents" | "force" | "orphanDependents" => "boolean",
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        _ => "string",
    }
}

fn id_verb(action: &str) -> &'static str {
    match action {
        "get" => "read",
        "list" => "list",
        "post" => "create",
        "put" => "replace",
        "patch" => "patch",
        "delete" => "delete",
        _ => "deleteCollection",
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
