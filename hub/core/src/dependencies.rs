//! What a template refers to follows it: to the clusters of its binding, through bindings of its own.
//!
//! In: a binding whose policy says `propagateDeps` (the *referrer*), what its template depends on by the interpreter's word, and which of those
//! objects there are. Out: the objects that follow, each with an *attached* binding in the referrer's namespace. An attached binding has no
//! placement of its own: its clusters are those of the referrers that it lists in `requiredBy`. An object that a policy places as well has one
//! binding for both: its own clusters count, and those of its referrers.
//!
//! ```text
//! dependencies ── recorded ─▶ on the referrer: what follows it, by which objects that come later are known; and its finalizer
//! objects      ── wanted   ─▶ which of them follow, and why others do not
//! each         ── attached ─▶ its attached binding with the referrer in it, or without
//! referrers    ── agreement ▶ what holds for an attached binding that they share
//! ```

pub mod agreement;
pub mod attached;
pub mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use karmada_api::binding::{ObjectReference, ResourceBinding};
use karmada_api::names;
use karmada_api::selector::SelectorError;
use karmada_api::strings::labels;
use karmada_interpreter::DependentObject;

use crate::skipped_resources::skips_kind;
use recorded::Candidate;

/// The key of the label by which an attached binding names one of its referrers; its value is the referrer's permanent id.
pub fn label_key(namespace: &str, name: &str) -> String {
    format!("{}{}", labels::DEPENDED_BY_PREFIX, names::binding_reference_key(namespace, name))
}

/// Why something that a template depends on does not follow it. None of this goes by itself: what wakes the referrer again is a change of its
/// template, of a customization, or an object that comes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The hub serves no such kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    NotServed {
        /// Its group and version.
        api_version: String,
        /// Its name.
        kind: String,
    },
    /// It says neither a name nor labels.
    #[error("a dependency of kind {0} has neither a name nor a labelSelector")]
    Nameless(String),
    /// Its label selector cannot be read.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Whoever may write in one namespace has no right to another's objects.
    #[error(
        "{kind} {name} is not in namespace {own}: what a template depends on follows it within its own namespace"
    )]
    Elsewhere {
        /// Kind of the dependency.
        kind: String,
        /// Its namespace and name.
        name: String,
        /// Namespace of the referrer.
        own: String,
    },
    /// The hub's own kinds go nowhere.
    #[error("objects of {api_version} {kind} are never propagated")]
    Never {
        /// Its group and version.
        api_version: String,
        /// Its name.
        kind: String,
    },
}

/// One dependency, and which objects of its kind could be meant: the one that has its name, or all of the namespace where it has none.
pub struct DependencyCandidates<'a> {
    /// What the template depends on.
    pub dependency: &'a DependentObject,
    /// What there is; absent where the kind is not served.
    pub found: Option<Vec<Candidate<'a>>>,
}

/// What follows a referrer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachedObjects {
    /// The objects, by the names of their bindings. Of two that share a binding's name, the first.
    pub objects: BTreeMap<String, ObjectReference>,
    /// Names of bindings that stay attached where they are, though their objects are not there now: they go with those, or serve them again.
    pub stays: BTreeSet<String>,
    /// Why something does not follow.
    pub problems: Vec<Problem>,
}

impl AttachedObjects {
    /// Whether an attached binding is let go of. Where a selector cannot be read nobody knows what it means, and nothing is.
    pub fn lets_go_of(&self, binding: &str) -> bool {
        let unknown = self.problems.iter().any(|problem| matches!(problem, Problem::Selector(_)));
        !unknown && !self.objects.contains_key(binding) && !self.stays.contains(binding)
    }
}

/// Whether a dependency can follow a referrer at all.
///
/// # Errors
/// [`Problem`]: it has neither name nor selector, is in another namespace, or is of a kind that never follows.
pub fn reach(referrer: &ResourceBinding, dependency: &DependentObject) -> Result<(), Problem> {
    let DependentObject { api_version, kind, namespace, name, label_selector } = dependency;
    if name.is_empty() && label_selector.is_none() {
        return Err(Problem::Nameless(kind.clone()));
    }
    if namespace != referrer.namespace() {
        let (kind, own) = (kind.clone(), referrer.namespace().to_owned());
        return Err(Problem::Elsewhere { kind, name: names::namespaced_key(namespace, name), own });
    }
    if skips_kind(api_version, kind) {
        return Err(Problem::Never { api_version: api_version.clone(), kind: kind.clone() });
    }
    Ok(())
}

/// What follows `referrer`, of what was seen. Its own template is none of it.
pub fn wanted(referrer: &ResourceBinding, sights: &[DependencyCandidates<'_>]) -> AttachedObjects {
    let mut wanted = AttachedObjects::default();
    for sight in sights {
        if let Err(problem) = see(referrer, sight, &mut wanted) {
            wanted.problems.push(problem);
        }
    }
    wanted.objects.remove(referrer.name());
    wanted
}

fn see(
    referrer: &ResourceBinding,
    sight: &DependencyCandidates<'_>,
    wanted: &mut AttachedObjects,
) -> Result<(), Problem> {
    let dependency = sight.dependency;
    reach(referrer, dependency)?;
    let binding = |name: &str| names::binding_name(&dependency.kind, name);
    if !dependency.name.is_empty() {
        wanted.stays.insert(binding(&dependency.name));
    }
    let Some(found) = &sight.found else {
        let DependentObject { api_version, kind, .. } = dependency.clone();
        return Err(Problem::NotServed { api_version, kind });
    };
    if found.is_empty() {
        // A selector that cannot be read is told also while nothing could match it.
        recorded::check(dependency)?;
    }
    for candidate in found {
        if recorded::means(dependency, candidate)? {
            let object = candidate.reference(&dependency.api_version);
            wanted.objects.entry(binding(candidate.name)).or_insert(object);
        }
    }
    Ok(())
}
