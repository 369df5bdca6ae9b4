//! The roles that the fleet adds to those that are there from the start (`hub/data/default_roles.json`).
//!
//! In: nothing but the file that is compiled in. Out: the roles; the access crate writes them at each start.
//!
//! People with `view` see Clusters, their links, policies and their results; with `edit` nothing of a Cluster is changed. Neither reads
//! Works: a Work holds the whole manifest of what it carries, Secrets among them, and of every namespace. Where things went, and how they
//! fare there, is in the bindings, which hold no manifest. A join token's holder gets nothing beyond what everybody with a credential has:
//! joining goes through the stream; who is about to join reads `cluster-info` without one.

use karmada_access::OwnRoles;

/// The fleet's roles.
pub fn default_roles() -> OwnRoles {
    serde_json::from_str(include_str!("../../data/default_roles.json"))
        .expect("the embedded roles parse, as the tests of karmada-access show")
}
