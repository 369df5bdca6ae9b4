//! Flux: HelmRelease, Kustomization, and the sources GitRepository, Bucket, HelmChart, HelmRepository and OCIRepository.
//!
//! In: their objects, and what members report of them. Out: conditions that name their cluster, the last revisions, secrets and accounts.

use jiff::Timestamp;
use karmada_api::binding::AggregatedStatusItem;
use serde_json::{Map, Value, json};

use super::read::{conditions, elements, present, required, text};
use super::reflect::{Generations, Reflection, reflect};
use super::rollup::{last, observed_generation, put};
use super::{conditions, retain};
use crate::aggregate::{reported, status_mut, sum};
use crate::dependencies::References;
use crate::row::{NONE, Row};
use crate::{Answer, DependentObject};

/// HelmRelease.
pub const HELM_RELEASE: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(aggregate_helm_release),
    reflect: Some(|object| reflect(object, &HELM_RELEASE_STATUS)),
    health: Some(|object| Ok(ready(object, &["ReconciliationSucceeded"]))),
    dependencies: Some(helm_release_dependencies),
    ..NONE
};

/// Kustomization.
pub const KUSTOMIZATION: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(aggregate_kustomization),
    reflect: Some(|object| reflect(object, &KUSTOMIZATION_STATUS)),
    health: Some(|object| Ok(ready(object, &["ReconciliationSucceeded"]))),
    dependencies: Some(|object| {
        references(object, &[&["decryption", "secretRef"], &["kubeConfig", "secretRef"]])
    }),
    ..NONE
};

/// GitRepository.
pub const GIT_REPOSITORY: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(|object, items, _| aggregate_source(object, items, &[])),
    reflect: Some(|object| reflect(object, &GIT_REPOSITORY_STATUS)),
    health: Some(|object| Ok(ready(object, &["Succeeded"]))),
    dependencies: Some(|object| references(object, &[&["secretRef"], &["verify", "secretRef"]])),
    ..NONE
};

/// Bucket.
pub const BUCKET: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(|object, items, _| aggregate_source(object, items, &["url"])),
    reflect: Some(|object| reflect(object, &BUCKET_STATUS)),
    health: Some(|object| Ok(ready(object, &["Succeeded"]))),
    dependencies: Some(|object| references(object, &[&["secretRef"]])),
    ..NONE
};

/// HelmChart.
pub const HELM_CHART: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(|object, items, _| {
        aggregate_source(object, items, &["url", "observedChartName", "observedSourceArtifactRevision"])
    }),
    reflect: Some(|object| reflect(object, &HELM_CHART_STATUS)),
    health: Some(|object| Ok(ready(object, &["Succeeded", "ChartPullSucceeded"]))),
    dependencies: Some(|object| references(object, &[&["verify", "secretRef"]])),
    ..NONE
};

/// HelmRepository.
pub const HELM_REPOSITORY: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(|object, items, _| aggregate_source(object, items, &["url"])),
    reflect: Some(|object| reflect(object, &HELM_REPOSITORY_STATUS)),
    health: Some(|object| Ok(ready(object, &["Succeeded"]))),
    dependencies: Some(|object| references(object, &[&["secretRef"]])),
    ..NONE
};

/// OCIRepository.
pub const OCI_REPOSITORY: Row = Row {
    retain: Some(retain::suspension),
    aggregate: Some(|object, items, _| aggregate_source(object, items, &["url"])),
    reflect: Some(|object| reflect(object, &OCI_REPOSITORY_STATUS)),
    health: Some(|object| Ok(ready(object, &["Succeeded"]))),
    dependencies: Some(|object| {
        references(object, &[&["secretRef"], &["certSecretRef"], &["verify", "secretRef"]])
    }),
    ..NONE
};

const fn reported_as(fields: &'static [&'static str]) -> Reflection {
    Reflection { fields, counts: &[], generations: Generations::Told }
}

const HELM_RELEASE_STATUS: Reflection = reported_as(&[
    "conditions",
    "observedGeneration",
    "lastAttemptedRevision",
    "lastAppliedRevision",
    "lastAttemptedValuesChecksum",
    "helmChart",
    "lastReleaseRevision",
    "failures",
    "upgradeFailures",
    "installFailures",
]);
const KUSTOMIZATION_STATUS: Reflection =
    reported_as(&["conditions", "observedGeneration", "lastAppliedRevision", "lastAttemptedRevision"]);
const GIT_REPOSITORY_STATUS: Reflection = reported_as(&[
    "conditions",
    "observedGeneration",
    "artifact",
    "observedIgnore",
    "observedRecurseSubmodules",
]);
const BUCKET_STATUS: Reflection =
    reported_as(&["conditions", "observedGeneration", "artifact", "observedIgnore", "url"]);
// With the generation that the member saw, as of the other sources.
const HELM_CHART_STATUS: Reflection = reported_as(&[
    "conditions",
    "observedGeneration",
    "artifact",
    "observedChartName",
    "observedSourceArtifactRevision",
    "url",
]);
const HELM_REPOSITORY_STATUS: Reflection =
    reported_as(&["conditions", "observedGeneration", "artifact", "url"]);
const OCI_REPOSITORY_STATUS: Reflection = reported_as(&[
    "conditions",
    "observedGeneration",
    "artifact",
    "observedIgnore",
    "observedLayerSelector",
    "url",
]);

/// It is Ready, for one of these reasons.
fn ready(object: &Value, reasons: &[&str]) -> bool {
    let is_ready = |condition: &Value| {
        text(condition, "type") == "Ready"
            && text(condition, "status") == "True"
            && reasons.contains(&text(condition, "reason"))
    };
    present(object, &["status"]).is_some_and(|status| conditions(status).iter().any(is_ready))
}

/// The conditions of all members, and the generation that all have seen.
fn common(object: &Value, items: &[AggregatedStatusItem]) -> Answer<Map<String, Value>> {
    let mut out = Map::new();
    let conditions = conditions::merged(items)?;
    put(&mut out, "conditions", (!conditions.is_empty()).then_some(Value::Array(conditions)));
    out.insert("observedGeneration".to_owned(), Value::from(observed_generation(object, items)));
    Ok(out)
}

/// The last revision that some member tells stays until another is told.
fn aggregate_revisions(object: &mut Value, items: &[AggregatedStatusItem], fields: &[&str]) -> Answer<()> {
    let common = common(object, items)?;
    let status = status_mut(object);
    status.remove("conditions");
    status.extend(common);
    for field in fields {
        if let Some(told) = last(items, field) {
            status.insert((*field).to_owned(), told.clone());
        }
    }
    Ok(())
}

/// Also counts failures: those that members tell now, so that a second look at the same members changes nothing.
fn aggregate_helm_release(object: &mut Value, items: &[AggregatedStatusItem], _now: Timestamp) -> Answer<()> {
    const COUNTERS: [&str; 3] = ["failures", "upgradeFailures", "installFailures"];
    const REVISIONS: [&str; 5] = [
        "lastAttemptedRevision",
        "lastAppliedRevision",
        "lastAttemptedValuesChecksum",
        "helmChart",
        "lastReleaseRevision",
    ];
    let mut counted = Vec::new();
    for counter in COUNTERS {
        let told = reported(items).any(|status| status.get(counter).is_some_and(|count| !count.is_null()));
        counted.push((counter, told.then_some(sum(items, counter)?)));
    }
    aggregate_revisions(object, items, &REVISIONS)?;
    let status = status_mut(object);
    for (counter, count) in counted {
        put(status, counter, count.map(Value::from));
    }
    Ok(())
}

fn aggregate_kustomization(
    object: &mut Value,
    items: &[AggregatedStatusItem],
    _now: Timestamp,
) -> Answer<()> {
    aggregate_revisions(object, items, &["lastAppliedRevision", "lastAttemptedRevision"])
}

/// What members say of a source now: the last artifact, the last texts.
fn aggregate_source(object: &mut Value, items: &[AggregatedStatusItem], texts: &[&str]) -> Answer<()> {
    let mut out = common(object, items)?;
    put(&mut out, "artifact", last(items, "artifact").cloned());
    for field in texts {
        out.insert((*field).to_owned(), last(items, field).cloned().unwrap_or_else(|| json!("")));
    }
    *status_mut(object) = out;
    Ok(())
}

/// The secrets named at these paths of the spec, and the account. A reference without a name is none, and the account `default` is everywhere.
fn named<'a>(object: &'a Value, secrets: &[&[&str]]) -> Answer<References<'a>> {
    let spec = required(object, &["spec"])?;
    let mut references = References::of(object);
    for path in secrets {
        references.add("Secret", present(spec, path).and_then(|reference| reference.get("name")));
    }
    let account = spec.get("serviceAccountName").filter(|name| name.as_str() != Some("default"));
    references.add("ServiceAccount", account);
    Ok(references)
}

fn references(object: &Value, secrets: &[&[&str]]) -> Answer<Vec<DependentObject>> {
    Ok(named(object, secrets)?.sorted())
}

fn helm_release_dependencies(object: &Value) -> Answer<Vec<DependentObject>> {
    let mut references =
        named(object, &[&["chart", "spec", "verify", "secretRef"], &["kubeConfig", "secretRef"]])?;
    for source in elements(object, &["spec", "valuesFrom"]) {
        if let kind @ ("Secret" | "ConfigMap") = text(source, "kind") {
            references.add(kind, source.get("name"));
        }
    }
    Ok(references.sorted())
}
