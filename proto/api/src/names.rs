//! How objects that the control plane makes are named.
//!
//! In: kinds, names and namespaces as text. Out: a name, a namespace or a hash; nothing is checked or shortened. Pure.
//!
//! Names are found again by deriving them, never by listing, so every function here is fixed for good. Long
//! names are not shortened: upstream does not, and a different name would be a second object.

use crate::strings::namespaces;

/// Letters of [`safe_encode`]: no vowels and no look-alikes, so that no word comes out.
const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

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
    format!("{name}-{}", hash_suffix(&identity))
}

/// Name of a Work whose usual name, `usual`, is another's; `id` is drawn by the hub for what the Work is made from.
pub fn second_work_name(usual: &str, id: &str) -> String {
    format!("{usual}-{}", hash_suffix(id))
}

/// Name of the binding of an object: `nginx-deployment`.
pub fn binding_name(kind: &str, name: &str) -> String {
    lower(&format!("{}-{kind}", name.replace(':', ".")))
}

/// The key by which an attached binding names the binding that needs it.
pub fn binding_reference_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { hash_suffix(name) } else { hash_suffix(&format!("{namespace}/{name}")) }
}

/// Name of the policy that `promote` makes; `gvk` is `group/version, Kind=Kind`.
pub fn policy_name(namespace: &str, name: &str, gvk: &str) -> String {
    format!("{}-{}", lower(&name.replace(':', ".")), hash_suffix(&format!("{namespace}{gvk}")))
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

/// Name of the service account for `cluster` in a member.
pub fn service_account_name(cluster: &str) -> String {
    format!("karmada-{cluster}")
}

/// Name of the role of a service account in a member.
pub fn role_name(service_account: &str) -> String {
    format!("karmada-controller-manager:{service_account}")
}

/// Name of the secret with the impersonation token of `cluster`.
pub fn impersonation_secret_name(cluster: &str) -> String {
    format!("{cluster}-impersonator")
}

/// Name of the estimator's service of `cluster`.
pub fn estimator_service_name(prefix: &str, cluster: &str) -> String {
    format!("{prefix}-{cluster}")
}

/// Name of the estimator's deployment of `cluster`.
pub fn estimator_deployment_name(cluster: &str) -> String {
    estimator_service_name("karmada-scheduler-estimator", cluster)
}

/// Name of an EndpointSlice that came from `cluster`.
pub fn endpoint_slice_name(slice: &str, cluster: &str) -> String {
    format!("imported-{cluster}-{slice}")
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
