//! How objects that the control plane makes are named.
//!
//! In: kinds, names and namespaces as text. Out: a name, a namespace or a hash; nothing is checked. Pure.
//!
//! Names are found again by deriving them, never by listing, so every function here is fixed for good. A name of a binding, a Work or a
//! policy is what upstream makes it, byte for byte, where an API server takes one of that length; a longer one is cut, and ends in a hash
//! of the whole.

use sha2::{Digest, Sha256};

use crate::strings::namespaces;

/// Letters of [`safe_encode`]: no vowels and no look-alikes, so that no word comes out.
const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The longest name that an API server takes.
const LONGEST: usize = 253;

/// Bytes of the hash in which a name that was cut ends: as many as nobody finds two names for that have it alike, as whoever did could
/// have one object take another's place.
const HASH: usize = 16;

/// FNV-1a with 32 bits over the bytes of `text`.
pub fn fnv32a(text: &str) -> u32 {
    text.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619))
}

/// Replaces each character by a letter that is safe in names (`rand.SafeEncodeString`).
pub fn safe_encode(text: &str) -> String {
    text.chars().map(|c| char::from(SAFE_ALPHABET[c as usize % SAFE_ALPHABET.len()])).collect()
}

/// The hash suffix of names: [`safe_encode`] of the decimal [`fnv32a`].
fn hash_suffix(text: &str) -> String {
    safe_encode(&fnv32a(text).to_string())
}

/// The name, or one that fits: its beginning, and a hash of the whole.
fn fitting(name: String) -> String {
    if name.len() <= LONGEST {
        return name;
    }
    let hash: String = Sha256::digest(&name)[..HASH].iter().map(|byte| format!("{byte:02x}")).collect();
    let beginning = &name[..name.floor_char_boundary(LONGEST - 1 - hash.len())];
    // No part of a name ends in a dot or a hyphen.
    let beginning = beginning.trim_end_matches(|c: char| !c.is_alphanumeric());
    format!("{beginning}-{hash}")
}

/// Lower case character by character, as Go does it: no final sigma, no character becomes two.
fn lower(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

/// Name of the Work of an object: `nginx-687f7fb96f` for the Deployment default/nginx.
/// `namespace` is empty for a cluster-scoped object.
pub fn work_name(kind: &str, name: &str, namespace: &str) -> String {
    let name = lower(&name.replace(':', "."));
    let identity = if namespace.is_empty() {
        format!("{name}-{}", lower(kind))
    } else {
        format!("{}-{name}-{}", lower(namespace), lower(kind))
    };
    fitting(format!("{name}-{}", hash_suffix(&identity)))
}

/// Name of a Work whose usual name, `usual`, is another's; `id` is drawn by the hub for what the Work is made from.
pub fn second_work_name(usual: &str, id: &str) -> String {
    fitting(format!("{usual}-{}", hash_suffix(id)))
}

/// Name of the binding of an object: `nginx-deployment`.
pub fn binding_name(kind: &str, name: &str) -> String {
    fitting(lower(&format!("{}-{kind}", name.replace(':', "."))))
}

/// The key by which an attached binding names the binding that needs it.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { hash_suffix(name) } else { hash_suffix(&format!("{namespace}/{name}")) }
}

/// Name of the policy that `promote` makes; `gvk` is `group/version, Kind=Kind`.
pub fn policy_name(namespace: &str, name: &str, gvk: &str) -> String {
    fitting(format!("{}-{}", lower(&name.replace(':', ".")), hash_suffix(&format!("{namespace}{gvk}"))))
}

/// Namespace on the hub that holds the Works of `cluster`.
pub fn execution_namespace(cluster: &str) -> String {
    format!("{}{cluster}", namespaces::EXECUTION_PREFIX)
}

/// The cluster whose Works `namespace` holds; `None` for any other namespace.
pub fn cluster_of_execution_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(namespaces::EXECUTION_PREFIX)
}

/// Whether `namespace` belongs to the control plane, so that nothing in it is propagated.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace == namespaces::SYSTEM
        || namespace == namespaces::CLUSTER
        || namespace.starts_with(namespaces::EXECUTION_PREFIX)
}

/// Name of the service derived from a ServiceImport.
pub fn derived_service_name(service: &str) -> String {
    format!("derived-{service}")
}

/// `namespace/name`, or the name alone.
pub fn namespaced_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Common name of the agent of `cluster`.
pub fn agent_common_name(cluster: &str) -> String {
    format!("{}{cluster}", crate::strings::identity::AGENT_PREFIX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use karmada_field::names::dns_subdomain;
    use proptest::prelude::*;

    use super::*;

    /// What upstream makes of it, however long that is.
    fn uncut_binding_name(kind: &str, name: &str) -> String {
        format!("{name}-{}", kind.to_lowercase())
    }

    fn uncut_work_name(kind: &str, name: &str, namespace: &str) -> String {
        format!("{name}-{}", hash_suffix(&format!("{namespace}-{name}-{}", kind.to_lowercase())))
    }

    #[test]
    fn names_are_cut_where_an_api_server_takes_no_more_and_not_before() {
        let name = |letters: usize| "a".repeat(letters);
        // `-configmap` has ten letters.
        assert_eq!(binding_name("ConfigMap", &name(243)), uncut_binding_name("ConfigMap", &name(243)));
        let cut = binding_name("ConfigMap", &name(244));
        assert_eq!(cut.len(), LONGEST);
        assert!(cut.starts_with(&name(220)) && !cut.contains("configmap"), "{cut}");
        // The names are of objects that are there: they are the same for good.
        let hash = "3809d936f193691b6b546f7888e1acdf";
        assert_eq!(cut, format!("{}-{hash}", name(220)));
    }

    #[test]
    fn a_cut_name_ends_no_part_in_a_dot_or_a_hyphen() {
        for sign in [".", "-", ".-", "--"] {
            let name = format!("{}{sign}{}", "a".repeat(220 - sign.len()), "b".repeat(30));
            let cut = binding_name("ConfigMap", &name);
            assert_eq!(dns_subdomain(&cut), Vec::<String>::new(), "{cut}");
        }
        // A letter of several bytes is not cut in two.
        assert!(binding_name("ClusterRole", &"ä".repeat(200)).len() <= LONGEST);
    }

    fn a_name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z0-9]([a-z0-9]|[-.][a-z0-9]){0,20}",
            "[a-z0-9]([a-z0-9]|[-.][a-z0-9]){100,252}",
            // Alike but for their ends.
            "[a-c]{1,2}".prop_map(|end| "x".repeat(250) + &end),
        ]
        .prop_filter("a name", |name| name.len() <= LONGEST)
    }

    proptest! {
        #[test]
        fn names_fit_are_valid_and_each_its_own(
            names in prop::collection::btree_set((a_name(), "[A-Z][a-z]{2,20}"), 1..20),
            namespace in "[a-z0-9]{1,63}",
            id in "[a-z0-9-]{36}",
        ) {
            let mut seen = BTreeSet::new();
            for (name, kind) in &names {
                let work = work_name(kind, name, &namespace);
                let second = second_work_name(&work, &id);
                for made in [binding_name(kind, name), work.clone(), second, policy_name(&namespace, name, kind)] {
                    prop_assert_eq!(dns_subdomain(&made), Vec::<String>::new());
                }
                let (binding, uncut) = (binding_name(kind, name), uncut_binding_name(kind, name));
                prop_assert_eq!(binding == uncut, uncut.len() <= LONGEST);
                let uncut = uncut_work_name(kind, name, &namespace);
                prop_assert_eq!(work == uncut, uncut.len() <= LONGEST);
                prop_assert!(seen.insert(binding));
                prop_assert!(seen.insert(work));
            }
        }
    }
}
