//! `ServiceAccount`: a new Pod has an account that exists, the secrets for images that the account names, and a token of it mounted
//! where Pod and account do not say otherwise.
//!
//! In: the creation of a Pod. Out: the Pod with all of that, or a 403 where there is no such account. Off unless it is asked for, as
//! in Karmada: a hub's Pods run in members, each of which does the same with accounts of its own.

use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::StorageId;
use karmada_definitions::status::Status;
use karmada_schema::object::ObjectKey;
use serde_json::{Value, json};

use super::Admission;
use crate::generated_name::generated_name;
use crate::registry_context::RegistryContext;
use crate::request::{AdmissionRequest, Operation};

/// Where programs look for their token.
const MOUNTED_AT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How the volume's name begins.
const VOLUME: &str = "kube-api-access-";

/// The token's life in seconds: an hour, and what marks it as one that clients read again.
const LIFE: u32 = 3607;

/// The gate.
pub struct ServiceAccounts;

impl Admission for ServiceAccounts {
    fn admit(&self, context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_pod = request.definition.row.known == BuiltinKind::Pod;
        if !is_pod || request.operation != Operation::Create || !request.subresource.is_empty() {
            return Ok(());
        }
        let spec = &request.object["spec"];
        let mirror = request.object["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some();
        if !spec.is_object() || mirror {
            return Ok(());
        }
        let name = spec["serviceAccountName"].as_str().filter(|name| !name.is_empty());
        let name = name.unwrap_or("default").to_owned();
        let namespace = request.key.namespace.clone();
        let storage = StorageId("core/serviceaccounts".into());
        let Some(account) = context.cache().get(&storage, &ObjectKey::new(&namespace, &name)) else {
            let why = format!(
                "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
            );
            return Err(Status::forbidden(request.definition, &request.key.name, &why));
        };
        let volume = generated_name(VOLUME, &context.new_uid());
        give(&mut request.object["spec"], &name, &account.value(), &volume);
        Ok(())
    }
}

/// Lays the account into a Pod's spec; `volume`: what a new volume would be called. Pure.
fn give(spec: &mut Value, name: &str, account: &Value, volume: &str) {
    spec["serviceAccountName"] = json!(name);
    spec["serviceAccount"] = json!(name);
    let said = |of: &Value| of["automountServiceAccountToken"].as_bool();
    if said(spec).or(said(account)).unwrap_or(true) {
        mount(spec, volume);
    }
    let secrets = account["imagePullSecrets"].as_array().filter(|secrets| !secrets.is_empty());
    let own = spec["imagePullSecrets"].as_array().is_some_and(|secrets| !secrets.is_empty());
    if let Some(secrets) = secrets.filter(|_| !own) {
        spec["imagePullSecrets"] = json!(secrets);
    }
}

fn mount(spec: &mut Value, new: &str) {
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let named = volumes.filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(VOLUME));
    let there = named.map(str::to_owned);
    let volume = there.as_deref().unwrap_or(new);
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter(|one| one.is_object()) {
            let mounts = &mut container["volumeMounts"];
            if mounts.as_array().into_iter().flatten().any(|mount| mount["mountPath"] == MOUNTED_AT) {
                continue;
            }
            mounted = true;
            let mount = json!({"name": volume, "readOnly": true, "mountPath": MOUNTED_AT});
            match mounts.as_array_mut() {
                Some(mounts) => mounts.push(mount),
                None => *mounts = json!([mount]),
            }
        }
    }
    if there.is_some() || !mounted {
        return;
    }
    let made = json!({"name": new, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": LIFE, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}});
    match spec["volumes"].as_array_mut() {
        Some(volumes) => volumes.push(made),
        None => spec["volumes"] = json!([made]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(mut spec: Value, account: &Value) -> Value {
        give(&mut spec, "default", account, "kube-api-access-abcde");
        spec
    }

    #[test]
    fn a_pod_gets_its_accounts_token_once() {
        let spec =
            given(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}), &json!({}));
        assert_eq!(spec["serviceAccountName"], "default");
        let mount = json!([{"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNTED_AT}]);
        assert_eq!(
            (&spec["initContainers"][0]["volumeMounts"], &spec["containers"][0]["volumeMounts"]),
            (&mount, &mount)
        );
        assert_eq!(
            spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
            3607
        );
        assert_eq!(given(spec.clone(), &json!({})), spec, "what has one is left as it is");
        let none = given(json!({"containers": [{"name": "a"}]}), &json!({}));
        assert!(
            none.get("initContainers").is_none(),
            "nothing is laid in that was not there: a later change would differ"
        );
        // A container with a mount of its own there keeps it, and needs no volume.
        let own = json!({"containers": [{"volumeMounts": [{"name": "mine", "mountPath": MOUNTED_AT}]}]});
        assert!(given(own, &json!({})).get("volumes").is_none());
    }

    #[test]
    fn the_pods_word_counts_before_the_accounts() {
        for (pod, account, wanted) in [
            (json!(null), json!(null), true),
            (json!(null), json!(false), false),
            (json!(true), json!(false), true),
            (json!(false), json!(true), false),
        ] {
            let spec = json!({"containers": [{}], "automountServiceAccountToken": pod});
            let spec = given(spec, &json!({"automountServiceAccountToken": account}));
            assert_eq!(spec["volumes"].is_array(), wanted, "{pod} {account}");
        }
    }

    #[test]
    fn secrets_for_images_are_the_accounts_where_the_pod_names_none() {
        let account = json!({"imagePullSecrets": [{"name": "registry"}]});
        assert_eq!(given(json!({}), &account)["imagePullSecrets"], account["imagePullSecrets"]);
        let own = json!({"imagePullSecrets": [{"name": "mine"}]});
        assert_eq!(given(own.clone(), &account)["imagePullSecrets"], own["imagePullSecrets"]);
    }
}
