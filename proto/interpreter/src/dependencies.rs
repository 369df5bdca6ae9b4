//! What an object refers to, so that it can be sent along.
//!
//! In: objects as JSON. Out: references, each once, sorted; none of an object that is not what its kind promises.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::validation::labels::validate_label_selector;
use karmada_api::{names, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Answer, InterpretError};

/// An object that another needs, by name or by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentObject {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Namespace: always that of the object that needs it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels, where there is no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

impl DependentObject {
    /// Whether it says what it means.
    ///
    /// # Errors
    /// In words: its apiVersion, its kind, or both name and selector are missing, or labels cannot meet the selector.
    pub fn check(&self) -> Result<(), String> {
        let missing = match self {
            Self { api_version, .. } if api_version.is_empty() => "apiVersion",
            Self { kind, .. } if kind.is_empty() => "kind",
            Self { name, label_selector: None, .. } if name.is_empty() => "name or labelSelector",
            Self { label_selector: Some(selector), .. } => return selector.check(),
            _ => return Ok(()),
        };
        Err(format!("a dependency needs its {missing}"))
    }
}

/// Labels that must all be there, and what else is asked of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Keys and values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Whether labels could meet it at all.
    fn check(&self) -> Result<(), String> {
        // Both are the API's selector; only the order of theirs differs.
        let selector = serde_json::to_value(self).and_then(serde_json::from_value);
        let selector = selector.map_err(|error| error.to_string())?;
        match validate_label_selector(&selector, "labelSelector").first() {
            Some(error) => Err(error.to_string()),
            None => Ok(()),
        }
    }
}

/// One condition on a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelRequirement {
    /// Its key.
    pub key: String,
    /// In, NotIn, Exists or DoesNotExist.
    pub operator: String,
    /// What its value is compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Collects references, each once, sorted.
pub(crate) struct References<'a> {
    namespace: &'a str,
    found: BTreeSet<DependentObject>,
}

impl<'a> References<'a> {
    pub(crate) fn of(object: &'a Value) -> Self {
        Self { namespace: object::namespace(object), found: BTreeSet::new() }
    }

    pub(crate) fn add(&mut self, kind: &str, name: Option<&Value>) {
        let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) else { return };
        self.found.insert(DependentObject {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            label_selector: None,
        });
    }

    pub(crate) fn add_pod(&mut self, spec: &Value) -> Answer<()> {
        for field in ["initContainers", "containers", "ephemeralContainers"] {
            items(spec, field)?.iter().try_for_each(|container| self.add_container(container))?;
        }
        items(spec, "imagePullSecrets")?.iter().for_each(|secret| self.add("Secret", secret.get("name")));
        let account = spec.get("serviceAccountName").filter(|name| name.as_str() != Some("default"));
        self.add("ServiceAccount", account);
        items(spec, "volumes")?.iter().try_for_each(|volume| self.add_volume(volume))
    }

    pub(crate) fn add_container(&mut self, container: &Value) -> Answer<()> {
        for source in items(container, "envFrom")? {
            self.add("ConfigMap", source.pointer("/configMapRef/name"));
            self.add("Secret", source.pointer("/secretRef/name"));
        }
        for variable in items(container, "env")? {
            self.add("ConfigMap", variable.pointer("/valueFrom/configMapKeyRef/name"));
            self.add("Secret", variable.pointer("/valueFrom/secretKeyRef/name"));
        }
        Ok(())
    }

    pub(crate) fn add_volume(&mut self, volume: &Value) -> Answer<()> {
        const SECRET_REFS: [&str; 8] =
            ["cephfs", "cinder", "flexVolume", "rbd", "iscsi", "scaleIO", "storageos", "nfs"];
        self.add("ConfigMap", volume.pointer("/configMap/name"));
        self.add("Secret", volume.pointer("/secret/secretName"));
        self.add("Secret", volume.pointer("/azureFile/secretName"));
        self.add("Secret", volume.pointer("/csi/nodePublishSecretRef/name"));
        for kind in SECRET_REFS {
            self.add("Secret", object::get(volume, &[kind, "secretRef", "name"]));
        }
        self.add("PersistentVolumeClaim", volume.pointer("/persistentVolumeClaim/claimName"));
        let projected = volume.get("projected").map_or(Ok(&[][..]), |p| items(p, "sources"))?;
        for source in projected {
            self.add("ConfigMap", source.pointer("/configMap/name"));
            self.add("Secret", source.pointer("/secret/name"));
        }
        Ok(())
    }

    pub(crate) fn sorted(self) -> Vec<DependentObject> {
        self.found.into_iter().collect()
    }
}

/// The elements of a list; none where it is absent.
pub(crate) fn items<'a>(value: &'a Value, field: &str) -> Answer<&'a [Value]> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(InterpretError::Object(format!("{field} must be a list, and is {other}"))),
    }
}

/// What a pod of this spec refers to, in the namespace of `object`.
///
/// # Errors
/// What must be a list is none.
pub fn of_pod_spec(object: &Value, spec: Option<&Value>) -> Answer<Vec<DependentObject>> {
    let mut references = References::of(object);
    if let Some(spec) = spec {
        references.add_pod(spec)?;
    }
    Ok(references.sorted())
}

/// Deployment, ReplicaSet, DaemonSet, Job: what the pod template refers to.
///
/// # Errors
/// As of [`of_pod_spec`].
pub fn of_template(object: &Value) -> Answer<Vec<DependentObject>> {
    of_pod_spec(object, object::get(object, &["spec", "template", "spec"]))
}

/// CronJob: what the pod template of its jobs refers to.
///
/// # Errors
/// As of [`of_pod_spec`].
pub fn of_cron_job(object: &Value) -> Answer<Vec<DependentObject>> {
    of_pod_spec(object, object::get(object, &["spec", "jobTemplate", "spec", "template", "spec"]))
}

/// Pod: what it refers to.
///
/// # Errors
/// As of [`of_pod_spec`].
pub fn of_pod(object: &Value) -> Answer<Vec<DependentObject>> {
    of_pod_spec(object, object.get("spec"))
}

/// StatefulSet: what the pod template refers to, less the claims that it makes itself.
///
/// # Errors
/// As of [`of_pod_spec`], or `volumeClaimTemplates` is no list.
pub fn of_stateful_set(object: &Value) -> Answer<Vec<DependentObject>> {
    let templates = object.get("spec").map_or(Ok(&[][..]), |spec| items(spec, "volumeClaimTemplates"))?;
    let own: BTreeSet<&str> = templates.iter().map(object::name).collect();
    let mut found = of_template(object)?;
    found.retain(|dependency| {
        dependency.kind != "PersistentVolumeClaim" || !own.contains(dependency.name.as_str())
    });
    Ok(found)
}

/// Ingress: its certificates.
///
/// # Errors
/// `spec.tls` is no list.
pub fn of_ingress(object: &Value) -> Answer<Vec<DependentObject>> {
    let mut references = References::of(object);
    for tls in object.get("spec").map_or(Ok(&[][..]), |spec| items(spec, "tls"))? {
        references.add("Secret", tls.get("secretName"));
    }
    Ok(references.sorted())
}

/// ServiceImport: the service derived from it, and that service's slices.
///
/// # Errors
/// The derived name is longer than a Service's may be.
pub fn of_service_import(object: &Value) -> Answer<Vec<DependentObject>> {
    let service = names::derived_service_name(object::name(object));
    if service.len() > 63 {
        let words =
            format!("no Service can have the derived name {service}: a name has 63 characters at most");
        return Err(InterpretError::Object(words));
    }
    let namespace = object::namespace(object).to_owned();
    let labels = BTreeMap::from([("kubernetes.io/service-name".to_owned(), service.clone())]);
    Ok(vec![
        DependentObject {
            api_version: "discovery.k8s.io/v1".to_owned(),
            kind: "EndpointSlice".to_owned(),
            namespace: namespace.clone(),
            name: String::new(),
            label_selector: Some(LabelSelector { match_labels: labels, match_expressions: Vec::new() }),
        },
        DependentObject {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace,
            name: service,
            label_selector: None,
        },
    ])
}
