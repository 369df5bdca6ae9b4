//! The file: an EncryptionConfiguration of apiserver.config.k8s.io/v1, read, validated and turned into rules.
//!
//! In: its text. Out: for each resource that is named (by name, by group, or as everything) its providers, or everything that is wrong
//! with the file, worded as kube-apiserver does; of keys only that they are wrong, never what they are.

mod validate;

use std::time::Duration;

use karmada_schema::yaml::{self, YamlError};
use serde::Deserialize;
use zeroize::Zeroizing;

use validate::Problems;

/// What a value begins with that a key management service encrypted, before the name of the provider.
pub(crate) const KMS_PREFIX: &str = "k8s:enc:kms:v2:";

/// Why a file is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// What the file says.
#[derive(Debug)]
pub struct Configuration {
    rules: Vec<Rule>,
}

/// The providers of a resource, of a group's resources (`*.group`), or of all (`*.*`).
#[derive(Debug)]
pub(crate) struct Rule {
    resource: String,
    group: String,
    /// Indices into the providers of the file.
    pub providers: Vec<Provider>,
}

/// One way to write values down.
#[derive(Clone, Debug)]
pub(crate) enum Provider {
    Identity,
    Keyed(Cipher, Vec<Key>),
    Kms(Plugin),
}

/// A cipher whose keys are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cipher {
    AesCbc,
    AesGcm,
    Secretbox,
}

/// A named key.
#[derive(Clone)]
pub(crate) struct Key {
    pub name: String,
    pub secret: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A key management service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    pub name: String,
    pub endpoint: String,
    pub timeout: Duration,
}

/// Kinds that hold what other kinds hold: Works have the manifests of whatever is propagated, Secrets too, and override policies the
/// values that are written into them. They are covered where anything is, unless the file names them itself.
const CARRIERS: [(&str, &str); 3] = [
    ("work.karmada.io", "works"),
    ("policy.karmada.io", "overridepolicies"),
    ("policy.karmada.io", "clusteroverridepolicies"),
];

impl Configuration {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(text: &str) -> Result<Configuration, Invalid> {
        if text.trim().is_empty() {
            return Err(Invalid("the encryption provider configuration is empty".into()));
        }
        let file: File = yaml::read_as(text).map_err(|error| Invalid(unreadable(&error)))?;
        if file.kind != "EncryptionConfiguration" || file.api_version != "apiserver.config.k8s.io/v1" {
            return Err(Invalid(format!(
                "got unexpected config type: {}, Kind={}, expected apiserver.config.k8s.io/v1, Kind=EncryptionConfiguration",
                file.api_version, file.kind
            )));
        }
        let mut problems = Problems::default();
        validate::file(&file, &mut problems);
        problems.end()?;
        Ok(Configuration { rules: rules(file)? })
    }

    /// The providers of a resource; none: it is stored as it is.
    pub(crate) fn providers_of(&self, group: &str, resource: &str) -> Option<(usize, &Rule)> {
        let named = |(group, resource): (&str, &str)| {
            let mut rules = self.rules.iter().enumerate();
            rules.find(|(_, rule)| rule.group == group && rule.resource == resource)
        };
        let own = named((group, resource)).or_else(|| named((group, "*")));
        let carried = || {
            let carries = CARRIERS.contains(&(group, resource));
            let secrets = named(("", "secrets")).or_else(|| named(("", "*")));
            let encrypted = || self.rules.iter().enumerate().find(|(_, rule)| rule.encrypts());
            carries.then(|| secrets.filter(|(_, rule)| rule.encrypts()).or_else(encrypted)).flatten()
        };
        own.or_else(carried).or_else(|| named(("*", "*")))
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// How values are written now, by names alone: where it is the same, nothing needs to be written anew.
    pub(crate) fn layout(&self) -> String {
        let rule = |rule: &Rule| {
            let first = match rule.providers.first() {
                Some(Provider::Keyed(cipher, keys)) => {
                    format!("{}{}", cipher.prefix(), keys.first().map_or("", |key| &key.name))
                }
                Some(Provider::Kms(plugin)) => format!("{}{}", KMS_PREFIX, plugin.name),
                Some(Provider::Identity) | None => "identity".into(),
            };
            format!("{}.{}={first}\n", rule.resource, rule.group)
        };
        self.rules.iter().map(rule).collect()
    }
}

impl Rule {
    fn encrypts(&self) -> bool {
        !matches!(self.providers.first(), None | Some(Provider::Identity))
    }
}

impl Cipher {
    /// What a stored value begins with, before the name of its key.
    pub fn prefix(self) -> &'static str {
        match self {
            Cipher::AesCbc => "k8s:enc:aescbc:v1:",
            Cipher::AesGcm => "k8s:enc:aesgcm:v1:",
            Cipher::Secretbox => "k8s:enc:secretbox:v1:",
        }
    }

    /// Lengths of its keys.
    fn key_sizes(self) -> &'static [usize] {
        match self {
            Cipher::AesCbc | Cipher::AesGcm => &[16, 24, 32],
            Cipher::Secretbox => &[32],
        }
    }
}

/// A parser may quote what it could not read, and that may be a key.
fn unreadable(error: &YamlError) -> String {
    let place = error.place.map(|place| format!(" at {place}"));
    format!(
        "error decoding encryption provider configuration: it is no EncryptionConfiguration in YAML or JSON{}",
        place.unwrap_or_default()
    )
}

fn rules(file: File) -> Result<Vec<Rule>, Invalid> {
    let mut rules: Vec<Rule> = Vec::new();
    for element in file.resources {
        let providers: Vec<Provider> = element.providers.into_iter().filter_map(provider).collect();
        for name in &element.resources {
            let (resource, group) = split(name);
            let masking = [("*", group), ("*", "*")].into_iter().find(|(any, all)| {
                (*any, *all) != (resource, group)
                    && rules.iter().any(|rule| rule.resource == *any && rule.group == *all)
            });
            if let Some((any, all)) = masking {
                return Err(Invalid(format!(
                    "resource {name:?} is masked by earlier rule {:?}",
                    written(any, all)
                )));
            }
            match rules.iter_mut().find(|rule| rule.resource == resource && rule.group == group) {
                Some(rule) => rule.providers.extend(providers.iter().cloned()),
                None => rules.push(Rule {
                    resource: resource.to_owned(),
                    group: group.to_owned(),
                    providers: providers.clone(),
                }),
            }
        }
    }
    Ok(rules)
}

/// `deployments.apps`: the resource and its group. `*.` is every resource of the core group.
fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

fn written(resource: &str, group: &str) -> String {
    if group.is_empty() && resource != "*" { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// What validation has found to be right.
fn provider(entry: ProviderEntry) -> Option<Provider> {
    let keyed = |cipher, keys: Keys| Provider::Keyed(cipher, keys.keys.into_iter().filter_map(key).collect());
    let ProviderEntry { aescbc, aesgcm, secretbox, identity, kms } = entry;
    aescbc
        .map(|keys| keyed(Cipher::AesCbc, keys))
        .or_else(|| aesgcm.map(|keys| keyed(Cipher::AesGcm, keys)))
        .or_else(|| secretbox.map(|keys| keyed(Cipher::Secretbox, keys)))
        .or_else(|| identity.map(|_| Provider::Identity))
        .or_else(|| kms.and_then(plugin).map(Provider::Kms))
}

fn key(entry: KeyEntry) -> Option<Key> {
    let secret = validate::decoded(&entry)?;
    Some(Key { name: entry.name, secret })
}

fn plugin(entry: KmsEntry) -> Option<Plugin> {
    let timeout = validate::timeout(&entry)?;
    Some(Plugin { name: entry.name, endpoint: entry.endpoint, timeout })
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    resources: Vec<Element>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Element {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<ProviderEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    aescbc: Option<Keys>,
    aesgcm: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<Identity>,
    kms: Option<KmsEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    keys: Vec<KeyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    #[serde(default)]
    name: String,
    #[serde(default, deserialize_with = "wiped")]
    secret: Zeroizing<String>,
}

fn wiped<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KmsEntry {
    #[serde(default, rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    endpoint: String,
    #[serde(default)]
    cachesize: Option<i64>,
    #[serde(default)]
    timeout: Option<String>,
}

#[cfg(test)]
mod tests;
