//! `karmadactl get`. In: types and names. Out: the server's table, or the objects as JSON, YAML or names.

use anyhow::{Result, bail};
use clap::ValueEnum;
use http::Method;
use serde_json::{Value, json};

use crate::access::Access;
use crate::connection::Connection;
use crate::output;
use crate::resource::{self, Resource};
use crate::table::{self, Shape};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Flags of `get`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The type (or several with commas) and the names, or type/name.
    #[arg(required = true, value_name = "TYPE [NAME]")]
    words: Vec<String>,
    /// Objects of every namespace.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// How to print.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    /// Only objects with these labels.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Only objects with these fields.
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
    /// No first line.
    #[arg(long)]
    no_headers: bool,
    /// Labels in the last column.
    #[arg(long)]
    show_labels: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Yaml,
    Name,
    Wide,
}

/// Shows objects.
pub async fn run(access: &Access, arguments: &Arguments) -> Result<()> {
    let hub = access.hub().await?;
    let resources = resource::discover(&hub).await?;
    let targets = resource::targets(&resources, &arguments.words)?;
    let namespace = access.namespace.as_deref().unwrap_or(&hub.chosen.namespace);
    let namespace = (!arguments.all_namespaces).then_some(namespace);
    match arguments.output {
        Some(format @ (Format::Json | Format::Yaml | Format::Name)) => {
            objects(&hub, arguments, &targets, namespace, format).await
        }
        _ => tables(&hub, arguments, &targets, namespace).await,
    }
}

/// The paths to read: one for each name, or the collection with its selectors.
fn paths(
    arguments: &Arguments,
    resource: &Resource,
    names: &[String],
    namespace: Option<&str>,
) -> Result<Vec<String>> {
    let collection = resource.collection(namespace);
    if !names.is_empty() {
        if arguments.all_namespaces && resource.namespaced {
            bail!("a resource cannot be retrieved by name across all namespaces");
        }
        return Ok(names.iter().map(|name| format!("{collection}/{name}")).collect());
    }
    let selectors = [("labelSelector", &arguments.selector), ("fieldSelector", &arguments.field_selector)];
    let queries: Vec<String> = selectors
        .into_iter()
        .filter_map(|(name, selector)| Some(format!("{name}={}", encode(selector.as_ref()?))))
        .collect();
    Ok(vec![if queries.is_empty() { collection } else { format!("{collection}?{}", queries.join("&")) }])
}

/// Percent-encodes everything but RFC 3986's unreserved characters.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

type Targets<'a> = [(&'a Resource, Vec<String>)];

async fn tables(
    hub: &Connection,
    arguments: &Arguments,
    targets: &Targets<'_>,
    namespace: Option<&str>,
) -> Result<()> {
    let mut shown = Vec::new();
    for (resource, names) in targets {
        let mut whole: Option<Value> = None;
        for path in paths(arguments, resource, names, namespace)? {
            let table = hub.send(Method::GET, &path, &[("accept", TABLE)], None).await?;
            match &mut whole {
                None => whole = Some(table),
                Some(whole) => append(&mut whole["rows"], &table["rows"]),
            }
        }
        let whole = whole.filter(|table| table["rows"].as_array().is_some_and(|rows| !rows.is_empty()));
        let Some(whole) = whole else { continue };
        let prefix = resource.name_prefix();
        let shape = Shape {
            wide: arguments.output == Some(Format::Wide),
            no_headers: arguments.no_headers,
            namespaces: arguments.all_namespaces && resource.namespaced,
            labels: arguments.show_labels,
            prefix: (targets.len() > 1).then_some(prefix.as_str()),
        };
        shown.push(table::of_server(&whole, shape));
    }
    if shown.is_empty() {
        let inside = namespace.filter(|_| targets.iter().any(|(resource, _)| resource.namespaced));
        eprintln!(
            "No resources found{}",
            inside.map(|name| format!(" in {name} namespace.")).unwrap_or_default()
        );
    }
    output::print(&shown.join("\n"))
}

fn append(rows: &mut Value, more: &Value) {
    if let (Some(rows), Some(more)) = (rows.as_array_mut(), more.as_array()) {
        rows.extend(more.iter().cloned());
    }
}

async fn objects(
    hub: &Connection,
    arguments: &Arguments,
    targets: &Targets<'_>,
    namespace: Option<&str>,
    format: Format,
) -> Result<()> {
    let (mut items, mut single) = (Vec::new(), None);
    let mut reads = 0;
    for (resource, names) in targets {
        for path in paths(arguments, resource, names, namespace)? {
            reads += 1;
            let read = hub.get(&path).await?;
            let listed = read["items"].as_array().filter(|_| names.is_empty()).cloned();
            let found = listed.unwrap_or_else(|| {
                single = Some(read.clone());
                vec![read.clone()]
            });
            let version = Some(resource.group.as_str()).filter(|group| !group.is_empty());
            let version =
                version.map_or(resource.version.clone(), |group| format!("{group}/{}", resource.version));
            items
                .extend(found.into_iter().map(|object| (*resource, typed(object, &version, &resource.kind))));
        }
    }
    if format == Format::Name {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        return output::print(
            &items
                .iter()
                .map(|(r, object)| format!("{}/{}\n", r.name_prefix(), name(object)))
                .collect::<String>(),
        );
    }
    let items: Vec<Value> = items.into_iter().map(|(_, object)| object).collect();
    let list =
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items});
    let shown = single.filter(|_| reads == 1).unwrap_or(list);
    match format {
        Format::Yaml => output::print(&output::yaml(&[shown])?),
        _ => output::line(&serde_json::to_string_pretty(&shown)?),
    }
}

/// Items of a list leave out what the list says for all of them.
fn typed(mut object: Value, version: &str, kind: &str) -> Value {
    for (field, value) in [("apiVersion", version), ("kind", kind)] {
        if object[field].is_null() {
            object[field] = json!(value);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_encoded() {
        assert_eq!(encode("a in (b,c),d!=e/f"), "a%20in%20%28b%2Cc%29%2Cd%21%3De%2Ff");
    }
}
