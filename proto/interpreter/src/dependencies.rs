//! What an object refers to, so that it can be sent along.

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::{names, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object that another needs, by name or by labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentObject {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace: always that of the object that needs it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Labels, where there is no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<MatchLabels>,
}

/// Labels that must all be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchLabels {
    /// Keys and values.
    pub match_labels: BTreeMap<String, String>,
}

/// Collects references, each once, sorted.
struct References<'a> {
    namespace: &'a str,
    found: BTreeSet<DependentObject>,
}

impl<'a> References<'a> {
    fn of(object: &'a Value) -> Self {
        Self { namespace: object::namespace(object), found: BTreeSet::new() }
    }

    fn add(&mut self, kind: &str, name: Option<&Value>) {
        let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) else { return };
        self.found.insert(DependentObject {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            label_selector: None,
        });
    }

    fn add_pod(&mut self, spec: &Value) {
        for field in ["initContainers", "containers", "ephemeralContainers"] {
            items(spec, field).for_each(|container| self.add_container(container));
        }
        items(spec, "imagePullSecrets").for_each(|secret| self.add("Secret", secret.get("name")));
        let account = spec.get("serviceAccountName").filter(|name| name.as_str() != Some("default"));
        self.add("ServiceAccount", account);
        items(spec, "volumes").for_each(|volume| self.add_volume(volume));
    }

    fn add_container(&mut self, container: &Value) {
        for source in items(container, "envFrom") {
            self.add("ConfigMap", source.pointer("/configMapRef/name"));
            self.add("Secret", source.pointer("/secretRef/name"));
        }
        for variable in items(container, "env") {
            self.add("ConfigMap", variable.pointer("/valueFrom/configMapKeyRef/name"));
            self.add("Secret", variable.pointer("/valueFrom/secretKeyRef/name"));
        }
    }

    fn add_volume(&mut self, volume: &Value) {
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
        for source in volume.get("projected").into_iter().flat_map(|p| items(p, "sources")) {
            self.add("ConfigMap", source.pointer("/configMap/name"));
            self.add("Secret", source.pointer("/secret/name"));
        }
    }

    fn sorted(self) -> Vec<DependentObject> {
        self.found.into_iter().collect()
    }
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn of_pod_spec(object: &Value, path: &[&str]) -> Vec<DependentObject> {
    let mut references = References::of(object);
    if let Some(spec) = object::get(object, path) {
        references.add_pod(spec);
    }
    references.sorted()
}

/// Deployment, ReplicaSet, DaemonSet, Job: what the pod template refers to.
pub fn of_template(object: &Value) -> Vec<DependentObject> {
    of_pod_spec(object, &["spec", "template", "spec"])
}

/// CronJob: what the pod template of its jobs refers to.
pub fn of_cron_job(object: &Value) -> Vec<DependentObject> {
    of_pod_spec(object, &["spec", "jobTemplate", "spec", "template", "spec"])
}

/// Pod: what it refers to.
pub fn of_pod(object: &Value) -> Vec<DependentObject> {
    of_pod_spec(object, &["spec"])
}

/// StatefulSet: what the pod template refers to, less the claims that it makes itself.
pub fn of_stateful_set(object: &Value) -> Vec<DependentObject> {
    let templates = object.get("spec").into_iter().flat_map(|spec| items(spec, "volumeClaimTemplates"));
    let own: BTreeSet<&str> = templates.map(object::name).collect();
    let mut found = of_template(object);
    found.retain(|dependency| {
        dependency.kind != "PersistentVolumeClaim" || !own.contains(dependency.name.as_str())
    });
    found
}

/// Ingress: its certificates.
pub fn of_ingress(object: &Value) -> Vec<DependentObject> {
    let mut references = References::of(object);
    for tls in object.get("spec").into_iter().flat_map(|spec| items(spec, "tls")) {
        references.add("Secret", tls.get("secretName"));
    }
    references.sorted()
}

/// ServiceImport: the service derived from it, and that service's slices.
pub fn of_service_import(object: &Value) -> Vec<DependentObject> {
    let service = names::derived_service_name(object::name(object));
    let namespace = object::namespace(object).to_owned();
    let labels = BTreeMap::from([("kubernetes.io/service-name".to_owned(), service.clone())]);
    vec![
        DependentObject {
            api_version: "discovery.k8s.io/v1".to_owned(),
            kind: "EndpointSlice".to_owned(),
            namespace: namespace.clone(),
            name: String::new(),
            label_selector: Some(MatchLabels { match_labels: labels }),
        },
        DependentObject {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace,
            name: service,
            label_selector: None,
        },
    ]
}
