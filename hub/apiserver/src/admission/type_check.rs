//! `status.typeChecking` of ValidatingAdmissionPolicies: what their expressions name that the kinds they are about do not have, as
//! kube-controller-manager's `validatingadmissionpolicy-status` tells it.
//!
//! In: policies, what is served. Out: a status with the generation that was looked at and a warning for each expression that does
//! not fit a kind. Only kinds that a rule names singly are looked at, ten at most for a rule; nothing here changes what a policy
//! does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_cel::{CompileError, Expected, Program, Type};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::policies::Names;
use crate::auth::MASTERS;
use crate::cache::any_changed;
use crate::object::Stored;
use crate::registry::{Registry, Standing, User, WriteOptions};
use crate::resource::{Catalogue, ResourceDefinition, StorageId, split_api_version};
use crate::schema::{SchemaRef, Schemas};
use crate::status::Status;

const GROUP: &str = "admissionregistration.k8s.io";
const PLURAL: &str = "validatingadmissionpolicies";

/// Kinds looked at for one rule.
const MOST: usize = 10;

/// How soon it is tried again after a failure.
const AGAIN: Duration = Duration::from_secs(10);

/// Group, version, kind.
type KindName = (String, String, String);

/// Writes the status of every policy whose spec changed, until `stop`.
pub async fn run(registry: Arc<Registry>, stop: CancellationToken) {
    let shard = registry.cache().shard(&StorageId(format!("{GROUP}/{PLURAL}").into()));
    loop {
        let seen = [(shard.clone(), shard.revision())];
        let mut failed = false;
        for policy in shard.snapshot("").items {
            if let Err(status) = tell(&registry, &policy).await {
                tracing::warn!(
                    why = status.message,
                    policy = &*policy.key.name,
                    "types could not be told of"
                );
                failed = true;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = any_changed(&seen) => {}
            () = tokio::time::sleep(AGAIN), if failed => {}
        }
    }
}

async fn tell(registry: &Registry, policy: &Stored) -> Result<(), Status> {
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource(GROUP, "v1", PLURAL) else { return Ok(()) };
    let Some(status) = status_of(&catalogue, &policy.value()) else { return Ok(()) };
    let user = User {
        name: "system:serviceaccount:kube-system:validatingadmissionpolicy-status-controller".into(),
        groups: vec![MASTERS.into()],
        standing: Standing::Hub,
        ..User::default()
    };
    let options = WriteOptions {
        user,
        field_manager: "validatingadmissionpolicy-status".into(),
        subresource: "status".into(),
        ..WriteOptions::default()
    };
    let mut change = |live: Option<&Value>| {
        let mut live = live.cloned().unwrap_or_default();
        for (field, value) in status.as_object().into_iter().flatten() {
            live["status"][field] = value.clone();
        }
        Ok(live)
    };
    match registry.update(definition, &policy.key, &options, false, &mut change).await {
        Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => Ok(()),
        other => other.map(drop),
    }
}

/// What the status of a policy should say; `None` where this generation was looked at. Pure.
fn status_of(served: &Catalogue, policy: &Value) -> Option<Value> {
    let generation = policy["metadata"]["generation"].as_i64().unwrap_or(0);
    if generation <= policy["status"]["observedGeneration"].as_i64().unwrap_or(0) {
        return None;
    }
    let warnings = warnings(served, &policy["spec"]);
    let checked = if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) };
    Some(json!({"observedGeneration": generation, "typeChecking": checked}))
}

/// The warnings about a policy's expressions. Pure.
fn warnings(served: &Catalogue, spec: &Value) -> Vec<Value> {
    let kinds: Vec<(KindName, Type)> = kinds(served, &spec["matchConstraints"]["resourceRules"])
        .into_iter()
        .filter_map(|kind| type_of(served, &kind).map(|ty| (kind, ty)))
        .collect();
    let params = {
        let kind = &spec["paramKind"];
        let (group, version) = split_api_version(kind["apiVersion"].as_str().unwrap_or_default());
        let kind = kind["kind"].as_str().unwrap_or_default();
        type_of(served, &(group.to_owned(), version.to_owned(), kind.to_owned()))
    };
    let mut out = Vec::new();
    for (index, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = validation[field].as_str().unwrap_or_default();
            if source.is_empty() {
                continue;
            }
            let told = kinds.iter().filter_map(|((group, version, kind), ty)| {
                let issues = issues(spec, ty, params.as_ref(), source)?;
                Some(format!("{group}/{version}, Kind={kind}: {issues}\n"))
            });
            let told: Vec<String> = told.collect();
            if !told.is_empty() {
                let place = format!("spec.validations[{index}].{field}");
                out.push(json!({"fieldRef": place, "warning": told.join("\n")}));
            }
        }
    }
    out
}

/// What is wrong with an expression over a kind; the variables before it are read over the same kind.
fn issues(spec: &Value, object: &Type, params: Option<&Type>, source: &str) -> Option<String> {
    let mut names = Names::typed(object, params);
    for variable in spec["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        let yields = Program::compile(text("expression").trim(), &names.now(), Expected::Any);
        names.add(text("name"), &yields.map_or(Type::Dyn, |program| program.yields));
    }
    match Program::compile(source, &names.now(), Expected::Any) {
        Err(CompileError::Invalid(why)) => Some(why),
        _ => None,
    }
}

/// The kinds that rules name singly, in order.
fn kinds(served: &Catalogue, rules: &Value) -> BTreeSet<KindName> {
    let mut found = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        let texts = |field: &str| -> Vec<&str> {
            let mut all: Vec<&str> =
                rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            all.sort_unstable();
            all
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let resources = texts("resources");
        let resources = || resources.iter().filter(|resource| !resource.contains(['*', '/']));
        let all = groups.iter().flat_map(|group| {
            let versions = versions.iter();
            versions.flat_map(move |version| resources().map(move |resource| (*group, *version, *resource)))
        });
        let definitions = all.filter_map(|(group, version, name)| named(served, group, version, name));
        found.extend(definitions.take(MOST).map(|definition| {
            let text = |text: &Arc<str>| text.to_string();
            (text(&definition.group), text(&definition.version), text(&definition.kind))
        }));
    }
    found
}

fn named<'a>(
    served: &'a Catalogue,
    group: &str,
    version: &str,
    name: &str,
) -> Option<&'a Arc<ResourceDefinition>> {
    let all = served.resources(group, version)?;
    all.iter().find(|definition| *definition.plural == *name || *definition.singular == *name)
}

/// The type of a kind's objects; `None` where it is not served.
fn type_of(served: &Catalogue, (group, version, kind): &KindName) -> Option<Type> {
    let definition = served.kind(group, version, kind)?;
    let of = |schema: SchemaRef<'_>| Type::of(schema, kind);
    let ty = match &definition.custom {
        Some(custom) => of(custom.schema().root()),
        // A schema's schema has no end.
        None if group == "apiextensions.k8s.io" => Type::Dyn,
        None => of(Schemas::builtin().of(group, version, kind)?),
    };
    let Type::Object(object) = ty else { return Some(Type::Dyn) };
    // What every object has, whether its schema says so or not.
    let mut fields = object.fields.clone();
    for name in ["apiVersion", "kind"] {
        fields.insert(name.to_owned(), Type::String);
    }
    fields.insert("metadata".to_owned(), of(Schemas::builtin().object_meta()));
    Some(Type::Object(Arc::new(karmada_cel::Object { name: object.name.clone(), fields })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(resources: &[&str], expressions: &[&str]) -> Value {
        let validations: Vec<Value> = expressions.iter().map(|one| json!({"expression": one})).collect();
        json!({"matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources}]}, "validations": validations})
    }

    #[test]
    fn what_a_kind_does_not_have_is_told_where_it_is_named() {
        let served = crate::kinds::shipped();
        let fine = ["object.spec.replicas > 1", "object.metadata.labels['a'] == 'b'", "oldObject == null"];
        assert_eq!(warnings(&served, &spec(&["deployments"], &fine)), Vec::<Value>::new());
        let told = warnings(&served, &spec(&["deployments", "daemonsets"], &["true", "object.replicas > 1"]));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["fieldRef"], "spec.validations[1].expression");
        let text = told[0]["warning"].as_str().unwrap();
        assert!(
            text.starts_with("apps/v1, Kind=DaemonSet: ERROR: <input>:1:7: undefined field 'replicas'"),
            "{text}"
        );
        assert!(text.contains("\n\napps/v1, Kind=Deployment: ERROR"), "{text}");
        for resources in [&["*"][..], &["deployments/scale"], &["nothings"]] {
            assert!(
                warnings(&served, &spec(resources, &["object.replicas > 1"])).is_empty(),
                "{resources:?}"
            );
        }
    }

    #[test]
    fn a_generation_is_looked_at_once() {
        let served = crate::kinds::shipped();
        let mut policy = json!({"metadata": {"generation": 2}, "spec": spec(&["deployments"], &["true"])});
        let status = status_of(&served, &policy).unwrap();
        assert_eq!(status, json!({"observedGeneration": 2, "typeChecking": {}}));
        policy["status"] = status;
        assert_eq!(status_of(&served, &policy), None);
    }

    #[test]
    fn variables_and_parameters_have_types_too() {
        let served = crate::kinds::shipped();
        let mut spec =
            spec(&["deployments"], &["variables.n > 1", "variables.n == 'a'", "params.data.a == 1"]);
        spec["variables"] = json!([{"name": "n", "expression": "object.spec.replicas"}]);
        let undeclared = warnings(&served, &spec);
        assert_eq!(undeclared.len(), 2, "{undeclared:?}");
        spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        let typed = warnings(&served, &spec);
        assert!(typed[1]["warning"].as_str().unwrap().contains("no matching overload"), "{typed:?}");
    }
}
