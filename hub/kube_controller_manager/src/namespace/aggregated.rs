//! Empties a namespace of what other servers keep in it, as the namespace controller does by discovery.
//!
//! In: what those servers say they serve. Out: the collections deleted, at once or one by one, and what stays.

use serde_json::{Value, json};

use super::Left;
use crate::other_servers::{AggregatedResource, OtherServers};

/// Deletes what is there; notes what stays, and who could not be asked.
pub(super) async fn empty(others: &dyn OtherServers, namespace: &str, left: &mut Left) {
    let discovered = others.discovered();
    left.undiscovered.extend(discovered.failed);
    for resource in discovered.resources.iter().filter(|resource| resource.can("delete")) {
        if let Err(why) = empty_of(others, resource, namespace, left).await {
            left.failures.push(why);
        }
    }
}

async fn empty_of(
    others: &dyn OtherServers,
    resource: &AggregatedResource,
    namespace: &str,
    left: &mut Left,
) -> Result<(), String> {
    if !delete(others, resource, namespace, "").await? {
        for name in names(&list(others, resource, namespace).await?) {
            delete(others, resource, namespace, &name).await?;
        }
    }
    let rest = list(others, resource, namespace).await?;
    if !rest.is_empty() {
        left.objects.insert(format!("{}.{}", resource.plural, resource.group), rest.len());
    }
    for object in &rest {
        for finalizer in object["metadata"]["finalizers"].as_array().into_iter().flatten() {
            let name = finalizer.as_str().unwrap_or("").to_owned();
            *left.finalizers.entry(name).or_default() += 1;
        }
    }
    Ok(())
}

/// Deletes one object, or all where `name` is empty; answers whether that is something the server does.
async fn delete(
    others: &dyn OtherServers,
    resource: &AggregatedResource,
    namespace: &str,
    name: &str,
) -> Result<bool, String> {
    if name.is_empty() && !resource.can("deletecollection") {
        return Ok(false);
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    done(others.ask("DELETE", resource, namespace, name, &options).await?).map(|answer| answer.is_some())
}

/// The objects that are there, as far as the server lists any.
async fn list(
    others: &dyn OtherServers,
    resource: &AggregatedResource,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    if !resource.can("list") {
        return Ok(Vec::new());
    }
    let answer = done(others.ask("GET", resource, namespace, "", &Value::Null).await?)?;
    Ok(answer.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default())
}

fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// The body of an answer; `None` where the server has no such thing or does not do it. Pure.
fn done((code, body): (u16, Value)) -> Result<Option<Value>, String> {
    match code {
        200..300 => Ok(Some(body)),
        404 | 405 => Ok(None),
        _ => {
            Err(body["message"].as_str().map_or_else(|| format!("the server answered {code}"), str::to_owned))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use parking_lot::Mutex;

    use super::*;
    use crate::other_servers::Discovered;

    /// A server with these objects in every namespace.
    struct Server {
        discovered: Discovered,
        objects: Mutex<BTreeSet<String>>,
        refuses: bool,
    }

    #[async_trait::async_trait]
    impl OtherServers for Server {
        fn discovered(&self) -> Discovered {
            self.discovered.clone()
        }

        async fn ask(
            &self,
            method: &str,
            _: &AggregatedResource,
            _: &str,
            name: &str,
            _: &Value,
        ) -> Result<(u16, Value), String> {
            let mut objects = self.objects.lock();
            match (method, name) {
                ("DELETE", _) if self.refuses => return Ok((500, json!({"message": "not today"}))),
                ("DELETE", "") => objects.retain(|name| name == "held"),
                ("DELETE", name) => drop(objects.remove(name)),
                _ => {}
            }
            let items: Vec<Value> = objects
                .iter()
                .map(|name| json!({"metadata": {"name": name, "finalizers": ["example.org/f"]}}))
                .collect();
            Ok((200, json!({"items": items})))
        }
    }

    fn server(verbs: &[&str], objects: &[&str], refuses: bool) -> Server {
        let verbs = verbs.iter().map(|&verb| verb.to_owned()).collect();
        let resource = AggregatedResource {
            group: "example.org".into(),
            version: "v1".into(),
            plural: "things".into(),
            verbs,
        };
        let failed = vec![("late.example.org/v1".to_owned(), "stale".to_owned())];
        let objects = objects.iter().map(|&name| name.to_owned()).collect();
        let discovered = Discovered { resources: vec![resource], failed };
        Server { discovered, objects: Mutex::new(objects), refuses }
    }

    #[tokio::test]
    async fn what_others_keep_goes_too_and_what_stays_is_told() {
        let all = ["delete", "deletecollection", "list"];
        for (verbs, objects, refuses, stays, failures) in [
            (&all[..], &["a", "held"][..], false, 1, 0),
            (&["delete", "list"], &["a", "b"], false, 0, 0),
            (&["list"], &["a"], false, 0, 0),
            (&all, &["a"], true, 0, 1),
        ] {
            let mut left = Left::default();
            empty(&server(verbs, objects, refuses), "n", &mut left).await;
            assert_eq!(left.objects.get("things.example.org").copied().unwrap_or(0), stays, "{verbs:?}");
            assert_eq!(left.failures.len(), failures, "{:?}", left.failures);
            assert_eq!(left.undiscovered.len(), 1);
        }
    }
}
