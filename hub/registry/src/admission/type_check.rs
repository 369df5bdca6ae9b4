//! `status.typeChecking` of ValidatingAdmissionPolicies: what their expressions name that the kinds they are about do not have, as
//! kube-controller-manager's `validatingadmissionpolicy-status` tells it.
//!
//! In: policies, what is served. Out: a status with the generation that was looked at and a warning for each expression that does
//! not fit a kind. Only kinds that a rule names singly are looked at, ten at most for a rule; nothing here changes what a policy
//! does.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use karmada_cel::PolicyNames;
use karmada_cel::{CompileError, Declarations, Expected, Program, Type};
use karmada_definitions::resource::{Catalogue, ResourceDefinition, StorageId};
use karmada_definitions::status::Status;
use karmada_definitions::version::split_api_version;
use karmada_schema::object::Stored;
use karmada_schema::{SchemaRef, Schemas};
use serde_json::{Value, json};

use crate::block_in_place::apart;
use crate::reconciler::{Next, Reconciler};
use crate::registry::Registry;
use crate::request::WriteOptions;
use crate::user::{MASTERS, Origin, User};

const GROUP: &str = "admissionregistration.k8s.io";
const PLURAL: &str = "validatingadmissionpolicies";

/// Kinds looked at for one rule.
const MOST: usize = 10;

/// Names looked up for one rule: each of its groups, versions and resources with each of the others.
const MOST_NAMES: usize = 10_000;

/// Expressions read for one policy, each as often as there are kinds; of those beyond nothing is told.
const MOST_READ: usize = 1_000;

/// Group, version, kind.
type KindName = (String, String, String);

/// Writes the status of every policy whose spec changed.
pub struct TypeCheck(pub Arc<Registry>);

#[async_trait]
impl Reconciler for TypeCheck {
    fn keeps(&self) -> &'static str {
        "what policies are told of types"
    }

    fn reads(&self) -> &'static [&'static str] {
        &["admissionregistration.k8s.io/validatingadmissionpolicies"]
    }

    async fn look(&mut self) -> Result<Next, Status> {
        let resource_cache = self.0.cache().of_resource(&StorageId(format!("{GROUP}/{PLURAL}").into()));
        let mut failed = None;
        for policy in resource_cache.snapshot("").items {
            failed = failed.or(tell(&self.0, &policy).await.err());
        }
        failed.map_or(Ok(Next::OnChange), Err)
    }
}

async fn tell(registry: &Registry, policy: &Stored) -> Result<(), Status> {
    let catalogue = registry.catalogue();
    let Some(definition) = catalogue.resource(GROUP, "v1", PLURAL) else { return Ok(()) };
    let Some(status) = apart(|| status_of(&catalogue, &policy.value())) else { return Ok(()) };
    let user = User {
        name: "system:serviceaccount:kube-system:validatingadmissionpolicy-status-controller".into(),
        groups: vec![MASTERS.into()],
        origin: Origin::Hub,
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
    match registry.update(definition, &policy.key, &options, &mut change).await {
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
    let params = {
        let kind = &spec["paramKind"];
        let (group, version) = split_api_version(kind["apiVersion"].as_str().unwrap_or_default());
        let kind = kind["kind"].as_str().unwrap_or_default();
        type_of(served, &(group.to_owned(), version.to_owned(), kind.to_owned()))
    };
    let mut left = MOST_READ;
    let kinds: Vec<(KindName, Declarations)> = kinds(served, &spec["matchConstraints"]["resourceRules"])
        .into_iter()
        .filter_map(|kind| type_of(served, &kind).map(|ty| (kind, ty)))
        .map(|(kind, ty)| (kind, names(spec, &ty, params.as_ref(), &mut left)))
        .collect();
    let mut out = Vec::new();
    for (index, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for field in ["expression", "messageExpression"] {
            let source = validation[field].as_str().unwrap_or_default();
            if source.is_empty() {
                continue;
            }
            let told = kinds.iter().filter_map(|((group, version, kind), names)| {
                left = left.checked_sub(1)?;
                let issues = issues(names, source)?;
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

/// What expressions over a kind may name: the variables are read over the same kind. Those for which nothing is `left` may be
/// anything.
fn names(spec: &Value, object: &Type, params: Option<&Type>, left: &mut usize) -> Declarations {
    let mut names = PolicyNames::typed(object, params);
    for variable in spec["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        let read = left.checked_sub(1).and_then(|rest| {
            *left = rest;
            Program::compile(text("expression").trim(), &names.now(), Expected::Any).ok()
        });
        names.add(text("name"), &read.map_or(Type::Dyn, |program| program.yields));
    }
    names.now()
}

/// What is wrong with an expression over a kind.
fn issues(names: &Declarations, source: &str) -> Option<String> {
    match Program::compile(source, names, Expected::Any) {
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
        let definitions =
            all.take(MOST_NAMES).filter_map(|(group, version, name)| named(served, group, version, name));
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
    use std::time::Duration;

    use super::*;

    fn spec(resources: &[&str], expressions: &[&str]) -> Value {
        let validations: Vec<Value> = expressions.iter().map(|one| json!({"expression": one})).collect();
        json!({"matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": resources}]}, "validations": validations})
    }

    #[test]
    fn what_a_kind_does_not_have_is_told_where_it_is_named() {
        let served = karmada_kinds::catalogue::shipped();
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
    fn what_is_read_of_one_policy_is_bounded() {
        let served = karmada_kinds::catalogue::shipped();
        let none: Vec<String> = (0..2_000).map(|n| format!("none{n}")).collect();
        let started = std::time::Instant::now();
        let nowhere = json!([{"apiGroups": none, "apiVersions": none, "resources": none}]);
        assert!(kinds(&served, &nowhere).is_empty());
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let many = vec!["object.replicas > 1"; 400];
        let all: Vec<&str> = many.iter().copied().chain(["object.none"; 400]).collect();
        let mut spec = spec(&["deployments", "daemonsets", "statefulsets"], &all);
        let variable = |n: usize| json!({"name": format!("v{n}"), "expression": "object.spec"});
        spec["variables"] = (0..100).map(variable).collect();
        let started = std::time::Instant::now();
        let told = warnings(&served, &spec);
        assert_eq!(told.len(), (MOST_READ - 300).div_ceil(3));
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }

    #[test]
    fn a_generation_is_looked_at_once() {
        let served = karmada_kinds::catalogue::shipped();
        let mut policy = json!({"metadata": {"generation": 2}, "spec": spec(&["deployments"], &["true"])});
        let status = status_of(&served, &policy).unwrap();
        assert_eq!(status, json!({"observedGeneration": 2, "typeChecking": {}}));
        policy["status"] = status;
        assert_eq!(status_of(&served, &policy), None);
    }

    #[test]
    fn variables_and_parameters_have_types_too() {
        let served = karmada_kinds::catalogue::shipped();
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
