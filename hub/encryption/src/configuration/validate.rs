//! What may be wrong with a file, all of it at once, at the path of each fault and in kube-apiserver's words.
//!
//! In: the file as it was parsed. Out: one refusal with every fault, or none; secrets are never shown. Also a key's bytes, and how long a
//! plugin may take. No plugin is asked.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::{Cipher, File, Invalid, KeyEntry, Keys, KmsEntry, ProviderEntry, split};

/// Faults that were found.
#[derive(Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    fn required(&mut self, path: &str, why: &str) {
        self.0.push(format!("{path}: Required value: {why}"));
    }

    fn invalid(&mut self, path: &str, value: impl Display, why: &str) {
        self.0.push(format!("{path}: Invalid value: {value}: {why}"));
    }

    /// All of them as one refusal, or none.
    pub fn end(self) -> Result<(), Invalid> {
        match self.0.as_slice() {
            [] => Ok(()),
            [one] => Err(Invalid(one.clone())),
            many => Err(Invalid(format!("[{}]", many.join(", ")))),
        }
    }
}

/// Judges the whole file.
pub(super) fn file(file: &File, problems: &mut Problems) {
    if file.resources.is_empty() {
        problems.required("resources", "at least one resources is required");
    }
    let mut plugins = BTreeSet::new();
    for (n, element) in file.resources.iter().enumerate() {
        let resources = format!("resources[{n}].resources");
        let providers = format!("resources[{n}].providers");
        if element.resources.is_empty() {
            problems.required(&resources, &format!("at least one {resources} is required"));
        }
        overlaps(&element.resources, &resources, problems);
        for (n, name) in element.resources.iter().enumerate() {
            if let Some(why) = misnamed(name) {
                problems.invalid(&format!("{resources}[{n}]"), format_args!("{name:?}"), why);
            }
        }
        if element.providers.is_empty() {
            problems.required(&providers, &format!("at least one {providers} is required"));
        }
        for (n, entry) in element.providers.iter().enumerate() {
            provider(entry, &format!("{providers}[{n}]"), &mut plugins, problems);
        }
    }
}

fn overlaps(names: &[String], path: &str, problems: &mut Problems) {
    let all: Vec<(&str, &str)> = names.iter().map(|name| split(name)).collect();
    let mut pairs =
        all.iter().enumerate().flat_map(|(n, one)| all[n + 1..].iter().map(move |other| (one, other)));
    let masks = |one: &(&str, &str), other: &(&str, &str)| {
        one != other && (*one == ("*", "*") || (one.1 == other.1 && one.0 == "*"))
    };
    let shown = format!("{names:?}");
    if pairs.clone().any(|(one, other)| one == other) {
        problems.invalid(path, &shown, "the same resource cannot be specified multiple times");
    }
    if pairs.any(|(one, other)| masks(one, other) || masks(other, one)) {
        let why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked";
        problems.invalid(path, &shown, why);
    }
}

fn misnamed(name: &str) -> Option<&'static str> {
    let (resource, group) = split(name);
    let internal = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];
    if name.chars().any(char::is_uppercase) {
        Some("resource name should not contain capital letters")
    } else if name == "*" {
        Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
    } else if internal.contains(&name) {
        Some("resources which do not have REST API/s cannot be encrypted")
    } else if group == "events.k8s.io" {
        Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        )
    } else if group == "extensions" {
        Some("'extensions' group has been removed and cannot be used for encryption")
    } else if group == "*" && resource != "*" {
        Some("encrypting the same resource across groups is not supported")
    } else {
        None
    }
}

fn provider(entry: &ProviderEntry, path: &str, plugins: &mut BTreeSet<String>, problems: &mut Problems) {
    let ProviderEntry { aescbc, aesgcm, secretbox, identity, kms } = entry;
    let found = [aescbc.is_some(), aesgcm.is_some(), secretbox.is_some(), identity.is_some(), kms.is_some()];
    match found.into_iter().filter(|is_there| *is_there).count() {
        0 => problems.invalid(
            path,
            "{}",
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        ),
        1 => {}
        _ => problems.invalid(
            path,
            "REDACTED",
            "more than one provider specified in a single element, should split into different list elements",
        ),
    }
    for (cipher, entry) in
        [(Cipher::AesCbc, aescbc), (Cipher::AesGcm, aesgcm), (Cipher::Secretbox, secretbox)]
    {
        if let Some(entry) = entry {
            keys(cipher, entry, path, problems);
        }
    }
    if let Some(kms) = kms {
        plugin(kms, &format!("{path}.kms"), plugins, problems);
        plugins.insert(kms.name.clone());
    }
}

fn keys(cipher: Cipher, entry: &Keys, path: &str, problems: &mut Problems) {
    let name = match cipher {
        Cipher::AesCbc => "aescbc",
        Cipher::AesGcm => "aesgcm",
        Cipher::Secretbox => "secretbox",
    };
    let path = format!("{path}.{name}.keys");
    if entry.keys.is_empty() {
        problems.required(&path, "at least one keys is required");
    }
    for (n, key) in entry.keys.iter().enumerate() {
        let path = format!("{path}[{n}]");
        if key.name.is_empty() {
            problems.required(&format!("{path}.name"), "name is a mandatory field for a key");
        }
        let path = format!("{path}.secret");
        let sizes = cipher.key_sizes();
        if key.secret.is_empty() {
            problems.required(&path, "secret is a mandatory field for a key");
            continue;
        }
        match decoded(key) {
            None => problems.invalid(&path, "\"REDACTED\"", "secrets must be base64 encoded"),
            Some(secret) if !sizes.contains(&secret.len()) => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                let why = format!(
                    "secret is not of the expected length, got {}, expected one of [{}]",
                    secret.len(),
                    sizes.join(" ")
                );
                problems.invalid(&path, "\"REDACTED\"", &why);
            }
            Some(_) => {}
        }
    }
}

/// The bytes of a key, where they are base64.
pub(super) fn decoded(key: &KeyEntry) -> Option<Zeroizing<Vec<u8>>> {
    STANDARD.decode(key.secret.as_bytes()).ok().map(Zeroizing::new)
}

fn plugin(entry: &KmsEntry, path: &str, others: &BTreeSet<String>, problems: &mut Problems) {
    let at = |field: &str| format!("{path}.{field}");
    let name = &entry.name;
    if name.is_empty() {
        problems.required(&at("name"), "name is a mandatory field for a provider");
    }
    if name.contains(':') {
        let why = format!("invalid KMS provider name {name}, must not contain ':'");
        problems.invalid(&at("name"), format_args!("{name:?}"), &why);
    }
    if others.contains(name) {
        let why = format!("duplicate KMS provider name {name}, names must be unique");
        problems.invalid(&at("name"), format_args!("{name:?}"), &why);
    }
    if timeout(entry).is_none() {
        let shown = entry.timeout.as_deref().unwrap_or_default();
        problems.invalid(&at("timeout"), format_args!("{shown:?}"), "timeout should be a positive value");
    }
    if entry.endpoint.is_empty() {
        problems.invalid(&at("endpoint"), "\"\"", "endpoint is a mandatory field for a kms");
    } else if !entry.endpoint.starts_with("unix:") {
        let scheme = entry.endpoint.split_once(':').map_or("", |(scheme, _)| scheme);
        let why = format!("unsupported scheme {scheme:?} for KMS provider, only unix is supported");
        problems.invalid(&at("endpoint"), format_args!("{:?}", entry.endpoint), &why);
    } else if !entry.endpoint.starts_with("unix:///") || entry.endpoint.starts_with("unix:///@") {
        problems.invalid(
            &at("endpoint"),
            format_args!("{:?}", entry.endpoint),
            "a file is named as unix:///PATH",
        );
    }
    match entry.api_version.as_deref() {
        Some("v2") => {
            if let Some(size) = entry.cachesize {
                problems.invalid(&at("cachesize"), size, "cachesize is not supported in v2");
            }
        }
        None | Some("v1") => problems.invalid(
            &at("apiVersion"),
            "\"v1\"",
            "KMSv1 is deprecated and not served here. Use KMSv2 instead (apiVersion: v2)",
        ),
        Some(other) => {
            let why = format!("unsupported apiVersion {other} for KMS provider, only v2 is supported");
            problems.invalid(&at("apiVersion"), format_args!("{other:?}"), &why);
        }
    }
}

/// How long a plugin may take: `3s` unless the file says otherwise.
pub(super) fn timeout(entry: &KmsEntry) -> Option<Duration> {
    let Some(text) = &entry.timeout else { return Some(Duration::from_secs(3)) };
    let span: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(span).ok().filter(|timeout| !timeout.is_zero())
}
