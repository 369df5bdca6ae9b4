//! A Pod's first container as a process: what a kubelet and a container runtime make of its manifest.
//!
//! In: a Pod's manifest, and the API server for its Secrets, ConfigMaps and token. Out: the program to start, with its volumes written to
//! folders, or an error where something that it names cannot be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Site;
use crate::api::text_at;
use crate::process::Program;

/// Names the folder of `token`, `ca.crt` and `namespace`, which in a container is
/// `/var/run/secrets/kubernetes.io/serviceaccount`.
pub const SERVICE_ACCOUNT_DIR: &str = "KUBERNETES_SERVICE_ACCOUNT_DIR";

const SERVICE_ACCOUNT_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Mount paths and the folders that stand for them, longest path first.
struct Mounts(Vec<(String, PathBuf)>);

impl Mounts {
    /// `text` with every mount path in it replaced. A path ends where a path's name does.
    fn rewrite(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (mount, folder) in &self.0 {
            let mut from = 0;
            while let Some(at) = text[from..].find(mount.as_str()).map(|at| at + from) {
                let end = at + mount.len();
                let whole = text[end..].chars().next().is_none_or(|next| matches!(next, '/' | ',' | ':'));
                let folder = folder.display().to_string();
                from = if whole { at + folder.len() } else { end };
                if whole {
                    text.replace_range(at..end, &folder);
                }
            }
        }
        text
    }

    fn folder(&self, mount: &str) -> Option<&Path> {
        self.0.iter().find(|(path, _)| path == mount).map(|(_, folder)| folder.as_path())
    }
}

impl Site {
    /// What to start for `pod`, with its volumes written.
    pub(super) fn program(&self, pod: &Value) -> Result<Program> {
        let container = pod.pointer("/spec/containers/0").context("a Pod has a container")?;
        let mounts = self.mounts(pod, container)?;
        let env = self.environment(pod, container)?;
        let expand = |text: &Value| mounts.rewrite(&expand(text.as_str().unwrap_or(""), &env));
        let words =
            |pointer: &str| container.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
        // The command's first word is the program in the image, which is ours here.
        let args: Vec<Value> = words("/command").into_iter().skip(1).chain(words("/args")).collect();
        let name = text_at(pod, "/metadata/name");
        let mut program = Program::new(name, &self.program, self.folder.path()).args(args.iter().map(expand));
        program.clean_env = true;
        program.env = env.iter().map(|(name, value)| (name.clone(), mounts.rewrite(value))).collect();
        program = program.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        program = program.env("KUBERNETES_SERVICE_PORT", self.port.to_string()).env("HOSTNAME", name);
        if let Some(folder) = mounts.folder(SERVICE_ACCOUNT_MOUNT) {
            program = program.env(SERVICE_ACCOUNT_DIR, folder.display().to_string());
        }
        Ok(program)
    }

    fn environment(&self, pod: &Value, container: &Value) -> Result<BTreeMap<String, String>> {
        let mut env = BTreeMap::new();
        for source in array(container, "/envFrom") {
            let data = match (source.pointer("/secretRef/name"), source.pointer("/configMapRef/name")) {
                (Some(name), _) => self.data("secrets", name.as_str().unwrap_or(""))?,
                (_, Some(name)) => self.data("configmaps", name.as_str().unwrap_or(""))?,
                _ => BTreeMap::new(),
            };
            env.extend(
                data.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned())),
            );
        }
        for variable in array(container, "/env") {
            let value = match variable.get("valueFrom") {
                Some(from) => self.value_from(pod, from)?,
                None => expand(text_at(variable, "/value"), &env),
            };
            env.insert(text_at(variable, "/name").to_owned(), value);
        }
        Ok(env)
    }

    fn value_from(&self, pod: &Value, from: &Value) -> Result<String> {
        if let Some(path) = from.pointer("/fieldRef/fieldPath").and_then(Value::as_str) {
            return Ok(field(pod, path).to_owned());
        }
        for (reference, kind) in [("/secretKeyRef", "secrets"), ("/configMapKeyRef", "configmaps")] {
            if let Some(reference) = from.pointer(reference) {
                let data = self.data(kind, text_at(reference, "/name"))?;
                let value = data.get(text_at(reference, "/key")).cloned().unwrap_or_default();
                return Ok(String::from_utf8_lossy(&value).into_owned());
            }
        }
        Ok(String::new())
    }

    fn mounts(&self, pod: &Value, container: &Value) -> Result<Mounts> {
        let mut mounts = Vec::new();
        for mount in array(container, "/volumeMounts") {
            let name = text_at(mount, "/name");
            let volume = array(pod, "/spec/volumes").find(|volume| text_at(volume, "/name") == name);
            let volume = volume.with_context(|| format!("there is no volume {name}"))?;
            let folder = self.volume(pod, volume)?.join(text_at(mount, "/subPath"));
            mounts.push((text_at(mount, "/mountPath").trim_end_matches('/').to_owned(), folder));
        }
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(Mounts(mounts))
    }

    /// The folder that stands for a volume, with what it holds.
    fn volume(&self, pod: &Value, volume: &Value) -> Result<PathBuf> {
        let of_pod = format!("{}/{}", text_at(pod, "/metadata/uid"), text_at(volume, "/name"));
        // A claim and a node's path outlive the Pod; everything else is its own.
        let place =
            if let Some(claim) = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) {
                format!("claim-{claim}")
            } else if let Some(path) = volume.pointer("/hostPath/path").and_then(Value::as_str) {
                format!("host{path}")
            } else {
                of_pod
            };
        let folder = self.folder.join("volumes").join(place);
        fs::create_dir_all(&folder)?;
        if let Some(secret) = volume.get("secret") {
            self.write_data("secrets", text_at(secret, "/secretName"), secret, &folder)?;
        }
        if let Some(map) = volume.get("configMap") {
            self.write_data("configmaps", text_at(map, "/name"), map, &folder)?;
        }
        for source in array(volume, "/projected/sources") {
            self.project(pod, source, &folder)?;
        }
        Ok(folder)
    }

    fn project(&self, pod: &Value, source: &Value, folder: &Path) -> Result<()> {
        if let Some(token) = source.get("serviceAccountToken") {
            fs::write(folder.join(text_at(token, "/path")), self.token(pod, token)?)?;
        }
        if let Some(secret) = source.get("secret") {
            self.write_data("secrets", text_at(secret, "/name"), secret, folder)?;
        }
        if let Some(map) = source.get("configMap") {
            self.write_data("configmaps", text_at(map, "/name"), map, folder)?;
        }
        for item in array(source, "/downwardAPI/items") {
            fs::write(folder.join(text_at(item, "/path")), field(pod, text_at(item, "/fieldRef/fieldPath")))?;
        }
        Ok(())
    }

    /// A token bound to the Pod, as a kubelet asks for it.
    fn token(&self, pod: &Value, wanted: &Value) -> Result<String> {
        let account = text_at(pod, "/spec/serviceAccountName");
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", self.namespace);
        let audiences: Vec<&str> = wanted.get("audience").and_then(Value::as_str).into_iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": wanted.get("expirationSeconds").cloned().unwrap_or(json!(3600)),
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod",
                    "name": text_at(pod, "/metadata/name"), "uid": text_at(pod, "/metadata/uid"),
                },
            },
        });
        Ok(text_at(&self.api.create(&path, &request)?, "/status/token").to_owned())
    }

    fn write_data(&self, kind: &str, name: &str, source: &Value, folder: &Path) -> Result<()> {
        let items: Vec<&Value> = array(source, "/items").collect();
        for (key, value) in self.data(kind, name)? {
            let chosen = items.iter().find(|item| text_at(item, "/key") == key);
            if let Some(file) = chosen.map(|item| text_at(item, "/path")).or(items.is_empty().then_some(&key))
            {
                let file = folder.join(file);
                fs::create_dir_all(file.parent().unwrap_or(folder))?;
                fs::write(file, value)?;
            }
        }
        Ok(())
    }

    /// What a Secret or ConfigMap holds; nothing where it does not exist.
    fn data(&self, kind: &str, name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
        let object = self.api.get(&format!("/api/v1/namespaces/{}/{kind}/{name}", self.namespace))?;
        let data = object.as_ref().and_then(|object| object.get("data")).and_then(Value::as_object);
        let decoded = data.into_iter().flatten().map(|(key, value)| {
            let text = value.as_str().unwrap_or("");
            let bytes = if kind == "secrets" { STANDARD.decode(text)? } else { text.as_bytes().to_vec() };
            Ok((key.clone(), bytes))
        });
        decoded.collect()
    }
}

fn array<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A field as the downward API names it.
fn field<'a>(pod: &'a Value, path: &str) -> &'a str {
    match path {
        "spec.nodeName"
        | "spec.serviceAccountName"
        | "metadata.name"
        | "metadata.namespace"
        | "metadata.uid"
        | "status.podIP"
        | "status.hostIP" => text_at(pod, &format!("/{}", path.replace('.', "/"))),
        _ => "",
    }
}

/// `$(NAME)` replaced by the variable's value; unknown ones stay, and `$$` is a dollar.
fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest.strip_prefix("$(").and_then(|after| after.split_once(')')).map(|(name, _)| name);
        let (piece, length) = match name {
            Some(name) => (env.get(name).map(String::as_str), name.len() + 3),
            None if rest.starts_with("$$") => (Some("$"), 2),
            None => (None, 1),
        };
        expanded.push_str(piece.unwrap_or(&rest[..length]));
        rest = &rest[length..];
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_as_kubernetes_does() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in
            [("$(A)-$(B)", "1-$(B)"), ("$$(A)", "$(A)"), ("a$", "a$"), ("$(A", "$(A"), ("", "")]
        {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }

    #[test]
    fn mount_paths_are_rewritten_and_names_that_begin_alike_are_not() {
        let mounts = Mounts(vec![("/etc/a/b".into(), "/x/1".into()), ("/etc/a".into(), "/x/2".into())]);
        for (text, expected) in [
            ("--dir=/etc/a", "--dir=/x/2"),
            ("/etc/a/b/c:/etc/a/d", "/x/1/c:/x/2/d"),
            ("/etc/abc", "/etc/abc"),
            ("/etc/ab,/etc/a", "/etc/ab,/x/2"),
        ] {
            assert_eq!(mounts.rewrite(text), expected, "{text}");
        }
    }
}
